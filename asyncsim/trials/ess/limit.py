"""Effective sample size of large sampled batches, through the loop."""

from __future__ import annotations

import dataclasses

import numpy as np

from asyncsim import tasks, validation
from asyncsim.base.records import Estimate, Point
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning import ratios
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.trials.ratio._displaced import mean_of, run_displaced

_SAMPLES, _BATCHES = 4096, 4
_SPREAD = 0.02
"""Relative standard deviation of one replicate's mean over its batches at the points below (measured)."""
_BIAS = 5e-4
"""Allowance for the upward bias of a batch of 4,096, relative; the leading term is below 3e-4 at the points below."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    replicates = max(48, validation.sample_size(_SPREAD, effect, 1.0, 1e-3, 0.05, comparisons=2))
    then, now = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    task = tasks.softmax_bandit(len(now))
    trace = run_displaced(task, then, now, ["ess"], _SAMPLES, _BATCHES, replicates, seed, plant)
    found = mean_of(trace, "ess")
    return {"ess": found._replace(tolerance=_BIAS * found.value)}


def _clamped(spec: Spec) -> Spec:
    """The statistic taken on weights clamped to [1/2, 2]: it has a floor of 0.64."""
    metric = Metric("ess", lambda step: ratios.ess(step.sequence_log_ratio, step.step_mass, clamp=2.0), ("log_prob",))
    return dataclasses.replace(spec, diagnostics=[metric])


_NEAR = {"behavior_logits": (0.0, 0.0, 0.0), "current_logits": (0.5, 0.0, -0.5)}
_FAR = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (2.0, -0.9, 0.1)}

trial = Trial(
    claim="ess/limit",
    points=(_NEAR, _FAR),
    measure=_measure,
    defects={
        "clamped weights": Defect(_clamped, _FAR),
        "scored at another temperature": Defect(with_policy(Tempered), _FAR),
    },
    effect=0.02,
    through="loop",
    elsewhere=({"current_logits": (0.0, 0.0, 0.0)},),
)
