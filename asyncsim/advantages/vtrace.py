"""V-trace: returns corrected by truncated ratios toward the values of the current policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.advantages._advantage import Baseline
from asyncsim.advantages._traces import Tokens, corrected, following, tokens
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning import ratios
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class Vtrace(Baseline):
    """A_t = r_t + discount [trace v_(t+1) + (1 - trace) V_(t+1)] - V_t; see `vtrace`."""

    discount: Any = field(default=0.99, metadata=MARK)
    trace: Any = field(default=1.0, metadata=MARK)
    rho_cap: Any = field(default=1.0, metadata=MARK)
    trace_cap: Any = field(default=1.0, metadata=MARK)

    reads = ("value",)

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N, T]`, 0 on masked tokens."""
        trajectory, shift = self._corrections(step)
        after = following(trajectory, trajectory.value + per_sample(self.trace) * shift)
        error = trajectory.reward + per_sample(self.discount) * after - trajectory.value
        return torch.where(step.mask > 0, error, torch.zeros_like(error))

    def targets(self, step: Step) -> Tensor:
        """What the critic should say: v_t, `[R, G, N, T]`."""
        trajectory, shift = self._corrections(step)
        return trajectory.value + shift

    def _corrections(self, step: Step) -> tuple[Tokens, Tensor]:
        """Rewards and values, and v_t - V_t of every token."""
        trajectory = tokens(step, step.current["value"])
        ratio = ratios.usable(step.log_ratio.to(step.mask.dtype))
        rho, keep = (_at_most(ratio, cap) for cap in (self.rho_cap, self.trace_cap))
        return trajectory, corrected(trajectory, per_sample(self.discount), rho, per_sample(self.trace) * keep)


def _at_most(ratio: Tensor, cap: Any) -> Tensor:
    return torch.minimum(ratio, torch.as_tensor(per_sample(cap), dtype=ratio.dtype))


def vtrace(discount: Any = 0.99, trace: Any = 1.0, rho_cap: Any = 1.0, trace_cap: Any = 1.0) -> Vtrace:
    """Off-policy returns with truncated ratios: A_t = r_t + discount [trace v_(t+1) + (1 - trace) V_(t+1)] - V_t.

    v_s = V_s + sum_(t >= s) discount^(t-s) (prod_(i=s)^(t-1) k_i) rho_t delta_t, rho_t = min(rho_cap, r_t), k_t = trace
    min(trace_cap, r_t), delta_t = r_t + discount V_(t+1) - V_t, r the token ratio to behavior: the product holds the
    ratios of the tokens before t, the error of t its own. `rho_cap` decides which policy's values v_s tends to
    (proportional to min(rho_cap mu, pi)), `trace_cap` how fast (`estimator/v-trace`); the paper has rho_cap >=
    trace_cap. V is the current critic's at every update, targets are v_s; behind a cut stands the value recorded at the
    draw. At staleness 0 and trace 1 these are returns minus V. Scope: token.

    Arguments: `discount` and `trace` in [0, 1]; `rho_cap` and `trace_cap` > 0, pure numbers (or one per replicate).
    Returns an advantage, `[R, G, N, T]` in units of reward; multiply it by the ratio (`methods.vtrace` does). Raises
    `InputError` for numbers outside their range, and in a run whose policy has no critic. Source: 1802.01561, equation
    1 and section 4.2; `trace` is that of its remark 2.

    >>> vtrace(trace=0.9).describe()["trace_cap"]
    1.0
    """
    remedy = "use 1, or a large number for untruncated ratios"
    return Vtrace(
        knob("discount", discount, "use 0.99, or 1 for plain sums", 0.0, 1.0),
        knob("trace", trace, "use 1; 0 trusts the critic after one step", 0.0, 1.0),
        knob("rho_cap", rho_cap, remedy, 0.0, open_low=True),
        knob("trace_cap", trace_cap, remedy, 0.0, open_low=True),
    )
