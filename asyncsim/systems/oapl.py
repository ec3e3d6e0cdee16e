"""OAPL: a period of batches from one version, then weights and buffer begin anew."""

from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count
from asyncsim.systems._system import System


def oapl(
    groups_per_batch: int,
    period: int,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """K = M = L P tickets back at the publish, S = L, drain: staleness 0, in updates a sawtooth 0 .. L - 1.

    All groups of a period are generated under the weights with which it begins, and none is left at its end: law
    `systems/cap-binds` at K = M. Batch i of a period is i U updates old when it starts to train.

    Arguments: `groups_per_batch` P; `period` L in batches; `length`, law of a sample's work at one unit a second;
    `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`, seconds of a publish.
    Returns a system. Raises `InputError`. Source: OAPL (2602.19362).

    >>> oapl(2, 3, length=1.0, train_time=1.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    batch = count("groups_per_batch", groups_per_batch)
    every = count("period", period, 1, "count batches")
    return System(
        "oapl",
        {"groups_per_batch": batch, "period": every},
        as_law("length", length),
        alike("period", every, batch * every),
        groups_per_batch=batch,
        batches_per_publish=every,
        tickets=batch * every,
        release="publish",
        order="done",
        mode="drain",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
