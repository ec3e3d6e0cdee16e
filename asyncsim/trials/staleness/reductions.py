"""Ages and ratios of samples into which weights are installed while they are written, all listed, through the loop."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from asyncsim import advantages, diagnostics, methods, tasks
from asyncsim.base.records import Schedule
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import ShortProduct, Tempered, with_policy
from asyncsim.trials._runs import displaced, run
from asyncsim.trials._sequences import components, exactly
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_AGES = {
    "first": "staleness",
    "oldest": "staleness_head",
    "largest": "staleness_max",
    "newest": "staleness_newest",
    "tokens": "staleness_mean",
    "span": "staleness_span",
}


def _staircase(point: Point) -> Schedule:
    """Batches of the first version, and a last one into which every later version is installed."""
    last, tokens = point["versions"], point["horizon"]
    version = np.zeros((1, last + 1, 1, 1, tokens), dtype=np.int32)
    version[0, last, 0, 0] = np.minimum(np.arange(tokens) // point["every"], last)
    return Schedule(version, np.arange(last + 1).reshape(1, last + 1, 1, 1))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    behavior, current = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    task = tasks.token_bandit(len(behavior), point["horizon"], ends=True)
    metrics = [*_AGES.values(), "mixed_versions", "mean_weight", "ess"]
    spec = displaced(
        task, (behavior, current), metrics, (1, point["versions"], 1), methods.full_is(advantage=advantages.none())
    )
    spec = spec.replace(system=_staircase(point), sampling="enumerate")
    last = {name: values[-1, 0] for name, values in run(spec, seed, plant).metrics.items()}
    ages = components("age", np.array([last[name] for name in _AGES.values()]))
    found = dict(zip((f"age[{name}]" for name in _AGES), ages.values(), strict=True))
    found |= {"weight[mean]": exactly(last["mean_weight"]), "weight[ess]": exactly(last["ess"])}
    return found | {"mixed": exactly(last["mixed_versions"])}


def _stamped(token: int) -> Plant:
    """A plant: a sample's tokens all have the version of one of them."""

    def plant(spec: Spec) -> Spec:
        version = spec.system.version
        one = np.broadcast_to(version[..., token : token + 1 or None], version.shape)
        return spec.replace(system=dataclasses.replace(spec.system, version=np.ascontiguousarray(one)))

    return plant


def _read(instead: str, by: Any) -> Plant:
    """A plant: one metric recorded under the name of another."""
    metric = dataclasses.replace(by, name=instead)

    def plant(spec: Spec) -> Spec:
        return spec.replace(diagnostics=[metric if name == instead else name for name in spec.diagnostics])

    return plant


_POINT = {
    "versions": 2,
    "every": 2,
    "horizon": 6,
    "behavior_logits": (0.3, -0.2, -0.5),
    "current_logits": (1.5, -0.9, -0.6),
}

trial = Trial(
    points=(_POINT, {**_POINT, "versions": 3, "every": 1}),
    more=({**_POINT, "versions": 1, "every": 3, "horizon": 4},),
    measure=_measure,
    defects={
        "stamped at the end": Defect(_stamped(-1), _POINT),
        "stamped at the start": Defect(_stamped(0), _POINT),
        "newest taken for the mean": Defect(_read("staleness_mean", diagnostics.staleness_newest), _POINT),
        "head taken for the newest": Defect(_read("staleness_newest", diagnostics.staleness), _POINT),
        "scored at another temperature": Defect(with_policy(Tempered), _POINT),
        "last token left out": Defect(with_policy(ShortProduct), {**_POINT, "horizon": 3}),
    },
    effect=0.02,
    through="loop",
)
