"""Growth of the log ratio's variance with the staleness of a bandit's REINFORCE, through the loop.

At staleness S the first S + 1 updates all learn from data of version 0. So their gradients are independent and
identically distributed at any learning rate; update S + 1 measures them against version 1. That version is one update
away from the prediction's: probabilities that change by factors between 1/c and c change a variance by as much.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, methods, schedules, tasks, updates
from asyncsim.base import records, uncertainty
from asyncsim.base.trace import Trace
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning import ratios
from asyncsim.learning.spec import Spec
from asyncsim.learning.step import Step
from asyncsim.trials._plants import Tempered, momentum_inserted, off_by_one_version, with_method, with_policy
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped, units_for
from asyncsim.updates._link import chain

_SPREAD = 1.1
"""Relative standard deviation of one replicate's growth at the points below (measured: at most 1.09)."""
_COMPARISONS = 25
_ROUNDING = 1e-9
_MOST, _DRAWN, _COARSEST = 6000, 25_000.0, 0.05
"""Samples of one replicate over all runs of a point, those of all replicates times the square of the effect, and by how
much an update may part logits, at most."""


def _population(point: Point) -> bool:
    return bool(point["sampling"] == "enumerate")


def _drawn(point: Point) -> int:
    """Samples of one replicate over all runs."""
    return int(point["samples"] * sum(age + 2 for age in point["stalenesses"]))


def _drift(logits: tuple[float, ...]) -> Metric:
    """Variance in the batch of the change of the chosen arm's logit since the start."""

    def variance(step: Step) -> Tensor:
        batch = step.batch
        change = step.parameters - torch.tensor(logits, dtype=step.parameters.dtype)
        shift = torch.gather(change, 1, batch.action.flatten(1)).reshape(batch.action.shape[:3])
        return ratios.log_moments(shift, step.step_mass)[1]

    return Metric("drift", variance, ("log_prob",))


def _run(point: Point, staleness: int, replicates: int, seed: int, plant: Plant) -> Trace:
    """Variances of the log ratio and of the logits' change, from the first update to the first behind the warm-up."""
    means, logits = point["means"], tuple(point["logits"])
    spec = Spec(
        tasks.softmax_bandit(len(means), means, rewards=point["rewards"], logits=logits),
        schedules.fixed(staleness),
        methods.reinforce(),
        chain(updates.sgd(point["step"])),
        samples_per_group=point["samples"],
        updates=staleness + 2,
        replicates=replicates,
        sampling=point["sampling"],
        diagnostics=["log_ratio_variance", _drift(logits)],
    )
    return run(spec, seed, plant)


def _moved(point: Point) -> float:
    """Most by which one step changes the difference of two logits."""
    means, N = np.array(point["means"], dtype=np.float64), point["samples"]
    spread = 1.0 if point["rewards"] == "bernoulli" else float(np.ptp(means))
    return float(point["step"] * spread / (2.0 if _population(point) else 2.0 * (N - 1) / N))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    ages, N = point["stalenesses"], point["samples"]
    count = min(units_for(_SPREAD, effect, _COMPARISONS), int(_DRAWN / effect**2 / _drawn(point)))
    replicates = 2 if _population(point) else count
    traces = [_run(point, age, replicates, seed + 1000 * k, plant) for k, age in enumerate(ages)]
    # The variance of N samples about their own mean is low by the factor (N - 1)/N.
    factor = (1.0 if _population(point) else N / (N - 1)) / point["step"] ** 2
    rows = [factor * trace["log_ratio_variance"][-1] for trace in traces]
    allowance = math.expm1(_moved(point)) + _ROUNDING
    estimates = {}
    for age, row in zip(ages, rows, strict=True):
        growth = uncertainty.between(row)
        estimates[f"growth[{age}]"] = growth._replace(tolerance=allowance * growth.value)
    slope = uncertainty.slope(ages, np.stack(rows, axis=1), log=True)
    x = np.log(ages) - np.log(ages).mean()
    estimates["slope"] = slope._replace(tolerance=allowance * float(np.abs(x).sum() / (x @ x)))
    # One update earlier behavior is still version 0, whose logits are known.
    sides = (traces[-1][name][-2] for name in ("log_ratio_variance", "drift"))
    estimates["identity"] = uncertainty.ratio(*sides)._replace(tolerance=_ROUNDING)
    return estimates


def _teaches(point: Point) -> float:
    """Chance that two samples differ in arm and reward: otherwise they move nothing."""
    means = np.array(point["means"], dtype=np.float64)
    weights = np.exp(np.array(point["logits"]) - np.max(point["logits"]))
    pairs = np.outer(weights, weights) / weights.sum() ** 2
    np.fill_diagonal(pairs, 0.0)
    coin = point["rewards"] == "bernoulli"
    differ = np.add.outer(means, means) - 2.0 * np.outer(means, means) if coin else np.subtract.outer(means, means) != 0
    return float((pairs * differ).sum())


def _reach(point: Point) -> str | None:
    if _moved(point) > _COARSEST:
        return f"logits that part by at most {_COARSEST} in an update, not {_moved(point):.2g}; take a smaller step"
    if _drawn(point) > _MOST:
        return f"samples times updates, over all stalenesses, at most {_MOST}, not {_drawn(point)}; take fewer"
    if not _population(point) and _teaches(point) < 0.05:
        return "two samples that differ in arm and reward with a chance of 0.05; rarer updates are too few to average"
    return None


class _Repeated(Wrapped):
    """A system that hands out the trajectories of its first batch again and again."""

    def schedule(self, *arguments: Any) -> records.Schedule:
        """The schedule with the first batch's ids in every batch."""
        schedule = self._inner.schedule(*arguments)
        return dataclasses.replace(
            schedule, trajectory=np.broadcast_to(schedule.trajectory[:, :1], schedule.trajectory.shape)
        )


_NOISE = {
    "means": (0.5, 0.5, 0.5, 0.5),
    "logits": (0.5, 0.2, 0.0, -0.5),
    "rewards": "bernoulli",
    "samples": 6,
    "sampling": "monte_carlo",
    "step": 1e-4,
    "stalenesses": (1, 2, 4, 8),
}
_MIXED = {**_NOISE, "means": (0.2, 0.5, 0.8), "logits": (0.5, 0.0, -0.5), "samples": 8}
_DRIFT = {**_MIXED, "sampling": "enumerate", "stalenesses": (1, 2, 4, 8, 16)}
_SHORT = {**_NOISE, "stalenesses": (1, 2)}

trial = Trial(
    points=(_NOISE, _MIXED, _DRIFT),
    more=({**_MIXED, "rewards": "fixed", "sampling": "counts", "samples": 12},),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _DRIFT),
        "the same draws in every batch": Defect(lambda spec: spec.replace(system=_Repeated(spec.system)), _SHORT),
        "own reward in the baseline": Defect(with_method(advantage=advantages.group_mean()), _SHORT),
        "momentum inserted": Defect(momentum_inserted, _DRIFT),
        "scored at another temperature": Defect(with_policy(Tempered), _DRIFT),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
