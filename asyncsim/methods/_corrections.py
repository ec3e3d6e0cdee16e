"""Weights that read the distribution over all actions: ACER's correction, and centered scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim.advantages._traces import state_value
from asyncsim.base.knobs import MARK, per_sample
from asyncsim.methods._weights import Weight, at_most
from asyncsim.step import ratios
from asyncsim.step.step import Step


@dataclass(frozen=True)
class Corrected(Weight):
    """c = min(cap, r) A, and e_v = pi_v [1 - cap/r_v]_+ (Q_v - V): what the cap takes away, summed over all actions."""

    cap: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    outputs: ClassVar[tuple[str, ...]] = ("log_probs", "action_values")

    def applied(self, step: Step) -> Tensor:
        """Truncated token ratios."""
        return at_most(ratios.usable(step.log_ratio), self.cap)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Truncated ratio times A."""
        return self.applied(step) * advantage

    def spread(self, step: Step, advantage: Tensor) -> Tensor:
        """pi_v [1 - cap/r_v]_+ (Q_v - V) = [pi_v - cap mu_v]_+ (Q_v - V)."""
        prob, drawn = step.current["log_probs"].exp(), step.recorded("log_probs").exp()
        rest = (prob - _wide(self.cap, drawn) * drawn).clamp(min=0.0)
        return rest * (step.current["action_values"] - state_value(step).unsqueeze(-1))


@dataclass(frozen=True)
class Centered(Weight):
    """c = w(r) A and e_v = -A mu_v w(pi_v/mu_v), w = 1 or min(r, cap), over all actions or the sampler's likeliest."""

    truncated: bool
    cap: Any = field(metadata=MARK)
    top: int | None

    level: ClassVar[str] = "token"  # type: ignore[misc]
    outputs: ClassVar[tuple[str, ...]] = ("log_probs",)

    def applied(self, step: Step) -> Tensor:
        """1, or truncated token ratios."""
        if not self.truncated:
            return torch.ones_like(step.mask[..., :1])
        return at_most(ratios.usable(step.log_ratio), self.cap)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """w A."""
        return self.applied(step) * advantage

    def spread(self, step: Step, advantage: Tensor) -> Tensor:
        """-A mu_v w(pi_v/mu_v); of the likeliest actions alone less alpha pi_v, which stands for all the others."""
        prob, drawn = step.current["log_probs"].exp(), step.recorded("log_probs").exp()
        mean = torch.minimum(prob, _wide(self.cap, drawn) * drawn) if self.truncated else drawn
        if self.top is not None and self.top < prob.shape[-1]:
            mean = self._without_tail(mean, prob, drawn, self.top)
        return -advantage.unsqueeze(-1) * mean

    def _without_tail(self, mean: Tensor, prob: Tensor, drawn: Tensor, top: int) -> Tensor:
        head = torch.zeros_like(prob).scatter_(-1, drawn.topk(top, dim=-1).indices, 1.0)
        behind = (1.0 - (head * drawn).sum(-1, keepdim=True)).clamp(min=0.0)
        rho = behind / (1.0 - (head * prob).sum(-1, keepdim=True)).clamp(min=1e-6)
        # rho w(1/rho): the weight of an action behind the head, where mu = rho pi.
        alpha = (_wide(self.cap, rho) * rho).clamp(max=1.0) if self.truncated else rho
        return head * (mean - alpha * prob)


def _wide(cap: Any, like: Tensor) -> Any:
    """A knob beside actions, `[R, 1, 1, 1, 1]`, or a number."""
    value = per_sample(cap)
    return value if isinstance(value, float) else value.unsqueeze(-1).to(like.dtype)
