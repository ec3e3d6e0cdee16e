"""The desk between actors and learner: which groups may start, which are ready, and the log of every stamp."""

import json
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.conformance._admission import Law, Rules, Tickets
from asyncsim.conformance.controller import Hooks
from asyncsim.live.actor import READY, Done, Order
from asyncsim.systems._settings import Settings


class Permits(Tickets):
    """Admission controller of a preset: K permits, slots and release rule, with the accounting of `conformance`."""

    def __init__(self, system: Settings, more: int = 0) -> None:
        tickets = checks.LARGEST if system.tickets is None else system.tickets
        places = len(system.rates)
        rules = Rules(system.groups_per_batch, system.batches_per_publish, tickets + more, places, None, False)
        # When the permit of a trained group returns.
        law = Law(consume=1, publish="none") if system.release == "dequeue" else Law()
        super().__init__(law, rules)


@dataclass
class Group:
    """One group of a live run with its time stamps, NaN for those not set yet."""

    number: int
    place: int
    t_submit: float
    v_submit: int
    t_ready: float = np.nan
    done: Done | None = None


@dataclass
class Desk:
    """Groups in generation or ready for training, behind one lock for the learner and the thread that receives."""

    system: Settings
    hooks: Hooks
    actors: Sequence[Any]
    pipes: Sequence[Any]
    seconds: Callable[[int, int], tuple[float, ...] | None]
    now: Callable[[], float]
    version: int = 0
    admitted: int = 0
    open: bool = False
    over: bool = False
    prepared: int = 0
    failure: str = ""
    running: dict[int, Group] = field(default_factory=dict)
    ready: list[Group] = field(default_factory=list)
    places: deque[int] = field(default_factory=deque)
    changed: threading.Condition = field(default_factory=threading.Condition)
    installs: list[float] = field(default_factory=list)
    hears: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.places.extend(range(len(self.system.rates)))
        self.hears = threading.Thread(target=self._hear, daemon=True)
        self.hears.start()

    def take(self) -> tuple[list[Group], float]:
        """Groups of the next batch, ordered by number, and the time of the dequeue in seconds."""
        size = self.system.groups_per_batch
        with self.changed:
            while (waiting := len(self.ready)) < size:
                self._refuse_failure()
                if self.open and not self.running:
                    what = f"{waiting} of {size} groups of a batch are ready, and the controller admits none"
                    see = "see sim.conformance.check_admission"
                    raise checks.RunError(f"{self.system.name}: no group is running, {what}; {see}")
                self.changed.wait(0.1)
            self._refuse_failure()
            if self.system.order == "oldest_start":
                self.ready.sort(key=lambda group: group.number)
            chosen, self.ready = self.ready[:size], self.ready[size:]
            at = self.now()
            self.hooks.tell("consumed", size)
            self._admit()
            return sorted(chosen, key=lambda group: group.number), at

    def publish(self, version: int, write: Callable[[], None]) -> float:
        """Publish a version, after the last group in generation if the system drains, and admit new groups."""
        with self.changed:
            begun, self.open = self.now(), False
            while self.prepared < len(self.pipes) or (self.system.mode == "drain" and self.running):
                self._refuse_failure()
                self.changed.wait(0.1)
            waited = self.now() - begun
            write()
            self.installs.append(self.now())
            if version > 0:
                self.version = version
                self.hooks.tell("published", version)
            self.open = True
            self._admit()
            return waited

    def left(self) -> list[Group]:
        """Stop admission, and return the untrained groups ordered by number."""
        with self.changed:
            self.open, self.over = False, True
            return sorted([*self.ready, *self.running.values()], key=lambda group: group.number)

    def _admit(self) -> None:
        """Start quanta of groups while the controller and free slots allow it; all are stamped before any is sent, so
        that no permit is idle while an actor starts."""
        quantum, started = self.system.quantum, list[Group]()
        while self.open and len(self.places) >= quantum and self.hooks.capacity(self.version) >= quantum:
            for _ in range(quantum):
                group = Group(self.admitted, self.places.popleft(), self.now(), self.version)
                self.admitted, self.running[group.number] = self.admitted + 1, group
                started.append(group)
            self.hooks.tell("submitted", quantum)
        for group in started:
            order = Order(group.number, group.place, self.seconds(group.number, group.place))
            with suppress(OSError):  # an actor that is gone is named by the thread that hears it
                self.pipes[group.place % len(self.pipes)].send(order)

    def _hear(self) -> None:
        """Thread that receives from actors until the run is over or an actor has died."""
        known = dict(zip(self.pipes, self.actors, strict=True))
        while not self.failure:
            messages = [(pipe, _received(pipe)) for pipe in connection.wait(list(known))]
            with self.changed:
                if self.over:
                    return
                for pipe, message in messages:
                    self._take_in(known[pipe], message)
                self.changed.notify_all()

    def _take_in(self, process: Any, message: Any) -> None:
        """Process one message of an actor; an error is raised later, where the learner waits."""
        if isinstance(message, Done):
            try:
                group = self.running.pop(message.group)
                group.done, group.t_ready = message, self.now()
                self.ready.append(group)
                self.places.append(group.place)
                self.hooks.tell("accepted", 1)
                self._admit()
            except Exception as error:
                self.failure = f"the controller failed when a group had finished: {type(error).__name__}: {error}"
        elif message == READY:
            self.prepared += 1
        else:
            self.failure = f"{process.name} (process {process.pid}) failed: {message}"
            if message is None:
                process.join(2.0)
                code = process.exitcode
                # The wait may have been too short.
                reason = "" if code is None else f" by signal {-code}" if code < 0 else f" with status {code}"
                ended = f"{process.name} (process {process.pid}) ended{reason}"
                self.failure = f"{ended}; the log has all batches trained before"

    def _refuse_failure(self) -> None:
        if self.failure:
            raise checks.RunError(self.failure)


def _received(pipe: Any) -> Any:
    """Message from an actor; None if it has died."""
    try:
        return pipe.recv()
    except (EOFError, ConnectionResetError):
        return None


class Writer:
    """Writes the log of a live run: a batch's rows are written before its new weights generate anything.

    `tokens` are those of the response, or, where weights move under it (`moving`), all that it had time for: there a
    replay finds the version of each at its place.
    """

    def __init__(self, path: str | os.PathLike[str] | None, samples: int, redundant: int, moving: bool) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="asyncsim-live-"), "log.jsonl") if path is None else Path(path)
        remedy = "the log is written as lines of JSON"
        checks.require(self.path.suffix == ".jsonl", "log", str(path), "a name that ends in .jsonl", remedy)
        self.samples, self.redundant, self.moving = samples, redundant, moving
        try:
            self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            remedy = "no log is overwritten; give another name"
            raise checks.InputError("log", str(path), f"a new file in a folder ({error.strerror})", remedy) from None

    def batch(self, groups: Iterable[Group], number: int, version: int, t_train: float) -> None:
        """Append the rows of a trained batch to the log."""
        trained = {"batch": number, "train_version": version, "t_train": t_train, "fate": "trained"}
        self._append(row for group in groups for row in self._rows(group, trained))

    def rest(self, groups: Iterable[Group]) -> None:
        """Append to the log the rows of groups that were still untrained when the run ended."""
        self._append(row for group in groups for row in self._rows(group, {"fate": "unfinished"}))

    def close(self) -> None:
        """Close the log file."""
        os.close(self.file)

    def _append(self, rows: Iterable[dict[str, Any]]) -> None:
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        while data:
            data = data[os.write(self.file, data) :]

    def _rows(self, group: Group, end: dict[str, Any]) -> Iterable[dict[str, Any]]:
        done = group.done
        for n in range(self.samples):
            row: dict[str, Any] = {
                "sample_id": group.number * (self.samples + self.redundant) + n,
                "group_id": group.number,
                "submit_version": group.v_submit,
                "t_submit": group.t_submit,
                "server": group.place,
            }
            # The actor of a group in generation has not said yet when it started.
            if done is not None:
                length = int(done.columns["mask"][0, 0, n].sum())
                tokens = len(done.version[n]) if self.moving else max(length, 1)
                version = done.version[n, :tokens]
                at = np.flatnonzero(np.append(True, version[1:] != version[:-1]))
                row |= {
                    "start_version": int(version[0]),
                    "end_version": int(version[-1]),
                    "tokens": tokens,
                    "t_start": done.t_start,
                    "t_end": float(done.t_end[n]),
                    "t_ready": group.t_ready,
                    "reward": float(done.columns["reward"][0, 0, n]),
                }
                if len(at) > 1:
                    row["versions"] = [[int(t), int(version[t])] for t in at]
            yield {**row, **end}
