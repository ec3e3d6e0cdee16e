r"""The constant baseline of least gradient variance, with and without truncated weights.

g = w' (R - b) s for one sample, w' the ratio, truncated at `cap` where given, and z = E[w' s]. The total variance is
least at b = (E[w'^2 |s|^2 R] - E[w' R s] . z) / (E[w'^2 |s|^2] - |z|^2); without truncation z = 0, and it is E[w^2
|s|^2 R] / E[w^2 |s|^2]. With truncation that quotient ("opob") minimizes the second moment, not the variance.
Derivation: the variance is a parabola in b. Domain: one softmax, deterministic arm rewards, baseline independent of
the sample. Second route: the variance by enumeration at three baselines and the vertex of the parabola through them.
Source: arXiv 2602.17616 for the quotient; the truncated form is derived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asyncsim import checks
from asyncsim.records import Claim, Point
from asyncsim.theory import _points
from asyncsim.theory._bandit import score_norm_squared, softmax


class _Setting(NamedTuple):
    rewards: np.ndarray
    mu: np.ndarray
    pi: np.ndarray
    cap: float

    @property
    def weight(self) -> np.ndarray:
        """Ratio of every arm, truncated at the cap, `[A]`."""
        return np.minimum(self.pi / self.mu, self.cap)


def _read(point: Point) -> _Setting:
    rewards, behavior, current, cap = _points.select(point, "rewards behavior_logits current_logits", "cap")
    rewards = _points.vector("rewards", rewards)
    checks.require(rewards.size >= 2, "rewards", rewards.tolist(), "rewards of at least two arms", "add an arm")
    mu = softmax(_points.vector("behavior_logits", behavior, length=rewards.size))
    pi = softmax(_points.vector("current_logits", current, length=rewards.size))
    return _Setting(rewards, mu, pi, np.inf if cap is None else _points.positive("cap", cap))


def _quotient(s: _Setting, power: float) -> float:
    mass = s.mu * s.weight**power * score_norm_squared(s.pi)
    return float(mass @ s.rewards / mass.sum())


def _minimizer(s: _Setting) -> float:
    mass = s.mu * s.weight**2 * score_norm_squared(s.pi)
    drift = s.mu * s.weight - (s.mu @ s.weight) * s.pi
    paid = s.mu * s.weight * s.rewards
    signal = paid - paid.sum() * s.pi
    return float((mass @ s.rewards - signal @ drift) / (mass.sum() - drift @ drift))


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return {"baseline": _minimizer(s), "opob": _quotient(s, 2)}


def _vertex(parabola: Callable[[float], float], scale: float) -> float:
    left, middle, right = (parabola(b * scale) for b in (-1.0, 0.0, 1.0))
    return scale * 0.5 * (left - right) / (left - 2.0 * middle + right)


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    scores = np.eye(s.rewards.size) - s.pi
    scale = float(np.abs(s.rewards).max()) or 1.0

    def second_moment(b: float) -> float:
        gradients = (s.weight * (s.rewards - b))[:, None] * scores
        return float(s.mu @ (gradients**2).sum(axis=1))

    def variance(b: float) -> float:
        gradients = (s.weight * (s.rewards - b))[:, None] * scores
        return float(s.mu @ ((gradients - s.mu @ gradients) ** 2).sum(axis=1))

    return {"baseline": _vertex(variance, scale), "opob": _vertex(second_moment, scale)}


def _weight_twice(point: Point) -> dict[str, float]:
    s = _read(point)
    return {"baseline": _quotient(s, 4), "opob": _quotient(s, 4)}


def _behavior_mean(point: Point) -> dict[str, float]:
    s = _read(point)
    return {"baseline": float(s.mu @ s.rewards), "opob": float(s.mu @ s.rewards)}


def _drift_ignored(point: Point) -> dict[str, float]:
    s = _read(point)
    return {"baseline": _quotient(s, 2), "opob": _quotient(s, 2)}


claim = Claim(
    id="estimator/optimal-baseline",
    statement="the best constant baseline is E[w^2|s|^2 R]/E[w^2|s|^2]; truncated weights add their drift to it",
    kind="identity",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="arXiv 2602.17616 (untruncated); truncated form derived",
    formula_defects={
        "weight to the fourth power": _weight_twice,
        "mean reward under behavior": _behavior_mean,
        "drift of truncated weights ignored": _drift_ignored,
    },
)
