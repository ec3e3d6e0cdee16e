r"""The Hessian of a softmax bandit's expected reward has norm at most (max r - min r) / (3 sqrt 3), for any arms.

the Hessian of a softmax bandit's expected reward in the logits has norm at most `(max r - min r)/(3 sqrt 3)`

v^T (Hess J) v = Cov_pi(r, (v - E_pi v)^2), J = pi . r in the logits. On two arms J = r_1 + (r_2 - r_1) s(u) with u the
difference of logits and |d u|^2 = 2 |d theta|^2. |s''| = p (1-p) |1 - 2p| is largest at p = 1/2 +- 1/(2 sqrt 3), where
it is 1/(6 sqrt 3). The constant is attained there. Conditional: that more arms allow no larger one is a numerical
optimum, not a proof. Domain: finite mean rewards of at least two arms, not all equal, no penalty. Second route: the
largest eigenvalue of the Hessian from its covariance form. It is taken along all policies on the worst and the best arm
and at drawn ones. Source: derived; arXiv 2005.06392 has 5/2 for rewards in [0, 1], thirteen times as much.
"""

import math

import numpy as np
from scipy.optimize import minimize_scalar

from asyncsim.base import rng
from asyncsim.claims._bandit import arm_rewards, refuse_equal
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, sim

_DRAWN = 64
"""Policies on all arms at which the second route looks for more."""
_GRID, _DRAWN_STARTS = 201, 400
_SPACING = 1e-3
"""Distance of the pairs on two arms; the ratio there is below the largest derivative by about its square."""


def _norm(probabilities: np.ndarray, rewards: np.ndarray) -> float:
    """Largest absolute eigenvalue of the Hessian: E[(r - J) (e - pi)(e - pi)^T]."""
    centered = rewards - probabilities @ rewards
    gradient = probabilities * centered
    # (e_a - pi)(e_a - pi)^T expands into diag, cross terms and pi pi^T, the last with weight E(r - J) = 0.
    hessian = np.diag(gradient) - np.outer(gradient, probabilities) - np.outer(probabilities, gradient)
    return float(np.abs(np.linalg.eigvalsh(hessian)).max())


class BanditSmoothness(Claim):
    kind, status, source = "bound", "conditional", "derived; arXiv 2005.06392 for 5/2"
    through, effect = "oracle", 0.05

    rewards = arm_rewards(0.1, 0.4, 0.9, low=-1.0, most=2.0, least=4, doc="mean rewards of the arms")

    def joint(self) -> None:
        self.require(self.rewards.size >= 2, "rewards", "rewards of at least two arms", "add an arm")
        refuse_equal(self.rewards, "without that J is constant")

    def predict(s) -> dict[str, float]:
        return {"bound": float(np.ptp(s.rewards)) / (3.0 * math.sqrt(3.0))}

    def check(s) -> dict[str, float]:
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

    wrong = {"constant for the difference of logits": lambda s: {"bound": s.predict()["bound"] / 2.0}}

    points = ({"rewards": (0.0, 1.0)}, {"rewards": (0.1, 0.4, 0.9)}, {"rewards": (0.0, 0.2, 0.5, 0.7, 1.0)})
    more = ({"rewards": tuple(np.linspace(-1.0, 2.0, 10).tolist())},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        rewards = np.array(point["rewards"])
        task = sim.tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
        spec = plant(sim.Spec(task, lab.fixed(0), sim.methods.reinforce(), sim.chain()))
        # Pairs of logits: neighbors on the two extreme arms, and drawn ones at any distance.
        arms, (worst, best) = len(rewards), (rewards.argmin(), rewards.argmax())
        along, shift = np.zeros((_GRID, arms)) - 40.0, np.zeros(arms)
        along[:, worst], along[:, best] = 0.0, np.linspace(-4.0, 4.0, _GRID)
        shift[[worst, best]] = -0.5 * _SPACING, 0.5 * _SPACING
        draws = 2.0 * rng.Stream(seed, "bandit-smoothness").normal([[k] for k in range(2 * _DRAWN_STARTS)], range(arms))
        one, other = draws.reshape(2, _DRAWN_STARTS, arms)
        pairs = np.concatenate([along, one]), np.concatenate([along + shift, one + 0.3 * other])
        first, second = (
            spec.fitted_task.exact(spec.trained_policy, lab.torch.as_tensor(place))[1].numpy() for place in pairs
        )
        ratio = np.linalg.norm(second - first, axis=1) / np.linalg.norm(pairs[1] - pairs[0], axis=1)
        return {"bound": Estimate(float(ratio.max()), tolerance=1e-7)}

    defects = {"temperature forgotten in the derivative": lambda: lab.with_policy(lab.Sharpened)}
