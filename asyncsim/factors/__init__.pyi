"""Factors: masks and weights that multiply a method's loss, by token or by sample."""

from typing import Literal

from asyncsim.base.knobs import Number
from asyncsim.methods._method import Factor

def drop_stale(limit: Number = 8.0, of: Literal["head", "token"] = "head") -> Factor:
    """Drop tokens or full sequences above a staleness limit."""

def geometric_mask(low: Number = 0.999, high: Number = 1.001, ratio: Literal["r", "h"] = "r") -> Factor:
    """Drop sequences whose geometric mean ratio is outside of a band."""

def k2_mask(
    high: Number = 2.5, reduce: Literal["token", "sum", "mean", "max"] = "max", ratio: Literal["r", "h"] = "r"
) -> Factor:
    """Drop sequences, or single tokens, with a large squared log ratio."""

def k3_mask(
    high: Number = 0.01, reduce: Literal["token", "sum", "mean", "max"] = "mean", ratio: Literal["r", "h"] = "r"
) -> Factor:
    """Drop sequences, or single tokens, with a large k3 estimate of KL(behavior || current)."""

def log_clamp(
    limit: Number = 20.0,
    level: Literal["token", "sequence", "geometric"] = "token",
    ratio: Literal["r", "u", "h"] = "r",
) -> Factor:
    """Stop the gradient of tokens whose log ratio is beyond a clamp, as a clamp inside a loss does."""

def opsm(delta: Number = 0.0001, reference: Literal["behavior", "proximal"] = "behavior") -> Factor:
    """Off-policy sequence masking: drop sequences of negative advantage from which the policy has moved away."""

def sequence_mask(low: Number = 0.5, high: Number = 2.0, ratio: Literal["r", "h"] = "r") -> Factor:
    """Drop sequences whose ratio is outside of a band."""

def staleness_weight(
    rule: Literal["constant", "threshold", "polynomial"] = "polynomial",
    exponent: Number = 0.5,
    cutoff: Number = 1.0,
    after: Number = 0.5,
    average: Number = 0.0,
) -> Factor:
    """Weight tokens by their staleness; the weight is 1 at the `average` staleness."""

def token_mask(low: Number = 0.5, high: Number = 2.0, ratio: Literal["r", "h"] = "r") -> Factor:
    """Drop tokens whose ratio is outside of a band (IcePop, masked importance sampling)."""

def token_veto(threshold: Number = 0.0001, ratio: Literal["r", "h"] = "r") -> Factor:
    """Drop every sequence that contains a token with a very small ratio."""

def tv_mask(high: Number = 0.2, signed: bool = False, ratio: Literal["r", "h"] = "r") -> Factor:
    """Drop sequences whose estimated total variation from the behavior policy is large."""
