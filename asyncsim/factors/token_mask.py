"""Drop tokens whose ratio leaves a band (IcePop, masked importance sampling)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from asyncsim.factors._factor import Band, within
from asyncsim.step import Step


class TokenMask(Band):
    """[low <= ratio of the token <= high]; see `token_mask`."""

    def value(self, step: Step, of_tokens: Tensor) -> Tensor:
        """The token's own log ratio."""
        return of_tokens


def token_mask(low: Any = 0.5, high: Any = 2.0, ratio: str = "r") -> TokenMask:
    """Mask of tokens: c_t -> c_t [low <= rho_t <= high], both bounds included.

    rho_t is r_t = pi/mu (lag, mismatch and drift) or h_t = pi_prox/mu, which a batch's own updates do not change. The
    bounds act on the ratio itself, not on its inverse as a bound on -log r would: [0.6, 1.6] keeps 0.6, not 0.625, and
    loses 1.65. Dropped tokens stay in the denominators, so others are not inflated; a ratio that is not finite is
    dropped. Nothing is dropped where the policies agree.

    Arguments: `low` in [0, 1] and `high` >= 1, pure numbers (or one per replicate); `ratio`, "r" or "h". Published
    bands: 0.5 to 2, 0.5 to 5. Returns a factor `[R, G, N, T]`. Raises `InputError` for bounds outside their range or an
    unknown ratio. Source: 2510.18855, IcePop.

    >>> token_mask(0.5, 5.0).describe()
    {'factor': 'token_mask', 'low': 0.5, 'high': 5.0, 'ratio': 'r'}
    """
    return TokenMask(*within(low, high, ratio))
