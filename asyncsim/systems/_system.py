"""The system value: settings of the event model that can be run."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.base import checks, records
from asyncsim.base.feeds import EagerFeed
from asyncsim.systems import _simulating
from asyncsim.systems._settings import PLACES as PLACES
from asyncsim.systems._settings import Plan, Settings
from asyncsim.systems._simulating import StalledError as StalledError
from asyncsim.systems._state import State


class System(Settings):
    """Who generates, who trains and when weights move: one point of the event model.

    `MODEL.md` beside this file defines every setting. Numbers in place of laws are constants, infinity in place of a
    limit is None. Raises `InputError` for values out of range, settings that contradict each other, and systems that
    would come to a standstill.
    """

    def start(
        self,
        batches: int,
        samples_per_group: int,
        realization: int,
        seed: int,
        *,
        drawn: bool,
        record: bool = True,
        warm: int = 0,
    ) -> State:
        """Kernel state at time 0; with `drawn` false the caller supplies the work of every start."""
        return _simulating.start(self, Plan(batches, samples_per_group, realization, seed, drawn, record, warm))

    def simulate(
        self, batches: int, samples_per_group: int, realization: int, seed: int, *, record: bool = True, warm: int = 0
    ) -> State:
        """The finished kernel state of one realization, run until the last batch has trained and been published."""
        return _simulating.simulate(self, Plan(batches, samples_per_group, realization, seed, True, record, warm))

    def schedule(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int
    ) -> records.Schedule:
        """The schedule value of M realizations: versions `[M, B, G, N, T or 1]`, ids and works `[M, B, G, N]`."""
        from asyncsim.systems import _record

        checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
        checks.integer("realizations", realizations, 1, "ask for at least one realization")
        states = (self.simulate(batches, samples_per_group, m, seed) for m in range(realizations))
        parts = [_record.trained(state, tokens) for state in states]
        return _record.join(self, parts, {**self.describe_at(samples_per_group), "seed": seed})

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
        point = {"tokens": tokens, "seed": seed, "realization": realization}
        return {**self.describe_at(samples_per_group), **point}

    def summary(
        self, batches: int, samples_per_group: int = 1, seed: int = 0, realization: int = 0, warm: int | None = None
    ) -> dict[str, Any]:
        """Staleness, losses, lengths, throughput and utilization of one realization, without a record.

        Memory is bounded by the outstanding groups. `warm`: batches left out (`_summary.warm_up` unless given). See
        `systems._summary.summary` for the keys.
        """
        from asyncsim.systems import _summary

        default = _summary.warm_up(self, batches, samples_per_group)
        warm = default if warm is None else checks.integer("warm", warm, 0, "count batches", batches - 1)
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
