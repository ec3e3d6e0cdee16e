r"""The log ratio of a chain of bits is a sum of independent two-valued terms, whose distribution is known exactly.

the log ratio of a chain of bits is a sum of independent two-valued terms with an exact distribution

log W = sum_t X_t, X_t = log pi_t/mu_t of the bit drawn from mu. Its mean is -sum KL(mu_t || pi_t), its variance sum p_t
(1 - p_t) (difference of the two values)^2. P(log W <= x) follows by splitting on one bit after another until the
remaining bits cannot change the answer. Domain: at most 24 bits whose margins go evenly along the chain; levels x
inside the law and off its atoms. Second route: all values of each half of the chain, joined by sorting.
"""

import numpy as np
from scipy.special import expit, log_expit

from asyncsim.claims._chain import Chains, bits
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Vector, indexed, lab

_CLEAR = 1e-9
"""Nats that a level keeps from every atom, so that rounding cannot move it across."""
_SPREAD = 4.5
"""Largest relative standard deviation of one sample that is asked for: a cell of 5 percent, or a mean of 0.22 sd."""
_POINT = {"horizon": 24, "behavior_margins": (0.6, 1.4), "current_margins": (0.9, 1.6), "levels": (-0.9, -0.1, 0.4)}


class ChainLaw(Chains, Claim):
    kind, source = "distribution", "textbook"
    effect = 0.04

    horizon = bits(12, 24)
    levels = Vector(typical=(-1.0, 1.0), sizes=(2, 2), example=(-0.6, 0.1, 0.5), unit="nats", doc="levels of log W")

    def joint(self) -> None:
        """Refuse levels at an atom, where rounding decides, and levels outside of the distribution."""
        # Probability of a right bit, and log pi/mu of a right and of a wrong one, `[H]` each.
        now, then = self.current, self.behavior
        self.p, self.ratios = expit(then), (log_expit(now) - log_expit(then), log_expit(-now) - log_expit(-then))
        low, high = (self._joined(self.levels + side)[2:] for side in (-_CLEAR, _CLEAR))
        inside = bool((low == high).all() and (low > 0.0).all() and (high < 1.0 - 1e-12).all())
        self.require(inside, "levels", "inside the distribution of log W and off its atoms", "move them")

    def _joined(s, levels: np.ndarray) -> np.ndarray:
        """Mean, variance and P(log W <= level) for every level, from the values of both halves of the chain."""
        middle, halves = len(s.p) // 2, []
        for part in (slice(middle), slice(middle, None)):
            values, mass = np.zeros(1), np.ones(1)
            for r, w, p in zip(*(x[part] for x in (*s.ratios, s.p)), strict=True):
                values, mass = np.concatenate([values + r, values + w]), np.concatenate([mass * p, mass * (1.0 - p)])
            halves.append((values, mass))
        mean = sum(values @ mass for values, mass in halves)
        variance = sum(mass @ (values - values @ mass) ** 2 for values, mass in halves)
        (first, first_mass), (second, second_mass) = halves
        order = np.argsort(second)
        cdf = np.concatenate([[0.0], second_mass[order].cumsum()])
        below = [first_mass @ cdf[np.searchsorted(second[order], level - first, side="right")] for level in levels]
        return np.array([mean, variance, *below])

    def _split(s, level: float) -> float:
        """P(log W <= level), by splitting partial sums and deciding each branch as early as possible."""
        right, wrong = s.ratios
        order = np.argsort(-np.abs(right - wrong))
        right, wrong, p = right[order], wrong[order], s.p[order]
        most = np.concatenate([np.maximum(right, wrong)[::-1].cumsum()[::-1], [0.0]])
        least = np.concatenate([np.minimum(right, wrong)[::-1].cumsum()[::-1], [0.0]])
        total, sums, mass = 0.0, np.zeros(1), np.ones(1)
        for t in range(len(p)):
            sums = np.concatenate([sums + right[t], sums + wrong[t]])
            mass = np.concatenate([mass * p[t], mass * (1.0 - p[t])])
            below = sums + most[t + 1] <= level
            total += float(mass[below].sum())
            undecided = ~below & (sums + least[t + 1] <= level)
            sums, mass = sums[undecided], mass[undecided]
        return total

    def predict(s) -> dict[str, float]:
        (right, wrong), p = s.ratios, s.p
        mean, variance = (p * right + (1.0 - p) * wrong).sum(), (p * (1.0 - p) * (right - wrong) ** 2).sum()
        below = indexed("cdf", [s._split(level) for level in s.levels])
        return {"mean_log": float(mean), "var_log": float(variance)} | below

    def check(s) -> dict[str, float]:
        mean, variance, *below = map(float, s._joined(s.levels))
        return {"mean_log": mean, "var_log": variance} | indexed("cdf", below)

    wrong = {"sign of the mean log ratio": lambda s: {"mean_log": -s.predict()["mean_log"]}}

    points = (_POINT,)
    more = ({**_POINT, "horizon": 18, "current_margins": (0.2, 1.8)},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        cells = [lab.below(number, level) for number, level in enumerate(point["levels"])]
        metrics = ["log_ratio_mean", "log_ratio_variance", *cells]
        trace = lab.Chain(point).run(metrics, lab.replicates_for(_SPREAD, effect, 2 + len(cells)), seed, plant)
        moments = {"mean_log": lab.mean_of(trace, "log_ratio_mean"), "var_log": lab.variance_of(trace, lab.SAMPLES)}
        return moments | {cell.name: lab.share_of(trace[cell.name][1:], lab.SAMPLES) for cell in cells}

    defects = {"one number for all bits": lambda: lab.with_policy(lab.OneNumber)}
