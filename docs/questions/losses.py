"""Losses of the page of questions: PPO's clip, whose negative branch has no upper bound, and one with a bend there."""

from torch import Tensor, minimum, where


def clipped(log_prob: Tensor, behavior_log_prob: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """The surrogate of PPO: for a negative advantage the minimum takes the ratio, however large."""
    ratio = (log_prob - behavior_log_prob).exp()
    surrogate = minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    return -(surrogate * mask).sum() / mask.sum()


def bent(log_prob: Tensor, behavior_log_prob: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """The same, with the weight of a negative advantage held at 2 beyond a ratio of 2."""
    ratio = (log_prob - behavior_log_prob).exp()
    surrogate = minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    held = 2.0 * advantages * log_prob
    surrogate = where((advantages < 0) & (ratio > 2.0), held, surrogate)
    return -(surrogate * mask).sum() / mask.sum()
