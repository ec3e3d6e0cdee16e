"""Known mistakes: each as a law of tickets, compared with a controller's answers over random runs without any rule."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from asyncsim.conformance._admission_runs import LOSSES, Rules, Run, Violation
from asyncsim.conformance.controller import Names

WALKS, STEPS = 24, 60


@dataclass(frozen=True)
class Law:
    """How many tickets there are (in units of M, and singly) and what each event returns.

    `fail`: of failed groups, None as `lose` says of rejected ones. `later`: losses whose tickets return at the publish.
    """

    versions: float = 0.0
    more: int = 0
    accept: int = 0
    lose: int = 1
    fail: int | None = None
    later: tuple[str, ...] = ()
    drop: int = 1
    consume: int = 0
    publish: str = "some"
    recovery: str = "known"
    concurrent: bool = True


MISTAKES: tuple[tuple[str, Law], ...] = (
    ("forgets its accepted count on recovery", Law(recovery="forgotten")),
    ("forgets the data kept over a recovery", Law(recovery="kept forgotten")),
    ("counts from version 0 after a recovery, until the next publish", Law(recovery="from 0")),
    ("counts from version 0 after a recovery, and its groups until the next publish", Law(recovery="all from 0")),
    ("sees a version one publish late", Law(publish="late")),
    ("never returns the permit of a rejected group", Law(lose=0)),
    ("never returns the permit of a rejected group", Law(lose=0, fail=1)),
    ("never returns the permit of a failed group", Law(fail=0)),
    ("returns the permit of a rejected group twice", Law(lose=2)),
    ("returns the permit of a rejected group twice", Law(lose=2, fail=1)),
    ("returns the permit of a failed group twice", Law(fail=2)),
    ("returns the permits of lost groups at the next publish only", Law(lose=0, drop=0, later=LOSSES)),
    ("returns the permits of failed groups at the next publish only", Law(fail=0, later=("fail",))),
    ("never returns the permit of an accepted group that is dropped", Law(drop=0)),
    ("returns the permit of a dropped group twice", Law(drop=2)),
    ("counts running groups only", Law(accept=1)),
    ("counts running groups only", Law(accept=1, publish="none")),
    ("off by one version: (h + 2) M", Law(versions=1.0)),
    ("off by one version: h M instead of (h + 1) M", Law(versions=-1.0)),
    ("one group too many", Law(more=1)),
    ("one group too few", Law(more=-1)),
    ("resets at a publish without carrying over what is outstanding", Law(publish="all")),
    ("resets at a publish to what runs, without what is accepted", Law(publish="running")),
    ("resets at a publish to what is accepted, without what runs", Law(publish="ready")),
    ("returns permits at the dequeue and again at the publish", Law(consume=1)),
    ("returns permits at the dequeue, with M too many of them", Law(consume=1, publish="none")),
    ("never returns the permits of trained groups", Law(publish="none")),
    ("ignores max_concurrent", Law(concurrent=False)),
)

BASES: tuple[dict[str, Any], ...] = ({}, {"versions": -1.0, "consume": 1, "publish": "none"})
"""Tickets that return at the publish, and at the dequeue."""
RESET: dict[str, Any] = {"lose": 0, "fail": None, "drop": 0, "later": LOSSES}
"""A count that is made anew at the publish: tickets of lost groups return there as well, as many as eta M."""
OPEN: tuple[dict[str, Any], ...] = (
    {"accept": 1, "drop": 0, "publish": "none", "recovery": "kept forgotten"},
    {"consume": 1, "publish": "none"},
)
"""Where the trainer drops what is too old: tickets of running groups, and of running and accepted ones."""


class Shadow:
    """Tickets under one law."""

    def __init__(self, law: Law, rules: Rules, limit: int | None = None) -> None:
        self.law, self.rules = law, rules
        self.limit = (rules.limit if limit is None else limit) + law.more + round(law.versions * rules.consumed)
        self.free, self.running, self.lost, self.late = self.limit, 0, 0, 0

    def capacity(self) -> int:
        """What a controller under this law would answer."""
        most = self.rules.concurrent
        return self.free if most is None or not self.law.concurrent else min(self.free, most - self.running)

    def happen(self, event: str, n: int, version: int, ready: int) -> None:
        """Take note of an event; `ready`: accepted groups behind it."""
        law = self.law
        self.lost += n if event in law.later else 0
        if event == "submit":
            self.running, self.free = self.running + n, self.free - n
        elif event in ("accept", "reject", "fail"):
            lose = law.lose if event == "reject" or law.fail is None else law.fail
            self.running, self.free = self.running - n, self.free + n * (law.accept if event == "accept" else lose)
        elif event in ("drop", "expire"):
            self.free += n * law.drop
        elif event == "consume":
            self.free += self.rules.batch * law.consume
        elif event == "publish":
            self._publish(ready)
        else:
            recovered = 0 if law.recovery in ("forgotten", "kept forgotten") else ready
            more = {"forgotten": version, "all from 0": -version}.get(law.recovery, 0) * self.rules.consumed
            # What a counter from 0 lacks comes back with the next version.
            self.late = {"from 0": version, "all from 0": version}.get(law.recovery, 0) * self.rules.consumed
            self.running, self.lost, self.free = 0, 0, self.limit - recovered + more

    def _publish(self, ready: int) -> None:
        law, returned = self.law, self.rules.consumed if self.law.publish in ("some", "late") else 0
        carried = {"all": 0, "running": self.running, "ready": ready}.get(law.publish)
        returned, late = (self.late, returned) if law.publish == "late" else (returned + self.late, 0)
        self.free = self.free + returned + self.lost if carried is None else self.limit - carried
        self.lost, self.late = 0, late


def laws(rules: Rules) -> list[tuple[str, Law]]:
    """Every mistake on top of either base, unless it says what a base says, and with either attitude to C."""
    # Tickets that return at the dequeue are h M, which must be a batch at least.
    bases = BASES if rules.limit - rules.consumed >= rules.batch else BASES[:1]
    bases = (*bases, RESET) if rules.oldest is None else OPEN
    usual, pairs = Law(), []
    for (name, law), base, bounded in itertools.product(MISTAKES, bases, (True, False)):
        changes = {key: value for key, value in vars(law).items() if value != getattr(usual, key)}
        if rules.concurrent is None and "concurrent" in changes:
            continue
        if changes.keys() & (base.keys() - {"versions"}) or (rules.oldest is not None and changes.keys() & _OF_TICKETS):
            continue
        joined = {**base, **changes}
        if "versions" in base and "versions" in changes:
            joined["versions"] = base["versions"] + changes["versions"]
        if "concurrent" not in changes:
            joined["concurrent"] = bounded
        pairs.append((name, replace(usual, **joined)))
    return pairs


_OF_TICKETS = {"versions", "more", "publish", "accept", "consume"}
"""What says how many tickets there are: unknown where admission does not bound staleness."""


def likely(rules: Rules, factory: Callable[[], Any], names: Names, seed: int) -> tuple[str, ...]:
    """Mistakes whose laws give the controller's capacity at every step of long runs; none where no law does."""
    # Who is not told of failed groups apart cannot treat them apart.
    apart = Run(rules, factory, names).hooks.fails
    suspects = [(name, law) for name, law in laws(rules) if law.fail is None or apart]
    for walk in range(WALKS):
        suspects = _walked(Run(rules, factory, names), suspects, random.Random(f"{seed} {walk}"))
    return tuple(dict.fromkeys(name for name, _ in suspects))


def _walked(run: Run, suspects: list[tuple[str, Law]], choose: random.Random) -> list[tuple[str, Law]]:
    """The laws that answer like the controller along one random run, which no rule ends."""
    try:
        # Where the trainer bounds staleness nobody says how many tickets there are.
        limit = None if run.rules.oldest is None else run.look()
    except Violation:
        return []
    # Start every law beside the controller.
    shadows = [(name, law, Shadow(law, run.rules, limit)) for name, law in suspects]
    most = 4 * run.rules.limit + 4
    for _ in range(STEPS):
        try:
            run.capacity = run.look()
            shadows = [each for each in shadows if max(each[2].capacity(), 0) == max(run.capacity, 0)]
            able = run.limits()
            if not shadows or not able:
                break
            # Draw an event and its size.
            event = choose.choice(list(able))
            room = min(able[event], most)
            n = room if choose.random() < 0.5 else choose.randint(1, room)
            run.happen(event, n)
        except Violation:
            return []
        for _, _, shadow in shadows:
            shadow.happen(event, n, run.counts.version, run.counts.ready)
    return [(name, law) for name, law, _ in shadows]
