"""Plain gradient descent on a policy's loss, taken at the behavior parameters (asynchronous SGD)."""

from __future__ import annotations

from asyncsim import advantages
from asyncsim.methods._method import Method
from asyncsim.methods._weights import NoRatio


def gradient(at: str = "behavior") -> Method:
    """g = -sum_i mass_i grad loss_i, at the parameters that generated the sample ("behavior") or the "current" ones.

    Goes with `tasks.quadratic`, where it is the linear delayed model x_{t+1} = x_t - eta (lambda x_{t-tau} + xi_t).

    >>> gradient().at
    'behavior'
    """
    return Method(
        "gradient", advantages.none(), NoRatio(), "sequence_sum", at=at, scored=False, constants={"loss": -1.0}
    )
