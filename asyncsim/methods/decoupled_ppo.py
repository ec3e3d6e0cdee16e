"""Decoupled PPO: clip around the start of the batch, importance weight from there to behavior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import per_sample
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.methods._importance import TruncatedClip
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import band, truncation, zero_outside


@dataclass(frozen=True)
class DecoupledClip(TruncatedClip):
    """c = min(h, cap) u A where the clip of u is open; cap None: h as it is; see `decoupled_ppo`."""

    beyond: str

    def carried(self, step: Step) -> Tensor:
        """min(h, cap), or 0 where h is beyond the cap and such tokens are dropped, `[R, G, N, T]`."""
        if self.cap is not None and self.beyond == "truncate":
            return super().carried(step)
        weight = ratios.usable(step.behavior_log_ratio)
        return weight if self.cap is None else zero_outside(weight, weight <= per_sample(self.cap))


def decoupled_ppo(
    low: Any = 0.2,
    high: Any = 0.2,
    cap: Any = 5.0,
    beyond: str = "truncate",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """Two policies in place of one: c_it = min(h_it, cap) u_it A_i where the clip of u is open, 0 where it is closed.

    u = pi/pi_prox, pi_prox the weights at the start of the batch's training; h = pi_prox/mu, the detached correction of
    staleness. The gradient of h min(u A, clip(u) A) is h u A grad log pi where the clip, for A > 0 above 1 + high and
    for A < 0 below 1 - low, is open. The clip sees what the batch's own updates have changed and no staleness; h sees
    the staleness. In the first update of a batch u = 1 and c = min(h, cap) A.

    Arguments: `low` in [0, 1] and `high` >= 0, pure numbers (or one per replicate); `cap` >= 1 on h (or one per
    replicate), None for none; `beyond`, what happens to tokens with h > cap: "truncate" (weight cap) or "drop" (weight
    0, what AReaL does); `advantage` (default group mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean"
    or "constant". Returns a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for bounds outside their range
    and unknown names. Source: 2110.00641, equation 6; 2505.24298 for language models.

    >>> decoupled_ppo(cap=None).proximal
    True
    """
    beyond = checks.one_of("beyond", beyond, ("truncate", "drop"), "say what happens to tokens above the cap")
    weight = DecoupledClip(truncation(cap), *band(low, high), beyond)
    return Method(
        "decoupled_ppo", or_default(advantage, advantages.group_mean()), weight, aggregator, anchor="proximal"
    )
