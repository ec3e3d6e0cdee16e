"""KL penalty k3 = exp(-D) - 1 + D: its gradient is that of KL(other || pi), the other direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from asyncsim import ratios
from asyncsim.penalties._divergence import Sampled, k3_value, settings
from asyncsim.step import Step


@dataclass(frozen=True)
class K3(Sampled):
    """c_t = -beta (1 - exp(-D_t)); see `k3`."""

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        """1 - exp(-D)."""
        return 1.0 - ratios.usable(-gap)

    def value(self, step: Step, gap: Tensor) -> Tensor:
        """exp(-D) - 1 + D."""
        return k3_value(gap)


def k3(coefficient: Any = 0.04, to: str = "reference", ratio: str = "none") -> K3:
    """Low-variance estimate exp(-D_t) - 1 + D_t with D_t = log pi - log other, differentiated: c_t = -beta (1 - e^-D).

    The value is an unbiased estimate of KL(pi || other). Its gradient is not that of the value's mean, since the tokens
    are drawn from pi: E_pi[(1 - other/pi) grad log pi] = -sum_v other_v grad log pi_v = grad KL(other || pi), state by
    state. The values are not clamped before they are differentiated, which would let go of the tokens that are
    farthest away. A live ratio times k3 is the same as k2 with the ratio.

    Arguments: `coefficient` beta >= 0, reward per nat (or one per replicate), 0.04 as in 2402.03300; `to`, the other
    policy, "reference", "behavior" or "proximal"; `ratio`, "none", or "token" or "sequence" for the detached ratio to
    behavior. D is limited to +-20 in c. Returns a penalty with `score_weight` `[R, G, N, T]`. Raises `InputError` for a
    negative coefficient or unknown names. Source: 2402.03300, equation 4; gradient derived here.

    >>> k3(0.1, ratio="token").describe()["ratio"]
    'token'
    """
    return K3(*settings(coefficient, to, ratio))
