"""One run of a controller with the true counts, and known mistakes, each as an accounting rule for permits.

In a run every event is reported, and every answer is compared with its bound. Laws are compared with a controller's
answers over random runs without any rule.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import floor, inf
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks
from asyncsim.base.checks import LARGEST
from asyncsim.conformance.controller import Hooks, Names

LOSSES = ("reject", "fail", "drop")
CRASHES = ("crash", "crash, data kept")
HOOK_OF = {
    "submit": "submitted", "accept": "accepted", "reject": "rejected", "fail": "failed", "drop": "dropped",
    "expire": "dropped", "consume": "consumed", "publish": "published",
}  # fmt: skip
"""Events, and the call that reports them to a controller."""


def tickets_of(batch_size: int, max_staleness: float, batches_per_publish: int) -> int:
    """Number of permits, floor((eta + 1) M), for M groups per publish and staleness limit eta, safe from rounding."""
    return floor((max_staleness + 1.0) * batch_size * batches_per_publish + 1e-9)


@dataclass(frozen=True)
class Rules:
    """Settings of an admission check: P groups per batch, S batches per publish, limits (eta + 1) M and C.

    `oldest`: the trainer drops accepted groups that are more versions old; None: admission alone bounds staleness.
    """

    batch: int
    publish: int
    limit: int
    concurrent: int | None
    losses: int | None
    recovery: bool
    oldest: float | None = None

    @property
    def consumed(self) -> int:
        """M, the number of groups consumed per publish."""
        return self.batch * self.publish


@dataclass
class Counts:
    """Number of groups in each state of a test run: running, accepted, lost."""

    version: int = 0
    batches: int = 0
    running: int = 0
    ready: int = 0
    lost: int = 0
    begun: Counter[int] = field(default_factory=Counter)
    """Running groups by the version under which they began."""
    accepted: Counter[int] = field(default_factory=Counter)
    """Accepted ones."""

    def over(self, oldest: float | None) -> int:
        """Number of accepted groups that are more than `oldest` versions old."""
        if oldest is None:
            return 0
        return sum(n for version, n in self.accepted.items() if self.version - version > oldest)

    def moved(self, n: int, out: Counter[int], into: Counter[int] | None = None, *, newest: bool = False) -> None:
        """Remove n groups from `out`, the oldest first (or the newest), and optionally add them to `into`."""
        for version in sorted(out, reverse=newest):
            amount = min(n, out[version])
            out[version] -= amount
            n -= amount
            if into is not None:
                into[version] += amount


class Violation(AssertionError):
    """Raised when an admission controller breaks a rule."""

    def __init__(self, rule: str, message: str, value: Any, bound: Any) -> None:
        super().__init__(message)
        self.rule, self.message, self.value, self.bound = rule, message, value, bound


def _raised(words: str, error: Exception) -> Violation:
    raised = f"{type(error).__name__}: {error}"
    return Violation("it takes every event", f"{words} {raised}", raised, "no error")


@dataclass
class Run:
    """One test run of a controller: the events so far, and the controller's last answer."""

    rules: Rules
    factory: Callable[[], Any]
    names: Names
    counts: Counts = field(default_factory=Counts)
    lines: list[str] = field(default_factory=list)
    events: list[tuple[str, int]] = field(default_factory=list)
    capacity: int = 0
    most: float = inf
    """1 where the controller answers yes or no."""
    highest: int = 0
    """Groups that ran or could have run at once, at most."""

    def __post_init__(self) -> None:
        self.hooks = Hooks(self.factory(), self.names)

    def limits(self) -> dict[str, int]:
        """Events that are possible now in the test run, with the maximum number of groups for each."""
        now, rules = self.counts, self.rules
        spare = max(now.running, now.ready) if rules.losses is None else rules.losses - now.lost
        over = now.over(rules.oldest)
        able = {
            "submit": min(self.capacity, 4 * rules.limit), "accept": now.running, "reject": min(now.running, spare),
            "fail": min(now.running, spare), "drop": min(now.ready, spare), "expire": over,
            "consume": int(now.batches < rules.publish and now.ready >= rules.batch and not over),
            "publish": int(now.batches == rules.publish), "crash": int(rules.recovery and now.version > 0),
            "crash, data kept": int(rules.recovery and self.hooks.takes_kept() and now.ready > 0),
        }  # fmt: skip
        without_hook = {event for event in LOSSES if not self.hooks.has(HOOK_OF[event])}
        return {event: most for event, most in able.items() if most > 0 and event not in without_hook}

    def happen(self, event: str, n: int) -> None:
        """Apply an event to n groups, and report the event to the controller."""
        self.events.append((event, n))
        self.lines.append(f"{event} {n}" if event in ("submit", "accept", "reject", "fail", "drop") else event)
        try:
            self.lines[-1] = self._take(event, n)
        except Exception as error:
            raise _raised("the controller raised", error) from error

    def _take(self, event: str, n: int) -> str:
        now, rules = self.counts, self.rules
        if event in CRASHES:
            # The weights of the last publish come back, with a new controller.
            kept = now.ready if event == "crash, data kept" else 0
            self.counts = Counts(version=now.version, ready=kept, accepted=now.accepted if kept else Counter())
            self.hooks = Hooks(self.factory(), self.names)
            self.hooks.tell("recovered", now.version, kept)
            fate = f"{kept} accepted groups are kept" if kept else "all data is lost"
            return f"crash, recover at version {now.version}; {fate}"
        n = {"expire": now.over(rules.oldest), "consume": rules.batch}.get(event, n)
        if event == "submit":
            now.running += n
            now.begun[now.version] += n
        elif event == "publish":
            now.version, now.batches, now.lost = now.version + 1, 0, 0
        elif event in ("accept", "reject", "fail"):
            now.running -= n
            now.ready += n if event == "accept" else 0
            # Stragglers come last: what is too old must be met.
            now.moved(n, now.begun, now.accepted if event == "accept" else None, newest=True)
        else:
            now.ready -= n
            now.batches += event == "consume"
            now.moved(n, now.accepted, newest=event == "drop")
        now.lost += n if event in LOSSES else 0
        self.hooks.tell(HOOK_OF[event], now.version if event == "publish" else n)
        lines = {
            "expire": f"drop {n} that are more than {rules.oldest or 0:g} versions old",
            "consume": f"train a batch of {n}",
            "publish": f"publish version {now.version}",
        }
        return lines.get(event, f"{event} {n}")

    def look(self) -> int:
        """Ask the controller for its capacity; a value that is not an integer breaks a rule."""
        try:
            value = self.hooks.capacity(self.counts.version)
        except Exception as error:
            raise _raised("asked, the controller raised", error) from error
        if not isinstance(value, (int, np.integer)):
            raise Violation("capacity is a number of groups", f"capacity is {value!r}", value, "an integer")
        self.most = 1 if isinstance(value, bool) else inf
        return int(value)

    def check(self) -> None:
        """Ask the controller for its capacity, and compare it with every rule."""
        self.capacity, again = self.look(), self.look()
        now, rules, value = self.counts, self.rules, self.capacity
        if again != value:
            text = f"asked twice in a row, capacity is {value}, then {again}"
            raise Violation("asking changes nothing", text, again, value)
        # Within (eta + 1) M with those taken since the publish, and within C.
        taken = rules.batch * now.batches
        free = rules.limit - now.running - now.ready - taken if rules.oldest is None else LARGEST
        free = free if rules.concurrent is None else min(free, rules.concurrent - now.running)
        if value > (most := max(free, 0)):
            if rules.concurrent is not None and value > rules.concurrent - now.running:
                text = f"capacity {value} with {now.running} running; at most {rules.concurrent} may run"
                raise Violation("at most max_concurrent run", text, value, most)
            out = f"{now.running} running, {now.ready} accepted, {taken} taken since the last publish"
            text = f"capacity {value} with {out}; at most {rules.limit} in all, so {most} more"
            raise Violation("bounded staleness", text, value, most)
        if value < 0:
            raise Violation("capacity is never negative", f"capacity is {value}", value, 0)
        going = now.running or now.batches == rules.publish or now.ready >= rules.batch
        if value == 0 and not (going or now.over(rules.oldest)):
            ready = f"{now.ready} of {rules.batch} groups of a batch are ready"
            text = f"no group is running, {ready}, and the capacity stays 0 forever"
            raise Violation("no starvation", text, 0, "at least 1")
        if self.hooks.has("version") and self.hooks.version() != now.version:
            answer = self.hooks.version()
            text = f"its version is {answer}, that of the weights {now.version}"
            raise Violation("versions", text, answer, now.version)


def replayed(run: Run, events: list[tuple[str, int]]) -> tuple[Run, Violation] | None:
    """Replay other events on a new controller, without impossible ones; None if the run breaks no rule."""
    again = Run(run.rules, run.factory, run.names)
    try:
        again.check()
        for event, n in events:
            most = again.limits().get(event, 0)
            if most:
                again.happen(event, min(n, most))
                again.check()
    except Violation as violation:
        return again, violation
    return None


def shortened(run: Run, violation: Violation) -> tuple[Run, Violation]:
    """Shrink a failing run to one that breaks the same rule and needs all of its events."""
    best, size = (run, violation), max(len(run.events) // 2, 1)
    while size:
        at, before = 0, len(best[0].events)
        while at < len(best[0].events):
            events = best[0].events
            attempt = replayed(run, events[:at] + events[at + size :])
            if attempt is not None and attempt[1].rule == violation.rule and len(attempt[0].events) < len(events):
                best = attempt
            else:
                at += 1
        if len(best[0].events) == before:
            size //= 2
    return best


class Searched(NamedTuple):
    """Random runs of one controller: their number, and a minimal run that broke a rule."""

    examples: int
    broken: tuple[Run, Violation] | None


def searched(rules: Rules, factory: Callable[[], Any], names: Names, examples: int, steps: int, seed: int) -> Searched:
    """Run up to `examples` random event sequences on controllers, until one breaks a rule."""
    for number in range(examples):
        run, choose = Run(rules, factory, names), random.Random(f"{seed} {number}")
        try:
            _walk(run, choose, steps, losses=number % 2 == 1, whole=number % 4 < 2)
        except Violation as violation:
            if replayed(run, run.events) is not None:
                return Searched(number + 1, shortened(run, violation))
            text = f"the same events gave different answers; once: {violation.message}"
            moody = Violation("same events, same answers", text, violation.value, violation.bound)
            return Searched(number + 1, (run, moody))
    return Searched(examples, None)


def _walk(run: Run, choose: random.Random, steps: int, losses: bool, whole: bool) -> None:
    """Run one random event sequence; small leaks show only in long runs with few crashes and losses."""
    crashes = choose.choice((0, 1, 1, 3))
    run.check()
    for _ in range(steps):
        barred = (() if losses else LOSSES) + (CRASHES if crashes == 0 else ())
        able = {event: most for event, most in run.limits().items() if event not in barred}
        if not able:
            return
        # What leads to the next version is chosen twice as often.
        event = choose.choice([*able, *(event for event in ("accept", "consume", "publish") if event in able)])
        most = able[event]
        run.happen(event, most if whole or choose.random() < 0.5 else choose.randint(1, most))
        crashes -= event in CRASHES
        run.check()


WALKS, STEPS = 24, 60
_SEVERAL = 2
"""Pairs of mistakes that give the same answers and are named, at most."""


@dataclass(frozen=True)
class Law:
    """One accounting rule for permits: how many there are (in M, plus single ones), and what each event returns.

    `fail`: of failed groups, None as `lose` says of rejected ones. `later`: losses whose tickets return at the publish.
    """

    versions: float = 0.0
    more: int = 0
    submit: int = 1
    """Permits that a submitted group takes; all others are what an event returns."""
    accept: int = 0
    lose: int = 1
    fail: int | None = None
    later: tuple[str, ...] = ()
    drop: int = 1
    consume: int = 0
    publish: str = "some"
    recovery: str = "known"
    concurrent: bool = True


MISTAKES: tuple[tuple[str, Law], ...] = tuple(
    (name, Law(**changes | {"later": tuple(changes.get("later", ()))}))
    for name, ways in checks.table(__file__, "admission_mistakes.toml").items()
    for changes in ways
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
    """Counter of permits under one accounting rule."""

    def __init__(self, law: Law, rules: Rules, limit: int | None = None) -> None:
        self.law, self.rules = law, rules
        self.limit = (rules.limit if limit is None else limit) + law.more + round(law.versions * rules.consumed)
        self.free, self.running, self.lost, self.late = self.limit, 0, 0, 0

    def capacity(self) -> int:
        """Capacity that a controller with this accounting rule would answer."""
        most = self.rules.concurrent
        return self.free if most is None or not self.law.concurrent else min(self.free, most - self.running)

    def happen(self, event: str, n: int, version: int, ready: int) -> None:
        """Update the permits for an event; `ready` is the number of accepted groups after the event."""
        law = self.law
        self.lost += n if event in law.later else 0
        if event == "submit":
            self.running, self.free = self.running + n, self.free - n * law.submit
        elif event in ("accept", "reject", "fail"):
            lose = law.lose if event == "reject" or law.fail is None else law.fail
            self.running, self.free = self.running - n, self.free + n * (law.accept if event == "accept" else lose)
        elif event in ("drop", "expire"):
            self.free += n * law.drop
        elif event == "consume":
            self.free += self.rules.batch * law.consume
        elif event == "publish":
            carried = {"all": 0, "running": self.running, "ready": ready}.get(law.publish)
            returned = self.rules.consumed * {"some": 1, "late": 1, "twice": 2}.get(law.publish, 0)
            returned, late = (self.late, returned) if law.publish == "late" else (returned + self.late, 0)
            self.free = self.free + returned + self.lost if carried is None else self.limit - carried
            self.lost, self.late = 0, late
        else:
            recovered = 0 if law.recovery in ("forgotten", "kept forgotten") else ready
            more = {"forgotten": version, "all from 0": -version}.get(law.recovery, 0) * self.rules.consumed
            # What a counter from 0 lacks comes back with the next version.
            self.late = {"from 0": version, "all from 0": version}.get(law.recovery, 0) * self.rules.consumed
            self.running, self.lost, self.free = 0, 0, self.limit - recovered + more


def _call(event: str, ready: int = 0) -> Callable[["Tickets", int], None]:
    def call(self: "Tickets", n: int) -> None:
        self.ready += ready * n
        self.happen(event, n, self.seen, self.ready)

    return call


class Tickets(Shadow):
    """A controller under one accounting rule, with every call of `Controller`; it counts accepted groups itself."""

    seen, ready = 0, 0
    submitted, rejected, failed = _call("submit"), _call("reject"), _call("fail")
    accepted, dropped, consumed = _call("accept", 1), _call("drop", -1), _call("consume", -1)

    def version(self) -> int:
        """Version that this controller takes for the trainer's current version."""
        return self.seen

    def published(self, version: int) -> None:
        """Note that generators have new weights of this version."""
        self.seen = version
        self.happen("publish", 1, version, self.ready)

    def recovered(self, version: int, kept: int) -> None:
        """Note that a crash is over, and update the count of permits."""
        self.seen, self.ready = version, kept
        self.happen("crash", 1, version, kept)


def laws(rules: Rules, many: int = 1) -> list[tuple[str, Law]]:
    """Combine mistakes, `many` at once, with each base rule that they change, with and without the limit C."""
    # Tickets that return at the dequeue are h M, which must be a batch at least.
    bases = BASES if rules.limit - rules.consumed >= rules.batch else BASES[:1]
    bases = (*bases, RESET) if rules.oldest is None else OPEN
    usual, pairs = Law(), []
    single = [(name, {k: v for k, v in vars(law).items() if v != getattr(usual, k)}) for name, law in MISTAKES]
    for some, base, bounded in itertools.product(itertools.combinations(single, many), bases, (True, False)):
        changes = {key: value for _, one in some for key, value in one.items()}
        if len(changes) < sum(len(one) for _, one in some) or (rules.concurrent is None and "concurrent" in changes):
            continue
        if changes.keys() & (base.keys() - {"versions"}) or (rules.oldest is not None and changes.keys() & _OF_TICKETS):
            continue
        joined = {**base, **changes}
        if "versions" in base and "versions" in changes:
            joined["versions"] = base["versions"] + changes["versions"]
        if "concurrent" not in changes:
            joined["concurrent"] = bounded
        pairs.append((", and ".join(name for name, _ in some), replace(usual, **joined)))
    return pairs


_OF_TICKETS = {"versions", "more", "publish", "submit", "accept", "consume"}
"""What says how many tickets there are: unknown where admission does not bound staleness."""


def likely(rules: Rules, factory: Callable[[], Any], names: Names, seed: int) -> tuple[str, ...]:
    """Single mistakes, else pairs, that reproduce the controller's capacity at every step of long runs."""
    # Who is not told of failed groups apart cannot treat them apart.
    apart = Run(rules, factory, names).hooks.fails
    highest = 0
    for many in (1, 2):
        suspects = [(name, law) for name, law in laws(rules, many) if law.fail is None or apart]
        for walk in range(WALKS):
            run = Run(rules, factory, names)
            suspects = _walked(run, suspects, random.Random(f"{seed} {walk}"))
            highest = max(highest, run.highest)
        if suspects:
            found = tuple(dict.fromkeys(name for name, _ in suspects))
            return found if many == 1 else found[:_SEVERAL]
    if rules.concurrent is not None or not highest:
        return ()
    # It may have a limit of running groups that nobody gave.
    again = likely(replace(rules, concurrent=highest), factory, names, seed)
    return tuple(f"{x}, if max_concurrent = {highest}" for x in again if "max_concurrent" not in x)


def _walked(run: Run, suspects: list[tuple[str, Law]], choose: random.Random) -> list[tuple[str, Law]]:
    """The rules that answer like the controller along one random run, which continues after violations."""
    try:
        # Where the trainer bounds staleness nobody says how many tickets there are.
        limit = None if run.rules.oldest is None else run.look()
    except Violation:
        return []
    shadows = [(name, law, Shadow(law, run.rules, limit)) for name, law in suspects]
    most = 4 * run.rules.limit + 4
    for _ in range(STEPS):
        try:
            run.capacity = run.look()
            run.highest = max(run.highest, run.capacity + run.counts.running)
            shadows = [each for each in shadows if min(max(each[2].capacity(), 0), run.most) == max(run.capacity, 0)]
            able = run.limits()
            if not able:
                break
            event = choose.choice(list(able))
            room = min(able[event], most)
            n = room if choose.random() < 0.5 else choose.randint(1, room)
            run.happen(event, n)
        except Violation:
            return []
        for _, _, shadow in shadows:
            shadow.happen(event, n, run.counts.version, run.counts.ready)
    return [(name, law) for name, law, _ in shadows]
