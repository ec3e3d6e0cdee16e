"""P3O (a scan of the step's tokens): ratios capped at the token ESS of the step, KL with what it lacks of 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.methods import _adaptive
from asyncsim.methods._adaptive import Adaptive
from asyncsim.methods._method import Method
from asyncsim.methods._weights import times


@dataclass(frozen=True, kw_only=True)
class P3o(Adaptive):
    """c = min(r, E) A - (1 - E) times the slope of a KL term; see `p3o`."""

    kl: str = "ratio"

    anchored: ClassVar[bool] = False

    def applied(self, step: Step) -> Tensor:
        """min(r, E), without the KL term."""
        ratio = ratios.usable(step.log_ratio)
        return torch.minimum(ratio, self._ess(step, ratio))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Capped ratio times A, pulled back by the KL term."""
        ratio = ratios.usable(step.log_ratio)
        ess = self._ess(step, ratio)
        if self.kl == "ratio":
            slope = step.log_ratio.clamp(-ratios.LOG_LIMIT, ratios.LOG_LIMIT).mul_(ratio)
        else:
            slope = ratios.usable(-step.log_ratio).neg_().add_(1.0)
        weight = times(torch.minimum(ratio, ess, out=ratio), advantage).sub_(times(slope, 1.0 - ess))
        return _adaptive.stopped(weight, ess == 0)

    def _ess(self, step: Step, ratio: Tensor) -> Tensor:
        """E of each part where its samples stand; 0 where it is not finite."""
        parts = self.parts(step)
        total = parts.mass.sum(-1, dtype=torch.float64)
        rows = parts.rows(ratio)
        weighted = parts.mass * rows
        first = weighted.sum(-1, dtype=torch.float64)
        ess = first * first / (weighted.mul_(rows).sum(-1, dtype=torch.float64) * total)
        del rows, weighted
        if not _unlimited(*torch.aminmax(step.log_ratio)):
            # The limit is one of use: where it binds, the statistic is computed in log space, without it.
            log_ratio = parts.rows(step.log_ratio)
            each = ratios.ess(log_ratio.flatten(0, 1), parts.mass.flatten(0, 1)).reshape(total.shape)
            ess = torch.where(_unlimited(*torch.aminmax(log_ratio, dim=-1)), ess, each / total)
        # A part without a single token that counts says nothing.
        ess = torch.where(total > 0, ess, torch.ones_like(ess))
        broken = ~ess.isfinite()
        ess = torch.where(broken, torch.zeros_like(ess), ess)
        step.statistics["p3o_ess"] = ess.mean(-1)
        step.statistics["p3o_nonfinite"] = broken.sum(-1).double()
        return parts.back(ess).to(step.mask.dtype)


def _unlimited(least: Tensor, largest: Tensor) -> Tensor:
    """Whether no log ratio between these had to be limited for use."""
    return (least >= -ratios.LOG_LIMIT) & (largest <= ratios.LOG_LIMIT)


def p3o(
    kl: str = "ratio",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
    scope: str = "step",
    micro_batches: int = 1,
) -> Method:
    """Policy-on policy-off optimization: c_it = min(r_it, E) A_i - (1 - E) k_it, E the token ESS of the step.

    E = (sum r)^2 / (n sum r^2) over the n generated tokens, detached and unclipped; below 1 it caps ordinary tokens
    too. k is the slope of an estimate of KL(pi||mu) at tokens of mu. `kl` "ratio": value r (1/r - 1 + l), so k = r l,
    whose mean under mu is the exact gradient of each state's KL(pi||mu). "code": value 1/r - 1 + l without a ratio, k =
    1 - 1/r, whose mean descends E_mu[mu/pi] - KL(mu||pi) instead. At E = 1 nothing is left of the term. Where E is not
    finite nothing moves (weights 0); the release goes on with E = 1. Reconstruction: the estimate is ours to choose.

    Arguments: `kl`; `advantage` (default group mean); `aggregator`; `scope` "step", or "micro_batch" as released, with
    their number `micro_batches` (samples in order). Returns a `Method` whose weight is `[R, G, N, T]`; it reports
    p3o_ess (mean over parts, a pure number) and p3o_nonfinite (parts without a finite one). Raises `InputError` for
    unknown names, or micro-batches in scope "step". Source: 2605.12380, and its code for the form "code".

    >>> p3o().describe()["kl"]
    'ratio'
    """
    weight = P3o(
        kl=checks.one_of("kl", kl, ("ratio", "code"), "say how the divergence is estimated"),
        **_adaptive.scoped(scope, micro_batches),
    )
    return Method("p3o", or_default(advantage, advantages.group_mean()), weight, aggregator, status="reconstruction")
