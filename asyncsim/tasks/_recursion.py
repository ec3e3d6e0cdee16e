"""The table of a policy's probabilities with its pullback: what exact recursions over states read and return."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from asyncsim.policies._policy import Policy
from asyncsim.step import versions
from asyncsim.step.batch import Batch


class Cells(NamedTuple):
    """pi(a|s) `[R, S, A]`; and from weights `[R, S, A]` on grad log pi(a|s) to their sum over cells, `[R, P]`."""

    prob: Tensor
    pull: Callable[[Tensor], Tensor]


def cells(policy: Policy, parameters: Tensor, rows: int, actions: int) -> Cells:
    """Every (state, action) of a policy that reads rows of a table, asked of it as one batch of single tokens."""
    # Enumerate states and actions as tokens.
    R = parameters.shape[0]
    state = torch.arange(rows).repeat_interleave(actions).reshape(1, 1, -1, 1).repeat(R, 1, 1, 1)
    action = torch.arange(actions).repeat(rows).reshape(1, 1, -1, 1).repeat(R, 1, 1, 1)
    none = torch.zeros(state.shape[:3], dtype=torch.float64)
    batch = Batch.of_nobody(action, state, torch.ones(state.shape, dtype=torch.float64), none, none, float("inf"))
    # Evaluate the policy on them.
    forward = policy.forward(versions.current(policy.prepare(parameters)), batch, ("log_prob",))
    prob = forward.outputs["log_prob"].double().exp().reshape(R, rows, actions)
    return Cells(prob, lambda weight: forward.pullback({"log_prob": weight.reshape(state.shape).to(parameters.dtype)}))


def tilted(behavior: Tensor, current: Tensor, power: float) -> Tensor:
    """mu (pi/mu)^power of every cell, `[R, S, A]`: 0 where behavior never goes, whose ratio is never drawn."""
    ratio = torch.where(behavior > 0, current / behavior, torch.zeros((), dtype=behavior.dtype))
    return behavior * ratio**power
