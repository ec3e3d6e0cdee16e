"""The largest step of Adam over many sequences of gradients that are fed to it, through the loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from asyncsim import methods, schedules, tasks, updates
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning.spec import Spec
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.updates._link import Chain, Record, State, chain

_PLACE = Metric("place", lambda step: step.parameters[:, 0])
_OTHERS = 63


@dataclass(frozen=True)
class _Fed:
    """An instrument: gradients of a script in place of the run's own, a row for each replicate."""

    script: tuple[tuple[float, ...], ...]

    def init(self, parameters: Tensor) -> State:
        """At the beginning."""
        return {"read": torch.zeros((parameters.shape[0], 1), dtype=parameters.dtype)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Replace the direction."""
        rows = torch.tensor(self.script, dtype=record.direction.dtype)
        record.direction = rows.gather(1, state["read"].long())
        return record, {"read": state["read"] + 1.0}


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    beta1, beta2, count = point["beta1"], point["beta2"], point["updates"]
    back = np.arange(count - 1, -1, -1.0)
    # Growth as it should be largest, at other rates, and with noise.
    draws = np.random.default_rng(seed)
    powers = np.concatenate([[1.0], draws.uniform(-0.5, 1.1, _OTHERS)])[:, None]
    noise = 1.0 + np.concatenate([[0.0], draws.uniform(0.0, 1.0, _OTHERS)])[:, None] * draws.normal(size=count)
    script = (beta1 / beta2) ** (powers * back) * noise
    spec = Spec(
        tasks.quadratic(noise=0.0),
        schedules.fixed(0),
        methods.gradient(),
        chain(_Fed(tuple(map(tuple, script))), updates.adam(1.0, beta1, beta2, eps=0.0)),
        updates=count,
        replicates=len(script),
        samples_per_group=1,
        sampling="enumerate",
        diagnostics=[_PLACE],
    )
    trace = run(spec, seed, plant)
    largest = float(np.abs(trace.parameters[:, 0] - trace["place"][-1]).max())
    return {"largest_step": Estimate(largest, tolerance=1e-6 * largest)}


def _without_correction(spec: Spec) -> Spec:
    """Moments that are not corrected for their start at 0."""
    fed, adam = spec.update.links
    T, beta1, beta2 = spec.updates, adam.beta1, adam.beta2  # type: ignore[attr-defined]
    return spec.replace(update=Chain((fed, adam, updates.scale((1.0 - beta1**T) / (1.0 - beta2**T) ** 0.5))))


def _slower(spec: Spec) -> Spec:
    """The second moment forgets as the first does."""
    fed, adam = spec.update.links
    beta1 = adam.beta1  # type: ignore[attr-defined]
    return spec.replace(update=Chain((fed, updates.adam(1.0, beta1, beta1, eps=0.0))))


_POINT = {"beta1": 0.9, "beta2": 0.99, "updates": 200}

trial = Trial(
    points=(_POINT,),
    more=({"beta1": 0.9, "beta2": 0.999, "updates": 400}, {"beta1": 0.5, "beta2": 0.95, "updates": 60}),
    measure=_measure,
    defects={
        "no bias correction": Defect(_without_correction, {**_POINT, "updates": 100}),
        "second moment as short as the first": Defect(_slower, _POINT),
    },
    effect=0.02,
    through="loop",
)
