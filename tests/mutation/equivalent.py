"""Mutants that no test can notice, each with the reason: they do not count, but are printed."""

from __future__ import annotations

_UNCHOSEN = "The quotient by 0 stands in the branch that the outer where, or the caller, does not take."

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "asyncsim/ratios.py",
        "largest = torch.where(shift == -math.inf, torch.zeros_like(shift), shift)",
        "zeros_like -> ones_like",
    ): "Where every weight is 0, so is each relative to any finite largest one, and log 0 stays -inf.",
    (
        "asyncsim/ratios.py",
        "if flat_mass.shape[0] != flat.shape[0]:",
        "0 -> 1 (2)",
    ): "Expanding a mass to its own shape changes nothing; one that is not expanded is broadcast.",
    (
        "asyncsim/likelihoods.py",
        'if gap.device.type == "cpu" and math.isfinite(gap.sum()):',
        "sum -> mean",
    ): "Only whether it is finite is read, and a sum that overflows takes the longer way to the same numbers.",
    (
        "asyncsim/methods/_bapo.py",
        "steps = int(((cap - start) / step - 1e-9).ceil().clamp(min=0).max())",
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
        "asyncsim/advantages/vtrace.py",
        "return torch.where(likelihoods_of(samples).mask > 0, error, torch.zeros_like(error))",
        "> -> >=",
    ): "Rewards and values of masked tokens, and what would follow them, are 0 before.",
}
"""(file, the line with single spaces, change as printed) -> why the mutant behaves like the original."""
