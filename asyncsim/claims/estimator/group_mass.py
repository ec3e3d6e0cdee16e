r"""Capping the mean ratio of a group bounds its gradient at any staleness, but adds a bias.

scaling a group of mean ratio `m > C` by `C/m` biases it by `-E[(1 - C/m)_+ mean(w r s)]`, by at most `C max |r s|`

N samples of mu in a group, ratios w, m their mean: g = min(1, C/m) (1/N) sum_i w_i r_i s_i. Derivation: without the cap
g is unbiased, so the bias is what the cap takes; and (1/N) sum_i w_i |r_i s_i| <= m max|r s|, so |g| <= C max|r s| and
the second moment is bounded whatever mu is. E m = 1: with C > 1 the cap binds less and less as N grows, and the bias
goes to 0; at C = 1 it stays. Domain: one softmax, fixed rewards of the arms, at most 2^16 batches, a cap that binds in
some. First route: ordered batches. Second: counts of arms, their mean less the gradient.
"""

import numpy as np

from asyncsim.claims._bandit import PaidGroup, counted
from asyncsim.claims._claim import PAIR, Claim, Estimate, Integer, Plant, Point, Positive, indexed, lab, sim

_POINT = {**PAIR, "rewards": (0.2, 0.5, 1.0), "samples": 3, "cap": 1.2}


class GroupMass(PaidGroup, Claim):
    kind, source = "identity", "derived; the method of arXiv 2610.01896, rebuilt from its abstract"
    relative_to, through = "norm", "oracle"

    samples = Integer(1, 16, typical=(1, 5), example=3, unit="samples", doc="samples in a group")
    cap = Positive(typical=(1.0, 1.5), example=1.2, doc="maximum mean ratio of a group that is not capped")

    def joint(self) -> None:
        largest, bound = float(self.ratio.max()), "below the largest ratio, {:.6g}"
        self.require(self.cap < largest, "cap", bound.format(largest), "a cap that never binds has no bias")
        self.require(self.cap >= 1.0, "cap", "at least 1, the mean ratio", "raise it")
        self.paid = (self.ratio * self.rewards)[:, None] * self.scores

    def _of(s, chance: np.ndarray, bias: np.ndarray, g: np.ndarray) -> dict[str, float]:
        return indexed("bias", bias) | {"variance": float(chance @ (g**2).sum(1) - ((s.gradient + bias) ** 2).sum())}

    def _by_batches(s, keep: int) -> dict[str, float]:
        """Moments over all ordered batches, with the mean ratio of their first `keep` samples."""
        picks, chance = s.batches()
        mean = s.ratio[picks[:, :keep]].mean(axis=1)
        plain = s.paid[picks].mean(axis=1)
        left = np.minimum(1.0, s.cap / mean)[:, None]
        return s._of(chance, -chance @ ((1.0 - left) * plain), left * plain)

    def predict(s) -> dict[str, float]:
        return s._by_batches(s.samples)

    def check(s) -> dict[str, float]:
        counts, log_chance = counted(s.samples, np.log(s.mu))
        chance, mean = np.exp(log_chance), counts @ s.ratio / s.samples
        g = np.minimum(1.0, s.cap / mean)[:, None] * (counts @ s.paid) / s.samples
        return s._of(chance, chance @ g - s.gradient, g)

    wrong = {"the first sample's ratio for the group's": lambda s: s._by_batches(1)}

    points = (_POINT, {**_POINT, "samples": 8})
    more = ({**_POINT, "cap": 1.0}, {**_POINT, "samples": 1})

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        task = sim.tasks.softmax_bandit(len(point["rewards"]), point["rewards"], rewards="fixed")
        spec = plant(lab.population(task, sim.methods.gmc_grpo(point["cap"], advantage=sim.advantages.none())))
        found = sim.oracle.moments(task, spec.method, *lab.places(point), samples=point["samples"])
        return lab.components("bias", found.mean - found.exact) | {"variance": lab.exactly(found.variance)}

    defects = {"a cap on every ratio": lambda: lab.with_method(weight=lab.Ratio("sequence", 1.2))}
