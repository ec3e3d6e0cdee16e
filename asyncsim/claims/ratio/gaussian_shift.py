r"""Two normal policies of equal spread, means `shift` standard deviations apart, have log-normal ratios.

the log ratio of normal policies `delta` standard deviations apart is `N(-delta^2/2, delta^2)`

Under behavior, log w ~ N(-shift^2/2, shift^2): E w^2 = e^{shift^2}, P(log w <= -shift^2/2 + z shift) = Phi(z). ESS/N of
a large batch is 1/E w^2, and k3 = w - 1 - log w is shift^2/2 on average. Derivation: log w = shift * u - shift^2/2 in
the standardized action u. Domain: 0 < shift <= 20 (Mahalanobis distance in several dimensions); e^{shift^2} must be a
double. Second route: quadrature over the action of the two densities, with quantiles at linear log ratios.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.stats import norm

from asyncsim.base import checks
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, lab, sim, units_for, up_to
from asyncsim.claims._lengths import panels

_SAMPLES, _BATCHES, _SAID = 512, 16, ("variance", "k3", "tokens")


class GaussianShift(Claim):
    kind, source = "distribution", "textbook"

    shift = Real(
        0.0, 20.0, open_low=True, typical=(0.01, 8.0), example=0.7, unit="standard deviations",
        doc="distance of the means; or give variance of the log ratio, or k3, and tokens, over which it adds up",
        remedy="give the distance of the means in standard deviations",
    )  # fmt: skip

    @staticmethod
    def given(at: Point) -> Point:
        """Convert the `variance` or mean `k3` of a log ratio, for each of `tokens` independent tokens, to the shift."""
        own = {n: checks.real(n, at[n], "give a positive number", 0.0, open_low=True) for n in at if n in _SAID}
        if not {"variance", "k3"} & {*own}:
            return at
        total = own.get("variance", 2.0 * own.get("k3", 0.0)) * own.get("tokens", 1.0)
        return {n: value for n, value in at.items() if n not in own} | {"shift": math.sqrt(total)}

    def _cells(s, cdf: Callable[[int], float]) -> dict[str, float]:
        return {f"cdf[{z}]": float(cdf(z)) for z in (-1, 0, 1)}

    def predict(s) -> dict[str, float]:
        square = s.shift**2
        moments = {"mean_log": -square / 2.0, "var_log": square, "second_moment": math.exp(square)}
        return moments | {"ess": math.exp(-square)} | s._cells(norm.cdf)

    def check(s) -> dict[str, float]:
        d = s.shift

        def log_ratio(u: np.ndarray) -> np.ndarray:
            return norm.logpdf(u, loc=d) - norm.logpdf(u)

        def integral(function: Callable[[np.ndarray], np.ndarray], low: float = -14.0, high: float = 14.0) -> float:
            u, weight = panels(np.linspace(low, high, 129))
            return float(weight @ (norm.pdf(u) * function(u)))

        # The log ratio is linear in the action.
        start, slope = log_ratio(np.zeros(1))[0], np.diff(log_ratio(np.arange(2.0)))[0]
        mean = integral(log_ratio)
        variance = integral(lambda u: (log_ratio(u) - mean) ** 2)
        # What is integrated peaks at twice the shift.
        second = integral(lambda u: np.exp(2.0 * log_ratio(u)), 2.0 * d - 14.0, 2.0 * d + 14.0)
        below = s._cells(lambda z: integral(np.ones_like, high=(-(d**2) / 2.0 + z * d - start) / slope))
        return {"mean_log": mean, "var_log": variance, "second_moment": second, "ess": 1.0 / second} | below

    wrong = {"second moment exp(delta^2/2)": lambda s: {"second_moment": math.exp(s.shift**2 / 2.0)}}

    points = ({"shift": 0.5}, {"shift": 1.0})
    more = ({"shift": 0.25},)

    _beyond = "|shift| at most 1.1; lower it, the second moment is unseen beyond"
    reach = staticmethod(up_to(1.1, lambda point: abs(point["shift"]), _beyond))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        shift, task = point["shift"], sim.tasks.gaussian_bandit(width=1.0)
        # Largest relative standard deviation of one replicate's quantity at the points above (measured).
        replicates = max(64, units_for(max(0.085, 0.032 / shift), effect, 12))
        cells = [lab.below(z, -(shift**2) / 2 + z * shift) for z in (-1, 0, 1)]
        metrics = ["log_ratio_mean", "log_ratio_variance", "chi_square", *cells]
        places = np.array([0.0]), np.array([shift])
        trace = lab.run(lab.displaced(task, places, metrics, (_SAMPLES, _BATCHES, replicates)), seed, plant)
        second = lab.second_moment_of(trace)
        found = {cell.name: lab.share_of(trace[cell.name][1:], _SAMPLES) for cell in cells}
        found |= {"mean_log": lab.mean_of(trace, "log_ratio_mean"), "var_log": lab.variance_of(trace, _SAMPLES)}
        ess = second._replace(value=1.0 / second.value, error=second.error / second.value**2)
        return found | {"second_moment": second, "ess": ess}

    defects = {"scored at another temperature": lambda: (lab.with_policy(lab.Tempered), {"shift": 1.0})}
