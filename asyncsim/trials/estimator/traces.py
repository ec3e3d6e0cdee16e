"""Advantages of the tokens of one segment with the end of an episode in it, as the product makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, methods
from asyncsim.advantages.retrace import Retrace, retrace
from asyncsim.learning.step import Step, given
from asyncsim.trials._sequences import components
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


@dataclass(frozen=True)
class _Asked:
    """Advantages by name, and the step that they are asked about."""

    made: dict[str, Any]
    step: Step


def _row(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).reshape(1, 1, 1, -1)


def _step(point: Point) -> Step:
    """The segment; behind its last token stands a value only where it was cut."""
    chance, ratio = _row(point["chances"]), _row(point["ratios"])
    both = torch.stack([_row(point["action_values"]), _row(point["other_values"])], -1)
    beyond = torch.zeros_like(chance)
    beyond[..., -1] = point["beyond"] * (point["ends"] < chance.shape[-1])
    current = {
        "log_prob": chance.log(),
        "log_probs": torch.stack([chance, 1.0 - chance], -1).log(),
        "action_value": both[..., 0],
        "action_values": both,
    }
    behavior = {"log_prob": (chance / ratio).log(), "value": _row(point["values"]), "successor_value": beyond}
    step = given(methods.reinforce(), current, behavior, torch.ones_like(chance))
    step.batch.token_reward = _row(point["rewards"])
    step.batch.ended = torch.arange(chance.shape[-1]).expand(chance.shape) == point["ends"] - 1
    return step


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    g, trace = point["discount"], point["trace"]
    made = {
        "gae": advantages.gae(g, trace),
        "n_step": advantages.n_step(point["steps"], g),
        "returns": advantages.returns_to_go(g),
        "retrace": retrace(g, trace),
    }
    asked: _Asked = plant(_Asked(made, _step(point)))
    found = {name: advantage(asked.step) for name, advantage in asked.made.items()}
    found["target"] = asked.made["gae"].targets(asked.step)
    order = ("gae", "target", "n_step", "returns", "retrace")
    vectors = {name: np.asarray(found[name]).ravel() for name in order}
    return {key: x for name, vector in vectors.items() for key, x in components(name, vector).items()}


def _other(name: str, make: Callable[[Any], Any]) -> Plant:
    """A plant: one advantage made otherwise."""
    return lambda asked: replace(asked, made={**asked.made, name: make(asked.made[name])})


def _endless(asked: _Asked) -> _Asked:
    """Nothing marks the end of the episode."""
    asked.step.batch.ended = torch.zeros_like(asked.step.mask, dtype=torch.bool)
    return asked


def _cut(asked: _Asked) -> _Asked:
    """The value behind the cut is not recorded."""
    asked.step.batch.behavior["successor_value"].zero_()
    return asked


@dataclass(frozen=True)
class _Untruncated(Retrace):
    """Traces that are not truncated at 1."""

    def targets(self, step: Step) -> Tensor:
        """As if nothing were to be truncated: ratios above 1 are kept by hand."""
        plain = super().targets(step)
        return plain + (step.log_ratio.exp() - 1.0).clamp(min=0.0) * (plain - step.current["action_value"])


_POINT = {
    "rewards": (0.5, -0.3, 1.0, 0.2, 0.7),
    "values": (0.4, 0.1, 0.8, -0.2, 0.3),
    "action_values": (0.6, -0.1, 0.9, 0.1, 0.5),
    "other_values": (0.2, 0.3, 0.4, -0.5, 0.1),
    "chances": (0.7, 0.4, 0.6, 0.2, 0.5),
    "ratios": (1.6, 0.5, 1.2, 0.8, 1.9),
    "beyond": 0.9,
    "ends": 2,
    "discount": 0.9,
    "trace": 0.7,
    "steps": 2,
}

trial = Trial(
    points=(_POINT, {**_POINT, "ends": 5, "steps": 3}),
    more=({**_POINT, "ends": 1, "discount": 0.5, "trace": 1.0, "steps": 9},),
    measure=_measure,
    defects={
        "ends not marked": Defect(_endless, _POINT),
        "no value behind the cut": Defect(_cut, _POINT),
        "trace for the discount": Defect(_other("gae", lambda a: advantages.gae(a.trace, a.discount)), _POINT),
        "a step more": Defect(_other("n_step", lambda a: advantages.n_step(a.steps + 1, a.discount)), _POINT),
        "not discounted": Defect(_other("returns", lambda a: advantages.returns_to_go()), _POINT),
        "traces not truncated": Defect(_other("retrace", lambda a: _Untruncated(a.discount, a.trace)), _POINT),
    },
    effect=0.02,
    through="advantage",
    elsewhere=({"steps": 5},),
)
