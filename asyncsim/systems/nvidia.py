"""NeMo-RL and Megatron-RL: the gate of NeMo-RL's first releases, the buffers that came after it, and Megatron-RL."""

from typing import Any

from asyncsim.base import checks
from asyncsim.systems import _knobs as k

_SOURCE, _VERSIONS = "NVIDIA NeMo-RL", "give a number of versions"


@k.source("NVIDIA-NeMo/RL@7ea279a", "2026-08-22", "nemo_rl/algorithms/async_utils/trajectory_collector.py")
@k.preset(_SOURCE, "max_trajectory_age_steps")
def nemo_rl_legacy(
    num_prompts_per_step: int = k.count("P, groups per batch"),
    max_trajectory_age_steps: int = k.count("N, staleness limit in steps, 1 or more", 1, _VERSIONS),
    in_flight_weight_updates: bool = k.flag("samples go on under new weights", False),
) -> dict[str, Any]:
    """NeMo-RL's first asynchronous GRPO: every group is generated for one specific future training step.

    K = (N + 1) P^pub permits, with targets up to N steps ahead. After the first batch, every sample has staleness 1 ..
    N. A collector at version V aims at steps V + 1 .. V + N, so nothing but the first batch is fresh, and all mass is
    on N when generation is ahead (`systems/hard-bounds`). NeMo-RL stamps the version a trajectory starts with and the
    step it is meant for; a step is a publish. A refit waits for running samples unless weights move in flight.

    >>> nemo_rl_legacy(4, 2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch, mode = num_prompts_per_step, "keep" if in_flight_weight_updates else "drain"
    return k.ahead(batch, max_trajectory_age_steps, quantum=batch, order="target", mode=mode)


@k.source("NVIDIA-NeMo/RL@7ea279a", "2026-08-22", "nemo_rl/algorithms/async_utils/staleness_sampler.py")
@k.preset(_SOURCE, "max_lookahead_versions")
def nemo_rl_in_order(
    num_prompts_per_step: int = k.count("P, groups per batch"),
    max_lookahead_versions: int = k.count("N, staleness limit in versions", 1, _VERSIONS, 0),
) -> dict[str, Any]:
    """NeMo-RL, sampler in_order: batches are trained in the order of their dispatch.

    Batch i of prompts starts once version i - N is installed, and is trained as batch i. Every sample has staleness 0
    .. N. K = (N + 1) P permits back at the publish, targets: all mass is on N when the gate is what limits generation
    (`systems/hard-bounds`). NeMo-RL stamps the weight version at the start and the step a group is meant for, in
    publishes.

    >>> nemo_rl_in_order(4, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    return k.ahead(num_prompts_per_step, max_lookahead_versions, quantum=num_prompts_per_step, order="target")


@k.source("NVIDIA-NeMo/RL@7ea279a", "2026-08-22", "nemo_rl/algorithms/async_utils/staleness_sampler.py")
@k.preset(_SOURCE, "max_staleness_versions")
def nemo_rl_ready_first(
    num_prompts_per_step: int = k.count("P, groups per batch"),
    max_staleness_versions: int = k.count("N, staleness limit in versions", 1, _VERSIONS, 0),
) -> dict[str, Any]:
    """NeMo-RL, sampler ready_first: groups are trained as soon as they are finished.

    A gate of K = (N + 1) P permits. Groups are trained as they finish, and none is evicted. Mean staleness: N if
    generation is ahead. Law `systems/cap-binds`; single groups are unbounded (`systems/straggler-tail` plus the queue).
    Stamped with the weight version at the start, in publishes.

    >>> nemo_rl_ready_first(4, 2, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0]
    """
    return k.ahead(num_prompts_per_step, max_staleness_versions, quantum=num_prompts_per_step)


@k.source("NVIDIA-NeMo/RL@7ea279a", "2026-08-22", "nemo_rl/algorithms/async_utils/staleness_sampler.py")
@k.preset(_SOURCE, "max_staleness_versions")
def nemo_rl_weight_fifo(
    num_prompts_per_step: int = k.count("P, groups per batch"),
    max_staleness_versions: int = k.count("N, staleness limit in versions", 1, _VERSIONS, 0),
) -> dict[str, Any]:
    """NeMo-RL, sampler weight_fifo: groups of an older weight version are trained first.

    A gate of K = (N + 1) P permits. No group is trained before all groups of an older version. Every sample has
    staleness 0 .. N. Law `systems/hard-bounds`. Finished groups staler than N would be evicted at the dequeue. The gate
    counts dispatched batches, so their permits would be lost. Order and gate together leave none. Stamped with the
    weight version at the start, in publishes.

    >>> nemo_rl_weight_fifo(4, 2, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0]
    """
    age: dict[str, Any] = {"max_age": max_staleness_versions, "order": "version_strict", "release_dropped": "never"}
    return k.ahead(num_prompts_per_step, max_staleness_versions, quantum=num_prompts_per_step, **age)


@k.source("NVIDIA-NeMo/RL@7ea279a", "2026-08-22", "nemo_rl/algorithms/async_utils/staleness_sampler.py")
@k.preset(_SOURCE, "max_inflight_prompts")
def nemo_rl_windowed(
    num_prompts_per_step: int = k.count("P, groups per batch"),
    max_staleness_versions: int = k.count("N, staleness limit in versions", 1, "count versions", 0),
    sample_freshest_first: bool = k.flag("the latest start goes first", False),
    max_inflight_prompts: int | None = k.limit("C, groups running at once (P unless given)", "count groups"),
    max_buffered_rollouts: int | None = k.given("K, groups in generation or finished, ((N + 1) P unless given)", None),
) -> dict[str, Any]:
    """NeMo-RL, sampler windowed: generation never waits, and groups that leave the window are dropped.

    Up to K groups are outstanding until the dequeue, C of them in generation. Groups staler than N are cut, so
    staleness is 0 .. N. Law `systems/mean-staleness-identity` with drops. What is over age is cut: ready groups at the
    dequeue, running ones at the install. Long samples are lost more often (`systems/age-cut-length-bias`). Stamped with
    the weight version at the start, in publishes.

    >>> nemo_rl_windowed(4, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    batch, most = num_prompts_per_step, max_staleness_versions
    places, room = max_inflight_prompts or batch, f"hold a batch of num_prompts_per_step = {batch}"
    tickets = k.optional("max_buffered_rollouts", max_buffered_rollouts, batch, room) or (most + 1) * batch
    knobs = {"max_inflight_prompts": places, "max_buffered_rollouts": tickets}
    permits = {"tickets": tickets, "release": "dequeue", "order": "freshest" if sample_freshest_first else "done"}
    return k.settings(places, batch, knobs=knobs, max_age=most, age_at_publish="all", **permits)


@k.source("NVIDIA/Megatron-LM@d98e8a6", "2026-08-22", "megatron/rl/agent/rollout_pipeline.py")
@k.preset("Megatron-LM", "rl_generation_lag")
def megatron_rl(
    grpo_prompts_per_step: int = k.count("P, groups per batch"),
    rl_generation_lag: float = k.share(
        "L >= 0 in batches, a fraction too", ..., "0 is synchronous; below it less than a batch is generated"
    ),
    rl_submission_granularity: str = k.choice("B", "G", "R", words="whether batches, groups or rollouts free capacity"),
    rl_consumption_granularity: str = k.given("G or B, no finer than that", "B"),
    grpo_group_size: int = k.count("samples of a group, as in the run", 2, "count samples"),
    rl_kv_cache_management_mode: str = k.choice("persist", "offload", "recompute", words="what becomes of it"),
    grpo_iterations: int = k.count("epochs, recommended", 2, "count epochs"),
) -> dict[str, Any]:
    """Megatron-RL with partial rollouts: capacity is freed per rollout, group or batch; training is per group or batch.

    Megatron-RL with `--rl-partial-rollouts`: generation runs (L + 1) batches deep, counted in units of submission.

    Batches: K = round(L + 1) P permits return at each publish, in order. Staleness is exactly min(version, L).

    Law `systems/hard-bounds`. Groups: K = round((L + 1) P) permits back at the dequeue, mean L + 1 where generation is
    ahead (`systems/cap-binds`), long groups staler. Rollouts: so many sample permits for samples and no bound on what
    is finished, law `systems/mean-staleness-identity`. Consumption by batches keeps the order of submission,
    consumption by groups that of completion. Megatron stamps every token with the update of its weights; a publish
    comes before each collection. Samples keep their cache at an install, or read it again (recompute).

    >>> megatron_rl(4, 2, length="lognormal:1.0:0.8", load=1.5).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch, lag, unit = grpo_prompts_per_step, rl_generation_lag, rl_submission_granularity
    coarser = ("B",) if unit == "B" else ("G", "B")
    taken = checks.one_of("rl_consumption_granularity", rl_consumption_granularity, coarser, "no finer than submission")
    most, bound = (lag + 1) * batch * grpo_group_size, f"such that at most {checks.LARGEST} samples are out"
    checks.require(most <= checks.LARGEST, "rl_generation_lag", lag, bound, "count batches")
    # Halves are rounded to even, as by Python's round in Megatron.
    places = {"B": round(lag + 1) * batch, "G": round((lag + 1) * batch), "R": round(most)}[unit]
    gates: dict[str, dict[str, Any]] = {
        "B": {"tickets": places, "quantum": batch},
        "G": {"tickets": places, "release": "dequeue"},
        "R": {"permits": places},
    }
    order = "target" if taken == "B" else "done"
    mode = "reprefill" if rl_kv_cache_management_mode == "recompute" else "keep"
    recommended = {"epochs": grpo_iterations} if grpo_iterations > 1 else {}
    return k.settings(places, batch, order=order, mode=mode, recommended=recommended, **gates[unit])
