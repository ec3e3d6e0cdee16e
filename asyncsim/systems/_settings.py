"""The settings of a system, each declared and checked, alone and together: one point of the event model."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from asyncsim.base import calls, checks, records
from asyncsim.base.feeds import Source
from asyncsim.base.laws import Law, as_law

REALIZATIONS = 64
"""Default number of independent realizations of a random event system."""

PLACES = 1 << 20
"""Places of a system at most: each is an entry of `rates`."""

MODES = ("drain", "keep", "restart", "pin", "reprefill")
RELEASES = ("dequeue", "publish")
RETURNS = ("now", "publish", "never")
ORDERS = ("done", "oldest_start", "version_strict", "target", "freshest", "random", "latest")
REACHES = ("none", "ready", "all")
REFERENCES = ("submit", "start", "end")


def _checked(usual: Any, check: Callable[[str, Any], Any]) -> Any:
    """Declare a setting that is checked and stored as given: 1 stays 1 in a header."""

    def read(name: str, value: Any) -> Any:
        check(name, value)
        return value

    return field(default=usual, metadata={"read": read})


def _one(allowed: tuple[str, ...], usual: str, remedy: str) -> Any:
    return _checked(usual, lambda name, value: checks.one_of(name, value, allowed, remedy))


def _real(usual: float, high: float = math.inf, remedy: str = "give a number", **more: Any) -> Any:
    return _checked(usual, lambda name, value: checks.real(name, value, remedy, 0.0, high, **more))


def _flag(usual: bool) -> Any:
    return _checked(usual, lambda name, value: checks.boolean(name, value, "say whether"))


def _count(low: int) -> Any:
    """Declare a count from 0 or 1 on, which is also its default."""
    remedy = f"count from {('zero', 'one')[low]}"
    return _checked(low, lambda name, value: checks.integer(name, value, low, remedy, checks.LARGEST))


def _limit(low: int, usual: int | None = None) -> Any:

    def read(name: str, value: Any) -> Any:
        if value is None or (isinstance(value, float) and value == math.inf):
            return None
        checks.integer(name, value, low, "count, or give None for no limit", checks.LARGEST)
        return value

    return field(default=usual, metadata={"read": read})


def _law(name: str, value: Any) -> Law | None:
    """Parse a distribution from any accepted form; None or 0 for no distribution."""
    return None if value is None or (not isinstance(value, (str, Law)) and value == 0) else as_law(name, value)


@calls.named
@dataclass(frozen=True, repr=False)
class Settings(Source):
    """Validated settings of a `System`, and quantities that follow from them without a simulation."""

    name: str
    knobs: Mapping[str, Any]
    length: Law = field(metadata={"read": as_law})
    rates: tuple[float, ...]
    groups_per_batch: int = _count(1)
    batches_per_publish: int = _count(1)
    difficulty: Law | None = field(default=None, metadata={"read": _law})
    work_by: str = _one(("sample", "group"), "sample", "say whose work is drawn")
    accept: float = _real(1.0, 1.0, open_low=True)
    redundant: int = _count(0)
    prompt: float = _real(0.0)
    servers: int = _count(1)
    slots: int | None = _limit(1)
    decode: tuple[float, ...] | None = None
    offsets: tuple[float, ...] | None = None
    reward: Law | None = field(default=None, metadata={"read": _law})
    reward_holds: bool = _flag(False)
    turns: int = _count(1)
    environment: Law | None = field(default=None, metadata={"read": _law})
    environment_holds: bool = _flag(True)
    train_time: Law | float | str | None = None
    load: float | None = None
    token_time: float = _real(0.0)
    prefetch: int = _count(0)
    tickets: int | None = _limit(1)
    release: str = _one(RELEASES, "publish", "say when the permit of a trained group returns")
    release_dropped: str = _one(RETURNS, "now", "say when the permit of a dropped group returns")
    quantum: int = _count(1)
    lead: int | None = _limit(0)
    epoch: int | None = _limit(1)
    permits: int | None = _limit(1)
    target_staleness: float | None = None
    rounds: bool = _flag(False)
    capacity: int | None = _limit(1)
    overflow: str = _one(("block", "close", "drop_oldest"), "block", "say what happens to a group at a full buffer")
    visible: str = _one(("completion", "publish"), "completion", "say when a finished group can be chosen")
    initial_fill: int = _count(0)
    max_uses: int | None = _limit(1, 1)
    order: str = _one(ORDERS, "done", "say which ready groups go first")
    window: int | None = _limit(1)
    recent: float = _real(0.0, 1.0)
    max_age: int | None = _limit(0)
    age_action: str = _one(("drop", "requeue", "wait"), "drop", "say what happens to a group that is too old")
    age_at_pack: str = _one(REACHES, "ready", "say which groups are looked at when a batch is packed")
    age_at_publish: str = _one(REACHES, "none", "say which groups are looked at at an install")
    age_reference: str = _one(REFERENCES, "start", "say which version stamp counts")
    mode: str = _one(MODES, "keep", "say what an install does to samples in flight")
    sync_time: float = _real(0.0)
    trainer_waits: bool = _flag(True)
    publish_waits: bool = _flag(False)
    generator_pauses: bool = _flag(True)
    colocated: bool = _flag(False)
    rolling: bool = _flag(False)
    prefill_speedup: float = _real(math.inf, remedy="give tokens read as one is written", open_low=True, finite=False)
    failure_rate: float = _real(0.0)
    restart_delay: float = _real(0.0)
    failure_keeps: bool = _flag(False)
    recommended: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a `Spec` that the trainer states, such as its epochs; they do not affect the events."""

    def __post_init__(self) -> None:
        for each in _DECLARED:
            object.__setattr__(self, each.name, each.metadata["read"](each.name, getattr(self, each.name)))
        if isinstance(self.train_time, str):
            object.__setattr__(self, "train_time", as_law("train_time", self.train_time))
        for check in (_times, _generator, _buffer, _age, _admission):
            check(self)

    def __repr__(self) -> str:
        """Name, length, slots, and the settings that differ from their defaults, in at most 400 characters."""
        changes = {f.name: getattr(self, f.name) for f in fields(self)[2:] if getattr(self, f.name) != f.default}
        rates = changes.pop("rates")
        places = f"{rates[0]:g} x {len(rates)}" if len(set(rates)) == 1 else f"{len(rates)} places"
        parts = [repr(self.name), f"rates={places}", *(f"{k}={checks.shown(v)}" for k, v in changes.items())]
        return checks.clipped(f"System({', '.join(parts)})", 400)

    @property
    def random(self) -> bool:
        """Whether realizations of the system differ randomly."""
        laws = (self.length, self.train_time, self.difficulty, self.reward, self.environment)
        chosen = self.order == "random" or self.accept < 1.0 or self.failure_rate > 0.0
        return chosen or any(isinstance(law, Law) and law.random for law in laws)

    @property
    def instant(self) -> bool:
        """Whether training takes no time in this system."""
        time = self.train_time
        return self.token_time == 0.0 and not isinstance(time, Law) and time is not None and float(time) == 0.0

    def replace(self, **changes: Any) -> Self:
        """The same system with other settings; `rate` sets the `rates` of all slots to one number.

        >>> from asyncsim.systems import areal
        >>> areal(1, 2, length=600.0, load=1.0).replace(rate=30).mean_train_time(1)
        20.0
        """
        if "rate" in changes:
            remedy = "rates has one for each generator slot"
            checks.require("rates" not in changes, "rate, rates", "both", "one of them", remedy)
            changes["rates"] = changes.pop("rate")
        if isinstance(changes.get("rates"), int | float):
            checks.real("rate", changes["rates"], "give work a second, as tokens", 0.0, open_low=True)
            changes["rates"] = (changes["rates"],) * len(self.rates)
        return calls.replaced(self, changes)

    def modeled(self, model: Mapping[str, Any], field: str = "model") -> Self:
        """The same system with event-model settings changed by name; `load` and `train_time` replace each other."""
        refuse_unknown(model, field)
        changes = {name: tuple(value) if isinstance(value, list) else value for name, value in model.items()}
        if "train_time" in changes:
            changes.setdefault("load", None)
        elif changes.get("load") is not None:
            changes["train_time"] = None
        return self.replace(**changes) if changes else self

    def describe(self) -> dict[str, Any]:
        """Name, knobs, length, slots and all settings of the system, as JSON values."""
        rates: Any = self.rates[0] if len(set(self.rates)) == 1 else list(self.rates)
        description = {"name": self.name, "knobs": records.plain(self.knobs), "length": str(self.length)}
        description |= {"places": len(self.rates), "rates": rates}
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name not in description:
                description[setting.name] = records.plain(str(value) if isinstance(value, Law) else value)
        return description

    def realizations(self, replicates: int) -> int:
        """Number of realizations M: 1 if nothing is random, else 64, or the replicates if fewer."""
        return min(REALIZATIONS, replicates) if self.random else 1

    def sample_slots(self, started: int) -> int:
        """Number of slots for samples: those of servers, else sample permits, else C times samples per group."""
        if self.slots is not None:
            return self.servers * self.slots
        return len(self.rates) * started if self.permits is None else self.permits

    def mean_train_time(self, samples_per_group: int) -> float:
        """Mean seconds of training per batch, t_T; from a load, load P / (generated groups per second)."""
        if self.load is not None:
            return self.load * self.groups_per_batch / self.generation_rate(samples_per_group)
        time = self.train_time.mean() if isinstance(self.train_time, Law) else float(self.train_time or 0.0)
        if self.token_time == 0.0:
            return time
        return time + self.token_time * self.groups_per_batch * self.kept_work(samples_per_group)

    def mean_work(self) -> float:
        """Mean work of a sample, including the difficulty of its prompt."""
        return self.length.mean() * (1.0 if self.difficulty is None else self.difficulty.mean())

    def kept_work(self, samples_per_group: int) -> float:
        """Mean total work of the N samples that a group keeps, the shortest N of N + E."""
        if self.redundant == 0 or self.work_by == "group":
            return samples_per_group * self.mean_work()
        started = samples_per_group + self.redundant
        shortest = sum(self.length.expected_least(k, started) for k in range(1, samples_per_group + 1))
        return shortest * (1.0 if self.difficulty is None else self.difficulty.mean())

    def _last_work(self, samples_per_group: int) -> float:
        """Mean work of the longest of the N samples that a group keeps."""
        if self.work_by == "group":
            return self.mean_work()
        last = self.length.expected_least(samples_per_group, samples_per_group + self.redundant)
        return last * (1.0 if self.difficulty is None else self.difficulty.mean())

    def generation_rate(self, samples_per_group: int) -> float:
        """Groups generated per second at full concurrency, when no slot ever waits.

        Places: the sum over them of 1 / (E[max of N works] / speed + seconds of environment and, if it holds the place,
        of reward); slots and permits: as many x mean speed / (N E[work]), the smallest of all. With fewer permits than
        places the first so many places count. With E redundant samples the maximum is the N-th of N + E works, and a
        group writes the N shortest and so much of each of the others.
        """
        busy = len(self.rates) if self.tickets is None else min(len(self.rates), self.tickets)
        active = busy * (samples_per_group + self.redundant) / self.servers
        limits = [math.inf if self.slots is None else float(self.slots)]
        limits += [math.inf if self.permits is None else self.permits / self.servers]
        writing = min(active, *limits)
        speed = 1.0 if self.decode is None else self.decode[min(max(round(writing), 1), len(self.decode)) - 1]
        # Groups a second of so many places of each rate, none of which ever waits.
        work = self._last_work(samples_per_group)
        environment = 0.0 if self.environment is None else (self.turns - 1) * self.environment.mean()
        reward = self.reward.mean() if self.reward_holds and self.reward is not None else 0.0
        places = Counter(self.rates[:busy])
        by_places = sum(count / (work / (rate * speed) + environment + reward) for rate, count in places.items())
        if writing == active:
            return by_places
        rate = float(sum(self.rates[:busy])) / busy * speed
        written = self.kept_work(samples_per_group)
        if self.redundant > 0:
            written += self.redundant * work
        return min(by_places, self.servers * writing * rate / written)


_DECLARED = tuple(each for each in fields(Settings) if each.metadata)
FIXED = ("name", "knobs", "recommended")
"""Fields of a system that are no settings of the event model."""
CHANGEABLE = [each.name for each in fields(Settings) if each.name not in FIXED] + ["rate"]
"""Settings of the event model that a preset leaves open."""


def refuse_unknown(model: Mapping[str, Any], field: str) -> None:
    """Refuse names that are not settings of the event model, and name the nearest one."""
    for name in model:
        listed = f"{checks.hint(name, CHANGEABLE)} see the settings in asyncsim/systems/MODEL.md".lstrip()
        remedy = checks.advice(name, "event_model", otherwise=listed)
        checks.one_of(field, name, CHANGEABLE, remedy)


def _times(s: Any) -> None:
    fits = (s.train_time is None) != (s.load is None)
    count = "neither" if s.load is None else "both"
    remedy = "give one: load=1.5, or train_time=SECONDS"
    checks.require(fits, "load, train_time", count, "one of the two", remedy)
    if s.load is not None:
        checks.real("load", s.load, "give generation rate over training rate", 0.0, open_low=True)
        remedy = "give train_time instead of load"
        checks.require(s.token_time == 0.0, "token_time", s.token_time, "0 beside a load", remedy)
    elif not isinstance(s.train_time, Law):
        checks.real("train_time", s.train_time, "give seconds for a batch", 0.0)


def _generator(s: Any) -> None:
    rates = checks.finite_array("rates", s.rates, (None,), "give each generator slot its work per second")
    checks.require(bool((rates > 0).all()), "rates", float(rates.min()), "positive", "leave stopped slots out")
    if s.offsets is not None:
        offsets = checks.finite_array("offsets", s.offsets, (rates.size,), "give each generator slot its first second")
        checks.require(bool((offsets >= 0).all()), "offsets", float(offsets.min()), ">= 0", "the run starts at 0")
    if s.decode is not None:
        decode = checks.finite_array("decode", s.decode, (None,), "give the speed with 1, 2, ... active samples")
        checks.require(bool((decode > 0).all()), "decode", float(decode.min()), "positive", "let samples go on")
    checks.integer("servers", s.servers, 1, "give every server a generator slot", rates.size)
    if s.rolling:
        _rolling(s)
    if s.colocated:
        _colocated(s)
    bound, remedy = f"a distribution with turns = {s.turns}", "say how long a step between turns takes"
    checks.require(s.turns == 1 or s.environment is not None, "environment", s.environment, bound, remedy)
    bound, remedy = "False in mode restart", "a restart throws tokens away that a failure would keep"
    checks.require(not (s.failure_keeps and s.mode == "restart"), "failure_keeps", s.failure_keeps, bound, remedy)


def _rolling(s: Any) -> None:
    """Refuse a rolling install without several servers, or one so slow that the next weights always wait."""
    checks.integer("servers", s.servers, 2, "one server has no other to wait for; leave rolling out")
    checks.real("sync_time", s.sync_time, "give the seconds of one server's install", 0.0, open_low=True)
    remedy = "a drain stops all servers at once; choose keep, reprefill, restart or pin"
    checks.require(s.mode != "drain", "mode", s.mode, "another where servers take weights in turn", remedy)
    known = s.train_time is not None and not isinstance(s.train_time, Law) and s.token_time == 0.0
    if not s.trainer_waits and known:
        seconds, period = s.servers * s.sync_time, float(s.train_time) * s.batches_per_publish
        bound = f"at most {period / s.servers:.6g}, so that {s.servers} servers are through before the next publish"
        remedy = "the next weights would wait for every install; lower it, publish less often, or let the trainer wait"
        checks.require(seconds <= period, "sync_time", s.sync_time, bound, remedy)


def _colocated(s: Any) -> None:
    """Refuse settings that wait for paused generators, or that let them continue during training."""
    alone = {"trainer_waits": True, "generator_pauses": True, "publish_waits": False, "rolling": False}
    for name, value in alone.items():
        remedy = "generators and trainer share their machines, and one of them runs at a time"
        checks.require(getattr(s, name) == value, name, getattr(s, name), f"{value} where colocated", remedy)
    remedy = "a drain waits for generators that stand still; choose keep, reprefill, restart or pin"
    checks.require(s.mode != "drain", "mode", s.mode, "another where colocated", remedy)


def _buffer(s: Any) -> None:
    if s.capacity is not None:
        bound, remedy = f"at least groups_per_batch = {s.groups_per_batch}", "a batch has to fit into the buffer"
        checks.require(s.capacity >= s.groups_per_batch, "capacity", s.capacity, bound, remedy)
    if s.visible == "publish":
        bound = f"at least groups_per_batch = {s.groups_per_batch} where groups become visible at a publish"
        remedy = "without a first batch there is no first publish"
        checks.require(s.initial_fill >= s.groups_per_batch, "initial_fill", s.initial_fill, bound, remedy)
        bound = "None where groups become visible at a publish"
        remedy = "a trainer that has used all visible groups waits for its own publish; let groups be used again"
        checks.require(s.max_uses is None, "max_uses", s.max_uses, bound, remedy)
        keeps = s.max_age is None and (s.capacity is None or s.overflow != "drop_oldest")
        bound = "None, and block or close, where groups become visible at a publish"
        remedy = "visible groups could leave before a publish shows more; keep them"
        checks.require(keeps, "max_age, overflow", (s.max_age, s.overflow), bound, remedy)
    bound, remedy = f"None with max_uses = {s.max_uses}", "replay returns no permits; leave tickets out"
    checks.require(s.max_uses == 1 or s.tickets is None, "tickets", s.tickets, bound, remedy)
    remedy = "a group belongs to one batch; choose another order for replay"
    checks.require(s.max_uses == 1 or s.order != "target", "max_uses", s.max_uses, "1 with order = target", remedy)
    strict = s.window is not None or s.order in ("version_strict", "target") or s.age_action == "wait"
    if s.capacity is not None and s.overflow != "drop_oldest" and strict:
        bound = f"at least tickets = {s.tickets} where a batch waits for certain groups"
        remedy = "the awaited group would be blocked by a full buffer; raise the capacity or drop_oldest"
        checks.require(s.tickets is not None and s.capacity >= s.tickets, "capacity", s.capacity, bound, remedy)
    fits = s.window is None or s.order == "oldest_start"
    checks.require(fits, "window", s.window, f"None with order = {s.order}", "a window belongs to oldest_start")
    remedy = "recent groups are preferred by order random only"
    checks.require(s.recent == 0.0 or s.order == "random", "recent", s.recent, f"0 with order = {s.order}", remedy)


def _age(s: Any) -> None:
    looks = s.max_age is None or s.age_at_pack != "none" or s.age_at_publish != "none"
    remedy = "ready, or all for groups in generation too"
    checks.require(looks, "age_at_pack, age_at_publish", "none", f"another beside max_age = {s.max_age}", remedy)
    starts = s.max_age is None or s.max_age >= 1 or not s.publish_waits or s.age_at_pack == "none"
    remedy = "a batch that a publish waits for is packed a version before it is trained; raise the bound"
    checks.require(starts, "max_age", s.max_age, "at least 1 with publish_waits", remedy)
    if s.age_action != "wait":
        return
    checks.require(s.max_age is not None, "max_age", None, "a number where age_action is wait", "give the bound")
    bound = "oldest_start where age_action is wait"
    checks.require(s.order == "oldest_start", "order", s.order, bound, "waiting for the oldest means taking it first")
    remedy = "an open loop always has a group to wait for; set tickets"
    checks.require(s.tickets is not None, "tickets", None, "a number where age_action is wait", remedy)
    least = math.ceil(s.tickets / (s.groups_per_batch * s.batches_per_publish)) - 1
    remedy = "so many versions pass before the last of the tickets is trained; raise the bound or lower the tickets"
    checks.require(s.max_age >= least, "max_age", s.max_age, f"at least {least} with {s.tickets} tickets", remedy)


def _admission(s: Any) -> None:
    """Refuse settings that deadlock: fewer permits or slots than must be in use before any returns."""
    checks.integer("quantum", s.quantum, 1, "a quantum larger than the generator slots is never admitted", len(s.rates))
    remedy = "a group begins with the first permit that is free; admit one at a time"
    checks.require(s.permits is None or s.quantum == 1, "quantum", s.quantum, f"1 with permits = {s.permits}", remedy)
    if s.rounds:
        # Nothing lets groups in or out between rounds.
        alone: dict[str, Any] = dict.fromkeys(("tickets", "capacity", "epoch", "permits", "max_age", "window", "lead"))
        alone |= {"max_uses": 1, "prefetch": 0, "visible": "completion"}
        for name, value in alone.items():
            remedy = "a round ends with all of its groups; leave the other setting out, or rounds"
            checks.require(getattr(s, name) == value, name, getattr(s, name), f"{value} in rounds", remedy)
        first = ("done", "oldest_start")
        checks.one_of("order", s.order, first, "a round has all of its groups; take the first of them")
    if s.publish_waits:
        open_ahead = s.prefetch > 0 and s.mode != "drain" and s.epoch is None and s.lead != 0
        remedy = "the batch that a publish waits for has to be generated and packed before it"
        bound = f"False with prefetch = {s.prefetch}, mode = {s.mode}, epoch = {s.epoch}, lead = {s.lead}"
        checks.require(open_ahead, "publish_waits", True, bound, remedy)
    if s.target_staleness is not None:
        checks.real("target_staleness", s.target_staleness, "give a mean staleness in versions, or None", 0.0)
        remedy = "permits are the upper bound below which concurrency adapts"
        checks.require(s.permits is not None, "permits", None, "a number beside target_staleness", remedy)
    cuts = s.max_age is not None and s.age_action != "wait"
    loses = s.accept < 1.0 or cuts or (s.capacity is not None and s.overflow == "drop_oldest")
    if s.epoch is not None:
        remedy = "an epoch uses every prompt once; choose one of them"
        checks.require(s.max_uses == 1, "max_uses", s.max_uses, "1 in epochs", remedy)
        groups = s.epoch * s.groups_per_batch
        bound = f"a divisor of the {groups} groups of an epoch, and 1 where groups are lost"
        remedy = "the rest of a quantum would wait for the next epoch for ever; change one of them"
        checks.require(groups % s.quantum == 0 and (s.quantum == 1 or not loses), "quantum", s.quantum, bound, remedy)
    if s.tickets is None:
        return
    at_publish = s.release == "publish"
    unit = s.groups_per_batch * (s.batches_per_publish + s.publish_waits if at_publish else 1)
    # Groups out are whole quanta, so up to quantum - 1 tickets lie idle, how many depends on the returns so far.
    idle = max((s.tickets + returns * unit) % s.quantum for returns in range(s.quantum))
    if loses:
        # Tickets of groups that are lost return one by one.
        idle = s.quantum - 1
    bound = f"now or publish with accept = {s.accept}"
    remedy = "every rejected group would keep its permit, until none is left"
    checks.require(s.accept == 1.0 or s.release_dropped != "never", "release_dropped", s.release_dropped, bound, remedy)
    bound = (
        f"at least {unit + idle}, the groups of a {'publish' if at_publish else 'batch'} and those a quantum of "
        f"{s.quantum} leaves idle"
    )
    remedy = "with fewer the run comes to a standstill; raise the tickets"
    checks.require(s.tickets - idle >= unit, "tickets", s.tickets, bound, remedy)
