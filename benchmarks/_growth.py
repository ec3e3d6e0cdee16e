"""How cost and memory grow: one size at a time, the others as in the bandit of `bandit`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import bandit, events

REPLICATES = (1, 16, 256, 1024, 4096)
SAMPLES = (4, 16, 64, 256)
TOKENS = (1, 4, 16, 64)
STALENESS = (1, 8, 64, 256)
BATCHES = (10, 100, 1000, 10_000)
UPDATES = 40
TRIES = 3
RUNS = tuple(("run", replicates, updates) for replicates in (64, 1024, 16_384) for updates in (50, 500))
TIMELINES = tuple((kind, 0, batches) for kind in ("summary", "timeline") for batches in (100, 10_000))


PEAK = """
import pathlib, sys
from benchmarks import bandit, events
import asyncsim as sim
kind, size, updates = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if kind == "run":
    sim.run(bandit.spec(updates, ["batch_return"], replicates=size), seed=0, progress=False)
elif updates:
    getattr(events.SLOTTED, kind)(updates, events.GROUP)
print(pathlib.Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""
"""A program that does one thing and prints the most kilobytes that it held.

`getrusage` would count what the process that started it holds.
"""


def run_seconds(before: int = 0, **changes: Any) -> float:
    """Seconds of an update: a longer run less a shorter one, the least of several; `before`, updates of both."""
    import asyncsim as sim

    lengths, found = (before + UPDATES, before + 3 * UPDATES), []
    for _ in range(TRIES):
        seconds = []
        for updates in lengths:
            start = time.perf_counter()
            sim.run(bandit.spec(updates, **{"compiled": True, **changes}), seed=0, progress=False)
            seconds.append(time.perf_counter() - start)
        found.append(seconds)
    short, long = (min(column) for column in zip(*found, strict=True))
    return (long - short) / (2 * UPDATES)


def chained(tokens: int) -> float:
    """Seconds of an update on sequences of so many binary choices, 256 replicates."""
    import asyncsim as sim

    return run_seconds(task=sim.tasks.bit_chain(horizon=tokens, fraction=0.5), replicates=256)


def stale(staleness: int) -> float:
    """Seconds of an update that is so many versions late, once all of them are kept."""
    import asyncsim as sim

    return run_seconds(before=staleness, system=sim.schedules.fixed(staleness))


def simulated(kind: str, batches: int) -> float:
    """Seconds of a simulation of 512 slots from the seed to its summary or timeline."""
    found = []
    for _ in range(TRIES):
        start = time.perf_counter()
        getattr(events.SLOTTED, kind)(batches, events.GROUP)
        found.append(time.perf_counter() - start)
    return min(found)


def curves() -> dict[str, list[tuple[int, float]]]:
    """(size, seconds): of an update over each size of a run, of a simulation over its samples."""
    each = events.BATCH * events.GROUP
    return {
        "replicates": [(r, run_seconds(replicates=r)) for r in REPLICATES],
        "samples": [(n, run_seconds(samples_per_group=n)) for n in SAMPLES],
        "tokens": [(t, chained(t)) for t in TOKENS],
        "staleness": [(d, stale(d)) for d in STALENESS],
        "summary": [(b * each, simulated("summary", b)) for b in BATCHES],
        "timeline": [(b * each, simulated("timeline", b)) for b in BATCHES],
    }


def peak(kind: str, size: int, count: int) -> float:
    """Most memory in bytes that a process of its own held: a run of replicates and updates, or a simulation."""
    command = [sys.executable, "-c", PEAK, kind, str(size), str(count)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) * 1024.0


def memory() -> list[tuple[str, int, int, float]]:
    """(kind, replicates or 0, updates or batches, bytes), a process that only imports first; none outside Linux."""
    if not Path("/proc/self/status").exists():
        return []
    asked = [("import", 0, 0), *RUNS, *TIMELINES]
    return [(kind, size, count, peak(kind, size, count)) for kind, size, count in asked]
