"""Advantages of a group of samples, by their textbook formulas on single samples and on counts of outcomes."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

EPS = 1e-6
"""What is added to standard deviations and means that divide."""
SAMPLES = (
    *("group_mean", "leave_one_out", "opo", "opo_others", "opob", "opob_others", "normalized", "normalized_others"),
    *("group_std", "maxrl", "soft_value", "pass_at_k", "remax", "gdpo"),
)
TOKENS = ("returns_to_go", "returns_less_mean", "reinforce_plus_plus", "otb")
KINDS = (*SAMPLES, *TOKENS)


class Group(NamedTuple):
    """What advantages read of each sample, or of each outcome.

    Reward, length, ratio, and squared norm of its weighted score, `[n]`. Of its tokens, `[n, T]`, the squared norm of
    their scores and whether they are there. `greedy` is the reward of the likeliest response.
    """

    reward: np.ndarray
    length: np.ndarray
    ratio: np.ndarray
    norm: np.ndarray
    token_norm: np.ndarray
    mask: np.ndarray
    greedy: float

    def of(self, index: np.ndarray) -> Group:
        """Some of them."""
        parts = (self.reward, self.length, self.ratio, self.norm, self.token_norm, self.mask)
        reward, length, ratio, norm, token_norm, mask = (x[index] for x in parts)
        return Group(reward, length, ratio, norm, token_norm, mask, self.greedy)


class Knobs(NamedTuple):
    """Settings of advantages: discount per token, temperature, set size, length limit and its weight."""

    discount: float
    temperature: float
    k: int
    limit: int
    weight: float


def by_samples(kind: str, g: Group, s: Knobs) -> np.ndarray:
    """A `[N, T]` of each sample, as the papers print it."""
    if kind in TOKENS:
        return _tokens_by_samples(kind, g, s)
    n, r = len(g.reward), g.reward
    weights = {"opo": g.length, "opob": g.norm, "normalized": g.ratio}
    stem = kind.removesuffix("_others")
    if stem in weights:
        w = weights[stem]
        others = [[j for j in range(n) if j != i or stem == kind] for i in range(n)]
        base = np.array([sum(w[j] * r[j] for j in each) / sum(w[j] for j in each) for each in others])
        return np.repeat((r - base)[:, None], g.mask.shape[1], 1)
    if kind == "leave_one_out":
        a = np.array([r[i] - np.mean([r[j] for j in range(n) if j != i]) for i in range(n)])
    elif kind == "pass_at_k":
        a = np.array([_gained(r, i, s.k) for i in range(n)])
    elif kind == "gdpo":
        b = _standard(r) + s.weight * _standard((g.length <= s.limit).astype(float))
        a = (b - b.mean()) / (b.std() + EPS)
    else:
        mean = r.mean()
        a = {
            "group_mean": r - mean,
            "group_std": (r - mean) / (r.std(ddof=1) + EPS),
            "maxrl": (r - mean) / (mean + EPS) if mean > 0.0 else 0.0 * r,
            "soft_value": r - s.temperature * np.log(np.mean(np.exp(r / s.temperature))),
            "remax": r - g.greedy,
        }[kind]
    return np.repeat(np.asarray(a)[:, None], g.mask.shape[1], 1)


def _gained(r: np.ndarray, i: int, k: int) -> float:
    """Mean over sets of k samples with i of their best less the best of the others."""
    others = [j for j in range(len(r)) if j != i]
    sets = list(itertools.combinations(others, k - 1))
    return float(np.mean([max(r[i], *(r[j] for j in each)) - max(r[j] for j in each) for each in sets]))


def _standard(x: np.ndarray) -> np.ndarray:
    return np.asarray((x - x.mean()) / (x.std() + EPS))


def _returns(g: Group, discount: float) -> np.ndarray:
    """Return from each token on, of a reward at the end, `[n, T]`."""
    place = np.arange(g.mask.shape[1])
    return np.asarray(g.mask * g.reward[:, None] * discount ** (g.length[:, None] - 1.0 - place))


def _tokens_by_samples(kind: str, g: Group, s: Knobs) -> np.ndarray:
    returns = _returns(g, 1.0 if kind == "otb" else s.discount)
    if kind == "otb":
        found = np.zeros_like(returns)
        for t in range(returns.shape[1]):
            alive = [i for i in range(len(returns)) if g.mask[i, t] > 0]
            energy = [g.ratio[i] ** 2 * g.token_norm[i, : t + 1].sum() for i in alive]
            base = sum(e * returns[i, t] for i, e in zip(alive, energy, strict=True)) / sum(energy) if alive else 0.0
            for i in alive:
                found[i, t] = returns[i, t] - (base if len(alive) > 1 else 0.0)
        return found
    if kind == "reinforce_plus_plus":
        returns = g.mask * (returns - returns[:, 0].mean())
    if kind == "returns_to_go":
        return returns
    every = returns[g.mask > 0]
    spread = every.std() if kind == "reinforce_plus_plus" and every.std() > 1e-8 else 1.0
    return np.asarray(g.mask * (returns - every.mean()) / spread)


def by_counts(kind: str, g: Group, count: np.ndarray, s: Knobs) -> np.ndarray:
    """A `[n, T]` of each outcome of which there are so many, from the counts."""
    if kind in TOKENS:
        return _tokens_by_counts(kind, g, count, s)
    n, r = count.sum(), g.reward
    share = count / n
    mean, square = float(share @ r), float(share @ r**2)
    stem = kind.removesuffix("_others")
    weights = {"opo": g.length, "opob": g.norm, "normalized": g.ratio, "leave_one_out": np.ones_like(r)}
    if stem in weights:
        own = float(stem != kind or kind == "leave_one_out")
        left = (count[None, :] - own * np.eye(len(r))).clip(min=0.0) * weights[stem]
        a = r - (left @ r) / left.sum(axis=1)
    elif kind == "pass_at_k":
        a = _gained_by_levels(r, count, s.k)
    elif kind == "gdpo":
        parts = ((1.0, r), (s.weight, (g.length <= s.limit).astype(float)))
        a = _standard_by_counts(np.asarray(sum(w * _standard_by_counts(x, share) for w, x in parts)), share)
    elif kind == "group_std":
        a = (r - mean) / (math.sqrt(max(square - mean**2, 0.0) * n / (n - 1.0)) + EPS)
    elif kind == "maxrl":
        a = (r / mean - 1.0) / (1.0 + EPS / mean) if mean > 0.0 else 0.0 * r
    elif kind == "soft_value":
        a = -s.temperature * np.log(np.exp((r[None, :] - r[:, None]) / s.temperature) @ share)
    else:
        a = r - (g.greedy if kind == "remax" else mean)
    return np.repeat(np.asarray(a)[:, None], g.mask.shape[1], 1)


def _gained_by_levels(r: np.ndarray, count: np.ndarray, k: int) -> np.ndarray:
    """Gaps between rewards, each times the chance that the k - 1 others of a set all lie below it."""
    n, levels = int(count.sum()), np.unique(r[count > 0])
    gained = np.zeros_like(r)
    for low, high in itertools.pairwise(levels):
        below = int(count[r <= low].sum())
        gained[r >= high] += (high - low) * math.comb(below, k - 1) / math.comb(n - 1, k - 1)
    return gained


def _standard_by_counts(x: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Pairs of outcomes give the variance: half of their mean squared difference."""
    variance = 0.5 * float(share @ (x[:, None] - x[None, :]) ** 2 @ share)
    return np.asarray((x - share @ x) / (math.sqrt(variance) + EPS))


def _tokens_by_counts(kind: str, g: Group, count: np.ndarray, s: Knobs) -> np.ndarray:
    """Backward sums for returns; sums over outcomes for means."""
    returns, last = np.zeros_like(g.mask), np.zeros(len(g.mask))
    discount = 1.0 if kind == "otb" else s.discount
    for t in reversed(range(g.mask.shape[1])):
        ends = g.length == t + 1
        last = np.where(ends, g.reward, discount * last) * g.mask[:, t]
        returns[:, t] = last
    present = count[:, None] * g.mask
    if kind == "returns_to_go":
        return returns
    if kind == "otb":
        heavy = present * g.ratio[:, None] ** 2 * np.cumsum(g.token_norm * g.mask, axis=1)
        base = (heavy * returns).sum(axis=0) / np.maximum(heavy.sum(axis=0), 1e-300)
        return np.asarray(g.mask * (returns - base * (present.sum(axis=0) > 1.5)))
    whole = count @ returns[:, 0] / count.sum() if kind == "reinforce_plus_plus" else 0.0
    centered = g.mask * (returns - whole)
    total = present.sum()
    mean = (present * centered).sum() / total
    variance = max((present * centered**2).sum() / total - mean**2, 0.0)
    spread = math.sqrt(variance) if kind == "reinforce_plus_plus" and variance > 1e-14 else 1.0
    return np.asarray(g.mask * (centered - mean) / spread)
