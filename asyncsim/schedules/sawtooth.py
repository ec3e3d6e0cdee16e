"""A sawtooth: weights are published every so many updates, and all data is of the version being trained."""

import numpy as np

from asyncsim import checks
from asyncsim.schedules._imposed import Imposed, Request


def sawtooth(updates: int, *, groups_per_batch: int = 1, updates_per_batch: int = 1) -> Imposed:
    """Staleness 0 and update staleness 0, 1, ..., n-1 in turn.

    Arguments: `updates` n, optimizer updates between publishes, a multiple of `updates_per_batch`; `groups_per_batch`
    and `updates_per_batch`, counts >= 1. Returns an imposed schedule, versions `[M, B, G, N, 1]`. Raises `InputError`
    for counts below one, or updates that are no such multiple. Source: OAPL (2602.19362), buffer cleared at every
    synchronization.

    >>> law = sawtooth(4)
    >>> law.batches_per_publish, float(law.schedule(8, 1, 1, 1, seed=0).staleness().max())
    (4, 0.0)
    """
    updates = checks.integer("updates", updates, 1, "count the updates between two publishes", checks.LARGEST)
    per_batch = checks.integer("updates_per_batch", updates_per_batch, 1, "count from one")
    checks.require(
        updates % per_batch == 0, "updates", updates, f"a multiple of updates_per_batch = {per_batch}",
        "publishes happen between batches",
    )
    return Imposed(
        "sawtooth", {"updates": updates}, _versions, groups_per_batch=groups_per_batch,
        batches_per_publish=updates // per_batch, updates_per_batch=per_batch,
    )


def _versions(request: Request) -> np.ndarray:
    return request.train_version[:, None, None]
