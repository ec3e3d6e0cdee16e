"""torchforge: a replay buffer sampled at random, from which what is older than a step or so is evicted."""

from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count, optional
from asyncsim.systems._system import System


def torchforge(
    batch_size: int,
    max_policy_age: int = 1,
    max_buffer_size: int | None = None,
    max_resample_count: int = 0,
    rollout_threads: int = 1,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """An open loop of C groups, random batches of what is at most m versions old: staleness 0 .. m, hard.

    With a slow trainer all of a default run is 1 version old; law `systems/mean-staleness-identity` with drops. A full
    buffer loses its oldest. The stamp is the generator's version, in publishes; a generator finishes its requests
    before it takes new weights (drain), so all tokens of a sample have it.

    Arguments: `batch_size` P in groups; `max_policy_age` m in versions; `max_buffer_size` in groups, P at least, or
    None; `max_resample_count`, how often a group may be used again; `rollout_threads` C in groups; `length`, law of a
    sample's work at one unit a second; `load`, generation over training rate, or `train_time`, seconds of a batch;
    `sync_time`, seconds of a publish. Returns a system. Raises `InputError`. Source: torchforge.

    >>> torchforge(2, rollout_threads=2, length=1.0, train_time=2.5).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    batch = count("batch_size", batch_size)
    limit = count("max_policy_age", max_policy_age, 0, "count versions")
    held = optional("max_buffer_size", max_buffer_size, batch, f"hold a batch of batch_size = {batch}")
    again = count("max_resample_count", max_resample_count, 0, "count further uses")
    threads = count("rollout_threads", rollout_threads)
    knobs = {
        "batch_size": batch,
        "max_policy_age": limit,
        "max_buffer_size": held,
        "max_resample_count": again,
        "rollout_threads": threads,
    }
    return System(
        "torchforge",
        knobs,
        as_law("length", length),
        alike("rollout_threads", threads, threads),
        groups_per_batch=batch,
        capacity=held,
        overflow="drop_oldest",
        max_uses=1 + again,
        order="random",
        max_age=limit,
        age_action="drop",
        mode="drain",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
