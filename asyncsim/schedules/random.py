"""A random staleness drawn from a distribution of integers, for every update, group or trajectory."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from asyncsim.base import checks, laws, rng
from asyncsim.schedules._imposed import Imposed, Request

_PER = ("update", "group", "trajectory")


def random(
    law: Sequence[float] | np.ndarray | str,
    per: str = "update",
    *,
    groups_per_batch: int = 1,
    batches_per_publish: int = 1,
) -> Imposed:
    """Staleness min(version, s) with independent s of law P(s = k) = p_k.

    A run that ends before the version of the largest s warns (`checks.ShortRunWarning`).

    Arguments: `law`, probabilities p_0, p_1, ... of the integers, in versions (`asyncsim.base.laws.uniform(0, 4)`, or
    the text "uniform:0:4", for equal ones), or the text "@staleness.csv:column" for the shares in a column of observed
    integers, one for each trajectory; `per`, what shares a draw: "update" (all of a batch), "group" or "trajectory";
    `groups_per_batch` and `batches_per_publish`, counts >= 1. Returns an imposed schedule, versions `[M, B, G, N, 1]`,
    whose realizations are independent. Raises `InputError` for a law that is not one of probabilities, an unknown
    `per`, or counts below one. Source: textbook (independent random delays).

    >>> random([0.0, 0.5, 0.5]).schedule(6, 1, 1, 1, seed=3).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    """
    weights = laws.as_probabilities("law", law)
    checks.one_of("per", per, _PER, "say what shares a draw")
    return Imposed(
        "random",
        {"law": weights.tolist(), "per": per},
        partial(_versions, tuple(weights), per),
        random=True,
        groups_per_batch=groups_per_batch,
        batches_per_publish=batches_per_publish,
        reached=int(np.flatnonzero(weights)[-1]),
    )


def _versions(law: tuple[float, ...], per: str, request: Request) -> np.ndarray:
    groups = 1 if per == "update" else request.groups
    samples = request.samples if per == "trajectory" else 1
    # Rounding may leave the last sum below one, or a uniform above it: the last possible value takes the rest.
    support = np.flatnonzero(law)
    cumulative = np.cumsum(np.take(law, support))[:-1]
    stream = rng.Stream(request.seed, f"staleness per {per}")
    realization = np.arange(request.realizations)[:, None, None]
    unit = np.arange(groups * samples).reshape(groups, samples)
    version = np.empty((request.realizations, request.train_version.size, groups, samples), dtype=np.int32)
    for batch, current in enumerate(request.train_version):
        uniform = stream.uniform(realization, batch * unit.size + unit)
        staleness = support[np.searchsorted(cumulative, uniform, side="right")]
        version[:, batch] = np.maximum(current - staleness, 0)
    return version
