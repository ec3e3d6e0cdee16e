"""How many runs a collapse rate, a comparison of two, or a curve of lead times takes."""

from __future__ import annotations

import math

from scipy import special

from asyncsim.base import checks


def _share(field: str, value: float) -> float:
    checks.real(field, value, "give a share of runs")
    checks.require(0.0 < value < 1.0, field, value, "in (0, 1)", "give a share of runs")
    return float(value)


def runs_for_rates(first: float, second: float, error: float = 0.05, power: float = 0.9) -> int:
    """Runs of each arm after which `differ` tells two collapse rates apart with the stated probability.

    n = (z_{1-error/2} sqrt(2 p q) + z_power sqrt(p_1 q_1 + p_2 q_2))^2 / (p_1 - p_2)^2, p the mean rate, q = 1 - p.

    Arguments: `first`, `second`, different rates in (0, 1); `error`, `power` in (0, 1). Returns n, runs.
    Raises `InputError` for other values. Assumes independent runs, and counts of ten or more. Source: textbook.

    >>> runs_for_rates(0.2, 0.5, error=0.01)
    73
    """
    p, q = _share("first", first), _share("second", second)
    checks.require(p != q, "second", second, f"other than {first}", "give the rates to tell apart")
    mean = (p + q) / 2.0
    null = float(special.ndtri(1.0 - _share("error", error) / 2.0)) * math.sqrt(2.0 * mean * (1.0 - mean))
    other = float(special.ndtri(_share("power", power))) * math.sqrt(p * (1.0 - p) + q * (1.0 - q))
    return math.ceil(((null + other) / (p - q)) ** 2)


def differ(first: int, second: int, runs: int, error: float = 0.05) -> bool:
    """Whether so many collapses among `runs` of each arm differ by more than chance, at about the level `error`.

    |k_1 - k_2| / sqrt(2 n p q) > z_{1-error/2}, p = (k_1 + k_2)/(2 n), q = 1 - p.

    Arguments: `first` k_1, `second` k_2 in [0, n]; `runs` n of each arm; `error` in (0, 1). Returns True or False.
    Raises `InputError` for other values. Assumes normal counts: at 0.05, equal rates differ in up to 12.5 percent of
    cases below 20 runs, 6.5 from 20 on. Arms on one seed are paired, and belong into `sim.compare`. Source: textbook.

    >>> differ(8, 20, runs=40), differ(8, 12, runs=40)
    (True, False)
    """
    checks.integer("runs", runs, 1, "count the runs of an arm")
    for name, count in (("first", first), ("second", second)):
        checks.integer(name, count, 0, "count collapses among the runs", runs)
    mean = (first + second) / (2.0 * runs)
    spread = math.sqrt(2.0 * runs * mean * (1.0 - mean))
    return abs(first - second) > float(special.ndtri(1.0 - _share("error", error) / 2.0)) * spread


def band(samples: int, error: float = 0.05) -> float:
    """Half width of a band that holds a whole empirical distribution function, lead times above all.

    e = sqrt(ln(2/error) / (2 n)): P(sup |F_n - F| > e) <= error.

    Arguments: `samples` n >= 1, independent runs; `error` in (0, 1). Returns e, a share. Raises `InputError` for other
    values. Source: Massart 1990.

    >>> round(band(200, 0.01), 4)
    0.1151
    """
    n = checks.integer("samples", samples, 1, "count independent runs")
    return math.sqrt(math.log(2.0 / _share("error", error)) / (2.0 * n))


def runs_for_curve(within: float, error: float = 0.05) -> int:
    """Collapses after which a curve of lead times is known everywhere to `within`.

    n = ln(2/error) / (2 within^2).

    Arguments: `within`, `error` in (0, 1). Returns n, runs that collapse. Raises `InputError` for other values.
    Source: Massart 1990.

    >>> runs_for_curve(0.1)
    185
    """
    return math.ceil(math.log(2.0 / _share("error", error)) / (2.0 * _share("within", within) ** 2))
