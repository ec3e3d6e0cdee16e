r"""Softmax policy gradients come to the best arm like (1 - 1/K)/(step t), whatever the rewards and the staleness.

K arms, exact gradients tau updates old. Late in a run the best arm has nearly all mass and x_a = pi_a (r* - r_a) of any
other arm obeys d log x_a = -step (x_a + X) dt, X = sum x = r* - J: its own logit falls with x_a, that of the best arm
rises with X. All solutions end at x_a = 1/(K step t). So
    1/(r* - J_t) grows by step K/(K - 1) at each update   ("rate").
Gaps of rewards only set when that begins. Staleness shifts t by tau, so it costs nothing in the end. Arms come to equal
x like t^{-1/K}. Where step and staleness together make the first updates overshoot, that takes long. Domain: one best
arm, noiseless, group baselines without ratio. Second route: the fixed point of y = t x by linear algebra. Source:
derived; arXiv 2005.06392 has bounds of the order 1/t.
"""

from __future__ import annotations

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._declared import Declared, Positive, Staleness, Vector
from asyncsim.theory._stated import stated


class _Setting(Declared):
    rewards = Vector(typical=(0.0, 1.0), sizes=(2, 4), example=(0.0, 0.4, 1.0), unit="reward", doc="mean of each arm")
    step = Positive(typical=(0.1, 4.0), example=1.0, unit="logit per gradient", doc="learning rate")
    staleness = Staleness(0, 64, typical=(0, 12), example=4)

    def joint(self) -> None:
        """One best arm among at least two."""
        rewards = self.rewards.tolist()
        checks.require(len(rewards) >= 2, "rewards", rewards, "rewards of at least two arms", "add an arm")
        best = int((self.rewards == self.rewards.max()).sum())
        checks.require(best == 1, "rewards", rewards, "one best arm", "lower the others")


def _rate(s: _Setting, share: float) -> dict[str, float]:
    return {"rate": s.step / share}


def _cross_check(s: _Setting) -> dict[str, float]:
    others = s.rewards.size - 1
    # y_a = t step x_a stands still where 1 = y_a + sum y.
    still = np.linalg.solve(np.eye(others) + np.ones((others, others)), np.ones(others))
    return _rate(s, float(still.sum()))


def _gap(s: _Setting) -> float:
    """How much better the best arm is than the next."""
    return float(np.diff(np.sort(s.rewards))[-1])


claim = stated(
    id="convergence/last-iterate",
    statement="with exact gradients of any staleness a softmax bandit of `K` arms ends like "
    "`r* - J = (1 - 1/K)/(step t)`",
    kind="exponent",
    status="asymptotic",
    point=_Setting,
    predict=lambda s: _rate(s, 1.0 - 1.0 / s.rewards.size),
    cross_check=_cross_check,
    reference="derived; arXiv 2005.06392 for the order 1/t",
    formula_defects={
        "number of arms forgotten": lambda s: _rate(s, 1.0),
        "gap of the rewards in the rate": lambda s: _rate(s, (1.0 - 1.0 / s.rewards.size) / _gap(s)),
        "slower by the staleness": lambda s: _rate(s, (1.0 - 1.0 / s.rewards.size) * (s.staleness + 1)),
    },
)
