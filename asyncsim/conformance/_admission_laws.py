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
    ("never returns the permit of a rejected group", Law(lose=0)),
    ("returns the permit of a rejected group twice", Law(lose=2)),
    ("returns the permits of lost groups at the next publish only", Law(lose=0, drop=0, later=1)),
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
RESET: dict[str, Any] = {"lose": 0, "drop": 0, "later": 1}
"""A count that is made anew at the publish: tickets of lost groups return there as well, as many as eta M."""
OPEN: tuple[dict[str, Any], ...] = (
    {"accept": 1, "drop": 0, "publish": "none", "recovery": "kept forgotten"},
    {"consume": 1, "publish": "none"},
)
"""Where the trainer drops what is too old: tickets of running groups, and of running and accepted ones."""

GUESSES = {
    ("bounded staleness", ""): "has more than (h + 1) M from the start",
    ("bounded staleness", "accept"): "counts running groups only",
    ("bounded staleness", "reject"): "returns the permit of a rejected group twice",
    ("bounded staleness", "fail"): "returns the permit of a failed group twice",
    ("bounded staleness", "drop"): "returns the permit of a dropped group twice",
    ("bounded staleness", "consume"): "returns at the dequeue what should return at the publish",
    ("bounded staleness", "publish"): "resets at a publish without carrying over what is outstanding",
    ("bounded staleness", "crash"): "forgets its accepted count on recovery",
    ("bounded staleness", "crash, data kept"): "forgets the data kept over a recovery",
    ("no starvation", ""): "has no room for a batch from the start",
    ("no starvation", "reject"): "never returns the permit of a rejected group",
    ("no starvation", "fail"): "never returns the permit of a failed group",
    ("no starvation", "drop"): "never returns the permit of an accepted group that is dropped",
    ("no starvation", "expire"): "never returns the permit of an accepted group that the trainer drops",
    ("no starvation", "publish"): "never returns the permits of trained groups",
    ("no starvation", "crash"): "counts what a crash took",
}
"""By the rule that is broken and the event that broke it, where no law fits."""


class Shadow:
    """Tickets under one law."""

    def __init__(self, law: Law, rules: Rules, limit: int | None = None) -> None:
        self.law, self.rules = law, rules
        self.limit = (rules.limit if limit is None else limit) + law.more + round(law.versions * rules.consumed)
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
        elif event in ("drop", "expire"):
            self.free += n * law.drop
        elif event == "consume":
            self.free += self.rules.batch * law.consume
        elif event == "publish":
            returned = (self.rules.consumed if law.publish == "some" else 0) + law.later * self.lost
            carried = {"all": 0, "running": self.running, "ready": ready}.get(law.publish)
            self.free, self.lost = self.free + returned if carried is None else self.limit - carried, 0
        else:
            recovered = 0 if law.recovery != "known" else ready
            forgotten = version * self.rules.consumed if law.recovery == "forgotten" else 0
            self.running, self.lost, self.free = 0, 0, self.limit - recovered + forgotten


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


def likely(
    rules: Rules, factory: Callable[[], Any], names: Names, broken: Run, rule: str, seed: int
) -> tuple[tuple[str, ...], bool]:
    """Mistakes whose laws give the controller's capacity at every step; where none does, the usual suspect.

    A suspect is named only where the controller does what it says: tickets are followed over one publish.
    """
    suspects = laws(rules)
    for walk in range(WALKS):
        suspects = _walked(Run(rules, factory, names), suspects, random.Random(f"{seed} {walk}"))
    if suspects:
        return tuple(dict.fromkeys(name for name, _ in suspects)), True
    last = broken.events[-1][0] if broken.events else ""
    if rule == "no starvation" and last in LOSSES:
        guess = _RETURNED[_returned(Run(rules, factory, names), last)].get(last, "")
    elif rule == "bounded staleness" and last in LOSSES and not _twice(Run(rules, factory, names), broken.events):
        guess = ""
    else:
        guess = GUESSES.get((rule, last), "")
    return ((guess,) if guess else ()), False


_RETURNED: dict[str, dict[str, str]] = {
    "never": {event: GUESSES["no starvation", event] for event in LOSSES},
    "later": dict.fromkeys(LOSSES, "returns the permits of lost groups at the next publish only"),
    "unclear": {},
}
"""By what becomes of a lost group's ticket, and how the group was lost."""


def _returned(run: Run, event: str) -> str:
    """What becomes of the ticket of a lost group: "never", "later" (at the next publish), or "unclear"."""
    try:
        # Plan a full batch behind the loss.
        first = run.look()
        batch, publish = run.rules.batch, run.rules.publish
        steps = [("submit", 1), *([("accept", 1)] if event == "drop" else []), (event, 1)]
        for _ in range(publish):
            steps += [("submit", batch), ("accept", batch), ("consume", batch)]
        # Play the plan, with a publish last.
        before = None
        for name, n in steps:
            run.capacity = run.look()
            if run.limits().get(name, 0) < (1 if name == "consume" else n):
                return "unclear"
            run.happen(name, n)
            if name == event:
                before = run.look()
        run.happen("publish", 1)
        after = run.look()
    except Violation:
        return "unclear"
    # Compare capacities before and behind it.
    if before != first - 1:
        return "unclear"
    return {first - 1: "never", first: "later"}.get(after, "unclear")


def _twice(run: Run, events: list[tuple[str, int]]) -> bool:
    """Whether the last of the events, a loss, gave back more tickets than groups were lost."""
    try:
        for name, n in events[:-1]:
            run.happen(name, n)
        before = run.look()
        run.happen(*events[-1])
        return run.look() - before > events[-1][1]
    except Violation:
        return False


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
