"""Distributions of generation times for claims: those with a density, and their expectations by quadrature.

`Law.moment_below` has truncated moments in closed form, and shares no formula with the density of SciPy here.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import stats

from asyncsim.base import checks, laws

SMOOTH = ("exponential", "lognormal", "pareto", "gamma")
"""Laws with a density: phases of workers mix under them."""

LIGHT = ("exponential:2.0", "lognormal:1.0:0.8", "lognormal:0.3:0.1", "gamma:1.0:0.5", "gamma:2.0:9.0")
HEAVY = (*LIGHT, "pareto:0.5:1.5")
"""Typical lengths, without and with one that has no variance."""

SIGMAS, SHAPES, HEAVIEST = (0.05, 3.0), (0.1, 100.0), 1.1
_PANELS = 240


def read_law(field: str, value: Any) -> laws.Law:
    """Parse a distribution with a density; refuse one that is nearly constant or has almost no finite mean."""
    remedy = "write it as lognormal:1.0:0.8"
    checks.require(isinstance(value, str) and ":" in value, field, value, "the text of a distribution", remedy)
    law = laws.as_law(field, value)
    reason = "lengths of few values keep the phases in which they began; choose a distribution with a density"
    smooth = law.kind in SMOOTH and not law.cut
    checks.require(smooth, field, value, f"one of {', '.join(SMOOTH)}, without a maximum", reason)
    last = law.parameters[-1]
    if law.kind == "pareto":
        checks.real(field, last, "the tail index: closer to 1 no run shows the mean", HEAVIEST)
    if law.kind == "lognormal":
        checks.real(field, last, "the standard deviation of log L", *SIGMAS)
    if law.kind == "gamma":
        checks.real(field, last, "the shape", *SHAPES)
    return law


def expectation(
    law: laws.Law, function: Callable[[np.ndarray], np.ndarray], breaks: Iterable[float] = (), power: float = 1.0
) -> float:
    """E f(L) by Gauss-Legendre panels in log L; `breaks` are kinks of f, and f grows at most like L^`power`."""
    low, high = _range(law, power)
    kinks = [math.log(b) for b in breaks if b > 0.0 and low < math.log(b) < high]
    log_x, weights = panels(np.unique(np.concatenate([np.linspace(low, high, _PANELS + 1), kinks])))
    x = np.exp(log_x)
    return float(weights @ (frozen(law).pdf(x) * x * function(x)))


def panels(edges: np.ndarray, nodes: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on every panel between two neighboring edges, `[panels * nodes]` each."""
    places, weights = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(edges) / 2.0
    return ((edges[:-1] + half)[:, None] + half[:, None] * places).ravel(), (half[:, None] * weights).ravel()


def frozen(law: laws.Law) -> Any:
    """Return a length distribution as a frozen SciPy distribution."""
    if law.kind == "pareto":
        return stats.pareto(law.parameters[1], scale=law.parameters[0])
    if law.kind == "lognormal":
        mean, sigma = law.parameters
        return stats.lognorm(sigma, scale=math.exp(math.log(mean) - 0.5 * sigma**2))
    mean, shape = (*law.parameters, 1.0)[:2]
    return stats.gamma(shape, scale=mean / shape)


def _range(law: laws.Law, power: float) -> tuple[float, float]:
    """Range of log L outside of which E L^power has only rounding error."""
    first, last = law.parameters[0], law.parameters[-1]
    if law.kind == "pareto":
        return math.log(first), math.log(first) + 34.0 / (last - power)
    if law.kind == "lognormal":
        centre = math.log(first) - 0.5 * last**2
        return centre - 8.5 * last, centre + power * last**2 + 8.5 * last
    return float(np.log(frozen(law).ppf(1e-17))), float(np.log(frozen(law).isf(1e-20)))
