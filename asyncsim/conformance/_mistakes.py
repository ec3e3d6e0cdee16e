"""Known mistakes: each as a law of tickets, compared with a controller's answers over random runs without any rule."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from asyncsim.conformance._ledger import Rules, Run, Violation
from asyncsim.conformance.controller import Names

WALKS, STEPS = 24, 60


@dataclass(frozen=True)
class Law:
    """How many tickets there are (in units of M, and singly) and what each event returns."""

    versions: float = 0.0
    more: int = 0
    accept: int = 0
    lose: int = 1
    later: int = 0
    drop: int = 1
    consume: int = 0
    publish: str = "some"
    recovery: str = "known"
    concurrent: bool = True


MISTAKES: tuple[tuple[str, Law], ...] = (
    ("forgets its accepted count on recovery", Law(recovery="forgotten")),
    ("forgets the data kept over a recovery", Law(recovery="kept forgotten")),
    ("never returns the ticket of a rejected group", Law(lose=0)),
    ("returns the ticket of a rejected group twice", Law(lose=2)),
    ("returns the tickets of lost groups at the next publish only", Law(lose=0, drop=0, later=1)),
    ("never returns the ticket of an accepted group that is dropped", Law(drop=0)),
    ("returns the ticket of a dropped group twice", Law(drop=2)),
    ("counts running groups only", Law(accept=1)),
    ("counts running groups only", Law(accept=1, publish="none")),
    ("off by one version: (h + 2) M", Law(versions=1.0)),
    ("off by one version: h M instead of (h + 1) M", Law(versions=-1.0)),
    ("one group too many", Law(more=1)),
    ("one group too few", Law(more=-1)),
    ("resets at a publish without carrying over what is outstanding", Law(publish="all")),
    ("returns tickets at the dequeue and again at the publish", Law(consume=1)),
    ("returns tickets at the dequeue, with M too many of them", Law(consume=1, publish="none")),
    ("never returns the tickets of trained groups", Law(publish="none")),
    ("ignores max_concurrent", Law(concurrent=False)),
)

BASES: tuple[dict[str, Any], ...] = ({}, {"versions": -1.0, "consume": 1, "publish": "none"})
"""Tickets that return at the publish, and at the dequeue."""

GUESSES = {
    ("bounded staleness", ""): "has more than (h + 1) M from the start",
    ("bounded staleness", "accept"): "counts running groups only",
    ("bounded staleness", "reject"): "returns the ticket of a rejected group twice",
    ("bounded staleness", "fail"): "returns the ticket of a failed group twice",
    ("bounded staleness", "drop"): "returns the ticket of a dropped group twice",
    ("bounded staleness", "consume"): "returns at the dequeue what should return at the publish",
    ("bounded staleness", "publish"): "resets at a publish without carrying over what is outstanding",
    ("bounded staleness", "crash"): "forgets its accepted count on recovery",
    ("bounded staleness", "crash, data kept"): "forgets the data kept over a recovery",
    ("no starvation", ""): "has no room for a batch from the start",
    ("no starvation", "reject"): "never returns the ticket of a rejected group",
    ("no starvation", "fail"): "never returns the ticket of a failed group",
    ("no starvation", "drop"): "never returns the ticket of an accepted group that is dropped",
    ("no starvation", "publish"): "never returns the tickets of trained groups",
    ("no starvation", "crash"): "counts what a crash took",
}
"""By the rule that is broken and the event that broke it, where no law fits."""


class Shadow:
    """Tickets under one law."""

    def __init__(self, law: Law, rules: Rules) -> None:
        self.law, self.rules = law, rules
        self.limit = rules.limit + law.more + round(law.versions * rules.consumed)
        self.free, self.running, self.lost = self.limit, 0, 0

    def capacity(self) -> int:
        """What a controller under this law would answer."""
        most = self.rules.concurrent
        return self.free if most is None or not self.law.concurrent else min(self.free, most - self.running)

    def happen(self, event: str, n: int, version: int, ready: int) -> None:
        """Take note of an event; `ready`: accepted groups behind it."""
        law = self.law
        self.lost += n if event in ("reject", "fail", "drop") else 0
        if event == "submit":
            self.running, self.free = self.running + n, self.free - n
        elif event in ("accept", "reject", "fail"):
            self.running, self.free = self.running - n, self.free + n * (law.accept if event == "accept" else law.lose)
        elif event == "drop":
            self.free += n * law.drop
        elif event == "consume":
            self.free += self.rules.batch * law.consume
        elif event == "publish":
            returned = (self.rules.consumed if law.publish == "some" else 0) + law.later * self.lost
            self.free, self.lost = self.limit if law.publish == "all" else self.free + returned, 0
        else:
            kept = 0 if law.recovery != "known" else ready
            forgotten = version * self.rules.consumed if law.recovery == "forgotten" else 0
            self.running, self.lost, self.free = 0, 0, self.limit - kept + forgotten


def laws(rules: Rules) -> list[tuple[str, Law]]:
    """Every mistake on top of either base, unless it says what a base says, and with either attitude to C."""
    # Tickets that return at the dequeue are h M, which must be a batch at least.
    bases = BASES if rules.limit - rules.consumed >= rules.batch else BASES[:1]
    usual, found = Law(), []
    for (name, law), base, bounded in itertools.product(MISTAKES, bases, (True, False)):
        own = {key: value for key, value in vars(law).items() if value != getattr(usual, key)}
        if base and own.keys() & {"consume", "publish"}:
            continue
        joined = {**base, **own}
        if base and "versions" in own:
            joined["versions"] = base["versions"] + own["versions"]
        if "concurrent" not in own:
            joined["concurrent"] = bounded
        found.append((name, replace(usual, **joined)))
    return found


def likely(
    rules: Rules, factory: Callable[[], Any], names: Names, rule: str, last: str, seed: int
) -> tuple[tuple[str, ...], bool]:
    """Mistakes whose laws give the controller's capacity at every step; where none does, the usual suspect."""
    left = laws(rules)
    for walk in range(WALKS):
        left = _walked(Run(rules, factory, names), left, random.Random(f"{seed} {walk}"))
    if left:
        return tuple(dict.fromkeys(name for name, _ in left)), True
    guess = GUESSES.get((rule, last))
    return ((guess,) if guess else ()), False


def _walked(run: Run, suspects: list[tuple[str, Law]], choose: random.Random) -> list[tuple[str, Law]]:
    """The laws that answer like the controller along one random run, which no rule ends."""
    left = [(name, law, Shadow(law, run.rules)) for name, law in suspects]
    most = 4 * run.rules.limit + 4
    for _ in range(STEPS):
        try:
            run.capacity = run.look()
            left = [each for each in left if max(each[2].capacity(), 0) == max(run.capacity, 0)]
            able = run.limits()
            if not left or not able:
                break
            event = choose.choice(list(able))
            room = min(able[event], most)
            n = room if choose.random() < 0.5 else choose.randint(1, room)
            run.happen(event, n)
        except Violation:
            return []
        for _, _, shadow in left:
            shadow.happen(event, n, run.counts.version, run.counts.ready)
    return [(name, law) for name, law, _ in left]
