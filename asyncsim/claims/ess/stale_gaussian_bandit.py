r"""Effective sample size of the stale Gaussian bandit: ESS/N is near (1 + 2 v)^{-1/2}, v the displacement's variance.

if a stale Gaussian bandit moves with a variance of `v` squared widths, its mean is `ESS/N = (1 + 2 v)^(-1/2)`

Given that the mean moved by Delta in the tau updates since the data was drawn, ESS/N of many samples is e^{-Delta^2 /
width^2}. The stationary variance of Delta is exact, v = 2 (gamma_0 - gamma_tau)/width^2 by `staleness/gaussian-bandit`
and twice the mean KL. For a normal Delta the mean of ESS/N is (1 + 2 v)^{-1/2}. Conditional: Delta is normal in the
limit of large groups alone. At N = 8 its kurtosis is above 5, and the ESS is read 1 percent high at v = 0.1; at N = 32
it is right to 0.2 percent. Domain: that of the bandit, tau >= 1. Second route: moments of neighbors from their linear
system, and quadrature over Delta.
"""

import math

import numpy as np

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Staleness, lab, units_for
from asyncsim.claims._delay import GaussianBandit, covariance_share, mean_square, second_moments
from asyncsim.claims._lengths import panels

_PAIRS, _SAMPLES = 6, 512
_POINT = {"staleness": 2, "samples": 32, "curvature": 2.0, "width": 0.5, "step": 0.15}


class StaleGaussianBandit(GaussianBandit, Claim):
    kind, status, source = "expectation", "conditional", "derived"

    staleness = Staleness(1, 24, typical=(1, 8), example=4)

    def predict(s, part: float = 1.0) -> dict[str, float]:
        """Predict ESS/N with the displacement's variance multiplied by `part`."""
        share = covariance_share(s.step * s.curvature, s.staleness, s.staleness)
        variance = 2.0 * mean_square(s) * (1.0 - share) / s.width**2
        return {"ess": 1.0 / math.sqrt(1.0 + 2.0 * (part * variance))}

    def check(s) -> dict[str, float]:
        law, _ = second_moments(s)
        spread = math.sqrt(float(law[0, 0] + law[-1, -1] - 2.0 * law[0, -1])) / s.width
        z, weight = panels(np.linspace(-9.0, 9.0, 65))
        density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
        return {"ess": float(weight @ (density * np.exp(-((spread * z) ** 2))))}

    wrong = {"KL for the variance": lambda s: s.predict(0.5)}

    points = (_POINT,)
    more = ({**_POINT, "staleness": 4, "step": 0.08, "samples": 24},)

    def reach(self, point: Point) -> str | None:
        few = "24 samples or more; displacements of fewer are not normal"
        return lab.bandit_settles(point) or (None if point["samples"] >= 24 else few)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # One ESS has a standard deviation of 0.21 of its mean at most at the points above (measured).
        tau, replicates = point["staleness"], units_for(0.21 / math.sqrt(_PAIRS), effect, 2)
        apart = 3 * (tau + 1)
        count = lab.bandit_warm_up(point) + _PAIRS * apart
        spec = lab.gaussian_bandit(point, count, replicates, [lab.PLACE])
        place, sizes = lab.run(spec, seed, plant)["place"], []
        for end in (len(place) - 1 - k * apart for k in range(_PAIRS)):
            # A large batch drawn at one place and scored at the other.
            pair, size = (place[end - tau][:, None], place[end][:, None]), (_SAMPLES, 1, replicates)
            spec = lab.displaced(spec.task, pair, ["ess"], size)
            sizes.append(np.asarray(lab.run(spec, seed + end, plant)["ess"][1]))
        ess = lab.between(np.mean(sizes, axis=0))
        # Allowance for the upward bias of a batch, relative; its leading term is below that at the points above.
        return {"ess": ess._replace(tolerance=1.5e-3 * ess.value)}

    defects = {"off-by-one version": lambda: lab.off_by_one_version, "momentum inserted": lambda: lab.momentum_inserted}
