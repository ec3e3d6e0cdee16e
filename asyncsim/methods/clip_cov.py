"""Clip-Cov: PPO's clip, and of the tokens whose advantage and log-prob go together a part without gradient."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step
from asyncsim.methods._covariance import covariance
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import band
from asyncsim.methods._weights import Clip, movable


@dataclass(frozen=True)
class CovarianceClip(Clip):
    """PPO's weight, less `share` of the tokens whose covariance is in a band; see `clip_cov`."""

    share: Any = field(metadata=MARK)
    lower: Any = field(metadata=MARK)
    upper: Any = field(metadata=MARK)

    selects: ClassVar[bool] = True
    partly: ClassVar[bool] = True

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """PPO's weight times the chance of a token to stay."""
        kept = self._kept(step, advantage)
        return kept.mul_(super().score_weight(step, advantage))

    def _kept(self, step: Step, advantage: Tensor) -> Tensor:
        """1 outside the band; inside 1 - share / (mass of the band), or 0 where the band has less than that."""
        lowest, highest = 1.0 - per_sample(self.low), 1.0 + per_sample(self.high)
        inside = self._in_band(covariance(step, advantage))
        inside.mul_(movable(self.applied(step), advantage, lowest, highest))
        mass = (step.share * inside).sum((1, 2, 3), keepdim=True)
        # A number divided by a tensor is not, to the last bit, the same in a tensor of such numbers.
        dropped = per_sample(self.share) * torch.where(mass > 0, mass, torch.ones_like(mass)).reciprocal()
        return inside.mul_(dropped.clamp(max=1.0)).neg_().add_(1.0)

    def _in_band(self, together: Tensor) -> Tensor:
        """1 where the covariance is in the band, 0 elsewhere."""
        inside = (together > per_sample(self.lower)) & (together < per_sample(self.upper))
        return inside.to(together.dtype)


def clip_cov(
    share: Any = 2e-4,
    lower: Any = 1.0,
    upper: Any = 5.0,
    low: Any = 0.2,
    high: Any = 0.2,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """PPO's clip without a share of the tokens of high covariance: c_t = c_PPO(rho_t) (1 - share / m [v_t in band]).

    v_t = (A_t - mean A)(log pi_t - mean log pi), means over the tokens of the step: tokens that are likely and good, or
    unlikely and bad, make the policy surer, and lose it entropy. Of those with lower < v < upper on which PPO's clip is
    open, a share of m among all tokens, the release draws share x tokens at random (one at least) and stops their
    gradient. Here every one of them has the mean over that draw, 1 - share / m, at least 0: no draw, same mean
    direction. A reconstruction in this. Denominators count what is stopped.

    Arguments: `share` in (0, 1] of the step's tokens; `lower` < `upper` in units of advantage times nats; `low` in
    [0, 1] and `high` >= 0, pure numbers; each may be one per replicate; `anchor` of the ratio, "behavior" or
    "proximal"; `advantage` (default group standard deviation); `aggregator`, "sequence_sum", "sequence_mean",
    "token_mean" or "constant". Returns a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for numbers
    outside their range, a band that is empty, unknown names, and in a run with groups of one. Source: 2505.22617,
    Clip-Cov; verl, `compute_policy_loss_clip_cov`, for the order of both clips.

    >>> clip_cov(share=0.01).describe()["share"]
    0.01
    """
    lowest, highest = band(low, high)
    lower = knob("lower", lower, "give the covariance from which tokens may be stopped")
    upper = knob("upper", upper, "give the covariance up to which tokens may be stopped")
    ends = "below upper, so that the band holds something"
    checks.require(bool(np.all(np.less(lower, upper))), "lower", lower, ends, "use 1 and 5")
    share = knob(
        "share", share, "give the part of all tokens that is stopped, 0.0002 in print", 0.0, 1.0, open_low=True
    )
    return Method(
        "clip_cov",
        or_default(advantage, advantages.group_std()),
        CovarianceClip(lowest, highest, share, lower, upper),
        aggregator,
        anchor=anchor,
        on_policy="policy gradient with fewer tokens of high covariance",
        status="reconstruction",
    )
