"""M2PO as released (a sort of the step's tokens): PPO's clip with bounds exp(+-theta), theta from water-filling."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob
from asyncsim.learning.step import Step
from asyncsim.methods import _adaptive
from asyncsim.methods._adaptive import Adaptive
from asyncsim.methods._method import Method
from asyncsim.methods._weights import times


@dataclass(frozen=True, kw_only=True)
class M2poWaterfill(Adaptive):
    """c = rho A where the clip at exp(+-theta) is open; see `m2po_waterfill`."""

    tau: Any = field(metadata=MARK)
    exact: bool = False

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A, 0 where a harmful log ratio is larger than theta."""
        parts = self.parts(step)
        theta, broken = self._level(_adaptive.widening(step.anchored, advantage, parts))
        closed = _adaptive.outward(step.anchored, advantage) > parts.back(theta)
        _adaptive.report(step, "m2po", theta, closed, broken)
        weight = times(self.applied(step), advantage)
        return _adaptive.stopped(weight, closed.logical_or_(parts.back(broken)))

    def _level(self, order: _adaptive.Ordered) -> tuple[Tensor, Tensor]:
        """Bound theta of each part `[R, K]`, infinite where no clip is needed, and where there is no statistic."""
        masses, squares = order.masses(), order.squares()
        total, second = masses[..., -1], squares[..., -1]
        goal = _adaptive.flat(self.tau) * total
        # Sum of mass min(v, v_k) with v = (log rho)^2: what is left if everything above v_k is lowered to it.
        filled = (total.unsqueeze(-1) - masses).mul_(order.value.to(torch.float64, copy=True).square_()).add_(squares)
        before = (filled < goal.unsqueeze(-1)).sum(-1) - 1
        if self.exact:
            rest = total - order.at(masses, before)
            level = (goal - order.at(squares, before)) / torch.where(rest > 0, rest, torch.ones_like(rest))
            theta = level.clamp(min=0.0).sqrt()
        else:
            theta = order.at(order.value, before)
        return torch.where(second <= goal, torch.full_like(theta, math.inf), theta), second.isnan()


def m2po_waterfill(
    tau: Any = 0.04,
    exact: bool = False,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
    scope: str = "step",
    micro_batches: int = 1,
) -> Method:
    """Second-moment trust region as a clip: c_it = rho_it A_i where rho is inside [exp(-theta), exp(theta)].

    The clip closes outward only, as PPO's: on harmful tokens (A > 0 and log rho > theta, or A < 0 and log rho <
    -theta). With v = (log rho)^2 of the n harmful tokens ascending, theta is infinite if their mean is at most tau.
    Otherwise k is the first with v_k (n - k - 1) + v_0 + ... + v_k >= tau n and theta = sqrt(v_(k-1)), 0 for k = 0.
    `exact`: theta^2 = x with sum min(v, x) = tau n, which lies in (v_(k-1), v_k]. The release reports the breakpoint
    below, but no token lies between the two. So both close the same tokens (but for v_k = x to the bit). Steps of few
    tokens, all beyond x, lose every harmful one in either form. No dual clip. The release reads the sign of a
    sequence's first advantage, takes 1e-12 off theta^2 (which closes the breakpoint's own token) and has bounds 0.3 and
    0.5 on top in some copies. Here every token has its own sign, the breakpoint is open and there are no such bounds.

    Arguments: `tau` > 0, nats squared (or one per replicate), published 0.04; `exact`; `anchor` of rho; `advantage`
    (default group mean); `aggregator`; `scope` "step", or "micro_batch" as released, with their number `micro_batches`
    (samples in order). Returns a `Method` whose weight is `[R, G, N, T]`; it reports m2po_theta (nats), m2po_dropped
    (share of tokens), m2po_nonfinite (parts whose statistic is NaN: their weights are 0). Raises `InputError` for tau
    <= 0, unknown names, or micro-batches in scope "step". Source: 2510.01161, in the form of its released code.

    >>> m2po_waterfill(exact=True).describe()["tau"]
    0.04
    """
    weight = M2poWaterfill(
        tau=knob("tau", tau, "give a positive bound of the second moment", 0.0, open_low=True),
        exact=checks.boolean("exact", exact, "say whether the level is solved for"),
        **_adaptive.scoped(scope, micro_batches),
    )
    return Method("m2po_waterfill", or_default(advantage, advantages.group_mean()), weight, aggregator, anchor=anchor)
