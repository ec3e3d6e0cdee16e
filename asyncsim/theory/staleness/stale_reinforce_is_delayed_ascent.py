r"""Group-baselined REINFORCE without ratios on one softmax follows the gradient of the behavior policy: delayed ascent.

Centered rewards sum to zero over a group, so the current policy cancels from sum_i A_i (e_{a_i} - pi). In the mean
over groups of N samples from mu: leave-one-out baseline mu o (r - mu.r) = grad J(theta_{t-tau}); group mean (N-1)/N
of it; no baseline mu o r - (mu.r) pi. Hence E theta follows theta_{t+1} = theta_t + step grad J(theta_{t-tau}) as N
grows, with theta_{-k} = theta_0. Domain: one context, no shared features, behavior of full support. Second route:
enumeration of sample pairs with the score at the current policy (E[(r_1 - mean) s_1] is linear in the other rewards,
so pairs suffice), and a complex-step derivative of E_mu[r log pi]. Source: derived.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncsim import checks
from asyncsim.records import Claim, Point
from asyncsim.theory import _points
from asyncsim.theory._bandit import complex_gradient, softmax
from asyncsim.theory._points import indexed


class _Setting(NamedTuple):
    rewards: np.ndarray
    start: np.ndarray
    staleness: int
    step: float
    updates: int
    behavior: np.ndarray
    current: np.ndarray
    samples: int


_KEYS = "rewards initial_logits staleness step updates behavior_logits current_logits samples"


def _read(point: Point) -> _Setting:
    rewards, start, tau, step, updates, behavior, current, samples = _points.select(point, _KEYS)
    rewards = _points.vector("rewards", rewards)
    checks.require(
        bool(np.ptp(rewards) > 0), "rewards", rewards.tolist(), "rewards that differ", "equal arms have no gradient"
    )
    arms = rewards.size
    return _Setting(
        rewards,
        _points.vector("initial_logits", start, length=arms),
        _points.staleness(tau),
        _points.positive("step", step),
        checks.integer("updates", updates, 1, "make at least one update"),
        _points.vector("behavior_logits", behavior, length=arms),
        _points.vector("current_logits", current, length=arms),
        checks.integer("samples", samples, 2, "a group baseline needs two samples"),
    )


def _ascent(s: _Setting, tau: int) -> np.ndarray:
    path = [s.start]
    for t in range(s.updates):
        pi = softmax(path[max(t - tau, 0)])
        path.append(path[-1] + s.step * pi * (s.rewards - pi @ s.rewards))
    return path[-1]


def _quantities(logit: np.ndarray, group: np.ndarray, none: np.ndarray) -> dict[str, float]:
    return indexed("logit", logit) | indexed("group_mean", group) | indexed("none", none)


def _closed(s: _Setting, tau: int, factor: float, pi: np.ndarray) -> dict[str, float]:
    mu = softmax(s.behavior)
    mean = float(mu @ s.rewards)
    return _quantities(_ascent(s, tau), factor * mu * (s.rewards - mean), mu * s.rewards - mean * pi)


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return _closed(s, s.staleness, (s.samples - 1) / s.samples, softmax(s.current))


def _pair_field(mu: np.ndarray, pi: np.ndarray, rewards: np.ndarray, others: float) -> np.ndarray:
    """E[(r_1 - (1-others) r_1 - others r_2) (e_{a_1} - pi)] over independent pairs from mu."""
    chance = mu[:, None] * mu[None, :]
    advantage = others * (rewards[:, None] - rewards[None, :])
    score = np.eye(mu.size) - pi
    field: np.ndarray = np.einsum("ij,ij,ik->k", chance, advantage, score)
    return field


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    path = [s.start]
    for t in range(s.updates):
        field = _pair_field(softmax(path[max(t - s.staleness, 0)]), softmax(path[-1]), s.rewards, 1.0)
        path.append(path[-1] + s.step * field)
    mu = softmax(s.behavior)
    group = _pair_field(mu, softmax(s.current), s.rewards, (s.samples - 1) / s.samples)
    none = complex_gradient(lambda logits: (mu * s.rewards) @ np.log(softmax(logits)), s.current)
    return _quantities(path[-1], group, none)


def _no_factor(point: Point) -> dict[str, float]:
    s = _read(point)
    return _closed(s, s.staleness, 1.0, softmax(s.current))


def _score_at_behavior(point: Point) -> dict[str, float]:
    s = _read(point)
    return _closed(s, s.staleness, (s.samples - 1) / s.samples, softmax(s.behavior))


def _off_by_one(point: Point) -> dict[str, float]:
    s = _read(point)
    return _closed(s, s.staleness + 1, (s.samples - 1) / s.samples, softmax(s.current))


claim = Claim(
    id="staleness/stale-reinforce-is-delayed-ascent",
    statement="group-baselined REINFORCE without ratios on a softmax bandit is gradient ascent with delayed gradients, "
    "whatever the current policy; without a baseline the current policy enters",
    kind="identity",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: centered rewards sum to zero over a group",
    formula_defects={
        "factor (N-1)/N of the group mean forgotten": _no_factor,
        "score at the behavior policy": _score_at_behavior,
        "staleness one too large": _off_by_one,
    },
    relative_to="norm",
)
