"""Tail indices that the product's metric reads in batches of exactly Pareto weights, through the loop."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from asyncsim.base.uncertainty import between
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._runs import run, share_of
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, too_rare, units_for
from asyncsim.trials.ratio._cooled import colder, cooled

_BATCHES, _MOST = 32, 16_000_000


def _largest(samples: float) -> int:
    return math.ceil(min(samples / 5, 3 * math.sqrt(samples)))


def _spread(point: Point) -> float:
    """Largest relative standard deviation of one batch: of the mean square, of the index, or of a cell."""
    m = _largest(point["samples"])
    square = math.sqrt((m + 2.0) * (m + 3.0) / (m * (m + 1.0)) - 1.0)
    rarest = min(0.5 * math.erfc(-z / math.sqrt(2.0)) for z in point["scores"])
    return max(square, 1.0 / math.sqrt(m - 2.0), 1.05 * math.sqrt(1.0 / max(rarest, 1e-300) - 1.0))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    k, root = 1.0 - point["temperature"], math.sqrt(_largest(point["samples"]))
    replicates = min(units_for(_spread(point) / math.sqrt(_BATCHES), effect, 8), _most(point) // _BATCHES)
    size = point["samples"], _BATCHES, max(16, replicates)
    trace = run(cooled(point["temperature"], 2, ["tail_index"], size), seed, plant)
    index = trace["tail_index"][1:]
    shape = 1.0 / index
    numbers = {"shape": shape, "square": shape**2, "index": index}
    cells = {f"below[{i}]": shape <= k * (1.0 + z / root) for i, z in enumerate(point["scores"])}
    return {name: between(x.mean(axis=0)) for name, x in numbers.items()} | {
        name: share_of(cell) for name, cell in cells.items()
    }


def _most(point: Point) -> int:
    """Batches that are affordable."""
    return int(_MOST // point["samples"])


def _reach(point: Point) -> str | None:
    return too_rare(_spread(point), _most(point))


def _threshold_among(step: Step) -> Tensor:
    """The (m+1)-th counted among the largest m + 1."""
    m = _largest(step.batch.size)
    return ratios.tail_index(step.sequence_log_ratio, step.step_mass) * (m + 1) / m


def _read(statistic: Callable[[Step], Tensor]) -> Plant:
    return replaced(diagnostics=[Metric("tail_index", statistic, ("log_prob",))])


_FEW = {"temperature": 0.5, "samples": 40, "scores": (1.0,)}
_MANY = {"temperature": 0.3, "samples": 256, "scores": (1.5,)}

trial = Trial(
    points=(_FEW,),
    more=(_MANY,),
    measure=_measure,
    defects={
        "threshold counted among the largest": Defect(_read(_threshold_among), _FEW),
        "sampler 5 percent colder than it says": Defect(colder(0.95), _FEW),
        "scored at another temperature": Defect(with_policy(Tempered), _FEW),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
