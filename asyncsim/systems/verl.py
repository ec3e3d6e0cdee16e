"""verl: its fully asynchronous trainer, separate generators, one step off, and VCPO's setting of it."""

from __future__ import annotations

from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import Law, as_law
from asyncsim.systems._knobs import Length, Times, alike, count, groups_of, preset, share
from asyncsim.systems._system import System


@preset
def verl_fully_async(
    ppo_mini_batch_size: int,
    staleness_threshold: float = 0.1,
    trigger_parameter_sync_step: int = 4,
    require_batches: int = 1,
    partial_rollout: bool = True,
    concurrent_samples_per_replica: int = 16,
    replicas: int = 1,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """verl fully asynchronous: generation runs ahead by a fraction of a publish window.

    M = P S groups a publish, K = int((1 + tau) M) tickets: mean staleness K / M - 1 publishes where the cap binds.

    tau is a share of a publish window, not a number of steps: a group may wait S U updates and more. Law
    `systems/cap-binds`. With partial rollouts single samples are unbounded. Without them (drain) they stay in 0 ..
    ceil(tau), by `systems/hard-bounds`. verl stamps the parameter version at start and end of a sample; its histogram
    uses the end. The queue holds K groups and drops the oldest, which the tickets never let happen; a dropped group
    counts until the publish.

    Arguments: `ppo_mini_batch_size` times `require_batches`, P in groups, an update on each mini-batch;
    `staleness_threshold` tau >= 0; `trigger_parameter_sync_step` S in batches; `partial_rollout`, whether samples go on
    after a publish; `concurrent_samples_per_replica` times `replicas`, C in groups, of which K at most are used at
    once. Source: verl's fully asynchronous policy.

    >>> verl_fully_async(2, 0.5, 2, length=1.0, train_time=1.0).staleness(8, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    """
    batch = count("ppo_mini_batch_size", ppo_mini_batch_size)
    parts = count("require_batches", require_batches)
    every = count("trigger_parameter_sync_step", trigger_parameter_sync_step, 1, "count batches")
    partial = checks.boolean("partial_rollout", partial_rollout, "say whether samples go on after a publish")
    per_replica = count("concurrent_samples_per_replica", concurrent_samples_per_replica)
    replicas = count("replicas", replicas, 1, "count inference replicas")
    tau = share("staleness_threshold", staleness_threshold, "give the share of a publish window to run ahead")
    # In the order of verl's factors, whose rounding decides on the last ticket.
    tickets = int(batch * parts * (tau + 1) * every)
    bound = f"such that at most {checks.LARGEST} groups are out"
    checks.require(tickets <= checks.LARGEST, "staleness_threshold", tau, bound, "give the share of a window")
    places = per_replica * replicas
    return System(
        "verl_fully_async",
        {},
        as_law("length", length),
        alike("concurrent_samples_per_replica", per_replica, places),
        groups_per_batch=batch * parts,
        batches_per_publish=every,
        servers=replicas,
        tickets=tickets,
        release="publish",
        release_dropped="publish",
        capacity=tickets,
        overflow="drop_oldest",
        order="done",
        mode="reprefill" if partial else "drain",
        recommended={"minibatches": parts} if parts > 1 else {},
        **times,
    )


@preset
def verl_separate_async(
    train_batch_size: int,
    num_warmup_batches: int = 1,
    parameter_sync_step: int = 4,
    max_off_policy_threshold: int = 8,
    max_off_policy_strategy: str = "drop",
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """verl v1 with separate generators: some batches of warm-up, then one for one, with a limit on a sample's versions.

    K = (w + 1) M tickets back at the publish, oldest start first, staleness 0 .. threshold - 1.

    The threshold counts the versions from the first token to training, both included: the limit is m = threshold - 1
    publishes from the head. Strategy drop cuts older groups at packing and replaces each by a new prompt, mean below w.
    Strategy wait forms no batch while a sample in flight is due, mean w. Laws `systems/cap-binds` and
    `systems/hard-bounds`.

    Arguments: `train_batch_size` M, groups of a publish, in mini-batches of P = M / S; `num_warmup_batches` w;
    `parameter_sync_step` S in batches; `max_off_policy_threshold` in versions; `max_off_policy_strategy`, drop or wait.
    Source: verl's v1 trainer, separate_async.

    >>> verl_separate_async(4, 2, 1, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    warm = count("num_warmup_batches", num_warmup_batches, 0, "count batches")
    every = count("parameter_sync_step", parameter_sync_step, 1, "count batches")
    batch = groups_of("train_batch_size", train_batch_size, every, "parameter_sync_step")
    # Set the age limit.
    strategy = checks.one_of(
        "max_off_policy_strategy", max_off_policy_strategy, ("drop", "wait"), "say what too old means"
    )
    limit = count("max_off_policy_threshold", max_off_policy_threshold, 1, "count versions, the first included") - 1
    bound = f"at least num_warmup_batches + 1 = {warm + 1} with strategy wait"
    checks.require(strategy == "drop" or limit >= warm, "max_off_policy_threshold", limit + 1, bound, "raise it")
    # Count the tickets.
    consumed = batch * every
    # A dropped group is replaced by one prompt; all others come a publish at a time.
    tickets, quantum = (warm + 1) * consumed, 1 if strategy == "drop" else consumed
    return System(
        "verl_separate_async",
        {},
        as_law("length", length),
        alike("num_warmup_batches", warm, tickets),
        groups_per_batch=batch,
        batches_per_publish=every,
        tickets=tickets,
        release="publish",
        quantum=quantum,
        order="oldest_start",
        max_age=limit,
        age_action=strategy,
        mode="reprefill",
        **times,
    )


@preset
def one_step_off(
    groups_per_batch: int = 1,
    *,
    length: Law | float | str = 1.0,
    train_time: Law | float | str = 1.0,
    sync_time: float = 0.0,
) -> System:
    """One step off-policy (verl one-step-off): the next batch is generated while this one trains.

    Staleness min(version, 1): a batch is admitted when the one before is dequeued, and drained before a publish.

    K = q = C = P, tickets return at the dequeue: law `systems/cap-binds`, and since every sample is drained each single
    group has it. The recipe stamps nothing; a batch is one publish, in updates the staleness is U + j. With
    `train_time=0` the publish comes before the admission and nothing is stale.

    Arguments: `groups_per_batch` P; `length`, law of the work of a sample at one unit a second; `train_time`, seconds
    for a batch; `sync_time`, seconds of a publish. Returns a system. Raises `InputError`. Source: verl's one-step-off
    recipe.

    >>> one_step_off(4).schedule(4, 2, 1, 1, seed=0).staleness().max(axis=(0, 2, 3, 4)).tolist()
    [0.0, 1.0, 1.0, 1.0]
    """
    batch = count("groups_per_batch", groups_per_batch)
    return System(
        "one_step_off",
        {},
        as_law("length", length),
        (1.0,) * batch,
        groups_per_batch=batch,
        tickets=batch,
        release="dequeue",
        quantum=batch,
        mode="drain",
        train_time=train_time,
        sync_time=sync_time,
    )


@preset
def vcpo(
    ppo_mini_batch_size: int,
    staleness_threshold: float = 128,
    trigger_parameter_sync_step: int = 1,
    require_batches: int = 1,
    partial_rollout: bool = True,
    concurrent_samples_per_replica: int = 16,
    replicas: int = 1,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """VCPO: the fully asynchronous recipe of verl, published after every batch, run far ahead.

    K = int((1 + k) M) tickets back at the publish, S = 1: staleness k on average, the version at most.

    Law `systems/cap-binds` where `replicas` carry K groups, else `systems/cap-idle`. The first K groups start under
    version 0, so no batch is older than its own number. Staleness 128 takes 128 batches. The recipe logs the gap to the
    version at a sample's end, which understates that of its head. Its fork calls `concurrent_samples_per_replica`
    `bsz_per_dp_rank`.

    Arguments: `ppo_mini_batch_size` times `require_batches`, P in groups; `staleness_threshold` k >= 0 (up to 128 in
    the recipes); `trigger_parameter_sync_step` S in batches; `partial_rollout`, whether samples go on after a publish;
    `concurrent_samples_per_replica` times `replicas`, C in groups, of which K at most are used at once. Source: VCPO
    (2602.17616).

    >>> vcpo(2, 3, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    """
    recipe = verl_fully_async(
        ppo_mini_batch_size,
        staleness_threshold,
        trigger_parameter_sync_step,
        require_batches,
        partial_rollout,
        concurrent_samples_per_replica,
        replicas,
        length=length,
        **times,
    )
    return recipe.replace(name="vcpo")
