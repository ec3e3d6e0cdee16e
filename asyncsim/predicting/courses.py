"""When a run has collapsed, and at which times runs that did not are compared with it.

Axes: `U` recorded updates, `R` replicates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

WINDOW = 10
"""Recorded updates over which returns and statistics are averaged, the present one the last."""
DRAWS = 20
"""Times that each control is given: results are means over them, as a single draw moves an area by some 0.02."""


class Course(NamedTuple):
    """What became of each run: `learned`, first update whose trailing mean return gained half of what there is to gain
    (-1: never); `collapsed`, first update from which it stays below half of its own largest gain (-1: never);
    `recovered`, whether it was there and came back. All `[R]`."""

    learned: np.ndarray
    collapsed: np.ndarray
    recovered: np.ndarray


class Matched(NamedTuple):
    """Runs to be told apart: indices `[n]` and reference updates `[n]` of those that collapse there, indices `[m]` of
    others that do not, and their updates `[draws, m]`."""

    cases: np.ndarray
    case_times: np.ndarray
    controls: np.ndarray
    control_times: np.ndarray


def trailing(values: np.ndarray, width: int = WINDOW) -> np.ndarray:
    """Mean of the last `width` numbers, `[U, R]`; of fewer at the start. What is missing counts for nothing."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    total, count = np.zeros(values.shape), np.zeros(values.shape)
    # Not a difference of running sums: one huge number would leave its rounding in all later means.
    for shift in range(min(width, len(values))):
        total[shift:] += filled[: len(values) - shift]
        count[shift:] += known[: len(values) - shift]
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


def largest(values: np.ndarray, width: int = WINDOW) -> np.ndarray:
    """Largest of the last `width` numbers, `[U, R]`; what is missing is never the largest."""
    padded = np.vstack([np.full((width - 1, values.shape[1]), -np.inf), np.where(np.isnan(values), -np.inf, values)])
    return np.lib.stride_tricks.sliding_window_view(padded, width, axis=0).max(axis=-1)


def course(returns: np.ndarray, start: float, best: float, window: int = WINDOW) -> Course:
    """What became of each run, from its returns `[U, R]`, the return `start` of the initial policy and the best one.

    With m_t the mean of the last `window` returns and p_t its running peak, a run has learned at the first t with
    m_t >= start + (best - start)/2, and has collapsed from the first t behind which always
    m_t < start + (p_t - start)/2.
    """
    mean = trailing(returns, window)
    peak = np.fmax.accumulate(mean, axis=0)
    above = mean >= start + 0.5 * (best - start)
    learned = np.where(above.any(axis=0), above.argmax(axis=0), -1)
    low = (mean < start + 0.5 * (peak - start)) & (np.arange(len(mean))[:, None] > learned) & (learned >= 0)
    # The update after the last one that was not low; a run that ends high has none.
    since = len(low) - low[::-1].argmin(axis=0)
    collapsed = np.where(low[-1], np.where(low.all(axis=0), 0, since), -1)
    return Course(learned, collapsed, low.any(axis=0) & ~low[-1])


def healthy(found: Course) -> np.ndarray:
    """Runs that learned and never fell below half of their gain, `[R]`."""
    return (found.learned >= 0) & (found.collapsed < 0) & ~found.recovered


def only(found: Course, among: np.ndarray) -> Course:
    """The courses of these runs, all others counting as if they had never learned."""
    return Course(np.where(among, found.learned, -1), np.where(among, found.collapsed, -1), found.recovered & among)


def matched(
    found: Course, others: np.ndarray, updates: int, watch: int, confirm: int, seed: int, window: int = WINDOW
) -> Matched:
    """Collapses that were watched for `watch` updates, and `others` `[R]` cut at times drawn from those of collapses.

    A collapse counts where `confirm` updates follow it. Another run gets times of collapses drawn at random among
    those by which it had learned and been watched as long; without one it is left out.
    """
    early = np.where(found.learned >= 0, found.learned + watch + window, updates + 1)
    cases = np.flatnonzero((found.collapsed >= early) & (found.collapsed < updates - confirm))
    times = found.collapsed[cases]
    random = np.random.default_rng(seed)
    drawn = {one: random.choice(fit, DRAWS) for one in np.flatnonzero(others) if len(fit := times[times >= early[one]])}
    cut = np.array(list(drawn.values()), dtype=int).reshape(-1, DRAWS).T
    return Matched(cases, times, np.array(list(drawn), dtype=int), cut)
