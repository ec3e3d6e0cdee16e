"""Workers that update on arrival: orders from the event kernel, and every order listed."""

from __future__ import annotations

import numpy as np

from asyncsim import systems
from asyncsim.base import laws
from asyncsim.claims._trial import Plant
from asyncsim.claims.lab.paths import given, listed
from asyncsim.running.spec import Spec
from asyncsim.systems._system import System


def timed(workers: int, law: str = "exponential:1") -> System:
    """Workers with this law of times, each updating on arrival."""
    return systems.update_on_arrival(workers, laws.as_law("law", law))


def windows(system: System, updates: int, count: int, seed: int) -> np.ndarray:
    """Versions of so many runs of the kernel's workers `[K, T, 1]`: one long run, cut where all have read anew.

    Memoryless times have no past: at any update the workers may be taken to have begun, and to have read, just then.
    """
    version = system.schedule(count * updates, 1, 1, 1, seed=seed).version.reshape(count, updates, 1)
    first = updates * np.arange(count)[:, None, None]
    return np.maximum(version - first, 0)


def orders(workers: int, updates: int) -> tuple[np.ndarray, np.ndarray]:
    """All distinct versions of equally likely orders `[K, T, 1]`, and their chances `[K]`.

    What the last update reads is not seen.
    """
    each = listed(range(workers), updates - 1)
    read, version = np.zeros((len(each), workers), dtype=np.int64), np.zeros((len(each), updates), dtype=np.int64)
    for t in range(updates - 1):
        rows = (np.arange(len(each)), each[:, t])
        version[:, t] = read[rows]
        read[rows] = t + 1
    found, counts = np.unique(version, axis=0, return_counts=True)
    return found[:, :, None], counts / len(each)


def on(version: np.ndarray) -> dict[str, int]:
    """Settings of a spec with one replicate for each row of versions `[K, T, G]`."""
    return {"replicates": len(version), "realizations": len(version)}


def in_rotation(workers: int) -> Plant:
    """A plant: workers of constant, equal times, so that they deliver in turn."""

    def plant(spec: Spec) -> Spec:
        version = windows(timed(workers, "constant:1"), spec.updates, spec.realizations or 1, 0)
        return spec.replace(system=given(version))

    return plant
