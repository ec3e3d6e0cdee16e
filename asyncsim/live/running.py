"""`run` trains a spec with asynchronous processes; `predicted` compares the run with the event model."""

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks, laws, rng, stopping, workers
from asyncsim.base.laws import Law
from asyncsim.base.trace import Trace
from asyncsim.base.uncertainty import critical
from asyncsim.conformance.controller import Hooks, Names
from asyncsim.live import actor
from asyncsim.live.admission import Desk, Group, Permits, Writer
from asyncsim.running.blocks import Block, computing
from asyncsim.running.running import Interrupted
from asyncsim.running.running import run as simulated
from asyncsim.running.sources import Cut, Shared, Source, trace_of
from asyncsim.running.spec import Spec
from asyncsim.running.updating import Standing
from asyncsim.schedules.imposed import fixed
from asyncsim.schedules.replay import Replay, replay
from asyncsim.step.batch import Batch
from asyncsim.step.versions import Weights
from asyncsim.systems._summary import ramp
from asyncsim.systems._system import System

FREE = {
    *("name", "knobs", "recommended", "length", "rates", "groups_per_batch", "batches_per_publish"),
    *("train_time", "load", "tickets", "release", "quantum", "order", "mode", "work_by"),
}
"""Settings of a system that a live run follows; the others must have their defaults."""
FOLLOWED = {"order": ("done", "oldest_start"), "mode": ("drain", "pin", *actor.MOVING)}
MOST = 256
"""Actors at most."""
BLOCK = 1024
"""Groups whose waits are drawn at once."""


def rate(seconds: np.ndarray) -> float:
    """Events per second between the first and the last of the given times."""
    return (len(seconds) - 1) / float(seconds[-1] - seconds[0])


@dataclass(frozen=True, eq=False)
class Live:
    """Result of a live run: its log, learning curve, replayable schedule and time stamps.

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
        """Staleness of each trained sample's first token in publishes, float64 `[B, G, N]`."""
        return self.stamps("head")

    @property
    def submitted(self) -> np.ndarray:
        """Publishes from each trained group's admission to its training, float64 `[B, G]`, as in the event model."""
        version = np.arange(len(self.v_submit)) // int(self.spec.system.batches_per_publish)
        return (version[:, None] - self.v_submit).astype(np.float64)

    @property
    def raced(self) -> np.ndarray:
        """Publishes between a group's admission and its first token, `[B, G]`; always 0 in the event model."""
        return self.submitted - self.staleness[..., 0]

    def stamps(self, name: str) -> np.ndarray:
        """Time stamps (t_submit, t_start, t_end, t_ready or t_train) of each trained sample in seconds, `[B, G, N]`."""
        made: np.ndarray = self.schedule.log.samples[name][self.schedule.log.grid]
        return made

    @property
    def training(self) -> np.ndarray:
        """Seconds from each batch's dequeue until the next dequeue may follow, without waits for a drain, `[B]`."""
        return self.t_trained - self.t_train

    def publishes_per_second(self, warm: int = 0) -> float:
        """Publishes per second of the live run, without its first `warm` batches."""
        return rate(self.t_train[warm:]) / int(self.spec.system.batches_per_publish)


def run(
    spec: Spec,
    seed: int = 0,
    log: str | os.PathLike[str] | None = None,
    actors: int = 2,
    second: float | None = 0.01,
    controller: Callable[[], Any] | None = None,
    names: Names | None = None,
) -> Live:
    """Train a spec with real actor processes, clocks and races; a log has the time stamps of every sample.

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
    controller of one's own, with `names` as in `sim.conformance.check_admission` (default: the system's). Returns a
    `Live`. Raises `InputError` for what no live run can have, `RunError` where an actor ends or nothing can start.
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
    moving = spec.system.mode in actor.MOVING
    writer = Writer(log, spec.samples, spec.system.redundant, moving)
    shared = Shared(spec, seed, spec.updates // spec.passes)
    with stopping.deferred() as received, computing(spec):
        # The block that trains; its own source is not used, so any schedule will do.
        shape = (shared.batches, spec.samples, spec.task.horizon, 1, shared.seed)
        any_schedule = fixed(0).schedule(*shape)
        if any_schedule.version.shape[2] != spec.groups:
            any_schedule = fixed(0, groups_per_batch=spec.groups).schedule(*shape)
        block = Block(shared, Cut(np.arange(1), any_schedule, np.zeros(1, dtype=np.int64)))
        begun = block.begin()
        weights = spec.trained_policy.prepare(begun.parameters)
        clock = _Clock(spec.system, seed, second)
        made = Permits(spec.system) if controller is None else controller()
        # What a policy has loaded stays here; every actor loads its own.
        sampler = replace(block.source.sampler, policy=replace(block.source.sampler.policy))
        with actor.started(actors, weights, sampler, clock.zero, moving) as (board, crew, pipes):
            seconds = partial(clock.seconds, samples=spec.samples)
            desk = Desk(spec.system, Hooks(made, names or {}), crew, pipes, seconds, clock.now)
            learner = _Learner(block.source.sampler, desk, board, writer, clock, received)
            block.source = learner
            try:
                part = block.train(begun, learner.trained)
                assert part is not None
                learner.t_trained.append(clock.now())
            finally:
                writer.rest(desk.left())
                writer.close()
                # The thread hears the end of every actor; pipes are closed behind it.
                actor.end(crew, pipes)
                desk.hears.join()
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


@dataclass(frozen=True)
class _Clock:
    """Real time, and the waits that simulate generation and training times."""

    system: System
    seed: int
    second: float | None
    zero: float = field(default_factory=time.monotonic)
    drawn: dict[int, np.ndarray] = field(default_factory=dict)

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.zero

    def seconds(self, group: int, place: int, samples: int) -> tuple[float, ...] | None:
        """Waits of a group's samples in a slot, in seconds."""
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
        """Minimum seconds for training a batch."""
        if self.second is None:
            return 0.0
        time_of = self.system.train_time
        if isinstance(time_of, Law):
            return self.second * float(time_of.sample(rng.Stream(self.seed, "live training"), 0, batch))
        return self.second * self.system.mean_train_time(samples)


class _Learner:
    """Source of batches for the training loop: takes batches from the desk, and publishes new versions."""

    def __init__(
        self, sampler: Any, desk: Desk, board: actor.Board, writer: Writer, clock: _Clock, received: list[int]
    ) -> None:
        self.sampler, self.desk, self.board, self.writer = sampler, desk, board, writer
        self.clock, self.received = clock, received
        self.groups: list[Group] = []
        self.version, self.waited = 0, 0.0
        self.v_submit: list[list[int]] = []
        self.t_train: list[float] = []
        self.t_trained: list[float] = []

    def publish(self, version: int, weights: Weights) -> None:
        """Write a version to the board."""
        self.waited = self.desk.publish(version, lambda: self.board.write(version, weights))

    def take(self, batch: int, train_version: int) -> Batch:
        """Next available batch; the previous one ends when this is requested."""
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
        return self.sampler.batch(rows, reward, size, (version, train_version, ids, None))

    def trained(self, at: Standing) -> bool:
        """After a batch: wait for its training time and log it; return whether to stop."""
        number = at.batch - 1
        time.sleep(max(0.0, self.t_train[-1] + self.clock.training(number, self.sampler.samples) - self.clock.now()))
        self.writer.batch(self.groups, number, self.version, self.t_train[-1])
        return bool(self.received)


CURVE = "batch_return"
"""The metric that is compared as the learning curve."""
LEAST = 1e-9
"""Seconds that any latency takes."""
MACHINE = 0.05
"""How much more total variation a band has on a machine with a process a core, times processes a core on a busier one.

Latencies of a busy machine come in bursts, which the model draws apart. Measured over the runs of the experiment
`live_staleness`: at three processes a core realized variation exceeds its band by up to 0.1 in four runs of ten."""
SLOWER = 0.03
"""How much wider the band of throughput is, of the prediction, for the same reason."""


class Meeting(NamedTuple):
    """One quantity of a live run, measured and predicted, with the prediction band of probability `level`."""

    quantity: str
    measured: float
    predicted: float
    low: float
    high: float
    level: float

    @property
    def inside(self) -> bool:
        """Whether the measured value is inside the prediction band."""
        return self.low <= self.measured <= self.high


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for a live run, by the event model and by a replay of its log.

    `system`: the model with measured latencies; `warm`: batches left out; `pmf` `[S]`: predicted distribution of
    staleness; `meetings`: mean staleness, total variation to `pmf`, throughput in groups per second, and the mean
    return of the second half, each with its band; `curve` `[U, 3]`: predicted return of each update, and its band.
    """

    system: System
    warm: int
    pmf: np.ndarray
    meetings: tuple[Meeting, ...]
    curve: np.ndarray

    def __getitem__(self, quantity: str) -> Meeting:
        """Comparison of one quantity."""
        return next(each for each in self.meetings if each.quantity == quantity)

    @property
    def inside(self) -> bool:
        """Whether every measured quantity is inside its prediction band."""
        return all(each.inside for each in self.meetings)


def model(live: Live, warm: int) -> System:
    """Event model of a live run with the latencies measured after `warm` batches, drawn independently."""
    work = (live.stamps("t_ready") - live.stamps("t_submit"))[warm:, :, 0]
    seconds = {"length": work, "train_time": live.training[warm:]}
    system: System = replace(live.spec.system, rates=(1.0,) * len(live.spec.system.rates))
    drawn = {name: laws.empirical(np.maximum(each.ravel()[-laws.MANY :], LEAST)) for name, each in seconds.items()}
    return system.modeled(drawn)


def predicted(live: Live, replicates: int = 65, realizations: int = 200, level: float = 0.99) -> Predicted:
    """Predict a live run's timing by the event model with measured latencies, and its learning by a replay of its log.

    Staleness counts from the admission: the model starts a group when it is admitted, and `Live.raced` has how many
    publishes a real first token comes later. The band of a quantity lies between the quantiles (1 - level) / 2 and
    (1 + level) / 2 of M realizations of the model, each as long as the run; `MACHINE` and `SLOWER` widen it. That of
    the return is the interval for one more of R - 1 replicates of the replay, by Student's t; replicate 0 is the run.

    Arguments: `live`, what `run` returned; `replicates` R; `realizations` M; `level` in (0, 1). Returns a `Predicted`.
    Raises `InputError`. Assumes latencies independent of each other, so not of what else the machine does.
    Source: this package.

    >>> import asyncsim as sim
    >>> spec = sim.Spec(sim.tasks.token_bandit(), sim.systems.one_step_off(2), sim.methods.reinforce(),
    ...                 sim.chain(sim.updates.sgd(0.1)), samples_per_group=2, updates=8, replicates=1,
    ...                 diagnostics=["batch_return"])
    >>> made = predicted(sim.live.run(spec, actors=1, second=0.001), replicates=5, realizations=20)
    >>> made["staleness"].measured, made["staleness"].predicted, made["staleness"].inside
    (1.0, 1.0, True)
    """
    checks.require(isinstance(live, Live), "live", live, "a Live", "give what sim.live.run returned")
    checks.integer("realizations", realizations, 20, "a band needs realizations of the model")
    checks.integer("replicates", replicates, 3, "an interval needs replicates beside the run's own")
    checks.real("level", level, "give the probability of a band", 0.0, 1.0, open_low=True)
    batches = len(live.t_train)
    warm = min(ramp(live.spec.system, live.spec.samples), batches // 2)
    system = model(live, warm)
    schedule = system.schedule(batches, 1, 1, realizations, live.seed)
    assert schedule.seconds is not None
    drawn = schedule.staleness()[:, warm:, :, :, 0].reshape(realizations, -1)
    mine = live.submitted[warm:].ravel()
    top = int(max(drawn.max(), mine.max())) + 1
    each = np.stack([np.bincount(row.astype(np.int64), minlength=top) / row.size for row in (*drawn, mine)])
    pmf = each[:-1].mean(0)
    apart = 0.5 * np.abs(each - pmf).sum(1)
    groups = system.groups_per_batch
    rates = np.array([rate(row[warm:]) for row in schedule.seconds]) * groups
    crowd = max(1.0, live.load / workers.cores())
    meetings = [
        _meeting("staleness", mine.mean(), drawn.mean(1), level),
        _meeting("total variation", apart[-1], apart[:-1], level, MACHINE * crowd)._replace(low=0.0, predicted=0.0),
        _meeting("throughput", rate(live.t_train[warm:]) * groups, rates, level, SLOWER * rates.mean()),
    ]
    returned, curve = _curve(live, replicates, level)
    return Predicted(system, warm, pmf, (*meetings, returned), curve)


def _meeting(quantity: str, measured: float, realizations: np.ndarray, level: float, more: float = 0.0) -> Meeting:
    low, high = np.quantile(realizations, [(1 - level) / 2, (1 + level) / 2])
    return Meeting(quantity, float(measured), float(realizations.mean()), float(low - more), float(high + more), level)


def _curve(live: Live, replicates: int, level: float) -> tuple[Meeting, np.ndarray]:
    """Return curves of replay replicates; replicate 0 is the run itself and is left out of the band."""
    spec = replace(live.spec, system=live.schedule, replicates=replicates, diagnostics=[CURVE])
    others = simulated(spec, seed=live.seed, progress=False)[CURVE][:, 1:]
    count = others.shape[1]
    # A new draw of a normal: its own spread beside the error of the mean.
    reach = critical(1.0 - level, count - 1) * np.sqrt(1.0 + 1.0 / count)
    mean, spread = others.mean(1), others.std(1, ddof=1)
    half = len(mean) // 2
    late = others[half:].mean(0)
    center, width = float(late.mean()), float(reach * late.std(ddof=1))
    measured = float(live.trace[CURVE][half:, 0].mean())
    band = Meeting("return", measured, center, center - width, center + width, level)
    return band, np.stack([mean, mean - reach * spread, mean + reach * spread], 1)
