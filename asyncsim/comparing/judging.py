"""Compare finished runs: an interval between seeds, and an interval within a pair of curves.

Axes: `...` any, `n` runs of an arm, `W` windows of equal length along the part of a curve that is read.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import special

from asyncsim.base import checks

LOW, HIGH = 4, 16
"""Number of slow cosines, whose mean square gives the noise of a mean, and of all cosines compared with them."""
STEEP = 2.0
"""Ratio of mean squares of slow to fast cosines above which noise outlasts the window."""
LEVEL = 0.05
"""Probability that `inside_runs` finds a difference where there is none."""
BOUNDS = {16: 3.42, 32: 3.04}
"""Critical value by number of windows, derived in `tests/comparing/test_judging.py`."""


class Interval(NamedTuple):
    """A difference, half of its interval (NaN if unknown), and the degrees of freedom of its error, `[...]` each."""

    value: Any
    half: Any
    freedom: Any


def between_runs(a: Any, b: Any, error: float = 0.05) -> Interval:
    """Mean of B minus mean of A with Welch's t interval, from one number per run.

    With v = s^2/n of each arm: half = t_f sqrt(v_a + v_b), f = (v_a + v_b)^2 / (v_a^2/(n_a-1) + v_b^2/(n_b-1)). Where
    the smaller arm has the larger v, f is its n - 1 at most, and 1 where it has two runs against more: there
    Satterthwaite's f misses in up to 10 percent instead of 5.

    Arguments: `a` `[..., n_a]`, `b` `[..., n_b]`, n >= 2 each; `error`, probability to miss. Returns an `Interval` in
    the units of the numbers. Assumes independent runs and means near normal; equal arms of 2, 3 and 5 runs miss in 2.2,
    3.6 and 4.6 percent, 4.8, 5.9 and 5.4 where one arm spreads five times as much. Source: Welch (1947), but for the
    bound on f.

    >>> value, half, freedom = between_runs([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
    >>> round(float(value), 3), round(float(half), 3), float(freedom)
    (1.0, 2.267, 4.0)
    """
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    n, m = a.shape[-1], b.shape[-1]
    v, w = a.var(-1, ddof=1) / n, b.var(-1, ddof=1) / m
    total = v + w
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = np.where(total > 0.0, total**2 / (v**2 / (n - 1) + w**2 / (m - 1)), 1.0)
    if n != m:
        few, larger = min(n, m) - 1, (v >= w) if n < m else (w >= v)
        freedom = np.where(larger | (few == 1), np.minimum(freedom, few), freedom)
    return Interval(b.mean(-1) - a.mean(-1), -special.stdtrit(freedom, error / 2.0) * np.sqrt(total), freedom)


def inside_runs(apart: Any) -> Interval:
    """Mean difference of two curves, with a 95 percent interval for the noise of these two runs.

    With X_j = sqrt(2)/W sum_k cos(pi j (k - 1/2)/W) d_k: half = c sqrt(mean_{j<=4} X_j^2). Noise that outlasts the
    stretch shows as slow cosines above the fast ones, j = 5 to 16. So half is NaN where the ratio of their mean squares
    is 2 or more. |mean| / sqrt(mean X_j^2) exceeds c with probability 0.05 at most, under Ornstein-Uhlenbeck noise of
    any memory. Random walks from a common start and white noise are the two ends of these.

    Arguments: `apart` `[..., W]`, means of B less A in W windows of equal length, 16 or 32. Returns an `Interval` in
    the units of the curves. Raises `InputError` for other W. Assumes that what moves more slowly than the stretch is no
    noise, or is visible beside the faster noise. Source: Muller (2014) for cosines and for a bound over memories; the
    ratio is this package's.

    >>> noise = np.random.default_rng(1).normal(size=32)
    >>> inside = inside_runs(noise), inside_runs(noise + 2.0), inside_runs(noise.cumsum())
    >>> [bool(abs(each.value) > each.half) for each in inside]
    [False, True, False]
    """
    apart = np.asarray(apart, dtype=float)
    checks.one_of("windows", apart.shape[-1], BOUNDS, "cut the stretch anew")
    mean, slow, fast = cosines(apart)
    return Interval(mean, np.where(slow < STEEP * fast, BOUNDS[apart.shape[-1]] * np.sqrt(slow), np.nan), float(LOW))


def cosines(apart: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of a series, and mean squares of its slow and fast cosine coefficients, which are equal for white noise."""
    count = apart.shape[-1]
    j = np.arange(1, min(HIGH, count - 1) + 1)[:, None]
    waves = np.sqrt(2.0) / count * np.cos(np.pi * j * (np.arange(count) + 0.5) / count)
    squares = (apart @ waves.T) ** 2
    return apart.mean(-1), squares[..., :LOW].mean(-1), squares[..., LOW:].mean(-1)
