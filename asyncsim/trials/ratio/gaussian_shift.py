"""Log ratios between two normal policies, sampled and scored through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import tasks
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._runs import below, displaced, mean_of, run, second_moment_of, share_of, variance_of
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for

_SAMPLES, _BATCHES = 512, 16
_SPREAD = 0.085
"""Largest relative standard deviation of one replicate's quantity at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    shift, task = point["shift"], tasks.gaussian_bandit(width=1.0)
    replicates = max(64, units_for(max(_SPREAD, 0.032 / shift), effect, 12))
    cells = [below(z, -(shift**2) / 2 + z * shift) for z in (-1, 0, 1)]
    metrics = ["log_ratio_mean", "log_ratio_variance", "chi_square", *cells]
    places = np.array([0.0]), np.array([shift])
    trace = run(displaced(task, places, metrics, (_SAMPLES, _BATCHES, replicates)), seed, plant)
    return {
        **{cell.name: share_of(trace[cell.name][1:], _SAMPLES) for cell in cells},
        "mean_log": mean_of(trace, "log_ratio_mean"),
        "var_log": variance_of(trace, _SAMPLES),
        "second_moment": second_moment_of(trace),
    }


trial = Trial(
    points=({"shift": 0.5}, {"shift": 1.0}),
    more=({"shift": 0.25},),
    measure=_measure,
    defects={"scored at another temperature": Defect(with_policy(Tempered), {"shift": 1.0})},
    effect=0.02,
    reach=lambda point: (
        None if abs(point["shift"]) <= 1.1 else "|shift| at most 1.1; lower it, the second moment is unseen beyond"
    ),
    through="loop",
)
