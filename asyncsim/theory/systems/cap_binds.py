r"""When the ticket cap binds, mean staleness is K/M - 1 for K tickets and M groups per publish, K/M on early release.

K tickets, M groups consumed per publish. Outstanding at a publish: K - M where tickets return at the publish (the M
groups that were just trained hold theirs), all K where tickets return at the dequeue and training takes time, so that
new groups started meanwhile. Divide by M (mean-staleness identity). With training of zero length a dequeued ticket is
admitted after the publish of the same instant, which leaves K/M - 1. Domain: nothing dropped, K >= M, one batch per
publish where training takes no time; and the tickets are used. They are for any lengths with C >= K - M places (C >= K
where tickets return at the dequeue), since what is left over when the last batch trains finds a place. With fewer
places they are where generation outruns training: M tickets return every `period` seconds, and the mean F of those that
find no place before the next return is bounded by a queue (`theory/_few_places.py`). The mean is then K/M - 1 - F/M,
and a point is inside where F/M is below a thousandth. Second route: version stamps of an event simulation with random
lengths. Source: derived.
"""

from __future__ import annotations

import bisect
import heapq
from typing import Any, NamedTuple

import numpy as np

from asyncsim import checks, laws, rng
from asyncsim.laws import Law
from asyncsim.records import Claim, Point
from asyncsim.theory import _few_places, _points

_UNUSED = 1e-3
"""Versions by which tickets without a place may lower the mean."""


class _Setting(NamedTuple):
    tickets: int
    groups: int
    early: bool
    instant: bool
    queue: _Queue | None


class _Queue(NamedTuple):
    """Fewer places than tickets: how many, how long their groups take, and the seconds of training of a publish."""

    places: int
    law: Law
    samples: int
    period: float


def _read(point: Point) -> _Setting:
    tickets, groups, release, instant, places, *rest = _points.select(
        point, "tickets publish_groups release zero_train_time", "places length samples_per_group period"
    )
    groups = checks.integer("publish_groups", groups, 1, "consume at least one group per publish")
    tickets = checks.integer("tickets", tickets, groups, "give at least one ticket for each group of a publish")
    checks.one_of("release", release, ("publish", "dequeue"), "say when a ticket returns")
    checks.one_of("zero_train_time", instant, (True, False), "say whether training takes time")
    checks.require(
        tickets > groups or (release == "dequeue" and not instant),
        "tickets",
        tickets,
        f"above publish_groups = {groups}",
        "with as many the run is synchronous and the prediction 0",
    )
    early, instant = release == "dequeue", bool(instant)
    spare = 0 if early or instant else groups
    if places is None or checks.integer("places", places, 1, "count groups in generation") >= tickets - spare:
        return _Setting(tickets, groups, early, instant, None)
    return _Setting(tickets, groups, early, instant, _read_queue(places, rest, groups, instant))


def _read_queue(places: int, rest: list[Any], groups: int, instant: bool) -> _Queue:
    length, samples, period = rest
    checks.require(not instant, "places", places, "as many as tickets", "without training none are left over")
    law = laws.as_law("length", length) if isinstance(length, str) else None
    checks.require(law is not None, "length", length, "the text of a law where places are few", "write name:numbers")
    samples = checks.integer("samples_per_group", samples, 1, "say how many samples a group has")
    seconds = _points.positive("period", period)
    queue = _Queue(places, law, samples, seconds)  # type: ignore[arg-type]
    unused = _few_places.of_places(queue.law, samples, places, groups, seconds) / groups
    checks.require(
        unused <= _UNUSED, "places", places, f"such that tickets wait for less than {_UNUSED:g} of a version",
        f"up to {unused:.2g} may be missing; give more places or a longer period",
    )
    return queue


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return {"mean": s.tickets / s.groups - (0.0 if s.early and not s.instant else 1.0)}


def _cross_check(point: Point) -> dict[str, float]:
    """Groups train in order of start, each (end, version at start); after one rotation all batches have one mean."""
    s = _read(point)
    if s.queue is not None:
        return {"mean": _queued(s, s.queue)}
    generator, warm = np.random.default_rng(0), s.tickets // s.groups + 1
    queue = [(float(generator.exponential()), 0) for _ in range(s.tickets)]
    now, stamps = 0.0, []
    for version in range(warm + 20):
        batch, queue = queue[: s.groups], queue[s.groups :]
        now = max(now, max(end for end, _ in batch))
        if version >= warm:
            stamps += [version - start for _, start in batch]
        if s.early and not s.instant:
            queue += [(now + float(generator.exponential()), version) for _ in batch]
            now += float(generator.exponential())
        else:
            now += 0.0 if s.instant else float(generator.exponential())
            queue += [(now + float(generator.exponential()), version + 1) for _ in batch]
    return {"mean": float(np.mean(stamps))}


def _queued(s: _Setting, queue: _Queue) -> float:
    """The same where tickets wait for one of C places, served in turn: versions are read off the times of publishes."""
    warm, batches = 2 * (s.tickets // s.groups) + 20, 200
    numbers = np.arange(batches * s.groups + s.tickets)[:, None] * queue.samples + np.arange(queue.samples)
    seconds = queue.law.sample(rng.Stream(0, "cap-binds, second route"), 0, numbers).max(axis=1)
    places = [0.0] * queue.places
    publishes: list[float] = []
    groups: list[tuple[float, float]] = []
    stamps: list[int] = []
    returned, now = [0.0] * s.tickets, 0.0
    for batch in range(batches):
        for at in returned:
            start = max(at, heapq.heappop(places))
            groups.append((start + seconds[len(groups)], start))
            heapq.heappush(places, groups[-1][0])
        trained = groups[batch * s.groups : (batch + 1) * s.groups]
        begin = max(now, *(end for end, _ in trained))
        if batch >= warm:
            stamps += [batch - bisect.bisect_right(publishes, start) for _, start in trained]
        now = begin + queue.period
        publishes.append(now)
        returned = [begin if s.early else now] * s.groups
    return float(np.mean(stamps))


def _no_minus(point: Point) -> dict[str, float]:
    return {"mean": _predict(point)["mean"] + 1.0}


claim = Claim(
    id="systems/cap-binds",
    statement="with K tickets always in use and M groups per publish, mean staleness is K/M-1 (release at publish) "
    "or K/M (release at dequeue)",
    kind="expectation",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: mean-staleness identity with a constant number outstanding",
    formula_defects={"one publish too many": _no_minus},
)
