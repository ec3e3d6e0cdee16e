r"""Two normal policies of equal spread, means `shift` standard deviations apart, have log-normal ratios.

Under behavior, log w ~ N(-shift^2/2, shift^2): E w^2 = e^{shift^2}, P(log w <= -shift^2/2 + z shift) = Phi(z).
Derivation: log w = shift * u - shift^2/2 in the standardized action u. Domain: 0 < shift <= 20 (Mahalanobis distance
in several dimensions); e^{shift^2} must be a double. Second route: quadrature over the action of the two densities,
with the quantile found as a root. Source: textbook.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, lab, sim, units_for, up_to

_SAMPLES, _BATCHES = 512, 16


class GaussianShift(Claim):
    """the log ratio of normal policies `delta` standard deviations apart is `N(-delta^2/2, delta^2)`"""

    kind, source = "distribution", "textbook"

    shift = Real(
        0.0, 20.0, open_low=True, typical=(0.01, 8.0), example=0.7, unit="standard deviations",
        doc="distance of the means", remedy="give the distance of the means in standard deviations",
    )  # fmt: skip

    def _cells(s, cdf: Callable[[int], float]) -> dict[str, float]:
        return {f"cdf[{z}]": float(cdf(z)) for z in (-1, 0, 1)}

    def predict(s) -> dict[str, float]:
        square = s.shift**2
        return {"mean_log": -square / 2.0, "var_log": square, "second_moment": math.exp(square)} | s._cells(norm.cdf)

    def check(s) -> dict[str, float]:
        d = s.shift

        def log_ratio(u: float) -> float:
            return float(norm.logpdf(u, loc=d) - norm.logpdf(u))

        def integral(power: int, function: Callable[[float], float]) -> float:
            """E[w^power function(u)]: the integrand peaks at u = power * shift."""
            peak = power * d

            def density(u: float) -> float:
                return math.exp(power * log_ratio(u) + norm.logpdf(u)) * function(u)

            return float(quad(density, peak - 12, peak + 12, limit=400, epsabs=0.0, epsrel=1e-12)[0])

        def below(z: int) -> float:
            edge = brentq(lambda u: log_ratio(u) - (-(d**2) / 2.0 + z * d), -10.0, 10.0, xtol=1e-14)
            return quad(norm.pdf, -12.0, edge, epsabs=1e-14)[0]

        mean = integral(0, log_ratio)
        variance, second = integral(0, lambda u: (log_ratio(u) - mean) ** 2), integral(2, lambda u: 1.0)
        return {"mean_log": mean, "var_log": variance, "second_moment": second} | s._cells(below)

    wrong = {"second moment exp(delta^2/2)": lambda s: {"second_moment": math.exp(s.shift**2 / 2.0)}}

    points = ({"shift": 0.5}, {"shift": 1.0})
    more = ({"shift": 0.25},)

    _beyond = "|shift| at most 1.1; lower it, the second moment is unseen beyond"
    reach = staticmethod(up_to(1.1, lambda point: abs(point["shift"]), _beyond))

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        shift, task = point["shift"], sim.tasks.gaussian_bandit(width=1.0)
        # Largest relative standard deviation of one replicate's quantity at the points above (measured).
        replicates = max(64, units_for(max(0.085, 0.032 / shift), effect, 12))
        cells = [lab.below(z, -(shift**2) / 2 + z * shift) for z in (-1, 0, 1)]
        metrics = ["log_ratio_mean", "log_ratio_variance", "chi_square", *cells]
        places = np.array([0.0]), np.array([shift])
        trace = lab.run(lab.displaced(task, places, metrics, (_SAMPLES, _BATCHES, replicates)), seed, plant)
        return {
            **{cell.name: lab.share_of(trace[cell.name][1:], _SAMPLES) for cell in cells},
            "mean_log": lab.mean_of(trace, "log_ratio_mean"),
            "var_log": lab.variance_of(trace, _SAMPLES),
            "second_moment": lab.second_moment_of(trace),
        }

    defects = {"scored at another temperature": lambda: (lab.with_policy(lab.Tempered), {"shift": 1.0})}
