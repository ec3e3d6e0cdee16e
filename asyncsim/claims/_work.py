"""Distributions of work as given in points, and the mean of the maximum of n draws by a second route.

`Law.expected_max` integrates the survival function of the maximum; `longest_by_quantiles` integrates the quantile
function instead and shares nothing with it but the parameters of the law.
"""

from typing import Any

import numpy as np
from scipy.special import gammainccinv, gammaln, ndtri

from asyncsim.base import checks, laws
from asyncsim.base.laws import Law

_STEP = 1.0 / 64.0
"""Spacing of the trapezoidal rule in log z: the integrand is analytic, so only rounding remains."""
_MIDDLES = (np.arange(4096) + 0.5) / 4096
"""Middles of equal shares, for which the list of a law with a maximum stands."""


def law_of(field: str, value: Any) -> Law:
    """Parse a distribution with finite mean and independent draws from text, or a constant from a number."""
    law = laws.as_law(field, value)
    remedy = "give the numbers as empirical:..., or @file.csv:column: then the formula is that of independent draws"
    checks.require(law.kind != "recorded", field, repr(law), "a distribution of independent draws", remedy)
    law.mean()
    if not law.cut:
        return law
    # Formulas are of densities or of lists, and with a maximum a law has both: its mean moves by 1e-6.
    return laws.empirical(np.minimum(exceeded(law, _MIDDLES), law.maximum))


def text(field: str, value: Any) -> str:
    """Return the text of a distribution unchanged."""
    given = isinstance(value, str) and ":" in value
    checks.require(given, field, value, "the text of a distribution", "write it as name:numbers")
    return str(value)


def law_text(field: str, value: Any) -> Law:
    """Parse a distribution given as text, with finite mean and independent draws."""
    return law_of(field, text(field, value))


def seconds(field: str, value: Any) -> float:
    """Mean seconds, >= 0: a number, or the mean of a distribution given as text."""
    if isinstance(value, str):
        return law_of(field, value).mean()
    return checks.real(field, value, "give seconds, or the text of a distribution", 0.0)


def some_seconds(field: str, value: Any) -> float:
    """Mean seconds, > 0: a number, or the mean of a distribution given as text."""
    return checks.real(field, seconds(field, value), "give a positive number", 0.0, open_low=True)


def longest(law: Law, n: int) -> float:
    """E[max of n draws] of a distribution: in closed form if known, else the integral of 1 - F^n.

    Exponential of mean mu: mu (1 + 1/2 + ... + 1/n). Pareto of minimum x and index a:
    x Gamma(n + 1) Gamma(1 - 1/a) / Gamma(n + 1 - 1/a).
    """
    if law.kind == "exponential":
        return float(law.parameters[0] * (1.0 / np.arange(1, n + 1)).sum())
    if law.kind == "pareto":
        minimum, index = law.parameters
        return float(minimum * np.exp(gammaln(n + 1) + gammaln(1.0 - 1.0 / index) - gammaln(n + 1 - 1.0 / index)))
    return law.expected_max(n)


def exceeded(law: Law, tail: np.ndarray) -> np.ndarray:
    """Inverse survival function of a distribution: the value that a draw exceeds with probability `tail`."""
    p = law.parameters
    if law.kind == "constant":
        return np.full(np.shape(tail), p[0])
    if law.kind == "exponential":
        return -p[0] * np.log(tail)
    if law.kind == "lognormal":
        return p[0] * np.exp(-p[1] * ndtri(tail) - 0.5 * p[1] ** 2)
    if law.kind == "pareto":
        return p[0] * tail ** (-1.0 / p[1])
    if law.kind == "gamma":
        return p[0] / p[1] * gammainccinv(p[1], tail)
    ordered = np.sort(p)[::-1]
    return ordered[np.minimum((tail * len(ordered)).astype(int), len(ordered) - 1)]


def longest_by_quantiles(law: Law, n: int) -> float:
    """E[max of n draws]: integral of the quantile at F = exp(-z/n) over exponential z, computed in log z.

    A law of finitely many values is summed instead: each gap times the probability that the maximum lies beyond.
    """
    if law.kind in ("constant", "empirical"):
        values = np.concatenate([[0.0], np.unique(law.parameters)])
        return float((np.diff(values) * (1.0 - (1.0 - law.survival(values[:-1])) ** n)).sum())
    # Small z are the far tail; a Pareto law decays there as z^(1 - 1/index) only.
    decay = 1.0 - 1.0 / law.parameters[1] if law.kind == "pareto" else 1.0
    s = np.arange(-42.0 / decay, 4.0, _STEP)
    z = np.exp(s)
    return float((exceeded(law, -np.expm1(-z / n)) * np.exp(s - z)).sum() * _STEP)


def draws(law: Law, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Independent draws of a distribution, float64 of the given shape."""
    return exceeded(law, 1.0 - generator.random(shape))
