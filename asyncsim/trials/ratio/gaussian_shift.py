"""Log ratios between two normal policies, sampled and scored through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import tasks, validation
from asyncsim.base.records import Estimate, Point
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning.step import Step
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.trials.ratio._displaced import mean_of, run_displaced

_SAMPLES, _BATCHES = 512, 16
_SPREAD = 0.085
"""Largest relative standard deviation of one replicate's quantity at the points below (measured)."""


def _below(z: int, shift: float) -> Metric:
    """Share of samples whose log ratio is at most -shift^2/2 + z shift."""

    def share(step: Step):  # type: ignore[no-untyped-def]
        return step.mean((step.sequence_log_ratio <= -(shift**2) / 2 + z * shift).double())

    return Metric(f"cdf[{z}]", share, ("log_prob",))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    replicates = max(
        64, validation.sample_size(max(_SPREAD, 0.032 / point["shift"]), effect, 1.0, 1e-3, 0.05, comparisons=12)
    )
    shift = point["shift"]
    cells = [_below(z, shift) for z in (-1, 0, 1)]
    names = ["log_ratio_mean", "log_ratio_variance", "chi_square", *cells]
    trace = run_displaced(
        tasks.gaussian_bandit(width=1.0),
        np.array([0.0]),
        np.array([shift]),
        names,
        _SAMPLES,
        _BATCHES,
        replicates,
        seed,
        plant,
    )
    found = {cell.name: mean_of(trace, cell.name) for cell in cells}
    found["mean_log"] = mean_of(trace, "log_ratio_mean")
    # The variance of N samples about their own mean is low by the factor (N - 1)/N.
    variance = mean_of(trace, "log_ratio_variance")
    rescaled = _SAMPLES / (_SAMPLES - 1)
    found["var_log"] = variance._replace(value=variance.value * rescaled, error=variance.error * rescaled)
    second = mean_of(trace, "chi_square")
    found["second_moment"] = second._replace(value=second.value + 1.0)
    return found


trial = Trial(
    claim="ratio/gaussian-shift",
    points=({"shift": 0.5}, {"shift": 1.0}),
    more=({"shift": 0.25},),
    measure=_measure,
    defects={"scored at another temperature": Defect(with_policy(Tempered), {"shift": 1.0})},
    effect=0.02,
    reach=lambda point: (
        None if abs(point["shift"]) <= 1.1 else "|shift| at most 1.1: the second moment is unseen beyond"
    ),
    through="loop",
    elsewhere=({"shift": 0.3}, {"shift": 0.7}),
    refused=({"shift": 3.0},),
)
