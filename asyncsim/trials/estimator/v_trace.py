"""Fixed point and first sweep of the V-trace advantage's targets, on every segment of a ring of states."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, methods
from asyncsim.advantages._traces import Tokens, behind, corrected, tokens
from asyncsim.learning import ratios
from asyncsim.learning.step import Step, given
from asyncsim.methods._method import Method
from asyncsim.trials._sequences import components
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced


def _segments(point: Point) -> tuple[np.ndarray, np.ndarray]:
    """Every start with every sequence of actions: states `[N, n + 1]` and actions `[N, n]`."""
    states, actions = np.shape(point["rewards"])
    rows = np.array(list(itertools.product(range(states), *[range(actions)] * point["steps"])))
    return np.cumsum(rows, axis=1) % states, rows[:, 1:]


def _step(point: Point, method: Method, values: np.ndarray) -> tuple[Step, np.ndarray, np.ndarray]:
    """All segments under critics `[R, S]`, the first states and the chances of the segments from there, `[N]`."""
    tables = [
        torch.log_softmax(torch.tensor(point[f"{name}_logits"], dtype=torch.float64), -1)
        for name in ("current", "behavior")
    ]
    state, action = _segments(point)
    now, then = (table[state[:, :-1], action] for table in tables)

    def column(each: Tensor) -> Tensor:
        return each.expand(len(values), 1, *each.shape[-2:]).contiguous()

    critic = torch.tensor(values)[:, None, state]
    beyond = torch.zeros_like(critic[..., 1:])
    beyond[..., -1] = critic[..., -1]
    recorded = {"log_prob": column(then), "value": critic[..., :-1], "successor_value": beyond}
    outputs = {"log_prob": column(now), "value": critic[..., :-1]}
    step = given(method, outputs, recorded, torch.ones_like(beyond))
    step.batch.token_reward = column(torch.tensor(point["rewards"], dtype=torch.float64)[state[:, :-1], action])
    return step, state[:, 0], then.sum(-1).exp().numpy()


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    states = len(point["rewards"])
    advantage = advantages.vtrace(point["discount"], 1.0, point["rho_cap"], point["trace_cap"])
    method = plant(methods.vtrace(advantage=advantage))
    # Targets are affine in the critic: a critic of 0, and one for each state.
    step, start, chance = _step(point, method, np.vstack([np.zeros(states), np.eye(states)]))
    targets = method.advantage.targets(step)[:, 0, :, 0].numpy()
    means = np.stack([(targets * chance)[:, start == s].sum(axis=1) for s in range(states)])
    first, matrix = means[:, 0], means[:, 1:] - means[:, :1]
    return components("value", np.linalg.solve(np.eye(states) - matrix, first)) | components("first", first)


_Vtrace: Any = type(advantages.vtrace())


@dataclass(frozen=True)
class _Shifted(_Vtrace):
    """The product of traces begins with the next token, as in Retrace."""

    def _corrections(self, step: Step) -> tuple[Tokens, Tensor]:
        trajectory = tokens(step, step.current["value"])
        ratio = ratios.usable(step.log_ratio)
        rho, keep = ratio.clamp(max=self.rho_cap), ratio.clamp(max=self.trace_cap)
        return trajectory, corrected(trajectory, self.discount, rho, behind(trajectory, keep))


_POINT = {
    "behavior_logits": ((0.3, -0.2), (0.0, 0.7), (-0.5, 0.2)),
    "current_logits": ((1.0, -0.6), (-0.4, 0.2), (0.9, -0.3)),
    "rewards": ((0.0, 0.3), (1.0, -0.2), (0.1, 0.6)),
    "discount": 0.8,
    "steps": 3,
}
_ONE = {**_POINT, "rho_cap": 1.0, "trace_cap": 0.7}

trial = Trial(
    points=(_ONE, {**_POINT, "rho_cap": 1.5, "trace_cap": 1.0}, {**_POINT, "rho_cap": 5.0, "trace_cap": 1.0}),
    more=({**_ONE, "discount": 0.95, "steps": 6, "trace_cap": 0.2},),
    measure=_measure,
    defects={
        "ratios of errors not capped": Defect(replaced(advantage=advantages.vtrace(0.8, 1.0, 9.0, 0.7)), _ONE),
        "trace cap on the errors": Defect(replaced(advantage=advantages.vtrace(0.8, 1.0, 0.7, 0.7)), _ONE),
        "product of traces one token off": Defect(replaced(advantage=_Shifted(0.8, 1.0, 1.0, 0.7)), _ONE),
        "another discount": Defect(replaced(advantage=advantages.vtrace(0.85, 1.0, 1.0, 0.7)), _ONE),
    },
    effect=0.02,
    through="advantage",
)
