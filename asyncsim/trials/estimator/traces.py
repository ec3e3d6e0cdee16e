"""Cotangents of actor-critic methods on every segment of a ring of states, pulled back to logits and values."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, methods
from asyncsim.learning.step import Step, given
from asyncsim.methods._method import Method
from asyncsim.trials._sequences import components
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


def _method(p: Point) -> Method:
    """The method of a point; all its knobs are read."""
    rates, caps, cap = (p["discount"], p["trace"]), (p["rho_cap"], p["trace_cap"]), p["cap"]
    of_v = {"gae": advantages.gae(*rates), "n_step": advantages.n_step(p["look"], p["discount"])}
    if p["rule"] in of_v:
        found = methods.a2c(of_v[p["rule"]])
    elif p["rule"] == "vtrace":
        found = methods.vtrace(cap, advantages.vtrace(*rates, *caps))
    else:
        make = methods.retrace if p["rule"] == "retrace" else methods.acer
        found = make(cap, advantages.retrace(*rates))
    return found


def _step(p: Point, method: Method) -> tuple[Step, np.ndarray, np.ndarray]:
    """All segments with their chances, and their states and actions, `[N, n]`."""
    now, then = (
        torch.log_softmax(torch.tensor(p[f"{k}_logits"], dtype=torch.float64), -1) for k in ("current", "behavior")
    )
    values, rewards = (torch.tensor(p[name], dtype=torch.float64) for name in ("values", "rewards"))
    states, actions = rewards.shape
    rows = np.array(list(itertools.product(range(states), *[range(actions)] * p["steps"])))
    state, action = np.cumsum(rows, axis=1) % states, rows[:, 1:]
    at, last = state[:, :-1], state[:, -1]
    ended = torch.tensor((at == states - 1) & (action == actions - 1))
    of_actions = p["rule"] in ("retrace", "acer")

    def column(each: Tensor) -> Tensor:
        return each.reshape(1, 1, *each.shape)

    beyond = torch.zeros(at.shape, dtype=torch.float64)
    behind = (then.exp() * values).sum(-1) if of_actions else values[:, 0]
    beyond[:, -1] = behind[last] * ~ended[:, -1]
    outputs = {"log_prob": column(now[at, action]), "log_probs": column(now[at])}
    outputs |= {
        "value": column(values[at, 0]),
        "action_value": column(values[at, action]),
        "action_values": column(values[at]),
    }
    recorded = {"log_prob": column(then[at, action]), "log_probs": column(then[at]), "value": outputs["value"]}
    recorded["successor_value"] = column(beyond)
    chance = column(then[at, action].sum(-1).exp() / states)
    step = given(method, outputs, recorded, torch.ones_like(column(beyond)), mass=chance)
    step.batch.token_reward, step.batch.ended = column(rewards[at, action]), column(ended)
    return step, at, action


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    method: Method = plant(_method(point))
    step, state, action = _step(point, method)
    found = {name: value[0, 0].numpy() for name, value in step.cotangents.items()}
    prob = np.exp(step.current["log_probs"][0, 0].numpy())
    wide = found["log_prob"][..., None] * np.eye(prob.shape[-1])[action] + found.get("log_probs", 0.0)
    actor, critic = np.zeros((2, *np.shape(point["values"])))
    np.add.at(actor, state, wide - wide.sum(-1, keepdims=True) * prob)
    of_actions = method.critic_output == "action_value"
    np.add.at(critic, (state, action if of_actions else np.zeros_like(action)), found[method.critic_output])
    return components("actor", actor.ravel()) | components("critic", (critic if of_actions else critic[:, 0]).ravel())


def _rule(advantage: Any) -> Plant:
    return lambda method: method.replace(advantage=advantage)


def _endless(method: Method) -> Method:
    """Ends of episodes unseen."""

    advantage: Any = method.advantage

    class _Blind(type(advantage)):  # type: ignore[misc]
        def __call__(self, step: Step) -> Tensor:
            other = dataclasses.replace(step, batch=dataclasses.replace(step.batch, ended=None))
            gain: Tensor = super().__call__(other)
            return gain

    settings = {f.name: getattr(advantage, f.name) for f in dataclasses.fields(advantage)}
    return method.replace(advantage=_Blind(**settings))


_POINT = {
    "behavior_logits": ((0.3, -0.2), (0.0, 0.7), (-0.5, 0.2)),
    "current_logits": ((1.0, -0.6), (-0.4, 0.2), (0.9, -0.3)),
    "rewards": ((0.1, 0.3), (1.0, -0.2), (0.1, 0.6)), "values": ((0.5, 0.9), (1.1, 0.2), (0.3, 0.8)),
    "discount": 0.8, "trace": 0.6, "rho_cap": 1.1, "trace_cap": 0.8, "cap": 1.2, "look": 2, "steps": 4,
}  # fmt: skip
_POINTS = {name: {**_POINT, "rule": name} for name in ("gae", "n_step", "vtrace", "retrace", "acer")}

trial = Trial(
    points=tuple(_POINTS.values()),
    more=({**_POINTS["vtrace"], "steps": 6, "trace": 1.0}, {**_POINTS["acer"], "cap": 0.5}),
    measure=_measure,
    defects={
        "discount and trace exchanged": Defect(_rule(advantages.gae(0.6, 0.8)), _POINTS["gae"]),
        "ends unseen": Defect(_endless, _POINTS["gae"]),
        "one token short": Defect(_rule(advantages.n_step(1, 0.8)), _POINTS["n_step"]),
        "caps exchanged": Defect(_rule(advantages.vtrace(0.8, 0.6, 0.8, 1.1)), _POINTS["vtrace"]),
        "untruncated score": Defect(
            lambda method: method.replace(weight=methods.vtrace(1e9).weight), _POINTS["vtrace"]
        ),
        "trace forgotten": Defect(_rule(advantages.retrace(0.8)), _POINTS["retrace"]),
        "correction forgotten": Defect(
            lambda method: method.replace(weight=methods.retrace(1.2).weight), _POINTS["acer"]
        ),
        "half the step of the critic": Defect(lambda method: method.replace(critic=0.25), _POINTS["retrace"]),
    },
    effect=0.02,
    through="advantages and methods",
)
