"""Gradient and open tokens of PPO in the first and the second update on a batch, enumerated through the loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, methods, tasks
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning.step import Step
from asyncsim.methods._surrogates import DualClip, zero_outside
from asyncsim.methods._weights import Clip
from asyncsim.trials._plants import with_method
from asyncsim.trials._runs import displaced, run
from asyncsim.trials._sequences import components, exactly
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_SECOND, _FIRST = 1, 2
"""Updates behind the displacement: the second on a batch of the policy itself, the first on a stale one."""


def _slope(arm: int) -> Metric:
    return Metric(f"gradient[{arm}]", lambda step: step.gradient[:, arm], ("log_prob",), subject="policy")


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    means, baseline = point["means"], advantages.offset(point["offset"])
    method = methods.ppo_clip(point["low"], point["high"], point["anchor"], baseline, dual=point.get("dual"))
    places = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    metrics = [*map(_slope, range(len(means))), "clip_active"]
    spec = displaced(tasks.softmax_bandit(len(means), means), places, metrics, (1, 3, 1), method)
    trace = run(spec.replace(sampling="enumerate", epochs=2), seed, plant)
    found: dict[str, Estimate] = {}
    for name, update in (("first", _FIRST), ("second", _SECOND)):
        found |= components(name, np.array([trace[f"gradient[{a}]"][update, 0] for a in range(len(means))]))
        found[f"open_{name}"] = exactly(1.0 - trace["clip_active"][update, 0])
    return found


@dataclass(frozen=True)
class _Swapped(DualClip):
    """A gate that stops what comes back and lets go on what has gone far."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """The gate of the other sign."""
        gate: Tensor = super().score_weight(step, -advantage)
        return -gate


@dataclass(frozen=True)
class _BothSides(Clip):
    """A clipped ratio without the minimum: nothing outside the band has a gradient."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A inside the band."""
        ratio = self.applied(step)
        return zero_outside(ratio * advantage, torch.abs(ratio - 1.0) <= self.low)


_POINT = {
    "behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1), "means": (0.3, 0.5, 0.8),
    "low": 0.2, "high": 0.2, "offset": 0.4,
}  # fmt: skip
_STALE = {**_POINT, "anchor": "behavior", "dual": 2.0}
_RECOMPUTED = {**_POINT, "anchor": "proximal", "dual": None}

trial = Trial(
    points=(_STALE, _RECOMPUTED),
    more=({**_STALE, "low": 0.6, "high": 1.0, "dual": None},),
    measure=_measure,
    defects={
        "sides swapped": Defect(with_method(weight=_Swapped(0.2, 0.2, 2.0)), _STALE),
        "stopped on both sides": Defect(with_method(weight=_BothSides(0.2, 0.2)), _STALE),
        "dual clip forgotten": Defect(with_method(weight=Clip(0.2, 0.2)), _STALE),
        "anchored elsewhere": Defect(with_method(anchor="behavior"), _RECOMPUTED),
    },
    effect=0.02,
    through="loop",
)
