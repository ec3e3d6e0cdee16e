"""Trainers from AReaL to xtuner: one or two presets each, in the order of their names."""

import math
import warnings
from typing import Any

from asyncsim.base import checks
from asyncsim.systems import _knobs as k


@k.source("inclusionAI/AReaL@4aef98d", "2026-05-21", "areal/infra/staleness_manager.py")
@k.preset("AReaL (2505.24298)", "max_concurrent_rollouts")
def areal(
    max_head_offpolicyness: int = k.count(
        "eta, staleness limit in versions", remedy="give a number of versions", low=0
    ),
    consumer_batch_size: int = k.count("P, groups per batch"),
    max_concurrent_rollouts: int | None = k.given("C, groups running at once (P unless given)", None),
) -> dict[str, Any]:
    """AReaL: generation runs a bounded number of versions ahead; running samples continue under new weights.

    K = (eta + 1) P permits return at each publish. Batches take the oldest starts first; running samples keep their
    tokens. Where the cap binds the mean staleness is eta (`systems/cap-binds`); single samples may exceed it
    (`systems/straggler-tail`). A generator of C places that is the slower side stays near C / P whatever eta is
    (`systems/cap-idle`). AReaL stamps every token with a version and counts in publishes from the first of them. At an
    install a running sample is interrupted and reads again what it has: give `prompt` and `prefill_speedup` for the
    cost.

    >>> from asyncsim.base.laws import constant
    >>> system = areal(2, 4, 12, length=constant(1.0), load=2.0)
    >>> system.schedule(8, 1, 1, 1, seed=0).staleness().mean(axis=(0, 2, 3, 4)).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch, places = consumer_batch_size, max_concurrent_rollouts
    places = batch if places is None else checks.integer("max_concurrent_rollouts", places, 1, "count groups", k.PLACES)
    knobs = {"max_concurrent_rollouts": places}
    return k.ahead(batch, max_head_offpolicyness, places, knobs=knobs, order="oldest_start", mode="reprefill")


@k.source("allenai/open-instruct@e6c3044", "2026-08-20", "open_instruct/data_loader.py")
@k.preset("open-instruct", "async_steps")
def open_instruct(
    num_unique_prompts_rollout: int = k.count("P, groups per batch"),
    async_steps: int = k.count("a >= 1 in steps", 8, "count steps"),
    inflight_updates: bool = k.flag("samples go on under new weights, else they are drained", True),
) -> dict[str, Any]:
    """open-instruct: several steps of prompts are outstanding, batches are packed ahead, and stale groups are replaced.

    K = a P permits return at packing, and up to a packed batches wait. Groups staler than a are dropped at packing, so
    staleness is 0 .. a. Permits and packed batches together reach 2 a batches, so with a slow trainer the mass sits at
    a with discards: law `systems/mean-staleness-identity` with drops. Each discarded group is replaced. The stamp is
    the step at which the engine got the prompt, compared with the step the batch is packed for; a step is a publish.

    >>> open_instruct(2, 2, length=1.0, train_time=1.5).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    steps, mode = async_steps, "keep" if inflight_updates else "drain"
    age: dict[str, Any] = {"prefetch": steps, "max_age": steps, "age_reference": "submit"}
    return k.ahead(num_unique_prompts_rollout, steps - 1, release="dequeue", mode=mode, **age)


@k.source("OpenRLHF/OpenRLHF@3c3be62", "2026-08-13", "openrlhf/trainer/ppo_trainer_async.py")
@k.preset("OpenRLHF", "rollout_batch_size")
def openrlhf(
    rollout_batch_size: int = k.count("P, groups per batch"),
    async_queue_size: int = k.count("Q in batches", 1, "count batches"),
    partial_rollout_enable: bool = k.flag("weights move under running samples", False),
) -> dict[str, Any]:
    """OpenRLHF, asynchronous: a queue of complete batches lies between generator and trainer.

    K = Q P permits return at the dequeue, one batch at a time (q = C = P). After the first batch, every sample has
    staleness 1 .. Q. A slow generator is one batch behind, a slow trainer Q (`systems/cap-binds` at the dequeue). A
    lock keeps weights from moving while a batch is generated (drain); partial rollouts pause and go on instead.
    OpenRLHF stamps no version, a batch is a publish.

    >>> [openrlhf(4, 2, length=1.0, load=x).staleness(6, 1, 0)[0].max(axis=1).tolist() for x in (0.5, 4.0)]
    [[0.0, 1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]]
    """
    batch, mode = rollout_batch_size, "keep" if partial_rollout_enable else "drain"
    return k.settings(batch, batch, tickets=async_queue_size * batch, release="dequeue", quantum=batch, mode=mode)


@k.source("ServiceNow/PipelineRL@58d3934", "2026-06-19", "pipelinerl/actor.py")
@k.preset("PipelineRL (2509.19128)", "llm_max_rollouts")
def pipeline_rl(
    train_batch_size: int = k.samples("samples of an optimizer step of P groups"),
    max_lag: int | None = k.limit("in samples, or None", "count samples", 0),
    weight_update_interval: int = k.samples("in samples, S steps", 1),
    attempts: int = k.count("samples of a group, as in the run", 8, "count samples of a group"),
    llm_max_rollouts: int = k.given("samples at once in an engine", 64),
    llms: int = k.count("engines", 1, "count engines"),
    ring_buffer_size: int = k.samples("samples of the open loop's queue (a batch at least)", 128),
    max_ready_samples_per_lead: int = k.samples("samples that await the trainer", 64, low=0),
    pop_old_data: bool = k.flag("a full ring drops its oldest", True),
) -> dict[str, Any]:
    """PipelineRL: weights are updated in flight, and generation is at most a given number of samples ahead.

    K = ceil(max_lag / attempts) + G permits return at each publish of G groups. Mean staleness: (K - G) / G if
    generation is ahead. Law `systems/cap-binds`, tokens after `systems/token-staircase` (samples go on under new
    weights). Knobs and versions count samples, and its logged lag is the maximum of a batch: divide by samples per
    publish. With a lag nothing is dropped. Without one the loop is open, and a full ring loses its oldest
    (`pop_old_data`): law `systems/mean-staleness-identity`; where old data stay, nothing bounds the queue. Batches are
    made up while the samples handed to the trainer are at most the ready ones. A group begins when an engine has room
    for one sample.

    >>> pipeline_rl(4, 8, attempts=2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    size, remedy = attempts, "let one group run at least"
    batch = k.groups_of("train_batch_size", train_batch_size, size, "attempts")
    permits = llms * checks.integer("llm_max_rollouts", llm_max_rollouts, size, remedy, checks.LARGEST)
    drops = pop_old_data and max_lag is None
    if 0 < (max_lag or 0) < batch * size:
        said = f"max_lag = {max_lag} is in samples, less than a batch of {batch * size}; {max_lag} versions are "
        warnings.warn(checks.RunWarning(f"{said}max_lag={(max_lag or 0) * batch * size}"), stacklevel=3)
    every = -(-weight_update_interval // (batch * size))
    tickets = None if max_lag is None else -(-max_lag // size) + batch * every
    places, ahead = permits if tickets is None else min(permits, tickets), max_ready_samples_per_lead // (batch * size)
    ring = {"capacity": max(batch, ring_buffer_size // size), "overflow": "drop_oldest"} if drops else {}
    return k.settings(
        places, batch, batches_per_publish=every, permits=permits, tickets=tickets, prefetch=ahead, **ring
    )


@k.source("PrimeIntellect-ai/prime-rl@559b447", "2026-08-21", "src/prime_rl/orchestrator/dispatcher.py")
@k.preset("prime-rl", "max_inflight")
def prime_rl(
    batch_size: int = k.samples("in rollouts"),
    max_off_policy_steps: int = k.count("m in steps", 8, "count steps", 0),
    max_inflight: int = k.given("in rollouts", 1024),
    group_size: int = k.count(
        "samples of a group, as in the run (`rollouts_per_example` in earlier revisions)", 1, "count rollouts"
    ),
) -> dict[str, Any]:
    """prime-rl since May 2026: a fixed number of rollouts is in flight, and rollouts that become too stale are dropped.

    A fixed number of rollouts is in flight, one packed batch waits, and admission stops one step ahead. Every sample
    has staleness 0 .. m. Law `systems/mean-staleness-identity`: the mean is (in flight + ready + packed at a publish) /
    P where nothing is dropped. Groups that would be more than m versions old are cut: ready ones at the dequeue,
    running ones only when a version arrives. A batch that waits packed is trained as planned. prime-rl stamps the
    policy versions of a sample's first and last token and counts steps, of which each is a publish. A permit returns
    with each rollout, and a group begins when one is free. Its concurrency adapts below the ceiling to what the
    engines' caches hold; here it is the ceiling.

    >>> prime_rl(4, 8, 8, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 2.0, 1.0, 2.0]
    """
    batch = k.groups_of("batch_size", batch_size, group_size, "group_size")
    ceiling = checks.integer("max_inflight", max_inflight, group_size, "let one group run at least", checks.LARGEST)
    age: dict[str, Any] = {"max_age": max_off_policy_steps, "age_at_publish": "all"}
    return k.settings(ceiling, batch, permits=ceiling, prefetch=1, lead=1, **age)


@k.source("PrimeIntellect-ai/prime-rl", "2026-05", "", "an earlier revision, not read again")
@k.preset("prime-rl", "max_async_level")
def prime_rl_before(
    batch_size: int = k.count("P, groups per batch"),
    max_async_level: int = k.count("L in steps", 1, "count steps", 0),
    strict_async_level: bool = k.flag("batches use no newer weights than they must", False),
) -> dict[str, Any]:
    """prime-rl until May 2026: complete batches, one per step, are generated a bounded number of steps ahead.

    K = (L + 1) P permits return at each publish, batch by batch. Every sample has staleness 0 .. L.

    One batch is generated at a time (C = P), so a slow generator stays 1 step behind and a slow trainer L. The strict
    level waits for the weights of exactly step b - L: staleness min(version, L), here by generating (L + 1) batches at
    once. Law `systems/hard-bounds`; a step is a publish.

    >>> [prime_rl_before(4, 2, length=1.0, load=x).staleness(6, 1, 0)[0].max(axis=1).tolist() for x in (0.5, 4.0)]
    [[0.0, 1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]]
    """
    places = None if strict_async_level else batch_size
    return k.ahead(batch_size, max_async_level, places, quantum=batch_size, order="target")


@k.source("NovaSky-AI/SkyRL@a956457", "2026-08-21", "skyrl/train/fully_async_trainer.py")
@k.preset("SkyRL", "num_parallel_generation_workers")
def skyrl(
    policy_mini_batch_size: int = k.count("P, groups per batch", 256),
    max_staleness_steps: int = k.count("S', staleness limit in steps", 4, "count steps", 0),
    num_parallel_generation_workers: int = k.given("C, groups running at once, from P to P (S' + 1)", 768),
    num_steps_per_epoch: int | None = k.limit(
        "E, prompts of the data set over P, or None for an epoch without an end", "count steps"
    ),
) -> dict[str, Any]:
    """SkyRL, fully asynchronous: workers never stop, and each publish lets more groups start.

    K = (S' + 1) P permits return at each publish to C workers. Groups are trained as they finish; mean staleness: at
    most S'. Where the cap binds the mean is S' (`systems/cap-binds`), else near C / P (`systems/cap-idle`); a single
    group may exceed S', SkyRL counts the violation and trains it. It drains at the end of every epoch: the workers of
    the next begin when all groups of this one are trained. So over whole epochs of E steps the mean is S' - S' (S' + 1)
    / (2 E). It stamps a group with the step at which it was scheduled and counts in steps, of which each is a publish.
    Samples are paused at an install and go on.

    >>> skyrl(4, 2, 12, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    >>> skyrl(4, 2, 12, 4, length=1.0, train_time=2.0).staleness(8, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 0.0, 1.0, 2.0, 2.0]
    """
    batch, workers = policy_mini_batch_size, num_parallel_generation_workers
    most, longer = batch * (max_staleness_steps + 1), math.ceil(workers / batch) - 1 if checks.is_number(workers) else 0
    remedy = f"fewer never fill a batch, more could never all be busy: give {batch} to {most}"
    remedy += f", or max_staleness_steps={longer}" * (longer > max_staleness_steps)
    places = checks.integer("num_parallel_generation_workers", workers, batch, remedy, most)
    return k.ahead(batch, max_staleness_steps, places, epoch=num_steps_per_epoch)


@k.source("thinking-machines-lab/tinker-cookbook@9dfcc3a", "2026-08-19", "tinker_cookbook/rl/train.py")
@k.preset("tinker-cookbook", "groups_per_batch")
def tinker_cookbook(
    groups_per_batch: int = k.count("P, groups per batch"),
    max_steps_off_policy: int = k.count("m in steps", remedy="count steps", low=0),
) -> dict[str, Any]:
    """tinker-cookbook, asynchronous: workers never stop, and a prompt whose answer is too stale is submitted again.

    An open loop of C = P workers. Groups staler than m are generated again at the dequeue, so every sample has
    staleness 0 .. m. Prompts that take long are asked again and again, so batches are biased to the quick ones
    (`systems/age-cut-length-bias`); a slow generator is at `systems/cap-idle`. A sample keeps the sampling client that
    it started with (pin), whose step is its stamp; a step is a publish.

    >>> tinker_cookbook(4, 1, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    batch = groups_per_batch
    return k.settings(batch, batch, max_age=max_steps_off_policy, age_action="requeue", mode="pin")


@k.source("thinking-machines-lab/tinker-cookbook", "", "pull request 822", "a proposal, not in the trainer")
@k.preset("tinker-cookbook", "pipeline_depth")
def tinker_cookbook_pipelined(
    groups_per_batch: int = k.count("P, groups per batch"),
    max_steps_off_policy: int = k.count("m >= k in steps", remedy="count steps", low=0),
    pipeline_depth: int = k.count("k in steps", 1, "count steps", 0),
) -> dict[str, Any]:
    """tinker-cookbook with the proposed pipeline of batches: the trainer waits for the oldest batch.

    K = (k + 1) P permits return at each publish. No batch is formed while a due group is running: staleness is 0 .. m,
    with mean k. Laws `systems/cap-binds` and `systems/hard-bounds`; nothing is dropped, so lengths are unbiased. A
    sample keeps the sampling client that it started with (pin), whose step is its stamp; a step is a publish. From a
    pull request, number 822, that was not checked against running code.

    >>> tinker_cookbook_pipelined(4, 2, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    depth, oldest = pipeline_depth, max_steps_off_policy
    remedy = "a full pipeline is that old; with a lower limit the trainer would wait for ever"
    checks.require(oldest >= depth, "max_steps_off_policy", oldest, f"at least pipeline_depth = {depth}", remedy)
    return k.ahead(groups_per_batch, depth, order="oldest_start", max_age=oldest, age_action="wait", mode="pin")


_SCORING = 18
"""Groups that TRL keeps between generation and a full queue: 16 to be scored, one being scored, one that waits."""


@k.source("huggingface/trl@f2cd577", "2026-07-24", "trl/experimental/async_grpo/async_rollout_worker.py")
@k.preset("TRL", "max_inflight_tasks")
def trl(
    samples_per_step: int = k.samples(
        "samples of an optimizer step (TRL: device batch x accumulation x processes), P = that / num_generations groups"
    ),
    max_staleness: int = k.count("m, staleness limit in publishes", 4, "count publishes", 0),
    max_inflight_tasks: int = k.given(
        "in samples, -1 for m steps of them (with m = 0 TRL starts no task, so give a number)", -1
    ),
    queue_maxsize: int = k.given("in samples", 1024),
    weight_sync_steps: int = k.count("S, steps per publish", 1, "count steps"),
    num_generations: int = k.count("samples of a group, as in the run", 8, "count samples"),
) -> dict[str, Any]:
    """TRL AsyncGRPO: generation tasks run in an open loop, and stale samples are discarded from their queue.

    Tasks run in an open loop until their queue is full. Samples staler than m are discarded at the dequeue, so
    staleness is 0 .. m. With a slow trainer the mass is at m and much is discarded; law
    `systems/mean-staleness-identity` with drops. The stamp is the version at a group's first dispatch, in publishes.
    Samples are paused at an install and go on. A task ends with its sample, and a group begins when one is free; none
    begins while the queue and the scoring before it are full.

    >>> trl(2, 2, num_generations=1, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    size, tasks = num_generations, max_inflight_tasks
    batch = k.groups_of("samples_per_step", samples_per_step, size, "num_generations")
    if tasks != -1:
        tasks = checks.integer("max_inflight_tasks", tasks, size, "let a group run, or give -1", checks.LARGEST)
    remedy = "it counts samples, and the queue has to hold a step"
    queue = checks.integer("queue_maxsize", queue_maxsize, batch * size, remedy, checks.LARGEST)
    bound = "a number of samples with max_staleness = 0"
    remedy = "-1 is max_staleness steps of them, and TRL would start no task"
    checks.require(tasks != -1 or max_staleness > 0, "max_inflight_tasks", tasks, bound, remedy)
    permits = max_staleness * batch * size if tasks == -1 else tasks
    room = {"permits": permits, "capacity": queue // size + _SCORING, "overflow": "close"}
    age = {"max_age": max_staleness, "age_reference": "submit"}
    return k.settings(permits, batch, batches_per_publish=weight_sync_steps, **room, **age)


@k.source("Tencent-Hunyuan/UniRL@7fc7f53", "2026-08", "unirl/trainer/async_rollout.py")
@k.preset("UniRL's asynchronous trainer of language models", "max_inflight")
def unirl(
    batch_size: int = k.count("P, groups per batch"),
    weight_sync_interval: int = k.count("S, batches per publish", 1, "count batches"),
    buffer_max_staleness: int | None = k.given("b in batches, S - 1 at least, or None for that", None),
    max_inflight: int = k.count("F, batches generated at once", 1, "count batches"),
    num_updates_per_batch: int = k.count("U minibatches, recommended", 1, "count updates"),
) -> dict[str, Any]:
    """UniRL, asynchronous: a staleness budget limits the batches in progress, and all are finished before a publish.

    UniRL: its staleness budget is the number of batches that one snapshot of weights serves; no sample straddles a
    publish. K = min(b + 1, F + S) P permits return at each publish, batch by batch, after a drain. Every sample has
    staleness 0 .. floor(b / S).

    At most b batches of the trainer's lie between a group's weights and its training, b U updates. Where generation is
    ahead the mean is K / M - 1 publishes (`systems/cap-binds`). Unless a budget is given it is b = S - 1: a snapshot
    serves the S batches up to the next publish, and all are 0 publishes old. Law `systems/hard-bounds`. UniRL stamps
    each turn with the updates in its weights.

    >>> unirl(2, 1, 2, 2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch, every, updates = batch_size, weight_sync_interval, num_updates_per_batch
    least = f"allow the {every - 1} batches between two publishes"
    budget = k.optional("buffer_max_staleness", buffer_max_staleness, every - 1, least)
    # Beside the budget, F batches may be out besides the one in training: that is F + S at the publish.
    out = min(every if budget is None else budget + 1, max_inflight + every)
    permits = {"tickets": out * batch, "quantum": batch}
    recommended = {"minibatches": updates, "cut": "samples"} if updates > 1 else {}
    weights = {"batches_per_publish": every, "mode": "drain"}
    return k.settings(max_inflight * batch, batch, recommended=recommended, **permits, **weights)


@k.source("InternLM/xtuner@b934f46", "2026-08-21", "xtuner/v1/rl/agent_loop_manager/disagg_producer.py")
@k.preset("xtuner", "over_sample_threshold")
def xtuner(
    train_batch_size: int = k.count("P, groups per batch"),
    max_staleness: int = k.count("m in syncs", 0, "count syncs", 0),
    over_sample_threshold: float = k.share("share of a batch that may run beyond it", 0.0, "give a share of a batch"),
    sync_weights_interval: int = k.count("S, steps per publish", 1, "count steps"),
    enable_partial_rollout: bool = k.flag("samples go on after a sync or begin anew", False),
    tail_batch_trigger_size: int = k.count(
        "-1 to drop expired groups, else they are asked again", -1, "give -1, 0 or a number of groups", -1, None
    ),
) -> dict[str, Any]:
    """xtuner: a producer fills one future step after another, and discards samples that are too many syncs old.

    xtuner with separate generators: steps are filled in order, a bounded number of syncs ahead.

    K = (m + 1) M + B permits return at each publish, with C = P + B and B = ceil(threshold P). Every sample has
    staleness 0 .. m. Law `systems/hard-bounds`. Without oversampling a step's groups start when those of the step
    before are done, and nothing expires. With it the B groups of a publish that come last would be m + 1 old, and
    expire where generation is ahead. xtuner stamps each token with the step of its weights. A limit m allows (m + 1) S
    steps from the oldest token on, which is m publishes. It is checked when a batch is taken, for finished groups, and
    at the sync, for groups that still run too.

    >>> xtuner(4, 2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch, every, extra = train_batch_size, sync_weights_interval, math.ceil(over_sample_threshold * train_batch_size)
    # Without oversampling steps are generated and trained one after the other, the last of them m publishes late.
    cut: dict[str, Any] = {"quantum": batch}
    if extra:
        action = "drop" if tail_batch_trigger_size < 0 else "requeue"
        cut = {"max_age": max_staleness, "age_action": action, "age_at_publish": "all"}
    permits = {"tickets": (max_staleness + 1) * batch * every + extra, "order": "oldest_start"}
    mode = "reprefill" if enable_partial_rollout else "restart"
    return k.settings(batch + extra, batch, batches_per_publish=every, mode=mode, **permits, **cut)
