"""Clips, masks and zero gradients: effects of the loss on the tokens and sequences of a step."""

import math
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import number
from asyncsim.diagnostics._diagnostic import READS, SHARE, metric
from asyncsim.diagnostics._levels import advantages, masked, over_samples, over_tokens, stopped
from asyncsim.methods._weights import DualClip
from asyncsim.step.step import Step


@metric("a pure number in [0, 1]", SHARE, "textbook", READS)
def clip_active(step: Step) -> Tensor:
    """Fraction of tokens with an advantage but no gradient, because the method's weight is 0.

    share = E [c_it = 0 and A_it != 0] over the tokens of the step by mass, c the score weight without factors and
    penalties. Aware of signs: a ratio outside the band that is on its way back counts as open, one that keeps a part of
    its weight in the mean over equal tokens as that part. Blind to tokens without advantage, and to weights that are
    small but not 0.
    """
    return over_tokens(step, stopped(step))


def _both(low: float | None, high: float | None) -> None:
    remedy = "give both bounds, or none for the method's own"
    checks.require((low is None) == (high is None), "low, high", (low, high), "given together", remedy)


@metric("a pure number in [0, 1], NaN without such a band", SHARE, "as logged by FeynRL and ROLL", READS, joint=_both)
def clip_outside(
    step: Step,
    low: Any = number(None, "distance of the lower bound from 1", 0.0, 1.0, varies=False, optional=True),
    high: Any = number(None, "distance of the upper bound from 1", 0.0, varies=False, optional=True),
) -> Tensor:
    """Fraction of tokens whose ratio is outside of the method's clip band, whatever the sign of the advantage.

    share = E [rho_it < 1 - low or rho_it > 1 + high], before any clipping. Without bounds the band is the method's own.
    rho is the ratio to the method's anchor, of the token or, for a method of that level, its geometric mean over the
    sequence. With staleness and anchor "behavior" a share of exactly 0 is an alarm: the anchor is not the policy that
    generated the data. Blind to the sign of the advantage: `clip_active` has what the clip stops.
    """
    weight = step.method.weight
    if low is None:
        if not weight.banded:
            return torch.full(step.batch.reward.shape[:1], math.nan, dtype=torch.float64)
        low, high = (per_sample(getattr(weight, end)) for end in ("low", "high"))
    log_ratio = step.anchored
    if weight.level == "geometric":
        log_ratio = step.geometric(log_ratio)
    # As the weight compares: a ratio on a bound is inside.
    ratio = log_ratio.exp()
    return over_tokens(step, (ratio < 1.0 - low) | (ratio > 1.0 + high))


@metric("a pure number in [0, 1], NaN for a method without a dual clip", SHARE, "1912.09729", READS)
def clip_dual(step: Step) -> Tensor:
    """Fraction of tokens that a dual clip stops: their ratio exceeds its bound, and their advantage is negative.

    share = E [rho_it > dual and A_it < 0] over the tokens of the step by mass, rho the token ratio to the method's
    anchor. Blind to the band of the plain clip (`clip_active` has both).
    """
    weight = step.method.weight
    if not isinstance(weight, DualClip):
        return torch.full(step.batch.reward.shape[:1], math.nan, dtype=torch.float64)
    return over_tokens(step, (step.anchored.exp() > per_sample(weight.dual)) & (advantages(step) < 0))


@metric("a pure number in [0, 1], relative to the tokens generated", SHARE, "textbook", READS)
def masked_tokens(step: Step) -> Tensor:
    """Fraction of tokens that the method's masks remove from the loss.

    share = E [m_it = 0] over the generated tokens of the step by mass, m = 0 where the method's weight is 0 for A = 1
    and for A = -1, or a factor is 0. Blind to what stops one sign of the advantage only (`clip_active`) and to
    advantages of 0.
    """
    return over_tokens(step, masked(step))


@metric("a pure number in [0, 1]", SHARE, "textbook", READS)
def masked_sequences(step: Step) -> Tensor:
    """Fraction of samples whose tokens are all masked.

    share = E_i [m_it = 0 for every token t], m as in `masked_tokens`, over the samples that have tokens, by mass. Blind
    to samples that lose all tokens but one.
    """
    absent = (masked(step) == 1.0) | (step.batch.mask == 0)
    return over_samples(step, absent.all(-1).double())


@metric("a pure number in [0, 1]", SHARE, "this package", READS)
def zero_loss_sequences(step: Step) -> Tensor:
    """Fraction of samples that contribute nothing to the gradient.

    share = E_i [a_it c_it = 0 for every token t] from the cotangents themselves, penalties included, by mass. Blind to
    why: a clip, a mask, an advantage of 0, or no tokens. A step of which this is 1 has no gradient and is no step.
    """
    cotangents = step.cotangents
    silent = (cotangents["log_prob"] == 0).expand(step.batch.mask.shape).all(-1)
    if "log_probs" in cotangents:
        silent = silent & (cotangents["log_probs"] == 0).all(-1).all(-1)
    return step.mean(silent.double())
