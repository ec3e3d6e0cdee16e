"""Mean reward of a chain of bits, stale and weighted, sampled through the loop."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning.spec import Spec
from asyncsim.learning.step import Step
from asyncsim.trials._chains import MOST, SAMPLES, Chain, OneNumber, replicates_for
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._runs import mean_of, share_of
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, too_rare

_EFFECT, _COMPARISONS = 0.02, 6


def _weighted(step: Step) -> torch.Tensor:
    """E W r."""
    return step.mean(torch.exp(step.sequence_log_ratio) * step.batch.reward)


def _spread(chain: Chain) -> float:
    """Relative standard deviation of one sample, at most: E W^2 r <= E W^2 where r is 0 or 1."""
    stale, current = (chain.exact(place)[0] for place in (chain.behavior, chain.current))
    if min(stale, current) <= 0.0:
        return math.inf
    return math.sqrt(max(1.0 / stale - 1.0, chain.moment(2.0) / current**2 - 1.0, 1e-6))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    chain = Chain(point, point["fraction"])
    metrics = ["batch_return", Metric("weighted", _weighted, ("log_prob",))]
    trace = chain.run(metrics, replicates_for(_spread(chain), effect, _COMPARISONS), seed, plant)
    return {"stale_return": share_of(trace["batch_return"][1:], SAMPLES), "weighted_return": mean_of(trace, "weighted")}


def _one_more(spec: Spec) -> Spec:
    """One right bit more than asked for is needed."""
    task: Any = spec.task
    return spec.replace(task=dataclasses.replace(task, fraction=(task.needed + 1) / task.horizon))


_SHORT = {"horizon": 24, "fraction": 0.75, "behavior_margins": (0.6, 1.4), "current_margins": (0.9, 1.6)}

trial = Trial(
    points=(_SHORT, {"horizon": 48, "fraction": 0.7, "behavior_margins": (1.2, 0.4), "current_margins": (1.1, 0.7)}),
    more=({"horizon": 200, "fraction": 0.6, "behavior_margins": (0.2, 0.7), "current_margins": (0.25, 0.75)},),
    measure=_measure,
    defects={
        "more than the needed bits": Defect(_one_more, _SHORT),
        "one number for all bits": Defect(with_policy(OneNumber), _SHORT),
        "scored at another temperature": Defect(with_policy(Tempered), _SHORT),
    },
    effect=_EFFECT,
    reach=lambda point: too_rare(_spread(Chain(point, point["fraction"])), MOST),
    through="loop",
)
