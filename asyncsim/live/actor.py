"""An actor: a process that generates groups under the weights on the board and stamps what it sees."""

import heapq
import itertools
import signal
import time
import traceback
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from asyncsim.live.board import Board
from asyncsim.sampling.rollouts import Sampler, Trajectories, rolled_out
from asyncsim.step import versions

MOVING = ("keep", "reprefill")
"""Modes in which a response goes on under the weights of an install."""
READY = "ready"
"""First message of an actor that can take orders."""
TRIAL = 0
"""Group that is generated, and forgotten, before the first order: code is loaded by then."""


class Order(NamedTuple):
    """A group to generate: number, place and, where time is stood in for, seconds of each of its samples."""

    group: int
    place: int
    seconds: tuple[float, ...] | None


class Done(NamedTuple):
    """A finished group: stamps, version of every token int32 `[N, T]`, and its columns as arrays `[1, 1, N, ...]`."""

    group: int
    place: int
    t_start: float
    t_end: np.ndarray
    version: np.ndarray
    columns: dict[str, Any]


@dataclass
class _Growing:
    """A group in generation; `version` of the tokens so far, `left` samples that are not at their end."""

    order: Order
    t_start: float
    version: np.ndarray
    t_end: np.ndarray
    left: int


@dataclass
class Actor:
    """The groups in one process, each with a clock of its own.

    A response of T tokens reaches token t at the fraction t / T of its seconds; there it takes the newest weights where
    the mode lets it. What it says is computed when its group ends, in one call, from the weights it held at each token.
    """

    board: Board
    sampler: Sampler
    moving: bool
    zero: float
    store: versions.Store = field(init=False)
    growing: dict[int, _Growing] = field(default_factory=dict)
    due: list[tuple[float, int, int, int, int]] = field(default_factory=list)
    serial: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.store = versions.Store(self.sampler.realization)

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.zero

    def serve(self, pipe: Any) -> None:
        """Take orders until there are no more, or nobody is left who gives any."""
        while True:
            if pipe.poll(max(0.0, self.due[0][0] - self.now()) if self.due else None):
                order = pipe.recv()
                if order is None:
                    return
                self.begin(order)
            while self.due and self.due[0][0] <= self.now():
                done = self.advance(*heapq.heappop(self.due)[2:])
                if done is not None:
                    pipe.send(done)

    def begin(self, order: Order) -> None:
        """Start a group: its first tokens have the weights that stand on the board now."""
        start, newest = self.now(), self._newest()
        shape = (self.sampler.samples, self.sampler.task.horizon)
        version = np.full(shape, newest, dtype=np.int32)
        self.growing[order.group] = _Growing(order, start, version, np.full(shape[0], start), shape[0])
        for sample in range(shape[0]):
            self._wait(order, sample, 1 if self.moving and order.seconds is not None else shape[1])

    def advance(self, group: int, sample: int, token: int) -> Done | None:
        """A response stands before a token: go on under the newest weights, or end; the group if it is finished."""
        growing, horizon = self.growing[group], self.sampler.task.horizon
        if token < horizon:
            growing.version[sample, token:] = self._newest()
            self._wait(growing.order, sample, token + 1)
            return None
        growing.t_end[sample], growing.left = self.now(), growing.left - 1
        if growing.left:
            return None
        # Compute the responses of the group.
        del self.growing[group]
        sampler, version, size = self.sampler, growing.version[None, None], self.sampler.samples
        one = version[..., :1] if (version == version[..., :1]).all() else version
        ids = (group * (size + sampler.redundant) + np.arange(size)).reshape(1, 1, -1)
        draws = sampler.draws(ids)
        trajectories, reward = rolled_out(sampler, self.store.view(one), draws, sampler.prompts(ids))
        last = growing.t_end == growing.t_end.max()
        growing.t_end[last] = self.now()
        stamps = (growing.t_start, growing.t_end, growing.version)
        return Done(group, growing.order.place, *stamps, unpacked(trajectories, reward))

    def _wait(self, order: Order, sample: int, token: int) -> None:
        seconds = 0.0 if order.seconds is None else order.seconds[sample]
        at = self.growing[order.group].t_start + seconds * token / self.sampler.task.horizon
        heapq.heappush(self.due, (at, next(self.serial), order.group, sample, token))

    def _newest(self) -> int:
        """The version on the board; its weights are kept as long as a group here needs them."""
        if self.board.version() not in self.store.kept:
            version, weights = self.board.read()
            if version not in self.store.kept:
                needed = set[int]().union(*(np.unique(each.version).tolist() for each in self.growing.values()))
                self.store.retire([old for old in self.store.kept if old not in needed])
                self.store.put(version, self.sampler.installed(version, weights))
            return version
        return max(self.store.kept)


def unpacked(rows: Trajectories, reward: torch.Tensor) -> dict[str, Any]:
    """What a learner needs of trajectories, as arrays."""
    columns: dict[str, Any] = {"state": rows.state, "action": rows.action, "mask": rows.mask, "reward": reward}
    columns |= {"inserted": rows.inserted, "broken": rows.broken}
    columns |= {f"output {name}": value for name, value in rows.outputs.items()}
    columns |= {f"token {name}": value for name, value in rows.per_token.items()}
    return {name: value.numpy() for name, value in columns.items() if value is not None}


def joined(groups: list[dict[str, Any]]) -> tuple[Trajectories, torch.Tensor]:
    """Groups side by side, `[1, G, N, ...]`, and their rewards."""

    def join(name: str) -> torch.Tensor | None:
        return torch.from_numpy(np.concatenate([each[name] for each in groups], axis=1)) if name in groups[0] else None

    def named(kind: str) -> dict[str, Any]:
        return {name.removeprefix(kind): join(name) for name in groups[0] if name.startswith(kind)}

    state, action, mask, reward = (join(name) for name in ("state", "action", "mask", "reward"))
    assert state is not None and mask is not None and reward is not None
    rows = Trajectories(state, action, mask, named("output "), per_token=named("token "), inserted=join("inserted"))
    if "broken" in groups[0]:
        rows.broken = torch.from_numpy(np.any([each["broken"] for each in groups], axis=0))
    return rows, reward


def main(pipe: Any, board: Board, sampler: Sampler, moving: bool, zero: float) -> None:
    """The life of the process; Ctrl-C is for the one that started it, and its end is the end of this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with torch.no_grad(), versions.threads(1):
            trial = Actor(board, sampler, False, zero)
            trial.begin(Order(TRIAL, 0, None))
            while trial.due:
                trial.advance(*heapq.heappop(trial.due)[2:])
            pipe.send(READY)
            Actor(board, sampler, moving, zero).serve(pipe)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error} ({traceback.extract_tb(error.__traceback__)[-1].name})")
