"""How evenly the ratios of a step weigh its samples: effective sample sizes, means, shares of the heaviest, tails.

`of` says which ratios: "sequence" W_i = pi(y_i)/mu(y_i), "token" r_it, "applied" |c/A| with factors, "staleness" and
"mismatch" the two parts of W_i; all by mass over the whole step.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, full_like

from asyncsim.base import checks
from asyncsim.diagnostics._ages import over_samples
from asyncsim.diagnostics._diagnostic import Metric, metric
from asyncsim.diagnostics._levels import OF, Bound, checked, named, ratios_of, token_share, weights_of
from asyncsim.diagnostics._ranges import ANY, POSITIVE, SHARE
from asyncsim.step import ratios
from asyncsim.step.step import Step


@metric(outputs=("log_prob",), default=True, of=OF, range=SHARE)
def ess(step: Step, of: str = "sequence") -> Tensor:
    """Effective sample size of the sequence ratios over the number of samples, whole step.

    ESS/N = (E W)^2 / E W^2 with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, a pure number in [1/n, 1] for n
    samples, 1 iff the ratios are equal. Blind to a common factor of the ratios (`mean_weight` sees it) and, once it is
    near 1/n, to how much worse the truth is. Source: Kong 1992; on sequences of a whole step 2602.17616.
    """
    return ratios.ess(*weights_of(step, of)[:2])


ess_token = ess(
    "token",
    doc="""Effective sample size of the token ratios over the number of tokens, whole step.

    ESS/n = (sum_it r_it)^2 / (n sum_it r_it^2) with r_it = pi/mu untruncated over the n tokens of the step: shape
    `[R]`, a pure number in [1/n, 1], 1 iff all token ratios are equal. Blind to how ratios multiply along a sequence:
    it hardly moves where `ess` has collapsed. Source: as in PipelineRL (2509.19128), on untruncated ratios.
    """,
)


ess_applied = ess(
    "applied",
    doc="""Effective sample size of the method's weights after truncation, clip and masks.

    ESS/n = (E w)^2 / E w^2 with w = |c / A| after truncation, shaping, clip and masks (without an advantage: as for A =
    1), per sample where a sample has one weight, else per token: shape `[R]`, a pure number in [1/n, 1], NaN where
    every weight is 0. Blind to what was cut off (`ess` has the same of untruncated ratios), to penalties, and to a
    common factor. Source: Kong 1992; on applied weights this package.
    """,
)


ess_staleness = ess(
    "staleness",
    doc="""Effective sample size of the part of the sequence ratios that is due to stale weights.

    ESS/N of W_i = prod_t pi_current(y_it) / pi_behavior(y_it), both in the trainer's numerics: shape `[R]`, a pure
    number in [1/n, 1]; together with `ess_mismatch` it splits `ess`, whose log ratio is the sum of the two. Equal to
    `ess` where the sampler is the trainer. Blind to what the sampler's rounding adds. Source: Kong 1992; the split is
    this package's.
    """,
)


ess_mismatch = ess(
    "mismatch",
    doc="""Effective sample size of the part of the sequence ratios that is due to the sampler's numerics.

    ESS/N of W_i = prod_t pi_trainer(y_it) / pi_sampler(y_it) at the same behavior weights, the one scored in the
    trainer's numerics, the other as sampled: shape `[R]`, a pure number in [1/n, 1], exactly 1 where the sampler is the
    trainer. Blind to staleness (`ess_staleness`). Source: Kong 1992; the split is this package's.
    """,
)


@metric(outputs=("log_prob",), range=SHARE)
def ess_within(step: Step) -> Tensor:
    """Effective sample size of the token ratios inside each sample, averaged over samples.

    ESS = E_i (sum_t r_it)^2 / (T_i sum_t r_it^2) with r_it = pi/mu untruncated, over samples by mass: shape `[R]`, a
    pure number in (0, 1]. Blind to all that differs between samples: 1 for one-token tasks and for any ratios that are
    constant inside a sequence. Source: as in miles, divided by the number of samples that have tokens.
    """
    return over_samples(step, ratios.ess_along(step.log_ratio, step.batch.mask.double(), -1))


@metric(outputs=("log_prob",), range=SHARE)
def ess_frames(step: Step) -> Tensor:
    """Effective sample size of the token ratios across samples, averaged over positions.

    ESS = mean_t (E_i r_it)^2 / E_i r_it^2 with r_it = pi/mu untruncated, E_i over the samples that have a token t, by
    mass, and the mean over positions that some sample has: shape `[R]`, a pure number in [1/n, 1]. Blind to products
    along a sequence; mixes states that have nothing in common. Source: as in TorchRL's clipped PPO loss.
    """
    share = token_share(step).flatten(1, 2)
    log_ratio = step.log_ratio.flatten(1, 2)
    present = (share > 0).any(1)
    values = ratios.ess_along(log_ratio, share.expand(log_ratio.shape), 1)
    return torch.where(present, values, torch.zeros_like(values)).sum(-1) / present.sum(-1)


def _clamped(step: Step, high: float, low: float, level: str) -> Tensor:
    log_ratio = step.log_ratio
    # One sequence ratio on each of its tokens: long sequences count more.
    log_weight = log_ratio if level == "token" else step.sequence_log_ratio.unsqueeze(-1).expand(log_ratio.shape)
    return ratios.ess(log_weight, token_share(step), high, low)


def ess_token_clamped(high: float = 2.0, low: float | None = None, level: str = "token") -> Metric:
    """Effective sample size of clamped ratios over tokens: the one that cannot fall below its floor.

    ESS = 1 / mean_it (w_it / mean w)^2, w = clip(r, low, high). With low = 1/high it cannot fall below 4/(C + 1/C)^2, C
    = high: 0.64 for 2, 0.36 for 3, 0.148 for 5, whatever the truth. So an alarm below the floor never fires. With low =
    0 it can fall, down to 1/n. With level "sequence" the ratio of a sequence stands on each of its tokens, which weighs
    sequences by their lengths.

    Arguments: `high` >= 1 and `low` in [0, 1] (default 1/high; 0 in newer releases), pure numbers; `level`, "token" or
    "sequence". Returns a metric of shape `[R]`, a pure number in (0, 1], named ess_token_clamped and every setting that
    is not the default. Raises `InputError` for values outside these ranges. Blind to everything beyond the bounds, to a
    common factor between them, and to products of token ratios. Source: as in verl.

    >>> ess_token_clamped(8.0, low=0.0).name
    'ess_token_clamped_8.0_0.0'
    """
    upper = checks.real("high", high, "the upper bound of the clamp", 1.0)
    lower = None if low is None else checks.real("low", low, "the lower bound of the clamp", 0.0, 1.0)
    name = named("ess_token_clamped", high=(upper, 2.0), low=(lower, None), level=(checked(level), "token"))
    least = 1.0 / upper if lower is None else lower
    return Metric(name, Bound(_clamped, (upper, least, level)), outputs=("log_prob",), range=SHARE)


@metric(outputs=("log_prob",), default=True, of=OF, range=POSITIVE)
def mean_weight(step: Step, of: str = "sequence") -> Tensor:
    """Mean sequence ratio: 1 when the logged probabilities are those sampled from.

    E W = sum_i mass_i W_i with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, a pure number, 1 in expectation on
    full support whatever the staleness. Blind to errors that cancel; far from mu most batches miss the rare heavy
    ratios and read below 1. Source: textbook.
    """
    return ratios.mean_weight(*weights_of(step, of)[:2])


token_ratio_mean = mean_weight(
    "token",
    name="token_ratio_mean",
    doc="""Mean token ratio: 1 when the logged probabilities are those sampled from.

    E r = sum_it share_it r_it with r_it = pi/mu untruncated, over the tokens of the step by mass: shape `[R]`, a pure
    number, 1 in expectation on full support where all sequences have equal lengths. Blind to errors that cancel, and to
    products along a sequence (`mean_weight`). Source: textbook.
    """,
)


applied_mean = mean_weight(
    "applied",
    name="applied_mean",
    doc="""Mean size of the method's weights after truncation, clip and masks.

    mean = E w with w = |c / A| after truncation, shaping, clip and masks, over samples or tokens by mass (as
    `ess_applied`): shape `[R]`, a pure number, 1 for the plain policy gradient. Blind to the spread, and to penalties.
    Source: this package.
    """,
)


@metric(outputs=("log_prob",), of=OF, range=SHARE)
def max_weight_share(step: Step, of: str = "sequence") -> Tensor:
    """Largest share of one sample in the total weight of the step.

    share = max_i W_i / (n E W) with W_i = pi(y_i) / mu(y_i) untruncated and n samples: shape `[R]`, a pure number in
    [1/n, 1], 0 for a population. Blind to all samples but the largest, and to a common factor. Source: textbook.
    """
    return ratios.max_weight_share(*weights_of(step, of))


max_applied_share = max_weight_share(
    "applied",
    name="max_applied_share",
    doc="""Largest share of one sample, or of one token, in the method's total weight after truncation, clip and masks.

    share = max w / (n E w) with w = |c / A| after truncation, shaping, clip and masks, n samples or tokens (as
    `ess_applied`): shape `[R]`, a pure number in [1/n, 1], 0 for a population, NaN where every weight is 0. Blind to
    all but the largest, and to the advantages. Source: this package.
    """,
)


@metric(outputs=("log_prob",), of=OF, range=(-1.0, math.inf))
def chi_square(step: Step, of: str = "sequence") -> Tensor:
    """Second moment of the sequence ratios minus one.

    chi^2 = E W^2 - 1 with W_i = pi(y_i) / mu(y_i) untruncated, over the step's samples by mass: shape `[R]`, a pure
    number; chi^2 of pi from mu where E W = 1, and then ESS/N = 1 / (1 + chi^2). Blind to a tail that the batch has not
    drawn: where the second moment is infinite it still reads a finite number. Source: textbook.
    """
    return ratios.chi_square(*weights_of(step, of)[:2])


chi_square_token = chi_square(
    "token",
    doc="""Second moment of the token ratios minus one.

    chi^2 = E r^2 - 1 with r_it = pi/mu untruncated, over the tokens of the step by mass: shape `[R]`, a pure number;
    chi^2 of pi from mu per token where E r = 1. Blind to products along a sequence: over T independent tokens
    `chi_square` is (1 + chi^2)^T - 1. Source: textbook.
    """,
)


def _deviation(step: Step, level: str) -> Tensor:
    return ratios.standard_deviation(*ratios_of(step, level))


def ratio_sd(level: str = "sequence") -> Metric:
    """Standard deviation of the untruncated ratios of the step.

    sd = sqrt(E (w - E w)^2), w = W_i or r_it = pi/mu, by mass. The mean is `mean_weight` or `token_ratio_mean`; (sd /
    mean)^2 = 1/ESS - 1.

    Arguments: `level`, "sequence" or "token". Returns a metric of shape `[R]`, a pure number, infinite where it exceeds
    the largest float. Raises `InputError` for an unknown level. Blind to a tail that the batch has not drawn: where the
    second moment is infinite it still reads a finite number. Source: textbook.

    >>> ratio_sd("token").name
    'ratio_sd_token'
    """
    name = named("ratio_sd", level=(checked(level), "sequence"))
    return Metric(name, Bound(_deviation, (level,)), outputs=("log_prob",), range=POSITIVE)


def _beyond(step: Step, bound: float, level: str, side: str) -> Tensor:
    return ratios.beyond(*ratios_of(step, level), bound, side)


def ratio_above(bound: float = 2.0, level: str = "sequence") -> Metric:
    """Share of ratios above a bound, measured before any truncation.

    share = E [w > bound], w = W_i or r_it = pi/mu, by mass. What a cap of this size truncates. A share of ratios that
    were clamped first is 0 whatever happens.

    Arguments: `bound` > 0, a pure number; `level`, "sequence" or "token". Returns a metric of shape `[R]`, a pure
    number in [0, 1]. Raises `InputError` for a bound that is not positive and an unknown level. Blind to how far above
    it the ratios are. Source: textbook.

    >>> ratio_above(8.0).name
    'ratio_above_8.0'
    """
    limit = checks.real("bound", bound, "give a positive ratio", 0.0, open_low=True)
    name = named("ratio_above", bound=(limit, 2.0), level=(checked(level), "sequence"))
    return Metric(name, Bound(_beyond, (limit, level, "above")), outputs=("log_prob",), range=SHARE)


def ratio_below(bound: float = 0.5, level: str = "sequence") -> Metric:
    """Share of ratios below a bound, measured before any truncation.

    share = E [w < bound], w = W_i or r_it = pi/mu, by mass.

    Arguments: `bound` > 0, a pure number; `level`, "sequence" or "token". Returns a metric of shape `[R]`, a pure
    number in [0, 1]. Raises `InputError` for a bound that is not positive and an unknown level. Blind to how far below
    it the ratios are. Source: textbook.

    >>> ratio_below(level="token").name
    'ratio_below_token'
    """
    limit = checks.real("bound", bound, "give a positive ratio", 0.0, open_low=True)
    name = named("ratio_below", bound=(limit, 0.5), level=(checked(level), "sequence"))
    return Metric(name, Bound(_beyond, (limit, level, "below")), outputs=("log_prob",), range=SHARE)


@metric(outputs=("log_prob",), range=POSITIVE)
def tail_index(step: Step) -> Tensor:
    """Hill estimate of the tail exponent of the step's sequence ratios; NaN for counts and populations.

    1/alpha = mean of log W_i over the m largest minus the log of the (m+1)-th, m = min(n/5, 3 sqrt n) rounded up: shape
    `[R]`, a pure number; NaN below 6 samples too. Variances are finite above 2, means above 1. Blind to whether there
    is a tail: bounded ratios (softmax bandits) have none, and it still reads a number. Source: Hill 1975; m as in
    1507.02646.
    """
    return _of_samples(step, ratios.tail_index(step.sequence_log_ratio, step.step_mass))


@metric(outputs=("log_prob",), range=ANY)
def pareto_k(step: Step) -> Tensor:
    """Pareto k-hat of the step's sequence ratios, as of PSIS; NaN for counts and populations.

    Shape of the generalized Pareto law fitted to the m largest W_i less the (m+1)-th, m = min(n/5, 3 sqrt n) rounded up
    as in loo and ArviZ (posterior and arviz-stats round n/5 down to 255 samples), shrunk to (m k + 5)/(m + 10): shape
    `[R]`, a pure number. Variances are finite below 1/2, means below 1; above 0.7 an average of weights is not to be
    trusted. Its standard error is near (1 + k)/sqrt(m), so one batch of 500 samples cannot tell 0.5 from 0.7. NaN below
    21 samples, and where the tail is equal weights. Blind to what the batch has not drawn. Source: 1507.02646; Zhang
    and Stephens 2009 (Technometrics 51) for the fit.
    """
    return _of_samples(step, ratios.pareto_k(step.sequence_log_ratio, step.step_mass))


def _of_samples(step: Step, statistic: Tensor) -> Tensor:
    """A statistic of order, NaN where entries are cells of counts or of an enumeration and no samples."""
    return statistic if step.batch.single else full_like(statistic, math.nan)
