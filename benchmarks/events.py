"""The event kernel against SimPy: 64 workers whose samples of lognormal length feed a trainer, samples a second.

Every worker starts its next sample at once under the weights of that moment; the trainer takes samples in the order of
completion and publishes after each. Both sides run the same model. In `events_vs_simpy` both are given the same
durations and keep the start version of every sample; in `events_full_vs_simpy` both draw the durations, ours keyed, and
keep a row for every sample.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator

import numpy as np

from asyncsim import laws
from asyncsim.systems._system import System

WORKERS = 64
SAMPLES, REPEATS = 20_000, 10
LENGTH = laws.lognormal(1.0, 0.8)
SYSTEM = System("open loop", {}, LENGTH, (1.0,) * WORKERS, tickets=None, mode="pin", train_time=0.5 / WORKERS)


def kernel_versions(samples: int) -> tuple[np.ndarray, float]:
    """Start version of every trained sample in the order of training, and the seconds that the kernel took."""
    from asyncsim.systems import _kernel as kernel

    state = SYSTEM.start(samples, 1, 0, 0, drawn=True)
    begin = time.perf_counter()
    why = kernel.advance(state, kernel.LATE, samples)
    seconds = time.perf_counter() - begin
    if why != kernel.DONE:
        raise RuntimeError("the buffer of the benchmark overflowed")
    batch = state.group[: state.tally[kernel.ADMITTED], kernel.BATCH]
    trained = np.flatnonzero(batch >= 0)
    return state.stamp[trained[np.argsort(batch[trained])], kernel.VERSION_START], seconds


def simpy_versions(samples: int) -> tuple[list[int], float]:
    """The same from a SimPy program: one process for each worker, one for the trainer, a store between them."""
    import simpy

    durations: Iterator[float] = iter(SYSTEM.works(np.arange(samples + 10 * WORKERS), 0, 0).tolist())
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
    """Samples a second from the seed to the finished timeline."""
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


BENCHMARKS = {
    "events_vs_simpy": (bare_rate, simpy_rate, "samples/s"),
    "events_full_vs_simpy": (full_rate, simpy_full_rate, "samples/s"),
}
