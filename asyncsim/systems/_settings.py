"""The settings of a system, checked: one point of the event model."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

from asyncsim.base import checks, records
from asyncsim.base.feeds import Source
from asyncsim.base.laws import Law, as_law
from asyncsim.systems import _checking

REALIZATIONS = 64
"""Default number of independent realizations of a random event system."""

PLACES = 1 << 20
"""Places of a system at most: each is an entry of `rates`."""


class Plan(NamedTuple):
    """Request for one realization: so many batches of groups of so many samples.

    `drawn` false: the caller supplies the work of every start; `record` false: rows of groups are used again; sums over
    time begin when `warm` batches have trained.
    """

    batches: int
    samples: int
    realization: int
    seed: int
    drawn: bool = True
    record: bool = True
    warm: int = 0


@dataclass(frozen=True, repr=False)
class Settings(Source):
    """What a `System` is made of, checked, and what follows from it without a run."""

    name: str
    knobs: Mapping[str, Any]
    length: Law
    rates: tuple[float, ...]
    groups_per_batch: int = 1
    batches_per_publish: int = 1
    difficulty: Law | None = None
    work_by: str = "sample"
    accept: float = 1.0
    redundant: int = 0
    prompt: float = 0.0
    servers: int = 1
    slots: int | None = None
    decode: tuple[float, ...] | None = None
    offsets: tuple[float, ...] | None = None
    reward: Law | None = None
    reward_holds: bool = False
    turns: int = 1
    environment: Law | None = None
    environment_holds: bool = True
    train_time: Law | float | str | None = None
    load: float | None = None
    token_time: float = 0.0
    prefetch: int = 0
    tickets: int | None = None
    release: str = "publish"
    release_dropped: str = "now"
    quantum: int = 1
    lead: int | None = None
    epoch: int | None = None
    permits: int | None = None
    target_staleness: float | None = None
    rounds: bool = False
    capacity: int | None = None
    overflow: str = "block"
    visible: str = "completion"
    initial_fill: int = 0
    max_uses: int | None = 1
    order: str = "done"
    window: int | None = None
    recent: float = 0.0
    max_age: int | None = None
    age_action: str = "drop"
    age_at_pack: str = "ready"
    age_at_publish: str = "none"
    age_reference: str = "start"
    mode: str = "keep"
    sync_time: float = 0.0
    trainer_waits: bool = True
    publish_waits: bool = False
    generator_pauses: bool = True
    rolling: bool = False
    prefill_speedup: float = math.inf
    failure_rate: float = 0.0
    restart_delay: float = 0.0
    failure_keeps: bool = False
    recommended: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a `Spec` that the trainer states, such as its epochs; they do not affect the events."""

    def __post_init__(self) -> None:
        for name in ("length", "difficulty", "reward", "environment"):
            value: Any = getattr(self, name)
            if value is not None and not isinstance(value, Law):
                zero = name != "length" and not isinstance(value, str) and value == 0
                object.__setattr__(self, name, None if zero else as_law(name, value))
        for name in _checking.LIMITS:
            value = getattr(self, name)
            if isinstance(value, float) and value == math.inf:
                object.__setattr__(self, name, None)
        time: Any = self.train_time
        if isinstance(time, str):
            object.__setattr__(self, "train_time", as_law("train_time", time))
        _checking.check(self)

    def __repr__(self) -> str:
        """Name, length, places, and the settings that differ from their defaults; 400 characters at most."""
        changes = {f.name: getattr(self, f.name) for f in fields(self)[2:] if getattr(self, f.name) != f.default}
        rates = changes.pop("rates")
        places = f"{rates[0]:g} x {len(rates)}" if len(set(rates)) == 1 else f"{len(rates)} places"
        parts = [repr(self.name), f"rates={places}", *(f"{k}={checks.shown(v)}" for k, v in changes.items())]
        return checks.clipped(f"System({', '.join(parts)})", 400)

    @property
    def random(self) -> bool:
        """Whether realizations differ by chance."""
        laws = (self.length, self.train_time, self.difficulty, self.reward, self.environment)
        chosen = self.order == "random" or self.accept < 1.0 or self.failure_rate > 0.0
        return chosen or any(isinstance(law, Law) and law.random for law in laws)

    @property
    def instant(self) -> bool:
        """Whether training takes no time at all."""
        time = self.train_time
        return self.token_time == 0.0 and not isinstance(time, Law) and time is not None and float(time) == 0.0

    def replace(self, **changes: Any) -> Self:
        """The same system with other settings; `rate` is the one number of `rates` of all places.

        >>> from asyncsim.systems import areal
        >>> areal(1, 2, length=600.0, load=1.0).replace(rate=30).mean_train_time(1)
        20.0
        """
        if "rate" in changes:
            checks.require(
                "rates" not in changes, "rate, rates", "both", "one of them", "rates has one for each generator slot"
            )
            changes["rates"] = changes.pop("rate")
        if isinstance(changes.get("rates"), int | float):
            checks.real("rate", changes["rates"], "give work a second, as tokens", 0.0, open_low=True)
            changes["rates"] = (changes["rates"],) * len(self.rates)
        return replace(self, **changes)

    def modeled(self, model: Mapping[str, Any], field: str = "model") -> Self:
        """The same system with settings of the event model changed by name; one of `load`, `train_time` replaces both.

        Raises `InputError` for names that are no settings, beside what `replace` refuses.
        """
        refuse_unknown(model, field)
        changes = {name: tuple(value) if isinstance(value, list) else value for name, value in model.items()}
        if "train_time" in changes:
            changes.setdefault("load", None)
        elif changes.get("load") is not None:
            changes["train_time"] = None
        return self.replace(**changes) if changes else self

    def describe(self) -> dict[str, Any]:
        """Name, knobs, length, places and all settings, as JSON can hold them."""
        rates: Any = self.rates[0] if len(set(self.rates)) == 1 else list(self.rates)
        description = {"name": self.name, "knobs": records.plain(self.knobs), "length": str(self.length)}
        description |= {"places": len(self.rates), "rates": rates}
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name not in description:
                description[setting.name] = records.plain(str(value) if isinstance(value, Law) else value)
        return description

    def realizations(self, replicates: int) -> int:
        """M for so many replicates: 1 where nothing is random, else 64 cut to the replicates."""
        return min(REALIZATIONS, replicates) if self.random else 1

    def mean_train_time(self, samples_per_group: int) -> float:
        """Mean seconds of training on a batch, t_T; from a load, load P / (generated groups a second)."""
        if self.load is not None:
            return self.load * self.groups_per_batch / self.generation_rate(samples_per_group)
        time = self.train_time.mean() if isinstance(self.train_time, Law) else float(self.train_time or 0.0)
        if self.token_time == 0.0:
            return time
        return time + self.token_time * self.groups_per_batch * self.kept_work(samples_per_group)

    def mean_work(self) -> float:
        """Mean work of a sample, difficulty included."""
        return self.length.mean() * (1.0 if self.difficulty is None else self.difficulty.mean())

    def kept_work(self, samples_per_group: int) -> float:
        """Mean work of the N samples that a group keeps: of N + E, the shortest N."""
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
        """Groups a second when no place and no slot ever waits, at full concurrency.

        Places: the sum over them of 1 / (E[max of N works] / speed + seconds of environment and, if it holds the place,
        of reward); slots and permits: as many x mean speed / (N E[work]), the smallest of all. With fewer tickets than
        places the first so many places count. With E redundant samples the maximum is the N-th of N + E works, and a
        group writes the N shortest and so much of each of the others.
        """
        busy = len(self.rates) if self.tickets is None else min(len(self.rates), self.tickets)
        active = busy * (samples_per_group + self.redundant) / self.servers
        limits = [math.inf if self.slots is None else float(self.slots)]
        limits += [math.inf if self.permits is None else self.permits / self.servers]
        writing = min(active, *limits)
        speed = 1.0 if self.decode is None else self.decode[min(max(round(writing), 1), len(self.decode)) - 1]
        by_places = self._by_places(samples_per_group, Counter(self.rates[:busy]), speed)
        if writing == active:
            return by_places
        rate = float(sum(self.rates[:busy])) / busy * speed
        written = self.kept_work(samples_per_group)
        if self.redundant > 0:
            written += self.redundant * self._last_work(samples_per_group)
        return min(by_places, self.servers * writing * rate / written)

    def _by_places(self, samples_per_group: int, places: Mapping[float, int], speed: float) -> float:
        """Groups a second of so many places of each rate, none of which ever waits."""
        work = self._last_work(samples_per_group)
        environment = 0.0 if self.environment is None else (self.turns - 1) * self.environment.mean()
        reward = self.reward.mean() if self.reward_holds and self.reward is not None else 0.0
        return sum(count / (work / (rate * speed) + environment + reward) for rate, count in places.items())


FIXED = ("name", "knobs", "recommended")
"""Fields of a system that are no settings of the event model."""


def refuse_unknown(model: Mapping[str, Any], field: str) -> None:
    """Refuse names that are no settings of the event model, with the nearest one."""
    settings = [each.name for each in fields(Settings) if each.name not in FIXED] + ["rate"]
    for name in model:
        near = difflib.get_close_matches(name, settings, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}? " if near else ""
        checks.one_of(field, name, settings, f"{hint}see the settings in asyncsim/systems/MODEL.md")
