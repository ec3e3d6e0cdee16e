"""Updates on a step of two groups behind a batch of each, under baselines of the step and of earlier batches."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages, methods
from asyncsim.trials._plants import with_method
from asyncsim.trials._ragged import TABLES, planted, read, stepped, together
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


def _made(point: Point) -> Any:
    """The advantage of a point; all its knobs are read."""
    decay, window = point["decay"], point["window"]
    return {
        "group": advantages.group_mean(),
        "step": advantages.mean(),
        "running_mean": advantages.running_mean(decay),
        "window_std": advantages.window_std(window),
        "reinforce_plus_plus": advantages.reinforce_plus_plus(),
        "reinforce_plus_plus_group": advantages.reinforce_plus_plus("group"),
        "opob": advantages.opob("step"),
        "gdpo": advantages.gdpo(),
    }[point["rule"]]


def _advantage(spec: Any) -> Any:
    return spec.method.advantage


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    spec = planted(point, methods.reinforce(_made(point)), plant)
    later = {**point, "behavior_logits": point["proximal_logits"]}
    for place in (point, later):
        before, advantage = stepped(spec, place), _advantage(spec)
        if hasattr(advantage, "behind"):
            spec = spec.replace(method=spec.method.replace(advantage=advantage.recalling(advantage.behind(before))))
    step = stepped(spec, point, lambda first: together(first, before.batch))
    return read(step.gradient, point)


def _rule(advantage: Any) -> Plant:
    return with_method(advantage=advantage)


_FAR = ((1.8, -0.4, -0.6), (1.5, 0.2, -0.7), (1.2, 0.0, -0.5))
_POINT = {**TABLES, "proximal_logits": _FAR, "decay": 0.4, "window": 2}
_RULES = (
    "group",
    "step",
    "running_mean",
    "window_std",
    "reinforce_plus_plus",
    "reinforce_plus_plus_group",
    "opob",
    "gdpo",
)
_POINTS = {name: {**_POINT, "rule": name} for name in _RULES}

trial = Trial(
    points=(*_POINTS.values(), {**_POINTS["window_std"], "window": 1}),
    more=({**_POINTS["running_mean"], "decay": 1.0},),
    measure=_measure,
    defects={
        "baseline of the group": Defect(_rule(advantages.group_mean()), _POINTS["step"]),
        "baseline of the step": Defect(_rule(advantages.mean()), _POINTS["group"]),
        "last batch alone": Defect(_rule(advantages.running_mean(0.0)), _POINTS["running_mean"]),
        "window of one": Defect(_rule(advantages.window_std(1)), _POINTS["window_std"]),
        "a baseline for each group": Defect(_rule(advantages.opob()), _POINTS["opob"]),
        "standardized in the group alone": Defect(_rule(advantages.group_std(0.05)), _POINTS["gdpo"]),
        "group's mean forgotten": Defect(_rule(advantages.reinforce_plus_plus()), _POINTS["reinforce_plus_plus_group"]),
    },
    effect=0.02,
    through="oracle",
)
