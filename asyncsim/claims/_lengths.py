"""Laws of generation times as claims need them: truncated moments in closed form, and expectations by quadrature.

The two share no formula: the first are incomplete moments, the second integrates over the density of SciPy.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import special, stats

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


def moment_below(law: laws.Law, power: int, limit: float) -> float:
    """Truncated moment E[L^power; L <= limit] in closed form; the full moment if limit is infinite."""
    if limit <= 0.0:
        return 0.0
    # Integrate a Pareto density up to the limit.
    if law.kind == "pareto":
        minimum, alpha = law.parameters
        if limit <= minimum:
            return 0.0
        # expm1 keeps the digits where power and index are close; at equality it is the logarithm.
        stretch, gap = math.log(limit / minimum), power - alpha
        growth = stretch if gap == 0.0 else (math.expm1(gap * stretch) if math.isfinite(stretch) else -1.0) / gap
        return math.inf if gap >= 0.0 and not math.isfinite(stretch) else float(alpha * minimum**power * growth)
    # Shift the normal law of log L.
    if law.kind == "lognormal":
        mean, sigma = law.parameters
        centre = math.log(mean) - 0.5 * sigma**2
        share = special.ndtr((math.log(limit) - centre) / sigma - power * sigma)
        return float(math.exp(power * centre + 0.5 * (power * sigma) ** 2) * share)
    # Raise the shape of the gamma law.
    mean, shape = (*law.parameters, 1.0)[:2]
    scale = mean / shape
    full_moment = scale**power * special.poch(shape, power)
    return float(full_moment * special.gammainc(shape + power, limit / scale))


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
    """Gauss-Legendre nodes and weights on every panel between neighboring edges, `[panels * nodes]` each."""
    places, weights = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(edges) / 2.0
    return ((edges[:-1] + half)[:, None] + half[:, None] * places).ravel(), (half[:, None] * weights).ravel()


def frozen(law: laws.Law) -> Any:
    """Return the distribution as a frozen SciPy distribution."""
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
