"""Adam: first over root of second moment, bias-corrected, times the learning rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.base.knobs import MARK, Number, knob
from asyncsim.updates._link import Record, State
from asyncsim.updates._moments import moved


@dataclass(frozen=True)
class Adam:
    """step = lr mhat / (sqrt(vhat) + eps); see `adam`."""

    lr: Any = field(metadata=MARK)
    beta1: Any = field(metadata=MARK)
    beta2: Any = field(metadata=MARK)
    eps: float

    def init(self, parameters: Tensor) -> State:
        """Moments 0, count 0."""
        zeros = torch.zeros_like(parameters)
        return {
            "first": zeros,
            "second": zeros.clone(),
            "count": torch.zeros((parameters.shape[0], 1), dtype=torch.float64, device=parameters.device),
        }

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Replace the direction by Adam's step."""
        g = record.direction
        count = state["count"] + 1.0
        lr, beta1, beta2 = (torch.zeros_like(count) + knob for knob in (self.lr, self.beta1, self.beta2))
        size, scale = lr / (1.0 - beta1**count), 1.0 / (1.0 - beta2**count)
        step, first, second = moved(g, state["first"], state["second"], beta1, beta2, size, scale, self.eps)
        record.direction = step
        return record, {"first": first, "second": second, "count": count}


def adam(lr: Number, beta1: Number = 0.9, beta2: Number = 0.999, eps: float = 1e-8) -> Adam:
    """Adam with bias correction: step = lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps).

    m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2; t counts updates that were not skipped. A uniform
    factor on the gradient before it is nearly without effect; put step controls behind it.

    Arguments: `lr` >= 0 in units of the parameter, `beta1` and `beta2` in [0, 1), each a number or one per replicate;
    `eps` >= 0 in units of the gradient. Returns a link from the gradient to the step, `[R, P]`. Raises `InputError` for
    values outside these ranges. Source: 1412.6980, algorithm 1.

    >>> adam(1e-2).beta2
    0.999
    """
    from asyncsim.base import checks

    return Adam(
        knob("lr", lr, "give a non-negative learning rate", 0.0),
        knob("beta1", beta1, "give a factor below 1", 0.0, 1.0 - 1e-12),
        knob("beta2", beta2, "give a factor below 1", 0.0, 1.0 - 1e-12),
        checks.real("eps", eps, "use a small non-negative number", 0.0),
    )
