"""UniRL asynchronous: whole batches are admitted on a budget of staleness in batches, and drained before a publish."""

from typing import Unpack

from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, optional, preset
from asyncsim.systems._system import System


@preset
def unirl(
    batch_size: int,
    weight_sync_interval: int = 1,
    buffer_max_staleness: int | None = None,
    max_inflight: int = 1,
    num_updates_per_batch: int = 1,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """UniRL: a published snapshot serves so many batches, its budget of staleness, and no sample straddles a publish.

    K = min(b + 1, F + S) P tickets back at the publish, batch by batch, drained: staleness 0 .. floor(b / S), hard.

    At most b batches of the trainer's lie between a group's weights and its training, b U updates. Where generation is
    ahead the mean is K / M - 1 publishes (`systems/cap-binds`). Unless a budget is given it is b = S - 1: a snapshot
    serves the S batches up to the next publish, and all are 0 publishes old. Law `systems/hard-bounds`. UniRL stamps
    each turn with the updates in its weights.

    Arguments: `batch_size` P in groups; `weight_sync_interval` S in batches; `buffer_max_staleness` b in batches, S - 1
    at least, or None for that; `max_inflight` F, batches generated at once; `num_updates_per_batch` U minibatches,
    recommended. Source: UniRL's asynchronous trainer of language models.

    >>> unirl(2, 1, 2, 2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch = count("batch_size", batch_size)
    every = count("weight_sync_interval", weight_sync_interval, 1, "count batches")
    least = f"allow the {every - 1} batches between two publishes"
    budget = optional("buffer_max_staleness", buffer_max_staleness, every - 1, least)
    inflight = count("max_inflight", max_inflight, 1, "count batches")
    updates = count("num_updates_per_batch", num_updates_per_batch, 1, "count updates")
    # Beside the budget, F batches may be out besides the one in training: that is F + S at the publish.
    ahead = min((every if budget is None else budget + 1), inflight + every)
    return System(
        "unirl",
        {},
        as_law("length", length),
        alike("max_inflight", inflight, inflight * batch),
        groups_per_batch=batch,
        batches_per_publish=every,
        tickets=ahead * batch,
        release="publish",
        quantum=batch,
        order="done",
        mode="drain",
        recommended={"minibatches": updates, "cut": "samples"} if updates > 1 else {},
        **times,
    )
