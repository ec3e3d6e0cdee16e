"""KL penalty inside the reward: every token answers for the log ratios behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from asyncsim.penalties._divergence import Sampled, settings
from asyncsim.step import Step


@dataclass(frozen=True)
class RewardKL(Sampled):
    """c_t = -beta sum_(k >= t) D_k; see `reward`."""

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        """The log ratios from each token to the end of its sample."""
        return gap if gap.shape[-1] == 1 else gap.flip(-1).cumsum(-1).flip(-1)

    def value(self, step: Step, gap: Tensor) -> Tensor:
        """D."""
        return gap


def reward(coefficient: Any = 0.04, to: str = "reference", ratio: str = "none") -> RewardKL:
    """-beta D_t added to the reward of token t, D = log pi - log other, detached: c_t = -beta sum_(k >= t) D_k.

    E_pi[sum_t grad log pi_t sum_(k >= t) D_k] is the gradient of the KL divergence of whole sequences, change of
    visited states included; the token forms (k2, `exact`) hold those fixed. No baseline is subtracted, and the
    method's advantage does not see the penalty (a task's `kl_coef` pays it, and then baselines do). Under data of
    another policy the mean is right with the ratio of the sequence.

    Arguments: `coefficient` beta >= 0, reward per nat (or one per replicate); `to`, the other policy, "reference",
    "behavior" or "proximal"; `ratio`, "none", "token" or "sequence". D is limited to +-20 in c. Returns a penalty with
    `score_weight` `[R, G, N, T]`. Raises `InputError` for a negative coefficient or unknown names. Source: 1909.08593,
    equation 2; gradient derived here.

    >>> reward(0.1, ratio="sequence").describe()["ratio"]
    'sequence'
    """
    return RewardKL(*settings(coefficient, to, ratio))
