r"""When the cap binds, mean staleness is K/M - 1 for K group permits and M groups per publish, K/M on early release.

K tickets, M groups consumed per publish. Outstanding at a publish: K - M where tickets return at the publish, as the M
groups just trained hold theirs. All K where tickets return at the dequeue and training takes time, so that new groups
started meanwhile. Divide by M (mean-staleness identity). With training of zero length a dequeued ticket is admitted
after the publish of the same instant, which leaves K/M - 1. Domain: nothing dropped, K >= M, one batch per publish
where training takes no time; and the tickets are used. They are for any lengths with C >= K - M places (C >= K where
tickets return at the dequeue). Then each group left over when the last batch trains has a place. With fewer places they
are where generation outruns training: M tickets return every `period` seconds. The mean F of those without a place
before the next return is bounded by a queue (`theory/_few_places.py`). The mean is then K/M - 1 - F/M, and a point is
inside where F/M is below a thousandth. Second route: version stamps of an event simulation with random lengths. Source:
derived.
"""

from __future__ import annotations

import bisect
import heapq
from typing import Any, NamedTuple

import numpy as np

import asyncsim as sim
from asyncsim.base import checks, laws, rng
from asyncsim.base.declared import Choice, Draw, Flag, Integer, Parsed, Positive
from asyncsim.base.laws import Law
from asyncsim.claims import _engines, _few_places, _work, lab
from asyncsim.claims._claim import Claim
from asyncsim.claims._trial import Defect, Estimate, Plant, Point, replaced, units_for

_UNUSED = 1e-3
"""Versions by which tickets without a place may lower the mean."""


def _text(field: str, value: Any) -> Law:
    checks.require(isinstance(value, str), field, value, "the text of a distribution", "write name:numbers")
    return _work.independent(field, laws.as_law(field, value))


class _Queue(NamedTuple):
    """Fewer places than tickets: how many, how long their groups take, and the seconds of training of a publish."""

    places: int
    law: Law
    samples: int
    period: float


def _queued(s: CapBinds, queue: _Queue) -> float:
    """The same where tickets wait for one of C places, served in turn: versions are read off the times of publishes."""
    # Draw the seconds of every group.
    warm, batches = 2 * (s.tickets // s.publish_groups) + 20, 200
    numbers = np.arange(batches * s.publish_groups + s.tickets)[:, None] * queue.samples + np.arange(queue.samples)
    seconds = queue.law.sample(rng.Stream(0, "cap-binds, second route"), 0, numbers).max(axis=1)
    # Start with all tickets and places free.
    places = [0.0] * queue.places
    publishes: list[float] = []
    groups: list[tuple[float, float]] = []
    stamps: list[int] = []
    releases, now = [0.0] * s.tickets, 0.0
    for batch in range(batches):
        # Admit groups to the earliest places.
        for time in releases:
            start = max(time, heapq.heappop(places))
            groups.append((start + seconds[len(groups)], start))
            heapq.heappush(places, groups[-1][0])
        # Train when the whole batch has ended.
        batch_groups = groups[batch * s.publish_groups : (batch + 1) * s.publish_groups]
        begin = max(now, *(end for end, _ in batch_groups))
        if batch >= warm:
            stamps += [batch - bisect.bisect_right(publishes, start) for _, start in batch_groups]
        # Publish and return the tickets.
        now = begin + queue.period
        publishes.append(now)
        releases = [begin if s.early else now] * s.publish_groups
    return float(np.mean(stamps))


_FEW = {"length": "lognormal:1:0.8", "samples_per_group": 4}
"""Settings for `places` that hold fewer groups than there are tickets, fast enough to use all tickets."""
_BATCHES = 400
_SPREAD = 0.01
"""Relative standard deviation of one realization's mean at the points below (measured)."""


def _point(
    tickets: int, groups: int, release: str = "publish", zero_train_time: bool = False, **few: Any
) -> dict[str, Any]:
    point = {"tickets": tickets, "publish_groups": groups, "release": release, "zero_train_time": zero_train_time}
    return {**point, **_FEW, **few} if few else point


class CapBinds(Claim):
    """with all `K` group permits in use and `M` groups per publish, mean staleness is `K/M-1` (release at publish)
    or `K/M` (release at dequeue)
    """

    kind, source = "expectation", "derived: mean-staleness identity with a constant number outstanding"
    through = "kernel"

    tickets = _engines.tickets(example=7)
    publish_groups = Integer(
        1,
        typical=(1, 6),
        example=3,
        unit="groups",
        doc="groups consumed per publish",
        remedy="consume at least one group per publish",
    )
    release = _engines.release(example="publish")
    zero_train_time = Flag(
        example=False, doc="whether training takes no time", remedy="say whether training takes no time"
    )
    places = _engines.places(optional=True)
    length = Parsed(
        _text,
        "the text of a distribution",
        typical=("lognormal:1:0.8", "exponential:1", "constant:1"),
        optional=True,
        unit="seconds",
        doc="distribution of the seconds of a sample, where generator slots are few",
    )
    samples_per_group = _engines.samples(optional=True)
    period = Positive(optional=True, unit="seconds", doc="time in which the groups of a publish train")

    def joint(self) -> None:
        """More tickets than a publish, unless early ones start the next; places for those that return."""
        tickets, groups = self.tickets, self.publish_groups
        checks.integer("tickets", tickets, groups, "give at least one group permit for each group of a publish")
        self.early, instant = self.release == "dequeue", self.zero_train_time
        checks.require(
            tickets > groups or (self.early and not instant),
            "tickets",
            tickets,
            f"above publish_groups = {groups}",
            "with as many the run is synchronous and the prediction 0",
        )
        spare = 0 if self.early or instant else groups
        few = self.places is not None and self.places < tickets - spare
        self.queue = self._queue() if few else None

    def _queue(self) -> _Queue:
        """The queue of tickets for places, short enough."""
        places, groups = self.places, self.publish_groups
        free = self.zero_train_time
        checks.require(not free, "places", places, "as many as tickets", "without training none are left over")
        for name in ("length", "samples_per_group", "period"):
            p, value = self.parameters[name], getattr(self, name)
            checks.require(value is not None, name, value, f"{p.domain} where generator slots are few", p.remedy)
        queue = _Queue(places, self.length, self.samples_per_group, self.period)
        unused = _few_places.of_places(queue.law, queue.samples, places, groups, queue.period) / groups
        checks.require(
            unused <= _UNUSED,
            "places",
            places,
            f"such that group permits wait for less than {_UNUSED:g} of a version",
            f"up to {unused:.2g} may be missing; give more places or a longer period",
        )
        return queue

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Every other has few places, 8 times as fast as training: tickets without one in 200 batches are rare."""
        groups = draw(cls.publish_groups)
        tickets = groups + draw(Integer(0, typical=(0, 20)))
        rest = {"release": draw(cls.release), "zero_train_time": draw(cls.zero_train_time)}
        point = {"tickets": tickets, "publish_groups": groups, **rest}
        if draw(Flag()):
            return point
        places = draw(Integer(1, typical=(1, tickets)))
        work = {"length": draw(Choice(*cls.length.typical)), "samples_per_group": 1, "period": 8.0 * groups / places}
        return point | work | {"zero_train_time": False, "places": places}

    def predict(s) -> dict[str, float]:
        return {"mean": s.tickets / s.publish_groups - (0.0 if s.early and not s.zero_train_time else 1.0)}

    def check(s) -> dict[str, float]:
        """Groups train in order of start, each (end, version at start); after a rotation all batches have one mean."""
        if s.queue is not None:
            return {"mean": _queued(s, s.queue)}
        generator, warm = np.random.default_rng(0), s.tickets // s.publish_groups + 1
        queue = [(float(generator.exponential()), 0) for _ in range(s.tickets)]
        now, stamps = 0.0, []
        for version in range(warm + 20):
            batch, queue = queue[: s.publish_groups], queue[s.publish_groups :]
            now = max(now, max(end for end, _ in batch))
            if version >= warm:
                stamps += [version - start for _, start in batch]
            if s.early and not s.zero_train_time:
                queue += [(now + float(generator.exponential()), version) for _ in batch]
                now += float(generator.exponential())
            else:
                now += 0.0 if s.zero_train_time else float(generator.exponential())
                queue += [(now + float(generator.exponential()), version + 1) for _ in batch]
        return {"mean": float(np.mean(stamps))}

    wrong = {"one publish too many": lambda s: {"mean": s.predict()["mean"] + 1.0}}

    points = (
        _point(8, 4),
        _point(40, 8),
        _point(33, 8),
        _point(12, 4, "dequeue"),
        _point(12, 4, "dequeue", True),
        _point(40, 8, places=16, period=2.5),
    )
    more = (
        _point(144, 16),
        _point(10, 4),
        _point(160, 32, places=64, period=2.0),
        _point(40, 8, "dequeue", places=6, period=6.0),
    )

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        realizations = max(16, units_for(_SPREAD, effect, 7))
        tickets, groups = point["tickets"], point["publish_groups"]
        if "places" in point:
            length, samples = point["length"], point["samples_per_group"]
            system = sim.systems.areal(1, groups, point["places"], length=length, train_time=point["period"])
        else:
            # AReaL with twice as many places as tickets, so that tickets and nothing else limit generation.
            length, samples = laws.lognormal(1.0, 0.8), 1
            system = sim.systems.areal(1, groups, 2 * tickets, length=length, load=2.0 if tickets > 20 else 0.7)
        system = system.replace(tickets=tickets, release=point["release"])
        if point["zero_train_time"]:
            system = system.replace(train_time=0.0, load=None)
        # Many permits for a batch forget the start slowly.
        warm = 2 * tickets // groups + 20 + 20 * max(0, tickets // groups - 9)
        heads = lab.heads.stationary_heads(plant(system), max(_BATCHES, 2 * warm), warm, realizations, seed, samples)
        return {"mean": lab.heads.mean_over_realizations(heads)}

    @staticmethod
    def defects() -> dict[str, Defect]:
        return {
            "group permits returned at the dequeue": Defect(replaced(release="dequeue"), _point(40, 8)),
            "a group permit lost": Defect(lab.heads.ticket_lost, _point(40, 8)),
            "the count of group permits lost": Defect(lab.kernel_defects.counter_lost, _point(40, 8)),
            "an install not counted": Defect(lab.kernel_defects.version_off_by_one, _point(12, 4, "dequeue")),
            "an install counted twice": Defect(lab.kernel_defects.publish_counted_twice, _point(40, 8)),
            "a quarter of the generator slots": Defect(
                lambda system: system.replace(rates=system.rates[: len(system.rates) // 4]),
                _point(40, 8, places=16, period=2.5),
            ),
        }
