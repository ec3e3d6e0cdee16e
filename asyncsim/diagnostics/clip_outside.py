"""Share of tokens whose ratio lies outside a method's clip band, whatever the sign of the advantage."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from asyncsim import checks
from asyncsim.diagnostics._applied import over_tokens
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import Bound, named
from asyncsim.knobs import per_sample
from asyncsim.methods._weights import Clip
from asyncsim.step import Step


def _outside(step: Step, low: float | None, high: float | None) -> Tensor:
    weight = step.method.weight
    band: tuple[Any, Any] = (low, high)
    if low is None:
        if not isinstance(weight, Clip):
            return torch.full(step.batch.reward.shape[:1], math.nan, dtype=torch.float64)
        band = (per_sample(weight.low), per_sample(weight.high))
    log_ratio = step.anchored
    if weight.level == "geometric":
        log_ratio = step.geometric(log_ratio)
    # As the weight compares: a ratio on a bound is inside.
    ratio = log_ratio.exp()
    return over_tokens(step, (ratio < 1.0 - band[0]) | (ratio > 1.0 + band[1]))


def clip_outside(low: float | None = None, high: float | None = None) -> Metric:
    """Tokens outside the band: share = E [rho_it < 1 - low or rho_it > 1 + high], before any clipping.

    rho is the ratio to the method's anchor, of the token or, for a method of that level, its geometric mean over the
    sequence. With staleness and anchor "behavior" a share of exactly 0 is an alarm: the anchor is not the policy that
    generated the data.

    Arguments: `low` in [0, 1] and `high` >= 0, pure numbers (default: the method's own band). Returns a metric of shape
    `[R]`, a pure number in [0, 1], NaN for a method that has no such band. Raises `InputError` for values outside these
    ranges, and where one of the two is missing. Blind to the sign of the advantage: `clip_active` has what the clip
    stops. Source: as logged by FeynRL and ROLL.

    >>> clip_outside(0.2, 0.28).name
    'clip_outside_0.2_0.28'
    """
    both = (low is None) == (high is None)
    checks.require(both, "low, high", (low, high), "given together", "give both bounds, or none for the method's own")
    if low is not None and high is not None:
        low = checks.real("low", low, "the lower bound is 1 - low", 0.0, 1.0)
        high = checks.real("high", high, "the upper bound is 1 + high", 0.0)
    name = named("clip_outside", low=(low, None), high=(high, None))
    return Metric(name, Bound(_outside, (low, high)), outputs=("log_prob",))
