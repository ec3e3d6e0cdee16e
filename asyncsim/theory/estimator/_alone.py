"""Advantages of one sample beside the others of its group, in plain numbers: the second route of the advantages."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

EPS = 1e-6


class Sample(NamedTuple):
    """Reward, length, ratio and squared length of the weighted score of a response; squares of scores of its tokens,
    the same weighted by squared ratios, and ratios of its tokens."""

    reward: float
    length: float
    ratio: float
    norm: float
    energy: list[float]
    heavy: list[float]
    token_ratio: list[float]


def _deviation(values: list[float], weights: list[float] | None = None) -> float:
    shares = weights or [1.0] * len(values)
    mean = sum(w * x for w, x in zip(shares, values, strict=True)) / sum(shares)
    return math.sqrt(sum(w * (x - mean) ** 2 for w, x in zip(shares, values, strict=True)) / sum(shares))


def _standard(values: list[float], factor: float = 1.0) -> list[float]:
    mean, scale = sum(values) / len(values), _deviation(values) * factor + EPS
    return [(x - mean) / scale for x in values]


def _weighted(pairs: list[tuple[float, float]]) -> float:
    return sum(w * x for w, x in pairs) / sum(w for w, _ in pairs)


def _quantile(pairs: list[tuple[float, float]], level: float) -> float:
    total = sum(w for w, _ in pairs)
    reached = 0.0
    for w, x in sorted(pairs, key=lambda pair: pair[1]):
        reached += w
        if reached / total >= level - 1e-12:
            return x
    raise AssertionError


def _of_tokens(s: Any, name: str, group: list[Sample]) -> list[float] | None:
    """Advantages of the first sample's tokens, for rules that differ by token."""
    own = group[0]
    discount = s.scale if name in ("returns_to_go", "returns_to_go_batch", "reinforce_plus_plus") else 1.0
    sums = [[discount ** (len(x.energy) - 1 - t) * x.reward for t in range(len(x.energy))] for x in group]
    if name == "returns_to_go":
        return sums[0]
    if name.startswith("otb"):
        found = []
        for t in range(len(own.energy)):
            going = [x for x in group if len(x.energy) > t]
            if name == "otb_outside":
                heavy = [x.token_ratio[t] ** 2 * sum(x.energy[: t + 1]) for x in going]
            else:
                heavy = [sum(x.heavy[: t + 1]) for x in going]
            known = len(going) > 1 or name == "otb_own"
            pairs = list(zip(heavy, (x.reward for x in going), strict=True))
            found.append(own.reward - (_weighted(pairs) if known else 0.0))
        return found
    if not name.startswith(("returns", "reinforce")):
        return None
    if name.endswith("group"):
        mean = sum(x.reward for x in group) / len(group)
        sums = [[value - mean for value in row] for row in sums]
    every = [value for row in sums for value in row]
    mean, spread = sum(every) / len(every), _deviation(every)
    spread *= math.sqrt(len(every) / (len(every) - 1.0)) if name.endswith("unbiased") else 1.0
    scale = 1.0 if name.startswith("returns") or spread <= 1e-8 else spread
    return [(value - mean) / scale for value in sums[0]]


def _of_best(s: Any, group: list[Sample], k: int) -> float:
    sets = list(itertools.combinations(group[1:], k - 1))
    return sum(max(group[0].reward, *(x.reward for x in c)) - max(x.reward for x in c) for c in sets) / len(sets)


def _located(s: Any, name: str, group: list[Sample]) -> float:
    """The baseline of rules that weigh the group's rewards."""
    weigh = "ratio" if name.startswith("self") else "norm" if name.startswith("opob") else "length"
    left = group[1:] if name.endswith("_others") else group
    pairs = [(getattr(x, weigh), x.reward) for x in left]
    if name == "opob_median":
        return _quantile(pairs, 0.5)
    if name == "opob_winsorized":
        low, high = _quantile(pairs, 0.05), _quantile(pairs, 0.95)
        return _weighted([(w, min(max(x, low), high)) for w, x in pairs])
    return _weighted(pairs)


def advantage(s: Any, own: Sample, others: list[Sample], greedy: float) -> list[float]:
    """Advantage of every token of a sample."""
    group, name, count = [own, *others], s.advantage, 1 + len(others)
    by_token = _of_tokens(s, name, group)
    if by_token is not None:
        return by_token
    rewards = [x.reward for x in group]
    mean, spread = sum(rewards) / count, _deviation(rewards)
    unbiased = math.sqrt(count / (count - 1.0))
    short = [float(x.length <= s.limit) for x in group]
    both = [a + s.scale * b for a, b in zip(_standard(rewards), _standard(short), strict=True)]
    if name.startswith("opob_standardized"):
        base, scale = _weighted([(x.norm, x.reward) for x in group]), spread if spread > 1e-8 else 1.0
        value = (own.reward - base) / scale
    elif name.startswith(("opo", "self")):
        value = own.reward - _located(s, name, group)
    elif name.startswith("pass"):
        value = _of_best(s, group, 2) if name == "pass_at_2" else _of_best(s, group, count) / (spread * unbiased + EPS)
    else:
        value = {
            "none": own.reward,
            "offset": own.reward - s.scale,
            "mean": own.reward - mean,
            "group_mean": own.reward - mean - s.scale,
            "leave_one_out": own.reward - sum(rewards[1:]) / (count - 1),
            "group_std": (own.reward - mean) / (spread + EPS),
            "group_std_unbiased": (own.reward - mean) / (spread * unbiased + EPS),
            "maxrl": (own.reward - mean) / (mean + EPS),
            "soft_value": own.reward - s.scale * math.log(sum(math.exp(x / s.scale) for x in rewards) / count),
            "gdpo": _standard(both)[0],
            "gdpo_reward": _standard(_standard(rewards))[0],
            "remax": own.reward - greedy,
        }[name]
    return [value] * len(own.energy)
