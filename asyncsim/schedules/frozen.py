"""A frozen generator: every token comes from the initial policy."""

import numpy as np

from asyncsim.schedules._imposed import Imposed, Request


def frozen(*, groups_per_batch: int = 1, batches_per_publish: int = 1) -> Imposed:
    """Version 0 throughout: staleness grows by one with every publish.

    Arguments: `groups_per_batch` and `batches_per_publish`, counts >= 1. Returns an imposed schedule, versions `[M, B,
    G, N, 1]`. Raises `InputError` for counts below one. Source: textbook (a fixed behavior policy, as in 2506.20520).

    >>> frozen().schedule(3, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0]
    """
    return Imposed("frozen", {}, _versions, groups_per_batch=groups_per_batch, batches_per_publish=batches_per_publish)


def _versions(request: Request) -> np.ndarray:
    return np.zeros_like(request.train_version)[:, None, None]
