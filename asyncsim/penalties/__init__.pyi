"""Penalties: terms of the loss without an advantage, such as KL and entropy."""

from typing import Literal

from asyncsim.base.knobs import Number
from asyncsim.methods._method import Penalty

def exact(
    coefficient: Number = 0.04,
    to: Literal["reference", "behavior", "proximal"] = "reference",
    ratio: Literal["none", "sequence"] = "none",
    reverse: bool = False,
) -> Penalty:
    """KL penalty summed over all actions in each token's state, so that sampled actions add no noise."""

def k1(
    coefficient: Number = 0.04,
    to: Literal["reference", "behavior", "proximal"] = "reference",
    ratio: Literal["none", "token", "sequence"] = "none",
) -> Penalty:
    """KL penalty k1 = D as a loss: c = -beta; on fresh data, its expected gradient is zero."""

def k2(
    coefficient: Number = 0.04,
    to: Literal["reference", "behavior", "proximal"] = "reference",
    ratio: Literal["none", "token", "sequence"] = "none",
    level: Literal["token", "sequence"] = "token",
) -> Penalty:
    """KL penalty k2 = D^2/2; its expected gradient is that of KL(pi || other)."""

def k3(
    coefficient: Number = 0.04,
    to: Literal["reference", "behavior", "proximal"] = "reference",
    ratio: Literal["none", "token", "sequence"] = "none",
) -> Penalty:
    """KL penalty k3 = exp(-D) - 1 + D; its expected gradient is that of KL(other || pi), which is the other direction."""

def reward(
    coefficient: Number = 0.04,
    to: Literal["reference", "behavior", "proximal"] = "reference",
    ratio: Literal["none", "token", "sequence"] = "none",
) -> Penalty:
    """KL penalty inside the reward: the return of a token includes minus beta times the log ratios of all later tokens."""

def straight_through(
    coefficient: Number = 0.04,
    to: Literal["reference", "behavior", "proximal"] = "reference",
    ratio: Literal["none", "token", "sequence"] = "none",
) -> Penalty:
    """KL penalty with the value of k3 and the gradient of k2."""
