"""A fixed staleness: every batch is generated under the version so many publishes before it."""

from functools import partial

import numpy as np

from asyncsim.base import checks
from asyncsim.schedules._imposed import Imposed, Request


def fixed(staleness: int, *, groups_per_batch: int = 1, batches_per_publish: int = 1) -> Imposed:
    """Staleness min(version, L) for every token: the first L versions are trained on version 0.

    A run that ends before version L warns (`checks.ShortRunWarning`).

    Arguments: `staleness` L in versions, an integer >= 0; `groups_per_batch` and `batches_per_publish`, counts >= 1.
    Returns an imposed schedule, versions `[M, B, G, N, 1]`. Raises `InputError` for integers outside these ranges.
    Assumes that a batch is generated under one version. Source: textbook (constant delay).

    >>> fixed(2).schedule(5, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0]
    """
    staleness = checks.integer("staleness", staleness, 0, "give a number of versions", checks.LARGEST)
    return Imposed(
        "fixed",
        {"staleness": staleness},
        partial(_versions, staleness),
        groups_per_batch=groups_per_batch,
        batches_per_publish=batches_per_publish,
        reached=staleness,
    )


def _versions(staleness: int, request: Request) -> np.ndarray:
    return np.maximum(request.train_version - staleness, 0)[:, None, None]
