"""What the machine can do, measured, and what one update of the bandit needs, counted; all on one thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from asyncsim.step.versions import threads
from benchmarks import bandit

LARGE, SMALL = 32 * 2**20, 2**14
"""Numbers in an array that no cache holds, and in one that a core's own cache holds."""
SIDE, TRIES = 1024, 5


def machine() -> dict[str, float]:
    """Bytes a second of copies (read and written) and operations a second of a product of matrices and of `exp`."""
    with threads(1):
        matrix = torch.rand(SIDE, SIDE, dtype=torch.float64)
        numbers, out = torch.rand(SMALL, dtype=torch.float64), torch.empty(SMALL, dtype=torch.float64)
        return {
            "memory": _copied(LARGE, 1),
            "cache": _copied(SMALL, 2000),
            "arithmetic": 2.0 * SIDE**3 / least(lambda: matrix @ matrix),
            "exponentials": SMALL * 100 / least(lambda: [torch.exp(numbers, out=out) for _ in range(100)]),
        }


def _copied(count: int, times: int) -> float:
    source, target = np.ones(count), np.zeros(count)

    def copy() -> None:
        for _ in range(times):
            np.copyto(target, source)

    return 16.0 * count * times / least(copy)


def least(work: Callable[[], object]) -> float:
    """Least seconds of several tries: what others on the machine disturb least."""
    tries = []
    for _ in range(TRIES):
        start = time.perf_counter()
        work()
        tries.append(time.perf_counter() - start)
    return min(tries)


def needed() -> dict[str, float]:
    """What one update of one replicate cannot do without, of A arms and B samples.

    Bytes: parameters read and written, log-probs of this version written, those of the behavior version read.
    Operations: softmax and update (8 A), inverse CDF (A B), advantage, weight and scatter (9 B), and of `exp` A for the
    softmax, A for the behavior policy and B for the ratios. Random numbers are integer work and are not counted.
    """
    A, B = bandit.ARMS, bandit.BATCH
    return {"bytes": 4.0 * 8 * A, "operations": 8.0 * A + A * B + 9.0 * B, "exponentials": 2.0 * A + B}


class Traffic(TorchDispatchMode):
    """Adds up the bytes that operations of torch read and write; views move none."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.calls = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and count what it was given and what it made."""
        out = function(*args, **(kwargs or {}))
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        made = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        places = {x.untyped_storage().data_ptr() for x in given}
        inplace = function.__name__.partition(".")[0].endswith("_")
        fresh = [x for x in made if inplace or x.untyped_storage().data_ptr() not in places]
        if fresh:
            self.calls += 1
            self.bytes += sum(x.numel() * x.element_size() for x in given + fresh)
        return out


def moved(updates: int = 8) -> dict[str, float]:
    """Bytes of one replicate, and calls, of one update on tensors: a longer run less a shorter one."""
    import asyncsim as sim

    found = []
    for count in (updates, 2 * updates):
        spec = bandit.spec(2 * bandit.LAG + count, compiled=False)
        with Traffic() as traffic:
            sim.run(spec, seed=0, progress=False)
        found.append((traffic.bytes, traffic.calls))
    (less, few), (more, many) = found
    return {"bytes": (more - less) / updates / bandit.REPLICATES, "calls": (many - few) / updates}


def measured() -> dict[str, Any]:
    """The machine, what is needed and what moves, with the rate of the product in the same minute."""
    rate = max(bandit.measure_loop() for _ in range(3))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"machine": machine(), "needed": needed(), "moved": moved(), "rate": rate, "memory": memory}
