"""AsymRE: REINFORCE without ratios, its baseline shifted below the behavior's value."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import advantages
from asyncsim.base import checks
from asyncsim.base.knobs import knob
from asyncsim.methods._method import Method
from asyncsim.methods._weights import NoRatio


def asymre(dv: Any = -0.1, value: Any = None, aggregator: str = "sequence_sum") -> Method:
    """Asymmetric REINFORCE: c_i = r_i - (V + dV) on stale data, V the behavior's value.

    With V = E_mu r and one softmax the mean direction is mu (r - V - dV) + dV pi: for dV < 0 a gradient flow that ends
    inside the simplex (`optimum/asymre-projection`), for dV >= 0 one that suppresses most of the support. On-policy a
    constant in the baseline has mean gradient 0 (for V from the group: a factor 1 - 1/N remains).

    Arguments: `dv`, in units of reward (-0.1); `value` V, in units of reward (default: each group's mean); each a
    number or one per replicate; `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a
    `Method` whose weight is `[R, G, N, 1]`. Raises `InputError` for numbers that are not finite or an unknown
    aggregator. Source: 2506.20520.

    >>> asymre().describe()["shift"]
    -0.1
    """
    if value is None:
        advantage: Any = advantages.group_mean(shift=knob("dv", dv, "give a finite shift of the value"))
    else:
        shift, level = (
            np.asarray(knob(name, number, "give a finite value")) for name, number in (("dv", dv), ("value", value))
        )
        checks.require(
            shift.ndim == 0 or level.ndim == 0 or shift.shape == level.shape,
            "value",
            checks.shown(value),
            f"one number, or as many as dv ({shift.size})",
            "give one per replicate of both",
        )
        advantage = advantages.offset(shift + level)
    return Method("asymre", advantage, NoRatio(), aggregator, on_policy="policy gradient in mean")
