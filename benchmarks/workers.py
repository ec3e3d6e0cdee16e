"""Two worker processes against one: claims and settings of an experiment, started from nothing each time."""

from __future__ import annotations

import time
from typing import Any

from asyncsim.app import verifying
from asyncsim.base import workers
from benchmarks._record import Benchmark
from experiments import _store

CLAIMS = 24
EXPERIMENT = "vcpo_ess"


def claims(count: int) -> float:
    """Claims a second, by so many processes beside this one; both sides pay for their start."""
    names = verifying.every_claim()[:CLAIMS]
    start = time.perf_counter()
    calls = [(name, "quick", False, 0) for name in names]
    _all("asyncsim.app.verifying:verify_one", calls, count)
    return len(names) / (time.perf_counter() - start)


def settings(count: int) -> float:
    """Quick settings of an experiment a second."""
    quick = _store.settings_of(_store.experiment(EXPERIMENT), quick=True)
    start = time.perf_counter()
    _all("experiments._store:rows_of", [(EXPERIMENT, setting) for setting in quick], count)
    return len(quick) / (time.perf_counter() - start)


def _all(call: str, arguments: list[tuple[Any, ...]], count: int) -> None:
    with workers.Crew(count) as crew:
        for future in [crew.submit(call, *each) for each in arguments]:
            future.result()


WHAT = "two worker processes against one, each started from nothing"
BENCHMARKS = {
    "claims_two_workers_vs_one": Benchmark(
        lambda: claims(2), lambda: claims(1), "claims/s", f"claims by {WHAT}", target=1.8, rounds=2
    ),
    "experiment_two_workers_vs_one": Benchmark(
        lambda: settings(2), lambda: settings(1), "settings/s", f"settings by {WHAT}", target=1.8, rounds=2
    ),
}
