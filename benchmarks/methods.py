"""Score weights of every method against plain PPO passes, at one step of 32 x 16 sequences of 1,024 tokens.

A pass is ratio = exp(log pi - log mu); min(ratio A, clip(ratio) A), written in torch on the same float32 numbers. Both
sides count tokens per second, so 1 / ratio is the number of passes that a method costs. `python -m benchmarks.methods
[NAME ...]` counts processor time and adds how many temporaries of the shape are alive at one time.

Elementwise methods should stay within 3 passes, methods that sort or scan (`SORTING`) within 12, and none should hold
more than five temporaries.
"""

from __future__ import annotations

import functools
import math
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from asyncsim.base import memory, plugins
from asyncsim.step.step import Step, given
from asyncsim.step.versions import threads
from benchmarks._record import Benchmark

SHAPE = (1, 32, 16, 1024)
REPEATS, CALLS = 5, 40
ACTIONS = 4
SORTING = {"m2po_mask", "m2po_waterfill", "m2po_areal", "bapo_paper", "bapo_code", "sat", "per_decision_is"}
"""Methods that sort or scan the tokens of a step, or search for a threshold on them."""


@functools.cache
def numbers() -> dict[str, Tensor]:
    """Log-probs of three policies, advantages of both signs, and half-normal lengths as a mask."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    then = -torch.rand(SHAPE, generator=generator) * 3.0 - 0.1
    lengths = (600 + 200 * normal(*SHAPE[:3])).clamp(1, SHAPE[3])
    return {
        "behavior": then,
        "now": (then + 0.05 * normal(*SHAPE)).clamp(max=0.0),
        "middle": (then + 0.04 * normal(*SHAPE)).clamp(max=0.0),
        "advantage": normal(*SHAPE[:3], 1),
        "mask": (torch.arange(SHAPE[3]) < lengths.unsqueeze(-1)).float(),
    }


def fresh(method: Any) -> Step:
    """A fresh record: nothing has been computed yet."""
    known = numbers()
    return given(
        method,
        {"log_prob": known["now"], "reference": known["middle"], "value": known["advantage"].expand(SHAPE)},
        {"log_prob": known["behavior"]},
        known["mask"],
        reward=known["advantage"][..., 0],
        proximal={"log_prob": known["middle"]},
        staleness=torch.full((1, 1, 1, 1), 4.0),
    )


def weigh(method: Any) -> Tensor:
    """Score weights of a method, masks and penalties included."""
    record, advantage = fresh(method), numbers()["advantage"]
    weight = method.weight.score_weight(record, advantage)
    for part in method.factors:
        weight = weight * part.factor(record, advantage)
    for part in method.penalties:
        added = part.score_weight(record)
        weight = weight if added is None else weight + added
    return weight


def plain() -> Tensor:
    """One pass of PPO."""
    given = numbers()
    ratio = torch.exp(given["now"] - given["behavior"])
    advantage = given["advantage"]
    return torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)


def rate(function: Callable[[], Any]) -> float:
    """Tokens per second, in a process that keeps its memory as a run does."""
    memory.keep()
    with threads(1):
        function()
        start = time.perf_counter()
        for _ in range(REPEATS):
            function()
    return REPEATS * numbers()["mask"].numel() / (time.perf_counter() - start)


def passes(method: Any) -> float:
    """Processor time of a method over that of a plain pass: the least of calls in turn, which others disturb least."""
    memory.keep()
    sides: list[Callable[[], Tensor]] = [functools.partial(weigh, method), plain]
    least = [math.inf, math.inf]
    for _ in range(CALLS):
        for side, function in enumerate(sides):
            start = time.thread_time()
            function()
            least[side] = min(least[side], time.thread_time() - start)
    return least[0] / least[1]


class Alive(TorchDispatchMode):
    """Counts the storages of the benchmark's shape (in floats) that live at one time."""

    def __init__(self) -> None:
        super().__init__()
        self.living: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, then count what it made; bytes of masks count as the quarter of a float that they are."""
        out = function(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if not isinstance(tensor, Tensor):
                continue
            storage = tensor.untyped_storage()
            key = storage.data_ptr()
            if key not in self.living and storage.nbytes() >= numbers()["mask"].numel():
                self.living[key] = storage.nbytes()
                weakref.finalize(storage, self.living.pop, key, None)
        self.peak = max(self.peak, sum(self.living.values()))
        return out


def temporaries(method: Any) -> float:
    """Most memory of new tensors at one time, in arrays `[R, G, N, T]` of the working type."""
    given = numbers()
    known = {x.untyped_storage().data_ptr() for x in given.values()}
    with Alive() as alive:
        alive.living = dict.fromkeys(known, 0)
        weigh(method)
    return alive.peak / (given["mask"].numel() * given["mask"].element_size())


def methods() -> dict[str, Any]:
    """Methods that read nothing but log-probs of tokens, a reference and values."""
    made = {name: plugins.load("asyncsim.methods", name, "method")() for name in plugins.summaries("asyncsim.methods")}
    known = {"log_prob", "reference", "value"}
    return {name: method for name, method in made.items() if method.scored and set(method.outputs) <= known}


def _pair(name: str, method: Any) -> Benchmark:
    limit = 12 if name in SORTING else 3
    what = f"score weights of {name} against a plain PPO pass"
    return Benchmark(
        (lambda: rate(lambda: weigh(method))), (lambda: rate(plain)), "tokens/s", what, 1 / limit, rounds=3
    )


BENCHMARKS = {f"weights_{name}": _pair(name, method) for name, method in methods().items()}


def main(names: list[str]) -> None:
    """Passes and temporaries of the methods with these names, or of all."""
    torch.set_num_threads(1)
    print(f"{'method':24} {'passes':>7} {'temporaries':>12}   limit {SHAPE}")
    for name, method in methods().items():
        if name in names or not names:
            cost, held, limit = passes(method), temporaries(method), 12 if name in SORTING else 3
            print(f"{name:24} {cost:7.2f} {held:12.2f}   {limit:2} {'over' if cost > limit or held > 5 else ''}")


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
    else:
        main(sys.argv[1:])
