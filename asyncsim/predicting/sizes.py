"""How far a curve of lead times may be off."""

from __future__ import annotations

import math

from asyncsim.base import checks


def band(samples: int, error: float = 0.05) -> float:
    """Half width of a band that holds a whole empirical distribution function, lead times above all.

    e = sqrt(ln(2/error) / (2 n)): P(sup |F_n - F| > e) <= error.

    Arguments: `samples` n >= 1, independent runs; `error` in (0, 1). Returns e, a share. Raises `InputError` for other
    values. Source: Massart 1990.

    >>> round(band(200, 0.01), 4)
    0.1151
    """
    n = checks.integer("samples", samples, 1, "count independent runs")
    checks.real("error", error, "give a share of runs")
    checks.require(0.0 < error < 1.0, "error", error, "in (0, 1)", "give a share of runs")
    return math.sqrt(math.log(2.0 / error) / (2.0 * n))
