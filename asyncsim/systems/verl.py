"""verl: its fully asynchronous trainer, separate generators, one step off, and VCPO's setting of it."""

from __future__ import annotations

import inspect
from typing import Any

from asyncsim.base import checks
from asyncsim.systems._knobs import ALONE, choice, count, groups_of, preset, samples, settings, share, source, whether

_PARTIAL = whether("samples go on after a publish", True, "say whether samples go on after a publish")
_MINI_BATCH = count("groups of a mini-batch")
_PARTS = count("mini-batches of a batch of P groups, an update on each", 1)
_CONCURRENT = count("groups at once in a replica, C in all, of which K at most are used at once", 16)
_REPLICAS = count("inference replicas", 1, "count inference replicas")
_TAU = "give the share of a publish window to run ahead"


@source("verl-project/verl@1dda039", "2026-08-22", "verl/experimental/fully_async_policy/fully_async_rollouter.py")
@preset("verl's fully asynchronous policy", "concurrent_samples_per_replica")
def verl_fully_async(
    ppo_mini_batch_size: int = _MINI_BATCH,
    staleness_threshold: float = share("tau >= 0", 0.1, _TAU),
    trigger_parameter_sync_step: int = count("S in batches", 4, "count batches"),
    require_batches: int = _PARTS,
    partial_rollout: bool = _PARTIAL,
    concurrent_samples_per_replica: int = _CONCURRENT,
    replicas: int = _REPLICAS,
) -> dict[str, Any]:
    """verl fully asynchronous: generation runs ahead by a fraction of a publish window.

    M = P S groups a publish, K = int((1 + tau) M) tickets: mean staleness K / M - 1 publishes where the cap binds.

    tau is a share of a publish window, not a number of steps: a group may wait S U updates and more. Law
    `systems/cap-binds`. With partial rollouts single samples are unbounded. Without them (drain) they stay in 0 ..
    ceil(tau), by `systems/hard-bounds`. verl stamps the parameter version at start and end of a sample; its histogram
    uses the end. The queue holds K groups and drops the oldest, which the tickets never let happen; a dropped group
    counts until the publish.

    >>> verl_fully_async(2, 0.5, 2, length=1.0, train_time=1.0).staleness(8, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    """
    # In the order of verl's factors, whose rounding decides on the last ticket.
    tickets = int(ppo_mini_batch_size * require_batches * (staleness_threshold + 1) * trigger_parameter_sync_step)
    bound = f"such that at most {checks.LARGEST} groups are out"
    fits = tickets <= checks.LARGEST
    checks.require(fits, "staleness_threshold", staleness_threshold, bound, "give the share of a window")
    return settings(
        concurrent_samples_per_replica * replicas,
        ppo_mini_batch_size * require_batches,
        batches_per_publish=trigger_parameter_sync_step,
        servers=replicas,
        tickets=tickets,
        release_dropped="publish",
        capacity=tickets,
        overflow="drop_oldest",
        mode="reprefill" if partial_rollout else "drain",
        recommended={"minibatches": require_batches} if require_batches > 1 else {},
    )


@source("mit-han-lab/vcpo@c7f030f", "2026-03-02", "recipe/fully_async_policy/fully_async_rollouter.py")
@preset("VCPO (2602.17616)", "concurrent_samples_per_replica")
def vcpo(
    ppo_mini_batch_size: int = _MINI_BATCH,
    staleness_threshold: float = share("k >= 0 (up to 128 in the recipes)", 128, _TAU),
    trigger_parameter_sync_step: int = count("S in batches", 1, "count batches"),
    require_batches: int = _PARTS,
    partial_rollout: bool = _PARTIAL,
    concurrent_samples_per_replica: int = _CONCURRENT,
    replicas: int = _REPLICAS,
) -> dict[str, Any]:
    """VCPO: the fully asynchronous recipe of verl, published after every batch, run far ahead.

    K = int((1 + k) M) tickets back at the publish, S = 1: staleness k on average, the version at most.

    Law `systems/cap-binds` where `replicas` carry K groups, else `systems/cap-idle`. The first K groups start under
    version 0, so no batch is older than its own number. Staleness 128 takes 128 batches. The recipe logs the gap to the
    version at a sample's end, which understates that of its head. Its fork calls `concurrent_samples_per_replica`
    `bsz_per_dp_rank`.

    >>> vcpo(2, 3, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    """
    return inspect.unwrap(verl_fully_async)(**locals())


@source("verl-project/verl@1dda039", "2026-08-22", "verl/trainer/ppo/v1/replay_buffer.py")
@preset("verl's v1 trainer, separate_async", "num_warmup_batches")
def verl_separate_async(
    train_batch_size: int = samples("M, groups of a publish, in mini-batches of P = M / S"),
    num_warmup_batches: int = count("w", 1, "count batches", 0),
    parameter_sync_step: int = count("S in batches", 4, "count batches"),
    max_off_policy_threshold: int = count("in versions", 8, "count versions, the first included"),
    max_off_policy_strategy: str = choice("drop or wait", ("drop", "wait"), "say what too old means"),
) -> dict[str, Any]:
    """verl v1 with separate generators: some batches of warm-up, then one for one, with a limit on a sample's versions.

    K = (w + 1) M tickets back at the publish, oldest start first, staleness 0 .. threshold - 1.

    The threshold counts the versions from the first token to training, both included: the limit is m = threshold - 1
    publishes from the head. Strategy drop cuts older groups at packing and replaces each by a new prompt, mean below w.
    Strategy wait forms no batch while a sample in flight is due, mean w. Laws `systems/cap-binds` and
    `systems/hard-bounds`.

    >>> verl_separate_async(4, 2, 1, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    warm, every, strategy = num_warmup_batches, parameter_sync_step, max_off_policy_strategy
    limit = max_off_policy_threshold
    batch = groups_of("train_batch_size", train_batch_size, every, "parameter_sync_step")
    bound = f"at least num_warmup_batches + 1 = {warm + 1} with strategy wait"
    checks.require(strategy == "drop" or limit > warm, "max_off_policy_threshold", limit, bound, "raise it")
    tickets = (warm + 1) * train_batch_size
    return settings(
        tickets,
        batch,
        batches_per_publish=every,
        tickets=tickets,
        # A dropped group is replaced by one prompt; all others come a publish at a time.
        quantum=1 if strategy == "drop" else train_batch_size,
        order="oldest_start",
        max_age=limit - 1,
        age_action=strategy,
        mode="reprefill",
    )


@source("verl-project/verl@1dda039", "2026-08-22", "verl/experimental/one_step_off_policy/ray_trainer.py")
@preset("verl's one-step-off recipe", "groups_per_batch", ALONE)
def one_step_off(groups_per_batch: int = count("P", 1)) -> dict[str, Any]:
    """One step off-policy (verl one-step-off): the next batch is generated while this one trains.

    Staleness min(version, 1): a batch is admitted when the one before is dequeued, and drained before a publish.

    K = q = C = P, tickets return at the dequeue: law `systems/cap-binds`, and since every sample is drained each single
    group has it. The recipe stamps nothing; a batch is one publish, in updates the staleness is U + j. With
    `train_time=0` the publish comes before the admission and nothing is stale.

    >>> one_step_off(4).schedule(4, 2, 1, 1, seed=0).staleness().max(axis=(0, 2, 3, 4)).tolist()
    [0.0, 1.0, 1.0, 1.0]
    """
    batch = groups_per_batch
    return settings(batch, batch, tickets=batch, release="dequeue", quantum=batch, mode="drain")
