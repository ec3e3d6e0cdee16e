"""Multiply the learning rate by a constant: the control with the mean scale of an adaptive rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from asyncsim.base.knobs import MARK, knob
from asyncsim.updates._link import Record, State, Stateless


@dataclass(frozen=True)
class Scale(Stateless):
    """direction * factor; see `scale`."""

    factor: Any = field(metadata=MARK)

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Scale the direction and report the scale."""
        size = record.direction.shape[:1]
        factor = torch.zeros((*size, 1), dtype=torch.float64, device=record.direction.device) + self.factor
        record.statistics["scale"] = factor[:, 0]
        record.direction = record.direction * factor.to(record.direction.dtype)
        return record, state


def scale(factor: Any = 1.0) -> Scale:
    """Constant control: step <- factor * step.

    Give it the mean of the scales that `ess_step` or `staleness_step` reported, at the same place in the chain. The
    remaining difference is due to adapting, not to a smaller step.

    Arguments: `factor` >= 0, a pure number (or one per replicate). Returns a link on directions `[R, P]` that reports
    scale, `[R]`. Raises `InputError` for a negative factor, or one that is not finite. Source: this package.

    >>> scale(0.6).factor
    0.6
    """
    return Scale(knob("factor", factor, "give a non-negative factor", 0.0))
