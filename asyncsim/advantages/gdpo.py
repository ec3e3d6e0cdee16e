"""Reward and length standardized apart in their group, summed, then standardized over the step (GDPO)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class Gdpo(GroupBaseline):
    """A = (B - mean B) / std B over the step, B = a(reward) + weight a(short); see `gdpo`."""

    limit: Any = field(default=None, metadata=MARK)
    weight: Any = field(default=1.0, metadata=MARK)
    eps: float = 1e-6

    finishes = True

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        return self.finished(step, self.estimate(step))

    def estimate(self, step: Step) -> Tensor:
        """Sum of the rewards, each standardized in its group, `[R, G, N]`."""
        total = self._standardized(step, step.reward)
        if self.limit is None:
            return total
        short = (step.lengths <= per_sample(self.limit, 3)).to(total.dtype)
        return total + per_sample(self.weight, 3) * self._standardized(step, short)

    def finished(self, step: Step, advantages: Tensor) -> Tensor:
        """The same, standardized over the samples of the step."""
        mean = step.mean(advantages).reshape(-1, 1, 1)
        deviation = step.mean((advantages - mean) ** 2).sqrt().reshape(-1, 1, 1)
        return (advantages - mean) / (deviation + self.eps)

    def _standardized(self, step: Step, reward: Tensor) -> Tensor:
        mass = step.batch.mass.expand(reward.shape)
        # Relative to a reward that occurs, equal rewards are exactly 0.
        relative = reward - reward.gather(-1, mass.argmax(-1, keepdim=True))
        centered = relative - (mass * relative).sum(-1, keepdim=True)
        return centered / ((mass * centered**2).sum(-1, keepdim=True).sqrt() + self.eps)


def gdpo(limit: Any = None, weight: Any = 1.0, eps: float = 1e-6) -> Gdpo:
    """Rewards standardized apart: B_i = a(r_i) + weight a(s_i), A_i = (B_i - mean B) / (std B + eps) over the step.

    a(x) = (x - m) / (d + eps) with mean m and standard deviation d of the sample's group, N in its denominator. s_i is
    the second reward of the published runs: 1 where the answer has at most `limit` tokens, else 0. Without a limit
    there is none. Two sums that are equal as rewards stay different as advantages if their parts are rare to a
    different degree. A reward that all of a group have alike adds nothing. What is standardized last has the size of
    one reward, however many there are. Scope: step.

    Arguments: `limit` >= 0 in tokens (or one per replicate), None for the reward alone; `weight` of the second reward,
    a pure number (or one per replicate); `eps` >= 0 in units of reward. Returns an advantage, `[R, G, N]`, a pure
    number. Raises `InputError` for a negative limit or eps, a weight that is not finite, and in a run with groups of
    one. Source: 2601.05242; verl, `compute_gdpo_outcome_advantage`, which standardizes over tokens last.

    >>> gdpo(limit=64).describe()
    {'advantage': 'gdpo', 'limit': 64.0, 'weight': 1.0, 'eps': 1e-06}
    """
    return Gdpo(
        None if limit is None else knob("limit", limit, "give the most tokens that are rewarded, or None", 0.0),
        knob("weight", weight, "give the weight of the second reward"),
        checks.real("eps", eps, "use a small non-negative number", 0.0),
    )
