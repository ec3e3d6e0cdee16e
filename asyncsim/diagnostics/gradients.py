"""The gradient of every update: its length, and its angle to the one before."""

from __future__ import annotations

import torch
from torch import Tensor

from asyncsim.diagnostics._diagnostic import metric
from asyncsim.diagnostics._ranges import COSINE, POSITIVE, SHARE
from asyncsim.step import ratios
from asyncsim.step.step import Step


@metric("in units of advantage per parameter", POSITIVE, "textbook", default=True, subject="policy")
def gradient_norm(step: Step) -> Tensor:
    """Norm of the gradient before the update chain.

    |g| = sqrt(sum_p g_p^2) over all parameters. Blind to the direction, and to how much of the length is sampling
    noise.
    """
    return step.gradient.double().norm(dim=-1)


@metric("a pure number in [-1, 1]", COSINE, "as a precursor of collapse 2603.01501", default=True, subject="policy")
def gradient_cosine(step: Step) -> Tensor:
    """Cosine between this gradient and the one an update before; NaN where there is none.

    kappa_t = <g_t, g_(t-1)> / (|g_t| |g_(t-1)|), before the update chain; NaN too where either is zero or not finite.
    Blind to why gradients agree: about |E g|^2 / (|E g|^2 + tr Var g) for a steady mean at any staleness, so it
    compares runs of equal batch, step size and return only.
    """
    return ratios.cosine(step.gradient, step.previous)


@metric("a pure number", SHARE, "this package", subject="policy")
def gradient_cosine_valid(step: Step) -> Tensor:
    """Whether `gradient_cosine` has a value: 0 or 1.

    valid = [g_t and g_(t-1) exist, are finite and are not zero]: 0 at the first update, at one whose gradient was lost,
    and at the one behind it. Its mean over a run is the share of cosines that count. Blind to the cosine's value.
    """
    return torch.isfinite(ratios.cosine(step.gradient, step.previous)).double()
