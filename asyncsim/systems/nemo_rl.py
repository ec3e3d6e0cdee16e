"""NVIDIA NeMo-RL: the gate of its first releases, and the buffers that came after it."""

from __future__ import annotations

from typing import Any, Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, optional, preset
from asyncsim.systems._system import System


@preset
def nemo_rl_legacy(
    num_prompts_per_step: int,
    max_trajectory_age_steps: int = 1,
    in_flight_weight_updates: bool = False,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """NeMo-RL's first asynchronous GRPO: every group is generated for one training step ahead.

    K = (N + 1) P^pub, targets up to N steps ahead: staleness 1 .. N after the first batch, hard.

    A collector at version V aims at steps V + 1 .. V + N, so nothing but the first batch is fresh, and all mass is on N
    when generation is ahead (`systems/hard-bounds`). NeMo-RL stamps the version a trajectory starts with and the step
    it is meant for; a step is a publish. A refit waits for running samples unless weights move in flight.

    Arguments: `num_prompts_per_step` P in groups; `max_trajectory_age_steps` N >= 1 in steps;
    `in_flight_weight_updates`, whether samples go on under new weights. Source: NVIDIA NeMo-RL.

    >>> nemo_rl_legacy(4, 2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    moves = checks.boolean("in_flight_weight_updates", in_flight_weight_updates, "say whether weights move in flight")
    return _gated(
        "nemo_rl_legacy",
        num_prompts_per_step,
        "max_trajectory_age_steps",
        max_trajectory_age_steps,
        length=length,
        low=1,
        order="target",
        mode="keep" if moves else "drain",
        **times,
    )


@preset
def nemo_rl_in_order(
    num_prompts_per_step: int, max_lookahead_versions: int = 1, *, length: Length, **times: Unpack[Times]
) -> System:
    """NeMo-RL, sampler in_order: batches are trained in the order of their dispatch.

    Batch i of prompts starts once version i - N is installed and is trained as batch i: staleness 0 .. N, hard.

    K = (N + 1) P tickets back at the publish, targets: all mass is on N when the gate is what limits generation
    (`systems/hard-bounds`). NeMo-RL stamps the weight version at the start and the step a group is meant for, in
    publishes.

    Arguments: `num_prompts_per_step` P in groups; `max_lookahead_versions` N in versions. Source: NVIDIA NeMo-RL.

    >>> nemo_rl_in_order(4, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    ahead = ("max_lookahead_versions", max_lookahead_versions)
    return _gated("nemo_rl_in_order", num_prompts_per_step, *ahead, length=length, order="target", **times)


@preset
def nemo_rl_ready_first(
    num_prompts_per_step: int, max_staleness_versions: int = 1, *, length: Length, **times: Unpack[Times]
) -> System:
    """NeMo-RL, sampler ready_first: whatever is finished is trained.

    The gate of K = (N + 1) P tickets, first done first trained, nothing evicted: mean staleness N when ahead; soft.

    Law `systems/cap-binds`; single groups are unbounded (`systems/straggler-tail` plus the queue). Stamped with the
    weight version at the start, in publishes.

    Arguments: `num_prompts_per_step` P in groups; `max_staleness_versions` N in versions. Source: NVIDIA NeMo-RL.

    >>> nemo_rl_ready_first(4, 2, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0]
    """
    ahead = ("max_staleness_versions", max_staleness_versions)
    return _gated("nemo_rl_ready_first", num_prompts_per_step, *ahead, length=length, order="done", **times)


@preset
def nemo_rl_weight_fifo(
    num_prompts_per_step: int, max_staleness_versions: int = 1, *, length: Length, **times: Unpack[Times]
) -> System:
    """NeMo-RL, sampler weight_fifo: the groups of an older weight version go first.

    The gate of K = (N + 1) P tickets, no group before all of an older version: staleness 0 .. N, hard.

    Law `systems/hard-bounds`. Finished groups staler than N would be evicted at the dequeue. The gate counts dispatched
    batches, so their permits would be lost. Order and gate together leave none. Stamped with the weight version at the
    start, in publishes.

    Arguments: `num_prompts_per_step` P in groups; `max_staleness_versions` N in versions. Source: NVIDIA NeMo-RL.

    >>> nemo_rl_weight_fifo(4, 2, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0]
    """
    return _gated(
        "nemo_rl_weight_fifo",
        num_prompts_per_step,
        "max_staleness_versions",
        max_staleness_versions,
        length=length,
        order="version_strict",
        max_age=max_staleness_versions,
        release_dropped="never",
        **times,
    )


@preset
def nemo_rl_windowed(
    num_prompts_per_step: int,
    max_staleness_versions: int = 1,
    sample_freshest_first: bool = False,
    max_inflight_prompts: int | None = None,
    max_buffered_rollouts: int | None = None,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """NeMo-RL, sampler windowed: generation never waits for the trainer, and groups that leave the window are dropped.

    K groups may be out, back at the dequeue, C in generation, older than N is cut: staleness 0 .. N, hard.

    Law `systems/mean-staleness-identity` with drops. What is over age is cut: ready groups at the dequeue, running ones
    at the install. Long samples are lost more often (`systems/age-cut-length-bias`). Stamped with the weight version at
    the start, in publishes.

    Arguments: `num_prompts_per_step` P in groups; `max_staleness_versions` N in versions; `sample_freshest_first`,
    whether the latest start goes first; `max_inflight_prompts` C in groups (P unless given); `max_buffered_rollouts`
    K, groups in generation or finished, ((N + 1) P unless given). Source: NVIDIA NeMo-RL.

    >>> nemo_rl_windowed(4, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    batch = count("num_prompts_per_step", num_prompts_per_step)
    limit = count("max_staleness_versions", max_staleness_versions, 0, "count versions")
    fresh = checks.boolean("sample_freshest_first", sample_freshest_first, "say whether the latest start goes first")
    places = optional("max_inflight_prompts", max_inflight_prompts, 1, "count groups") or batch
    room = f"hold a batch of num_prompts_per_step = {batch}"
    tickets = optional("max_buffered_rollouts", max_buffered_rollouts, batch, room) or (limit + 1) * batch
    return System(
        "nemo_rl_windowed",
        {"max_inflight_prompts": places, "max_buffered_rollouts": tickets},
        as_law("length", length),
        alike("max_inflight_prompts", places, places),
        groups_per_batch=batch,
        tickets=tickets,
        release="dequeue",
        order="freshest" if fresh else "done",
        max_age=limit,
        age_action="drop",
        age_at_publish="all",
        mode="keep",
        **times,
    )


def _gated(
    name: str, prompts: int, ahead: str, versions: int, *, length: Length, low: int = 0, **settings: Any
) -> System:
    """NeMo-RL's gate: batch i of prompts starts once version i - N is installed, N the `versions` of the knob `ahead`.

    K = (N + 1) P tickets that return at the publish, asked for P at a time, a place for each.
    """
    batch = count("num_prompts_per_step", prompts)
    versions = count(ahead, versions, low, "give a number of versions")
    tickets = (versions + 1) * batch
    return System(
        name,
        {},
        as_law("length", length),
        alike(ahead, versions, tickets),
        groups_per_batch=batch,
        tickets=tickets,
        release="publish",
        quantum=batch,
        **settings,
    )
