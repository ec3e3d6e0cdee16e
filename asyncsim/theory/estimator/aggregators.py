r"""What averaging over tokens makes of the policy gradient where lengths differ: the length bias of the sequence mean.

With the full ratio of each response, fresh or stale data give grad E_pi[(R - b) a(T)], T the response's length: a = 1
(sequence sum), 1/T (sequence mean), 1/E_mu[T] (token mean) or 1/T_max (constant). The step has two groups, one of
behavior and one of the policy at which training began: E_mu[T] is the mean of both, b the mean reward of each. So the
last two are the policy gradient, only shorter, and `along` is `size`. The sequence mean ascends (R - b)/T: a token of a
short response counts more, good or bad, and the mean length is pushed otherwise (`longer`). In a step of few samples
(`few_`) the token mean divides by the lengths that were drawn, which depend on the response itself. Then it is no
longer parallel either, and a group's mean as baseline costs the factor 1 - 1/N. Derivation: E_mu[W f score] =
grad E_pi[f] with b held fixed. Domain: a table of logits for each place, at most 2^16 ordered groups. Second route: all
responses, and all ordered groups, under behavior. Source: 2503.14476 (token mean), 2503.20783 (constant); derived.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._declared import Choice, Integer
from asyncsim.theory._ragged import LaterRagged
from asyncsim.theory._stated import stated

_AGGREGATORS = ("sequence_sum", "sequence_mean", "token_mean", "constant")


class _Setting(LaterRagged):
    aggregator = Choice(*_AGGREGATORS, example="token_mean", doc="how tokens of a step are averaged")
    samples = Integer(2, 4, typical=(2, 3), example=2, unit="samples", doc="samples of a group")

    def joint(self) -> None:
        """Few enough groups."""
        super().joint()
        groups = len(self.tokens) ** self.samples
        checks.require(groups <= 2**16, "samples", self.samples, "at most 65536 ordered groups", "use fewer")


def _groups(s: _Setting) -> list[np.ndarray]:
    """Chances of all responses in both groups, each `[Y, 1]`."""
    e = s.listed()
    return [np.exp(x.sum(1, keepdims=True)) for x in (e.behavior, e.proximal)]


def _levels(s: _Setting) -> list[float]:
    """Baseline of each group."""
    return [float((mass * s.listed().reward).sum()) for mass in _groups(s)]


def _both(s: _Setting, aggregator: str) -> np.ndarray:
    """Mean of a(T) (R - b) over both groups, `[Y, 1]`: what the current policy would ascend."""
    e, masses = s.listed(), _groups(s)
    length = sum(float((mass * e.length).sum()) for mass in masses) / len(masses)
    one = np.ones_like(e.length)
    factor = {"sequence_sum": one, "sequence_mean": 1.0 / e.length, "token_mean": one / length}
    gains = [e.reward - b for b in _levels(s)]
    mean: np.ndarray = sum(gains) / len(gains) * factor.get(aggregator, one / s.horizon)
    return mean


def _few(s: _Setting, aggregator: str, samples: int) -> np.ndarray:
    """Mean update of groups, from one sample and counts of the others: the group is symmetric. `[T, A]`."""
    e = s.listed()
    mass, reward, length = (x[:, 0] for x in (e.mass, e.reward, e.length))
    ratio = np.exp(e.log_ratio.sum(1))
    weights = np.zeros(len(mass))
    for others in itertools.combinations_with_replacement(range(len(mass)), samples - 1):
        chance = np.prod(mass[list(others)]) * _orders(others)
        total = float(length[list(others)].sum()) + length
        mean = (float(reward[list(others)].sum()) + reward) / samples
        share = {"sequence_sum": np.full_like(total, 1.0 / samples), "sequence_mean": 1.0 / (samples * length)}
        share |= {"token_mean": 1.0 / total, "constant": np.full_like(total, 1.0 / (samples * s.horizon))}
        weights += chance * share[aggregator] * ratio * (reward - mean)
    return s.pulled((samples * mass * weights)[:, None] * np.ones_like(e.mask))


def _orders(chosen: tuple[int, ...]) -> float:
    counts = np.unique(chosen, return_counts=True)[1]
    return float(np.prod(np.arange(1, len(chosen) + 1)) / np.prod([np.prod(np.arange(1, c + 1)) for c in counts]))


def _of(s: _Setting, update: np.ndarray, few: np.ndarray) -> dict[str, float]:
    return s.read(update) | {f"few_{name}": value for name, value in s.read(few).items()}


def _predict(s: _Setting, aggregator: str = "", few: str = "", samples: int = 0) -> dict[str, float]:
    update = s.expected(_both(s, aggregator or s.aggregator))
    return _of(s, update, _few(s, few or aggregator or s.aggregator, samples or s.samples))


def _many(s: _Setting) -> dict[str, float]:
    return {name: x for name, x in _predict(s).items() if not name.startswith("few_")}


def _cross_check(s: _Setting) -> dict[str, float]:
    e, masses = s.listed(), _groups(s)
    tokens = np.concatenate([mass * e.length for mass in masses]).sum()
    divided = {"sequence_sum": 2.0, "sequence_mean": 2.0 * e.length, "token_mean": tokens, "constant": 2.0 * s.horizon}
    update = np.zeros_like(s.current_logits)
    for mass, level, sampler in zip(masses, _levels(s), (e.behavior, e.proximal), strict=True):
        ratio = np.exp((e.current - sampler).sum(1, keepdims=True))
        update = update + s.pulled(mass * ratio * (e.reward - level) / divided[s.aggregator] * e.mask)
    groups = np.array(list(itertools.product(range(len(e.mass)), repeat=s.samples)))
    reward, length = e.reward[groups, 0], e.length[groups, 0]
    gain = reward - reward.mean(1, keepdims=True)
    divisor: Any = {
        "sequence_sum": s.samples, "sequence_mean": s.samples * length,
        "token_mean": length.sum(1, keepdims=True), "constant": s.samples * s.horizon,
    }[s.aggregator]  # fmt: skip
    parts = e.mass[groups, 0].prod(1, keepdims=True) * gain / divisor * np.exp(e.log_ratio.sum(1))[groups]
    weight = np.bincount(groups.ravel(), parts.ravel(), len(e.mass))
    return _of(s, update, s.pulled(weight[:, None] * np.ones_like(e.mask)))


claim = stated(
    id="estimator/aggregators",
    statement="with the full ratio a sequence mean ascends `E[(R - b)/T]`, a token mean `E[R]/E_mu[T]`",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="arXiv 2503.14476, 2503.20783; derived",
    formula_defects={
        "every response counts alike": lambda s: _predict(s, "sequence_mean"),
        "padding counted": lambda s: _predict(s, "constant"),
        "few samples as many": lambda s: _predict(s) | {f"few_{name}": x for name, x in _many(s).items()},
        "a sample more": lambda s: _predict(s, samples=s.samples + 1),
    },
)
