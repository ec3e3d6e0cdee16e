r"""The expected reward of a softmax bandit has a Hessian of norm at most (max r - min r) / (3 sqrt 3), for any arms.

v^T (Hess J) v = Cov_pi(r, (v - E_pi v)^2), J = pi . r in the logits. On two arms J = r_1 + (r_2 - r_1) s(u) with u the
difference of logits and |d u|^2 = 2 |d theta|^2. |s''| = p (1-p) |1 - 2p| is largest at p = 1/2 +- 1/(2 sqrt 3), where
it is 1/(6 sqrt 3). The constant is attained there. Conditional: that more arms allow no larger one is a numerical
optimum, not a proof. Domain: finite mean rewards of at least two arms, not all equal, no penalty. Second route: the
largest eigenvalue of the Hessian from its covariance form. It is taken along all policies on the worst and the best arm
and at drawn ones. Source: derived; arXiv 2005.06392 has 5/2 for rewards in [0, 1], thirteen times as much.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from asyncsim.base import checks
from asyncsim.theory._bandit import refuse_equal
from asyncsim.theory._declared import Declared, Vector
from asyncsim.theory._stated import stated

_DRAWN = 64
"""Policies on all arms at which the second route looks for more."""


class _Setting(Declared):
    rewards = Vector(
        typical=(-1.0, 2.0), sizes=(4, 4), example=(0.1, 0.4, 0.9), unit="reward", doc="mean rewards of the arms"
    )

    def joint(self) -> None:
        """With one arm, or with equal rewards, the expected reward is constant."""
        rewards, arms = self.rewards.tolist(), self.rewards.size
        checks.require(arms >= 2, "rewards", rewards, "rewards of at least two arms", "add an arm")
        refuse_equal(self.rewards, "without that J is constant")


def _predict(s: _Setting) -> dict[str, float]:
    return {"bound": float(np.ptp(s.rewards)) / (3.0 * math.sqrt(3.0))}


def _norm(probabilities: np.ndarray, rewards: np.ndarray) -> float:
    """Largest absolute eigenvalue of the Hessian: E[(r - J) (e - pi)(e - pi)^T]."""
    centered = rewards - probabilities @ rewards
    gradient = probabilities * centered
    # (e_a - pi)(e_a - pi)^T expands into diag, cross terms and pi pi^T, the last with weight E(r - J) = 0.
    hessian = np.diag(gradient) - np.outer(gradient, probabilities) - np.outer(probabilities, gradient)
    return float(np.abs(np.linalg.eigvalsh(hessian)).max())


def _cross_check(s: _Setting) -> dict[str, float]:
    rewards = s.rewards
    worst, best = np.argmin(rewards), np.argmax(rewards)

    def on_two(p: float) -> float:
        probabilities = np.zeros(rewards.size)
        probabilities[[worst, best]] = 1.0 - p, p
        return _norm(probabilities, rewards)

    optimum = minimize_scalar(lambda p: -on_two(p), bounds=(0.0, 0.5), method="bounded", options={"xatol": 1e-10})
    # Sparse policies, since the largest values lie on few arms.
    policies = np.random.default_rng(0).dirichlet(np.full(rewards.size, 0.5), _DRAWN)
    return {"bound": max(-float(optimum.fun), *(_norm(p, rewards) for p in policies))}


def _above_the_mean(s: _Setting) -> dict[str, float]:
    rewards = s.rewards
    return {"bound": float(rewards.max() - rewards.mean()) / (3.0 * math.sqrt(3.0))}


claim = stated(
    id="convergence/bandit-smoothness",
    statement="the Hessian of a softmax bandit's expected reward is at most `(max r - min r)/(3 sqrt 3)` in the logits",
    kind="bound",
    status="conditional",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; arXiv 2005.06392 for 5/2",
    formula_defects={
        "constant for the difference of logits": lambda s: {"bound": _predict(s)["bound"] / 2.0},
        "difference of logits normalized once": lambda s: {"bound": _predict(s)["bound"] / math.sqrt(2.0)},
        "best reward above the mean instead of the range": _above_the_mean,
    },
)
