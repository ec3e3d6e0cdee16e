"""Effective sample size and largest share of small sampled batches of sequences, through the loop."""

from __future__ import annotations

import dataclasses

import numpy as np
from torch import Tensor

from asyncsim import tasks, validation
from asyncsim.base.records import Estimate, Point
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning import ratios
from asyncsim.learning.spec import Spec
from asyncsim.learning.step import Step
from asyncsim.trials._plants import ShortProduct, Tempered, with_policy
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.trials.ratio._displaced import mean_of, run_displaced

_BATCHES = 16
_SPREAD = 0.15
"""Relative standard deviation of one replicate's mean over its batches at the points below (measured: at most 0.13)."""
_MOST = 1 << 13
"""Tokens of a batch, at most."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    replicates = validation.sample_size(_SPREAD, effect, 1.0, 1e-3, 0.05, comparisons=2 * len(trial.points))
    then, now = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    task = tasks.token_bandit(len(now), point["horizon"])
    metrics = ["ess", "max_weight_share"]
    trace = run_displaced(task, then, now, metrics, point["samples"], _BATCHES, replicates, seed, plant)
    return {"ess": mean_of(trace, "ess", 1e-9), "largest_share": mean_of(trace, "max_weight_share", 1e-9)}


def _averaged_first(spec: Spec) -> Spec:
    """Sums averaged over batches before they are divided, the reading of one large batch."""

    def pooled(step: Step) -> Tensor:
        weight = step.sequence_log_ratio.exp().flatten(1)
        return (weight.mean() ** 2 / (weight**2).mean()).expand(len(weight))

    return _instead(spec, Metric("ess", pooled, ("log_prob",)))


def _epsilon(spec: Spec) -> Spec:
    """A small number added to the sum of squares."""

    def padded(step: Step) -> Tensor:
        weight = step.sequence_log_ratio.exp().flatten(1)
        return weight.sum(1) ** 2 / ((weight**2).sum(1) + 0.5) / weight.shape[1]

    return _instead(spec, Metric("ess", padded, ("log_prob",)))


def _clamped(spec: Spec) -> Spec:
    """The statistic of weights limited to [1/2, 2]."""

    def limited(step: Step) -> Tensor:
        return ratios.ess(step.sequence_log_ratio, step.step_mass, clamp=2.0)

    return _instead(spec, Metric("ess", limited, ("log_prob",)))


def _instead(spec: Spec, metric: Metric) -> Spec:
    return dataclasses.replace(spec, diagnostics=[metric, "max_weight_share"])


def _reach(point: Point) -> str | None:
    tokens = point["samples"] * point["horizon"]
    return None if tokens <= _MOST else f"a batch of at most {_MOST} tokens, for time"


_FEW = {"samples": 4, "horizon": 3, "behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1)}
_LONG = {"samples": 16, "horizon": 12, "behavior_logits": (0.2, 0.0, -0.3), "current_logits": (0.8, -0.2, -0.3)}

trial = Trial(
    claim="ess/finite-sample",
    points=(_FEW, _LONG),
    more=({**_LONG, "samples": 64, "horizon": 24},),
    measure=_measure,
    defects={
        "batches averaged before squaring": Defect(_averaged_first, _LONG),
        "a small number in the denominator": Defect(_epsilon, _FEW),
        "clamped weights": Defect(_clamped, _FEW),
        "last token left out": Defect(with_policy(ShortProduct), _FEW),
        "scored at another temperature": Defect(with_policy(Tempered), _LONG),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
    elsewhere=({"horizon": 1}, {"samples": 64}, {"samples": 2, "horizon": 20}),
    refused=({"samples": 4096},),
)
