"""Thresholds set from the data of a step (M2PO, BAPO, P3O, SAT), and regressions without ratios or on them."""

import math

import numpy as np
import torch

import asyncsim as sim

TAU = 0.04


def moved(p):
    """Log ratio to behavior of every token, with gradient, 0 where masked."""
    return p.kept(p.live - p.behavior)


def per_replicate(p, rule, *columns):
    """What a rule says of the generated tokens of each replicate, `[R, 1, 1, 1]`, or a pair of those.

    The rule gets one list of numbers per column, tokens in order.
    """
    found = []
    for r in range(p.mask.shape[0]):
        here = p.mask[r] > 0
        found.append(rule(*(c.detach().expand(p.mask.shape)[r][here].tolist() for c in columns)))
    return torch.tensor(found, dtype=torch.float64).T.reshape(-1, p.mask.shape[0], 1, 1, 1).unbind(0)


def squares(log_ratios, advantages):
    """(log rho)^2 of the harmful tokens, ascending."""
    return sorted(x * x for x, a in zip(log_ratios, advantages, strict=True) if x * a > 0)


def ended(ascending, count):
    """The last of those that are left, and which part of the numbers equal to it is."""
    if count == len(ascending):
        return [math.inf, 1.0]
    last = ascending[count - 1] if count else -1.0
    equal = ascending.count(last)
    return [last, (count - sum(v < last for v in ascending)) / equal if equal else 1.0]


def part_left(square, end, part):
    return torch.where(square == end, part, (square < end).double())


def mask_limit(over):
    def rule(log_ratios, advantages):
        """Squared log ratios of harmful tokens go one by one, the largest first: every number of them is tried."""
        bad = squares(log_ratios, advantages)
        rest = [x * x for x, a in zip(log_ratios, advantages, strict=True) if x * a <= 0] if over == "all" else []
        fits = [k for k in range(len(bad) + 1) if sum(rest + bad[:k]) <= TAU * len(rest + bad[:k])]
        return ended(bad, max(fits, default=0))

    return rule


def masked(over):
    def objective(p):
        log_ratio, advantage = moved(p), p.centered()
        end, part = per_replicate(p, mask_limit(over), log_ratio, advantage)
        square = log_ratio.detach().square()
        kept = torch.where(log_ratio * advantage <= 0, torch.ones_like(square), part_left(square, end, part))
        return p.token_mean(kept.detach() * p.ratio * advantage)

    return objective


def released_level(log_ratios, advantages):
    v = squares(log_ratios, advantages)
    n = len(v)
    if n == 0 or sum(v) / n <= TAU:
        return [math.inf]
    for k in range(n):
        if v[k] * (n - k - 1) + sum(v[: k + 1]) >= TAU * n:
            return [math.sqrt(v[k - 1]) if k else 0.0]
    raise AssertionError("the mean is above tau")


def exact_level(log_ratios, advantages):
    v = np.array(squares(log_ratios, advantages))
    if v.size == 0 or v.mean() <= TAU:
        return [math.inf]
    low, high = 0.0, v.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(v, middle).mean() < TAU else (low, middle)
    return [math.sqrt(high)]


def filled(level):
    def objective(p):
        log_ratio, advantage = moved(p), p.centered()
        (theta,) = per_replicate(p, level, log_ratio, advantage)
        # A bound that is itself a token's log ratio is inside, up to the root of its square.
        theta = theta * (1 + 1e-14)
        held = torch.maximum(torch.minimum(log_ratio, theta), -theta)
        return p.token_mean(torch.min(log_ratio.exp() * advantage, held.exp() * advantage))

    return objective


def lag_limit(lags):
    """One by one, the largest first, until the mean of the others is below tau; one stays."""
    v = sorted(x * x for x in lags)
    return ended(v, next((k for k in range(len(v), 1, -1) if sum(v[:k]) / k < TAU), 1))


def areal(p):
    lag = p.kept(p.proximal - p.behavior)
    end, part = per_replicate(p, lag_limit, lag)
    return p.token_mean(part_left(lag.square(), end, part).detach() * p.clipped(p.centered(), 0.1, 0.1, p.drift))


def searched(settings, count, lower_first, share):
    """The loop as printed, one replicate at a time."""
    (low, low_cap, low_step), (high, high_cap, high_step), target = settings

    def rule(ratios, advantages):
        r, a = np.array(ratios), np.array(advantages)
        lo, hi = low, high

        def met():
            term = np.where(a > 0, np.minimum(r, hi), np.maximum(r, lo)) * np.abs(a)
            if count == "gradient":
                term = np.where((a > 0) & (r > hi) | (a < 0) & (r < lo), 0.0, term)
            plus, minus = term[a > 0].sum(), term[a < 0].sum()
            return plus >= target * (plus + minus if share else minus)

        while not met() and (lo < low_cap - 1e-9 or hi < high_cap - 1e-9):
            raise_low = lo < low_cap - 1e-9 if lower_first else hi >= high_cap - 1e-9
            if raise_low:
                lo = min(lo + low_step, low_cap)
            else:
                hi = min(hi + high_step, high_cap)
        return [lo, hi]

    return rule


def balanced(rule, dual=math.inf, weigh=lambda p: 1.0):
    def objective(p):
        advantage = p.centered()
        low, high = per_replicate(p, rule, p.ratio, advantage * weigh(p))
        held = torch.maximum(torch.minimum(p.ratio, high), low)
        surrogate = torch.min(p.ratio * advantage, held * advantage)
        return p.token_mean(torch.where(advantage < 0, torch.max(surrogate, dual * advantage), surrogate))

    return objective


def ess(ratios):
    r = np.array(ratios)
    return [r.sum() ** 2 / (r.size * (r * r).sum())]


def policy_on_off(estimate):
    def objective(p):
        log_ratio, advantage = moved(p), p.centered()
        (level,) = per_replicate(p, ess, p.ratio)
        capped = torch.minimum(p.ratio, level).detach()
        return p.token_mean(capped * advantage * p.live - (1 - level) * estimate(p.ratio, log_ratio))

    return objective


def quantile(log_ratios):
    size = sorted(abs(x) for x in log_ratios)
    return [size[math.ceil(0.5 * len(size) - 1e-9) - 1]]


def tightened(kernel):
    def objective(p):
        log_ratio, advantage = moved(p), p.centered()
        (gate,) = per_replicate(p, quantile, log_ratio)
        size = log_ratio.abs().detach()
        share = torch.where((size > gate) & (gate > 0), kernel(size, gate), 1.0)
        high = 1 + 2.0 * torch.where(log_ratio > 0, share, 1.0)
        low = 1 - 0.9 * torch.where(log_ratio < 0, share, 1.0)
        held = torch.maximum(torch.minimum(p.ratio, high), low)
        return p.token_mean(torch.min(p.ratio * advantage, held * advantage))

    return objective


def soft(p, beta):
    """Reward less the log of the group's mean exponential."""
    value = beta * (p.reward / beta).exp().mean(-1, keepdim=True).log()
    return (p.reward - value).unsqueeze(-1)


def sums(p, values):
    """Mean over sequences of the sum of token values."""
    return p.kept(values).sum(-1, keepdim=True)


def balance(p, beta, detached):
    """Squared error of trajectory balance with the group's estimate of log Z."""
    gap = sums(p, p.live - p.reference) - p.reward.unsqueeze(-1) / beta
    normalizer = -gap.mean(2, keepdim=True)
    return -((normalizer.detach() if detached else normalizer) + gap).square()[..., 0].mean((1, 2))


PAPER = ((0.6, 0.9, 0.02), (1.1, 1.6, 0.05), 0.55)
CODE = ((0.6, 0.8, 0.05), (1.1, 1.5, 0.1), 1.2)


def make_paper(count, **more):
    return sim.methods.bapo_paper(0.55, high=1.1, high_cap=1.6, count=count, **more)


def make_code(count):
    return sim.methods.bapo_code(1.2, high=1.1, high_cap=1.5, high_step=0.1, dual=1.7, count=count)


PAPERS = {
    "m2po_mask": (lambda: sim.methods.m2po_mask(), masked("harmful")),
    "m2po_mask all": (lambda: sim.methods.m2po_mask(over="all"), masked("all")),
    "m2po_waterfill": (lambda: sim.methods.m2po_waterfill(), filled(released_level)),
    "m2po_waterfill exact": (lambda: sim.methods.m2po_waterfill(exact=True), filled(exact_level)),
    "m2po_areal": (lambda: sim.methods.m2po_areal(low=0.1, high=0.1), areal),
    "bapo_paper": (lambda: make_paper("code"), balanced(searched(PAPER, "code", False, True))),
    "bapo_paper gradient": (lambda: make_paper("gradient"), balanced(searched(PAPER, "gradient", False, True))),
    "bapo_paper weighed": (
        lambda: make_paper("code", weigh="behavior"),
        balanced(searched(PAPER, "code", False, True), weigh=lambda p: p.exp(p.behavior)),
    ),
    "bapo_code": (lambda: make_code("code"), balanced(searched(CODE, "code", True, False), 1.7)),
    "bapo_code gradient": (lambda: make_code("gradient"), balanced(searched(CODE, "gradient", True, False), 1.7)),
    "p3o": (lambda: sim.methods.p3o(), policy_on_off(lambda r, x: r * ((-x).exp() - 1 + x))),
    "p3o code": (lambda: sim.methods.p3o(kl="code"), policy_on_off(lambda r, x: (-x).exp() - 1 + x)),
    "sat": (lambda: sim.methods.sat(0.9, 2.0, 0.5), tightened(lambda x, q: 1 / (1 + ((x - q) / q).square()))),
    "sat hill": (
        lambda: sim.methods.sat(0.9, 2.0, 0.5, kernel="hill"),
        tightened(lambda x, q: q * q / (q * q + x * x)),
    ),
    "asymre": (lambda: sim.methods.asymre(), lambda p: p.sequence_sum((p.centered() + 0.1) * p.live)),
    "asymre value": (
        lambda: sim.methods.asymre(-0.2, value=0.3),
        lambda p: p.sequence_sum((p.reward.unsqueeze(-1) - 0.1) * p.live),
    ),
    "opmd": (lambda: sim.methods.opmd(0.5), lambda p: p.token_mean(p.centered() * p.live) / 1.5),
    "opmd soft": (lambda: sim.methods.opmd(0.5, baseline="soft"), lambda p: p.token_mean(soft(p, 0.5) * p.live) / 1.5),
    "kimi": (
        lambda: sim.methods.kimi(0.4),
        lambda p: (p.centered() * sums(p, p.live) - 0.2 * sums(p, p.live - p.proximal).square())[..., 0].mean((1, 2)),
    ),
    "kimi whole": (
        lambda: sim.methods.kimi(0.4, half=False, anchor="behavior"),
        lambda p: (p.centered() * sums(p, p.live) - 0.4 * sums(p, moved(p)).square())[..., 0].mean((1, 2)),
    ),
    "dro": (lambda: sim.methods.dro(0.4), lambda p: p.token_mean(p.centered() * p.live - 0.2 * moved(p).square())),
    "oapl": (
        lambda: sim.methods.oapl(0.3),
        lambda p: -(soft(p, 0.3) - 0.3 * sums(p, moved(p))).square()[..., 0].mean((1, 2)),
    ),
    "tba": (lambda: sim.methods.tba(0.3), lambda p: balance(p, 0.3, True)),
    "tba learned": (lambda: sim.methods.tba(0.3), lambda p: balance(p, 0.3, False)),
}

LOOSE = {
    "m2po_mask": lambda: sim.methods.m2po_mask(1e9),
    "m2po_mask all": lambda: sim.methods.m2po_mask(1e9),
    "m2po_waterfill": lambda: sim.methods.m2po_waterfill(1e9),
    "m2po_waterfill exact": lambda: sim.methods.m2po_waterfill(1e9),
    "m2po_areal": lambda: sim.methods.m2po_areal(1e9, 0.1, 0.1),
    "bapo_paper": lambda: sim.methods.bapo_paper(0.0, high=1.1, high_cap=1.6),
    "bapo_paper gradient": lambda: make_paper("code"),
    "bapo_paper weighed": lambda: make_paper("code"),
    "bapo_code": lambda: sim.methods.bapo_code(0.0, high=1.1, dual=1.7),
    "bapo_code gradient": lambda: make_code("code"),
    "p3o": lambda: sim.methods.p3o("code"),
    "p3o code": lambda: sim.methods.truncated_is("token", 1.0),
    "sat": lambda: sim.methods.ppo_clip(0.9, 2.0),
    "sat hill": lambda: sim.methods.sat(0.9, 2.0, 0.5),
}
"""The same without the threshold or option that the label is about."""

CASES = {
    "m2po_mask all": lambda: sim.methods.m2po_mask(over="all"),
    "m2po_mask proximal": lambda: sim.methods.m2po_mask(anchor="proximal"),
    "m2po_waterfill exact": lambda: sim.methods.m2po_waterfill(exact=True),
    "bapo_paper gradient": lambda: sim.methods.bapo_paper(0.55, count="gradient"),
    "bapo_paper weighed": lambda: sim.methods.bapo_paper(0.55, weigh="behavior"),
    "bapo_code gradient": lambda: sim.methods.bapo_code(count="gradient"),
    "p3o code": lambda: sim.methods.p3o(kl="code"),
    "sat hill": lambda: sim.methods.sat(kernel="hill"),
    "asymre value": lambda: sim.methods.asymre(value=0.4),
    "opmd soft": lambda: sim.methods.opmd(baseline="soft"),
    "kimi whole": lambda: sim.methods.kimi(anchor="behavior", half=False),
    "kimi proximal": lambda: sim.methods.kimi(),
}

MAKE = {("methods", "kimi"): {"anchor": "behavior"}}
"""With one update per batch nothing has moved since it began, and tau would do nothing."""


def soft_value(rewards, weights, norms, step_mean):
    """As in tests/core/formulas.py, at the default temperature 1."""
    return rewards - np.logaddexp.reduce(rewards) + np.log(len(rewards))


ADVANTAGES = {"soft_value": soft_value}
