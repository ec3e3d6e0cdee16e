"""Staleness of the tokens of a step, in versions or in updates."""

import math

import torch
from torch import Tensor

from asyncsim.diagnostics._diagnostic import POSITIVE, SHARE, head_staleness, metric
from asyncsim.diagnostics._levels import ages, over_samples, sample_share, token_share
from asyncsim.step.step import Step

_VERSIONS = "in versions, NaN where a version is unknown"


@metric(_VERSIONS, POSITIVE, "textbook", default=True)
def staleness(step: Step) -> Tensor:
    """Mean staleness of the first tokens of all samples in the batch, in versions.

    s = mean_i (v_train - v_i1), the version trained at minus the behavior version of the first token. Blind to the
    spread in the batch, to later tokens of a trajectory, which may be fresher, and to updates made since the publish.
    """
    return head_staleness(step)


@metric(_VERSIONS, POSITIVE, "textbook")
def staleness_head(step: Step) -> Tensor:
    """Mean staleness of each trajectory's oldest token, in versions.

    s = E_i max_t (v_train - v_it) over the generated tokens of each sample, by mass. Equal to `staleness` where
    versions never fall along a trajectory. Blind to younger tokens and to updates made since the publish.
    """
    return over_samples(step, ages(step).oldest)


@metric(_VERSIONS, POSITIVE, "textbook")
def staleness_newest(step: Step) -> Tensor:
    """Mean staleness of each trajectory's newest token, in versions.

    s = E_i min_t (v_train - v_it) over the generated tokens of each sample, by mass. What stacks report that stamp a
    trajectory at its end. Blind to all older tokens: it understates.
    """
    return over_samples(step, ages(step).newest)


@metric(_VERSIONS, POSITIVE, "textbook")
def staleness_mean(step: Step) -> Tensor:
    """Mean staleness over all tokens of the step, in versions.

    s = sum_it share_it (v_train - v_it) over generated tokens by mass, so that long samples count more. Blind to the
    spread, and to updates made since the publish.
    """
    return (token_share(step) * ages(step).token).sum((1, 2, 3))


@metric(_VERSIONS, POSITIVE, "textbook")
def staleness_max(step: Step) -> Tensor:
    """Maximum staleness over the tokens of the step, in versions.

    s = max_it (v_train - v_it) over the generated tokens of all samples that have mass. What a bound on staleness
    promises. Blind to all tokens but one.
    """
    oldest = ages(step).oldest
    present = (sample_share(step) > 0).expand(oldest.shape)
    return torch.where(present, oldest, torch.full((), -math.inf, dtype=oldest.dtype)).amax((1, 2))


@metric(f"{_VERSIONS}, 0 where every trajectory has one", POSITIVE, "textbook")
def staleness_span(step: Step) -> Tensor:
    """Mean difference between the maximum and minimum staleness inside a trajectory, in versions.

    s = E_i (max_t - min_t)(v_train - v_it) over the generated tokens of each sample, by mass. Blind to how old the
    tokens are.
    """
    sample_ages = ages(step)
    return over_samples(step, sample_ages.oldest - sample_ages.newest)


@metric("a pure number in [0, 1], NaN where a version is unknown", SHARE, "this package")
def mixed_versions(step: Step) -> Tensor:
    """Fraction of trajectories whose tokens come from more than one version.

    share = E_i [max_t v_it > min_t v_it] over the generated tokens of each sample, by mass. Blind to how many versions
    a trajectory has seen.
    """
    sample_ages = ages(step)
    span = sample_ages.oldest - sample_ages.newest
    return over_samples(step, torch.where(torch.isnan(span), span, (span > 0).double()))


@metric("in updates, NaN where a version is unknown", POSITIVE, "textbook")
def update_staleness(step: Step) -> Tensor:
    """Maximum staleness over the tokens of the step, in optimizer updates.

    u = (v_train - min_it v_it) U + j with U updates per version and j made since the trained version was published.
    Counts the updates on a drained batch that versions do not see. Blind to all tokens but one.
    """
    return step.update_staleness
