"""A small event simulation of places, buffer, trainer and tickets: the second route to laws of throughput.

Written for the predicted tower alone, with whole groups as its entities. A group occupies a place for its seconds,
waits in the buffer, and trains with the others of its batch. Groups train in the order in which they finished. Of the
settings of the event model it has these alone.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np


class Settings(NamedTuple):
    """Numbers of one run; `tickets` and `capacity` None: no limit. `total` groups are admitted, None: without end."""

    places: int
    groups_per_batch: int
    batches_per_publish: int = 1
    sync_time: float = 0.0
    generator_pauses: bool = True
    tickets: int | None = None
    early: bool = False
    capacity: int | None = None
    drop: bool = False
    total: int | None = None


class Loop:
    """One run: `generation` and `training` give the seconds of the next group and of the next batch."""

    def __init__(self, settings: Settings, generation: Iterator[float], training: Iterator[float]) -> None:
        self.settings, self.generation, self.training = settings, generation, training
        self.now, self.paused = 0.0, 0.0
        self.writing: list[tuple[float, int]] = []
        self.ready: deque[int] = deque()
        self.blocked: deque[int] = deque()
        self.free, self.tickets = settings.places, settings.tickets
        self.training_until = self.syncing_until = np.inf
        self.started: list[float] = []
        self.finished: dict[int, float] = {}
        self.trained: dict[int, float] = {}
        self.ends: list[float] = []
        self._admit()

    def run(self, batches: int) -> np.ndarray:
        """Advance until so many batches have trained; the seconds at which each ended, float64 `[batches]`."""
        while len(self.ends) < batches:
            self._step()
        return np.array(self.ends)

    def _step(self) -> None:
        s = self.settings
        # Ends are kept on a clock that stands still during a pause.
        group_end = self.writing[0][0] + self.paused if self.writing and not self._halted() else np.inf
        self.now = min(group_end, self.training_until, self.syncing_until)
        if group_end == self.now:
            group = heapq.heappop(self.writing)[1]
            self.finished[group] = self.now
            self.blocked.append(group)
        elif self.training_until == self.now:
            self.training_until = np.inf
            self.ends.append(self.now)
            if len(self.ends) % s.batches_per_publish == 0:
                self.syncing_until = self.now + s.sync_time
        else:
            self.syncing_until = np.inf
            self.paused += s.sync_time if s.generator_pauses else 0.0
            if self.tickets is not None and not s.early:
                self.tickets += s.groups_per_batch * s.batches_per_publish
        self._enter()
        idle = np.isinf(self.training_until) and np.isinf(self.syncing_until)
        if idle and len(self.ready) >= s.groups_per_batch:
            for _ in range(s.groups_per_batch):
                self.trained[self.ready.popleft()] = self.now
            self.training_until = self.now + next(self.training)
            if self.tickets is not None and s.early:
                self.tickets += s.groups_per_batch
        self._enter()
        self._admit()

    def _enter(self) -> None:
        """Groups that have ended enter the buffer, in place of the oldest where a full one drops, and free a place."""
        s = self.settings
        while self.blocked and (s.drop or s.capacity is None or len(self.ready) < s.capacity):
            if s.capacity is not None and len(self.ready) >= s.capacity:
                self.ready.popleft()
            self.ready.append(self.blocked.popleft())
            self.free += 1

    def _admit(self) -> None:
        left = np.inf if self.settings.total is None else self.settings.total
        while self.free and self.tickets != 0 and not self._halted() and len(self.started) < left:
            heapq.heappush(self.writing, (self.now - self.paused + next(self.generation), len(self.started)))
            self.started.append(self.now)
            self.free -= 1
            self.tickets = None if self.tickets is None else self.tickets - 1

    def _halted(self) -> bool:
        """Whether a synchronization holds the generators."""
        return self.settings.generator_pauses and bool(np.isfinite(self.syncing_until))
