"""The stale harness of M2PO: every batch is a fixed number of steps old."""

from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count
from asyncsim.systems._system import System


def m2po(
    train_batch_size: int,
    stale_iteration: int = 64,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """K = (k + 1) P tickets back at the publish, strictly in order: staleness min(version, k), exactly k batches.

    Law `systems/hard-bounds`, in publishes of one batch each. The recipe updates on 4 minibatches of a batch; a run has
    none yet: the recommended 4 epochs update on the whole batch instead, 4 k + j updates behind. The first k + 1
    batches all come from version 0.

    Arguments: `train_batch_size` P in groups; `stale_iteration` k in batches; `length`, law of a sample's work at one
    unit a second; `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`, seconds of a
    publish. Returns a system. Raises `InputError`. Source: M2PO (2510.01161).

    >>> m2po(2, 3, length="lognormal:1.0:0.8", load=1.5).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    """
    batch = count("train_batch_size", train_batch_size)
    behind = count("stale_iteration", stale_iteration, 0, "count batches")
    tickets = (behind + 1) * batch
    return System(
        "m2po",
        {"train_batch_size": batch, "stale_iteration": behind},
        as_law("length", length),
        alike("stale_iteration", behind, tickets),
        groups_per_batch=batch,
        tickets=tickets,
        release="publish",
        order="oldest_start",
        window=1,
        mode="keep",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
        recommended={"epochs": 4},
    )
