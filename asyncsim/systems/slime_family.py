"""slime in both of its ways, and miles, which grew from it."""

from __future__ import annotations

from typing import Any

from asyncsim.base import checks
from asyncsim.systems._knobs import choice, count, limit, preset, settings, share, source


@source("THUDM/slime@624b824", "2026-08-21", "train_async.py")
@preset("slime", "rollout_batch_size")
def slime_train_async(
    rollout_batch_size: int = count("P in groups"),
    update_weights_interval: int = count("n in rollouts", 1, "count rollouts"),
) -> dict[str, Any]:
    """slime train_async: the next rollout runs while this one trains, weights move every few of them.

    K = q = C = P, back at the dequeue, a publish after every n rollouts, drained: staleness 0 or 1, mean 1 / n.

    Only the first rollout behind a publish was generated before it; in batches the age cycles through 1 .. n. Hard, law
    `systems/cap-binds` with K = M / n at the dequeue. slime stamps no version here, it counts rollouts.

    >>> slime_train_async(2, 3, length=1.0, train_time=1.0).staleness(9, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    """
    batch, every = rollout_batch_size, update_weights_interval
    return settings(
        batch, batch, batches_per_publish=every, tickets=batch, release="dequeue", quantum=batch, mode="drain"
    )


@source("THUDM/slime@624b824", "2026-08-21", "slime/rollout/fully_async_rollout.py")
@preset("slime", "sglang_server_concurrency")
def slime_fully_async(
    rollout_batch_size: int = count("P in groups"),
    sglang_server_concurrency: int = count("permits of an engine, C in all, P at least", 512),
    engines: int = count("engines", 1, "count engines"),
) -> dict[str, Any]:
    """slime fully asynchronous: a fixed number of groups is always in flight, no version is looked at.

    An open loop of C groups whose samples wait for C slots: mean staleness O / P, 2 C / P + 1 at most; soft.

    Up to C groups are in generation, and no new one begins while C finished groups wait. One semaphore of C permits,
    which every sample takes, serves the samples of all engines in turn. The next rollout is collected while this one
    trains, and the publish waits for it. Law `systems/mean-staleness-identity` with O, the groups outstanding at a
    publish, below 2 C + P by the three bounds. No age is checked. A publish aborts running samples, which then go on
    from their tokens. slime stamps the versions of engine calls when they return.

    >>> slime_fully_async(2, 4, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 3.0, 3.0, 4.0]
    """
    batch, places = rollout_batch_size, sglang_server_concurrency * engines
    bound, remedy = f"at least rollout_batch_size / engines = {batch} / {engines}", "the buffer has to hold a rollout"
    checks.require(places >= batch, "sglang_server_concurrency", sglang_server_concurrency, bound, remedy)
    queue = {"prefetch": 1, "capacity": places, "overflow": "close", "publish_waits": True}
    return settings(places, batch, slots=places, mode="reprefill", **queue)


@source("radixark/miles@31f1ca9", "2026-08-21", "miles/rollout/fully_async_data_buffer.py")
@preset("miles", "async_max_concurrent_samples")
def miles(
    rollout_batch_size: int = count("P in groups"),
    max_weight_staleness: int | None = limit("m in publishes, or None", "count publishes", 0),
    async_data_buffer_capacity_factor: float = share("c >= 1 in batches", 2.0, "hold a batch", 1.0),
    async_unused_samples_handler: str = choice("drop or retry", ("drop", "retry"), "say what becomes of stale groups"),
    pause_generation_mode: str = choice(
        "retract or in_place", ("retract", "in_place"), "say how samples see new weights"
    ),
    async_max_concurrent_samples: int | None = limit("for C whole groups (else P)", "count samples"),
    num_steps_per_rollout: int = count("U", 1, "count updates on a rollout"),
    n_samples_per_prompt: int = count("samples of a group, as in the run", 1, "count samples"),
) -> dict[str, Any]:
    """miles fully asynchronous: a bounded buffer of finished groups, checked for the version of their engine calls.

    C groups in an open loop, floor(c P) in the buffer: mean staleness C / P + c + 1 where the trainer is slower.

    Law `systems/mean-staleness-identity`. The next rollout is collected while this one trains, and the publish waits
    for it: that is the 1. A limit m cuts at the dequeue, by the version at which the group's first engine call returned
    and that of the engines then. One publish later, when the batch trains, 0 .. m + 1 is hard in that stamp only. A
    group refused is dropped, or its prompt is asked again (retry). `num_steps_per_rollout` U minibatches of samples are
    recommended, an update on each.

    >>> miles(2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    """
    batch, concurrent, steps = rollout_batch_size, async_max_concurrent_samples, num_steps_per_rollout
    return settings(
        batch if concurrent is None else max(1, concurrent // n_samples_per_prompt),
        batch,
        prefetch=1,
        capacity=int(async_data_buffer_capacity_factor * batch),
        # The engines' version at the dequeue is one below that at which the batch trains.
        max_age=None if max_weight_staleness is None else max_weight_staleness + 1,
        age_action="drop" if async_unused_samples_handler == "drop" else "requeue",
        age_reference="end",
        mode="reprefill" if pause_generation_mode == "retract" else "keep",
        publish_waits=True,
        recommended={"minibatches": steps, "cut": "samples"} if steps > 1 else {},
    )
