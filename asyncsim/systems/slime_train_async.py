"""slime train_async: the next rollout runs while this one trains, weights move every few of them."""

from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count
from asyncsim.systems._system import System


def slime_train_async(
    rollout_batch_size: int,
    update_weights_interval: int = 1,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """K = q = C = P, back at the dequeue, a publish after every n rollouts, drained: staleness 0 or 1, mean 1 / n.

    Only the first rollout behind a publish was generated before it; in batches the age cycles through 1 .. n. Hard, law
    `systems/cap-binds` with K = M / n at the dequeue. slime stamps no version here, it counts rollouts.

    Arguments: `rollout_batch_size` P in groups; `update_weights_interval` n in rollouts; `length`, law of a sample's
    work at one unit a second; `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`,
    seconds of a publish. Returns a system. Raises `InputError`. Source: slime.

    >>> slime_train_async(2, 3, length=1.0, train_time=1.0).staleness(9, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    """
    batch = count("rollout_batch_size", rollout_batch_size)
    every = count("update_weights_interval", update_weights_interval, 1, "count rollouts")
    knobs = {"rollout_batch_size": batch, "update_weights_interval": every}
    return System(
        "slime_train_async",
        knobs,
        as_law("length", length),
        alike("rollout_batch_size", batch, batch),
        groups_per_batch=batch,
        batches_per_publish=every,
        tickets=batch,
        release="dequeue",
        quantum=batch,
        order="done",
        mode="drain",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
