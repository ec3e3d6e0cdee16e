"""Open loops under a clock: a trainer that never waits publishes every `period` seconds whatever the generators do.

Places start again at once, so a sample's start falls anywhere in a period, independently of how long it will take.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from asyncsim import checks
from asyncsim.laws import Law
from asyncsim.records import Point
from asyncsim.theory import _lengths, _points

_SUPPLY = 1.25


class Clocked(NamedTuple):
    """Law of the generation seconds of a sample, and the seconds between two publishes."""

    length: Law
    period: float


def read_clocked(point: Point, required: str = "") -> tuple[Clocked, list[Any]]:
    """The clock and the law of a point with `length period places groups_per_batch`, and the values of further keys.

    One sample a group; `period` is the train time of a batch. Refused where generation feeds the trainer by less than a
    quarter too much: it would wait, and the clock stop.
    """
    text, period, places, groups, *more = _points.select(point, f"length period places groups_per_batch {required}")
    law, seconds = _lengths.read_law("length", text), _points.positive("period", period)
    groups = checks.integer("groups_per_batch", groups, 1, "count the groups of a batch")
    least = _SUPPLY * groups * law.mean() / seconds
    reason = "the trainer must never wait; give more places or a longer period"
    places = checks.real("places", checks.integer("places", places, 1, "count groups in generation"), reason, least)
    return Clocked(law, seconds), more
