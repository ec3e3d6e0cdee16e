"""Places, buffer, trainer and tickets: a small event simulation, and two routes through a closed loop of single groups.

Written for the predicted tower alone, with whole groups as its entities. A group occupies a place for its seconds,
waits in the buffer, and trains with the others of its batch. Groups train in the order in which they finished. Of the
settings of the event model it has these alone.
"""

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


def busy(tickets: int, ratio: float) -> float:
    """1 - p0 with 1/p0 = sum_{n=0..K} K!/(K-n)! ratio^n, `ratio` the mean training over the mean generation of a group.

    >>> busy(1, 0.5)
    0.33333333333333337
    """
    total = 1.0
    for n in range(1, tickets + 1):
        total = 1.0 + n * ratio * total
    return 1.0 - 1.0 / total


def busy_by_balance(tickets: int, generation: float, train: float) -> float:
    """1 - p0 from states (in the first phase, in the second); the other groups are at the trainer, which serves them.

    >>> round(busy_by_balance(1, 2.0, 1.0), 12)
    0.333333333333
    """
    # Generation in two exponential phases has a law of its own; states grow with their square.
    phases = 2 if tickets <= 24 else 1
    leave = phases / generation
    states = [(a, b) for a in range(tickets + 1) for b in range(tickets + 1 - a) if phases == 2 or b == 0]
    place = {state: k for k, state in enumerate(states)}
    rates = np.zeros((len(states), len(states)))
    for (a, b), k in place.items():
        moves = {(a + 1, b): 1.0 / train if a + b < tickets else 0.0}
        moves[(a - 1, b + 1) if phases == 2 else (a - 1, b)] = a * leave
        moves[(a, b - 1)] = b * leave
        for state, rate in moves.items():
            if rate:
                rates[k, place[state]] += rate
                rates[k, k] -= rate
    equations = rates.T.copy()
    equations[-1] = 1.0
    stationary = np.linalg.solve(equations, np.eye(len(states))[-1])
    at_trainer = np.array([a + b < tickets for a, b in states])
    return float(stationary[at_trainer].sum())
