r"""Exponential workers that update on arrival have geometric staleness.

With rates r_i and p_i = r_i / sum r: P(s = k) = sum_i p_i^2 (1 - p_i)^k, tail P(s >= c) = sum_i p_i (1 - p_i)^c.
Derivation: service is memoryless, so each arrival is worker i's with probability p_i whatever came before. Between i's
restart and its next delivery the arrivals of others are geometric, and a share p_i of the updates is i's. Domain:
exponential service, each worker restarts at once. Second route: the others deliver as a Poisson stream during i's
exponential service time; quadrature over that time. Source: derived.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import poisson

from asyncsim.theory import _engines, _lengths
from asyncsim.theory._arrivals import Workers
from asyncsim.theory._stated import stated


class _Setting(Workers):
    cells = _engines.cells(typical=(1, 6), example=12)


def _quantities(s: _Setting, cell: Callable[[int], float], tail: float) -> dict[str, float]:
    return {f"p[{k}]": float(cell(k)) for k in range(s.cells)} | {"tail": float(tail)}


def _predict(s: _Setting) -> dict[str, float]:
    p, q = s.shares, 1.0 - s.shares
    return _quantities(s, lambda k: (p**2 * q**k).sum(), (p * q**s.cells).sum())


def _cross_check(s: _Setting) -> dict[str, float]:
    counts = np.arange(s.cells)[:, None]
    cells, tail = np.zeros(s.cells), 0.0
    for p in s.shares:
        # Time in units of the mean gap between arrivals; e^{-60} of the mass lies beyond the end. Panels that widen
        # with time stay finer than the spread of a Poisson count.
        edges = np.concatenate([[0.0], np.geomspace(0.05, 60.0 / p, 80)])
        time, weights = _lengths.panels(edges, 24)
        density = weights * p * np.exp(-p * time)
        cells += p * (poisson.pmf(counts, (1.0 - p) * time) @ density)
        tail += p * float(poisson.sf(s.cells - 1, (1.0 - p) * time) @ density)
    return _quantities(s, lambda k: cells[k], tail)


def _off_by_one(s: _Setting) -> dict[str, float]:
    p, q = s.shares, 1.0 - s.shares
    return _quantities(s, lambda k: (p**2 * q ** (k + 1)).sum(), (p * q ** (s.cells + 1)).sum())


def _poisson(s: _Setting) -> dict[str, float]:
    mean = s.workers - 1
    return _quantities(s, lambda k: poisson.pmf(k, mean), poisson.sf(s.cells - 1, mean))


claim = stated(
    id="systems/geometric",
    statement="staleness of exponential workers updating on arrival is mixed geometric, `sum_i p_i^2 (1-p_i)^k`",
    kind="distribution",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: memoryless service",
    formula_defects={"exponent one too large": _off_by_one, "Poisson distribution of the same mean": _poisson},
)
