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
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, units_for
from asyncsim.trials.ratio._cooled import colder, cooled

_BATCHES, _MOST = 32, 16_000_000


def _largest(samples: float) -> int:
    return math.ceil(min(samples / 5, 3 * math.sqrt(samples)))


def _replicates(point: Point, effect: float) -> int:
    """From the largest relative standard deviation of one batch: of the mean square, of the index, or of a cell."""
    m = _largest(point["samples"])
    square = math.sqrt((m + 2.0) * (m + 3.0) / (m * (m + 1.0)) - 1.0)
    rarest = min(0.5 * math.erfc(-z / math.sqrt(2.0)) for z in point["scores"])
    spread = max(square, 1.0 / math.sqrt(m - 2.0), 1.05 * math.sqrt(1.0 / rarest - 1.0))
    return max(16, units_for(spread / math.sqrt(_BATCHES), effect, 8))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    k, root = 1.0 - point["temperature"], math.sqrt(_largest(point["samples"]))
    size = point["samples"], _BATCHES, _replicates(point, effect)
    trace = run(cooled(point["temperature"], 2, ["tail_index"], size), seed, plant)
    index = trace["tail_index"][1:]
    shape = 1.0 / index
    cells = {f"below[{i}]": shape <= k * (1.0 + z / root) for i, z in enumerate(point["scores"])}
    return {
        name: between(x.mean(axis=0))
        for name, x in ({"shape": shape, "square": shape**2, "index": index} | cells).items()
    }


def _reach(point: Point) -> str | None:
    if _replicates(point, trial.effect) * _BATCHES * point["samples"] > _MOST:
        return f"at most {_MOST} samples: fewer in a batch, or scores above 0"
    return None


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
    elsewhere=({"temperature": 0.2, "scores": (1.5,)}, {"samples": 30}),
    refused=({"samples": 4096},),
)
