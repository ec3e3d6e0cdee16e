"""Drop whole sequences that contain a token which the current policy would hardly draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim import checks
from asyncsim.factors._factor import RATIOS, Mask, log_bound, log_ratio
from asyncsim.knobs import MARK, knob
from asyncsim.step import Step


@dataclass(frozen=True)
class TokenVeto(Mask):
    """[min_t rho_t >= threshold]; see `token_veto`."""

    threshold: Any = field(default=1e-4, metadata=MARK)
    ratio: str = "r"

    @property
    def proximal(self) -> bool:
        """Whether it reads log-probs of the proximal policy."""
        return self.ratio == "h"

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Sequences without such a token, `[R, G, N, 1]`."""
        of_tokens = log_ratio(step, self.ratio)
        # NaN passes no comparison; infinity is no ratio.
        return ((of_tokens >= log_bound(self.threshold)) & (of_tokens < torch.inf)).all(-1, keepdim=True)


def token_veto(threshold: Any = 1e-4, ratio: str = "r") -> TokenVeto:
    """Mask of sequences: c_t -> c_t [min_k rho_k >= threshold], one token vetoes all of its sequence.

    rho is r = pi/mu or h = pi_prox/mu. One-sided: a token that became likelier vetoes nothing, however much
    (`k2_mask(9.21**2 / 2, "max")` is the two-sided form). A ratio that is not finite vetoes too.

    Arguments: `threshold` in [0, 1], a pure number (or one per replicate); `ratio`, "r" or "h". Returns a factor
    `[R, G, N, 1]`. Raises `InputError` for a threshold outside its range or an unknown ratio. Source: verl,
    documentation of rollout correction, veto threshold (older versions).

    >>> token_veto().describe()
    {'factor': 'token_veto', 'threshold': 0.0001, 'ratio': 'r'}
    """
    return TokenVeto(
        knob("threshold", threshold, "on-policy data has ratio 1; give a small ratio such as 1e-4", 0.0, 1.0),
        checks.one_of("ratio", ratio, RATIOS, "r is pi/mu, h is pi_prox/mu"),
    )
