r"""With centered scores, the gradient of stale samples is a covariance: a constant in the advantage has no effect.

centered scores give `Cov_q(A, w s)`; if only `k` actions are known, `E_q[A] sum_rest (q w - alpha p) s` is left over

With samples of q, weights w (1, or ratios p/q truncated at `cap`) and A = r - offset: E_q[A (w s - E_q[w s])] =
Cov_q(A, w s) = `grad`. What it takes out, `removed` = E_q[A] E_q[w s], is the pull of a mean advantage toward the old
policy (or away from it, where it is negative). Without weights it is -E_q[A] grad KL(q || p), which vanishes under the
baseline E_q[r]; a full ratio has nothing to take out. If only the k likeliest actions H of q are known, rho = (1 -
q(H))/(1 - p(H)) and alpha = rho w(1/rho), the term - sum_H (q w - alpha p) s leaves over `left` = E_q[A] sum over the
rest of (q w - alpha p) s. That is 0 where q is proportional to p outside H, so also for a single action. Domain: one
softmax, fixed rewards, a mean advantage and a bias that are not 0; with `top` two actions at least behind H, no tie at
its edge, and 1 - p(H) >= 1e-6. Second route: sample by sample. Whether training gains is another question, which
others' paired study did not confirm.
"""

import dataclasses
from typing import Any

import numpy as np

from asyncsim.claims._bandit import PolicyPair, arm_logits, softmax
from asyncsim.claims._claim import Choice, Claim, Estimate, Integer, Plant, Point, Real, Vector, indexed, lab, sim

_POINT = {
    "behavior_logits": (0.3, -0.2, 0.5, -0.6), "current_logits": (1.5, -0.9, 0.1, 0.4),
    "rewards": (0.2, 0.5, 1.0, 0.0), "offset": 0.1, "cap": 1.2,
}  # fmt: skip
_PLAIN = {**_POINT, "weight": "none", "top": 2}


class ScoreCentering(PolicyPair, Claim):
    kind, source = "identity", "arXiv 2609.20807; exactness derived"
    relative_to, through = "norm", "oracle"

    behavior_logits = arm_logits("behavior", 0.3, -0.2, 0.5, -0.6, sizes=(3, 6))
    current_logits = arm_logits("current", 1.5, -0.9, 0.1, 0.4)
    rewards = Vector(typical=(0.0, 1.0), example=(0.2, 0.5, 1.0, 0.0), doc="rewards of the arms")
    offset = Real(typical=(-1.0, 2.0), example=0.1, unit="reward", doc="constant baseline")
    weight = Choice("none", "truncated", example="truncated", doc="what multiplies the score")
    cap = Real(1.0, typical=(1.0, 2.0), example=1.2, doc="maximum ratio that is not truncated")
    top = Integer(1, optional=True, typical=(1, 2), example=1, unit="actions", doc="number of known top actions")

    def joint(self) -> None:
        self.q, self.p = map(softmax, self.logits)
        self.w = self._weight(self.p / self.q)
        self.gain = self.rewards - self.offset
        self.scores = np.eye(len(self.q)) - self.p
        self.removed = (self.q @ self.gain) * ((self.q * self.w) @ self.scores)
        self.grad = (self.q * (self.gain - self.q @ self.gain) * self.w) @ self.scores
        changes = min(float(np.abs(x).max()) for x in (self.removed, self.grad)) > 1e-6
        remedy = "move the offset, or take a cap that binds"
        self.require(changes, "offset", "such that centering changes a gradient", remedy)
        if self.top is not None:
            # A head of the sampler's likeliest actions, and behind it what is not the trainer's.
            few, bound = self.top <= len(self.q) - 2, f"at most {len(self.q) - 2}: a single action behind it is exact"
            self.require(few, "top", bound, "lower it")
            order = np.sort(self.q)[::-1]
            self.head = self.q >= order[self.top - 1]
            behind = float(self.p[~self.head].sum())
            clear = float(order[self.top - 1] - order[self.top]) > 1e-9 and behind >= 1e-6
            self.require(clear, "top", "at an edge without a tie, with mass behind it", "move a logit")
            rho = self.q[~self.head].sum() / self.p[~self.head].sum()
            self.alpha = float(rho * self._weight(1.0 / rho))
            differ = float(np.abs(self._left(self.alpha)).max()) > 1e-6
            self.require(differ, "top", "such that something is left over", "move a logit, or leave top out")

    def _weight(s, ratio: np.ndarray) -> np.ndarray:
        return np.ones_like(ratio) if s.weight == "none" else np.minimum(ratio, s.cap)

    def _left(s, alpha: float) -> np.ndarray:
        return (s.q @ s.gain) * ((~s.head * (s.q * s.w - alpha * s.p)) @ s.scores)

    def predict(s, alpha: float | None = None) -> dict[str, float]:
        left = {} if s.top is None else indexed("left", s._left(s.alpha if alpha is None else alpha))
        return indexed("grad", s.grad) | indexed("removed", s.removed) | left

    def check(s) -> dict[str, float]:
        everything = (s.q * s.w) @ s.scores
        known = everything if s.top is None else (s.head * (s.q * s.w - s.alpha * s.p)) @ s.scores
        totals = np.zeros((3, len(s.q)))
        for chance, gain, own in zip(s.q, s.gain, s.w[:, None] * s.scores, strict=True):
            totals += chance * gain * np.array([own - everything, own, own - known])
        left = {} if s.top is None else indexed("left", totals[2] - totals[0])
        return indexed("grad", totals[0]) | indexed("removed", totals[1] - totals[0]) | left

    wrong = {"alpha of 1": lambda s: s.predict(1.0)}

    points = ({**_POINT, "weight": "truncated", "top": 1}, _PLAIN, {**_POINT, "weight": "truncated", "top": None})
    more = ({**_PLAIN, "top": None, "offset": 0.9},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        rewards, baseline = point["rewards"], sim.advantages.offset(point["offset"])
        task = sim.tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
        method = sim.methods.score_centering(point["weight"], point["cap"], point.get("top"), baseline)
        weight: Any = plant(lab.population(task, method)).method.weight

        def limit(other: lab.Weight) -> np.ndarray:
            return sim.oracle.limit(task, method.replace(weight=other), *lab.places(point))

        centered = limit(dataclasses.replace(weight, top=None))
        plain = limit(lab.Ratio("token", point["cap"]) if point["weight"] == "truncated" else lab.NoRatio())
        found = lab.components("grad", centered) | lab.components("removed", plain - centered)
        return found | (lab.components("left", limit(weight) - centered) if point.get("top") else {})

    defects = {"weights forgotten": lambda: lab.with_method(weight=sim.methods.score_centering("none", top=1).weight)}
