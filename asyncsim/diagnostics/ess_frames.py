"""Effective sample size of the token ratios across samples, averaged over positions.

ESS = mean_t (E_i r_it)^2 / E_i r_it^2 with r_it = pi/mu untruncated, E_i over the samples that have a token t, by mass,
and the mean over positions that some sample has: shape `[R]`, a pure number in [1/n, 1]. Blind to products along a
sequence; mixes states that have nothing in common. Source: as in TorchRL's clipped PPO loss.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import token_share
from asyncsim.step import Step


def _across_samples(step: Step) -> Tensor:
    share = token_share(step).flatten(1, 2)
    log_ratio = step.log_ratio.flatten(1, 2)
    present = (share > 0).any(1)
    found = ratios.ess_along(log_ratio, share.expand(log_ratio.shape), 1)
    return torch.where(present, found, torch.zeros_like(found)).sum(-1) / present.sum(-1)


ess_frames = Metric("ess_frames", _across_samples, outputs=("log_prob",), doc=__doc__)
