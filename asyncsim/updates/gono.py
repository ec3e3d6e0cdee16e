"""Adam whose momentum rises when consecutive gradients align (a reconstruction; an adversarial control)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob
from asyncsim.updates._link import Record, State
from asyncsim.updates._moments import adam_step, cosine, forgotten, moments, remembered


@dataclass(frozen=True)
class Gono:
    """Adam with beta1 (1 + gain cos), limited to [low, high]; see `gono`."""

    lr: Any = field(metadata=MARK)
    gain: Any = field(metadata=MARK)
    beta1: Any = field(metadata=MARK)
    beta2: Any = field(metadata=MARK)
    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)
    eps: float

    def init(self, parameters: Tensor) -> State:
        """Moments 0, nothing decayed, no reference."""
        zeros = torch.zeros_like(parameters)
        ones = torch.ones((parameters.shape[0], 1), dtype=torch.float64, device=parameters.device)
        return {"first": zeros, "second": zeros.clone(), "reference": zeros.clone(), "left1": ones, "left2": ones}

    def lost(self, state: State, flag: Tensor) -> State:
        """A gradient that was lost leaves nothing to compare the next one with."""
        return {**state, "reference": forgotten(state["reference"], flag)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Replace the direction by the step and report the cosine and beta1."""
        g = record.direction
        kappa, _ = cosine(g, state["reference"])
        lr, beta1, beta2, low, high = (
            torch.zeros_like(kappa) + knob for knob in (self.lr, self.beta1, self.beta2, self.low, self.high)
        )
        raised = torch.minimum(torch.maximum(beta1 * (1.0 + self.gain * torch.nan_to_num(kappa)), low), high)
        # Weights of a moment with changing factors add up to one minus their product.
        left1, left2 = state["left1"] * raised, state["left2"] * beta2
        first, second = moments(g, state["first"], state["second"], raised, beta2)
        record.direction = adam_step(first, second, lr / (1.0 - left1), 1.0 / (1.0 - left2), self.eps)
        record.statistics["gono_cosine"], record.statistics["gono_beta1"] = kappa[:, 0], raised[:, 0]
        memory = {"reference": remembered(g), "left1": left1, "left2": left2}
        return record, {"first": first, "second": second, **memory}


def gono(
    lr: Any, gain: Any = 0.1, beta1: Any = 0.9, beta2: Any = 0.999, low: Any = 0.0, high: Any = 0.99, eps: float = 1e-8
) -> Gono:
    """Adam with beta1_t = min(max(beta1 (1 + gain cos_t), low), high), cos_t that of consecutive gradients.

    A control that does the opposite of `align`: it trusts directions that agree and raises their momentum. Where a high
    cosine precedes collapse it makes things worse. Where the mean gradient merely exceeds the noise it does not.
    Without a valid cosine beta1 is not changed. The first moment is corrected by one minus the product of all beta1_t;
    with gain 0 this is `adam`.

    Arguments: `lr` >= 0 in units of the parameter; `gain` >= 0; `beta1`, `beta2` and the limits `low` <= `high` in
    [0, 1), each a pure number (or one per replicate); `eps` >= 0 in units of the gradient. Returns a link from the
    gradient to the step, `[R, P]`, that reports gono_cosine and gono_beta1, `[R]`. Raises `InputError` for values
    outside these ranges. A reconstruction: constants are ours. Source: the rule of 2605.06575, known at second hand.

    >>> gono(1e-2).high
    0.99
    """
    below = 1.0 - 1e-12
    lower = knob("low", low, "give a factor below 1", 0.0, below)
    upper = knob("high", high, "give a factor below 1", 0.0, below)
    crossed = np.any(np.asarray(lower) > np.asarray(upper))
    checks.require(not crossed, "low", low, f"at most high = {high}", "swap the limits")
    return Gono(
        knob("lr", lr, "give a non-negative learning rate", 0.0),
        knob("gain", gain, "0 is adam", 0.0),
        knob("beta1", beta1, "give a factor below 1", 0.0, below),
        knob("beta2", beta2, "give a factor below 1", 0.0, below),
        lower,
        upper,
        checks.real("eps", eps, "use a small non-negative number", 0.0),
    )
