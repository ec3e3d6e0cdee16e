"""Systems: event models of real trainers: who generates, who trains, when weights are published."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from asyncsim.base.laws import Law
from asyncsim.systems._system import System

def areal(
    max_head_offpolicyness: int,
    consumer_batch_size: int,
    max_concurrent_rollouts: int | None = None,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """AReaL: generation runs a bounded number of versions ahead; running samples continue under new weights."""

def buffered(
    workers: int,
    buffer_size: int,
    service: Law | float | str = "exponential:1.0",
    rates: Sequence[float] | None = None,
    stagger: bool = False,
    *,
    model: Mapping[str, Any] | None = None,
) -> System:
    """Buffered asynchronous training (FedBuff style): one update per `buffer_size` results that arrive."""

def colocated(
    groups_per_batch: int,
    ahead: float = 0.0,
    partial_rollout: bool = True,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """Colocated: generation and training alternate on the same machines; samples in flight continue after training."""

def fixed_lag(
    lag: int,
    groups_per_batch: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """Fixed staleness: every batch is stale by the same number of versions."""

def m2po(
    train_batch_size: int,
    stale_iteration: int = 64,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """M2PO's setting for stale data: every batch is a fixed number of updates stale."""

def megatron_rl(
    grpo_prompts_per_step: int,
    rl_generation_lag: float,
    rl_submission_granularity: Literal["B", "G", "R"] = "B",
    rl_consumption_granularity: str = "B",
    grpo_group_size: int = 2,
    rl_kv_cache_management_mode: Literal["persist", "offload", "recompute"] = "persist",
    grpo_iterations: int = 2,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """Megatron-RL with partial rollouts: capacity is freed per rollout, group or batch; training is per group or batch."""

def miles(
    rollout_batch_size: int,
    max_weight_staleness: int | None = None,
    async_data_buffer_capacity_factor: float = 2.0,
    async_unused_samples_handler: Literal["drop", "retry"] = "drop",
    pause_generation_mode: Literal["retract", "in_place"] = "retract",
    async_max_concurrent_samples: int | None = None,
    num_steps_per_rollout: int = 1,
    n_samples_per_prompt: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """miles, fully asynchronous: finished groups wait in a bounded buffer; a limit may refuse groups of old versions."""

def minimax_forge(
    train_batch_size: int,
    generation_batch_size: int,
    window_fraction: float = 0.3,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """MiniMax's Forge: the trainer takes finished tasks out of order, but only from a window at the queue's head."""

def nemo_rl_in_order(
    num_prompts_per_step: int,
    max_lookahead_versions: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """NeMo-RL, sampler in_order: batches are trained in the order of their dispatch."""

def nemo_rl_legacy(
    num_prompts_per_step: int,
    max_trajectory_age_steps: int = 1,
    in_flight_weight_updates: bool = False,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """NeMo-RL's first asynchronous GRPO: every group is generated for one specific future training step."""

def nemo_rl_ready_first(
    num_prompts_per_step: int,
    max_staleness_versions: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """NeMo-RL, sampler ready_first: groups are trained as soon as they are finished."""

def nemo_rl_weight_fifo(
    num_prompts_per_step: int,
    max_staleness_versions: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """NeMo-RL, sampler weight_fifo: groups of an older weight version are trained first."""

def nemo_rl_windowed(
    num_prompts_per_step: int,
    max_staleness_versions: int = 1,
    sample_freshest_first: bool = False,
    max_inflight_prompts: int | None = None,
    max_buffered_rollouts: int | None = None,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """NeMo-RL, sampler windowed: generation never waits, and groups that leave the window are dropped."""

def oapl(
    groups_per_batch: int,
    period: int,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """OAPL: all batches of a period come from one version; then weights and buffer are renewed."""

def one_step_off(
    groups_per_batch: int = 1,
    *,
    length: Law | float | str = 1.0,
    train_time: Law | float | str = 1.0,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """One step off-policy (verl one-step-off): the next batch is generated while the current batch is trained."""

def open_instruct(
    num_unique_prompts_rollout: int,
    async_steps: int = 8,
    inflight_updates: bool = True,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """open-instruct: several steps of prompts are outstanding, batches are packed ahead, and stale groups are replaced."""

def openrlhf(
    rollout_batch_size: int,
    async_queue_size: int = 1,
    partial_rollout_enable: bool = False,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """OpenRLHF, asynchronous: a queue of complete batches lies between generator and trainer."""

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
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """PipelineRL: weights are updated in flight, and generation is at most a given number of samples ahead."""

def prime_rl(
    batch_size: int,
    max_off_policy_steps: int = 8,
    max_inflight: int = 1024,
    group_size: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """prime-rl since May 2026: a fixed number of rollouts is in flight, and rollouts that become too stale are dropped."""

def prime_rl_before(
    batch_size: int,
    max_async_level: int = 1,
    strict_async_level: bool = False,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """prime-rl until May 2026: complete batches, one per step, are generated a bounded number of steps ahead."""

def roll_environment_groups(
    num_env_groups: int,
    max_traj_per_env: int = 1,
    async_generation_ratio: int = 1,
    group_size_redundancy: int = 0,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """ROLL Flash with environment groups: each group fills a queue, whose episodes are trained in order."""

def roll_single_turn(
    rollout_batch_size: int,
    async_generation_ratio: float = 1,
    is_use_additional_prompts: bool = False,
    max_additional_running_prompts: int = 16,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """ROLL Flash, single turn: prompts of the oldest step come first; samples staler than the limit are aborted."""

def skyrl(
    policy_mini_batch_size: int = 256,
    max_staleness_steps: int = 4,
    num_parallel_generation_workers: int = 768,
    num_steps_per_epoch: int | None = None,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """SkyRL, fully asynchronous: workers never stop, and each publish lets more groups start."""

def slime_fully_async(
    rollout_batch_size: int,
    sglang_server_concurrency: int = 512,
    engines: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """slime, fully asynchronous: a fixed number of groups is always in flight, with no check of versions."""

def slime_train_async(
    rollout_batch_size: int,
    update_weights_interval: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """slime train_async: the next rollout runs during training, and weights are published every few rollouts."""

def synchronous(
    groups_per_batch: int = 1,
    *,
    length: Law | float | str = 1.0,
    train_time: Law | float | str = 1.0,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """Synchronous training: generation and training alternate and never overlap."""

def tba(
    groups_per_batch: int,
    sync_interval: int = 2,
    on_policy_prob: float = 0.95,
    n_searchers: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """TBA: searchers fill a replay buffer, and the trainer samples recent data or the full buffer."""

def tinker_cookbook(
    groups_per_batch: int,
    max_steps_off_policy: int,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """tinker-cookbook, asynchronous: workers never stop, and a prompt whose answer is too stale is submitted again."""

def tinker_cookbook_pipelined(
    groups_per_batch: int,
    max_steps_off_policy: int,
    pipeline_depth: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """tinker-cookbook with the proposed pipeline of batches: the trainer waits for the oldest batch."""

def torchforge(
    batch_size: int,
    max_policy_age: int = 1,
    max_buffer_size: int | None = None,
    max_resample_count: int = 0,
    rollout_threads: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """torchforge: a replay buffer with random sampling, from which samples older than about one step are evicted."""

def torchtitan(
    num_prompts_per_train_step: int,
    target_offpolicy_steps: int,
    window_fraction: float | None = 0.3,
    windowed_fifo_batches: int | str | None = "unset",
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """torchtitan RL: the target staleness sets the buffer size; groups are trained in order, up to a window."""

def trl(
    samples_per_step: int,
    max_staleness: int = 4,
    max_inflight_tasks: int = -1,
    queue_maxsize: int = 1024,
    weight_sync_steps: int = 1,
    num_generations: int = 8,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """TRL AsyncGRPO: generation tasks run in an open loop, and stale samples are discarded from their queue."""

def unirl(
    batch_size: int,
    weight_sync_interval: int = 1,
    buffer_max_staleness: int | None = None,
    max_inflight: int = 1,
    num_updates_per_batch: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """UniRL, asynchronous: a staleness budget limits the batches in progress, and all are finished before a publish."""

def update_on_arrival(
    workers: int,
    service: Law | float | str = "exponential:1.0",
    rates: Sequence[float] | None = None,
    stagger: bool = False,
    *,
    model: Mapping[str, Any] | None = None,
) -> System:
    """Update on arrival (A3C, asynchronous SGD, parameter server): every worker's result is applied at once."""

def vcpo(
    ppo_mini_batch_size: int,
    staleness_threshold: float = 128,
    trigger_parameter_sync_step: int = 1,
    require_batches: int = 1,
    partial_rollout: bool = True,
    concurrent_samples_per_replica: int = 16,
    replicas: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """VCPO: verl's fully asynchronous recipe with a weight sync after every batch, and with generation far ahead."""

def verl_fully_async(
    ppo_mini_batch_size: int,
    staleness_threshold: float = 0.1,
    trigger_parameter_sync_step: int = 4,
    require_batches: int = 1,
    partial_rollout: bool = True,
    concurrent_samples_per_replica: int = 16,
    replicas: int = 1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """verl, fully asynchronous: generation runs ahead by a fraction of a publish window."""

def verl_separate_async(
    train_batch_size: int,
    num_warmup_batches: int = 1,
    parameter_sync_step: int = 4,
    max_off_policy_threshold: int = 8,
    max_off_policy_strategy: Literal["drop", "wait"] = "drop",
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """verl v1, separate generators: after a warm-up, each trained batch admits another one; staleness is limited."""

def xtuner(
    train_batch_size: int,
    max_staleness: int = 0,
    over_sample_threshold: float = 0.0,
    sync_weights_interval: int = 1,
    enable_partial_rollout: bool = False,
    tail_batch_trigger_size: int = -1,
    *,
    length: Law | float | str,
    load: float | None = None,
    train_time: Law | float | str | None = None,
    sync_time: float = 0.0,
    model: Mapping[str, Any] | None = None,
) -> System:
    """xtuner: a producer fills one future step after another, and discards samples that are too many syncs old."""
