"""How a token's log ratio varies at s training steps since its weights, v(s) = floor + a s + b s^2, from a log.

`ratio/drift-growth` gives a s + b s^2, and `ratio/mismatch-adds` the floor of engines that compute differently. A log
ratio of variance v is taken as normal with mean -v/2, so that ratios have mean 1. Axes: `U` steps, `S` stalenesses.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import linregress

from asyncsim.base.quantiles import critical

TERMS = ("floor", "per_update", "per_update_squared")
"""Coefficients of 1, s and s^2, in nats^2 per token."""
ALLOWED = 3.84
"""A fit with fewer terms is kept where it is within a 95 % interval of the best: 3.84 of its errors squared."""
LEAST = 0.05
"""Share of the largest variance below which a step's noise does not fall."""
MOVES = ("trend", "learns")
"""How the drift and the policy move in the log."""
TRIES = 1000
"""Draws of coefficients until none is negative; each is in one of eight at least, but where all errors are wide."""
SMALLEST = 1e-12


class Gauge(NamedTuple):
    """Conversion of a logged quantity to the variance of log ratios, and back from variances by staleness."""

    variance: Callable[[np.ndarray], np.ndarray]
    back: Callable[[np.ndarray, np.ndarray], float]
    claim: str
    assumes: str = "log ratios are normal"


def second_moment(v: np.ndarray, share: np.ndarray) -> float:
    """E w^2 = E e^v of normal log ratios with variance v, averaged over the weights `share`."""
    return float(share @ np.exp(np.minimum(v, 50.0)))


ESS, KL = "ess/limit", Gauge(lambda x: 2.0 * x, lambda v, p: float(p @ v) / 2.0, "estimator/kl-estimators")
SIZE = Gauge(lambda x: x**2 * math.pi / 2.0, lambda v, p: float(p @ np.sqrt(2.0 * v / math.pi)), "ratio/drift-growth")
GAUGES = {
    "kl_k3": KL,
    "kl_k1": KL,
    "chi_square": Gauge(np.log1p, lambda v, p: second_moment(v, p) - 1.0, ESS),
    "ess": Gauge(lambda x: -np.log(np.clip(x, 1e-9, 1.0)), lambda v, p: 1.0 / second_moment(v, p), ESS),
    "log_ratio_abs": SIZE._replace(assumes=f"{KL.assumes}, of a mean that is small beside their spread"),
    "levels": Gauge(lambda x: x, lambda v, p: float(p @ v), "ratio/drift-growth", "stamps are right"),
    "chi_square_sequence": Gauge(np.log1p, lambda v, p: 1.0 / second_moment(v, p), ESS),
    "geometric_abs": SIZE._replace(
        claim="estimator/geometric-ratio", assumes="mean log ratios of sequences are normal"
    ),
}
"""What a log may have, by our names: `levels` is the variance itself at every staleness."""


class Fit(NamedTuple):
    """Fitted coefficients of `TERMS` (0 for terms not in the fit), their covariance `[3, 3]` and degrees of freedom."""

    values: np.ndarray
    covariance: np.ndarray
    freedom: float

    def drawn(self, random: np.random.Generator) -> np.ndarray:
        """Draw coefficients of the fit from their joint sampling distribution, none of them below 0."""
        size, axes = np.linalg.eigh(self.covariance)
        for _ in range(TRIES):
            scale = math.sqrt(self.freedom / random.chisquare(self.freedom))
            deviation = axes @ (np.sqrt(np.maximum(size, 0.0)) * random.normal(size=3))
            drawn = self.values + np.where(self.values > 0.0, scale * deviation, 0.0)
            if (drawn >= 0.0).all():
                return drawn
        return self.values


class Drift(NamedTuple):
    """Fits of log-ratio variance on staleness that the data do not exclude, best first, with the `noise` of one step.

    `seen`: largest mean age of a step; `steps`, how many steps; `column`, where they are from. `trend`: change of
    the log of the level per update, where it is sure; `learns`, see `learning`.
    """

    fits: tuple[Fit, ...]
    noise: float
    seen: float
    steps: int
    column: str
    trend: float = 0.0
    learns: float = 0.0

    def row(self) -> dict[str, Any]:
        """Convert the coefficients, their intervals and all fits to plain values for a run's description."""
        terms = {
            name: {"value": _rounded(v), "low": _rounded(low), "high": _rounded(high)}
            for name, v, (low, high) in zip(TERMS, self.fits[0].values, self.ranges(), strict=True)
        }
        fits = [
            {"values": _rounded(fit.values), "covariance": _rounded(fit.covariance), "freedom": round(fit.freedom, 1)}
            for fit in self.fits
        ]
        more = {name: _rounded(getattr(self, name)) for name in ("noise", *MOVES, "seen")}
        more |= {"steps": self.steps, "from": self.column}
        return {**terms, **more, "fits": fits}

    def ranges(self) -> list[tuple[float, float]]:
        """95 % interval of each drift coefficient over all fits that the data do not exclude."""
        values = np.array([fit.values for fit in self.fits])
        error = [np.sqrt(np.maximum(np.diag(fit.covariance), 0.0)) for fit in self.fits]
        half = np.array([critical(0.05, fit.freedom) * each for fit, each in zip(self.fits, error, strict=True)])
        return list(zip(np.maximum(values - half, 0.0).min(0), (values + half).max(0), strict=True))

    def words(self) -> list[str]:
        """Format the coefficients of the best drift fit, each with its 95 % interval."""
        ends = zip(self.fits[0].values, self.ranges(), strict=True)
        return [f"{value:.2g} [{low:.2g}, {high:.2g}]" for value, (low, high) in ends]

    @property
    def identified(self) -> bool:
        """Whether at least one term occurs in every drift fit that the data do not exclude."""
        return len(self.fits) == 1 or bool(np.logical_and.reduce([fit.values > 0.0 for fit in self.fits]).any())


def of_row(row: Mapping[str, Any]) -> Drift:
    """Restore a `Drift` from the values in a run's description."""
    fits = [Fit(np.array(f["values"]), np.array(f["covariance"]), float(f["freedom"])) for f in row["fits"]]
    about = float(row["seen"]), int(row["steps"]), str(row["from"])
    return Drift(tuple(fits), float(row["noise"]), *about, *(float(row.get(n, 0.0)) for n in MOVES))


def fitted(v: np.ndarray, first: np.ndarray, second: np.ndarray, column: str) -> Drift | None:
    """Fit log-ratio variances `[U]` to the mean and mean squared staleness of their steps; None for too few steps.

    Least squares with the noise of a step in proportion to its variance. Errors are widened by the autocorrelation of
    residuals, between stretches. Every choice of terms with positive coefficients that is not excluded is kept.
    """
    known = np.isfinite(v) & np.isfinite(first) & np.isfinite(second)
    v, x = v[known], np.stack([np.ones(known.sum()), first[known], second[known]], axis=1)
    if len(v) < 8:
        return None
    top = max(float(np.abs(v).max()), SMALLEST)
    scale = np.maximum(np.abs(x).max(0), SMALLEST)
    weight, solved = np.full(len(v), 1.0 / top), dict[tuple[int, ...], np.ndarray]()
    for _ in range(3):
        solved = _solutions(x / scale * weight[:, None], v * weight)
        if not solved:
            return None
        # Terms that explain alike differ in last digits only, which processors do not share: the fewest first.
        best = min(solved, key=lambda terms: (float(f"{_misfit(solved[terms], x / scale, v, weight):.6g}"), terms))
        weight = 1.0 / np.maximum(x / scale @ solved[best], LEAST * top)
    residual = (v - x / scale @ solved[best]) * weight
    variance = float(residual @ residual) / max(len(v) - len(best), 2)
    # Means of stretches vary more than independent steps would, and of long ones more where the drift wanders.
    spreads = [(len(m), size * float(m.var(ddof=1))) for m, size in (_stretches(residual), _stretches(residual, 4))]
    count, between = max(spreads, key=lambda each: critical(0.05, each[0] - 1.0) * math.sqrt(each[1]))
    inflation = max(1.0, between / max(variance, 1e-300))
    means, size = _stretches(residual)
    trend = _trend(np.log(np.maximum(1.0 + means, LEAST)), size)
    least = _misfit(solved[best], x / scale, v, weight)
    fits = []
    for terms, values in sorted(solved.items(), key=lambda t: float(f"{_misfit(t[1], x / scale, v, weight):.6g}")):
        excess = _misfit(values, x / scale, v, weight) - least
        if excess <= ALLOWED * variance * inflation + 1e-9 * least:
            part = (x / scale * weight[:, None])[:, list(terms)]
            covariance = np.zeros((3, 3))
            covariance[np.ix_(terms, terms)] = np.linalg.inv(part.T @ part) * variance * inflation
            fits.append(Fit(values / scale, covariance / np.outer(scale, scale), count - 1.0))
    return Drift(tuple(fits), math.sqrt(variance * inflation), float(first[known].max()), len(v), column, trend)


def learning(reward: np.ndarray, prompts: int) -> float:
    """Trend of the mean reward `[U]` per update, in standard deviations across prompts; 0 if not significant.

    By Cauchy and Schwarz a policy whose mean is d of these away has a chi-square of d^2 or more to that of the log.
    """
    spread = float(np.diff(reward).std()) * math.sqrt(prompts / 2.0)
    return abs(_trend(*_stretches(reward))) / max(spread, SMALLEST)


def _stretches(values: np.ndarray, most: int = 16) -> tuple[np.ndarray, int]:
    """Means of blocks of equal length, 4 or more, without the oldest remainder, and the block length."""
    count = max(4, min(most, max(len(values) // 8, min(5, len(values) // 3))))
    return values[len(values) % count :].reshape(count, -1).mean(1), len(values) // count


def _trend(means: np.ndarray, size: int) -> float:
    """Slope of block means per update; 0 if its 95 % interval includes 0."""
    line = linregress(np.arange(len(means)) * size, means)
    sure = abs(line.slope) > critical(0.05, len(means) - 2.0) * line.stderr
    return float(line.slope) if sure else 0.0


def _solutions(x: np.ndarray, y: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
    """Least squares for every subset of columns that is independent and has positive coefficients."""
    found = {}
    for terms in (t for n in (1, 2, 3) for t in itertools.combinations(range(3), n)):
        part = x[:, list(terms)]
        if np.linalg.cond(part) < 1e4 and part.any(0).all():
            solution = np.linalg.lstsq(part, y, rcond=None)[0]
            if (solution > 0.0).all():
                values = np.zeros(3)
                values[list(terms)] = solution
                found[terms] = values
    return found


def _misfit(values: np.ndarray, x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    return float((((y - x @ values) * weight) ** 2).sum())


def variances(coefficients: np.ndarray, levels: int) -> np.ndarray:
    """Variance of log ratios at staleness 0 .. levels - 1, `[S]`."""
    s = np.arange(levels)
    return np.asarray(coefficients @ np.stack([np.ones(levels), s, s**2]))


def outside(v: np.ndarray, share: np.ndarray, low: float, high: float, tokens: bool = True) -> float:
    """Fraction of ratios outside of [1 - low, 1 + high], for normal log ratios with variance v and mean -v/2.

    Without `tokens` the logs are means over sequences, of mean 0 beside their spread.

    >>> round(outside(np.array([0.04]), np.array([1.0]), 0.2, 0.2), 3)
    0.311
    """
    spread = np.sqrt(np.maximum(v, SMALLEST))
    mean = v / 2.0 if tokens else 0.0
    above = ndtr(-(math.log1p(high) + mean) / spread)
    below = ndtr((math.log1p(-low) + mean) / spread) if low < 1.0 else 0.0
    return float(share @ (above + below))


def _rounded(x: Any) -> Any:
    """Plain values with eight significant digits."""
    return [_rounded(each) for each in x] if np.ndim(x) else float(f"{x:.8g}")
