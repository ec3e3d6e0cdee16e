"""The system value: one event model whose settings place every asynchronous trainer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim import checks, records, rng
from asyncsim.feeds import EagerFeed
from asyncsim.laws import Law

if TYPE_CHECKING:
    from asyncsim.systems._kernel import State

MODES = ("drain", "keep", "restart", "pin")
RELEASES = ("dequeue", "publish")
ORDERS = ("done", "oldest_start")
REALIZATIONS = 64
"""Independent realizations of a random event system that a run uses unless told otherwise."""

EVENT = 64
"""Bytes of the record of one sample."""
PLACES = 1 << 20
"""Places of a system at most: each is an entry of `rates`."""


class StalledError(RuntimeError):
    """The event loop reached a point at which nothing can happen any more: a setting that the checks do not know."""


@dataclass(frozen=True)
class System:
    """Who generates, who trains and when weights move.

    A group of N samples takes a ticket and a place, is ready when its slowest sample is, and is dequeued with
    `groups_per_batch` others; a batch trains for `train_time` seconds; weights are published every
    `batches_per_publish` batches while all wait for `sync_time` seconds. `tickets` (None: no limit) return at
    `release`; groups are admitted by `quantum`. `rates` and `offsets`, one for each place: work per second, second of
    its first start. `order` picks among ready groups; `mode` says what an install does to samples in flight. Exactly
    one of `train_time` and `load` is given; load = (generated groups a second) / (trained groups a second), both
    without waiting.
    """

    name: str
    knobs: Mapping[str, Any]
    length: Law
    rates: tuple[float, ...]
    groups_per_batch: int = 1
    batches_per_publish: int = 1
    updates_per_batch: int = 1
    tickets: int | None = None
    release: str = "publish"
    quantum: int = 1
    offsets: tuple[float, ...] | None = None
    order: str = "done"
    mode: str = "keep"
    train_time: Law | float | None = None
    load: float | None = None
    sync_time: float = 0.0

    def __post_init__(self) -> None:
        for name in ("groups_per_batch", "batches_per_publish", "updates_per_batch", "quantum"):
            checks.integer(name, getattr(self, name), 1, "count from one", checks.LARGEST)
        checks.one_of("release", self.release, RELEASES, "say when a ticket returns")
        checks.one_of("order", self.order, ORDERS, "say which ready groups go first")
        checks.one_of("mode", self.mode, MODES, "say what an install does to samples in flight")
        rates = checks.finite_array("rates", self.rates, (None,), "give each place its work per second")
        checks.require(bool((rates > 0).all()), "rates", float(rates.min()), "positive", "leave stopped places out")
        if self.offsets is not None:
            offsets = checks.finite_array("offsets", self.offsets, (rates.size,), "give each place its first second")
            checks.require(bool((offsets >= 0).all()), "offsets", float(offsets.min()), ">= 0", "the run starts at 0")
        checks.real("sync_time", self.sync_time, "give the seconds of a synchronization", 0.0)
        self._check_times()
        self._check_admission()

    def _check_times(self) -> None:
        checks.require(
            (self.train_time is None) != (self.load is None), "load, train_time", (self.load, self.train_time),
            "exactly one number and one None", "give exactly one of load, train_time",
        )
        if self.load is not None:
            checks.real("load", self.load, "give generation rate over training rate", 0.0, open_low=True)
        elif not isinstance(self.train_time, Law):
            checks.real("train_time", self.train_time, "give seconds for a batch", 0.0)

    def _check_admission(self) -> None:
        """Refuse what comes to a standstill: tickets or places too few for what must be out before any return."""
        places = len(self.rates)
        checks.integer("quantum", self.quantum, 1, "a quantum larger than the places is never admitted", places)
        if self.tickets is None:
            return
        tickets = checks.integer("tickets", self.tickets, 1, "count groups", checks.LARGEST)
        at_publish = self.release == "publish"
        unit = self.groups_per_batch * (self.batches_per_publish if at_publish else 1)
        # Groups out are whole quanta, so up to quantum - 1 tickets lie idle, how many depends on the returns so far.
        idle = max((tickets + returns * unit) % self.quantum for returns in range(self.quantum))
        checks.require(
            tickets - idle >= unit, "tickets", tickets,
            f"at least {unit + idle}, the groups of a {'publish' if at_publish else 'batch'} and those a quantum of "
            f"{self.quantum} leaves idle", "with fewer the run comes to a standstill; raise the tickets",
        )

    @property
    def random(self) -> bool:
        """Whether realizations differ by chance."""
        return self.length.random or (isinstance(self.train_time, Law) and self.train_time.random)

    def replace(self, **changes: Any) -> System:
        """The same system with other settings."""
        return replace(self, **changes)

    def describe(self) -> dict[str, Any]:
        """All parameters as JSON can hold them."""
        names = [
            "groups_per_batch", "batches_per_publish", "updates_per_batch", "tickets", "release", "quantum", "order",
            "mode", "load", "sync_time",
        ]
        train_time = str(self.train_time) if isinstance(self.train_time, Law) else self.train_time
        rates: Any = self.rates[0] if len(set(self.rates)) == 1 else list(self.rates)
        return {
            "name": self.name, "knobs": records.plain(self.knobs), "length": str(self.length),
            "places": len(self.rates), "rates": rates, "offsets": self.offsets and list(self.offsets),
            "train_time": train_time, **{name: getattr(self, name) for name in names},
        }

    def realizations(self, replicates: int) -> int:
        """M for so many replicates: 1 where nothing is random, else 64 cut to the replicates."""
        return min(REALIZATIONS, replicates) if self.random else 1

    def mean_train_time(self, samples_per_group: int) -> float:
        """Mean seconds of training on a batch, t_T; from a load, load P E[T_group] / min(places, tickets)."""
        if self.load is not None:
            return self.load * self.groups_per_batch / self._generation_rate(samples_per_group)
        return self.train_time.mean() if isinstance(self.train_time, Law) else float(self.train_time or 0.0)

    def _generation_rate(self, samples_per_group: int) -> float:
        """Groups a second when no place ever waits; with fewer tickets than places the first so many are counted."""
        busy = len(self.rates) if self.tickets is None else min(len(self.rates), self.tickets)
        return float(sum(self.rates[:busy])) / self.length.expected_max(samples_per_group)

    def train_times(self, batches: int, samples_per_group: int, realization: int, seed: int) -> np.ndarray:
        """Seconds of training on each batch, float64 `[B]`."""
        if isinstance(self.train_time, Law):
            stream = rng.Stream(seed, "train_time")
            return self.train_time.sample(stream, realization, np.arange(batches), compiled=True)
        return np.full(batches, self.mean_train_time(samples_per_group))

    def works(self, samples: np.ndarray, realization: int, seed: int) -> np.ndarray:
        """Work of the samples of the given numbers, float64; a draw belongs to (seed, realization, sample)."""
        return self.length.sample(rng.Stream(seed, "work"), realization, samples, compiled=True)

    def start(self, batches: int, samples_per_group: int, realization: int, seed: int, *, drawn: bool) -> State:
        """Kernel state at time 0; with `drawn` false every start asks for its work."""
        from asyncsim.systems import _kernel as kernel

        checks.integer("batches", batches, 1, "ask for at least one batch")
        samples = checks.integer("samples_per_group", samples_per_group, 1, "a group has at least one sample")
        if drawn:
            self._check_divergence(samples)
        places = len(self.rates)
        tickets = kernel.LATE if self.tickets is None else self.tickets
        groups = (batches + 1) * self.groups_per_batch + places + (self.tickets or 4 * places)
        lower = "batches (updates), groups_per_batch or samples_per_group"
        checks.memory({"events": (groups * samples * EVENT, lower)})
        setting = np.array([
            self.groups_per_batch, samples, self.batches_per_publish, self.release == "publish", self.quantum,
            self.order == "oldest_start", MODES.index(self.mode), not drawn,
        ], dtype=np.int64)
        work = self.works(np.arange(groups * samples), realization, seed) if drawn else np.nan
        finite = not drawn or bool(np.isfinite(work).all())
        checks.require(finite, "length", str(self.length), "finite in every draw", "choose a law of a lighter tail")
        offsets = np.zeros(places) if self.offsets is None else np.asarray(self.offsets, dtype=np.float64)
        rates, times = np.asarray(self.rates, dtype=np.float64), self.train_times(batches, samples, realization, seed)
        return kernel.new_state(setting, tickets, rates, offsets, times, work, groups)

    def _check_divergence(self, samples_per_group: int) -> None:
        if self.tickets is not None:
            return
        generated, seconds = self._generation_rate(samples_per_group), self.mean_train_time(samples_per_group)
        ratio = generated * seconds / self.groups_per_batch
        checks.require(
            ratio <= 1.0, "tickets", None, f"a number where {ratio:.4g} groups are generated for each one trained",
            "the buffer of an open loop grows for ever; give tickets or a shorter train_time",
        )

    def simulate(self, batches: int, samples_per_group: int, realization: int, seed: int) -> State:
        """The finished kernel state of one realization, run until the last batch has trained and been published."""
        from asyncsim.systems import _kernel as kernel

        state = self.start(batches, samples_per_group, realization, seed, drawn=True)
        while (why := kernel.advance(state, kernel.LATE, batches)) == kernel.FULL:
            drawn, state = len(state.item), kernel.grown(state)
            state.item[drawn:, kernel.WORK] = self.works(np.arange(drawn, len(state.item)), realization, seed)
        refuse_standstill(self, state, why)
        return state

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
        from asyncsim.systems import _record

        checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
        checks.integer("realization", realization, 0, "count realizations from zero")
        state = self.simulate(batches, samples_per_group, realization, seed)
        header = {**self.describe_at(samples_per_group), "tokens": tokens, "seed": seed, "realization": realization}
        return _record.timeline(self, state, header)

    def staleness(self, batches: int, realizations: int, seed: int, samples_per_group: int = 1) -> np.ndarray:
        """Head staleness of every trained group in versions, float64 `[M, B, G]`: that of its earliest sample."""
        from asyncsim.systems import _record

        states = (self.simulate(batches, samples_per_group, m, seed) for m in range(realizations))
        return np.stack([_record.head_staleness(state) for state in states])


def refuse_standstill(system: System, state: State, why: int) -> None:
    """Raise `StalledError` where the kernel found nothing that can happen."""
    from asyncsim.systems import _kernel as kernel

    if why == kernel.STALLED:
        trained, now = int(state.tally[kernel.FINISHED]), float(state.clock[kernel.NOW])
        raise StalledError(f"{system.name}: stalled after {trained} batches at {now:g} s; settings {system.describe()}")
