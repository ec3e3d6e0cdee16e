"""Plain gradient descent on a policy's loss, taken at the behavior parameters (asynchronous SGD)."""

from __future__ import annotations

from asyncsim import advantages
from asyncsim.methods._method import Method
from asyncsim.methods._weights import NoRatio


def gradient(at: str = "behavior") -> Method:
    """Descent on a policy's own loss: g = -(1/G) sum_i mass_i grad loss_i.

    With `tasks.quadratic` and `updates.sgd(eta)` it is the linear delayed model x_(t+1) = x_t - eta (lambda x_(t-tau) +
    xi_t).

    Arguments: `at`, the parameters at which the gradient is taken: "behavior", those that generated the sample, or
    "current". Returns a `Method` that reads the output `loss` and no log-probs. Raises `InputError` for another `at`.
    Assumes a policy that offers `loss`. Source: textbook (delayed gradient descent).

    >>> gradient().at
    'behavior'
    """
    return Method(
        "gradient",
        advantages.none(),
        NoRatio(),
        "sequence_sum",
        at=at,
        scored=False,
        constants={"loss": -1.0},
        on_policy="gradient of the loss",
    )
