"""GSPO: PPO's clip on the geometric mean of a sequence's token ratios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import band
from asyncsim.methods._weights import Clip


@dataclass(frozen=True)
class GeometricClip(Clip):
    """c = s A where the clip of s is open; see `gspo`."""

    level: ClassVar[str] = "geometric"  # type: ignore[misc]

    def applied(self, step: Step) -> Tensor:
        """Geometric means of the token ratios to the anchor, `[R, G, N, 1]`."""
        return ratios.usable(step.geometric(step.anchored))


def gspo(
    low: Any = 3e-4,
    high: Any = 4e-4,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "sequence_mean",
) -> Method:
    """Group sequence policy optimization: c_it = s_i A_i where the clip of s is open, s_i = (prod_t rho_it)^(1/T_i).

    grad min(s A, clip(s) A) = s A mean_t grad log pi where the clip (for A > 0 above 1 + high, for A < 0 below 1 - low)
    is open: with the sequence mean that is c = s A on every token. The form with s_it = sg(s_i) pi/sg(pi) per token has
    the same c, and allows for advantages that differ from token to token. s is not an importance weight. Bands are
    narrow because the mean over T tokens is: a large share of clipped sequences is normal.

    Arguments: `low` in [0, 1] and `high` >= 0, pure numbers (or one per replicate); `anchor` of the ratio, "behavior"
    or "proximal"; `advantage` (default group standard deviation); `aggregator`, "sequence_sum", "sequence_mean",
    "token_mean" or "constant". Returns a `Method` whose weight is `[R, G, N, 1]`. Raises `InputError` for bounds
    outside their range, unknown names, and in a run with groups of one. Source: 2507.18071, equations 5 and 13.

    >>> gspo().describe()["level"]
    'geometric'
    """
    weight = GeometricClip(*band(low, high))
    return Method("gspo", or_default(advantage, advantages.group_std()), weight, aggregator, anchor=anchor)
