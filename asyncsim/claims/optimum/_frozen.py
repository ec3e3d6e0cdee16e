"""A bandit whose data stay those of one behavior policy, and the projection onto the simplex."""

import numpy as np

from asyncsim.base.declared import Vector
from asyncsim.claims._bandit import Arms, arm_rewards, softmax


class Frozen(Arms):
    """Base of points with rewards of arms and the logits of a frozen behavior mu."""

    _logits = (0.5, 0.1, -0.3, 0.2, 0.0)
    behavior_logits = Vector(
        typical=(-2.0, 2.0), sizes=(4, 4), example=_logits, doc="logits of the frozen behavior, by arm"
    )
    rewards = arm_rewards(0.0, 0.3, 0.9, 1.0, 0.5, least=4, doc="rewards of the arms")

    def joint(self) -> None:
        super().joint()
        self.mu = softmax(self.behavior_logits)
        self.mean = float(self.mu @ self.rewards)


def project(x: np.ndarray) -> np.ndarray:
    """Euclidean projection on the simplex: shift and clip, the shift set by the largest support that stays positive.

    >>> project(np.array([0.9, 0.3, -1.0])).round(12).tolist()
    [0.8, 0.2, 0.0]
    """
    ordered = np.sort(x)[::-1]
    shifts = (np.cumsum(ordered) - 1.0) / np.arange(1, x.size + 1)
    shift = shifts[np.flatnonzero(ordered > shifts)[-1]]
    return np.maximum(x - shift, 0.0)
