"""Heavy-ball momentum without dampening."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.base.knobs import MARK, knob
from asyncsim.updates._link import Record, State


@dataclass(frozen=True)
class Momentum:
    """m <- beta m + direction; see `momentum`."""

    beta: Any = field(metadata=MARK)

    def init(self, parameters: Tensor) -> State:
        """Velocity 0."""
        return {"velocity": torch.zeros_like(parameters)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Replace the direction by the velocity."""
        record.direction = self.beta * state["velocity"] + record.direction
        return record, {"velocity": record.direction}


def momentum(beta: Any) -> Momentum:
    """Heavy ball: m <- beta m + g, direction m (no factor 1 - beta on g).

    With `sgd(lr)` behind it: x_(t+1) = x_t + beta (x_t - x_(t-1)) + lr g_t.

    Arguments: `beta` in [0, 1], a pure number (or one per replicate). Returns a link on directions `[R, P]`. Raises
    `InputError` for a beta outside [0, 1]. Source: Polyak 1964 (textbook).

    >>> momentum(0.9).beta
    0.9
    """
    return Momentum(knob("beta", beta, "give a factor in [0, 1]", 0.0, 1.0))
