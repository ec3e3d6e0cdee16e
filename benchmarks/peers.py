"""The open loop of `events` by other event simulators: salabim, ciw, and a loop around a heap, plain and compiled.

64 workers start their next sample at once; one trainer takes samples in the order of completion and publishes after
each. salabim and both heaps are given the durations of the kernel, so that every start version must be equal; ciw draws
its own, so that it stands against our draws and full record, and must agree in law.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from typing import Any

import numba
import numpy as np

from benchmarks import events
from benchmarks._record import Benchmark

TRAIN_TIME = float(events.SYSTEM.mean_train_time(1))


def durations(samples: int) -> np.ndarray:
    """Durations of enough samples, those that the kernel draws."""
    from asyncsim.systems import _build

    return _build.works(events.SYSTEM, np.arange(samples + 10 * events.WORKERS), 0, 0)


def heap_loop(works: np.ndarray, workers: int, train_time: float, versions: np.ndarray) -> None:
    """Fill in the start version of every trained sample, in the order of training."""
    heap = [(works[n], n) for n in range(workers)]
    heapq.heapify(heap)
    stamp = np.zeros(workers, dtype=np.int64)
    waiting = np.empty(len(works), dtype=np.int64)
    fresh, head, tail, version, taken = workers, 0, 0, 0, 0
    free = np.inf  # when the trainer is done; it is idle at first
    while taken < len(versions) or free < np.inf:
        if free <= heap[0][0]:
            now, free = free, np.inf
            version += 1
        else:
            now, worker = heap[0]
            waiting[tail] = stamp[worker]
            tail += 1
            stamp[worker] = version
            heapq.heapreplace(heap, (now + works[fresh], worker))
            fresh += 1
        if free == np.inf and head < tail and taken < len(versions):
            versions[taken] = waiting[head]
            head, taken, free = head + 1, taken + 1, now + train_time


compiled_loop = numba.njit(heap_loop)


def heap_versions(samples: int, loop: Any = heap_loop) -> tuple[np.ndarray, float]:
    """Start versions, and the seconds that the loop took."""
    # A plain loop is faster on Python's own numbers.
    works = durations(samples)
    given: Any = works if loop is compiled_loop else works.tolist()
    versions = np.zeros(samples, dtype=np.int64)
    begin = time.perf_counter()
    loop(given, events.WORKERS, TRAIN_TIME, versions)
    return versions, time.perf_counter() - begin


def salabim_versions(samples: int) -> tuple[list[int], float]:
    """The same from a salabim program: a component for each worker, one for the trainer."""
    import salabim

    salabim.yieldless(False)
    works = iter(durations(samples).tolist())
    env = salabim.Environment(trace=False)
    ready: deque[int] = deque()
    trained: list[int] = []
    state = {"version": 0}

    class Worker(salabim.Component):
        def process(self):
            while True:
                stamp = state["version"]
                yield self.hold(next(works))
                ready.append(stamp)
                if trainer.ispassive():
                    trainer.activate()

    class Trainer(salabim.Component):
        def process(self):
            while len(trained) < samples:
                while not ready:
                    yield self.passivate()
                trained.append(ready.popleft())
                yield self.hold(TRAIN_TIME)
                state["version"] += 1
            env.main().activate()

    trainer = Trainer()
    for _ in range(events.WORKERS):
        Worker()
    begin = time.perf_counter()
    env.run()
    return trained, time.perf_counter() - begin


def ciw_staleness(samples: int) -> tuple[np.ndarray, float]:
    """Staleness of every trained sample from a ciw network, and the seconds of the simulation with its records.

    A worker is a class of customers: its samples end one after the other, so its arrivals are the ends of its samples.
    """
    import ciw

    ciw.seed(0)
    mean, sigma = events.LENGTH.parameters
    names = [f"worker {n}" for n in range(events.WORKERS)]
    network = ciw.create_network(
        arrival_distributions={name: [ciw.dists.Lognormal(np.log(mean) - sigma**2 / 2, sigma)] for name in names},
        service_distributions={name: [ciw.dists.Deterministic(TRAIN_TIME)] for name in names},
        number_of_servers=[1],
    )
    begin = time.perf_counter()
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(samples, method="Finish")
    records = simulation.get_all_records()
    seconds = time.perf_counter() - begin
    records.sort(key=lambda record: record.service_start_date)
    ends = np.array([record.service_end_date for record in records])
    last: dict[str, float] = {}
    staleness = []
    for number, record in enumerate(records):
        start = last.get(record.customer_class, 0.0)
        staleness.append(number - int(np.searchsorted(ends, start, side="right")))
        last[record.customer_class] = record.arrival_date
    return np.array(staleness), seconds


def salabim_rate() -> float:
    """Samples a second of the salabim program."""
    return events.SAMPLES / salabim_versions(events.SAMPLES)[1]


def ciw_rate() -> float:
    """Samples a second of the ciw network."""
    return events.SAMPLES / ciw_staleness(events.SAMPLES)[1]


def heap_rate() -> float:
    """Samples a second of the loop as Python runs it."""
    return events.SAMPLES / heap_versions(events.SAMPLES)[1]


def compiled_rate() -> float:
    """Samples a second of the loop as numba compiles it."""
    seconds = sum(heap_versions(events.SAMPLES, compiled_loop)[1] for _ in range(events.REPEATS))
    return events.SAMPLES * events.REPEATS / seconds


_SAME = "the open loop of 64 workers on given durations, event kernel against"
BENCHMARKS = {
    "events_vs_salabim": Benchmark(
        events.bare_rate, salabim_rate, "samples/s", f"{_SAME} salabim components", needs="salabim"
    ),
    "events_vs_heap": Benchmark(events.bare_rate, heap_rate, "samples/s", f"{_SAME} a loop around `heapq` in Python"),
    "events_vs_compiled_heap": Benchmark(
        events.bare_rate,
        compiled_rate,
        "samples/s",
        f"{_SAME} the same loop compiled by numba, which knows this model only",
    ),
    "events_full_vs_ciw": Benchmark(
        events.full_rate,
        ciw_rate,
        "samples/s",
        "the open loop with drawn durations and a record of every sample, timeline against ciw",
        needs="ciw",
    ),
}
