"""slime in both of its ways, and miles, which grew from it."""

from __future__ import annotations

from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, optional, preset, share
from asyncsim.systems._system import System


@preset
def slime_train_async(
    rollout_batch_size: int, update_weights_interval: int = 1, *, length: Length, **times: Unpack[Times]
) -> System:
    """slime train_async: the next rollout runs while this one trains, weights move every few of them.

    K = q = C = P, back at the dequeue, a publish after every n rollouts, drained: staleness 0 or 1, mean 1 / n.

    Only the first rollout behind a publish was generated before it; in batches the age cycles through 1 .. n. Hard, law
    `systems/cap-binds` with K = M / n at the dequeue. slime stamps no version here, it counts rollouts.

    Arguments: `rollout_batch_size` P in groups; `update_weights_interval` n in rollouts. Source: slime.

    >>> slime_train_async(2, 3, length=1.0, train_time=1.0).staleness(9, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    """
    batch = count("rollout_batch_size", rollout_batch_size)
    every = count("update_weights_interval", update_weights_interval, 1, "count rollouts")
    return System(
        "slime_train_async",
        {},
        as_law("length", length),
        alike("rollout_batch_size", batch, batch),
        groups_per_batch=batch,
        batches_per_publish=every,
        tickets=batch,
        release="dequeue",
        quantum=batch,
        order="done",
        mode="drain",
        **times,
    )


@preset
def slime_fully_async(
    rollout_batch_size: int,
    sglang_server_concurrency: int = 512,
    engines: int = 1,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """slime fully asynchronous: a fixed number of groups is always in flight, no version is looked at.

    An open loop of C groups whose samples wait for C slots: mean staleness O / P, 2 C / P + 1 at most; soft.

    Up to C groups are in generation, and no new one begins while C finished groups wait. One semaphore of C permits,
    which every sample takes, serves the samples of all engines in turn. The next rollout is collected while this one
    trains, and the publish waits for it. Law `systems/mean-staleness-identity` with O, the groups outstanding at a
    publish, below 2 C + P by the three bounds. No age is checked. A publish aborts running samples, which then go on
    from their tokens. slime stamps the versions of engine calls when they return.

    Arguments: `rollout_batch_size` P in groups; `sglang_server_concurrency` times `engines`, C, P at least. Source:
    slime.

    >>> slime_fully_async(2, 4, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 3.0, 3.0, 4.0]
    """
    batch = count("rollout_batch_size", rollout_batch_size)
    per_engine = count("sglang_server_concurrency", sglang_server_concurrency)
    servers = count("engines", engines, 1, "count engines")
    places = per_engine * servers
    checks.require(
        places >= batch,
        "sglang_server_concurrency",
        per_engine,
        f"at least rollout_batch_size / engines = {batch} / {servers}",
        "the buffer has to hold a rollout",
    )
    return System(
        "slime_fully_async",
        {},
        as_law("length", length),
        alike("sglang_server_concurrency", per_engine, places),
        groups_per_batch=batch,
        slots=places,
        prefetch=1,
        capacity=places,
        overflow="close",
        order="done",
        mode="reprefill",
        publish_waits=True,
        **times,
    )


@preset
def miles(
    rollout_batch_size: int,
    max_weight_staleness: int | None = None,
    async_data_buffer_capacity_factor: float = 2.0,
    async_unused_samples_handler: str = "drop",
    pause_generation_mode: str = "retract",
    async_max_concurrent_samples: int | None = None,
    num_steps_per_rollout: int = 1,
    n_samples_per_prompt: int = 1,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """miles fully asynchronous: a bounded buffer of finished groups, checked for the version of their engine calls.

    C groups in an open loop, floor(c P) in the buffer: mean staleness C / P + c + 1 where the trainer is slower.

    Law `systems/mean-staleness-identity`. The next rollout is collected while this one trains, and the publish waits
    for it: that is the 1. A limit m cuts at the dequeue, by the version at which the group's first engine call returned
    and that of the engines then. One publish later, when the batch trains, 0 .. m + 1 is hard in that stamp only. A
    group refused is dropped, or its prompt is asked again (retry). `num_steps_per_rollout` U minibatches of samples are
    recommended, an update on each.

    Arguments: `rollout_batch_size` P in groups; `max_weight_staleness` m in publishes, or None;
    `async_data_buffer_capacity_factor` c >= 1 in batches; `async_unused_samples_handler`, drop or retry;
    `pause_generation_mode`, retract or in_place; `async_max_concurrent_samples`, for C whole groups (else P);
    `num_steps_per_rollout` U; `n_samples_per_prompt`, samples of a group, as in the run. Source: miles.

    >>> miles(2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    """
    # Convert ratios to groups.
    batch = count("rollout_batch_size", rollout_batch_size)
    limit = optional("max_weight_staleness", max_weight_staleness, 0, "count publishes")
    factor = async_data_buffer_capacity_factor
    room = int(share("async_data_buffer_capacity_factor", factor, "hold a batch", 1.0) * batch)
    handler, pause_mode = async_unused_samples_handler, pause_generation_mode
    checks.one_of("async_unused_samples_handler", handler, ("drop", "retry"), "say what becomes of stale groups")
    checks.one_of("pause_generation_mode", pause_mode, ("retract", "in_place"), "say how samples see new weights")
    size = count("n_samples_per_prompt", n_samples_per_prompt, 1, "count samples")
    samples = optional("async_max_concurrent_samples", async_max_concurrent_samples, 1, "count samples")
    places = batch if samples is None else max(1, samples // size)
    steps = count("num_steps_per_rollout", num_steps_per_rollout, 1, "count updates on a rollout")
    return System(
        "miles",
        {},
        as_law("length", length),
        alike("async_max_concurrent_samples", places, places),
        groups_per_batch=batch,
        prefetch=1,
        capacity=room,
        overflow="block",
        order="done",
        # The engines' version at the dequeue is one below that at which the batch trains.
        max_age=None if limit is None else limit + 1,
        age_action="drop" if handler == "drop" else "requeue",
        age_reference="end",
        mode="reprefill" if pause_mode == "retract" else "keep",
        publish_waits=True,
        recommended={"minibatches": steps, "cut": "samples"} if steps > 1 else {},
        **times,
    )
