"""INTELLECT policy optimization: tokens whose probability has moved, either way, are masked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import Masked, gained, passed, square
from asyncsim.methods._weights import times


@dataclass(frozen=True)
class SymmetricMask(Masked):
    """c = r A where |pi - mu| <= threshold; see `ipo_mask`."""

    threshold: Any = field(metadata=MARK)

    def applied(self, step: Step) -> Tensor:
        """Token ratios to behavior, 0 where masked: the mask does not ask for the sign of A, `[R, G, N, T]`."""
        inside = self.inside(step, step.mask)
        return passed(super().applied(step), inside)

    def inside(self, step: Step, advantage: Tensor) -> Tensor:
        """1 where a token has hardly moved, `[R, G, N, T]`."""
        return gained(step).abs_().le_(per_sample(self.threshold))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A of the tokens that are kept."""
        return times(self.applied(step), advantage)


def ipo_mask(
    threshold: Any = 0.1, kl: Any = 1e-3, advantage: Advantage | None = None, aggregator: str = "token_mean"
) -> Method:
    """Symmetric mask in probabilities: c_it = r_it A_i [|pi - mu| <= threshold] - 2 kl l_it, l = log r.

    Unlike `dppo_prime` it also masks moves that would bring a token back. Only the second term, the gradient of kl l^2
    on every token, returns those that are outside. Not the preference method of the same abbreviation.

    Arguments: `threshold` >= 0, a probability (or one per replicate); `kl` >= 0 in units of reward (or one per
    replicate); `advantage` (default group mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or
    "constant". Returns a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for numbers outside their range
    and unknown names. Source: prime-rl, IPO loss.

    >>> ipo_mask().describe()["threshold"]
    0.1
    """
    weight = SymmetricMask(knob("threshold", threshold, "give how far the probability may have moved", 0.0))
    return Method("ipo_mask", or_default(advantage, advantages.group_mean()), weight, aggregator, penalties=square(kl))
