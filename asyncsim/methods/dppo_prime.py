"""DPPO as prime-rl has it: the total-variation mask, ratios without a cap, a squared log ratio on every token."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import Masked, near, span, square


@dataclass(frozen=True)
class UncappedVariation(Masked):
    """c = r A where pi - mu is small enough on the side of A; see `dppo_prime`."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    def inside(self, step: Step, advantage: Tensor) -> Tensor:
        """1 where a token may still move along A, `[R, G, N, T]`."""
        return near(step, advantage, self.low, self.high)


def dppo_prime(
    low: Any = 0.2, high: Any = 0.2, kl: Any = 1e-3, advantage: Advantage | None = None, aggregator: str = "token_mean"
) -> Method:
    """Divergence PPO with a pull to behavior: c_it = M_it r_it A_i - 2 kl l_it, l = log r = log pi - log mu.

    M = [pi - mu <= high] for A > 0 and [pi - mu >= -low] otherwise, as in `dppo_tv`, but r is not truncated. The second
    term is the gradient of kl l^2 (no 1/2). It is a penalty of its own (`penalties.k2`): tokens that M masks have it,
    too, and factors leave it alone.

    Arguments: `low` and `high` >= 0, probabilities (or one per replicate); `kl` >= 0 in units of reward (or one per
    replicate); `advantage` (default group mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or
    "constant". Returns a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for numbers outside their range
    and unknown names. Source: prime-rl, default loss; 2602.04879 for the mask.

    >>> dppo_prime().describe()["penalties"][0]["to"]
    'behavior'
    """
    weight = UncappedVariation(*span(low, high, "the probability"))
    return Method(
        "dppo_prime", or_default(advantage, advantages.group_mean()), weight, aggregator, penalties=square(kl)
    )
