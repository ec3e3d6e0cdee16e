"""M2PO, mask form (a sort of the step's tokens): drop harmful tokens until the mean squared log ratio is tau."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

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
class M2poMask(Adaptive):
    """c = rho A, 0 for harmful tokens with |log rho| above the threshold of their part; see `m2po_mask`."""

    tau: Any = field(metadata=MARK)
    over: str = "harmful"

    partly: ClassVar[bool] = True

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A where kept."""
        parts, rest = self.parts(step), None
        order = _adaptive.widening(step.anchored, advantage, parts)
        broken = order.broken
        if self.over == "all":
            harmful = parts.rows(_adaptive.harmful(_adaptive.outward(step.anchored, advantage), advantage))
            mass = parts.mass.masked_fill(harmful, 0.0).double()
            square = parts.rows(step.anchored).masked_fill(mass == 0, 0.0).double().square_()
            rest = mass.sum(-1), (mass * square).sum(-1)
            broken = broken | rest[1].isnan()
        cut = _adaptive.cut(step, order, self.tau, rest)
        del order
        closed, left = cut.parted(step, parts, _adaptive.outward(step.anchored, advantage), broken)
        return _adaptive.stopped(times(times(self.applied(step), advantage), left), closed)


def m2po_mask(
    tau: Any = 0.04,
    over: str = "harmful",
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
    scope: str = "step",
    micro_batches: int = 1,
) -> Method:
    """Second-moment trust region as a mask: c_it = rho_it A_i, 0 for the harmful tokens with the largest (log rho)^2.

    Harmful: A > 0 and rho > 1, or A < 0 and rho < 1, where a step widens the gap. The largest are dropped until the
    mean of (log rho)^2 = M2 <= tau over the harmful tokens that remain (`over` "harmful"), or over all that remain
    ("all"; only harmful ones can go). Since sorted squares have rising means, keeping every |log rho| <= theta with the
    largest such theta is the rule. Of equal tokens, as tables have many, the paper drops one after the other: here each
    keeps the mean over all orders, that share of them which stays. No draw, same mean direction. Denominators count all
    tokens. The form "all" is a reconstruction.

    Arguments: `tau` > 0, nats squared (or one per replicate), published 0.04; `over`; `anchor` of rho; `advantage`
    (default group mean); `aggregator`; `scope` "step" or "micro_batch" with their number `micro_batches` (samples in
    order). Returns a `Method` whose weight is `[R, G, N, T]`; it reports m2po_theta (nats), m2po_dropped (share of
    tokens), m2po_nonfinite (parts whose statistic is NaN: their weights are 0). Raises `InputError` for tau <= 0,
    unknown names, or micro-batches in scope "step". Source: 2510.01161, algorithm 1.

    >>> m2po_mask().describe()["over"]
    'harmful'
    """
    weight = M2poMask(
        tau=knob("tau", tau, "give a positive bound of the second moment", 0.0, open_low=True),
        over=checks.one_of("over", over, ("harmful", "all"), "say over which tokens the mean runs"),
        **_adaptive.scoped(scope, micro_batches),
    )
    return Method(
        "m2po_mask",
        or_default(advantage, advantages.group_mean()),
        weight,
        aggregator,
        anchor=anchor,
        status="published" if over == "harmful" else "reconstruction",
    )
