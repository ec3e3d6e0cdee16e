"""TRL AsyncGRPO: an open loop of generation tasks before a queue of samples, which discards stale ones."""

from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, groups_of, preset
from asyncsim.systems._system import System

_SCORING = 18
"""Groups that TRL keeps between generation and a full queue: 16 to be scored, one being scored, one that waits."""


@preset
def trl(
    samples_per_step: int,
    max_staleness: int = 4,
    max_inflight_tasks: int = -1,
    queue_maxsize: int = 1024,
    weight_sync_steps: int = 1,
    num_generations: int = 8,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """An open loop of tasks before a queue that closes it, older than m is discarded at the dequeue: 0 .. m, hard.

    With a slow trainer the mass is at m and much is discarded; law `systems/mean-staleness-identity` with drops. The
    stamp is the version at a group's first dispatch, in publishes. Samples are paused at an install and go on. A task
    ends with its sample, and a group begins when one is free; none begins while the queue and the scoring before it are
    full.

    Arguments: `samples_per_step`, samples of an optimizer step (TRL: device batch x accumulation x processes), P = that
    / num_generations groups; `max_staleness` m in publishes; `max_inflight_tasks` in samples, -1 for m steps of them
    (with m = 0 TRL starts no task, so give a number); `queue_maxsize` in samples; `weight_sync_steps` S;
    `num_generations`, samples of a group, as in the run. Source: TRL.

    >>> trl(2, 2, num_generations=1, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    # Convert samples to groups.
    size = count("num_generations", num_generations, 1, "count samples")
    batch = groups_of("samples_per_step", samples_per_step, size, "num_generations")
    limit = count("max_staleness", max_staleness, 0, "count publishes")
    every = count("weight_sync_steps", weight_sync_steps, 1, "count steps")
    # Bound the tasks at once.
    tasks = max_inflight_tasks
    if tasks != -1:
        tasks = checks.integer("max_inflight_tasks", tasks, size, "let a group run, or give -1", checks.LARGEST)
    queue = checks.integer("queue_maxsize", queue_maxsize, batch * size, "the queue has to hold a step", checks.LARGEST)
    checks.require(
        tasks != -1 or limit > 0,
        "max_inflight_tasks",
        tasks,
        "a number of samples with max_staleness = 0",
        "-1 is max_staleness steps of them, and TRL would start no task",
    )
    # Count the permits.
    permits = limit * batch * size if tasks == -1 else tasks
    return System(
        "trl",
        {},
        as_law("length", length),
        alike("max_inflight_tasks", tasks, permits),
        groups_per_batch=batch,
        batches_per_publish=every,
        permits=permits,
        capacity=queue // size + _SCORING,
        overflow="close",
        order="done",
        max_age=limit,
        age_action="drop",
        age_reference="submit",
        mode="keep",
        **times,
    )
