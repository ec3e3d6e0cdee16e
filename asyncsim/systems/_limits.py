"""Expected size of a run, from its settings alone: groups, events and bytes; runs beyond a limit are refused."""

import math
from typing import NamedTuple

from asyncsim.base import checks
from asyncsim.base.laws import Law
from asyncsim.systems import _state as k
from asyncsim.systems._settings import Settings

EVENTS = 4 * 10**9
"""Events that a realization may be expected to have: some five minutes."""
LOWER = "batches (updates), groups_per_batch or samples_per_group, or set tickets or capacity"
SURE = 10**6
"""Groups that a run may always generate, beside a hundred times the expected number."""
_STRETCH, _TABLES = 50.0, 240.0
"""Bytes that a sample takes in the list of stretches, and in the tables of a timeline."""
_STEEP = 50.0
"""Expected failures of a sample beyond which it counts as never finished."""


class Size(NamedTuple):
    """Expected size of a simulated realization: groups admitted, maximum groups outstanding, events and bytes.

    Bytes are those with a record, without one, and of a record with its tables. All are upper bounds, up to chance.
    """

    groups: float
    outstanding: float
    events: float
    recorded: float
    summed: float
    tables: float


def refuse(s: Settings, batches: int, samples: int, what: str) -> None:
    """Raise `InputError` if a simulation needs more events than `EVENTS`, or more bytes than allowed.

    "recorded" and "summed" are the arrays of a run, "tables" a record with the tables of a timeline made from it.
    """
    samples = checks.integer("samples_per_group", samples, 1, "a group has at least one sample")
    batches = checks.integer("batches", batches, 1, "ask for at least one batch")
    size = expected(s, batches, samples, sharp=False)
    if size.events > EVENTS or not checks.fits(getattr(size, what)):
        size = expected(s, batches, samples)
    bound = f"at most {EVENTS:.0e} in a realization"
    remedy = f"{size.groups:.3g} groups are generated for {batches} batches: "
    remedy += "lower updates or train_time, or raise length"
    checks.require(size.events <= EVENTS, "expected events", float(f"{size.events:.3g}"), bound, remedy)
    name = "tables" if what == "tables" else "events"
    checks.memory({name: (int(min(getattr(size, what), 1e30)), LOWER)})


def refuse_more(s: Settings, batches: int, samples: int, groups: int, trained: int) -> None:
    """Raise `RunError` if a simulation generates far more groups than expected, as when groups are cut at once."""
    if groups > SURE and groups > SURE + 100 * expected(s, batches, samples, sharp=False).groups:
        what = f"{groups:.3g} groups have been generated for {trained} batches, most of them in vain"
        raise checks.RunError(f"{s.name}: {what}; raise max_age or capacity, or lower prefetch or train_time")


def expected(s: Settings, batches: int, samples: int, sharp: bool = True) -> Size:
    """Expected size of a simulation: groups trained, or all that unrestricted generators produce during training."""
    started = samples + s.redundant
    publishes = batches // s.batches_per_publish
    uses = math.inf if s.max_uses is None else s.max_uses
    required = batches * s.groups_per_batch / s.accept / uses
    generated, seconds = generation(s, batches, publishes, samples, sharp)
    groups = max(required, min(required + _held_back(s, publishes), generated)) + len(s.rates)
    scoring = 0.0 if s.reward is None or seconds == 0.0 else generated / seconds * mean(s.reward)
    outstanding = min(groups, _outstanding(s, generated / max(publishes, 1)) + scoring)
    events_per_sample = 2 * s.turns - 1 + (s.reward is not None)
    restarts = publishes * len(s.rates) * started if s.mode in ("restart", "reprefill") else 0
    events = groups * started * events_per_sample + _failures(s, groups, started, seconds) + restarts + 2 * batches
    row = started * (k.SAMPLE.itemsize + 8 * (s.turns - 1)) + k.GROUP.itemsize + k.MOMENT.itemsize + 40
    recorded = groups * (row + _STRETCH * started) + batches * 150.0
    tables = recorded + groups * (_TABLES * started + 184.0) + batches * 136.0
    return Size(groups, outstanding, events, recorded, outstanding * row, tables)


def mean(law: Law | None) -> float:
    """Mean of a distribution, infinite if it does not exist; 1 without a distribution."""
    try:
        return 1.0 if law is None else law.mean()
    except checks.InputError:
        return math.inf


def _work(s: Settings) -> float:
    return mean(s.length) * mean(s.difficulty)


def generation(s: Settings, batches: int, publishes: int, samples: int, sharp: bool) -> tuple[float, float]:
    """Groups generated while a trainer that never waits trains all batches, and its seconds; 0 without a mean."""
    if not math.isfinite(_work(s)):
        return 0.0, 0.0
    fastest = max(s.rates) * (1.0 if s.decode is None else max(s.decode)) * len(s.rates) / _work(s)
    rate = s.generation_rate(samples) if sharp else fastest
    if s.load is not None:
        train = s.load * s.groups_per_batch / (rate if sharp else s.generation_rate(samples))
    else:
        time = mean(s.train_time) if isinstance(s.train_time, Law) else float(s.train_time or 0.0)
        train = time + s.token_time * s.groups_per_batch * samples * _work(s)
    if not math.isfinite(train):
        return 0.0, 0.0
    seconds = batches * train + publishes * s.sync_time * (s.servers if s.rolling else 1)
    return rate * seconds, seconds


def _held_back(s: Settings, publishes: int) -> float:
    """Maximum number of groups admitted beyond those needed; infinite if nothing stops admission."""
    if s.rounds:
        # A batch needs a whole number of rounds.
        return float(s.quantum * s.batches_per_publish * (publishes + 1))
    ahead = 1 + s.prefetch // s.batches_per_publish + (not s.trainer_waits)
    out = math.inf if s.tickets is None else float(s.tickets)
    if s.capacity is not None and s.overflow != "drop_oldest":
        out = min(out, len(s.rates) + float(s.capacity))
    if s.capacity is not None and s.overflow == "drop_oldest" and out > s.capacity:
        return math.inf
    if s.max_age is None or s.age_action == "wait":
        bound = out
    elif s.max_age < ahead:
        # What starts while packed batches wait may be cut at once, and again.
        return math.inf
    else:
        # All that is outstanding at an install may be cut before the next, and nothing that starts meanwhile.
        bound = out * (publishes + 1)
    if _closes(s):
        bound = min(bound, (publishes + 1) * _window(s))
    return bound


def _closes(s: Settings) -> bool:
    """Whether packed batches stop admission."""
    return s.lead is not None and s.lead < 1 + s.prefetch // s.batches_per_publish


def _window(s: Settings) -> float:
    """Maximum number of groups admitted between two publishes if packed batches stop admission."""
    return len(s.rates) + ((s.lead or 0) + 2.0) * s.groups_per_batch * s.batches_per_publish


def _outstanding(s: Settings, generated: float) -> float:
    """Maximum number of groups outstanding, packed ones included; `made` between two publishes."""
    places, packed = len(s.rates), s.groups_per_batch * (s.prefetch + 2)
    if s.rounds:
        return places + packed
    if s.tickets is not None:
        return s.tickets + places + packed
    if s.capacity is not None:
        return 2 * places + s.capacity + packed
    if s.max_uses == 1 and s.max_age is not None:
        return places + packed + generated * (s.max_age + 2)
    return packed + _window(s) if s.max_uses == 1 and _closes(s) else math.inf


def _failures(s: Settings, groups: float, samples: int, seconds: float) -> float:
    """Expected failures while the groups are generated, at most those of all slots while the trainer trains."""
    if s.failure_rate == 0.0 or not math.isfinite(_work(s)):
        return 0.0
    per_sample = s.failure_rate * _work(s)
    tries = per_sample if s.failure_keeps else math.expm1(min(per_sample, _STEEP))
    return min(groups * samples * tries, s.failure_rate * sum(s.rates) * samples * seconds)
