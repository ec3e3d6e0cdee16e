r"""A baseline below the mean reward pulls toward the behavior policy, and can remove the limit set by staleness.

with a baseline that lies `V` below the mean reward, only the share `m = 1 - V/kl` of a KL-regularized softmax bandit's
gradient is stale: for `V/kl` in `[1/2, 1]`, no staleness lowers the largest stable step

REINFORCE without ratio, baseline V below the behavior's mean regularized reward: E g = mu o (r - mu.r) + V (mu - pi).
At the optimum the Jacobians are A = -V F in current and B = -(kl - V) F in behavior logits. So the stale share is m = 1
- V/kl and step < a_m(tau) / (kl lambda_max(F)), with a_m the boundary of that share. V/kl in [1/2, 1] leaves at least 2
for every tau, V < 0 less than a_c(tau). Domain: KL penalty in the reward at behavior log-probabilities, V between -2
and 3 kl, small deviations. Second route: Jacobians by complex steps, radius of the block companion matrix.
"""

import numpy as np

from asyncsim.claims._bandit import softmax
from asyncsim.claims._claim import Estimate, Plant, Point, Real, lab, named, sim
from asyncsim.claims._delay import critical, mixed_critical
from asyncsim.claims.staleness._soft import SoftBandit, centered

_point = named("offset", "staleness", rewards=(0.0, 0.4, 1.0), reference_logits=(0.5, 0.0, -0.5), kl=0.5)


class BaselineOffsetImmunity(SoftBandit):
    source, through = "derived; pessimistic baselines: arXiv 2506.20520", "loop"

    offset = Real(example=0.1, unit="reward", doc="distance of the baseline below the mean regularized reward")

    def joint(self) -> None:
        """Refuse baseline offsets with stale fractions far outside [0, 1], where a mode's roots are not bracketed."""
        fits = -2.0 * self.kl <= self.offset <= 3.0 * self.kl
        self.require(fits, "offset", "between -2 kl and 3 kl", "change the offset")

    def predict(s) -> dict[str, float]:
        return {"step": mixed_critical(s.staleness, 1.0 - s.offset / s.kl) / s.curvature}

    def field(s, theta: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        mu = softmax(behavior)
        return centered(mu, s.soft_rewards(mu)) + s.offset * (mu - softmax(theta))

    wrong = {"offset without effect": lambda s: {"step": critical(s.staleness) / s.curvature}}

    points = (_point(0.15, 3), _point(0.35, 2), _point(-0.25, 2))
    more = (_point(0.5, 4), _point(-0.5, 8), _point(0.75, 3))
    reach = staticmethod(lambda point: lab.soft.reach(point))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        beta, tau, task = point["kl"], point["staleness"], lab.soft.bandit(point)
        start = lab.soft.optimum(task)
        # At the optimum all arms earn the same, so that a fixed baseline moves nothing there.
        baseline = float(sim.oracle.exact(task, start)[0]) - point["offset"]
        method = sim.methods.reinforce(sim.advantages.offset(baseline))
        return lab.soft.boundary(task, method, start, beta, tau, seed, plant)

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "baseline of the group": lambda: lab.with_method(advantage=sim.advantages.group_mean()),
        "penalty at current log-probs": lambda: (lab.soft.penalty_at_current, _point(-0.25, 2)),
    }
