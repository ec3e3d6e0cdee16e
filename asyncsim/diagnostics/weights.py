"""Importance ratios and effective sample sizes: means, shares of the heaviest samples and tails of the ratios too.

`of` says which ratios: "sequence" W_i = pi(y_i)/mu(y_i), "token" r_it, "applied" |c/A| with factors, "staleness" and
"mismatch" the two parts of W_i; all by mass over the whole step.
"""

import math
from typing import Any

import torch
from torch import Tensor, full_like

from asyncsim.base import checks
from asyncsim.base.parts import number
from asyncsim.diagnostics._diagnostic import ANY, POSITIVE, READS, SHARE, metric
from asyncsim.diagnostics._levels import LEVEL, OF, over_samples, token_share, weights_of
from asyncsim.step import ratios
from asyncsim.step.step import Step

_TEXTS = checks.table(__file__, "texts.toml")["weights"]


@metric(
    "a pure number in [1/n, 1]", SHARE, "Kong 1992; on sequences of a whole step 2602.17616", READS, default=True, of=OF
)
def ess(step: Step, of: str = "sequence") -> Tensor:
    """Effective sample size of the sequence ratios divided by the number of samples, over the full step.

    ESS/n = (E w)^2 / E w^2

    It is 1 iff the ratios are equal, and 0 where every ratio is 0. Blind to a common factor of the ratios
    (`mean_weight` sees it) and, once it is near 1/n, to how much worse the truth is.
    """
    log_weight, mass, _ = weights_of(step, of)
    return _nought(ratios.ess(log_weight, mass), log_weight, mass, of)


ess_token = ess(
    "token",
    doc="Effective sample size of the token ratios divided by the number of tokens, over the full step.",
    **_TEXTS["ess_token"],
)

ess_applied = ess(
    "applied",
    doc="Effective sample size of the method's weights after truncation, clip and masks.",
    **_TEXTS["ess_applied"],
)

ess_staleness = ess(
    "staleness",
    doc="Effective sample size of the part of the sequence ratios that is due to stale weights.",
    **_TEXTS["ess_staleness"],
)

ess_mismatch = ess(
    "mismatch",
    doc="Effective sample size of the part of the sequence ratios that is due to the sampler's numerics.",
    **_TEXTS["ess_mismatch"],
)


@metric("a pure number in (0, 1]", SHARE, "as in miles, divided by the number of samples that have tokens", READS)
def ess_within(step: Step) -> Tensor:
    """Effective sample size of the token ratios inside each sample, averaged over samples.

    ESS = E_i (sum_t r_it)^2 / (T_i sum_t r_it^2) with r_it = pi/mu untruncated, over samples by mass. Blind to all that
    differs between samples: 1 for one-token tasks and for any ratios that are constant inside a sequence.
    """
    return over_samples(step, ratios.ess_along(step.log_ratio, step.batch.mask.double(), -1))


@metric("a pure number in [1/n, 1]", SHARE, "as in TorchRL's clipped PPO loss", READS)
def ess_frames(step: Step) -> Tensor:
    """Effective sample size of the token ratios across samples, averaged over positions.

    ESS = mean_t (E_i r_it)^2 / E_i r_it^2 with r_it = pi/mu untruncated, E_i over the samples that have a token t, by
    mass, and the mean over positions that some sample has. Blind to products along a sequence; mixes states that have
    nothing in common.
    """
    share = token_share(step).flatten(1, 2)
    log_ratio = step.log_ratio.flatten(1, 2)
    present = (share > 0).any(1)
    values = ratios.ess_along(log_ratio, share.expand(log_ratio.shape), 1)
    return torch.where(present, values, torch.zeros_like(values)).sum(-1) / present.sum(-1)


@metric("a pure number in (0, 1]", SHARE, "as in verl", READS)
def ess_token_clamped(
    step: Step,
    high: Any = number(2.0, "upper bound of the clamp", 1.0, varies=False),
    low: Any = number(None, "lower bound of the clamp, 1/high unless given", 0.0, 1.0, varies=False, optional=True),
    level: Any = LEVEL.but("token"),
) -> Tensor:
    """Effective sample size of clamped token ratios, which cannot fall below a floor.

    ESS = 1 / mean_it (w_it / mean w)^2, w = clip(r, low, high). With low = 1/high it cannot fall below 4/(C + 1/C)^2, C
    = high: 0.64 for 2, 0.36 for 3, 0.148 for 5, whatever the truth. So an alarm below the floor never fires. With low =
    0 it can fall, down to 1/n. With level "sequence" the ratio of a sequence stands on each of its tokens, which weighs
    sequences by their lengths. Blind to everything beyond the bounds, to a common factor between them, and to products
    of token ratios.
    """
    log_ratio = step.log_ratio
    # One sequence ratio on each of its tokens: long sequences count more.
    log_weight = log_ratio if level == "token" else step.sequence_log_ratio.unsqueeze(-1).expand(log_ratio.shape)
    return ratios.ess(log_weight, token_share(step), high, 1.0 / high if low is None else low)


@metric("a pure number", POSITIVE, "textbook", READS, default=True, of=OF)
def mean_weight(step: Step, of: str = "sequence") -> Tensor:
    """Mean sequence ratio; its expectation is 1 if the logged probabilities are those of the sampler.

    mean = E w

    It is 1 in expectation on full support whatever the staleness. Blind to errors that cancel; far from mu most batches
    miss the rare heavy ratios and read below 1.
    """
    return ratios.mean_weight(*weights_of(step, of)[:2])


token_ratio_mean = mean_weight(
    "token",
    name="token_ratio_mean",
    doc="Mean token ratio; its expectation is 1 if the logged probabilities are those of the sampler.",
    **_TEXTS["token_ratio_mean"],
)

applied_mean = mean_weight(
    "applied",
    name="applied_mean",
    doc="Mean size of the method's weights after truncation, clip and masks.",
    **_TEXTS["applied_mean"],
)


@metric("a pure number in [1/n, 1], 0 for a population", SHARE, "textbook", READS, of=OF)
def max_weight_share(step: Step, of: str = "sequence") -> Tensor:
    """Maximum share of one sample in the step's total importance weight.

    share = max w / (n E w)

    It is 0 where every ratio is 0. Blind to all samples but the largest, and to a common factor.
    """
    log_weight, mass, size = weights_of(step, of)
    return _nought(ratios.max_weight_share(log_weight, mass, size), log_weight, mass, of)


max_applied_share = max_weight_share(
    "applied",
    name="max_applied_share",
    doc="Maximum share of one sample, or of one token, in the method's total weight after truncation, clip and masks.",
    **_TEXTS["max_applied_share"],
)


@metric("a pure number", (-1.0, math.inf), "textbook", READS, of=OF)
def chi_square(step: Step, of: str = "sequence") -> Tensor:
    """Mean squared sequence ratio minus one.

    chi^2 = E w^2 - 1

    It is chi^2 of pi from mu where E W = 1, and then ESS/N = 1 / (1 + chi^2). Blind to a tail that the batch has not
    drawn: where the second moment is infinite it still reads a finite number.
    """
    return ratios.chi_square(*weights_of(step, of)[:2])


chi_square_token = chi_square("token", doc="Mean squared token ratio minus one.", **_TEXTS["chi_square_token"])


@metric("a pure number, infinite where it exceeds the largest float", POSITIVE, "textbook", READS)
def ratio_sd(step: Step, level: Any = LEVEL) -> Tensor:
    """Standard deviation of the untruncated importance ratios of the step.

    sd = sqrt(E (w - E w)^2), w = W_i or r_it = pi/mu, by mass. The mean is `mean_weight` or `token_ratio_mean`; (sd /
    mean)^2 = 1/ESS - 1. Blind to a tail that the batch has not drawn: where the second moment is infinite it still
    reads a finite number.
    """
    return ratios.standard_deviation(*weights_of(step, level)[:2])


_BOUND = number(2.0, "a ratio", 0.0, above=True, varies=False, remedy="give a positive ratio")


@metric("a pure number in [0, 1]", SHARE, "textbook", READS)
def ratio_above(step: Step, bound: Any = _BOUND, level: Any = LEVEL) -> Tensor:
    """Fraction of importance ratios above a bound, before any truncation.

    share = E [w > bound], w = W_i or r_it = pi/mu, by mass. What a cap of this size truncates. A share of ratios that
    were clamped first is 0 whatever happens. Blind to how far above it the ratios are.
    """
    return ratios.beyond(*weights_of(step, level)[:2], bound, "above")


@metric("a pure number in [0, 1]", SHARE, "textbook", READS)
def ratio_below(step: Step, bound: Any = _BOUND.but(0.5), level: Any = LEVEL) -> Tensor:
    """Fraction of importance ratios below a bound, before any truncation.

    share = E [w < bound], w = W_i or r_it = pi/mu, by mass. Blind to how far below it the ratios are.
    """
    return ratios.beyond(*weights_of(step, level)[:2], bound, "below")


@metric("a pure number; NaN below 6 samples too", POSITIVE, "Hill 1975; m as in 1507.02646", READS)
def tail_index(step: Step) -> Tensor:
    """Hill estimate of the tail exponent of the step's sequence ratios; NaN if sampling is counts or enumerate.

    1/alpha = mean of log W_i over the m largest minus the log of the (m+1)-th, m = min(n/5, 3 sqrt n) rounded up.
    Variances are finite above 2, means above 1. Blind to whether there is a tail: bounded ratios (softmax bandits) have
    none, and it still reads a number.
    """
    return _of_samples(step, ratios.tail_index(step.sequence_log_ratio, step.step_mass))


@metric("a pure number", ANY, "1507.02646; Zhang and Stephens 2009 (Technometrics 51) for the fit", READS)
def pareto_k(step: Step) -> Tensor:
    """Pareto k-hat of the step's sequence ratios, as in PSIS; NaN if sampling is counts or enumerate.

    k = shape of the generalized Pareto law fitted to the m largest W_i less the (m+1)-th, m = min(n/5, 3 sqrt n)
    rounded up as in loo and ArviZ (posterior and arviz-stats round n/5 down to 255 samples), shrunk to (m k + 5)/(m +
    10). Variances are finite below 1/2, means below 1; above 0.7 an average of weights is not to be trusted. Its
    standard error is near (1 + k)/sqrt(m), so one batch of 500 samples cannot tell 0.5 from 0.7. NaN below 21 samples,
    and where the tail is equal weights. Blind to what the batch has not drawn.
    """
    return _of_samples(step, ratios.pareto_k(step.sequence_log_ratio, step.step_mass))


def _of_samples(step: Step, statistic: Tensor) -> Tensor:
    """An order statistic, or NaN if entries are cells of counts or of an enumeration instead of samples."""
    return statistic if step.batch.single else full_like(statistic, math.nan)


def _nought(value: Tensor, log_weight: Tensor, mass: Tensor, of: str) -> Tensor:
    """A statistic that is 0 if no sample is possible under the current policy; for applied weights it stays NaN."""
    return value if of == "applied" else value.masked_fill(ratios.nothing(log_weight, mass), 0.0)
