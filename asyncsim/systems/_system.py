"""The system value: settings of the event model that can be run, and the kernel driven and fed until the run ends."""

from typing import Any

import numpy as np

from asyncsim.base import calls, checks, memory, records
from asyncsim.systems import _state
from asyncsim.systems._settings import PLACES as PLACES
from asyncsim.systems._settings import Settings
from asyncsim.systems._state import State

_RETAINED = 8 << 20
"""Arrays up to so many bytes keep their memory in the process for the next simulation."""


class StalledError(checks.RunError):
    """Raised if a system stalls: no event is left, or none leads to a batch; the message names who waits for what."""


class System(Settings, calls.Told):
    """One asynchronous training system in the event model: who generates, who trains, when weights are published.

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
        """Initial kernel state of one realization of the system.

        `drawn` false: the caller supplies the work of every start; `record` false: rows of groups are used again; sums
        over time begin when `warm` batches have trained.
        """
        from asyncsim.systems import _build, _limits

        memory.keep(_RETAINED)
        checks.integer("batches", batches, 1, "ask for at least one batch")
        samples = checks.integer("samples_per_group", samples_per_group, 1, "a group has at least one sample")
        bound = "1 where lengths come from the policy"
        remedy = "a length that changes has no turns; give the system one turn"
        checks.require(drawn or self.turns == 1, "turns", self.turns, bound, remedy)
        if drawn:
            _refuse_divergence(self, samples)
            _limits.refuse(self, batches, samples, "recorded" if record else "summed")
        return _build.new_state(self, batches, samples, realization, seed, drawn, record, warm)

    def simulate(
        self, batches: int, samples_per_group: int, realization: int, seed: int, *, record: bool = True, warm: int = 0
    ) -> State:
        """Final kernel state of one realization, run until the last batch has been trained and published."""
        state = self.start(batches, samples_per_group, realization, seed, drawn=True, record=record, warm=warm)
        state, reason = stepped(self, state, _state.UNLIMITED, batches, seed)
        refuse_standstill(self, state, reason)
        return state

    def schedule(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int
    ) -> records.Schedule:
        """Schedule of M realizations: versions `[M, B, G, N, T or 1]`, ids and works `[M, B, G, N]`."""
        from asyncsim.systems import _record

        checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
        checks.integer("realizations", realizations, 1, "ask for at least one realization")
        states = (self.simulate(batches, samples_per_group, m, seed) for m in range(realizations))
        parts = [_record.trained(state, tokens) for state in states]
        return _record.join(self, parts, {**self.describe_at(samples_per_group), "seed": seed})

    def describe_at(self, samples_per_group: int) -> dict[str, Any]:
        """Settings as in `describe`, with the group size and the training time that a load implies for it."""
        resolved = {} if self.load is None else {"train_time": self.mean_train_time(samples_per_group)}
        return {**self.describe(), **resolved, "samples_per_group": samples_per_group}

    def timeline(
        self, batches: int, samples_per_group: int = 1, tokens: int = 1, seed: int = 0, realization: int = 0
    ) -> records.Timeline:
        """Full timeline of one realization, until the last batch has been trained and published."""
        from asyncsim.systems import _limits, _record

        checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
        checks.integer("realization", realization, 0, "count realizations from zero")
        _limits.refuse(self, batches, samples_per_group, "tables")
        state = self.simulate(batches, samples_per_group, realization, seed)
        header = self.describe_at(samples_per_group) | {"tokens": tokens, "seed": seed, "realization": realization}
        return _record.timeline(self, state, header)

    def summary(
        self, batches: int, samples_per_group: int = 1, seed: int = 0, realization: int = 0, warm: int | None = None
    ) -> dict[str, Any]:
        """Statistics of one realization, without a timeline: staleness, losses, lengths, throughput and utilization.

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
        """Statistics and timeline of one realization, as from `summary` and `timeline`."""
        from asyncsim.systems import _limits, _record, _summary

        _limits.refuse(self, batches, samples_per_group, "tables")
        state = self.simulate(batches, samples_per_group, realization, seed, warm=warm)
        header = self.describe_at(samples_per_group) | {"tokens": 1, "seed": seed, "realization": realization}
        return _summary.summary(self, state), _record.timeline(self, state, header)

    def summaries(
        self, batches: int, realizations: int, samples_per_group: int = 1, seed: int = 0, workers: int = 1
    ) -> list[dict[str, Any]]:
        """Statistics of realizations 0 .. M - 1, as from `summary`, computed in `workers` threads."""
        from concurrent.futures import ThreadPoolExecutor

        checks.integer("realizations", realizations, 1, "ask for at least one realization")
        workers = checks.integer("workers", workers, 1, "give at least one thread", 1024)
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda m: self.summary(batches, samples_per_group, seed, m), range(realizations)))

    def staleness(self, batches: int, realizations: int, seed: int, samples_per_group: int = 1) -> np.ndarray:
        """Staleness of each trained group's earliest sample at its first token in versions, float64 `[M, B, G]`."""
        from asyncsim.systems import _record

        states = (self.simulate(batches, samples_per_group, m, seed) for m in range(realizations))
        return np.stack([_record.head_staleness(state) for state in states])


def _refuse_divergence(s: Settings, samples_per_group: int) -> None:
    bounded = s.tickets is not None or s.capacity is not None or s.lead is not None or s.rounds
    if bounded or s.max_age is not None or s.max_uses != 1:
        return
    generated, seconds = s.generation_rate(samples_per_group), s.mean_train_time(samples_per_group)
    ratio = generated * s.accept * seconds / s.groups_per_batch
    bound = f"a number where {ratio:.4g} groups are generated for each one trained"
    remedy = "the buffer of an open loop grows without end; set tickets, capacity, max_age or a shorter train_time"
    checks.require(ratio <= 1.0, "tickets", None, bound, remedy)


def stepped(system: Settings, state: State, stop_started: int, stop_finished: int, seed: int) -> tuple[State, int]:
    """Advance a simulation, supplying space and draws, until it stops for another reason; return state and reason."""
    from asyncsim.systems import _build, _kernel

    while True:
        reason = _kernel.advance(state, stop_started, stop_finished)
        if reason == _state.FULL:
            state = _build.grow(state)
        elif reason == _state.SUPPLY:
            _build.refill(system, state, seed)
        else:
            return state, reason


def refuse_standstill(system: Settings, state: State, reason: int) -> None:
    """Raise `StalledError` if no event is left, or events continue without training, and name who waits."""
    if reason not in (_state.STALLED, _state.STARVED):
        return
    run, now = state.run, float(state.run.now)
    what = "starved: events go on, but no batch is formed," if reason == _state.STARVED else "stalled"
    head = f"{system.name}: {what} after {int(run.finished)} batches at {now:g} s"
    groups = {
        "in generation": run.in_flight,
        "await rewards": run.scoring,
        "await the buffer": run.blocked,
        "become visible at the next publish": run.hidden,
    }
    waiting = [f"{int(count)} groups {words}" for words, count in groups.items() if count]
    trainer = (
        f"the publish waits for {int(run.in_flight)} groups in generation to drain"
        if run.wanted and system.mode == "drain"
        else f"the trainer waits for {system.groups_per_batch} groups that order {system.order} lets it take together, "
        f"{int(run.ready)} are finished"
    )
    remedy, s = "raise tickets, capacity or max_age, or take another order", system
    if s.tickets is not None and s.release_dropped != "now" and s.tickets - run.tickets > run.admitted - run.gone:
        remedy = "set release_dropped to now, or drop and reject less"
    elif s.failure_rate > 0.0 and s.failure_rate * s.mean_work() > 1.0 and not s.failure_keeps:
        remedy = "samples fail before they end: lower failure_rate or set failure_keeps"
    raise StalledError("; ".join([head, trainer, _admission(system, run), *waiting, remedy]))


def _admission(s: Settings, run: Any) -> str:
    tickets, free = int(run.tickets), int(run.free)
    if s.tickets is not None and tickets < s.quantum:
        out = int(run.admitted - run.gone)
        lost = s.tickets - tickets - out
        back = "the next publish" if s.release == "publish" else "the next dequeue"
        missing = f", {lost} are not with any of them" if lost > 0 else ""
        return (
            f"generators wait for {s.quantum} group permits, {tickets} of {s.tickets} are free and {out} are out with "
            f"groups{missing}; permits return at {back}, those of dropped groups: {s.release_dropped}"
        )
    if s.permits is not None and int(run.permitted) >= s.permits:
        return f"generators wait for a sample permit, all {s.permits} are with samples under way"
    if free < s.quantum:
        return f"generators wait for {s.quantum} generator slots, {free} of {len(s.rates)} are free"
    if s.overflow == "close" and s.capacity is not None and int(run.ready) >= s.capacity:
        return f"admission is closed while the buffer holds its capacity, {s.capacity} groups"
    ahead = int(run.packs // s.batches_per_publish - run.installed)
    if s.lead is not None and ahead > s.lead:
        return f"generators wait for a publish: {ahead} packed versions ahead, lead = {s.lead}"
    return "generators are free to go on"
