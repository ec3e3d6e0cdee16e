"""PPO and its relatives, weighted scores, masks in probabilities."""

import torch

import asyncsim as sim


def dual_clip(p):
    advantage = p.centered()
    clipped = p.clipped(advantage, 0.2, 0.2)
    return p.token_mean(torch.where(advantage < 0, torch.max(clipped, 1.5 * advantage), clipped))


def group_relative(p):
    gap = p.kept(p.live - p.reference)
    return p.sequence_mean(p.clipped(p.standardized(), 0.2, 0.2) - 0.3 * ((-gap).exp() - 1.0 + gap))


def dynamic_sampling(p):
    """Tokens are counted in the groups that are left."""
    differ = (p.reward.amax(-1) > p.reward.amin(-1)).double()[..., None, None]
    left = p.mask * differ
    total = (left * p.clipped(p.standardized(), 0.2, 0.28)).sum((1, 2, 3))
    count = left.sum((1, 2, 3))
    return torch.where(count > 0, total / count.clamp(min=1.0), 0.0 * total)


def interpolated(p, low=0.1, high=0.2):
    """Decoupled PPO with a snapshot in log space between pi (detached) and mu, as the age of the token says."""
    alpha = 1.0 - 1.0 / p.age.clamp(min=1.0)
    snapshot = alpha * p.live.detach() + (1.0 - alpha) * p.behavior
    clipped = p.clipped(p.centered(), low, high, p.exp(p.live - snapshot))
    return p.token_mean(p.exp(snapshot - p.behavior) * clipped)


def geometric(p, live):
    return (p.kept(live - p.behavior).sum(-1, keepdim=True) / p.lengths.unsqueeze(-1)).exp()


def by_sequence(p):
    return p.clipped(p.standardized(), 0.1, 0.05, geometric(p, p.live))[..., 0].mean((1, 2))


def by_token(p):
    """s_it = sg(s_i) pi / sg(pi)."""
    ratio = geometric(p, p.live).detach() * p.exp(p.live - p.live.detach())
    return p.sequence_mean(p.clipped(p.standardized(), 0.1, 0.05, ratio))


def product_of_clips(p):
    """The T-th root of the product of |min(rho, clip(rho))|, taken with the sign of A."""
    advantage = p.standardized()
    sign = torch.where(advantage < 0, -1.0, 1.0)
    band = torch.tensor([-0.2, 0.1], dtype=torch.float64).exp()
    each = torch.min(p.ratio * sign, p.ratio.clamp(band[0], band[1]) * sign).abs()
    product = torch.where(p.mask > 0, each, 1.0).prod(-1, keepdim=True)
    return (advantage * product ** (1.0 / p.lengths.unsqueeze(-1)))[..., 0].mean((1, 2))


def masked_score(p, weight, ratio, low=0.1, high=0.05):
    """sg(weight) A log pi M, M as the general form of CISPO prints it."""
    advantage = p.standardized()
    closed = ((advantage > 0) & (ratio > 1 + high)) | ((advantage < 0) & (ratio < 1 - low))
    return p.token_mean(weight * advantage * torch.where(closed, 0.0, p.live))


def corrected(p):
    weight = p.behavior_ratio.clamp(max=1.1) * p.drift.detach().clamp(0.95, 1.05)
    return p.token_mean(weight * p.standardized() * p.live)


def tapered(p):
    weight = torch.where(p.centered() < 0, p.sequence.detach().clamp(max=1.0), 1.0)
    return p.sequence_sum(weight * p.centered() * p.live)


def tapered_tokens(p):
    weight = torch.where(p.reward.unsqueeze(-1) > 0, 2.0, 0.5 * p.ratio.detach().clamp(max=1.0))
    return p.token_mean(weight * p.centered() * p.live)


def gamma_shaped(p):
    def phi(k, lam):
        return p.sequence.detach() ** k * (lam * (1.0 - p.sequence.detach())).exp()

    weight = torch.where(p.standardized() >= 0, phi(2.0, 3.0), phi(3.0, 2.0))
    return p.token_mean(weight * p.standardized() * p.live)


def soft_gate(p):
    advantage = p.standardized()
    tau = torch.where(advantage > 0, torch.tensor(2.0).double(), torch.tensor(3.0).double())
    return p.sequence_mean(4.0 / tau * torch.sigmoid(tau * (p.ratio - 1.0)) * advantage)


def delighted(p):
    gate = 1.0 / (1.0 + (p.centered() * p.live.detach() / 0.7).exp())
    return p.token_mean(gate * p.centered() * p.live)


def gaussian(p):
    far = p.kept(p.live - p.behavior).detach().clamp(-0.5, 0.5)
    ratio = p.ratio.detach().clamp(0.7, 1.3)
    return p.token_mean(torch.exp(-(far**2) / (2 * 0.3**2)) * ratio * p.centered() * p.live)


def moved(p):
    return p.kept(p.live.detach().exp() - p.behavior.exp())


def one_sided(p, inside_above, inside_below):
    """A mask of tokens by the sign of A."""
    return torch.where(p.centered() > 0, inside_above, inside_below).double()


def total_variation(p):
    mask = one_sided(p, moved(p) <= 0.03, moved(p) >= -0.05)
    return p.token_mean(p.ratio.detach().clamp(max=1.2) * mask * p.centered() * p.live)


def bernoulli(p, swap=False):
    now, then = (torch.distributions.Bernoulli(probs=p.kept(x).exp()) for x in (p.live.detach(), p.behavior))
    return torch.distributions.kl_divergence(now, then) if swap else torch.distributions.kl_divergence(then, now)


def binary_kl(p):
    near, step = bernoulli(p), moved(p)
    mask = one_sided(p, ~((near > 0.01) & (step > 0)), ~((near > 0.004) & (step < 0)))
    return p.token_mean(p.ratio.detach().clamp(max=1.2) * mask * p.centered() * p.live)


def pulled(p, mask):
    """Live ratio under a mask, less the squared log ratio of every token, masked or not."""
    return p.token_mean(mask * p.ratio * p.centered() - 0.1 * p.kept(p.live - p.behavior) ** 2)


PAPERS = {
    "ppo_clip dual": (lambda: sim.methods.ppo_clip(dual=1.5), dual_clip),
    "grpo kl": (lambda: sim.methods.grpo(kl=0.3), group_relative),
    "dapo": (lambda: sim.methods.dapo(), dynamic_sampling),
    "decoupled_ppo": (
        lambda: sim.methods.decoupled_ppo(0.05, 0.05, cap=1.2),
        lambda p: p.token_mean(p.behavior_ratio.clamp(max=1.2) * p.clipped(p.centered(), 0.05, 0.05, p.drift)),
    ),
    "decoupled_ppo uncapped": (
        lambda: sim.methods.decoupled_ppo(0.05, 0.05, cap=None),
        lambda p: p.token_mean(p.behavior_ratio * p.clipped(p.centered(), 0.05, 0.05, p.drift)),
    ),
    "decoupled_ppo drop": (
        lambda: sim.methods.decoupled_ppo(0.05, 0.05, cap=1.2, beyond="drop"),
        lambda p: p.token_mean(
            p.behavior_ratio * (p.behavior_ratio <= 1.2) * p.clipped(p.centered(), 0.05, 0.05, p.drift)
        ),
    ),
    "a3po": (lambda: sim.methods.a3po(0.1, 0.2), interpolated),
    "gspo": (lambda: sim.methods.gspo(0.1, 0.05), by_sequence),
    "gspo token": (lambda: sim.methods.gspo(0.1, 0.05), by_token),
    "gmpo": (lambda: sim.methods.gmpo(0.2, 0.1), product_of_clips),
    "cispo": (
        lambda: sim.methods.cispo(0.2, 0.1),
        lambda p: p.token_mean(p.ratio.detach().clamp(0.8, 1.1) * p.standardized() * p.live),
    ),
    "cispo corrected": (lambda: sim.methods.cispo(0.05, 0.05, anchor="proximal", cap=1.1), corrected),
    "cispo masked": (
        lambda: sim.methods.cispo(0.2, 0.3, mask=(0.1, 0.05)),
        lambda p: masked_score(p, p.ratio.detach().clamp(0.8, 1.3), p.ratio.detach()),
    ),
    "cispo masked corrected": (
        lambda: sim.methods.cispo(0.05, 0.05, anchor="proximal", cap=1.1, mask=(0.02, 0.01)),
        lambda p: masked_score(
            p, p.behavior_ratio.clamp(max=1.1) * p.drift.detach().clamp(0.95, 1.05), p.drift.detach(), 0.02, 0.01
        ),
    ),
    "cispo open": (
        lambda: sim.methods.cispo(1.0, 1e9, mask=(0.2, 0.1)),
        lambda p: p.token_mean(p.clipped(p.standardized(), 0.2, 0.1)),
    ),
    "topr": (lambda: sim.methods.topr(), tapered),
    "topr shifted": (
        lambda: sim.methods.topr(sim.advantages.offset(1.5)),
        lambda p: p.sequence_sum(p.sequence.detach().clamp(max=1.0) * (p.reward.unsqueeze(-1) - 1.5) * p.live),
    ),
    "topr_roll": (lambda: sim.methods.topr_roll(2.0, 0.5), tapered_tokens),
    "vespo": (lambda: sim.methods.vespo(), gamma_shaped),
    "sapo": (lambda: sim.methods.sapo(2.0, 3.0), soft_gate),
    "delight": (lambda: sim.methods.delight(0.7), delighted),
    "gipo": (lambda: sim.methods.gipo(0.3, limit=0.5, lowest=0.7, highest=1.3), gaussian),
    "dppo_tv": (lambda: sim.methods.dppo_tv(0.05, 0.03, cap=1.2), total_variation),
    "dppo_kl": (lambda: sim.methods.dppo_kl(0.004, 0.01, cap=1.2), binary_kl),
    "dppo_prime": (
        lambda: sim.methods.dppo_prime(0.05, 0.03, kl=0.1),
        lambda p: pulled(p, one_sided(p, moved(p) <= 0.03, moved(p) >= -0.05)),
    ),
    "ipo_mask": (lambda: sim.methods.ipo_mask(0.05, kl=0.1), lambda p: pulled(p, moved(p).abs() <= 0.05)),
    "kpop": (
        lambda: sim.methods.kpop(0.005, kl=0.1),
        lambda p: pulled(p, torch.max(bernoulli(p), bernoulli(p, swap=True)) <= 0.005),
    ),
}

LOOSE = {
    "ppo_clip dual": lambda: sim.methods.ppo_clip(),
    "grpo kl": lambda: sim.methods.grpo(),
    "dapo": lambda: sim.methods.dapo(1.0, 1e9),
    "decoupled_ppo": lambda: sim.methods.decoupled_ppo(1.0, 1e9, cap=1.2),
    "decoupled_ppo uncapped": lambda: sim.methods.decoupled_ppo(0.05, 0.05, cap=1.2),
    "decoupled_ppo drop": lambda: sim.methods.decoupled_ppo(0.05, 0.05, cap=1.2),
    "a3po": lambda: sim.methods.a3po(1.0, 1e9),
    "gspo": lambda: sim.methods.gspo(1.0, 1e9),
    "gspo token": lambda: sim.methods.gspo(1.0, 1e9),
    "gmpo": lambda: sim.methods.gmpo(30.0, 30.0),
    "cispo": lambda: sim.methods.cispo(1.0, 0.1),
    "cispo corrected": lambda: sim.methods.cispo(0.05, 0.05, anchor="proximal", cap=1e9),
    "cispo masked": lambda: sim.methods.cispo(0.2, 0.3),
    "cispo masked corrected": lambda: sim.methods.cispo(0.05, 0.05, anchor="proximal", cap=1.1),
    "cispo open": lambda: sim.methods.cispo(1.0, 1e9),
    "topr": lambda: sim.methods.full_is(advantage=sim.advantages.group_mean()),
    "topr shifted": lambda: sim.methods.full_is(advantage=sim.advantages.offset(1.5)),
    "topr_roll": lambda: sim.methods.topr_roll(2.0, 1.0),
    "vespo": lambda: sim.methods.vespo(3.0, 2.0, 3.0, 2.0),
    "sapo": lambda: sim.methods.sapo(2.0, 2.0),
    "delight": lambda: sim.methods.delight(1e9),
    "gipo": lambda: sim.methods.gipo(0.3, limit=0.5),
    "dppo_tv": lambda: sim.methods.dppo_tv(1.0, 1.0, cap=1.2),
    "dppo_kl": lambda: sim.methods.dppo_kl(1e9, 1e9, cap=1.2),
    "dppo_prime": lambda: sim.methods.dppo_prime(1.0, 1.0, kl=0.1),
    "ipo_mask": lambda: sim.methods.ipo_mask(1.0, kl=0.1),
    "kpop": lambda: sim.methods.kpop(1e9, kl=0.1),
}
"""What each would be if a bound of `PAPERS` did not bind; tests/methods/test_surrogates.py compares."""

CASES = {
    "ppo_clip dual": lambda: sim.methods.ppo_clip(dual=1.5),
    "grpo kl": lambda: sim.methods.grpo(kl=0.3),
    "dapo proximal": lambda: sim.methods.dapo(anchor="proximal"),
    "decoupled_ppo drop": lambda: sim.methods.decoupled_ppo(cap=1.2, beyond="drop"),
    "decoupled_ppo uncapped": lambda: sim.methods.decoupled_ppo(cap=None),
    "gspo wide": lambda: sim.methods.gspo(0.1, 0.1),
    "gspo proximal": lambda: sim.methods.gspo(anchor="proximal"),
    "cispo both": lambda: sim.methods.cispo(0.2, 0.2),
    "cispo corrected": lambda: sim.methods.cispo(anchor="proximal", cap=1.5),
    "cispo masked": lambda: sim.methods.cispo(0.2, 0.3, mask=(0.1, 0.05)),
    "cispo masked corrected": lambda: sim.methods.cispo(anchor="proximal", cap=1.5, mask=(0.1, 0.1)),
    "topr_roll weighted": lambda: sim.methods.topr_roll(2.0, 0.5),
    "dppo_tv uncapped": lambda: sim.methods.dppo_tv(cap=None),
    "dppo_prime free": lambda: sim.methods.dppo_prime(kl=0.0),
}

NOT_RISING = {"vespo", "sapo", "gipo", "ipo_mask", "kpop"}
