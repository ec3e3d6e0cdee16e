"""SAT (a sort of the step's tokens): PPO's clip, tightened on the side of log ratios beyond a quantile."""

from __future__ import annotations

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
from asyncsim.methods._weights import by_sign, times

_ROUNDING = 1e-9
"""Sums of masses may miss a share of the tokens by rounding: nine of ten are 0.9 of them."""


@dataclass(frozen=True, kw_only=True)
class Sat(Adaptive):
    """c = rho A where a clip is open that shrinks for outlying tokens; see `sat`."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)
    quantile: Any = field(metadata=MARK)
    kernel: str = "continuous"

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A inside the band of each token."""
        parts, log_ratio = self.parts(step), step.anchored
        gate, broken = self._gate(step, parts, _adaptive.ordered(parts.rows(log_ratio.abs()), None, parts))
        share = self._kernel(log_ratio, parts.back(gate).to(log_ratio.dtype))
        ratio = self.applied(step)
        # Only the endpoint on the side of A can close, so that one bound is enough.
        bound = times(share, by_sign(advantage, self.high, -self.low)).add_(1.0)
        still = times(torch.sub(ratio, bound), advantage.sign()).le_(0.0)
        return _adaptive.stopped(times(still.mul_(ratio), advantage), parts.back(broken))

    def _gate(self, step: Step, parts: _adaptive.Parts, order: _adaptive.Ordered) -> tuple[Tensor, Tensor]:
        """Quantile of |log rho| over the tokens of each part `[R, K]`, and where it is not finite."""
        masses = order.masses()
        goal = _adaptive.row(self.quantile) * masses[..., -1:] * (1.0 - _ROUNDING)
        # At 1 it is the largest, whatever its mass.
        all_of_them = torch.as_tensor(_adaptive.flat(self.quantile) == 1.0)
        place = torch.where(all_of_them, order.number[..., 0] - 1, (masses < goal).sum(-1))
        quantile = order.at(order.value, place)
        quantile = torch.where(masses[..., -1] > 0, quantile, torch.zeros_like(quantile))
        broken = ~quantile.isfinite() | order.broken
        gate = torch.where(broken, torch.zeros_like(quantile), quantile)
        step.statistics["sat_gate"] = gate.mean(-1).double()
        step.statistics["sat_nonfinite"] = broken.sum(-1).double()
        return gate, broken

    def _kernel(self, log_ratio: Tensor, gate: Tensor) -> Tensor:
        """Share H of the band that a token keeps; 1 up to the gate, and everywhere without one."""
        outlying = log_ratio.abs().div_(torch.where(gate > 0, gate, torch.full_like(gate, torch.inf)))
        # Up to the gate the quotient is at most 1, without one it is 0 (or, of infinities, NaN).
        plain = (outlying > 1.0).logical_not_()
        if self.kernel == "continuous":
            outlying.sub_(1.0)
        return outlying.square_().add_(1.0).reciprocal_().masked_fill_(plain, 1.0)


def sat(
    low: Any = 0.2,
    high: Any = 0.2,
    quantile: Any = 0.9,
    kernel: str = "continuous",
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
    scope: str = "step",
    micro_batches: int = 1,
) -> Method:
    """Clip that adapts to outlying ratios: c_it = rho_it A_i inside [1 - low H, 1 + high H], H < 1 beyond a quantile.

    With x = |log rho| and q its quantile over the tokens (the smallest x at or above that share of them), tokens with x
    > q keep the share H(x) of a bound. It is the upper one for rho > 1 and the lower one for rho < 1. `kernel` "hill":
    H = q^2/(q^2 + x^2), 1/2 at the gate; "continuous": 1/(1 + ((x - q)/q)^2), ours, 1 at the gate. The band lies inside
    PPO's, so the surrogate lies below PPO's token by token, and tokens on their way back keep their gradient. With q =
    0 there is no gate. Reconstruction: the kernel's exact form is unseen.

    Arguments: `low` in [0, 1], `high` >= 0, the widest clip (0.2 each); `quantile` in (0, 1] (0.9); each a pure number
    or one per replicate; `kernel`; `anchor` of rho; `advantage` (default group mean); `aggregator`; `scope` "step", or
    "micro_batch" with their number `micro_batches` (samples in order). Returns a `Method` whose weight is `[R, G, N,
    T]`; it reports sat_gate (nats, mean over parts) and sat_nonfinite (parts without a finite one: weights 0). Raises
    `InputError` for values outside their range, unknown names, or micro-batches in scope "step". Source: 2607.18722,
    as described second hand.

    >>> sat(kernel="hill").describe()["quantile"]
    0.9
    """
    weight = Sat(
        low=knob("low", low, "the widest lower bound is 1 - low", 0.0, 1.0),
        high=knob("high", high, "the widest upper bound is 1 + high", 0.0),
        quantile=knob("quantile", quantile, "give a share of the tokens", 0.0, 1.0, open_low=True),
        kernel=checks.one_of("kernel", kernel, ("continuous", "hill"), "say how the band shrinks"),
        **_adaptive.scoped(scope, micro_batches),
    )
    return Method(
        "sat",
        or_default(advantage, advantages.group_mean()),
        weight,
        aggregator,
        anchor=anchor,
        status="reconstruction",
    )
