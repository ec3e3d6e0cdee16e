"""Mean squared token log ratio over harmful tokens: those moved in the direction of their advantage.

M2 = E [l^2 | H] with l_it = log pi/mu and H = {A > 0, l > 0} or {A < 0, l < 0}, by mass: shape `[R]`, in nats squared,
0 where H is empty. Blind to tokens that moved back, and to how many are harmful. Source: 2510.01161.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asyncsim.diagnostics._applied import advantages
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import token_share
from asyncsim.step import Step


def _harmful(step: Step) -> Tensor:
    log_ratio = step.log_ratio
    share = token_share(step)
    held = torch.where(advantages(step) * log_ratio > 0, share, torch.zeros_like(share))
    total = held.sum((1, 2, 3))
    found = (held * log_ratio**2).sum((1, 2, 3)) / torch.where(total > 0, total, torch.ones_like(total))
    # A log ratio that is NaN is neither: it must not pass as harmless.
    broken = (share * log_ratio).sum((1, 2, 3))
    return torch.where(torch.isnan(broken), broken, found)


m2_harmful = Metric("m2_harmful", _harmful, outputs=("log_prob",), doc=__doc__)
