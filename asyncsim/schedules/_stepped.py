"""The feed of a coupled system: M event kernels that stop whenever a length is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim.base import checks, records
from asyncsim.base.feeds import LengthsOf
from asyncsim.systems import _kernel, _record, _tokens
from asyncsim.systems import _state as k
from asyncsim.systems._simulating import refuse_standstill, stepped
from asyncsim.systems._state import State
from asyncsim.systems._system import System

NEVER = 1 << 60
_UNDERWAY = (k.WRITING, k.REPAIRING)
"""Phases of samples that have begun and are not over, where a sample has one turn."""


class SteppedFeed:
    """M realizations, each advanced until the wanted batch starts training; all starts request lengths together.

    Token t of a sample is emitted when t tokens of its work are done. Batches are taken in order. `description`: the
    coupled system in words, for the header of the record.
    """

    def __init__(
        self,
        system: System,
        description: Mapping[str, Any],
        batches: int,
        samples_per_group: int,
        tokens: int,
        realizations: int,
        seed: int,
        first: int = 0,
    ) -> None:
        checks.integer("realizations", realizations, 1, "ask for at least one realization")
        self.tokens = checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
        self.system = system
        self.batches, self.samples = batches, samples_per_group
        self.header = {**description, "samples_per_group": samples_per_group, "tokens": tokens, "seed": seed}
        self.staircase = system.mode in ("keep", "reprefill") and tokens > 1
        self.seed, self.first = seed, first
        self.reuses = system.max_uses != 1
        self.states = [
            system.start(batches, samples_per_group, first + m, seed, drawn=False) for m in range(realizations)
        ]
        self._history: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._retired = 0
        self._answers: list[np.ndarray] | None = None

    def take(self, batch: int, lengths_of: LengthsOf) -> tuple[np.ndarray, np.ndarray]:
        """Versions int32 `[M, G, N, T or 1]` and trajectory ids int64 `[M, G, N]` of the next batch."""
        checks.integer("batch", batch, len(self._history), "take batches in order, each once", len(self._history))
        checks.integer("batch", batch, 0, "make the feed with more batches", self.batches - 1)
        waiting = list(range(len(self.states)))
        while waiting:
            requests: list[tuple[int, np.ndarray, bool]] = []
            for m in waiting:
                requests.extend(self._step(m, batch))
            self._ask(requests, lengths_of)
            waiting = [m for m, _, _ in requests]
        parts = [self._batch(state, batch) for state in self.states]
        version, code, work = (np.stack(column) for column in zip(*parts, strict=True))
        self._history.append((version, code, work))
        return version, code

    def retired(self, batch: int) -> list[int]:
        """Versions older than every start that is outstanding after this batch, each in one answer only."""
        oldest = min(self._oldest(state) for state in self.states)
        versions = list(range(self._retired, oldest))
        self._retired = max(self._retired, oldest)
        return versions

    def uninstalled(self) -> list[int]:
        """Versions that no generator holds any more, each in one answer only: nothing will be drawn from them."""
        # A sample may start at the instant of an install; its length is requested only afterwards.
        installed = min(
            int(state.sample.v_start[state.pending[: state.run.pending]].min(initial=state.run.installed))
            for state in self.states
        )
        versions = list(range(self._retired, installed))
        self._retired = max(self._retired, installed)
        return versions

    def record(self) -> records.Schedule:
        """The schedule of the batches taken so far."""
        checks.require(
            bool(self._history), "batches taken", 0, "at least 1", "take a batch before asking for the record"
        )
        version, code, work = (np.stack(column, axis=1) for column in zip(*self._history, strict=True))
        seconds = np.stack([state.batch.t_start[: version.shape[1]] for state in self.states])
        return records.Schedule(version, code, self.system.batches_per_publish, True, work, self.header, seconds)

    def keeping(self) -> None:
        """Note every answer about lengths."""
        self._answers = []

    def packed(self) -> dict[str, Any]:
        """Answers about lengths so far; all else follows from them and the seed."""
        answers = self._answers or []
        return {
            "taken": len(self._history),
            "retired": self._retired,
            "sizes": np.array([len(each) for each in answers], dtype=np.int64),
            "answers": np.concatenate(answers) if answers else np.zeros(0),
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Take the same batches again, with the same answers."""
        answers = iter(np.split(tree["answers"], np.cumsum(tree["sizes"])[:-1]))
        for batch in range(tree["taken"]):
            self.take(batch, lambda realization, trajectory, token_version: next(answers))
        self._retired = tree["retired"]

    def _step(self, m: int, batch: int) -> list[tuple[int, np.ndarray, bool]]:
        """Advance one realization; the samples it needs lengths for, and whether they are in flight already."""
        system = self.system
        state, reason = stepped(system, self.states[m], batch + 1, NEVER, self.seed)
        self.states[m] = state
        if reason == k.TRAINING:
            return []
        refuse_standstill(system, state, reason)
        if reason == k.STARTS:
            return [(m, np.sort(state.pending[: state.run.pending]), False)]
        numbers = state.run.admitted * state.settings.samples
        begun = np.flatnonzero(np.isin(state.sample.phase[:numbers], _UNDERWAY))
        return [(m, begun, True)]

    def _ask(self, requests: list[tuple[int, np.ndarray, bool]], lengths_of: LengthsOf) -> None:
        """Request lengths for all realizations at once and put them into the kernels."""
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
        if self.staircase:
            return _tokens.versions_of_tokens(state, code, np.full(code.shape, float(self.tokens)), self.tokens)
        start = state.sample.v_start[code]
        return np.repeat(start[..., None], self.tokens, axis=-1)

    def _batch(self, state: State, batch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        group = np.sort(state.taken[batch].astype(np.int64))
        code = _record.kept_codes(state, group)
        version = self._versions(state, code)
        return version if self.staircase else version[..., :1], code, state.sample.work[code]

    def _oldest(self, state: State) -> int:
        """The oldest version that an outstanding sample began under; the installed one where none is."""
        group = state.group[: state.run.admitted]
        live = (group.stage < k.LEFT) | (group.references > 0)
        start = state.sample.v_start[_record.codes_of(state, np.flatnonzero(live))]
        return int(min(start.min(initial=state.run.installed, where=start >= 0), state.run.installed))
