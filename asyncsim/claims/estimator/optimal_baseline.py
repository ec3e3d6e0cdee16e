r"""The constant baseline that minimizes the variance of the gradient, with and without truncated weights.

the best constant baseline is `E[w^2 |s|^2 R]/E[w^2 |s|^2]`; truncated weights shift it by a term of their own

g = w' (R - b) s for one sample, w' the ratio, truncated at `cap` where given, and z = E[w' s]. The total variance is
least at b = (E[w'^2 |s|^2 R] - E[w' R s] . z) / (E[w'^2 |s|^2] - |z|^2). Without truncation z = 0, and b = E[w^2 |s|^2
R] / E[w^2 |s|^2]. With truncation that quotient ("opob") minimizes the second moment, not the variance. Derivation: the
variance is a parabola in b. Domain: one softmax, deterministic arm rewards, baseline independent of the sample. Second
route: the variance by enumeration at three baselines and the vertex of the parabola through them.
"""

import numpy as np

from asyncsim.claims._bandit import PolicyPair, score_norm_squared
from asyncsim.claims._claim import PAIR, Claim, Estimate, Plant, Point, Positive, Vector, lab, sim

_ROUNDING = 1e-9
_POINT = {"rewards": (0.2, 0.5, 1.0), **PAIR}


class OptimalBaseline(PolicyPair, Claim):
    kind, source = "identity", "arXiv 2602.17616 (untruncated); truncated form derived"
    through = "oracle"

    rewards = Vector(typical=(0.1, 1.0), example=(0.2, 0.5, 1.0), doc="rewards of the arms")
    cap = Positive(optional=True, typical=(0.3, 3.0), example=1.2, doc="maximum weight that is not truncated")

    def joint(self) -> None:
        self.weight = np.minimum(self.pi / self.mu, np.inf if self.cap is None else self.cap)

    def _quotient(s, power: float) -> float:
        mass = s.mu * s.weight**power * score_norm_squared(s.pi)
        return float(mass @ s.rewards / mass.sum())

    def predict(s) -> dict[str, float]:
        mass = s.mu * s.weight**2 * score_norm_squared(s.pi)
        drift = s.mu * s.weight - (s.mu @ s.weight) * s.pi
        returns = s.mu * s.weight * s.rewards
        signal = returns - returns.sum() * s.pi
        least = float((mass @ s.rewards - signal @ drift) / (mass.sum() - drift @ drift))
        return {"baseline": least, "opob": s._quotient(2)}

    def check(s) -> dict[str, float]:
        scores = np.eye(s.rewards.size) - s.pi
        scale = float(np.abs(s.rewards).max()) or 1.0

        def vertex(centered: bool) -> float:
            """Vertex of the parabola through the second moments at three baselines, about the mean or about 0."""
            values = []
            for b in (-scale, 0.0, scale):
                gradients = (s.weight * (s.rewards - b))[:, None] * scores
                values.append(float(s.mu @ ((gradients - centered * (s.mu @ gradients)) ** 2).sum(axis=1)))
            left, middle, right = values
            return scale * 0.5 * (left - right) / (left - 2.0 * middle + right)

        return {"baseline": vertex(True), "opob": vertex(False)}

    wrong = {"weight to the fourth power": lambda s: {"baseline": s._quotient(4), "opob": s._quotient(4)}}

    points = ({**_POINT, "cap": None}, {**_POINT, "cap": 1.5})
    more = ({**_POINT, "cap": 1.1},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        rewards, cap = point["rewards"], point.get("cap")
        task = sim.tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
        # Not by the name of truncated weights, which refuses caps below 1.
        method = sim.methods.full_is(advantage=sim.advantages.opob()).replace(weight=lab.Ratio("sequence", cap))
        spec = plant(lab.population(task, method))
        # The variance is a parabola in a constant baseline: three exact values give its vertex.
        offsets = [spec.method.replace(advantage=sim.advantages.offset(v)) for v in (-1.0, 0.0, 1.0)]
        found = [sim.oracle.moments(task, each, *lab.places(point), samples=1).variance for each in offsets]
        vertex = 0.5 * (found[0] - found[2]) / (found[0] - 2.0 * found[1] + found[2])
        signal = lab.step_of(spec, point)
        baseline = (signal.batch.reward - signal.advantages)[0, 0, 0].item()
        return {"baseline": Estimate(vertex, tolerance=_ROUNDING), "opob": Estimate(baseline, tolerance=_ROUNDING)}

    defects = {"weight to the fourth power": lambda: lab.wrapping_advantage(lab.FourthPower)}
