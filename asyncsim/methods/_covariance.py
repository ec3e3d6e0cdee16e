"""Covariance of advantages and log-probs over the tokens of a step: which tokens make a policy surer of itself."""

from __future__ import annotations

import torch
from torch import Tensor

from asyncsim.learning.step import Step


def covariance(step: Step, advantage: Tensor) -> Tensor:
    """(A_t - mean A)(log pi_t - mean log pi), `[R, G, N, T]`, means over the step's tokens; NaN on masked tokens.

    Where a log-prob that counts is not finite, no token of the replicate has a covariance.
    """
    live = step.mask > 0
    nothing = torch.zeros((), dtype=step.mask.dtype, device=step.mask.device)
    log_prob = torch.where(live, step.current["log_prob"], nothing)
    wide = torch.where(live, advantage.expand(step.mask.shape), nothing)
    mean, level = ((step.share * x).sum((1, 2, 3), keepdim=True) for x in (wide, log_prob))
    return torch.where(live, (wide - mean) * (log_prob - level), torch.full_like(log_prob, torch.nan))
