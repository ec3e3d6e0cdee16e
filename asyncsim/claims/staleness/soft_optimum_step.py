r"""A regularized softmax bandit is stable up to learning rate a_c(workers - 1) / (kl * Fisher eigenvalue at optimum).

a KL-regularized softmax bandit fed by `N` workers in rotation is stable near its optimum iff `step < a_c(N-1) / (kl
lambda_max(F(pi*)))`

J_kl = pi . r - kl KL(pi || reference) peaks at pi* ~ reference e^{r/kl}, where the Hessian in the logits is -kl F(pi*),
F = diag pi* - pi* pi*^T. With N workers in rotation every gradient is N - 1 updates old. So the local limit of delayed
ascent is the linear one with curvature kl lambda_max(F). Domain: everything in the gradient is stale (the penalty sits
in the reward, at behavior log-probabilities), no ratio, unbiased baseline, small deviations from pi*. Second route: pi*
by natural-gradient ascent, Jacobian of the mean field by complex steps, radius of the block companion matrix.
"""

import numpy as np

from asyncsim.base import laws
from asyncsim.claims._bandit import softmax
from asyncsim.claims._claim import Estimate, Integer, Plant, Point, lab, sim
from asyncsim.claims._delay import critical
from asyncsim.claims._recursion import marginal_step
from asyncsim.claims.staleness._soft import SoftBandit, centered

_POINT = {"rewards": (0.0, 0.4, 1.0), "reference_logits": (0.5, 0.0, -0.5), "kl": 0.5}


class SoftOptimumStep(SoftBandit):
    through = "kernel, loop"
    source = "derived: Hessian -kl F(pi*) of the regularized return, then the delayed linear boundary"

    workers = Integer(1, typical=(1, 9), example=5, doc="number of workers in rotation")

    def predict(s) -> dict[str, float]:
        return {"step": critical(s.workers - 1) / s.curvature}

    def field(s, theta: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        return centered(softmax(behavior), s.soft_rewards(softmax(behavior)))

    def check(s) -> dict[str, float]:
        return {"step": marginal_step(s.jacobians()[1], s.workers - 1)}

    wrong = {
        "Fisher eigenvalue replaced by 1": lambda s: {"step": critical(s.workers - 1) / s.kl},
        "staleness equal to the number of workers": lambda s: {"step": critical(s.workers) / s.curvature},
    }

    points = tuple({"workers": n, **_POINT} for n in (1, 2, 5))
    more = ({"workers": 9, **_POINT}, {"workers": 4, "rewards": (0.0, 1.0), "reference_logits": (0.0, 0.0), "kl": 1.0})
    reach = staticmethod(lambda point: lab.soft.why_flat(point))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        beta, task = point["kl"], lab.soft.bandit(point)
        method = sim.methods.reinforce(sim.advantages.leave_one_out())
        system = sim.systems.update_on_arrival(point["workers"], laws.constant(1.0), stagger=True)
        return lab.soft.boundary(task, system, method, lab.soft.optimum(task), beta, point["workers"] - 1, seed, plant)

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, {"workers": 5, **_POINT}),
        "penalty at current log-probs": lambda: (lab.soft.penalty_at_current, {"workers": 5, **_POINT}),
    }
