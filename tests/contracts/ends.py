"""Both ends of the range of metrics, on batches made by hand: name -> (low, its value, high, its value)."""

import math
from types import SimpleNamespace

import numpy as np
import torch

import asyncsim as sim
from asyncsim.tasks._language import Answer
from tests.contracts.laboratory import case, make
from tests.contracts.measuring import FROZEN, _step, cached, measure, on, told


def flat(level, N=5, T=1):
    """One group of N samples of T tokens, all with this log ratio."""
    return np.full((1, 1, N, T), level)


def one(level, rest=0.0, N=5, T=1):
    """The first token of the first sample has this log ratio."""
    found = flat(rest, N, T)
    found[0, 0, 0, 0] = level
    return found


def aged(name, low, high):
    """Two samples of two tokens, trained at version 7, with versions of their tokens."""
    return on(name, flat(0.0, 2, 2), version=[[low]]), on(name, flat(0.0, 2, 2), version=[[high]])


def fixed(low, high):
    """Low and high ends on flat log ratios: (log ratio, value, method or None)."""

    def found(name):
        (start, least, first), (stop, most, last) = low, high
        return on(name, flat(start), method=first), least, on(name, flat(stop), method=last), most

    return found


def ends_of_ages(values):
    def found(name):
        low, high = aged(name, *((rows[0]) for rows in values))
        return low, values[0][1], high, values[1][1]

    return found


def turned(name, own):
    """Samples of which the policy wrote these tokens."""
    T = len(own)
    mask = torch.tensor(own, dtype=torch.float64).expand(1, 1, 5, T)
    return on(name, flat(0.3, T=T), mask=mask)


def rewarded(name, rewards):
    """Groups of five samples with these rewards."""
    reward = torch.tensor(rewards, dtype=torch.float64).expand(2, 2, 5)
    return told(name, case(), reward=reward)


def answered(name, ended):
    """Responses of which every one or none has ended."""
    step = _step(case(), sim.methods.reinforce(sim.advantages.none()))
    step.task = SimpleNamespace(read=lambda action, mask: [Answer((), "", ended)] * mask[..., 0].numel())
    return make("diagnostics", name).measure(step).numpy()


SOLVED, UNSOLVED, MIXED_REWARDS = [1.0] * 5, [0.0] * 5, [0.0, 1.0, 1.0, 0.0, 1.0]


def pareto_shape(weights):
    """Zhang and Stephens' estimate from the tail of weights `[n]`, as printed, and PSIS's shrinkage."""
    n = len(weights)
    m = math.ceil(min(n / 5, 3 * math.sqrt(n)))
    ordered = np.sort(weights)
    x = ordered[-m:] - ordered[-m - 1]
    grid = 30 + int(math.sqrt(m))
    thetas = [
        1 / x[-1] + (1 - math.sqrt(grid / (j - 0.5))) / (3 * x[math.floor(m / 4 + 0.5) - 1]) for j in range(1, grid + 1)
    ]
    shapes = [float(np.mean(np.log1p(-theta * x))) for theta in thetas]
    logs = [m * (math.log(-theta / k) - k - 1) for theta, k in zip(thetas, shapes, strict=True)]
    shares = [1 / sum(math.exp(min(other - own, 700.0)) for other in logs) for own in logs]
    theta = sum(a * b for a, b in zip(shares, thetas, strict=True))
    return (m * float(np.mean(np.log1p(-theta * x))) + 5) / (m + 10)


def tails(name):
    """Forty weights without a tail, equally far apart, and forty that grow by a factor."""
    bounded, heavy = np.arange(1.0, 41.0), np.exp(1.5 * np.arange(40.0))
    low, high = (on(name, np.log(each).reshape(1, 1, 40, 1)) for each in (bounded, heavy))
    return low, pareto_shape(bounded), high, pareto_shape(heavy)


PPO = sim.methods.ppo_clip(0.2, 0.2, advantage=sim.advantages.none())
DUAL = sim.methods.ppo_clip(dual=3.0, advantage=sim.advantages.offset(2.0))
FULL = sim.methods.full_is(advantage=sim.advantages.none())
MASK = sim.methods.icepop(advantage=sim.advantages.none())
CAPPED = sim.methods.truncated_is("token", cap=2.0, advantage=sim.advantages.none())
FRESH, OLD, MIXED = [[7, 7], [7, 7]], [[1, 1], [1, 1]], [[3, 7], [3, 7]]
ALONE = np.arange(4.0).reshape(1, 1, 1, 4).repeat(5, axis=2)

ENDS = {
    "ess_token": lambda n: (on(n, one(60.0, T=2)), 0.1, on(n, flat(3.0, T=2)), 1.0),
    # Ratios that are constant inside samples, and one heavy token of four in every sample.
    "ess_within": lambda n: (on(n, ALONE * 60.0), 0.25, on(n, ALONE.swapaxes(2, 3)), 1.0),
    # One heavy sample of five at every position, and ratios that change along positions only.
    "ess_frames": lambda n: (on(n, one(60.0)), 0.2, on(n, ALONE), 1.0),
    # One of five tokens at the upper bound 2, four at 1/2: the floor of the statistic.
    "ess_token_clamped": lambda n: (on(n, one(60.0, -60.0)), 0.64, on(n, flat(60.0)), 1.0),
    "ess_applied": lambda n: (on(n, one(20.0, -20.0), method=FULL), 0.2, on(n, one(20.0)), 1.0),
    "applied_mean": fixed((5.0, 0.0, MASK), (5.0, 2.0, CAPPED)),
    "max_applied_share": lambda n: (on(n, one(20.0)), 0.2, on(n, one(20.0, -20.0), method=FULL), 1.0),
    "token_ratio_mean": fixed((-60.0, 0.0, None), (math.log(3.0), 3.0, None)),
    "chi_square_token": fixed((-60.0, -1.0, None), (math.log(2.0), 3.0, None)),
    "kl_k1": fixed((1.0, -1.0, None), (-2.0, 2.0, None)),
    "kl_k2": fixed((0.0, 0.0, None), (-2.0, 2.0, None)),
    # w log w is least at w = 1/e.
    "kl_reverse": fixed((-1.0, -math.exp(-1.0), None), (1.0, math.e, None)),
    "m2_all": fixed((0.0, 0.0, None), (-3.0, 9.0, None)),
    # Advantages are 1: moving down is not harmful.
    "m2_harmful": fixed((-3.0, 0.0, None), (3.0, 9.0, None)),
    "pareto_k": tails,
    "clip_active": fixed((-1.0, 0.0, PPO), (1.0, 1.0, PPO)),
    "clip_outside": fixed((0.1, 0.0, PPO), (-1.0, 1.0, PPO)),
    "clip_dual": fixed((1.0, 0.0, DUAL), (2.0, 1.0, DUAL)),
    "masked_tokens": fixed((0.1, 0.0, MASK), (5.0, 1.0, MASK)),
    "masked_sequences": fixed((0.1, 0.0, MASK), (5.0, 1.0, MASK)),
    "zero_loss_sequences": lambda n: (on(n, flat(0.3)), 0.0, on(n, flat(0.3), reward=0.0), 1.0),
    "ratio_above": fixed((-1.0, 0.0, None), (1.0, 1.0, None)),
    "ratio_below": fixed((1.0, 0.0, None), (-1.0, 1.0, None)),
    # One of five at w = 6, the others at 1: mean 2, sd 2.
    "ratio_sd": lambda n: (on(n, flat(5.0)), 0.0, on(n, one(math.log(6.0))), 2.0),
    "log_ratio_min": lambda n: (on(n, one(-900.0)), -900.0, on(n, flat(900.0)), 900.0),
    "log_ratio_max": lambda n: (on(n, flat(-900.0)), -900.0, on(n, one(900.0)), 900.0),
    "log_ratio_quantile": lambda n: (on(n, one(5.0, -2.0)), -2.0, on(n, one(-5.0, 2.0)), 2.0),
    "gradient_cosine_valid": lambda n: (
        measure(n, means=(0.5, 1.0), updates=2)[0],
        0.0,
        measure(n, means=(0.5, 1.0), updates=2)[1],
        1.0,
    ),
    "staleness_head": ends_of_ages([(FRESH, 0.0), (MIXED, 4.0)]),
    "staleness_newest": ends_of_ages([(MIXED, 0.0), (OLD, 6.0)]),
    "staleness_mean": ends_of_ages([(FRESH, 0.0), (MIXED, 2.0)]),
    "staleness_span": ends_of_ages([(OLD, 0.0), (MIXED, 4.0)]),
    "staleness_max": ends_of_ages([(FRESH, 0.0), ([[7, 7], [2, 7]], 5.0)]),
    "mixed_versions": ends_of_ages([(OLD, 0.0), (MIXED, 1.0)]),
    "response_length": lambda n: (on(n, flat(0.0, T=1)), 1.0, on(n, flat(0.0, T=6)), 6.0),
    "truncated": lambda n: (answered(n, True), 0.0, answered(n, False), 1.0),
    "solved_groups": lambda n: (rewarded(n, MIXED_REWARDS), 0.0, rewarded(n, SOLVED), 1.0),
    "unsolved_groups": lambda n: (rewarded(n, MIXED_REWARDS), 0.0, rewarded(n, UNSOLVED), 1.0),
    "mixed_groups": lambda n: (rewarded(n, SOLVED), 0.0, rewarded(n, MIXED_REWARDS), 1.0),
    # A token and a reply by turns; a reply in front of all.
    "turns": lambda n: (turned(n, [0.0, 0.0, 1.0, 1.0]), 1.0, turned(n, [1.0, 0.0, 1.0, 0.0, 0.0, 1.0]), 3.0),
    "cache_stale": lambda n: (cached(n, 0.0, 0.0), 0.0, cached(n, 0.0, 1.0), 1.0),
    "cache_gap": lambda n: (cached(n, 0.0, 1.0), 0.0, cached(n, -3.0, 1.0), 3.0),
    "cache_kl": lambda n: (cached(n, -3.0, 1.0), -6.0, cached(n, 2.0, 1.0), 4.0),
    "update_staleness": lambda n: (measure(n)[0], 0.0, measure(n, system=FROZEN, updates=6)[5], 5.0),
}


def batches():
    """What bounded metrics are asked of: log ratios of all sizes, methods that clip and mask, ages, no reward."""
    for method in (None, PPO, DUAL, FULL, MASK, CAPPED):
        for level in (-60.0, -3.0, -1.0, 0.0, 0.1, 1.0, 2.0, 60.0):
            yield {"log_ratio": flat(level, T=2), "method": method}
        for heavy, rest in ((60.0, 0.0), (20.0, -20.0), (-60.0, 60.0)):
            yield {"log_ratio": one(heavy, rest, T=2), "method": method}
    yield {"log_ratio": ALONE * 60.0}
    yield {"log_ratio": ALONE.swapaxes(2, 3)}
    yield {"log_ratio": flat(0.3), "reward": 0.0}
    yield {"log_ratio": flat(0.0), "stale": 1.0}
    for version in (FRESH, OLD, MIXED):
        yield {"log_ratio": flat(0.0, 2, 2), "version": [[version]]}


def spanned(metric):
    """Least and largest value of a metric over these batches; NaN where it has none."""
    values = np.concatenate([np.ravel(on(metric, **batch)) for batch in batches()])
    return np.nanmin(values), np.nanmax(values)
