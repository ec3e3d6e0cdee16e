"""KPop: tokens whose binary KL divergence from behavior is large in either direction are masked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import Masked, bernoulli_kl, passed, square
from asyncsim.methods._weights import times

_EDGE = 1e-6
"""How far probabilities are kept from 0 and 1 inside the divergence."""


@dataclass(frozen=True)
class TwoSidedKL(Masked):
    """c = r A where both binary divergences are at most the threshold; see `kpop`."""

    threshold: Any = field(metadata=MARK)

    def applied(self, step: Step) -> Tensor:
        """Token ratios to behavior, 0 where masked: the mask does not ask for the sign of A, `[R, G, N, T]`."""
        inside = self.inside(step, step.mask)
        return passed(super().applied(step), inside)

    def inside(self, step: Step, advantage: Tensor) -> Tensor:
        """1 where a token is close in both directions, `[R, G, N, T]`."""
        forward, backward = bernoulli_kl(step.current["log_prob"], step.behavior["log_prob"], _EDGE)
        return torch.maximum(forward, backward, out=forward).le_(per_sample(self.threshold))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A of the tokens that are kept."""
        return times(self.applied(step), advantage)


def kpop(
    threshold: Any = 0.05, kl: Any = 1e-3, advantage: Advantage | None = None, aggregator: str = "token_mean"
) -> Method:
    """Two-sided KL mask: c_it = r_it A_i [max(KL(pi, mu), KL(mu, pi)) <= threshold] - 2 kl l_it, l = log r.

    KL(p, q) = p log(p/q) + (1 - p) log((1 - p)/(1 - q)) of the probabilities of the token that was drawn, kept 1e-6
    away from 0 and 1. Moves back are masked like moves away; the gradient of kl l^2 acts on every token. A
    reconstruction: the threshold is ours.

    Arguments: `threshold` >= 0 in nats (or one per replicate); `kl` >= 0 in units of reward (or one per replicate);
    `advantage` (default group mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns
    a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for numbers outside their range and unknown names.
    Source: prime-rl, KPop loss; the same formula in AReaL.

    >>> kpop().describe()["threshold"]
    0.05
    """
    weight = TwoSidedKL(knob("threshold", threshold, "give the largest binary KL divergence in nats", 0.0))
    default = or_default(advantage, advantages.group_mean())
    return Method("kpop", default, weight, aggregator, penalties=square(kl), status="reconstruction")
