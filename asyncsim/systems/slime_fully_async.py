"""slime fully asynchronous: a fixed number of groups is always in flight, no version is looked at."""

from asyncsim import checks
from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count
from asyncsim.systems._system import System


def slime_fully_async(
    rollout_batch_size: int,
    sglang_server_concurrency: int = 512,
    engines: int = 1,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """An open loop of C groups whose samples wait for C slots: mean staleness O / P, 2 C / P at most; soft.

    Up to C groups are in generation, and no new one begins while C finished groups wait. One semaphore of C permits,
    which every sample takes, serves the samples of all engines in turn. Law `systems/mean-staleness-identity` with O,
    the groups outstanding at a publish, below 2 C by the two bounds. No age is checked. slime stamps the versions of
    engine calls when they return.

    Arguments: `rollout_batch_size` P in groups; `sglang_server_concurrency` times `engines`, C, P at least; `length`,
    law of a sample's work at one unit a second; `load`, generation over training rate, or `train_time`, seconds of a
    batch; `sync_time`, seconds of a publish. Returns a system. Raises `InputError`. Source: slime.

    >>> slime_fully_async(2, 4, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 3.0, 2.0, 3.0]
    """
    batch = count("rollout_batch_size", rollout_batch_size)
    each = count("sglang_server_concurrency", sglang_server_concurrency)
    servers = count("engines", engines, 1, "count engines")
    places = each * servers
    checks.require(
        places >= batch,
        "sglang_server_concurrency",
        each,
        f"at least rollout_batch_size / engines = {batch} / {servers}",
        "the buffer has to hold a rollout",
    )
    knobs = {"rollout_batch_size": batch, "sglang_server_concurrency": each, "engines": servers}
    return System(
        "slime_fully_async",
        knobs,
        as_law("length", length),
        alike("sglang_server_concurrency", each, places),
        groups_per_batch=batch,
        slots=places,
        capacity=places,
        overflow="close",
        order="done",
        mode="keep",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
