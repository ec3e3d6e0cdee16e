"""A system whose response lengths come from the policy: the same event model, stepped during training."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from asyncsim.base import checks, records
from asyncsim.base.feeds import LengthsOf, Source
from asyncsim.systems import _state as k
from asyncsim.systems._state import State
from asyncsim.systems._system import System, refuse_standstill, stepped


def coupled(system: System) -> Coupled:
    """System whose response lengths come from the policy, not from its distribution of lengths; otherwise the same.

    Whenever samples start, the learning loop is asked for their numbers of tokens, given the version of each token as
    far as known. In mode keep (and restart) it is asked again for samples in flight when weights are installed. Works
    are then in tokens and rates in tokens per second. Its record, replayed as a schedule, gives the same trace.

    Arguments: `system`, an event system. Returns an object with the interface of a system whose only schedule is the
    record of a run. Raises `InputError`, also for a load, which would refer to the law that is not used. Source: this
    package.

    >>> from asyncsim.systems import one_step_off
    >>> feed = coupled(one_step_off()).feed(3, 2, 4, 1, seed=0)
    >>> lengths_of = lambda realization, trajectory, token_version: 1.0 + trajectory % 4
    >>> [feed.take(b, lengths_of)[0].ravel().tolist() for b in range(3)]
    [[0, 0], [0, 0], [1, 1]]
    """
    checks.require(isinstance(system, System), "system", system, "an event system", "impose a schedule as it is")
    remedy = "give train_time: lengths that depend on the policy have no distribution to scale it by"
    checks.require(system.load is None, "load", system.load, "absent in a coupled system", remedy)
    remedy = "how long a repaired response becomes is not asked again; let failures begin anew"
    checks.require(not system.failure_keeps, "failure_keeps", True, "False in a coupled system", remedy)
    return Coupled(system)


@dataclass(frozen=True)
class Coupled(Source):
    """An event system whose samples take their lengths from the policy."""

    system: System

    coupled = True
    """The loop has to step it: its schedule is not known beforehand."""

    random = True
    """Lengths come from sampled actions, so realizations always differ by chance."""

    @property
    def name(self) -> str:
        """Name of the coupled system."""
        return f"coupled {self.system.name}"

    knobs, groups_per_batch, batches_per_publish, redundant, mode, recommended = (
        property(attrgetter(f"system.{name}"))
        for name in ("knobs", "groups_per_batch", "batches_per_publish", "redundant", "mode", "recommended")
    )

    def describe(self) -> dict[str, Any]:
        """All parameters of the coupled system, as JSON values."""
        return {**self.system.describe(), "name": self.name, "length": "from the policy"}

    def realizations(self, replicates: int) -> int:
        """Number of realizations M: one per replicate, since each replicate has its own lengths."""
        return replicates

    def schedule(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int
    ) -> records.Schedule:
        """Raise `InputError`, because the schedule depends on the policy; use the record of the feed."""
        bound = "a system whose lengths do not depend on the policy"
        raise checks.InputError("system", self.name, bound, "run it and use the record of its feed")

    def feed(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int, first: int = 0
    ) -> _SteppedFeed:
        """Feed of the system, which is stepped batch by batch; realizations are numbered from `first` on."""
        return _SteppedFeed(self, batches, samples_per_group, tokens, realizations, seed, first)


class _SteppedFeed:
    """M realizations, each advanced until the wanted batch starts training; all request lengths together."""

    def __init__(
        self, source: Coupled, batches: int, samples: int, tokens: int, realizations: int, seed: int, first: int
    ) -> None:
        checks.integer("realizations", realizations, 1, "ask for at least one realization")
        self.tokens = checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
        self.system = system = source.system
        self.batches, self.seed = batches, seed
        self.header = {**source.describe(), "samples_per_group": samples, "tokens": tokens, "seed": seed}
        self.staircase = system.mode in ("keep", "reprefill") and tokens > 1
        self.reuses = system.max_uses != 1
        self.states = [system.start(batches, samples, first + m, seed, drawn=False) for m in range(realizations)]
        self._history: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._retired = 0
        self._answers: list[np.ndarray] | None = None

    def take(self, batch: int, lengths_of: LengthsOf) -> tuple[np.ndarray, np.ndarray]:
        """Versions int32 `[M, G, N, T or 1]` and trajectory ids int64 `[M, G, N]` of the next batch."""
        from asyncsim.systems import _record

        checks.integer("batch", batch, len(self._history), "take batches in order, each once", len(self._history))
        checks.integer("batch", batch, 0, "make the feed with more batches", self.batches - 1)
        waiting = list(range(len(self.states)))
        while waiting:
            requests: list[tuple[int, np.ndarray, bool]] = []
            for m in waiting:
                requests.extend(self._step(m, batch))
            self._ask(requests, lengths_of)
            waiting = [m for m, _, _ in requests]
        parts = []
        for state in self.states:
            code = _record.kept_codes(state, np.sort(state.taken[batch].astype(np.int64)))
            version = self._versions(state, code)
            parts.append((version if self.staircase else version[..., :1], code, state.sample.work[code]))
        version, code, work = (np.stack(column) for column in zip(*parts, strict=True))
        self._history.append((version, code, work))
        return version, code

    def retired(self, batch: int) -> list[int]:
        """Versions older than all starts outstanding after this batch; each version is reported once."""
        from asyncsim.systems import _record

        oldest = min(int(state.run.installed) for state in self.states)
        for state in self.states:
            group = state.group[: state.run.admitted]
            live = np.flatnonzero((group.stage < k.LEFT) | (group.references > 0))
            start = state.sample.v_start[_record.codes_of(state, live)]
            oldest = min(oldest, int(start.min(initial=oldest, where=start >= 0)))
        versions = list(range(self._retired, oldest))
        self._retired = max(self._retired, oldest)
        return versions

    def uninstalled(self) -> list[int]:
        """Versions that no generator holds any more and nothing will be sampled from; each is reported once."""
        # A sample may start at the instant of an install; its length is requested only afterwards.
        installed = min(
            int(state.sample.v_start[state.pending[: state.run.pending]].min(initial=state.run.installed))
            for state in self.states
        )
        versions = list(range(self._retired, installed))
        self._retired = max(self._retired, installed)
        return versions

    def record(self) -> records.Schedule:
        """Schedule of the batches taken so far."""
        remedy = "take a batch before asking for the record"
        checks.require(bool(self._history), "batches taken", 0, "at least 1", remedy)
        version, code, work = (np.stack(column, axis=1) for column in zip(*self._history, strict=True))
        seconds = np.stack([state.batch.t_start[: version.shape[1]] for state in self.states])
        return records.Schedule(version, code, self.system.batches_per_publish, True, work, self.header, seconds)

    def keeping(self) -> None:
        """Start recording the answers to length requests."""
        self._answers = []

    def packed(self) -> dict[str, Any]:
        """Answers to length requests so far, which determine all else together with the seed."""
        answers = self._answers or []
        return {
            "taken": len(self._history),
            "retired": self._retired,
            "sizes": np.array([len(each) for each in answers], dtype=np.int64),
            "answers": np.concatenate(answers) if answers else np.zeros(0),
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Take the same batches again with the same answers."""
        answers = iter(np.split(tree["answers"], np.cumsum(tree["sizes"])[:-1]))
        for batch in range(tree["taken"]):
            self.take(batch, lambda realization, trajectory, token_version: next(answers))
        self._retired = tree["retired"]

    def _step(self, m: int, batch: int) -> list[tuple[int, np.ndarray, bool]]:
        """Advance one realization; return the samples whose lengths it needs, and whether they are in flight."""
        system = self.system
        state, reason = stepped(system, self.states[m], batch + 1, k.UNLIMITED, self.seed)
        self.states[m] = state
        if reason == k.TRAINING:
            return []
        refuse_standstill(system, state, reason)
        if reason == k.STARTS:
            return [(m, np.sort(state.pending[: state.run.pending]), False)]
        numbers = state.run.admitted * state.settings.samples
        return [(m, np.flatnonzero(np.isin(state.sample.phase[:numbers], (k.WRITING, k.REPAIRING))), True)]

    def _ask(self, requests: list[tuple[int, np.ndarray, bool]], lengths_of: LengthsOf) -> None:
        """Request lengths for all realizations at once, and pass them to the kernels."""
        from asyncsim.systems import _kernel

        if not any(code.size for _, code, _ in requests):
            return
        realization = np.concatenate([np.full(code.size, m) for m, code, _ in requests])
        version = np.concatenate([self._versions(self.states[m], code) for m, code, _ in requests])
        trajectory = np.concatenate([code for _, code, _ in requests])
        lengths = lengths_of(realization, trajectory, version)
        answer = checks.finite_array("lengths_of", lengths, (trajectory.size,), "return one length for each start")
        shortest = float(answer.min())
        checks.require(shortest > 0, "lengths_of", shortest, "positive numbers of tokens", "a trajectory has a token")
        if self._answers is not None:
            self._answers.append(answer)
        offset = 0
        for m, code, in_flight in requests:
            self.states[m].sample.work[code] = answer[offset : offset + code.size]
            offset += code.size
            if in_flight:
                _kernel.rekey(self.states[m])

    def _versions(self, state: State, code: np.ndarray) -> np.ndarray:
        from asyncsim.systems import _record

        if self.staircase:
            return _record.versions_of_tokens(state, code, np.full(code.shape, float(self.tokens)), self.tokens)
        return np.repeat(state.sample.v_start[code][..., None], self.tokens, axis=-1)
