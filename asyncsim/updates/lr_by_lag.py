"""Divide the learning rate by the largest staleness of the run so far."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from asyncsim.updates._link import Record, State


@dataclass(frozen=True)
class LrByLag:
    """direction / max(1, largest update staleness so far); see `lr_by_lag`."""

    def init(self, parameters: Tensor) -> State:
        """Nothing was stale yet."""
        R = parameters.shape[0]
        return {"largest": torch.zeros((R, 1), dtype=torch.float64, device=parameters.device)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Scale the direction and report the scale."""
        largest = torch.maximum(state["largest"], record.step.update_staleness.unsqueeze(-1))
        scale = 1.0 / largest.clamp(min=1.0)
        record.statistics["lr_by_lag_scale"] = scale[:, 0]
        record.direction = record.direction * scale.to(record.direction.dtype)
        return record, {"largest": largest}


def lr_by_lag() -> LrByLag:
    """Step size by maximum lag: step <- step / max(1, S), S the largest update staleness realized so far.

    The stable step of delayed gradient descent falls as 1/S, and S is realized, not configured. The scale never rises
    again (`staleness_step` follows each batch). Put it behind `adam`.

    Returns a link on directions `[R, P]` that reports lr_by_lag_scale, `[R]`, a pure number. Source: 1909.12340.

    >>> lr_by_lag()
    LrByLag()
    """
    return LrByLag()
