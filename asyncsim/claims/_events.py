"""Places, buffer, trainer and tickets: a small event simulation, and two routes through a closed loop of single groups.

Written for the predicted tower alone, with whole groups as its entities. A group occupies a place for its seconds,
waits in the buffer, and trains with the others of its batch. Groups train in the order in which they finished. Of the
settings of the event model it has these alone.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass
class Loop:
    """Small event simulation; `generation` and `training` yield the seconds of each next group and batch."""

    generation: Iterator[float]
    training: Iterator[float]
    places: int
    groups_per_batch: int
    batches_per_publish: int = 1
    sync_time: float = 0.0
    generator_pauses: bool = True
    tickets: float = np.inf
    early: bool = False
    capacity: float = np.inf
    drop: bool = False
    total: float = np.inf

    def __post_init__(self) -> None:
        self.now, self.paused, self.free = 0.0, 0.0, self.places
        self.writing: list[tuple[float, int]] = []
        self.ready, self.blocked = deque[int](), deque[int]()
        self.training_until = self.syncing_until = np.inf
        self.started, self.ends = list[float](), list[float]()
        self.finished, self.trained = dict[int, float](), dict[int, float]()
        self._admit()

    def run(self, batches: int) -> np.ndarray:
        """Simulate until `batches` batches have trained; return the second at which each ended, `[batches]`."""
        while len(self.ends) < batches:
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
                if len(self.ends) % self.batches_per_publish == 0:
                    self.syncing_until = self.now + self.sync_time
            else:
                self.syncing_until = np.inf
                self.paused += self.sync_time if self.generator_pauses else 0.0
                self.tickets += 0 if self.early else self.groups_per_batch * self.batches_per_publish
            self._enter()
            idle = np.isinf(self.training_until) and np.isinf(self.syncing_until)
            if idle and len(self.ready) >= self.groups_per_batch:
                for _ in range(self.groups_per_batch):
                    self.trained[self.ready.popleft()] = self.now
                self.training_until = self.now + next(self.training)
                self.tickets += self.groups_per_batch if self.early else 0
            self._enter()
            self._admit()
        return np.array(self.ends)

    def _enter(self) -> None:
        """Move finished groups into the buffer and free their slots; a full buffer may drop its oldest group."""
        while self.blocked and (self.drop or len(self.ready) < self.capacity):
            if len(self.ready) >= self.capacity:
                self.ready.popleft()
            self.ready.append(self.blocked.popleft())
            self.free += 1

    def _admit(self) -> None:
        while self.free and self.tickets and not self._halted() and len(self.started) < self.total:
            heapq.heappush(self.writing, (self.now - self.paused + next(self.generation), len(self.started)))
            self.started.append(self.now)
            self.free, self.tickets = self.free - 1, self.tickets - 1

    def _halted(self) -> bool:
        """Whether a synchronization pauses the generators."""
        return self.generator_pauses and bool(np.isfinite(self.syncing_until))


def busy(tickets: int, ratio: float) -> float:
    """Trainer's busy fraction 1 - p0, 1/p0 = sum_{n=0..K} K!/(K-n)! ratio^n; `ratio`: training / generation time."""
    total = 1.0
    for n in range(1, tickets + 1):
        total = 1.0 + n * ratio * total
    return 1.0 - 1.0 / total


def busy_by_balance(tickets: int, generation: float, train: float) -> float:
    """Trainer's busy fraction from balance equations over the numbers of groups in generation phases 1 and 2."""
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
    return float(stationary[np.array([a + b < tickets for a, b in states])].sum())
