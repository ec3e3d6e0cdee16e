"""Two worker processes against one: claims, settings of an experiment, blocks of runs, arms of a comparison."""

from __future__ import annotations

import functools
import time
from typing import Any

import asyncsim as sim
from asyncsim.app import verifying
from asyncsim.base import workers
from asyncsim.running.running import together
from asyncsim.running.spreading import Site
from benchmarks._record import Benchmark
from experiments import _store

EXPERIMENTS = ("gac_control", "gac_projection", "vcpo_controls", "vcpo_hours")
"""Half a minute of settings, so that starting a process counts as little as where people wait."""


def claims(count: int) -> float:
    """Claims a second, all of them, by so many processes beside this one; both sides pay for their start."""
    names = verifying.every_claim()
    start = time.perf_counter()
    calls = [(name, "quick", False, 0) for name in names]
    _all("asyncsim.app.verifying:verify_one", calls, count)
    return len(names) / (time.perf_counter() - start)


def settings(count: int) -> float:
    """Quick settings of some experiments a second."""
    quick = [(name, each) for name in EXPERIMENTS for each in _store.settings_of(_store.experiment(name), quick=True)]
    start = time.perf_counter()
    _all("experiments._store:rows_of", quick, count)
    return len(quick) / (time.perf_counter() - start)


@functools.cache
def site(count: int) -> Site:
    """So many processes that stay until the end: a run of minutes does not feel their start."""
    return Site(count)


def bandit(count: int) -> float:
    """Replicate-updates a second of a bandit that is one block in one process, some seconds of work."""
    update = sim.chain(sim.updates.sgd(0.1))
    spec = sim.Spec(
        sim.tasks.softmax_bandit(arms=10),
        sim.schedules.fixed(8),
        sim.methods.grpo(),
        update,
        updates=1500,
        replicates=1 << 13,
        every=50,
    )
    return _rate([spec], count)


def arms(count: int) -> float:
    """Replicate-updates a second of two arms of a comparison, token bandits whose blocks are not cut."""
    update = sim.chain(sim.updates.adam(0.01))
    task = sim.tasks.token_bandit(actions=4, horizon=32)
    methods = (sim.methods.grpo(), sim.methods.gspo())
    specs = [sim.Spec(task, sim.schedules.fixed(4), each, update, updates=200, replicates=512) for each in methods]
    return _rate(specs, count)


def _rate(specs: list[sim.Spec], count: int) -> float:
    start = time.perf_counter()
    together([(spec, 0) for spec in specs], site(count))
    return sum(spec.replicates * spec.updates for spec in specs) / (time.perf_counter() - start)


def _all(call: str, arguments: list[tuple[Any, ...]], count: int) -> None:
    with workers.Crew(count) as crew:
        for future in [crew.submit(call, *each) for each in arguments]:
            future.result()


WHAT = "two worker processes against one, each started from nothing"
BENCHMARKS = {
    "claims_two_workers_vs_one": Benchmark(
        lambda: claims(2), lambda: claims(1), "claims/s", f"all claims by {WHAT}", target=1.8, rounds=2
    ),
    "experiments_two_workers_vs_one": Benchmark(
        lambda: settings(2),
        lambda: settings(1),
        "settings/s",
        f"quick settings of four experiments by {WHAT}",
        target=1.8,
        rounds=2,
    ),
    "runs_two_workers_vs_one": Benchmark(
        lambda: bandit(2),
        lambda: bandit(1),
        "replicate-updates/s",
        f"one bandit cut in two by {WHAT}",
        target=1.8,
        rounds=3,
    ),
    "arms_two_workers_vs_one": Benchmark(
        lambda: arms(2), lambda: arms(1), "replicate-updates/s", f"arms of a comparison by {WHAT}", target=1.8, rounds=3
    ),
}
