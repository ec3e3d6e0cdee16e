"""DRO form, token by token (also Kimi's, as coded for tokens): c = A - tau l."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import knob
from asyncsim.methods._method import Method
from asyncsim.methods._regression import Residual


def dro(
    tau: Any = 0.1, anchor: str = "behavior", advantage: Advantage | None = None, aggregator: str = "token_mean"
) -> Method:
    """Token regression: the gradient of A_i log pi(y_it) - (tau/2) l_it^2, so c_it = A_i - tau l_it.

    l = log(pi/anchor) of the token. Against the square of the sequence's L = sum_t l_t this leaves out the cross terms
    l_t l_s: for one token the two agree. DRO's own advantage is soft, `advantages.soft_value(tau)` for values from
    the group. A token whose l is not finite has weight 0.

    Arguments: `tau` >= 0, reward per nat (0.1 in one code, 0.05 in another), a number or one per replicate; `anchor`
    "behavior" or "proximal"; `advantage` (default group mean); `aggregator`. Returns a `Method` whose weight is
    `[R, G, N, T]`; it reports residual_nonfinite, a count of tokens. Raises `InputError` for a tau below 0 or unknown
    names. Source: 2405.19107, as coded for tokens.

    >>> dro(anchor="proximal").describe()["tau"]
    0.1
    """
    weight = Residual(level="token", tau=knob("tau", tau, "give the price of squared nats in units of reward", 0.0))
    return Method("dro", or_default(advantage, advantages.group_mean()), weight, aggregator, anchor=anchor)
