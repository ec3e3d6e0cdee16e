"""Retrace: returns that a critic of actions corrects, cut where the policy has moved away from the action."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from asyncsim.advantages._advantage import Baseline
from asyncsim.advantages._traces import backed_up, mask_out, state_value, tokens
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning import ratios
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class Retrace(Baseline):
    """A_t = Q_ret(s_t, a_t) - V(s_t); see `retrace`."""

    discount: Any = field(default=0.99, metadata=MARK)
    trace: Any = field(default=1.0, metadata=MARK)

    reads = ("action_value", "action_values", "log_probs")

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N, T]`, 0 on masked tokens."""
        return mask_out(self.targets(step) - state_value(step), step.mask)

    def targets(self, step: Step) -> Tensor:
        """What the critic should say of the action taken: Q_ret, `[R, G, N, T]`."""
        trajectory = tokens(step, state_value(step))
        action_value = mask_out(step.current["action_value"], step.mask)
        keep = per_sample(self.trace) * ratios.usable(step.log_ratio.to(step.mask.dtype)).clamp(max=1.0)
        return backed_up(trajectory, action_value, per_sample(self.discount), keep)


def retrace(discount: Any = 0.99, trace: Any = 1.0) -> Retrace:
    """Action values corrected along the trajectory: A_t = Q_ret(s_t, a_t) - V(s_t), V = sum_a pi(a|s) Q(s, a).

    Q_ret_t = Q_t + sum_(j >= t) discount^(j-t) (prod_(i=t+1)^j k_i)(r_j + discount V(s_(j+1)) - Q_j), k_i = trace
    min(1, ratio_i). The product begins behind t, since Q is that of the action already taken. V is the mean over the
    policy's actions, not the value of the next one. With exact Q every error has mean 0 whatever generated the data. Q
    and pi are the current ones at every update; targets of Q(s_t, a_t) are Q_ret; behind a cut stands the state value
    recorded at the draw. Scope: token.

    Arguments: `discount` and `trace` in [0, 1], pure numbers (or one per replicate). Returns an advantage,
    `[R, G, N, T]` in units of reward. Raises `InputError` for numbers outside their range, and in a run whose policy
    has no values of actions (`policies.mlp(critic="action")` has). Source: 1606.02647, equations 3 and 4; as an
    advantage 1611.01224, equation 5.

    >>> retrace().reads
    ('action_value', 'action_values', 'log_probs')
    """
    return Retrace(
        knob("discount", discount, "use 0.99, or 1 for plain sums", 0.0, 1.0),
        knob("trace", trace, "use 1; 0 trusts the critic after one step", 0.0, 1.0),
    )
