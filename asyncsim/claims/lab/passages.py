"""First passages of noiseless delayed descent beyond its boundary: when the gradient's norm exceeds levels."""

from __future__ import annotations

import math

import numpy as np

from asyncsim import schedules
from asyncsim.base.records import Estimate, Point
from asyncsim.claims._trial import Plant
from asyncsim.claims.lab.runs import run
from asyncsim.claims.lab.threshold import noiseless_descent

_LEVELS = 96
_SETTLED = 1e3
"""Amplitude, in units of the start, from which on other modes have died out."""
_RESOLUTION = 0.004
"""Half a period of the oscillation that is cut off, over the mean of all levels, at the points below at most."""
_LONGEST = 20_000


def passage(point: Point, seed: int, plant: Plant) -> Estimate:
    """Updates from an amplitude to one `ratio` times as large, the mean over many first amplitudes."""
    ratio, first = point["ratio"], 1e-6 * point["curvature"] * _SETTLED
    # Alarms at levels over as wide a range again, so that every phase of the oscillation has its part.
    levels = first * ratio ** np.linspace(0.0, 1.0, _LEVELS, endpoint=False)
    build = noiseless_descent((point["curvature"],), schedules.fixed(point["staleness"]))
    spec = plant(build((point["step"],), _length(point)))
    largest = np.fmax.accumulate(run(spec, seed, lambda whole: whole)["gradient_norm"][:, 0])
    # Updates before the first one above a level.
    alarm, collapse = (np.searchsorted(largest, each, side="right") for each in (levels, ratio * levels))
    mean, half = float(np.mean(collapse - alarm)), 2.0 * point["staleness"] + 1.0
    # A norm passes levels at peaks: of few half periods the mean over levels may leave out a part of one.
    return Estimate(mean, tolerance=max(_RESOLUTION * mean, half**2 / (4.0 * mean)), samples=_LEVELS)


def _length(point: Point) -> int:
    """Updates that surely reach the highest level: near the boundary growth is slow in proportion to what is above."""
    above = point["step"] * point["curvature"] * (2 * point["staleness"] + 1) / math.pi - 1.0
    nats = 2.0 * math.log(point["ratio"]) + math.log(_SETTLED) + 3.0
    return math.ceil(nats * (point["staleness"] + 1) * (1.1 + 1.25 / max(above, 1e-3)))


def reach(point: Point) -> str | None:
    """Why growth is too slow, or too large, for a run; None where it is not."""
    if _length(point) > _LONGEST:
        return f"runs of at most {_LONGEST} updates; take a step farther beyond the boundary"
    return None if point["ratio"] <= 1e60 else "a ratio of at most 1e60; lower it"
