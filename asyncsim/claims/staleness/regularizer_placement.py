r"""The log-probs in a KL penalty determine how much staleness a regularized softmax bandit tolerates.

a KL penalty from behavior log-probs leaves a softmax bandit fully stale, `step < a_c(tau) / (kl * lambda_max(F))`; from
current log-probs in the reward, it removes the limit by staleness; as a loss beside stale rewards, it leaves the stale
share `m = (r_1 - r_2) tanh(D/2) / kl`

Around pi* ~ reference e^{r/kl} the field has Jacobian A in current and B in behavior logits, A + B = -kl F. Penalty in
the reward at behavior log-probabilities: A = 0, with or without the exact ratio. So step < a_c(tau) / c with c = kl
lambda_max(F). In the reward at current log-probabilities: B = 0, step < 2/c for every tau. As a loss on current logits
beside stale rewards: B is the Hessian of pi . r. On two arms its share of the total is m = (gap/kl) tanh(D/2), D the
margin of pi* and gap = r_1 - r_2. Then step < a_m(tau) / c, a_m the boundary of the stale share m: below that of a_c
where m > 1. Domain: small deviations, baselines that do not move with the current policy; the loss on two arms. Second
route: Jacobians of the mean fields by complex steps, radius of the block companion matrix.
"""

import numpy as np

from asyncsim.claims._bandit import softmax
from asyncsim.claims._claim import Choice, Estimate, Plant, Point, Positive, Vector, lab, named, sim
from asyncsim.claims._delay import critical, mixed_critical
from asyncsim.claims.staleness._soft import SoftBandit, centered

_PLACES = ("behavior", "behavior_weighted", "current", "current_weighted", "loss")
"""Of the penalty: in the reward at which log-probs, without and with the exact ratio; or beside the reward."""
_point = named("placement", "staleness", "kl", rewards=(1.0, 0.0), reference_logits=(0.5, 0.0), kl=0.4)
_LOSS = _point("loss", 2)
_THREE = {"rewards": (0.0, 0.4, 1.0), "reference_logits": (0.5, 0.0, -0.5)}


class RegularizerPlacement(SoftBandit):
    source, through = "derived: Jacobians in current and in behavior logits", "loop"

    rewards = Vector(typical=(0.0, 1.0), sizes=(2, 2), example=(0.0, 1.0), doc="rewards of the arms")
    reference_logits = Vector(typical=(-1.0, 1.0), example=(1.0, 0.0), doc="logits of the reference policy")
    kl = Positive(typical=(0.2, 3.0), example=0.5, unit="reward per nat", doc="weight of the penalty")
    placement = Choice(*_PLACES, example="loss", doc="where the penalty reads log-probs, and whether the ratio weights")

    def joint(self) -> None:
        """Require two arms if the regularizer is in the loss, so that the one mode has one stale fraction."""
        fits = self.placement != "loss" or self.rewards.size == 2
        self.require(fits, "rewards", "those of two arms for a loss", "drop the other arms")

    def predict(s) -> dict[str, float]:
        kind = s.placement.partition("_")[0]
        if kind == "loss":
            gap, margin = (float(x[0] - x[1]) for x in (s.rewards, np.log(s.optimum)))
            share = gap / s.kl * float(np.tanh(margin / 2.0))
            return {"step": mixed_critical(s.staleness, share) / s.curvature}
        return {"step": critical(s.staleness if kind == "behavior" else 0) / s.curvature}

    def field(s, theta: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        pi, mu = softmax(theta), softmax(behavior)
        if s.placement == "loss":
            return centered(mu, s.rewards.astype(complex)) + centered(pi, s.soft_rewards(pi) - s.rewards)
        read = mu if s.placement.startswith("behavior") else pi
        return centered(pi if s.placement.endswith("weighted") else mu, s.soft_rewards(read))

    wrong = {
        "all stale": lambda s: {"step": critical(s.staleness) / s.curvature},
        "all current": lambda s: {"step": 2.0 / s.curvature},
        "Fisher eigenvalue replaced by 1": lambda s: {"step": s.predict()["step"] * s.curvature / s.kl},
    }

    points = (_point("behavior_weighted", 2), _point("current", 2), _LOSS, _point("loss", 1, 0.8))
    more = (_point("loss", 8), _point("behavior", 4, 0.5, **_THREE), _point("current_weighted", 4))
    reach = staticmethod(lambda point: lab.soft.reach(point))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        beta, (place, _, weighted) = point["kl"], point["placement"].partition("_")
        method = sim.methods.full_is() if weighted else sim.methods.reinforce()
        task = lab.soft.bandit(point, "current" if place == "current" else "behavior")
        start, tau = lab.soft.optimum(task), point["staleness"]
        if place == "loss":
            task, method = lab.soft.bandit(point, kl=0.0), method.replace(penalties=(sim.penalties.exact(beta),))
        return lab.soft.boundary(task, method, start, beta, tau, seed, plant)

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _LOSS),
        "penalty at current log-probs": lambda: lab.soft.penalty_at_current,
        "stale rewards weighted by the ratio": lambda: (lab.with_method(weight=lab.Ratio("sequence")), _LOSS),
    }
