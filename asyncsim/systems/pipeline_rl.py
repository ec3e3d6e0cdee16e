"""PipelineRL: weights move in flight, and a bound in samples limits how far generation runs ahead."""

from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, groups_of, optional, preset
from asyncsim.systems._system import System


@preset
def pipeline_rl(
    train_batch_size: int,
    max_lag: int | None = None,
    weight_update_interval: int = 1,
    attempts: int = 8,
    llm_max_rollouts: int = 64,
    llms: int = 1,
    ring_buffer_size: int = 128,
    max_ready_samples_per_lead: int = 64,
    pop_old_data: bool = True,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """K = ceil(max_lag / attempts) + G tickets back at the publish of G groups: mean (K - G) / G when ahead.

    Law `systems/cap-binds`, tokens after `systems/token-staircase` (samples go on under new weights). Knobs and
    versions count samples, and its logged lag is the maximum of a batch: divide by samples per publish. With a lag
    nothing is dropped. Without one the loop is open, and a full ring loses its oldest (`pop_old_data`): law
    `systems/mean-staleness-identity`; where old data stay, nothing bounds the queue. Batches are made up while the
    samples handed to the trainer are at most the ready ones. A group begins when an engine has room for one sample.

    Arguments: `train_batch_size`, samples of an optimizer step of P groups; `max_lag` in samples, or None;
    `weight_update_interval` in samples, S steps; `attempts`, samples of a group, as in the run; `llm_max_rollouts`
    samples at once in each of `llms` engines; `ring_buffer_size`, samples of the open loop's queue (a batch at least);
    `max_ready_samples_per_lead`, samples that await the trainer; `pop_old_data`, whether a full ring drops. Source:
    PipelineRL (2509.19128).

    >>> pipeline_rl(4, 8, attempts=2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    # Convert samples to groups.
    size = count("attempts", attempts, 1, "count samples of a group")
    batch = groups_of("train_batch_size", train_batch_size, size, "attempts")
    interval = count("weight_update_interval", weight_update_interval, 1, "count samples", checks.LARGEST)
    limit = optional("max_lag", max_lag, 0, "count samples")
    rollouts_per_engine = checks.integer(
        "llm_max_rollouts", llm_max_rollouts, size, "let one group run at least", checks.LARGEST
    )
    # Count what engines and queues hold.
    permits = rollouts_per_engine * count("llms", llms, 1, "count engines")
    queue = count("ring_buffer_size", ring_buffer_size, 1, "count samples", checks.LARGEST)
    ready = checks.integer("max_ready_samples_per_lead", max_ready_samples_per_lead, 0, "count samples", checks.LARGEST)
    drops = checks.boolean("pop_old_data", pop_old_data, "say whether a full ring loses its oldest") and limit is None
    every = -(-interval // (batch * size))
    # Bound how far generation runs ahead.
    tickets = None if limit is None else -(-limit // size) + batch * every
    places = permits if tickets is None else min(permits, tickets)
    return System(
        "pipeline_rl",
        {},
        as_law("length", length),
        alike("llm_max_rollouts", rollouts_per_engine, places),
        groups_per_batch=batch,
        batches_per_publish=every,
        permits=permits,
        tickets=tickets,
        release="publish",
        prefetch=ready // (batch * size),
        capacity=max(batch, queue // size) if drops else None,
        overflow="drop_oldest" if drops else "block",
        order="done",
        mode="keep",
        **times,
    )
