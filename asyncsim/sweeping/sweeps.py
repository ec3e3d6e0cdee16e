"""`sweep`: one question at every setting of a grid, with units run in this process, in worker processes, or by Ray."""

import itertools
import json
import math
import os
import re
import socket
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from asyncsim.base import calls, checks, files, stopping, workers
from asyncsim.base.answers import Sweep
from asyncsim.base.notation import TRAINED
from asyncsim.base.progress import Progress
from asyncsim.base.store import Store, opened
from asyncsim.base.workers import Died, cores
from asyncsim.running.running import FRESH
from asyncsim.running.spec import Spec
from asyncsim.sweeping import grids, plans, units
from asyncsim.sweeping.plans import Question
from asyncsim.sweeping.units import Unit

ATTEMPTS = 3
"""Maximum number of attempts for a unit that fails for reasons outside its content."""
REALIZATIONS = 16
"""Default number of realizations of a system at each setting."""
PILOTS = 2
"""Number of units that are run in this process before workers are started."""
WORTH = 8.0
"""Seconds of work above which worker processes are started, since their start takes some seconds."""
WARNED = 1
"""Number of different warnings that are repeated; for the others only the count is printed."""
LONG = 30.0
"""Seconds of work above which the time of the first units is printed."""
REMEDY = "write sim.Spec(...) or sim.systems.NAME(...)"
SECONDS = 5.0
"""Maximum seconds for an address to answer."""
REACHED = "check the address, or leave it out for a cluster on this machine"


@calls.named
def sweep(
    subject: Any,
    grid: Mapping[str, Any],
    *,
    metric: str | Sequence[str] = TRAINED,
    over: str = "mean",
    target: float | None = None,
    better: str | None = None,
    replicates: int | None = None,
    updates: int = 200,
    samples: int = 1,
    seed: int = 0,
    store: str | None = None,
    workers: int | None = None,
    backend: str = "processes",
    address: str | None = None,
    claim: str | None = None,
    at: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    other_code: bool = False,
) -> Sweep:
    """Run a spec, or simulate a system, at every setting of a grid, and store the results of every replicate.

    Numeric knobs of methods and links are vectorized over replicates; other settings make separate structures. A unit
    of work is one structure with up to 16 settings of its knobs and 64 replicates. A unit is named by its content
    (settings, seed, code of asyncsim and the user): units in the store are not run again. So a killed sweep continues
    when it is started again, and a larger one adds to existing results. Units of other code stay in the store and are
    run again, unless `other_code` accepts them. Damaged units are run again.

    Arguments:
        subject: a `Spec`, or a system that is only simulated. grid: values by name; see `sweeping.grids.grid_of`.
        metric: names in the trace, each a column; for a system they are fixed (staleness, seconds_per_update, ...).
        over, target, better: how a curve becomes a number, as in `compare`. replicates: per setting (default: the
        spec's, for a system 16 realizations). updates, samples: for a system; a spec has its own. seed: of all random
        draws; structures share draws, vectorized settings of one unit have separate draws. store: a folder or an
        address such as s3://bucket/folder (default: nothing is kept). workers: worker processes (default: one per core;
        1: in this process). backend: "processes" or "ray". address: of a Ray cluster (default: one is started here).
        claim: a claim that predicts a value of the only vectorized knob, drawn as a line in the figure. at: parameters
        of the claim that the grid lacks. progress: as in `run`. other_code: accept units that other code made.

    Returns a `Sweep`: print it, `.table()`, `.rows()`, `sim.plot(result)`.
    Raises `InputError` for a name or value that does not fit, before any run, and for an unreachable store. A unit that
    fails is tried up to three times, and then listed in `.failed` with its reason. Assumes independent replicates; with
    random schedules each replicate has its own realization. Source: this package.

    >>> import asyncsim as sim
    >>> spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.reinforce(),
    ...                 sim.chain(sim.updates.sgd(0.1)), updates=20)
    >>> found = sweep(spec, {"staleness": [0, 8], "lr": [0.2, 0.4]}, replicates=8, workers=1)
    >>> found.table()[["staleness", "lr", "replicates"]].values.tolist()
    [[0.0, 0.2, 8.0], [0.0, 0.4, 8.0], [8.0, 0.2, 8.0], [8.0, 0.4, 8.0]]
    """
    simulated = not isinstance(subject, Spec)
    checks.require(not simulated or hasattr(subject, "summary"), "subject", subject, "a Spec or a system", REMEDY)
    several = isinstance(metric, (str, list, tuple))
    checks.require(several, "metric", metric, "a name, or a list of names", checks.advice("own", "metric"))
    listed = (metric,) if isinstance(metric, str) else tuple(metric)
    reading = None if simulated else plans.reading_of(listed, over, target, better)
    count = replicates if replicates is not None else REALIZATIONS if simulated else subject.replicates
    question = Question(grids.grid_of(subject, grid, samples), reading, count, seed, updates, samples)
    lines = plans.lines(question.grid, claim, at or {}) if claim else ()
    return replace(answer(question, Work(store, workers, backend, address, progress, other_code)), lines=lines)


@calls.named
def stored(store: str | os.PathLike[str], sweep: str | None = None) -> Sweep:
    """Results of an earlier sweep, made by `asyncsim sweep` or in Python, read from its store.

    Arguments: `store`, the folder or address; `sweep`, the first characters of its id (default: the only one). Units
    that are not there yet count as lost. Returns a `Sweep`. Raises `InputError` unless there is one such sweep.
    """
    place = opened(os.fspath(store), make=False)
    return plans.answered(place, plans.chosen(place, sweep), 0, 0.0)


@dataclass(frozen=True)
class Work:
    """Where a sweep's units are run and stored; the fields are arguments of `sweep`."""

    store: str | None = None
    workers: int | None = None
    backend: str = "processes"
    address: str | None = None
    progress: bool | None = None
    other_code: bool = False


def answer(question: Question, work: Work) -> Sweep:
    """Run the units of a sweep that are missing in the store, then read the answer, with notes on its settings."""
    start = time.monotonic()
    check(work.backend, work.workers, work.address)
    if work.store is not None:
        files.named("store", work.store)
    folder = files.Temporary() if work.store is None else None
    where = folder.path if folder is not None else str(work.store)
    # Every setting is refused here or not at all.
    plan = plans.planned(question)
    store = opened(where)
    with store.held():
        there = set(store.names("units"))
        others = plans.of_other_code(store, plan, there)
        if others:
            count = f"{len(others)} of {len(plan.keys)} units were made by other code"
            anew = "and are made anew; --other-code (other_code=True) counts them"
            ends = "and count here" if work.other_code else anew
            print(f"asyncsim: {count}; they stay in {store.where} {ends}", file=sys.stderr, flush=True)
            if work.other_code:
                plan = plan.by([others.get(key, key) for key in plan.keys])
        plans.register(store, plan)
        try:
            made = _do(question, work, store, {key for key in plan.keys if units.name_of(key) not in there})
            try:
                return plans.noted(question, plans.answered(store, plan, made, time.monotonic() - start, folder))
            except checks.InputError:
                damaged = set[str]()
                for key in plan.keys:
                    try:
                        with suppress(FileNotFoundError):
                            units.read(store.read(units.name_of(key)), key)
                    except checks.InputError:
                        damaged.add(key)
                if not damaged:
                    raise
            aside = store.set_aside(units.name_of(key) for key in damaged)
            print(f"asyncsim: {len(damaged)} damaged units were moved to {where}/{aside}", file=sys.stderr, flush=True)
            made += _do(question, work, store, damaged)
            return plans.noted(question, plans.answered(store, plan, made, time.monotonic() - start, folder))
        except KeyboardInterrupt as error:
            if folder is not None:
                raise
            there = set(store.names("units"))
            done = sum(units.name_of(key) in there for key in plan.keys)
            text = f": {done} of {len(plan.keys)} units are kept in {where}; the same command does the others"
            raise stopping.Kept(stopping.number_of(error), text) from None


def _do(question: Question, work: Work, store: Store, missing: set[str]) -> int:
    """Run the missing units and record failures; return the number of units made."""
    left = (unit for unit in question.units() if unit.key in missing)
    made, warned = 0, dict[str, None]()
    with Progress("units", len(missing), work.progress) as shown:
        for unit, ended in _outcomes(left, len(missing), work, store):
            if "failed" in ended:
                told = {name: unit.content[name] for name in ("setting", "riders", "block")}
                entry = {**told, "reason": ended["failed"], "attempts": unit.tried}
                store.write(units.failure_of(unit.key), (json.dumps(entry, indent=1) + "\n").encode())
            else:
                made += 1
            warned |= dict.fromkeys(ended.get("warned", ()))
            shown.add()
    varied = any(re.match("staleness|system|schedule", name) for name in question.grid.names)
    warned = {text: None for text in warned if not (varied and FRESH in text)}
    for text in list(warned)[:WARNED]:
        more = f" ({len(warned) - 1} more such warnings)" if len(warned) > WARNED else ""
        warnings.warn(text + more, checks.ShortRunWarning, stacklevel=4)
    return made


def _outcomes(left: Iterator[Unit], count: int, work: Work, store: Store) -> Iterator[tuple[Unit, dict[str, Any]]]:
    """Units as they end. The first ones run in this process, to find out whether workers are worth their start."""
    if work.workers is None and work.backend == "processes":
        quickest = math.inf
        for unit in itertools.islice(left, min(count, PILOTS)):
            for done, ended in carry_out(iter([unit]), workers.Here(), store.where):
                quickest = min(quickest, ended.get("seconds") or math.inf)
                count -= 1
                yield done, ended
        few = quickest * count < WORTH or cores() == 1
        if quickest * count > LONG:
            places = 1 if few else cores()
            line = f"{count} units left; one took {quickest:.1f} s: about {quickest * count / places / 60:.0f} min"
            print(f"asyncsim: {line} on {places} workers", file=sys.stderr, flush=True)
        pool = workers.Here() if few else pool_of("processes", None)
    else:
        pool = pool_of(work.backend, work.workers, work.address)
    try:
        yield from carry_out(left, pool, store.where)
    finally:
        pool.close()


def carry_out(left: Iterator[Unit], pool: "Pool", where: str) -> Iterator[tuple[Unit, dict[str, Any]]]:
    """Run units of a sweep, and yield each with its outcome (as from `units.perform`), in order of completion."""
    again: deque[Unit] = deque()
    flying: dict[Future[dict[str, Any]], Unit] = {}
    while True:
        while len(flying) < pool.places:
            unit = again.popleft() if again else next(left, None)
            if unit is None:
                break
            flying[pool.submit("asyncsim.sweeping.units:perform", where, dict(unit.content))] = unit
        if not flying:
            return
        for future in wait(flying, return_when=FIRST_COMPLETED).done:
            unit = flying.pop(future)
            unit = replace(unit, tried=unit.tried + 1)
            try:
                ended = future.result()
            except Died as died:
                ended = {"failed": str(died), "final": False}
            if "stop" in ended:
                remedy = "fix that and start the sweep again: finished units count"
                raise checks.InputError("store", where, ended["stop"], remedy)
            if "failed" in ended and not ended["final"] and unit.tried < ATTEMPTS:
                again.append(unit)
                continue
            yield unit, ended


def check(backend: str, count: int | None, address: str | None) -> None:
    """Check options of a sweep that have to agree."""
    checks.one_of("backend", backend, ("processes", "ray"), "choose where units are done")
    remedy = "leave it out, or use backend='ray'"
    checks.require(address is None or backend == "ray", "address", address, "left out", remedy)
    if count is not None:
        checks.integer("workers", count, 1, "give at least one worker", workers.MOST)
    if address is not None and address != "auto":
        # Ray itself tries for minutes where nobody listens.
        host, _, port = address.removeprefix("ray://").rpartition(":")
        checks.require(bool(host) and port.isdigit(), "address", address, "host:port, ray://host:port or auto", REACHED)
        try:
            socket.create_connection((host, int(port)), SECONDS).close()
        except OSError as error:
            bound = f"one where a Ray cluster answers ({error.strerror or error})"
            raise checks.InputError("address", address, bound, REACHED) from None


def pool_of(backend: str, count: int | None, address: str | None = None) -> "Pool":
    """Pool of a backend with `count` workers (None: one per core), after `check` accepted the arguments."""
    if backend == "ray":
        return ByRay(count, address)
    count = count or workers.cores()
    return workers.Here() if count == 1 else workers.Crew(count)


class ByRay:
    """Pool that runs units as tasks of a Ray cluster, or of a local cluster started for the sweep."""

    def __init__(self, asked: int | None, address: str | None) -> None:
        try:
            import ray as installed
        except ImportError:
            remedy = checks.extra("cluster", "ray")
            raise checks.InputError("backend", "ray", "used where ray is installed", remedy) from None
        self._ray = ray = cast(Any, installed)
        self._mine = not ray.is_initialized()
        if self._mine:
            here = {} if address else {"num_cpus": asked or workers.cores(), "include_dashboard": False}
            try:
                ray.init(address=address, log_to_driver=False, logging_level="ERROR", **here)
            except Exception as error:  # Ray raises what its parts raise
                reason = " ".join(str(error).split())[:160]
                raise checks.InputError("address", address, f"that of a Ray cluster ({reason})", REACHED) from None
        self._do = ray.remote(max_retries=0)(workers.called)
        cpus = int(ray.cluster_resources().get("CPU", 1))
        self.places = 2 * (min(asked, cpus) if asked else cpus)

    def submit(self, call: str, *arguments: Any) -> Future[Any]:
        """Submit a function call to the Ray cluster; see `pool_of`."""
        inner, outer = self._do.remote(call, *arguments).future(), Future[Any]()

        def hand_on(done: Future[Any]) -> None:
            error = done.exception()
            lost = (self._ray.exceptions.WorkerCrashedError, self._ray.exceptions.NodeDiedError)
            if error is None:
                outer.set_result(done.result())
            elif isinstance(error, lost) or "OutOfMemory" in type(error).__name__:
                outer.set_exception(workers.Died("its Ray worker ended (killed, or out of memory)"))
            else:
                outer.set_exception(error)

        inner.add_done_callback(hand_on)
        return outer

    def close(self) -> None:
        """Stop the Ray cluster if the sweep started it; see `pool_of`."""
        if self._mine:
            self._ray.shutdown()


Pool = workers.Here | workers.Crew | ByRay
