"""Gradient, share and staleness of what is trained where rewards arrive late, through the loop at a frozen policy."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from asyncsim import advantages, methods, rewards, schedules, tasks, updates
from asyncsim.base.uncertainty import between
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning import oracle
from asyncsim.learning.batch import Batch, Draws
from asyncsim.learning.spec import Spec
from asyncsim.learning.step import Step
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped, units_for
from asyncsim.updates._link import chain

_SAMPLES, _BATCHES = 64, 16
_SPREAD = 0.12
"""Standard deviation of one replicate's mean over its batches, relative to the bias at the points below (measured)."""


def _trained(step: Step) -> Tensor:
    """Samples trained for each one generated, `[R]`."""
    own = step.batch.generated.mass.expand(step.batch.reward.shape)
    return step.mass.expand(own.shape).sum((1, 2)) / own.sum((1, 2))


def _score(arm: int) -> Metric:
    """Gradient that a generated sample adds, "score[arm]"."""
    return Metric(f"score[{arm}]", lambda step: step.gradient[:, arm] * _trained(step), ("log_prob",), subject="policy")


_SHARE = Metric("trained", _trained, subject="policy")
_AGE = Metric("age", lambda step: step.mean(step.staleness[..., 0]) * _trained(step), subject="policy")


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    means, logits = point["means"], point["logits"]
    task = tasks.softmax_bandit(len(means), means, logits=logits)
    behind = point["by"] + point["staleness"]
    spec = Spec(
        task,
        schedules.fixed(point["staleness"]),
        methods.reinforce(advantages.offset(point["offset"])),
        chain(updates.scale(0.0)),
        samples_per_group=_SAMPLES,
        updates=behind + _BATCHES,
        replicates=max(48, units_for(_SPREAD, effect, len(means) + 2)),
        diagnostics=[*map(_score, range(len(means))), _SHARE, _AGE],
        rewards=rewards.late((point["share_low"], point["share_high"]), "reinject", point["by"], point["reinjected"]),
    )
    trace = run(spec, seed, plant)
    # In front of that, less comes back, or is as old as the run.
    found = {name: between(values[behind:].mean(axis=0)) for name, values in trace.metrics.items()}
    exact = oracle.exact(task, logits)[1]
    biases = {
        f"bias[{a}]": found[f"score[{a}]"]._replace(value=found[f"score[{a}]"].value - g) for a, g in enumerate(exact)
    }
    return biases | {name: found[name] for name in ("trained", "age")}


class _Changed(Wrapped):
    """Late rewards of which a batch makes something else."""

    def changed(self, batch: Batch) -> dict[str, Any]:
        """Fields of the batch that are others."""
        raise NotImplementedError

    def arriving(self, batch: Batch, draws: Draws, number: int) -> Batch:
        """The batch with them."""
        found: Batch = self._inner.arriving(batch, draws, number)
        return dataclasses.replace(found, **self.changed(found))


class _AsZero(_Changed):
    """Late rewards are trained as 0 at once."""

    def changed(self, batch: Batch) -> dict[str, Any]:
        """Samples generated for the batch are all trained, what is late with reward 0."""
        own = batch.arrivals["fresh"]
        assert batch.kept is not None
        unknown = (own > 0) & (batch.kept == 0)
        return {
            "reward": torch.where(unknown, torch.zeros_like(own), batch.reward),
            "kept": torch.maximum(own, batch.kept),
        }


class _Twice(_Changed):
    """What comes back is trained twice."""

    def changed(self, batch: Batch) -> dict[str, Any]:
        """Twice its mass."""
        assert batch.kept is not None
        return {"kept": batch.kept * (1.0 + batch.arrivals["late"])}


class _Restamped(_Changed):
    """What comes back is told to be as fresh as it was in its own batch."""

    def changed(self, batch: Batch) -> dict[str, Any]:
        """Its staleness without the batches in between."""
        return {"age": batch.staleness - self._inner.by * batch.arrivals["late"].unsqueeze(-1)}


class _Forgotten(Wrapped):
    """Nothing comes back."""

    def arriving(self, batch: Batch, draws: Draws, number: int) -> Batch:
        """As in the first batches."""
        found: Batch = self._inner.arriving(batch, draws, -1)
        return found


def _with(wrapper: type[Wrapped]) -> Plant:
    return lambda spec: spec.replace(rewards=wrapper(spec.rewards))


_POINT = {
    "means": (0.1, 0.9), "logits": (0.2, -0.1), "share_low": 0.7, "share_high": 0.3, "reinjected": 0.0,
    "offset": 0.5, "by": 2, "staleness": 1,
}  # fmt: skip
_HALF = {**_POINT, "reinjected": 0.5, "share_low": 0.3, "share_high": 0.9, "offset": 0.4, "by": 3}

trial = Trial(
    points=(_POINT, _HALF),
    more=({**_POINT, "means": (0.1, 0.5, 0.9), "logits": (0.0, 0.3, 0.0), "reinjected": 0.3, "staleness": 0},),
    measure=_measure,
    defects={
        "late rewards trained as 0": Defect(_with(_AsZero), _HALF),
        "reinjected twice": Defect(_with(_Twice), _HALF),
        "reinjected with the staleness of its own batch": Defect(_with(_Restamped), _HALF),
        "nothing comes back": Defect(_with(_Forgotten), _HALF),
    },
    effect=0.02,
    through="loop",
)
