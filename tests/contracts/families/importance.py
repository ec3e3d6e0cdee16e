"""Importance sampling by prefixes and decisions, truncation over three policies, masks, and factors."""

from dataclasses import dataclass

import asyncsim as sim
from asyncsim.advantages._advantage import Baseline


@dataclass(frozen=True)
class Paid(Baseline):
    """Sums to go of rewards that every token earns by its action: what a batch of tables does not pay."""

    def __call__(self, samples):
        paid = paid_by(samples.batch)
        return paid.flip(-1).cumsum(-1).flip(-1)


def paid_by(batch):
    return batch.mask * (0.3 * batch.action + batch.reward.unsqueeze(-1) - 0.4)


def bounded(ratio, low=0.9, high=1.1):
    return ratio.detach().clamp(low, high)


def inside(ratio, low, high):
    """1 where the detached ratio is in the band."""
    ratio = ratio.detach()
    return ((ratio >= low) & (ratio <= high)).double()


def prefix(p):
    return p.kept(p.live - p.behavior).cumsum(-1).exp()


def geometric(p):
    return (p.sequence.log() / p.lengths.unsqueeze(-1)).exp()


def normalized(p, weight, mean):
    return weight / mean(weight.expand(p.mask.shape)).reshape(-1, 1, 1, 1)


def reduced(p, each, how):
    each = p.kept(each.detach())
    if how == "mean":
        return each.sum(-1, keepdim=True) / p.lengths.unsqueeze(-1)
    return {"sum": each.sum(-1, keepdim=True), "max": each.amax(-1, keepdim=True), "token": each}[how]


def fallen(p, anchor):
    """Mean fall of the log-prob since the anchor, per token."""
    return (p.kept(anchor - p.live.detach()).sum(-1) / p.lengths).unsqueeze(-1)


def token(factor):
    return lambda: sim.methods.full_is("token", aggregator="token_mean").replace(factors=(factor(),))


def ratio_under(mask):
    return lambda p: p.token_mean(mask(p) * p.ratio * p.left_out())


def capped(ratio, cap=1.1):
    return ratio.detach().clamp(max=cap)


FACTORED = {
    "token_mask h": (lambda: sim.factors.token_mask(0.9, 1.1, "h"), lambda p: inside(p.behavior_ratio, 0.9, 1.1)),
    "sequence_mask": (lambda: sim.factors.sequence_mask(0.8, 1.3), lambda p: inside(p.sequence, 0.8, 1.3)),
    "geometric_mask": (lambda: sim.factors.geometric_mask(0.9, 1.15), lambda p: inside(geometric(p), 0.9, 1.15)),
    "k2_mask": (lambda: sim.factors.k2_mask(0.05), lambda p: reduced(p, p.ratio.log() ** 2 / 2, "max") <= 0.05),
    "k2_mask token": (
        lambda: sim.factors.k2_mask(0.02, "token"),
        lambda p: reduced(p, p.ratio.log() ** 2 / 2, "token") <= 0.02,
    ),
    "k3_mask": (lambda: sim.factors.k3_mask(0.04), lambda p: reduced(p, p.ratio - 1 - p.ratio.log(), "mean") <= 0.04),
    "k3_mask sum h": (
        lambda: sim.factors.k3_mask(0.08, "sum", "h"),
        lambda p: reduced(p, p.behavior_ratio - 1 - p.behavior_ratio.log(), "sum") <= 0.08,
    ),
    "token_veto": (lambda: sim.factors.token_veto(0.8), lambda p: p.ratio.detach().amin(-1, keepdim=True) >= 0.8),
    "opsm": (lambda: sim.factors.opsm(0.02), lambda p: (p.left_out() >= 0) | (fallen(p, p.behavior) <= 0.02)),
    "opsm proximal": (
        lambda: sim.factors.opsm(0.02, "proximal"),
        lambda p: (p.left_out() >= 0) | (fallen(p, p.proximal) <= 0.02),
    ),
    "log_clamp": (lambda: sim.factors.log_clamp(0.2), lambda p: p.ratio.detach().log().abs() <= 0.2),
    "log_clamp u": (lambda: sim.factors.log_clamp(0.05, ratio="u"), lambda p: p.drift.detach().log().abs() <= 0.05),
    "log_clamp sequence": (
        lambda: sim.factors.log_clamp(0.3, "sequence"),
        lambda p: p.sequence.detach().log().abs() <= 0.3,
    ),
    "log_clamp geometric": (
        lambda: sim.factors.log_clamp(0.1, "geometric"),
        lambda p: geometric(p).detach().log().abs() <= 0.1,
    ),
    "tv_mask": (lambda: sim.factors.tv_mask(0.2), lambda p: reduced(p, (p.ratio - 1).abs(), "mean") <= 0.2),
    "tv_mask signed h": (
        lambda: sim.factors.tv_mask(0.1, True, "h"),
        lambda p: (
            (reduced(p, (p.behavior_ratio - 1).abs(), "mean") <= 0.1) | (p.behavior_ratio.log() * p.left_out() <= 0)
        ),
    ),
    "drop_stale": (lambda: sim.factors.drop_stale(4), lambda p: p.age <= 4),
    "staleness_weight": (lambda: sim.factors.staleness_weight(exponent=0.7), lambda p: (1 + p.age) ** -0.7),
}

PAPERS = {
    "truncated_is tokens": (
        lambda: sim.methods.truncated_is("token", cap=1.1, normalize="tokens"),
        lambda p: p.token_mean(normalized(p, capped(p.ratio), p.token_mean) * p.centered() * p.live),
    ),
    "truncated_is sequences": (
        lambda: sim.methods.truncated_is(cap=1.1, normalize="sequences"),
        lambda p: p.sequence_mean(normalized(p, capped(p.sequence), p.sequence_mean) * p.centered() * p.live),
    ),
    "truncated_is token over sequences": (
        lambda: sim.methods.truncated_is("token", cap=1.1, normalize="sequences"),
        lambda p: p.token_mean(normalized(p, capped(p.ratio), p.sequence_mean) * p.centered() * p.live),
    ),
    "truncated_is sequence over tokens": (
        lambda: sim.methods.truncated_is(cap=1.1, normalize="tokens"),
        lambda p: p.sequence_mean(normalized(p, capped(p.sequence), p.token_mean) * p.centered() * p.live),
    ),
    "truncated_is token floor": (
        lambda: sim.methods.truncated_is("token", cap=1.1, floor=0.9),
        lambda p: p.token_mean(bounded(p.ratio) * p.centered() * p.live),
    ),
    "truncated_is sequence floor": (
        lambda: sim.methods.truncated_is(cap=1.1, floor=0.9),
        lambda p: p.sequence_mean(bounded(p.sequence) * p.centered() * p.live),
    ),
    "truncated_is floor over tokens": (
        lambda: sim.methods.truncated_is("token", cap=1.1, floor=0.9, normalize="tokens"),
        lambda p: p.token_mean(normalized(p, bounded(p.ratio), p.token_mean) * p.centered() * p.live),
    ),
    "truncated_is geometric": (
        lambda: sim.methods.truncated_is("geometric", cap=1.05),
        lambda p: p.sequence_mean(geometric(p).detach().clamp(max=1.05) * p.centered() * p.live),
    ),
    "truncated_is geometric over sequences": (
        lambda: sim.methods.truncated_is("geometric", cap=1.05, normalize="sequences"),
        lambda p: p.sequence_mean(normalized(p, capped(geometric(p), 1.05), p.sequence_mean) * p.centered() * p.live),
    ),
    "prefix_is": (
        lambda: sim.methods.prefix_is(),
        lambda p: p.sequence_sum(prefix(p).detach() * p.left_out() * p.live),
    ),
    "per_decision_is": (
        lambda: sim.methods.per_decision_is(Paid()),
        lambda p: p.sequence_sum(prefix(p) * paid_by(p.batch)),
    ),
    "per_decision_is at the end": (
        lambda: sim.methods.per_decision_is(sim.advantages.leave_one_out()),
        lambda p: (p.sequence * p.left_out())[..., 0].mean((1, 2)),
    ),
    "three_policy_tis": (
        lambda: sim.methods.three_policy_tis(1.1, 0.1, 0.15),
        lambda p: p.token_mean(p.behavior_ratio.clamp(max=1.1) * p.clipped(p.centered(), 0.1, 0.15, p.drift)),
    ),
    "three_policy_tis floor": (
        lambda: sim.methods.three_policy_tis(1.1, 0.1, 0.15, floor=0.95),
        lambda p: p.token_mean(bounded(p.behavior_ratio, 0.95) * p.clipped(p.centered(), 0.1, 0.15, p.drift)),
    ),
    "three_policy_tis icepop": (
        lambda: sim.methods.three_policy_tis(1.25).replace(factors=(sim.factors.token_mask(0.8, 1.25, "h"),)),
        lambda p: p.token_mean(
            inside(p.behavior_ratio, 0.8, 1.25) * p.behavior_ratio * p.clipped(p.centered(), 0.2, 0.2, p.drift)
        ),
    ),
    "icepop": (
        lambda: sim.methods.icepop(0.8, 1.2),
        lambda p: p.token_mean(inside(p.ratio, 0.8, 1.2) * p.ratio * p.centered()),
    ),
    "icepop h": (
        lambda: sim.methods.icepop(0.8, 1.2, "h"),
        lambda p: p.token_mean(inside(p.behavior_ratio, 0.8, 1.2) * p.ratio * p.centered()),
    ),
    "sequence_mis": (
        lambda: sim.methods.sequence_mis(0.7, 1.4, aggregator="sequence_sum"),
        lambda p: (inside(p.sequence, 0.7, 1.4) * p.sequence * p.centered())[..., 0].mean((1, 2)),
    ),
    "sequence_mis token": (
        lambda: sim.methods.sequence_mis(0.7, 1.4, weight="token"),
        lambda p: p.token_mean(inside(p.sequence, 0.7, 1.4) * p.ratio * p.centered()),
    ),
    "geometric_rs": (
        lambda: sim.methods.geometric_rs(0.9, 1.1),
        lambda p: p.token_mean(inside(geometric(p), 0.9, 1.1) * p.centered() * p.live),
    ),
    "geometric_rs token": (
        lambda: sim.methods.geometric_rs(0.9, 1.1, "token", 1.2),
        lambda p: p.token_mean(inside(geometric(p), 0.9, 1.1) * capped(p.ratio, 1.2) * p.centered() * p.live),
    ),
    "geometric_rs sequence": (
        lambda: sim.methods.geometric_rs(0.85, 1.2, "sequence", 1.2),
        lambda p: p.token_mean(inside(geometric(p), 0.85, 1.2) * capped(p.sequence, 1.2) * p.centered() * p.live),
    ),
} | {f"full_is {label}": (token(made), ratio_under(mask)) for label, (made, mask) in FACTORED.items()}

CASES = {
    "truncated_is token over tokens": lambda: sim.methods.truncated_is("token", normalize="tokens"),
    "truncated_is token floor": lambda: sim.methods.truncated_is("token", floor=0.8),
    "truncated_is geometric": lambda: sim.methods.truncated_is("geometric", floor=0.9),
    "truncated_is floor over sequences": lambda: sim.methods.truncated_is(cap=1.2, normalize="sequences", floor=0.9),
    "three_policy_tis floor": lambda: sim.methods.three_policy_tis(floor=0.9),
    "truncated_is over sequences": lambda: sim.methods.truncated_is(cap=1.2, normalize="sequences"),
    "truncated_is token over sequences": lambda: sim.methods.truncated_is("token", cap=1.2, normalize="sequences"),
    "per_decision_is one advantage": lambda: sim.methods.per_decision_is(sim.advantages.leave_one_out()),
    "per_decision_is paid": lambda: sim.methods.per_decision_is(Paid()),
    "prefix_is to go": lambda: sim.methods.prefix_is(sim.advantages.returns_to_go()),
    "icepop h": lambda: sim.methods.icepop(ratio="h"),
    "three_policy_tis icepop": lambda: sim.methods.three_policy_tis().replace(
        factors=(sim.factors.token_mask(ratio="h"),)
    ),
    "sequence_mis token": lambda: sim.methods.sequence_mis(weight="token"),
    "sequence_mis none": lambda: sim.methods.sequence_mis(weight="none", ratio="h"),
    "geometric_rs token": lambda: sim.methods.geometric_rs(0.8, 1.25, "token"),
    "geometric_rs sequence": lambda: sim.methods.geometric_rs(0.8, 1.25, "sequence"),
    "log_clamp": lambda: sim.methods.ppo_clip().replace(factors=(sim.factors.log_clamp(0.3),)),
    "log_clamp sequence": lambda: sim.methods.full_is().replace(factors=(sim.factors.log_clamp(1.0, "sequence"),)),
    "tv_mask signed": lambda: sim.methods.full_is("token").replace(factors=(sim.factors.tv_mask(0.1, signed=True),)),
    "masks together": lambda: sim.methods.full_is("token").replace(
        factors=(sim.factors.token_mask(), sim.factors.opsm(0.1), sim.factors.drop_stale(of="token"))
    ),
    "k2_mask token": lambda: sim.methods.full_is().replace(factors=(sim.factors.k2_mask(0.1, "token"),)),
    "staleness_weight threshold": lambda: sim.methods.full_is().replace(
        factors=(sim.factors.staleness_weight("threshold", cutoff=0),)
    ),
}

MAKE = {
    # The published bands drop every sequence of these small cases.
    ("methods", "geometric_rs"): {"low": 0.8, "high": 1.25},
    ("factors", "geometric_mask"): {"low": 0.8, "high": 1.25},
    ("factors", "k3_mask"): {"high": 0.1},
}
