"""M2PO as in AReaL (a sort of the step's tokens): drop tokens by log ratio, then PPO around the proximal policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.methods import _adaptive
from asyncsim.methods._adaptive import Adaptive
from asyncsim.methods._method import Method
from asyncsim.methods._weights import clipped, times


@dataclass(frozen=True, kw_only=True)
class M2poAreal(Adaptive):
    """PPO's c with the ratio to the proximal policy, 0 where |log pi_prox/mu| is too large; see `m2po_areal`."""

    tau: Any = field(metadata=MARK)
    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    anchored: ClassVar[bool] = False
    proximal: ClassVar[bool] = True
    partly: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        """Token ratios to the proximal policy."""
        return ratios.usable(step.drift)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Clipped ratio times A where the token is kept."""
        parts = self.parts(step)
        order = _adaptive.ordered(parts.rows(step.behavior_log_ratio.abs()), None, parts)
        cut, broken = _adaptive.cut(step, order, self.tau, below=True), order.broken
        del order
        closed, left = cut.parted(step, parts, step.behavior_log_ratio.abs(), broken)
        ratio = _adaptive.stopped(self.applied(step), closed)
        del closed
        return times(clipped(ratio, ratio, advantage, 1.0 - per_sample(self.low), 1.0 + per_sample(self.high)), left)


def m2po_areal(
    tau: Any = 0.04,
    low: Any = 0.2,
    high: Any = 0.2,
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
    scope: str = "step",
    micro_batches: int = 1,
) -> Method:
    """Second moment of log pi_prox/mu as a mask: c_it = M_it u_it A_i, PPO's clip on u = pi/pi_prox, M 0 if stale.

    With v = (log mu - log pi_prox)^2 of all generated tokens, the largest are dropped until the mean of the rest is
    below tau; one token at least stays. Of equal tokens the release drops one after the other: here each keeps the
    share of them which stays, the mean over all orders. Tokens that a step would pull back are dropped like any others,
    whatever their advantage. Denominators count all tokens; h = pi_prox/mu itself does not enter c.

    Arguments: `tau` > 0, nats squared, published 0.04; `low` in [0, 1] and `high` >= 0, the clip of u is [1 - low, 1 +
    high] (0.2 each); each a number or one per replicate; `advantage` (default group mean); `aggregator`; `scope`
    "step", or "micro_batch" as released, with their number `micro_batches` (samples in order). Returns a `Method`
    whose weight is `[R, G, N, T]`; it reports m2po_theta (nats), m2po_dropped (share of tokens), m2po_nonfinite (parts
    whose statistic is NaN: their weights are 0). Raises `InputError` for bounds outside their range, unknown names, or
    micro-batches in scope "step". Source: 2510.01161, in the form of AReaL's code.

    >>> m2po_areal().anchor
    'proximal'
    """
    weight = M2poAreal(
        tau=knob("tau", tau, "give a positive bound of the second moment", 0.0, open_low=True),
        low=knob("low", low, "the lower bound is 1 - low", 0.0, 1.0),
        high=knob("high", high, "the upper bound is 1 + high", 0.0),
        **_adaptive.scoped(scope, micro_batches),
    )
    return Method("m2po_areal", or_default(advantage, advantages.group_mean()), weight, aggregator, anchor="proximal")
