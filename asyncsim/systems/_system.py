"""The system value: one event model whose settings place every asynchronous trainer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim import checks, memory, records, rng
from asyncsim.feeds import EagerFeed
from asyncsim.laws import Law, as_law
from asyncsim.systems import _checking

if TYPE_CHECKING:
    from asyncsim.systems._state import State

REALIZATIONS = 64
"""Independent realizations of a random event system that a run uses unless told otherwise."""

_KEPT = 8 << 20
"""Bytes of an array up to which its memory stays with the process: simulations are run by the dozen."""

PLACES = 1 << 20
"""Places of a system at most: each is an entry of `rates`."""


class StalledError(checks.RunError):
    """Nothing can happen any more, or much happens and no batch is formed; the message says who waits for what."""


@dataclass(frozen=True, repr=False)
class System:
    """Who generates, who trains and when weights move: one point of the event model.

    `MODEL.md` beside this file says what every setting means. Numbers in place of laws are constants, infinity in place
    of a limit is None. Raises `InputError` for values out of range, settings that contradict each other, and systems
    that would come to a standstill.
    """

    name: str
    knobs: Mapping[str, Any]
    length: Law
    rates: tuple[float, ...]
    groups_per_batch: int = 1
    batches_per_publish: int = 1
    updates_per_batch: int = 1
    difficulty: Law | None = None
    accept: float = 1.0
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
    train_time: Law | float | None = None
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
    age_checks: tuple[str, ...] = ("pack",)
    age_reach: str = "ready"
    age_reference: str = "start"
    mode: str = "keep"
    sync_time: float = 0.0
    trainer_waits: bool = True
    generator_pauses: bool = True
    prefill_speedup: float = math.inf
    failure_rate: float = 0.0
    restart_delay: float = 0.0
    failure_keeps: bool = False

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
        """Name, length, places, and the settings that are not as they are unless set; 400 characters at most."""
        given = {f.name: getattr(self, f.name) for f in fields(self)[2:] if getattr(self, f.name) != f.default}
        rates = given.pop("rates")
        places = f"{rates[0]:g} x {len(rates)}" if len(set(rates)) == 1 else f"{len(rates)} places"
        parts = [repr(self.name), f"rates={places}", *(f"{k}={checks.shown(v)}" for k, v in given.items())]
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

    def replace(self, **changes: Any) -> System:
        """The same system with other settings."""
        return replace(self, **changes)

    def describe(self) -> dict[str, Any]:
        """Name, knobs, length, places and all settings, as JSON can hold them."""
        rates: Any = self.rates[0] if len(set(self.rates)) == 1 else list(self.rates)
        shown = {"name": self.name, "knobs": records.plain(self.knobs), "length": str(self.length)}
        shown |= {"places": len(self.rates), "rates": rates}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name not in shown:
                shown[each.name] = records.plain(str(value) if isinstance(value, Law) else value)
        return shown

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
        return time + self.token_time * self.groups_per_batch * samples_per_group * self.mean_work()

    def mean_work(self) -> float:
        """Mean work of a sample, difficulty included."""
        return self.length.mean() * (1.0 if self.difficulty is None else self.difficulty.mean())

    def generation_rate(self, samples_per_group: int) -> float:
        """Groups a second when no place and no slot ever waits, at full concurrency.

        Places: C / (E[max of N works] / speed + seconds of environment and, if it holds the place, of reward); slots
        and permits: as many x speed / (N E[work]), the smallest of all. With fewer tickets than places the first so
        many places count.
        """
        busy = len(self.rates) if self.tickets is None else min(len(self.rates), self.tickets)
        active = busy * samples_per_group / self.servers
        limits = [math.inf if self.slots is None else float(self.slots)]
        limits += [math.inf if self.permits is None else self.permits / self.servers]
        held = min(active, *limits)
        speed = 1.0 if self.decode is None else self.decode[min(max(round(held), 1), len(self.decode)) - 1]
        scale = 1.0 if self.difficulty is None else self.difficulty.mean()
        rate = float(sum(self.rates[:busy])) / busy * speed
        seconds = self.length.expected_max(samples_per_group) * scale / rate
        if self.environment is not None:
            seconds += (self.turns - 1) * self.environment.mean()
        if self.reward_holds and self.reward is not None:
            seconds += self.reward.mean()
        by_places = busy / seconds
        if held == active:
            return by_places
        return min(by_places, self.servers * held * rate / (samples_per_group * self.mean_work()))

    def train_times(
        self, batches: int, samples_per_group: int, realization: int, seed: int, first: int = 0
    ) -> np.ndarray:
        """Seconds of training on each batch from `first` on but for those of its tokens, float64 `[B]`."""
        if isinstance(self.train_time, Law):
            stream = rng.Stream(seed, "train_time")
            return self.train_time.sample(stream, realization, np.arange(first, first + batches), compiled=True)
        whole = self.mean_train_time(samples_per_group) if self.load is not None else float(self.train_time or 0.0)
        return np.full(batches, whole)

    def works(self, samples: np.ndarray, realization: int, seed: int) -> np.ndarray:
        """Work of the samples of the given numbers, float64; a draw belongs to (seed, realization, sample)."""
        from asyncsim.systems import _draws

        return _draws.works(self, samples, realization, seed)

    def start(
        self, batches: int, samples_per_group: int, realization: int, seed: int, *, drawn: bool, record: bool = True,
        warm: int = 0,
    ) -> State:
        """Kernel state at time 0; with `drawn` false every start asks for its work."""
        from asyncsim.systems import _build, _limits

        memory.keep(_KEPT)
        checks.integer("batches", batches, 1, "ask for at least one batch")
        samples = checks.integer("samples_per_group", samples_per_group, 1, "a group has at least one sample")
        checks.require(
            drawn or self.turns == 1, "turns", self.turns, "1 where lengths come from the policy",
            "a length that changes has no turns; give the system one turn",
        )
        if drawn:
            self._check_divergence(samples)
            _limits.refuse_endless(self, batches, samples, record)
        return _build.new_state(
            self, batches, samples, realization, seed, drawn=drawn, record=record, warm=warm
        )

    def _check_divergence(self, samples_per_group: int) -> None:
        bounded = self.tickets is not None or self.capacity is not None or self.lead is not None
        if bounded or self.max_age is not None or self.max_uses != 1:
            return
        generated, seconds = self.generation_rate(samples_per_group), self.mean_train_time(samples_per_group)
        ratio = generated * self.accept * seconds / self.groups_per_batch
        checks.require(
            ratio <= 1.0, "tickets", None, f"a number where {ratio:.4g} groups are generated for each one trained",
            "the buffer of an open loop grows for ever; give tickets, a capacity, an age limit or a shorter train_time",
        )

    def simulate(
        self, batches: int, samples_per_group: int, realization: int, seed: int, *, record: bool = True, warm: int = 0
    ) -> State:
        """The finished kernel state of one realization, run until the last batch has trained and been published."""
        from asyncsim.systems import _state

        state = self.start(batches, samples_per_group, realization, seed, drawn=True, record=record, warm=warm)
        state, why = stepped(self, state, _state.UNLIMITED, batches, realization, seed, drawn=True)
        refuse_standstill(self, state, why)
        return state

    def rewards(self, samples: np.ndarray, realization: int, seed: int) -> np.ndarray:
        """Seconds from the end of the samples of the given numbers to their rewards, float64."""
        from asyncsim.systems import _draws

        return _draws.rewards(self, samples, realization, seed)

    def environments(self, samples: np.ndarray, turns: np.ndarray, realization: int, seed: int) -> np.ndarray:
        """Seconds of the environment's step after the given turns, counted from 1, float64."""
        from asyncsim.systems import _draws

        return _draws.environments(self, samples, turns, realization, seed)

    def failures(self, samples: np.ndarray, attempts: np.ndarray, realization: int, seed: int) -> np.ndarray:
        """Units of work that the given attempts write before they fail, float64."""
        from asyncsim.systems import _draws

        return _draws.failures(self, samples, attempts, realization, seed)

    def difficulties(self, groups: np.ndarray, realization: int, seed: int) -> np.ndarray:
        """Factors on the work of the prompts that the groups of the given numbers ask first, float64."""
        from asyncsim.systems import _draws

        return _draws.difficulties(self, groups, realization, seed)

    def accepts(self, groups: np.ndarray, realization: int, seed: int) -> np.ndarray:
        """Whether the groups of the given numbers are kept, bool."""
        from asyncsim.systems import _draws

        return _draws.acceptances(groups, realization, seed) < self.accept

    def choices(self, batches: np.ndarray, draws: np.ndarray, realization: int, seed: int) -> np.ndarray:
        """Uniform numbers by which order random chooses, float64."""
        from asyncsim.systems import _draws

        return _draws.choices(batches, draws, realization, seed)

    def schedule(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int
    ) -> records.Schedule:
        """The schedule value of M realizations: versions `[M, B, G, N, T or 1]`, ids and works `[M, B, G, N]`."""
        from asyncsim.systems import _record

        checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
        checks.integer("realizations", realizations, 1, "ask for at least one realization")
        states = (self.simulate(batches, samples_per_group, m, seed) for m in range(realizations))
        parts = [_record.trained(state, tokens) for state in states]
        return _record.joined(self, parts, {**self.describe_at(samples_per_group), "seed": seed})

    def describe_at(self, samples_per_group: int) -> dict[str, Any]:
        """`describe` with the group size and the training time that a load fixes for it."""
        resolved = {} if self.load is None else {"train_time": self.mean_train_time(samples_per_group)}
        return {**self.describe(), **resolved, "samples_per_group": samples_per_group}

    def feed(self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int) -> EagerFeed:
        """The schedule, to be taken batch by batch."""
        return EagerFeed(self.schedule(batches, samples_per_group, tokens, realizations, seed))

    def timeline(
        self, batches: int, samples_per_group: int = 1, tokens: int = 1, seed: int = 0, realization: int = 0
    ) -> records.Timeline:
        """The full record of one realization, until the last batch has trained and been published."""
        from asyncsim.systems import _limits, _record

        checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
        checks.integer("realization", realization, 0, "count realizations from zero")
        _limits.refuse_tables(self, batches, samples_per_group)
        state = self.simulate(batches, samples_per_group, realization, seed)
        return _record.timeline(self, state, self._header(samples_per_group, tokens, seed, realization))

    def _header(self, samples_per_group: int, tokens: int, seed: int, realization: int) -> dict[str, Any]:
        own = {"tokens": tokens, "seed": seed, "realization": realization}
        return {**self.describe_at(samples_per_group), **own}

    def summary(
        self, batches: int, samples_per_group: int = 1, seed: int = 0, realization: int = 0, warm: int | None = None
    ) -> dict[str, Any]:
        """Staleness, losses, lengths, throughput and utilization of one realization, without a record.

        Memory is bounded by what is outstanding. `warm`: batches left out (2 ceil(K/M) unless given). See
        `systems._summary.summary` for the keys.
        """
        from asyncsim.systems import _summary

        usual = _summary.warm_up(self, batches)
        warm = usual if warm is None else checks.integer("warm", warm, 0, "count batches", batches - 1)
        state = self.simulate(batches, samples_per_group, realization, seed, record=False, warm=warm)
        return _summary.summary(self, state)

    def recorded(
        self, batches: int, samples_per_group: int = 1, seed: int = 0, realization: int = 0, warm: int = 0
    ) -> tuple[dict[str, Any], records.Timeline]:
        """`summary` and `timeline` of one realization."""
        from asyncsim.systems import _limits, _record, _summary

        _limits.refuse_tables(self, batches, samples_per_group)
        state = self.simulate(batches, samples_per_group, realization, seed, warm=warm)
        record = _record.timeline(self, state, self._header(samples_per_group, 1, seed, realization))
        return _summary.summary(self, state), record

    def summaries(
        self, batches: int, realizations: int, samples_per_group: int = 1, seed: int = 0, workers: int = 1
    ) -> list[dict[str, Any]]:
        """`summary` of realizations 0 .. M - 1, by so many threads; the result does not depend on their number."""
        from concurrent.futures import ThreadPoolExecutor

        checks.integer("realizations", realizations, 1, "ask for at least one realization")
        workers = checks.integer("workers", workers, 1, "give at least one thread", 1024)
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda m: self.summary(batches, samples_per_group, seed, m), range(realizations)))

    def staleness(self, batches: int, realizations: int, seed: int, samples_per_group: int = 1) -> np.ndarray:
        """Head staleness of every trained group in versions, float64 `[M, B, G]`: that of its earliest sample."""
        from asyncsim.systems import _record

        states = (self.simulate(batches, samples_per_group, m, seed) for m in range(realizations))
        return np.stack([_record.head_staleness(state) for state in states])


def stepped(
    system: System, state: State, stop_started: int, stop_finished: int, realization: int, seed: int, *, drawn: bool
) -> tuple[State, int]:
    """Advance until the kernel needs more than room or draws; the state and why it came back."""
    from asyncsim.systems import _build, _kernel, _state

    while True:
        why = _kernel.advance(state, stop_started, stop_finished)
        if why == _state.FULL:
            state = _build.grown(state)
        elif why == _state.SUPPLY:
            _build.refill(system, state, realization, seed, drawn)
        else:
            return state, why


def refuse_standstill(system: System, state: State, why: int) -> None:
    """Raise `StalledError` where nothing can happen any more, or much happens and nothing trains."""
    from asyncsim.systems import _standstill, _state

    if why in (_state.STALLED, _state.STARVED):
        raise StalledError(_standstill.explained(system, state, why == _state.STARVED))
