"""`run`: a spec trained by processes that really are asynchronous, and what it leaves behind."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.base import checks, rng, stopping
from asyncsim.base.laws import Law
from asyncsim.base.trace import Trace
from asyncsim.conformance.controller import Hooks, Names
from asyncsim.live import actor, by_ray, processes
from asyncsim.live.admission import Desk, Group, Permits
from asyncsim.live.board import Board
from asyncsim.live.log import Writer
from asyncsim.running.blocks import Block, Shared, computing
from asyncsim.running.running import Interrupted
from asyncsim.running.sources import Cut, Source, trace_of
from asyncsim.running.spec import Spec
from asyncsim.running.updating import Standing
from asyncsim.schedules.imposed import fixed
from asyncsim.schedules.replay import Replay, replay
from asyncsim.step.batch import Batch
from asyncsim.step.versions import Weights
from asyncsim.systems._system import System

FREE = {
    *("name", "knobs", "recommended", "length", "rates", "groups_per_batch", "batches_per_publish"),
    *("train_time", "load", "tickets", "release", "quantum", "order", "mode", "work_by"),
}
"""Settings of a system that a live run follows; the others must have their defaults."""
FOLLOWED = {"order": ("done", "oldest_start"), "mode": ("drain", "pin", *actor.MOVING)}
MOST = 256
"""Actors at most."""
BACKENDS = {"processes": processes.started, "ray": by_ray.started}
"""Who starts the actors."""
BLOCK = 1024
"""Groups whose waits are drawn at once."""


def rate(seconds: np.ndarray) -> float:
    """Events a second between the first and the last."""
    return (len(seconds) - 1) / float(seconds[-1] - seconds[0])


@dataclass(frozen=True, eq=False)
class Live:
    """What a live run leaves behind.

    `log`: the file with one row for each sample; `trace`: the learning curve, as `sim.run` gives it; `schedule`: the
    log as an imposed schedule; `v_submit` `[B, G]`: versions at admission; `t_train`, `t_trained` `[B]`: seconds at
    which each batch was dequeued, and was over; `t_install` `[V]`: at which each version was on the board; `load`:
    processes that wanted a core of this machine when the run ended (mean of a minute).
    """

    spec: Spec
    seed: int
    actors: int
    second: float | None
    log: Path
    trace: Trace
    schedule: Replay
    v_submit: np.ndarray
    t_train: np.ndarray
    t_trained: np.ndarray
    t_install: np.ndarray
    load: float

    @cached_property
    def staleness(self) -> np.ndarray:
        """Staleness of the first token of every trained sample in publishes, float64 `[B, G, N]`."""
        made: np.ndarray = self.schedule.log.samples["head"][self.schedule.log.grid]
        return made

    @property
    def submitted(self) -> np.ndarray:
        """Staleness counted from the admission of every trained group, float64 `[B, G]`: that of the event model."""
        version = np.arange(len(self.v_submit)) // int(self.spec.system.batches_per_publish)
        return (version[:, None] - self.v_submit).astype(np.float64)

    @property
    def raced(self) -> np.ndarray:
        """Publishes between the admission of a group and its first token, `[B, G]`: the model has none."""
        return self.submitted - self.staleness[..., 0]

    def stamps(self, name: str) -> np.ndarray:
        """Seconds of a stamp (t_submit, t_start, t_end, t_ready, t_train) of every trained sample, `[B, G, N]`."""
        made: np.ndarray = self.schedule.log.samples[name][self.schedule.log.grid]
        return made

    @property
    def training(self) -> np.ndarray:
        """Seconds from the dequeue of each batch until the next may follow, without waits for a drain, `[B]`."""
        return self.t_trained - self.t_train

    def publishes_per_second(self, warm: int = 0) -> float:
        """Publishes a second, batches before `warm` left out."""
        return rate(self.t_train[warm:]) / int(self.spec.system.batches_per_publish)


def run(
    spec: Spec,
    seed: int = 0,
    log: str | os.PathLike[str] | None = None,
    actors: int = 2,
    second: float | None = 0.01,
    controller: Callable[[], Any] | None = None,
    names: Names | None = None,
    backend: str = "processes",
) -> Live:
    """Train a spec with actors that are processes, real clocks and real races; every sample is stamped in a log.

    Staleness of a sample = version when it was trained - version that it was generated with, both as they happened.

    The spec is that of `sim.run`, of one replicate, and its system says who may start when. Its places are spread over
    the actors (place p is in actor p mod actors), which read the newest weights from shared memory. The learner makes
    the updates of `sim.run`, and publishes. Admission is by the system's own permits, places, quantum and release.

    Generation of toys takes no time, so waiting stands in for it: a response takes `second` times the time that the
    system draws for it, and so does training. These seconds are waited out by real clocks, beside what computing takes.
    With `second` None nothing waits.

    Draws are keyed as in `sim.run`. So a replay of the log with this seed gives the same parameters, to the bit for
    tables: a wrong stamp or torn weights would show. Actors are started by `multiprocessing`, so a script calls this
    behind `if __name__ == "__main__":`. Ctrl-C ends the run behind its batch and raises `Interrupted`.

    Arguments: `spec`; `seed` of draws and waits; `log`, a new .jsonl file (default: in a temporary folder); `actors`,
    processes; `second`, real seconds for one of the system's, or None; `controller`, a function that makes an admission
    controller of one's own, with `names` as in `sim.conformance.check_admission` (default: the system's); `backend`,
    who starts the actors: "processes", or "ray" on this machine. Returns a `Live`. Raises `InputError` for what no live
    run can have, `RunError` where an actor ends or nothing can start.
    Source: this package; IMPALA (1802.01561) for actors and learner.

    >>> import asyncsim as sim
    >>> from dataclasses import replace
    >>> spec = sim.Spec(sim.tasks.token_bandit(), sim.systems.update_on_arrival(2), sim.methods.reinforce(),
    ...                 sim.chain(sim.updates.sgd(0.1)), samples_per_group=2, updates=6, replicates=1)
    >>> made = run(spec, actors=1, second=0.001)
    >>> int(made.staleness[0].max()), bool((made.staleness <= 5).all())
    (0, True)
    >>> again = sim.run(replace(spec, system=made.schedule), progress=False)
    >>> bool((again.parameters == made.trace.parameters).all())
    True
    """
    _check(spec, seed, actors, second)
    started = BACKENDS[checks.one_of("backend", backend, BACKENDS, "choose who starts the actors")]
    writer = _writer(log, spec)
    shared = Shared(spec, seed, spec.updates // spec.passes)
    with stopping.deferred() as received, computing(spec):
        block = _block(shared)
        begun = block.begin()
        # Start the actors.
        weights = spec.trained_policy.prepare(begun.parameters)
        clock = _Clock(spec.system, seed, second)
        made = Permits(spec.system) if controller is None else controller()
        moving = spec.system.mode in actor.MOVING
        # What a policy has loaded stays here; every actor loads its own.
        sampler = replace(block.source.sampler, policy=replace(block.source.sampler.policy))
        with started(actors, weights, sampler, clock.zero, moving) as (board, crew, pipes):
            seconds = partial(clock.seconds, samples=spec.samples_per_group)
            desk = Desk(spec.system, Hooks(made, names or {}), crew, pipes, seconds, clock.now)
            learner = _Learner(block.source.sampler, desk, board, writer, clock, received)
            block.source = learner
            # Train until the end, whatever it is.
            try:
                part = block.train(begun, learner.trained)
                learner.t_trained.append(clock.now())
            finally:
                writer.rest(desk.left())
                writer.close()
                # The thread hears the end of every actor; pipes are closed behind it.
                processes.end(crew, pipes)
                desk.hears.join()
        # Read back what happened.
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
        read = replay(writer.path, unit="publishes", batches_per_publish=spec.system.batches_per_publish)
        source = Source(replace(spec, system=read, updates=part.updates, every=min(spec.every, part.updates)), seed)
        by = stopping.NAMES[received[0]] if received else None
        trace = trace_of(spec, seed, source, [part], by)
    if received:
        raise Interrupted(trace, received[0])
    v_submit, t_train, t_trained = (np.array(made) for made in (learner.v_submit, learner.t_train, learner.t_trained))
    clocks = {"t_train": t_train, "t_trained": t_trained, "t_install": np.array(desk.installs)}
    return Live(spec, seed, actors, second, writer.path, trace, read, v_submit, **clocks, load=load)


def _check(spec: Any, seed: Any, actors: Any, second: Any) -> None:
    """Refuse what a live run cannot have."""
    checks.require(isinstance(spec, Spec), "spec", spec, "a Spec", "write sim.Spec(task, system, method, update)")
    checks.integer("seed", seed, 0, "give a non-negative integer seed", 2**63 - 1)
    checks.integer("actors", actors, 1, "give at least one process", MOST)
    if second is not None:
        checks.real("second", second, "give real seconds for one of the system's, or None", 0.0, 3600.0)
    beside = multiprocessing.parent_process() is None
    remedy = 'put the call behind if __name__ == "__main__":'
    checks.require(beside, "run", "called while an actor imports the script", "called by the first process", remedy)
    task = spec.task
    for name, value, bound, good, remedy in (
        ("replicates", spec.replicates, "1", spec.replicates == 1, "one learner trains one policy"),
        ("sampling", spec.sampling, "monte_carlo", spec.sampling == "monte_carlo", "actors draw samples"),
        ("rewards", spec.rewards, "None", spec.rewards is None, "rewards are earned where samples are drawn"),
        ("device", spec.device, "cpu", spec.device == "cpu", "leave it out"),
        ("task", task, "without segments", not task.segments, "use trajectory='episode'"),
        ("system", spec.system, "an event system", isinstance(spec.system, System), "write sim.systems.NAME(...)"),
    ):
        checks.require(good, name, value, f"{bound} in a live run", remedy)
    usual = {each.name: each.default for each in fields(System)}
    for name, value in usual.items():
        given = getattr(spec.system, name)
        if name in FOLLOWED:
            checks.one_of(f"system.{name}", given, FOLLOWED[name], "choose a system that a live run can follow")
        same = name in FREE or given == value
        checks.require(same, f"system.{name}", given, f"{value} in a live run", "set it so, or simulate the system")


def _writer(path: Any, spec: Spec) -> Writer:
    return Writer(path, spec.samples_per_group, spec.system.redundant, spec.system.mode in actor.MOVING)


def _block(shared: Shared) -> Block:
    """The block that trains; its own source is not used, so any schedule will do."""
    spec = shared.spec
    any_schedule = fixed(0).schedule(shared.batches, spec.samples_per_group, spec.task.horizon, 1, shared.seed)
    if any_schedule.version.shape[2] != spec.groups:
        law = fixed(0, groups_per_batch=spec.groups)
        any_schedule = law.schedule(shared.batches, spec.samples_per_group, spec.task.horizon, 1, shared.seed)
    return Block(shared, Cut(np.arange(1), any_schedule, np.zeros(1, dtype=np.int64)))


@dataclass(frozen=True)
class _Clock:
    """Real time, and the waits that stand in for generation and training."""

    system: System
    seed: int
    second: float | None
    zero: float = field(default_factory=time.monotonic)
    drawn: dict[int, np.ndarray] = field(default_factory=dict)

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.zero

    def seconds(self, group: int, place: int, samples: int) -> tuple[float, ...] | None:
        """Waits of a group's samples in a place."""
        if self.second is None:
            return None
        block, row = divmod(group, BLOCK)
        if block not in self.drawn:
            ids = block * BLOCK * samples + np.arange(BLOCK * samples).reshape(BLOCK, samples)
            ids = ids if self.system.work_by == "sample" else np.repeat(ids[:, :1] // samples, samples, axis=1)
            self.drawn.clear()
            self.drawn[block] = self.second * self.system.length.sample(rng.Stream(self.seed, "live work"), 0, ids)
        return tuple((self.drawn[block][row] / self.system.rates[place]).tolist())

    def training(self, batch: int, samples: int) -> float:
        """Seconds that training a batch takes at least."""
        if self.second is None:
            return 0.0
        time_of = self.system.train_time
        if isinstance(time_of, Law):
            return self.second * float(time_of.sample(rng.Stream(self.seed, "live training"), 0, batch))
        return self.second * self.system.mean_train_time(samples)


class _Learner:
    """A source of batches for the product's loop: what the desk has ready, and where new versions go."""

    def __init__(
        self, sampler: Any, desk: Desk, board: Board, writer: Writer, clock: _Clock, received: list[int]
    ) -> None:
        self.sampler, self.desk, self.board, self.writer = sampler, desk, board, writer
        self.clock, self.received = clock, received
        self.groups: list[Group] = []
        self.version, self.waited = 0, 0.0
        self.v_submit: list[list[int]] = []
        self.t_train: list[float] = []
        self.t_trained: list[float] = []

    def publish(self, version: int, weights: Weights) -> None:
        """Put a version on the board."""
        self.waited = self.desk.publish(version, lambda: self.board.write(version, weights))

    def take(self, batch: int, train_version: int) -> Batch:
        """The next batch that is there; the one before is over once it is asked for."""
        self.t_trained += [self.clock.now() - self.waited] * (batch > 0)
        self.waited = 0.0
        self.groups, at = self.desk.take()
        self.t_train.append(at)
        self.version = train_version
        self.v_submit.append([group.v_submit for group in self.groups])
        made = [group.done for group in self.groups if group.done is not None]
        rows, reward = actor.joined([done.columns for done in made])
        version = np.stack([done.version for done in made])[None]
        version = version[..., :1] if (version == version[..., :1]).all() else version
        size = self.sampler.samples
        first = np.array([group.number for group in self.groups]) * (size + self.sampler.redundant)
        ids = (first[:, None] + np.arange(size))[None]
        return self.sampler.batch(rows, reward, size, version, train_version, ids, None)

    def trained(self, at: Standing) -> bool:
        """Behind a batch: wait out its time and write it down; whether to stop."""
        number = at.batch - 1
        time.sleep(max(0.0, self.t_train[-1] + self.clock.training(number, self.sampler.samples) - self.clock.now()))
        self.writer.batch(self.groups, number, self.version, self.t_train[-1])
        return bool(self.received)
