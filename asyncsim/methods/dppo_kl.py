"""DPPO with binary KL divergence: tokens that have left the trust region outward are masked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, per_sample
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import Truncated, one_way_kl, span, truncation
from asyncsim.methods._weights import movable, times

_EDGE = 1e-6
"""How far probabilities are kept from 0 and 1 inside the divergence."""


@dataclass(frozen=True)
class BinaryKL(Truncated):
    """c = min(r, cap) A unless the token has left the trust region on the side of A; see `dppo_kl`."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    def inside(self, step: Step, advantage: Tensor) -> Tensor:
        """1 where a token may still move along A, `[R, G, N, T]`."""
        divergence = one_way_kl(step.behavior["log_prob"], step.current["log_prob"], _EDGE)
        # With the sign of the move it is one quantity between two bounds.
        signed = times(divergence, step.log_ratio.sign())
        return movable(signed, advantage, -per_sample(self.low), per_sample(self.high))


def dppo_kl(
    low: Any = 0.05,
    high: Any = 0.05,
    cap: Any = 10.0,
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """Divergence PPO, binary KL: c_it = min(r_it, cap) A_i, 0 for tokens that are too far out and would go further.

    Outside: mu log(mu/pi) + (1 - mu) log((1 - mu)/(1 - pi)) > high and pi > mu for A > 0, or > low and pi < mu
    otherwise; mu and pi are the probabilities of the token that was drawn, all others seen as one, both kept 1e-6 away
    from 0 and 1. The way back stays open. The truncated ratio is detached.

    Arguments: `low` and `high` >= 0 in nats (or one per replicate); `cap` >= 1 (or one per replicate), None for none;
    `advantage` (default group mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns
    a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for numbers outside their range and unknown names.
    Source: 2602.04879, binary form.

    >>> dppo_kl(cap=None).describe()["high"]
    0.05
    """
    weight = BinaryKL(truncation(cap), *span(low, high, "the binary KL divergence"))
    return Method("dppo_kl", or_default(advantage, advantages.group_mean()), weight, aggregator)
