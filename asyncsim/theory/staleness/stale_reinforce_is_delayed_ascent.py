r"""Group-baselined REINFORCE without ratios on one softmax follows the gradient of the behavior policy: delayed ascent.

Centered rewards sum to zero over a group, so the current policy cancels from sum_i A_i (e_{a_i} - pi). Means over
groups of N samples from mu: leave-one-out baseline mu o (r - mu.r) = grad J(theta_{t-tau}). Group mean: (N-1)/N of it;
no baseline: mu o r - (mu.r) pi. Hence E theta follows theta_{t+1} = theta_t + step grad J(theta_{t-tau}) as N grows,
with theta_{-k} = theta_0. Domain: one context, no shared features, behavior of full support. Second route: enumeration
of sample pairs with the score at the current policy, and a complex-step derivative of E_mu[r log pi]. Pairs suffice
because E[(r_1 - mean) s_1] is linear in the other rewards. Source: derived.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.theory._bandit import PolicyPair, complex_gradient, refuse_equal, softmax
from asyncsim.theory._declared import Draw, Integer, Positive, Staleness, Vector
from asyncsim.theory._stated import indexed, stated


class _Setting(PolicyPair):
    rewards = Vector(typical=(0.1, 1.0), example=(0.0, 0.5, 1.0), doc="rewards of the arms")
    initial_logits = Vector(typical=(-2.0, 2.0), example=(0.0, 0.1, 0.0), doc="logits before the first update")
    staleness = Staleness(typical=(0, 6), example=4)
    step = Positive(typical=(0.01, 3.0), example=2.0, unit="logits per gradient", doc="learning rate")
    updates = Integer(1, typical=(1, 20), example=12, unit="updates", doc="length of a run")
    samples = Integer(
        2, typical=(2, 32), example=4, doc="samples of a group", remedy="a group baseline needs two samples"
    )

    def joint(self) -> None:
        """Arms that differ."""
        super().joint()
        refuse_equal(self.rewards)

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """One arm pays nothing, so that rewards differ."""
        point = super().drawn(draw)
        return point | {"rewards": (0.0, *point["rewards"][1:])}


def _ascent(s: _Setting, tau: int) -> np.ndarray:
    path = [s.initial_logits]
    for t in range(s.updates):
        pi = softmax(path[max(t - tau, 0)])
        path.append(path[-1] + s.step * pi * (s.rewards - pi @ s.rewards))
    return path[-1]


def _quantities(logit: np.ndarray, group: np.ndarray, none: np.ndarray) -> dict[str, float]:
    return indexed("logit", logit) | indexed("group_mean", group) | indexed("none", none)


def _closed(s: _Setting, tau: int, factor: float, pi: np.ndarray) -> dict[str, float]:
    mu = softmax(s.behavior_logits)
    mean = float(mu @ s.rewards)
    return _quantities(_ascent(s, tau), factor * mu * (s.rewards - mean), mu * s.rewards - mean * pi)


def _predict(s: _Setting) -> dict[str, float]:
    return _closed(s, s.staleness, (s.samples - 1) / s.samples, softmax(s.current_logits))


def _pair_field(mu: np.ndarray, pi: np.ndarray, rewards: np.ndarray, others: float) -> np.ndarray:
    """E[(r_1 - (1-others) r_1 - others r_2) (e_{a_1} - pi)] over independent pairs from mu."""
    chance = mu[:, None] * mu[None, :]
    advantage = others * (rewards[:, None] - rewards[None, :])
    score = np.eye(mu.size) - pi
    field: np.ndarray = np.einsum("ij,ij,ik->k", chance, advantage, score)
    return field


def _cross_check(s: _Setting) -> dict[str, float]:
    path = [s.initial_logits]
    for t in range(s.updates):
        field = _pair_field(softmax(path[max(t - s.staleness, 0)]), softmax(path[-1]), s.rewards, 1.0)
        path.append(path[-1] + s.step * field)
    mu = softmax(s.behavior_logits)
    group = _pair_field(mu, softmax(s.current_logits), s.rewards, (s.samples - 1) / s.samples)
    none = complex_gradient(lambda logits: (mu * s.rewards) @ np.log(softmax(logits)), s.current_logits)
    return _quantities(path[-1], group, none)


claim = stated(
    id="staleness/stale-reinforce-is-delayed-ascent",
    statement="group-baselined REINFORCE without ratios on a softmax bandit is gradient ascent with delayed gradients, "
    "whatever the current policy; without a baseline the current policy enters",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: centered rewards sum to zero over a group",
    formula_defects={
        "factor (N-1)/N of the group mean forgotten": lambda s: _closed(s, s.staleness, 1.0, softmax(s.current_logits)),
        "score at the behavior policy": lambda s: _closed(
            s, s.staleness, (s.samples - 1) / s.samples, softmax(s.behavior_logits)
        ),
        "staleness one too large": lambda s: _closed(
            s, s.staleness + 1, (s.samples - 1) / s.samples, softmax(s.current_logits)
        ),
    },
    relative_to="norm",
)
