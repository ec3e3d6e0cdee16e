"""Sequences of stalenesses on the realization axis, all of them or those of workers: moments of descent on them."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsim import systems, tasks, updates
from asyncsim.base import laws
from asyncsim.base.trace import Trace
from asyncsim.base.uncertainty import between
from asyncsim.claims._trial import Estimate, Plant, Point
from asyncsim.claims.lab.runs import descent, run
from asyncsim.claims.lab.threshold import crossing, grown
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running.spec import Spec
from asyncsim.schedules.imposed import Imposed

ITERATE = Metric("iterate", lambda step: step.weights["parameters"][:, 0])
"""First coordinate of the iterate that the update finds, `[R]`."""


def listed(choices: Sequence[Any], updates_: int) -> np.ndarray:
    """All sequences of `updates_` choices, enumerated, `[K, T, ...]`."""
    return np.array(list(itertools.product(choices, repeat=updates_)))


def given(version: np.ndarray) -> Imposed:
    """Schedule with one realization for each row of given versions `[K, T, G]`."""
    return Imposed("given", {}, lambda request: version[..., None], random=True, groups_per_batch=version.shape[2])


def from_one(curvature: float, system: Any, step: Any, **settings: Any) -> Spec:
    """Spec of noiseless gradient descent from parameter 1 with the staleness of a system."""
    task = tasks.quadratic((curvature,), noise=0.0, start=1.0)
    return descent(task, system, updates.sgd(step), **{"sampling": "enumerate", "diagnostics": "none", **settings})


def drawn(point: Point, system: Any, replicates: int, seed: int, plant: Plant) -> Trace:
    """Trace of noiseless descent under staleness that a system draws independently for every replicate."""
    step = point["share"] / point["curvature"]
    spec = from_one(point["curvature"], system, step, updates=point["updates"], replicates=replicates)
    return run(spec, seed, plant)


def mean_of(values: np.ndarray, realization: Any = None) -> Estimate:
    """Mean of values `[R]` over replicates, which are all equal if nothing is random."""
    return between(values, realization, random=realization is not None)._replace(tolerance=1e-12)


def moment_boundary(
    version: np.ndarray, chance: np.ndarray, curvature: float, bracket: tuple[float, float], seed: int, plant: Plant,
    power: int = 2,
) -> Estimate:  # fmt: skip
    """Learning rate at which E x_t^power stops decaying, averaged over all rows of versions `[K, T, G]`."""
    paths, count = version.shape[:2]

    def excess(steps: np.ndarray) -> np.ndarray:
        size = {"updates": count, "replicates": paths * len(steps), "realizations": paths}
        rates = tuple(np.repeat(steps, paths))
        spec = from_one(curvature, given(version), rates, **size, diagnostics=[ITERATE])
        iterates = run(spec, seed, plant)["iterate"].reshape(count, len(steps), paths)
        return grown(iterates**power @ chance, count // 2, 1e-12)

    return crossing(excess, *bracket)


def of_workers(
    workers: int, updates_: int, count: int, seed: int, law: str = "exponential:1"
) -> tuple[Imposed, dict[str, int]]:
    """Schedule of `count` runs of workers that update on arrival, and spec settings with one replicate per run.

    One long run of the kernel, cut where all have read anew. Memoryless times have no past: at any update the workers
    may be taken to have begun, and to have read, just then.
    """
    system = systems.update_on_arrival(workers, laws.as_law("law", law))
    version = system.schedule(count * updates_, 1, 1, 1, seed=seed).version.reshape(count, updates_, 1)
    version = np.maximum(version - updates_ * np.arange(count)[:, None, None], 0)
    return given(version), {"replicates": count, "realizations": count}


def orders(workers: int, updates_: int) -> tuple[np.ndarray, np.ndarray]:
    """All distinct version sequences of equally likely orders, `[K, T, 1]`, and their probabilities `[K]`."""
    each = listed(range(workers), updates_ - 1)
    read, version = np.zeros((len(each), workers), dtype=np.int64), np.zeros((len(each), updates_), dtype=np.int64)
    for t in range(updates_ - 1):
        rows = (np.arange(len(each)), each[:, t])
        version[:, t] = read[rows]
        read[rows] = t + 1
    found, counts = np.unique(version, axis=0, return_counts=True)
    return found[:, :, None], counts / len(each)


def in_rotation(spec: Spec) -> Spec:
    """Plant with three workers of equal constant service times, so that they deliver in turn."""
    return spec.replace(system=of_workers(3, spec.updates, spec.realizations or 1, 0, "constant:1")[0])
