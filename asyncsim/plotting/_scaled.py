"""The deviation of a measurement in units of what it had to see."""

from __future__ import annotations

import math

from asyncsim.base.records import Comparison

ONE_SIDED = ("bound", "ordering")


def scaled(row: Comparison, kind: str) -> tuple[float, float]:
    """Deviation and half of the interval in units of the effect; in units of that half where there is none."""
    if not math.isfinite(row.measured):
        return math.inf, 0.0
    reach = (row.high - row.low) / 2.0
    unit = effect_of(row, kind) or reach or 1.0
    return (row.measured - row.predicted) / unit, reach / unit


def effect_of(row: Comparison, kind: str) -> float:
    """The deviation D that a row had to see, from margin = (reach - deviation) / D; 0 where it cannot be told."""
    signed = row.measured - row.predicted
    room = (row.high - row.low) / 2.0 - (signed if kind in ONE_SIDED else abs(signed))
    return room / row.margin if math.isfinite(room) and math.isfinite(row.margin) and room and row.margin else 0.0
