r"""How many runs tell two collapse rates apart, and how far a whole curve of lead times may be off.

n = (z_(1-e/2) sqrt(2 p q) + z_power sqrt(p_1 q_1 + p_2 q_2))^2/(p_1 - p_2)^2 runs of each arm, p the mean rate, rounded
up ("runs"). The test |k_1 - k_2| > z_(1-e/2) sqrt(2 n p q) then finds the difference with chance "power": a sum over
both binomials, within some hundredths of the one that was asked for. A curve of `announced` runs leaves the band
sqrt(ln(2/d)/(2 n)) around the true one with chance "outside" <= d, by Kolmogorov's statistic. Domain: independent runs,
at most 400 of each arm; lead times without ties. Second route: n by root finding on the normal power, regions of k_2
for each k_1; Kolmogorov's law by SciPy, here by powers of a matrix. Source: textbook; Massart 1990; the matrix:
Marsaglia, Tsang and Wang 2003.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats
from scipy.optimize import brentq

import asyncsim as sim
from asyncsim.base import checks
from asyncsim.base.declared import Count, Real
from asyncsim.base.records import Estimate, Point
from asyncsim.base.uncertainty import proportion
from asyncsim.claims import lab
from asyncsim.claims._claim import Claim
from asyncsim.claims._trial import Defect, Plant, units_for

_MOST = 400


def _runs(s: SampleSize) -> int:
    p, q, mean = s.first, s.second, (s.first + s.second) / 2.0
    null = float(special.ndtri(1.0 - s.error / 2.0)) * math.sqrt(2.0 * mean * (1.0 - mean))
    other = float(special.ndtri(s.power)) * math.sqrt(p * (1.0 - p) + q * (1.0 - q))
    return math.ceil(((null + other) / (p - q)) ** 2)


def _power(s: SampleSize, runs: int, error: float) -> float:
    """Chance that the test finds the difference, over both counts."""
    counts = np.arange(runs + 1)
    one, two = counts[:, None], counts[None, :]
    mean = (one + two) / (2.0 * runs)
    found = np.abs(one - two) > special.ndtri(1.0 - error / 2.0) * np.sqrt(2.0 * runs * mean * (1.0 - mean))
    return float(stats.binom.pmf(counts, runs, s.first) @ found @ stats.binom.pmf(counts, runs, s.second))


def _band(s: SampleSize) -> float:
    return math.sqrt(math.log(2.0 / s.band_error) / (2.0 * s.announced))


def _outside(n: int, width: float) -> float:
    """P(sup |F_n - F| > width): n!/n^n times an entry of the n-th power of a matrix is the chance to stay inside."""
    k = math.floor(n * width) + 1
    size, h = 2 * k - 1, k - n * width
    step = np.array([[1.0 if i - j + 1 >= 0 else 0.0 for j in range(size)] for i in range(size)])
    step[:, 0] -= h ** np.arange(1, size + 1)
    step[-1, :] -= h ** np.arange(size, 0, -1)
    step[-1, 0] += max(0.0, 2.0 * h - 1.0) ** size
    orders = np.arange(size)[:, None] - np.arange(size) + 1
    step /= special.factorial(np.maximum(orders, 0))
    entry = np.linalg.matrix_power(step / n, n)[k - 1, k - 1] * math.factorial(n)
    return 1.0 - float(entry)


def _one_sided(s: SampleSize) -> dict[str, float]:
    wrong = s.but(error=2.0 * s.error)
    return s.predict() | {"runs": float(_runs(wrong)), "power": _power(s, _runs(wrong), wrong.error)}


_SPREAD = 2.6
"""Standard deviation of one curve leaving its band or not, over the chance that it does: 2.4 at the point below."""
_MOST_RUNS = 120
"""Runs of an arm, each pair of whose counts is tested."""


class _Parts(NamedTuple):
    """What is measured of the product."""

    runs: Callable[..., int] = sim.predicting.sizes.runs_for_rates
    differ: Callable[..., bool] = sim.predicting.sizes.differ
    band: Callable[..., float] = sim.predicting.sizes.band


def _share_outside(point: Point, parts: _Parts, curves: int, seed: int) -> Estimate:
    """Share of curves of uniform lead times somewhere farther from the truth than their band."""
    n = point["announced"]
    times, ranks = np.sort(lab.noise.noise(seed, n, curves), axis=0), np.arange(n)[:, None]
    distance = np.maximum(times - ranks / n, (ranks + 1) / n - times).max(axis=0)
    return proportion(int((distance > parts.band(n, point["band_error"])).sum()), curves)


def _asked_one_sided(parts: _Parts) -> _Parts:
    """The level of one side only."""
    return parts._replace(differ=lambda one, two, runs, error: sim.predicting.sizes.differ(one, two, runs, 2.0 * error))


def _steps(parts: _Parts) -> _Parts:
    """Two evaluations of a run counted as two runs."""
    return parts._replace(band=lambda n, error: sim.predicting.sizes.band(2 * n, error))


_POINT: dict[str, Any] = {"first": 0.2, "second": 0.5, "error": 0.05, "power": 0.9, "announced": 8, "band_error": 0.2}


class SampleSize(Claim):
    """two collapse rates take `(z_(1-e/2) sqrt(2 p q) + z_power sqrt(p_1 q_1 + p_2 q_2))^2/(p_1 - p_2)^2` runs of
    each arm, and a curve of lead times stays within `sqrt(ln(2/d)/(2 n))`
    """

    kind, source = "expectation", "textbook; Massart 1990; Marsaglia, Tsang and Wang 2003"
    through = "predict"

    first = Real(0.01, 0.99, typical=(0.05, 0.4), example=0.2, doc="collapse rate of one arm")
    second = Real(0.01, 0.99, typical=(0.6, 0.95), example=0.5, doc="collapse rate of the other")
    error = Real(1e-4, 0.5, typical=(0.01, 0.2), example=0.01, doc="chance to see a difference that is none")
    power = Real(0.5, 0.999, typical=(0.6, 0.95), example=0.9, doc="chance to see the difference")
    announced = Count(2, 200, typical=(2, 40), example=12, doc="collapses whose lead times are known")
    band_error = Real(1e-3, 0.9, typical=(0.05, 0.5), example=0.2, doc="chance that the curve leaves its band, at most")

    def joint(self) -> None:
        """Few enough runs to list both counts."""
        checks.require(self.first != self.second, "second", self.second, "another rate", "give two rates")
        bound = f"such that an arm takes 2 to {_MOST} runs"
        checks.require(2 <= _runs(self) <= _MOST, "second", self.second, bound, "move the rates")

    def predict(s) -> dict[str, float]:
        runs = _runs(s)
        return {"runs": float(runs), "power": _power(s, runs, s.error), "outside": _outside(s.announced, _band(s))}

    def check(s) -> dict[str, float]:
        mean = (s.first + s.second) / 2.0
        level, gap = float(special.ndtri(1.0 - s.error / 2.0)), abs(s.first - s.second)
        spread = math.hypot(*(math.sqrt(p * (1.0 - p)) for p in (s.first, s.second)))

        def short(n: float) -> float:
            return (math.sqrt(n) * gap - level * math.sqrt(2.0 * mean * (1.0 - mean))) / spread - special.ndtri(s.power)

        runs = math.ceil(float(brentq(short, 1e-9, 4.0 * _MOST, xtol=1e-12)))
        power = 0.0
        for one in range(runs + 1):
            # Counts that are not told apart from this one: |x - y|^2 n <= c^2 (x + y)(2 n - x - y)/2.
            both = [
                two
                for two in range(runs + 1)
                if 2 * runs * (one - two) ** 2 <= level**2 * (one + two) * (2 * runs - one - two)
            ]
            inside = math.fsum(stats.binom.pmf(both, runs, s.second))
            power += float(stats.binom.pmf(one, runs, s.first)) * (1.0 - inside)
        return {"runs": float(runs), "power": power, "outside": float(stats.kstwo.sf(_band(s), s.announced))}

    wrong = {
        "level of one side": _one_sided,
        "band read as exact": lambda s: s.predict() | {"outside": s.band_error},
        "runs of both arms together": lambda s: s.predict() | {"runs": 2.0 * _runs(s)},
    }

    points = (_POINT,)
    more = ({**_POINT, "error": 0.01, "announced": 12},)

    @staticmethod
    def reach(point: Point) -> str | None:
        runs = sim.predicting.sizes.runs_for_rates(point["first"], point["second"], point["error"], point["power"])
        few = f"rates that at most {_MOST_RUNS} runs tell apart; move them apart"
        if runs > _MOST_RUNS:
            return few
        return None if point["band_error"] >= 0.1 else "a band_error of at least 0.1; raise it"

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        parts: _Parts = plant(_Parts())
        rates, error = (point["first"], point["second"]), point["error"]
        runs = parts.runs(*rates, error=error, power=point["power"])
        counts = range(runs + 1)
        found = np.array([[parts.differ(one, two, runs, error) for two in counts] for one in counts])
        chances = [stats.binom.pmf(counts, runs, rate) for rate in rates]
        exactly = {"runs": float(runs), "power": float(chances[0] @ found @ chances[1])}
        return {name: Estimate(x, tolerance=1e-9 * x) for name, x in exactly.items()} | {
            "outside": _share_outside(point, parts, units_for(_SPREAD, effect, 3), seed)
        }

    @staticmethod
    def defects() -> dict[str, Defect]:
        return {
            "level of one side": Defect(_asked_one_sided, _POINT),
            "evaluations counted as runs": Defect(_steps, _POINT),
        }
