"""Window standard deviation: rewards whitened by the moments of the last few batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from asyncsim.advantages._advantage import Remembering, State
from asyncsim.base import checks
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class WindowStd(Remembering):
    """A = (r - mean) / (std + eps) over a window of batches; see `window_std`."""

    batches: int = 8
    eps: float = 1e-6

    def init(self, replicates: int) -> State:
        """Moments of batches that have not been seen: missing."""
        nothing = torch.full((replicates, self.batches - 1), torch.nan, dtype=torch.float64)
        return {"mean": nothing, "variance": nothing}

    def apply(self, step: Step, state: State) -> tuple[Tensor, State]:
        """Whitened rewards, `[R, G, N]`; the oldest batch leaves the window."""
        reward = step.reward.double()
        own = step.missing(step.mean(reward))
        spread = step.missing(step.mean((reward - own[:, None, None]) ** 2))
        means, spreads = (
            torch.cat([old, new.unsqueeze(-1)], -1) for old, new in zip(state.values(), (own, spread), strict=True)
        )
        seen = ~torch.isnan(means)
        count, nothing = seen.double().sum(-1).clamp(min=1.0), torch.zeros_like(means)
        mean = torch.where(seen, means, nothing).sum(-1) / count
        # Of all rewards together: the spread inside batches, and between them.
        apart = spreads + (means - mean.unsqueeze(-1)) ** 2
        deviation = (torch.where(seen, apart, nothing).sum(-1) / count).sqrt()
        advantage = (reward - mean[:, None, None]) / (deviation[:, None, None] + self.eps)
        return advantage.to(step.reward.dtype), {"mean": means[:, 1:], "variance": spreads[:, 1:]}


def window_std(batches: int = 8, eps: float = 1e-6) -> WindowStd:
    """Rewards whitened over a window: A_i = (r_i - m) / (s + eps), m and s of the last W batches, this one included.

    m = mean_k m_k and s^2 = mean_k (s_k^2 + (m_k - m)^2) with mean m_k and variance s_k^2 of the rewards of batch k,
    without the groups that a method drops. A sample is in its own baseline: the mean gradient is (1 - 1/(W n)) times
    the exact one in direction, n samples a batch, before the division. Early windows have fewer batches. Scope:
    window.

    Arguments: `batches` W >= 1; `eps` > 0 in units of reward. Returns an advantage, `[R, G, N]`, a pure number. Raises
    `InputError` for a window outside [1, 10000] and an eps that is not positive. Assumes that batches are trained once
    in their order. Source: this package; whitening by running moments as in RLHF trainers.

    >>> window_std(4).describe()
    {'advantage': 'window_std', 'batches': 4, 'eps': 1e-06}
    """
    checks.integer("batches", batches, 1, "count the batches of the window", 10_000)
    checks.real("eps", eps, "give a small positive number", 0.0, open_low=True)
    return WindowStd(batches, float(eps))
