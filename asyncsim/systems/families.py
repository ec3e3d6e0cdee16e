"""torchforge, torchtitan, ROLL, slime, miles, verl and VCPO: several presets per trainer or family of trainers."""

import inspect
import math
from typing import Any

from asyncsim.base import checks
from asyncsim.systems import _knobs as k


@k.source("meta-pytorch/torchforge@6e77f0b", "2025-11-15", "src/forge/actors/replay_buffer.py")
@k.preset("torchforge", "rollout_threads")
def torchforge(
    batch_size: int = k.count("P, groups per batch"),
    max_policy_age: int = k.count("m in versions", 1, "count versions", 0),
    max_buffer_size: int | None = k.given("in groups, P at least, or None", None),
    max_resample_count: int = k.count("how often a group may be used again", 0, "count further uses", 0),
    rollout_threads: int = k.count("C, groups running at once", 1),
) -> dict[str, Any]:
    """torchforge: a replay buffer with random sampling, from which samples older than about one step are evicted.

    An open loop of C groups. Batches are random draws from samples that are at most m versions old, so staleness is 0
    .. m. With a slow trainer all of a default run is 1 version old; law `systems/mean-staleness-identity` with drops. A
    full buffer loses its oldest; in the revision read it forgets its size at the first eviction. The stamp is the
    generator's version, in publishes; a generator finishes its requests before it takes new weights (drain), so all
    tokens of a sample have it.

    >>> torchforge(2, rollout_threads=2, length=1.0, train_time=2.5).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    capacity = k.optional("max_buffer_size", max_buffer_size, batch_size, f"hold a batch of batch_size = {batch_size}")
    buffer = {"capacity": capacity, "overflow": "drop_oldest", "max_uses": 1 + max_resample_count, "order": "random"}
    return k.settings(rollout_threads, batch_size, max_age=max_policy_age, mode="drain", **buffer)


_FRACTION = 0.3


@k.source("pytorch/torchtitan@b5bcd76", "2026-08-21", "torchtitan/experiments/rl/controller.py")
@k.preset("torchtitan; the window is that of MiniMax (2605.26494)", "target_offpolicy_steps")
def torchtitan(
    num_prompts_per_train_step: int = k.count("P, groups per batch"),
    target_offpolicy_steps: int = k.count("S', staleness limit in steps", remedy="count steps", low=0),
    window_fraction: float | None = k.given("f in 0 .. 1, or None", _FRACTION),
    windowed_fifo_batches: int | str | None = k.given(
        'w in batches, or None, or "unset" for the earlier revision, beside which f has its default', "unset"
    ),
) -> dict[str, Any]:
    """torchtitan RL: the target staleness sets the buffer size; groups are trained in order, up to a window.

    K = (S' + 1) P permits return after the weight pull. Mean staleness: S'; with window W, each sample has at most S' +
    ceil((W - 1) / P). Laws `systems/cap-binds` and `systems/hard-bounds`. A window that is a share f of the buffer has
    W = max(1, floor(f K)). Without f the order is strict, W = 1: exactly S'. Later revisions have a window of w batches
    instead, W = w P, bound S' + w, and None means no window: soft. Torchtitan stamps the oldest version of a sample; a
    step is a publish. Groups that are filtered out give their slot back at once.

    >>> torchtitan(4, 2, None, length="lognormal:1.0:0.8", load=0.7).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch, target = num_prompts_per_train_step, target_offpolicy_steps
    window = _window(window_fraction, windowed_fifo_batches, batch, (target + 1) * batch)
    return k.ahead(batch, target, order="oldest_start", window=window)


def _window(fraction: float | None, batches: int | str | None, batch: int, tickets: int) -> int | None:
    """Size of the window in groups, for either revision."""
    if batches != "unset":
        bound, remedy = "left out beside windowed_fifo_batches", "no revision has both; choose one window"
        checks.require(fraction == _FRACTION, "window_fraction", fraction, bound, remedy)
        number = k.optional("windowed_fifo_batches", batches, 1, "count batches")
        return None if number is None else number * batch
    if fraction is None:
        return 1
    remedy = "give a share of the buffer, or None for strict order"
    return max(1, math.floor(checks.real("window_fraction", fraction, remedy, 0.0, 1.0, open_low=True) * tickets))


_SOURCE = "ROLL Flash (2510.11345)"


@k.source("alibaba/ROLL@8eb27cc", "2026-08-19", "roll/distributed/scheduler/generate_scheduler.py")
@k.preset(_SOURCE, "async_generation_ratio")
def roll_single_turn(
    rollout_batch_size: int = k.count("P, groups per batch"),
    async_generation_ratio: float = k.share("a >= 1 in batches", 1, "0 is synchronous; give batches ahead", 1.0),
    is_use_additional_prompts: bool = k.flag("additional groups run", False),
    max_additional_running_prompts: int = k.count("how many", 16, low=0),
) -> dict[str, Any]:
    """ROLL Flash, single turn: prompts of the oldest step come first; samples staler than the limit are aborted.

    K = P + ceil(a P) permits return at each publish, strictly in order of submission. Every sample has staleness 0 ..
    ceil(a). No group of a later step is trained while one of an earlier step runs (`systems/hard-bounds`). With an
    integer a all mass is on a when generation is ahead. At every install what is older than ceil(a) is cut, ready or
    running; that happens with additional prompts only, which K grows by. There they start while fewer than so many run,
    however many are finished. ROLL stamps the step at which sampling was asked for.

    >>> roll_single_turn(4, 2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch, extra = rollout_batch_size, max_additional_running_prompts * is_use_additional_prompts
    tickets, oldest = batch + math.ceil(batch * async_generation_ratio) + extra, math.ceil(async_generation_ratio)
    age = {"max_age": oldest, "age_at_pack": "none", "age_at_publish": "all", "age_reference": "submit"}
    return k.settings(tickets, batch, tickets=tickets, order="version_strict", mode="reprefill", **age)


@k.source("alibaba/ROLL@8eb27cc", "2026-08-19", "roll/distributed/scheduler/rollout_scheduler.py")
@k.preset(_SOURCE, "num_env_groups")
def roll_environment_groups(
    num_env_groups: int = k.count("E, environment groups"),
    max_traj_per_env: int = k.count("T, episodes of an environment in a batch", 1, "count episodes"),
    async_generation_ratio: int = k.count("a >= 1 in whole steps", 1, "0 is synchronous; give whole steps ahead"),
    group_size_redundancy: int = k.count("samples of an episode beyond those of a group", 0, "count samples", 0),
) -> dict[str, Any]:
    """ROLL Flash with environment groups: each group fills a queue, whose episodes are trained in order.

    E slots, batches of P = E T episodes, and K = (a + 1) P permits, which return at each publish. In this order,
    staleness is 0 .. a. Every environment group plays its episodes one after the other, and a batch takes T of each in
    their order. No episode overtakes another (`systems/hard-bounds`); targets of whole batches model this. An episode
    is stamped with the step that created it. It is cut when that is more than a steps ago: ready at the dequeue,
    running or ready at the install. With whole batches that never happens. With a redundancy so many samples more are
    started, and the first that are in are kept (`systems/first-k-length-bias`). In ROLL the others run on in vain, here
    they are cancelled.

    >>> roll_environment_groups(3, 1, 2, length=1.0, train_time=3.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    age: dict[str, Any] = {"max_age": async_generation_ratio, "age_at_publish": "all", "age_reference": "submit"}
    batch, extra = num_env_groups * max_traj_per_env, group_size_redundancy
    return k.ahead(batch, async_generation_ratio, num_env_groups, redundant=extra, order="target", **age)


@k.source("THUDM/slime@624b824", "2026-08-21", "train_async.py")
@k.preset("slime", "rollout_batch_size")
def slime_train_async(
    rollout_batch_size: int = k.count("P, groups per batch"),
    update_weights_interval: int = k.count("n in rollouts", 1, "count rollouts"),
) -> dict[str, Any]:
    """slime train_async: the next rollout runs during training, and weights are published every few rollouts.

    K = q = C = P permits return at the dequeue. A publish follows n rollouts and waits for running ones: staleness is 0
    or 1, mean 1 / n. Only the first rollout behind a publish was generated before it; in batches the age cycles through
    1 .. n. Hard, law `systems/cap-binds` with K = M / n at the dequeue. slime stamps no version here, it counts
    rollouts.

    >>> slime_train_async(2, 3, length=1.0, train_time=1.0).staleness(9, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    """
    batch, every = rollout_batch_size, update_weights_interval
    weights = {"batches_per_publish": every, "mode": "drain"}
    return k.settings(batch, batch, tickets=batch, release="dequeue", quantum=batch, **weights)


@k.source("THUDM/slime@624b824", "2026-08-21", "slime/rollout/fully_async_rollout.py")
@k.preset("slime", "sglang_server_concurrency")
def slime_fully_async(
    rollout_batch_size: int = k.count("P, groups per batch"),
    sglang_server_concurrency: int = k.count("permits of an engine, C in all, P at least", 512),
    engines: int = k.count("engines", 1, "count engines"),
) -> dict[str, Any]:
    """slime, fully asynchronous: a fixed number of groups is always in flight, with no check of versions.

    An open loop of C groups, whose samples wait for C slots. Mean staleness: O / P, at most 2 C / P + 1; samples have
    no bound. Up to C groups are in generation, and no new one begins while C finished groups wait. One semaphore of C
    permits, which every sample takes, serves the samples of all engines in turn. The next rollout is collected while
    this one trains, and the publish waits for it. Law `systems/mean-staleness-identity` with O, the groups outstanding
    at a publish, below 2 C + P by the three bounds. No age is checked. A publish aborts running samples, which then go
    on from their tokens. slime stamps the versions of engine calls when they return.

    >>> slime_fully_async(2, 4, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 3.0, 3.0, 4.0]
    """
    batch, places = rollout_batch_size, sglang_server_concurrency * engines
    bound, remedy = f"at least rollout_batch_size / engines = {batch} / {engines}", "the buffer has to hold a rollout"
    checks.require(places >= batch, "sglang_server_concurrency", sglang_server_concurrency, bound, remedy)
    queue = {"prefetch": 1, "capacity": places, "overflow": "close", "publish_waits": True}
    return k.settings(places, batch, slots=places, mode="reprefill", **queue)


@k.source("radixark/miles@31f1ca9", "2026-08-21", "miles/rollout/fully_async_data_buffer.py")
@k.preset("miles", "async_max_concurrent_samples")
def miles(
    rollout_batch_size: int = k.count("P, groups per batch"),
    max_weight_staleness: int | None = k.limit("m in publishes, or None", "count publishes", 0),
    async_data_buffer_capacity_factor: float = k.share("c >= 1 in batches", 2.0, "hold a batch", 1.0),
    async_unused_samples_handler: str = k.choice("drop", "retry", words="what becomes of stale groups"),
    pause_generation_mode: str = k.choice("retract", "in_place", words="how samples see new weights"),
    async_max_concurrent_samples: int | None = k.limit("for C whole groups (else P)", "count samples"),
    num_steps_per_rollout: int = k.count("U", 1, "count updates on a rollout"),
    n_samples_per_prompt: int = k.count("samples of a group, as in the run", 1, "count samples"),
) -> dict[str, Any]:
    """miles, fully asynchronous: finished groups wait in a bounded buffer; a limit may refuse groups of old versions.

    C groups run in an open loop, and floor(c P) wait in the buffer. Mean staleness: C / P + c + 1 if the trainer is
    slower. Law `systems/mean-staleness-identity`. The next rollout is collected while this one trains, and the publish
    waits for it: that is the 1. A limit m cuts at the dequeue, by the version at which the group's first engine call
    returned and that of the engines then. One publish later, when the batch trains, 0 .. m + 1 is hard in that stamp
    only. A group refused is dropped, or its prompt is asked again (retry). `num_steps_per_rollout` U minibatches of
    samples are recommended, an update on each.

    >>> miles(2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    """
    batch, concurrent, steps = rollout_batch_size, async_max_concurrent_samples, num_steps_per_rollout
    places = batch if concurrent is None else max(1, concurrent // n_samples_per_prompt)
    buffer = {"prefetch": 1, "capacity": int(async_data_buffer_capacity_factor * batch), "publish_waits": True}
    # The engines' version at the dequeue is one below that at which the batch trains.
    oldest = None if max_weight_staleness is None else max_weight_staleness + 1
    action = "drop" if async_unused_samples_handler == "drop" else "requeue"
    age = {"max_age": oldest, "age_action": action, "age_reference": "end"}
    mode = "reprefill" if pause_generation_mode == "retract" else "keep"
    recommended = {"minibatches": steps, "cut": "samples"} if steps > 1 else {}
    return k.settings(places, batch, mode=mode, recommended=recommended, **buffer, **age)


_PARTIAL = k.flag("samples go on after a publish", True)
_MINI_BATCH = k.count("groups of a mini-batch")
_PARTS = k.count("mini-batches of a batch of P groups, an update on each", 1)
_CONCURRENT = k.count("groups at once in a replica, C in all, of which K at most are used at once", 16)
_REPLICAS = k.count("inference replicas", 1, "count inference replicas")
_TAU = "give the share of a publish window to run ahead"


@k.source("verl-project/verl@1dda039", "2026-08-22", "verl/experimental/fully_async_policy/fully_async_rollouter.py")
@k.preset("verl's fully asynchronous policy", "concurrent_samples_per_replica")
def verl_fully_async(
    ppo_mini_batch_size: int = _MINI_BATCH,
    staleness_threshold: float = k.share("tau >= 0", 0.1, _TAU),
    trigger_parameter_sync_step: int = k.count("S, batches per publish", 4, "count batches"),
    require_batches: int = _PARTS,
    partial_rollout: bool = _PARTIAL,
    concurrent_samples_per_replica: int = _CONCURRENT,
    replicas: int = _REPLICAS,
) -> dict[str, Any]:
    """verl, fully asynchronous: generation runs ahead by a fraction of a publish window.

    M = P S groups per publish and K = int((1 + tau) M) permits. Mean staleness: K / M - 1 publishes if all permits are
    in use. tau is a share of a publish window, not a number of steps: a group may wait S U updates and more. Law
    `systems/cap-binds`. With partial rollouts single samples are unbounded. Without them (drain) they stay in 0 ..
    ceil(tau), by `systems/hard-bounds`. verl stamps the parameter version at start and end of a sample; its histogram
    uses the end. The queue holds K groups and drops the oldest, which the permits never let happen; a dropped group
    counts until the publish.

    >>> verl_fully_async(2, 0.5, 2, length=1.0, train_time=1.0).staleness(8, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    """
    # In the order of verl's factors, whose rounding decides on the last ticket.
    tickets = int(ppo_mini_batch_size * require_batches * (staleness_threshold + 1) * trigger_parameter_sync_step)
    bound = f"such that at most {checks.LARGEST} groups are out"
    fits = tickets <= checks.LARGEST
    checks.require(fits, "staleness_threshold", staleness_threshold, bound, "give the share of a window")
    places, batch = concurrent_samples_per_replica * replicas, ppo_mini_batch_size * require_batches
    queue = {"tickets": tickets, "release_dropped": "publish", "capacity": tickets, "overflow": "drop_oldest"}
    weights = {"batches_per_publish": trigger_parameter_sync_step, "mode": "reprefill" if partial_rollout else "drain"}
    recommended = {"minibatches": require_batches} if require_batches > 1 else {}
    return k.settings(places, batch, servers=replicas, recommended=recommended, **queue, **weights)


@k.source("mit-han-lab/vcpo@c7f030f", "2026-03-02", "recipe/fully_async_policy/fully_async_rollouter.py")
@k.preset("VCPO (2602.17616)", "concurrent_samples_per_replica")
def vcpo(
    ppo_mini_batch_size: int = _MINI_BATCH,
    staleness_threshold: float = k.share("k >= 0 (up to 128 in the recipes)", 128, _TAU),
    trigger_parameter_sync_step: int = k.count("S, batches per publish", 1, "count batches"),
    require_batches: int = _PARTS,
    partial_rollout: bool = _PARTIAL,
    concurrent_samples_per_replica: int = _CONCURRENT,
    replicas: int = _REPLICAS,
) -> dict[str, Any]:
    """VCPO: verl's fully asynchronous recipe with a weight sync after every batch, and with generation far ahead.

    K = int((1 + k) M) permits return at each publish, with S = 1. Mean staleness: k; no sample is staler than the
    number of its batch. Law `systems/cap-binds` where `replicas` carry K groups, else `systems/cap-idle`. The first K
    groups start under version 0, so no batch is older than its own number. Staleness 128 takes 128 batches. The recipe
    logs the gap to the version at a sample's end, which understates that of its head. Its fork calls
    `concurrent_samples_per_replica` `bsz_per_dp_rank`.

    >>> vcpo(2, 3, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    """
    return inspect.unwrap(verl_fully_async)(**locals())


@k.source("verl-project/verl@1dda039", "2026-08-22", "verl/trainer/ppo/v1/replay_buffer.py")
@k.preset("verl's v1 trainer, separate_async", "num_warmup_batches")
def verl_separate_async(
    train_batch_size: int = k.samples("M, groups of a publish, in mini-batches of P = M / S"),
    num_warmup_batches: int = k.count("w", 1, "count batches", 0),
    parameter_sync_step: int = k.count("S, batches per publish", 4, "count batches"),
    max_off_policy_threshold: int = k.count("in versions", 8, "count versions, the first included"),
    max_off_policy_strategy: str = k.choice("drop", "wait", words="what too old means"),
) -> dict[str, Any]:
    """verl v1, separate generators: after a warm-up, each trained batch admits another one; staleness is limited.

    K = (w + 1) M permits return at each publish, and batches take the oldest starts first. Staleness is 0 .. threshold
    - 1. The threshold counts the versions from the first token to training, both included: the limit is m = threshold -
    1 publishes from the head. Strategy drop cuts older groups at packing and replaces each by a new prompt, mean below
    w. Strategy wait forms no batch while a sample in flight is due, mean w. Laws `systems/cap-binds` and
    `systems/hard-bounds`.

    >>> verl_separate_async(4, 2, 1, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    warm, every, strategy = num_warmup_batches, parameter_sync_step, max_off_policy_strategy
    limit = max_off_policy_threshold
    batch = k.groups_of("train_batch_size", train_batch_size, every, "parameter_sync_step")
    bound = f"at least num_warmup_batches + 1 = {warm + 1} with strategy wait"
    checks.require(strategy == "drop" or limit > warm, "max_off_policy_threshold", limit, bound, "raise it")
    tickets = (warm + 1) * train_batch_size
    # A dropped group is replaced by one prompt; all others come a publish at a time.
    permits = {"tickets": tickets, "quantum": 1 if strategy == "drop" else train_batch_size, "order": "oldest_start"}
    age = {"max_age": limit - 1, "age_action": strategy}
    return k.settings(tickets, batch, batches_per_publish=every, mode="reprefill", **permits, **age)


@k.source("verl-project/verl@1dda039", "2026-08-22", "verl/experimental/one_step_off_policy/ray_trainer.py")
@k.preset("verl's one-step-off recipe", "groups_per_batch", k.ALONE)
def one_step_off(groups_per_batch: int = k.count("P, groups per batch", 1)) -> dict[str, Any]:
    """One step off-policy (verl one-step-off): the next batch is generated while the current batch is trained.

    Staleness min(version, 1): a batch is admitted when the one before is dequeued, and drained before a publish.

    K = q = C = P, permits return at the dequeue: law `systems/cap-binds`, and since every sample is drained each single
    group has it. The recipe stamps nothing; a batch is one publish, in updates the staleness is U + j. With
    `train_time=0` the publish comes before the admission and nothing is stale.

    >>> one_step_off(4).schedule(4, 2, 1, 1, seed=0).staleness().max(axis=(0, 2, 3, 4)).tolist()
    [0.0, 1.0, 1.0, 1.0]
    """
    batch = groups_per_batch
    return k.settings(batch, batch, tickets=batch, release="dequeue", quantum=batch, mode="drain")
