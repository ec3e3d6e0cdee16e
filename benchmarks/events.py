"""The event kernel against SimPy and against itself, samples per second; both sides of a pair run the same model.

`events_vs_simpy`, `events_full_vs_simpy`: 64 workers whose samples of lognormal length feed a trainer. Every worker
starts its next sample at once under the weights of that moment; the trainer takes samples in the order of completion
and publishes after each. In the first both sides are given the same durations and keep the start version of every
sample; in the second both draw the durations, ours keyed, and keep a row for every sample.

`slots_vs_simpy`: 512 slots that samples of groups of four wait for, rewards, permits, oldest groups first; both sides
draw and keep a row for every sample. `summary_vs_record`: the same without a record against with it.
`workers_two_vs_one`: realizations by two threads against one. `large_run`: 512 places, batches of 512 groups, summary
only, against a rate of one million samples per second.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator

import numpy as np

from asyncsim.base import laws
from asyncsim.systems._system import System
from benchmarks._record import Benchmark

WORKERS = 64
SAMPLES, REPEATS = 20_000, 10
LENGTH = laws.lognormal(1.0, 0.8)
SYSTEM = System("open loop", {}, LENGTH, (1.0,) * WORKERS, tickets=None, mode="pin", train_time=0.5 / WORKERS)


def kernel_versions(samples: int) -> tuple[np.ndarray, float]:
    """Start version of every trained sample in the order of training, and the seconds that the kernel took."""
    from asyncsim.systems import _build, _kernel
    from asyncsim.systems import _state as k

    state, seconds, why = SYSTEM.start(samples, 1, 0, 0, drawn=True), 0.0, k.GOING
    while why != k.DONE_RUN:
        begin = time.perf_counter()
        why = _kernel.advance(state, k.UNLIMITED, samples)
        seconds += time.perf_counter() - begin
        if why == k.SUPPLY:
            _build.refill(SYSTEM, state, 0)
        elif why != k.DONE_RUN:
            raise RuntimeError("the buffer of the benchmark overflowed")
    return state.sample.v_start[state.taken[:, 0]], seconds


def simpy_versions(samples: int) -> tuple[list[int], float]:
    """The same from a SimPy program: one process for each worker, one for the trainer, a store between them."""
    import simpy

    from asyncsim.systems import _build

    works = _build.works(SYSTEM, np.arange(samples + 10 * WORKERS), 0, 0)
    durations: Iterator[float] = iter(works.tolist())
    train_time = float(SYSTEM.mean_train_time(1))
    env = simpy.Environment()
    store = simpy.Store(env)
    version = 0
    trained: list[int] = []

    def worker():
        while True:
            stamp = version
            yield env.timeout(next(durations))
            store.put(stamp)

    def trainer():
        nonlocal version
        while len(trained) < samples:
            trained.append((yield store.get()))
            yield env.timeout(train_time)
            version += 1

    for _ in range(WORKERS):
        env.process(worker())
    begin = time.perf_counter()
    env.run(env.process(trainer()))
    return trained, time.perf_counter() - begin


def simpy_rows(samples: int) -> tuple[list[tuple[float, ...]], float]:
    """A row (worker, start, end, train start, start version, train version) of every sample, durations drawn here."""
    import simpy

    draw = random.Random(0).lognormvariate
    mean, sigma = LENGTH.parameters
    center = math.log(mean) - sigma**2 / 2
    train_time = float(SYSTEM.mean_train_time(1))
    env = simpy.Environment()
    store = simpy.Store(env)
    version = 0
    rows: list[tuple[float, ...]] = []

    def worker(number):
        while True:
            stamp, start = version, env.now
            yield env.timeout(draw(center, sigma))
            store.put((number, start, env.now, stamp))

    def trainer():
        nonlocal version
        while len(rows) < samples:
            number, start, end, stamp = yield store.get()
            rows.append((number, start, end, env.now, stamp, version))
            yield env.timeout(train_time)
            version += 1

    for number in range(WORKERS):
        env.process(worker(number))
    begin = time.perf_counter()
    env.run(env.process(trainer()))
    return rows, time.perf_counter() - begin


def bare_rate() -> float:
    """Samples a second of the kernel on given durations."""
    return SAMPLES * REPEATS / sum(kernel_versions(SAMPLES)[1] for _ in range(REPEATS))


def full_rate() -> float:
    """Samples per second from the seed to the finished timeline."""
    begin = time.perf_counter()
    for repeat in range(REPEATS):
        SYSTEM.timeline(SAMPLES, seed=repeat)
    return SAMPLES * REPEATS / (time.perf_counter() - begin)


def simpy_rate() -> float:
    """Samples a second of the SimPy program on given durations."""
    return SAMPLES / simpy_versions(SAMPLES)[1]


def simpy_full_rate() -> float:
    """Samples a second of the SimPy program that draws and records."""
    return SAMPLES / simpy_rows(SAMPLES)[1]


SLOTS, GROUP, BATCH = 512, 4, 32
SLOTTED = System(
    "slots",
    {},
    LENGTH,
    (1.0,) * 160,
    groups_per_batch=BATCH,
    slots=SLOTS,
    tickets=160,
    order="oldest_start",
    reward=laws.exponential(0.1),
    train_time=BATCH * GROUP / SLOTS,
)
BATCHES = 200


def slotted_rows(batches: int) -> list[tuple[float, ...]]:
    """A row (sample, submit, start, end, scored, start version) of every sample, from a SimPy program."""
    import simpy

    draw = random.Random(0)
    mean, sigma = LENGTH.parameters
    center = math.log(mean) - sigma**2 / 2
    train_time = float(SLOTTED.mean_train_time(GROUP))
    env = simpy.Environment()
    slots = simpy.Resource(env, SLOTS)
    ready: list[int] = []
    state = {"version": 0, "tickets": 160, "places": 160, "groups": 0}
    arrival = [env.event()]
    rows: list[tuple[float, ...]] = []

    def admit():
        while state["tickets"] > 0 and state["places"] > 0:
            state["tickets"] -= 1
            state["places"] -= 1
            env.process(group(state["groups"]))
            state["groups"] += 1

    def sample(number, over):
        submitted = env.now
        with slots.request() as slot:
            yield slot
            start, version = env.now, state["version"]
            yield env.timeout(draw.lognormvariate(center, sigma))
        end = env.now
        over.succeed()
        yield env.timeout(draw.expovariate(10.0))
        rows.append((number, submitted, start, end, env.now, version))

    def group(number):
        over = [env.event() for _ in range(GROUP)]
        scored = [env.process(sample(number * GROUP + k, event)) for k, event in enumerate(over)]
        yield env.all_of(over)
        state["places"] += 1
        admit()
        yield env.all_of(scored)
        ready.append(number)
        arrival[0].succeed()
        arrival[0] = env.event()

    def trainer():
        for _ in range(batches):
            while len(ready) < BATCH:
                yield arrival[0]
            ready.sort()
            del ready[:BATCH]
            yield env.timeout(train_time)
            state["version"] += 1
            state["tickets"] += BATCH
            admit()

    admit()
    env.run(env.process(trainer()))
    return rows


def slotted_rate() -> float:
    """Samples per second from the seed to the finished timeline."""
    begin = time.perf_counter()
    for repeat in range(REPEATS):
        SLOTTED.timeline(BATCHES, GROUP, seed=repeat)
    return BATCHES * BATCH * GROUP * REPEATS / (time.perf_counter() - begin)


def slotted_simpy_rate() -> float:
    """Samples a second of the SimPy program."""
    begin = time.perf_counter()
    slotted_rows(BATCHES)
    return BATCHES * BATCH * GROUP / (time.perf_counter() - begin)


LONG = 4000
"""Batches of a run whose record does not fit into caches: what is recorded is what a study would record."""


def recorded_rate() -> float:
    """Samples a second of long runs, from the seed to the finished timeline."""
    begin = time.perf_counter()
    for repeat in range(2):
        SLOTTED.timeline(LONG, GROUP, seed=repeat)
    return LONG * BATCH * GROUP * 2 / (time.perf_counter() - begin)


def summary_rate(workers: int = 1) -> float:
    """Samples a second of long runs, from the seed to the summary, over realizations."""
    begin = time.perf_counter()
    SLOTTED.summaries(LONG, 8, GROUP, workers=workers)
    return LONG * BATCH * GROUP * 8 / (time.perf_counter() - begin)


def two_workers_rate() -> float:
    """`summary_rate` by two threads."""
    return summary_rate(2)


def large_rate() -> float:
    """Samples a second of 10,000 updates on batches of 512 groups of one sample, 512 slots."""
    system = SLOTTED.replace(rates=(1.0,) * 2560, groups_per_batch=512, tickets=2560, train_time=1.5)
    begin = time.perf_counter()
    system.summary(10_000)
    return 10_000 * 512 / (time.perf_counter() - begin)


def a_million() -> float:
    """What `large_run` is held against."""
    return 1e6


UNIT = "samples/s"
BENCHMARKS = {
    "events_vs_simpy": Benchmark(
        bare_rate, simpy_rate, UNIT, "an open loop of 64 workers on given durations, event kernel against SimPy", 100.0
    ),
    "events_full_vs_simpy": Benchmark(
        full_rate,
        simpy_full_rate,
        UNIT,
        "the open loop with drawn durations and a row of every sample, against SimPy",
        40.0,
    ),
    "slots_vs_simpy": Benchmark(
        slotted_rate, slotted_simpy_rate, UNIT, "512 slots, groups, rewards, permits, oldest first, against SimPy"
    ),
    "summary_vs_record": Benchmark(
        summary_rate, recorded_rate, UNIT, "512 slots, a summary against a record of every sample"
    ),
    "workers_two_vs_one": Benchmark(
        two_workers_rate, summary_rate, UNIT, "realizations of 512 slots, two threads against one", 1.8
    ),
    "large_run": Benchmark(large_rate, a_million, UNIT, "10,000 batches of 512 groups, against a stated rate", 1.0),
}
