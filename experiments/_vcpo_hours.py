"""Hours to a return: when a run gets there and stays, which step is chosen, and how two arms are compared."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, special, stats

from asyncsim.base import uncertainty
from asyncsim.base.records import Estimate

WINDOW = 10
"""Consecutive updates whose mean return must not fall below the target once it is reached."""
REACHING = 0.75
"""Share of runs that must arrive: the chosen step is where they do soonest, and only then are medians compared."""


def largest_return(bits: int, needed: int, penalty: float) -> float:
    """Best return of independent bits, by symmetry all right with one chance p: P(K >= needed) - bits c KL(p, 1/2)."""

    def loss(p: float) -> float:
        gap = math.log(2.0) + special.xlogy(p, p) + special.xlogy(1.0 - p, 1.0 - p)
        return float(bits * penalty * gap - stats.binom.sf(needed - 1, bits, p))

    return -float(optimize.minimize_scalar(loss, bounds=(0.5, 1.0 - 1e-9), method="bounded").fun)


def reached(returns: np.ndarray, target: float) -> np.ndarray:
    """First update whose return is at the target, no mean of ten from there on being below it, `[R]`; -1 without one.

    The mean decides whether it is for good and never when: waiting for ten returns would charge every arm as many
    updates, and pull the speed-up of learning towards that of the machine.
    """
    below = np.lib.stride_tricks.sliding_window_view(returns, WINDOW, axis=0).mean(axis=-1) < target
    since = np.where(below.any(axis=0), len(below) - below[::-1].argmax(axis=0), 0)
    at = (returns >= target) & (np.arange(len(returns))[:, None] >= since) & (since < len(below))
    return np.where(at.any(axis=0), at.argmax(axis=0), -1)


def known_at(start: np.ndarray, train: float) -> np.ndarray:
    """When each policy exists, from when batches start to train, `[R, U]`: the first at 0, others a training later."""
    return np.concatenate([np.zeros((len(start), 1)), start[:, :-1] + train], axis=1)


def timed(updates: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """Hours on clocks `[R, U]` at which runs reached their update, `[R]`; NaN for those that never did."""
    found = np.take_along_axis(clock, np.maximum(updates, 0)[:, None], axis=1)[:, 0]
    return np.where(updates >= 0, found, np.nan)


def arrived(hours: np.ndarray, share: float = 0.5) -> float:
    """Hours after which this share of all runs has arrived, by default their median; NaN where it never does."""
    found = float(np.quantile(np.where(np.isnan(hours), np.inf, hours), share, method="inverted_cdf"))
    return found if math.isfinite(found) else math.nan


def chosen(steps: np.ndarray, hours: np.ndarray) -> tuple[float, str]:
    """The step of the least hours, the smaller one of equals, or NaN with the reason.

    The edge of the grid is never the optimum: what lies beyond it was not tried.
    """
    if not np.isfinite(hours).any():
        return math.nan, "too few runs arrive at any step"
    best = int(np.nanargmin(hours))
    if best in (0, len(steps) - 1):
        return math.nan, f"best at the edge of the grid, {steps[best]:g}"
    return float(steps[best]), ""


def speed_up(base: np.ndarray, hours: np.ndarray, draws: int = 1000) -> Estimate | None:
    """Logarithm of the ratio of median hours, `base` over `hours`, with its error by resampling realizations in pairs.

    Arguments: hours `[R]` of runs on the same realizations, NaN where a run never arrived. None where fewer than three
    quarters of either arrive.
    """
    pairs = np.stack([base, hours], axis=1)
    if (np.isfinite(pairs).mean(axis=0) < REACHING).any():
        return None
    # Only the rank of a missing number matters: it is the last.
    pairs = np.where(np.isnan(pairs), 1e6 * np.nanmax(pairs), pairs)

    def statistic(rows: np.ndarray) -> float:
        before, after = np.quantile(rows, 0.5, axis=0, method="inverted_cdf")
        return math.log(before / after)

    return uncertainty.bootstrap(pairs, statistic, draws)
