"""What a sweep adds to the work of its units, and what a large one would take.

`python -m benchmarks.sweeps [--units N] [--workers W] [--seconds S]` measures the costs of one unit in the process that
plans, in a store on this disk, and in the answer; then it plans N units of S seconds on W workers from them.
"""

from __future__ import annotations

import argparse
import functools
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from unittest import mock

import numpy as np

import asyncsim as sim
from asyncsim.base.store import Store, opened, unit_file
from asyncsim.comparing.deciding import seed_of
from asyncsim.sweeping import grids, plans, sweeps, units
from benchmarks._record import Benchmark

STALENESS = (0, 1, 2, 4)
REPLICATES, UPDATES = 64, 200
MEASURED = 10_000
"""Units of the plan that costs are measured on."""
OBJECT = 0.03
"""Seconds that writing or reading an object of a bucket takes where nothing was measured."""
AT_ONCE = 32
"""Objects that are read at one time."""


def spec(**changes: Any) -> sim.Spec:
    """The reference bandit."""
    parts = (sim.tasks.softmax_bandit(), sim.schedules.fixed(4), sim.methods.reinforce())
    whole = sim.Spec(*parts, sim.chain(sim.updates.sgd(0.5)), updates=UPDATES, diagnostics=["batch_return"])
    return whole.replace(**changes)


def swept() -> float:
    """Units a second of a sweep in this process, stored on this disk."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        sim.sweep(spec(), {"staleness": STALENESS}, replicates=4 * REPLICATES, store=folder, workers=1, progress=False)
    return 4 * len(STALENESS) / (time.perf_counter() - start)


def plain() -> float:
    """Units a second of the same runs without a sweep."""
    start = time.perf_counter()
    for staleness in STALENESS:
        for block in range(4):
            own = spec(system=sim.schedules.fixed(staleness), replicates=REPLICATES)
            sim.run(own, seed_of(0, units.STAGE, block), progress=False)["batch_return"].mean(0)
    return 4 * len(STALENESS) / (time.perf_counter() - start)


BENCHMARKS = {
    "sweep_vs_plain_runs": Benchmark(swept, plain, "units/s", "units of a sweep, stored, against the same runs alone")
}


class Nothing:
    """A pool that does no unit, so that what remains is the work of the process that plans."""

    places = 64

    def submit(self, where: str, content: Any) -> Future[dict[str, Any]]:
        """See `asyncsim.sweeping.sweeps.Pool`."""
        future: Future[dict[str, Any]] = Future()
        future.set_result({"seconds": 0.0})
        return future

    def close(self) -> None:
        """Nothing to end."""


def question(count: int) -> plans.Question:
    """A sweep of so many units, one block each."""
    values = np.linspace(0.01, 1.0, count // 10).tolist()
    grid = grids.grid_of(spec(), {"task.deviation": values, "staleness": list(range(10))})
    return plans.Question(grid, plans.reading_of(["batch_return"], "mean", None, "higher"), REPLICATES, 0)


def costs(count: int = MEASURED) -> dict[str, float]:
    """Seconds of one unit in planning, handing out, storing and reading; bytes of its file; bytes of memory."""
    asked = question(count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    planning, plan = timed(lambda: plans.planned(asked))
    with tempfile.TemporaryDirectory() as folder:
        store = opened(folder)
        plans.register(store, plan)
        missing = set(plan.keys)
        pool: Any = Nothing()
        left = (unit for unit in asked.units() if unit.key in missing)
        handing, _ = timed(lambda: sum(1 for _ in sweeps.carry_out(left, pool, folder)))
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        size, storing = stored(store, asked)
        reading, _ = timed(lambda: plans.answered(store, plan, 0, 0.0))
    per = {"planning": planning, "handing out": handing, "storing": storing, "reading": reading}
    return {name: seconds / count for name, seconds in per.items()} | {"file": size, "memory": memory / count}


def stored(store: Store, asked: plans.Question) -> tuple[float, float]:
    """Bytes of a unit's file, and seconds of writing all of them with the same rows."""
    every = asked.units()
    first = next(every)
    rows = units.measured(first.content)
    size = len(unit_file(rows, first.content, seconds=1.0))
    spent = 0.0
    with mock.patch.object(units, "measured", lambda content: rows):
        for unit in asked.units():
            seconds, _ = timed(functools.partial(units.perform, store.where, unit.content))
            spent += seconds
    return float(size), spent


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of some work, and what it gives."""
    start = time.perf_counter()
    given = work()
    return time.perf_counter() - start, given


def planned(count: int, workers: int, seconds: float, cost: dict[str, float]) -> list[tuple[str, str]]:
    """What so many units of so many seconds take on so many workers."""
    here = (cost["planning"] * 2 + cost["handing out"]) * count
    there = count * (seconds + cost["storing"] + OBJECT) / workers
    return [
        ("units", f"{count:,}"),
        ("work of the units", f"{count * seconds / 3600:,.0f} h of one core"),
        ("planning and handing out, one process", f"{here / 60:.0f} min"),
        ("units on the workers, with one object of a bucket each", f"{there / 3600:.2f} h"),
        ("bound", "the workers" if there > here else "the process that plans: raise the seconds of a unit"),
        ("objects and bytes in the store", f"{count:,} files, {count * cost['file'] / 1e9:.1f} GB"),
        ("memory of the process that plans", f"{0.4 + count * cost['memory'] / 1e9:.1f} GB"),
        ("reading the answer, from this disk", f"{count * cost['reading'] / 60:.0f} min"),
        (f"reading the answer, from a bucket, {AT_ONCE} at a time", f"{count * OBJECT / AT_ONCE / 60:.0f} min"),
    ]


def main() -> None:
    """Print costs and plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    costs(MEASURED // 10)  # so that memory for imports counts for no unit
    cost = costs()
    for name in ("planning", "handing out", "storing", "reading"):
        print(f"{name:12} {1000 * cost[name]:8.2f} ms a unit")
    print(f"file         {cost['file'] / 1000:8.1f} kB a unit\nmemory       {cost['memory'] / 1000:8.2f} kB a unit\n")
    for name, value in planned(options.units, options.workers, options.seconds, cost):
        print(f"{name:56} {value}")


if __name__ == "__main__":
    main()
