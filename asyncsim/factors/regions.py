"""Regions: tokens and sequences by how far they have moved, and whether they move on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import choice, flag, number
from asyncsim.factors._factor import RATIO, Mask, factor, log_ratio
from asyncsim.step.step import Step


@factor("verl, `compute_policy_loss_vanilla`, and OpenRLHF, `PolicyLoss`, as released")
class log_clamp(Mask):
    """Stop tokens whose log ratio lies beyond a clamp, as a clamp that is differentiated does.

    Clamp with a dead gradient: c_t -> c_t [|l_t| <= limit], l = log r (token), its sum or its mean over the sequence.
    Trainers limit a live log ratio before they exponentiate it, exp(clamp(l, -limit, limit)) A: beyond the limit that
    is a constant without gradient, also where the clip would let the token come back. asyncsim keeps its weight there,
    e^20 A or e^-20 A, unless this factor is given. A detached weight is only limited by such a clamp and needs no
    factor. Stopped tokens stay in the denominators; a ratio that is not finite is stopped. In print the limit is 20,
    and 10 for means of sequences.
    """

    limit: Any = number(
        20.0, "in nats", 0.0, 20.0, above=True, remedy="give nats above 0, at most 20, where every log ratio ends"
    )
    level: str = choice("token", "sequence", "geometric", words="of what the log ratio is clamped")
    ratio: str = choice(
        "r", "u", "h", words="pi/mu, pi/pi_prox or pi_prox/mu", remedy="r is pi/mu, u is pi/pi_prox, h is pi_prox/mu"
    )

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Where the log ratio is inside the clamp, `[R, G, N, T or 1]`."""
        each = step.drift if self.ratio == "u" else log_ratio(step, self.ratio)
        if self.level != "token":
            each = step.sequence(each.double()) if self.level == "sequence" else step.geometric(each.double())
        return each.abs() <= per_sample(self.limit)


@factor("open-instruct, `rho_mask_tv_divergence`, as released (signed, h, its upper bound)")
class tv_mask(Mask):
    """Drop sequences whose sampled total variation from behavior is large.

    Mask of sequences: c_t -> c_t [D_i <= high], D_i = mean_t |rho_t - 1|. rho is r = pi/mu or h = pi_prox/mu. E_mu |r -
    1| of a token is twice the total variation between both policies in its state, so D estimates twice its mean over
    the sequence. Ratios above and below 1 do not cancel, as they do in `geometric_mask`, and |rho - 1| is at most 1
    below 1: a token that has become impossible counts 1. With `signed` a far sequence loses only the tokens on which a
    step along A would go further, l_t A > 0. Summed in float64; what is not finite is dropped, and a dropped sequence
    stays in the denominators. The usual bound is ours.
    """

    high: Any = number(0.2, "largest mean of |ratio - 1| that stays", 0.0)
    signed: bool = flag("tokens that come back stay")
    ratio: str = RATIO

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Sequences that are near, `[R, G, N, 1]`; with `signed` also tokens that come back, `[R, G, N, T]`."""
        of_tokens = log_ratio(step, self.ratio)
        distance = step.geometric(torch.expm1(of_tokens.double()).abs())
        near = distance <= per_sample(self.high)
        if not self.signed:
            return near
        # A sequence that holds a ratio of infinity, or of NaN, has no way back.
        return near | (torch.isfinite(distance) & (of_tokens * advantage <= 0))
