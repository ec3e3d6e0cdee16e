"""Mutants that no test can notice, each with the reason: they do not count, but are printed."""

from __future__ import annotations

_UNCHOSEN = "The quotient by 0 stands in the branch that the outer where, or the caller, does not take."

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "asyncsim/learning/ratios.py",
        "largest = torch.where(shift == -math.inf, torch.zeros_like(shift), shift)",
        "zeros_like -> ones_like",
    ): "Where every weight is 0, so is each relative to any finite largest one, and log 0 stays -inf.",
    (
        "asyncsim/learning/ratios.py",
        "if flat_mass.shape[0] != flat.shape[0]:",
        "0 -> 1 (2)",
    ): "Expanding a mass to its own shape changes nothing; one that is not expanded is broadcast.",
    (
        "asyncsim/learning/step.py",
        'if gap.device.type == "cpu" and math.isfinite(gap.sum()):',
        "sum -> mean",
    ): "Only whether it is finite is read, and a sum that overflows takes the longer way to the same numbers.",
    (
        "asyncsim/methods/_bapo.py",
        "steps = int(((cap - start) / rise - 1e-9).ceil().clamp(min=0).max())",
        "0 -> 1",
    ): "One more bound, which is the cap again.",
    (
        "asyncsim/methods/_given.py",
        "weight = torch.where(share > 0, cotangent / torch.where(share > 0, share, torch.ones_like(share)), 0.0)",
        "> -> >= (2)",
    ): _UNCHOSEN,
    (
        "asyncsim/advantages/_baselines.py",
        "return torch.where(total > 0, heavy / torch.where(total > 0, total, torch.ones_like(total)), pool.mass)",
        "> -> >= (2)",
    ): _UNCHOSEN,
    (
        "asyncsim/advantages/_baselines.py",
        "return moment / torch.where(total > 0, total, torch.ones_like(total)), total",
        "> -> >=",
    ): _UNCHOSEN,
    (
        "asyncsim/advantages/_baselines.py",
        "return moment / torch.where(total > 0, total, torch.ones_like(total)), total",
        "ones_like -> zeros_like",
    ): _UNCHOSEN,
    (
        "asyncsim/methods/_given.py",
        "empty = (mask.sum((1, 2, 3)) == 0).nonzero()",
        "sum -> mean",
    ): "Only whether it is 0 is read.",
    (
        "asyncsim/methods/_adaptive.py",
        'return torch.from_numpy(np.argsort(key.numpy(), axis=-1)) if key.device.type == "cpu" else key.argsort(-1)',
        "-1 -> -2 (2)",
    ): "Only accelerators run it, which this suite does without.",
    (
        "asyncsim/methods/_adaptive.py",
        "return key.sort(-1).values",
        "-1 -> -2",
    ): "Only accelerators run it, which this suite does without.",
    (
        "asyncsim/updates/align.py",
        "remains = low * (1.0 - kappa**2).clamp(min=0.0).sqrt() / (kappa * (1.0 - low**2).sqrt())",
        "clamp: drop min",
    ): "The cosine has been limited to [-1, 1], so that no square exceeds 1.",
    (
        "asyncsim/methods/_adaptive.py",
        "self.equal = bool(((step.mass == step.mass.max()) | (step.mass == 0)).all())",
        "max -> min",
    ): "Only where some masses are 0 and the others equal is it another answer, and then only a longer way.",
    (
        "asyncsim/methods/_corrections.py",
        "if self.top is not None and self.top < prob.shape[-1]:",
        "< -> <=",
    ): "Where every action is among the likeliest nothing is behind them.",
    (
        "asyncsim/methods/p3o.py",
        "return (least >= -ratios.LOG_LIMIT) & (largest <= ratios.LOG_LIMIT)",
        "drop -",
    ): "The longer way in log space gives the same number.",
    (
        "asyncsim/methods/tba.py",
        "return 2.0 / per_sample(self.beta) * torch.ones_like(step.mask[..., :1])",
        "* -> /",
    ): "By ones.",
    (
        "asyncsim/learning/step.py",
        'if sums.device.type != "cpu" or not math.isfinite(sums.sum()):',
        "!= -> ==",
    ): "The longer way gives the same number.",
    (
        "asyncsim/learning/ratios.py",
        "reached = (held > 0) & (below >= level * below[:, -1:] - 1e-12)",
        "> -> >=",
    ): "What has no mass stands behind all that has.",
    ("asyncsim/methods/_adaptive.py", 'if key.device.type != "cpu":', "!= -> =="): "Both ways sort.",
    (
        "asyncsim/methods/_bapo.py",
        '"low": knob("low", low[0], "the lower bound of the ratio starts there", 0.0, 1.0),',
        "1.0 -> 2.0",
    ): "A start above 1 is above its cap, which is refused as well.",
    (
        "asyncsim/methods/_given.py",
        "return torch.zeros(like.shape[:3], dtype=like.dtype, device=like.device)",
        "zeros -> ones",
    ): "Nobody reads rewards that were not given.",
    (
        "asyncsim/methods/vespo.py",
        "return torch.where(advantage >= 0, above, below).exp() * advantage",
        ">= -> >",
    ): "Any finite weight times an advantage of 0 is 0.",
    (
        "asyncsim/advantages/_traces.py",
        "for t in range(delta.shape[-1] - 1, -1, -1):",
        "-1 -> -2 (2)",
    ): "One more turn writes the last token again, behind which nothing is carried.",
    (
        "asyncsim/learning/step.py",
        "return gap.mul_(self.mask).add_(0.0)",
        "add_ -> sub_",
    ): "It decides the sign of zeros.",
    (
        "asyncsim/learning/ratios.py",
        "if flat_mass.shape[0] != flat.shape[0]:",
        "0 -> 1",
    ): "Expanding a mass to its own shape changes nothing; one that is not expanded is broadcast.",
    (
        "asyncsim/penalties/divergences.py",
        "term = term if weight is None else term * weight.unsqueeze(-1)",
        "-1 -> -2",
    ): "The weight is that of a sequence, whose last axis has length 1.",
    (
        "asyncsim/updates/ess_step.py",
        "scale = torch.clamp(ess / self.reference, max=1.0)",
        "clamp: drop max",
    ): "The band, of factor 1 or more, makes it 1 from there on.",
    (
        "asyncsim/advantages/otb.py",
        "base = torch.where(alive * step.size < 1.5, torch.zeros_like(base), base)",
        "< -> <=",
    ): "It counts samples, which is a whole number.",
    (
        "asyncsim/advantages/n_step.py",
        "return mask_out(self.targets(step) - torch.where(batch.mask > 0, value, torch.zeros_like(value)), batch.mask)",
        "> -> >=",
    ): "What stands on masked tokens is taken out once more.",
    (
        "asyncsim/advantages/vtrace.py",
        "return torch.where(step.mask > 0, error, torch.zeros_like(error))",
        "> -> >=",
    ): "Rewards and values of masked tokens, and what would follow them, are 0 before.",
}
"""(file, the line with single spaces, change as printed) -> why the mutant behaves like the original."""
