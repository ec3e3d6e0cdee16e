"""A sawtooth: weights are published every so many batches, and all data is of the version being trained."""

import numpy as np

from asyncsim.base import checks
from asyncsim.schedules._imposed import Imposed, Request


def sawtooth(batches: int, *, groups_per_batch: int = 1) -> Imposed:
    """Staleness 0 and update staleness 0, 1, ..., n - 1 in turn, for n batches of one update each.

    Arguments: `batches` n between publishes; `groups_per_batch`, a count >= 1. Returns an imposed schedule, versions
    `[M, B, G, N, 1]`. Raises `InputError` for counts below one. Source: OAPL (2602.19362), buffer cleared at every
    synchronization.

    >>> law = sawtooth(4)
    >>> law.batches_per_publish, float(law.schedule(8, 1, 1, 1, seed=0).staleness().max())
    (4, 0.0)
    """
    every = checks.integer("batches", batches, 1, "count the batches between two publishes", checks.LARGEST)
    return Imposed(
        "sawtooth", {"batches": every}, _versions, groups_per_batch=groups_per_batch, batches_per_publish=every
    )


def _versions(request: Request) -> np.ndarray:
    return request.train_version[:, None, None]
