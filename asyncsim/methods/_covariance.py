"""Covariance of advantages and log-probs over the tokens of a step: which tokens make a policy surer of itself."""

from __future__ import annotations

import torch
from torch import Tensor

from asyncsim.step.step import Step


def covariance(step: Step, advantage: Tensor) -> Tensor:
    """(A_t - mean A)(log pi_t - mean log pi), `[R, G, N, T]`, means over the step's tokens; NaN on masked tokens.

    Where a log-prob that counts is not finite, no token of the replicate has a covariance.
    """
    live = step.mask > 0
    # One after the other, and in place: few arrays of the step's size at one time.
    wide = _centered(step, live, advantage.expand(step.mask.shape))
    wide.mul_(_centered(step, live, step.current["log_prob"]))
    return torch.where(live, wide, torch.full((), torch.nan, dtype=wide.dtype, device=wide.device))


def _centered(step: Step, live: Tensor, each: Tensor) -> Tensor:
    """Numbers of tokens less their mean over the step."""
    kept = torch.where(live, each, torch.zeros((), dtype=step.mask.dtype, device=step.mask.device))
    return kept.sub_((step.share * kept).sum((1, 2, 3), keepdim=True))
