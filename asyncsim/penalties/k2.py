"""KL penalty k2 = D^2/2: its gradient is that of KL(pi || other)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from asyncsim import checks
from asyncsim.penalties._divergence import Sampled, settings
from asyncsim.step import Step


@dataclass(frozen=True)
class K2(Sampled):
    """c_t = -beta D_t, or -beta sum_k D_k; see `k2`."""

    level: str = "token"

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        """D, or its sum over the sequence."""
        return gap if self.level == "token" else step.sequence(gap).expand(gap.shape)

    def value(self, step: Step, gap: Tensor) -> Tensor:
        """D^2/2; of a sequence, its share per token."""
        if self.level == "token":
            return gap.square().mul_(0.5)
        return 0.5 * step.sequence(gap) ** 2 / step.lengths.clamp(min=1.0).unsqueeze(-1)


def k2(coefficient: Any = 0.04, to: str = "reference", ratio: str = "none", level: str = "token") -> K2:
    """Half the squared log ratio, D_t^2/2 with D_t = log pi - log other: c_t = -beta D_t.

    The value is a biased estimate of KL(pi || other), but E_pi[D grad log pi] = grad KL(pi || other) exactly, state by
    state, with the chance of visiting a state held fixed. Level "sequence" differentiates (sum_t D_t)^2/2 instead,
    c_t = -beta sum_k D_k, whose mean is the gradient of the KL divergence of whole sequences. Under data of another
    policy the mean is right only with the ratio: "token" weights states as behavior visits them, "sequence" as pi
    does.

    Arguments: `coefficient` beta >= 0, reward per nat (or one per replicate); `to`, the other policy, "reference",
    "behavior" or "proximal"; `ratio`, "none", "token" or "sequence"; `level`, "token" or "sequence". D is limited to
    +-20 where it is used. Returns a penalty with `score_weight` `[R, G, N, T]`. Raises `InputError` for a negative
    coefficient or unknown names. Source: Schulman 2020, "Approximating KL divergence" (value); gradient derived here.

    >>> k2(0.1, to="behavior").describe()["to"]
    'behavior'
    """
    level = checks.one_of("level", level, ("token", "sequence"), "say of what the log ratio is squared")
    return K2(*settings(coefficient, to, ratio), level)
