"""Every preset under its own knobs: what the contract tests run, the laws that they expect, and random knobs."""

from __future__ import annotations

from hypothesis import strategies as st

from asyncsim import systems as presets
from asyncsim.base.laws import Law, constant, empirical, exponential, lognormal
from asyncsim.systems._system import System

LENGTH = lognormal(1.0, 0.8)
LOADS = (0.4, 1.0, 2.5)
"""Generation rate over training rate: the generators are the slower side, neither is, the trainer is."""
SAMPLES = 2

CASES = {
    "synchronous": ("synchronous", {"groups_per_batch": 4}),
    "one_step_off": ("one_step_off", {"groups_per_batch": 4}),
    "verl_fully_async": (
        "verl_fully_async",
        {"ppo_mini_batch_size": 4, "staleness_threshold": 0.5, "trigger_parameter_sync_step": 2},
    ),
    "verl_fully_async drained": (
        "verl_fully_async",
        {
            "ppo_mini_batch_size": 4,
            "staleness_threshold": 0.5,
            "trigger_parameter_sync_step": 2,
            "partial_rollout": False,
        },
    ),
    "verl_fully_async few places": ("verl_fully_async", {"ppo_mini_batch_size": 16}),
    "vcpo": ("vcpo", {"ppo_mini_batch_size": 4, "staleness_threshold": 3}),
    "verl_separate_async": ("verl_separate_async", {"train_batch_size": 8, "parameter_sync_step": 2}),
    "verl_separate_async wait": (
        "verl_separate_async",
        {"train_batch_size": 8, "parameter_sync_step": 2, "max_off_policy_strategy": "wait"},
    ),
    "areal": ("areal", {"max_head_offpolicyness": 3, "consumer_batch_size": 16, "max_concurrent_rollouts": 64}),
    "areal one batch of places": ("areal", {"max_head_offpolicyness": 1, "consumer_batch_size": 8}),
    "areal few places": ("areal", {"max_head_offpolicyness": 4, "consumer_batch_size": 8}),
    "areal idle cap": ("areal", {"max_head_offpolicyness": 8, "consumer_batch_size": 8, "max_concurrent_rollouts": 32}),
    "skyrl": ("skyrl", {"policy_mini_batch_size": 4, "max_staleness_steps": 4, "num_parallel_generation_workers": 20}),
    "skyrl in epochs": (
        "skyrl",
        {
            "policy_mini_batch_size": 4,
            "max_staleness_steps": 4,
            "num_steps_per_epoch": 10,
            "num_parallel_generation_workers": 20,
        },
    ),
    "roll_single_turn": ("roll_single_turn", {"rollout_batch_size": 4, "async_generation_ratio": 1.5}),
    "roll_environment_groups": ("roll_environment_groups", {"num_env_groups": 4, "async_generation_ratio": 2}),
    "prime_rl": ("prime_rl", {"batch_size": 8, "max_inflight": 32, "max_off_policy_steps": 4}),
    "prime_rl_before": ("prime_rl_before", {"batch_size": 4, "max_async_level": 2}),
    "prime_rl_before strict": ("prime_rl_before", {"batch_size": 4, "max_async_level": 2, "strict_async_level": True}),
    "pipeline_rl": ("pipeline_rl", {"train_batch_size": 8, "max_lag": 16, "llm_max_rollouts": 24, "attempts": 2}),
    "pipeline_rl few permits": (
        "pipeline_rl",
        {"train_batch_size": 32, "max_lag": 64, "llm_max_rollouts": 32, "attempts": 2},
    ),
    "pipeline_rl open": ("pipeline_rl", {"train_batch_size": 64, "llm_max_rollouts": 256}),
    "pipeline_rl by the sample": (
        "pipeline_rl",
        {
            "train_batch_size": 16,
            "llm_max_rollouts": 96,
            "attempts": 1,
            "ring_buffer_size": 16,
            "max_ready_samples_per_lead": 0,
        },
    ),
    "slime_train_async": ("slime_train_async", {"rollout_batch_size": 4, "update_weights_interval": 2}),
    "slime_fully_async": ("slime_fully_async", {"rollout_batch_size": 4, "sglang_server_concurrency": 16}),
    "miles": ("miles", {"rollout_batch_size": 4}),
    "miles cut": ("miles", {"rollout_batch_size": 4, "max_weight_staleness": 2}),
    "openrlhf": ("openrlhf", {"rollout_batch_size": 4, "async_queue_size": 3}),
    "openrlhf shortest": ("openrlhf", {"rollout_batch_size": 4}),
    "nemo_rl_legacy": ("nemo_rl_legacy", {"num_prompts_per_step": 4, "max_trajectory_age_steps": 2}),
    "nemo_rl_in_order": ("nemo_rl_in_order", {"num_prompts_per_step": 4, "max_lookahead_versions": 2}),
    "nemo_rl_weight_fifo": ("nemo_rl_weight_fifo", {"num_prompts_per_step": 4, "max_staleness_versions": 2}),
    "nemo_rl_ready_first": ("nemo_rl_ready_first", {"num_prompts_per_step": 4, "max_staleness_versions": 2}),
    "nemo_rl_windowed": ("nemo_rl_windowed", {"num_prompts_per_step": 4, "max_staleness_versions": 2}),
    "trl": ("trl", {"samples_per_step": 32, "max_staleness": 2, "queue_maxsize": 64}),
    "open_instruct": ("open_instruct", {"num_unique_prompts_rollout": 4, "async_steps": 3}),
    "tinker_cookbook": ("tinker_cookbook", {"groups_per_batch": 4, "max_steps_off_policy": 2}),
    "tinker_cookbook_pipelined": (
        "tinker_cookbook_pipelined",
        {"groups_per_batch": 4, "max_steps_off_policy": 3, "pipeline_depth": 2},
    ),
    "torchtitan": ("torchtitan", {"num_prompts_per_train_step": 4, "target_offpolicy_steps": 2}),
    "torchtitan in order": (
        "torchtitan",
        {"num_prompts_per_train_step": 4, "target_offpolicy_steps": 2, "window_fraction": None},
    ),
    "torchforge": ("torchforge", {"batch_size": 4, "max_policy_age": 1, "rollout_threads": 8}),
    "tba": ("tba", {"groups_per_batch": 4, "n_searchers": 8}),
    "m2po": ("m2po", {"train_batch_size": 4, "stale_iteration": 6}),
    "oapl": ("oapl", {"groups_per_batch": 4, "period": 3}),
    "fixed_lag": ("fixed_lag", {"lag": 3, "groups_per_batch": 4}),
    "update_on_arrival": ("update_on_arrival", {"workers": 6}),
    "buffered": ("buffered", {"workers": 8, "buffer_size": 3}),
}
"""Knobs of each preset at its laws, and at the settings beside them where the laws stop."""

SERVICES = (exponential(1.0), lognormal(1.0, 0.8), constant(1.0))
"""What takes the place of the loads where training takes no time."""

NONE = ("no law",) * 3
EXPECTED: dict[str, tuple[str, ...]] = {
    "synchronous": ("hard-bounds mean 0 0..0 pmf",) * 3,
    "one_step_off": ("hard-bounds mean 1 1..1 pmf",) * 3,
    "verl_fully_async": ("cap-binds mean 0.5",) * 3,
    "verl_fully_async drained": ("hard-bounds mean 0.5 0..1 pmf",) * 3,
    "verl_fully_async few places": ("cap-binds mean 0.09375",) * 3,
    "vcpo": ("cap-binds mean 3",) * 3,
    "verl_separate_async": ("hard-bounds 0..7",) * 3,
    "verl_separate_async wait": ("hard-bounds mean 1 0..7",) * 3,
    "areal": ("cap-binds mean 3", "cap-binds mean 3", "cap-binds mean 3 tail"),
    "areal one batch of places": ("cap-binds mean 1",) * 3,
    "areal few places": ("no law", "no law", "cap-binds mean 4"),
    "areal idle cap": ("cap-idle mean 4.401", "no law", "cap-binds mean 8"),
    "skyrl": ("cap-binds mean 4",) * 3,
    "skyrl in epochs": NONE,
    "roll_single_turn": ("hard-bounds mean 1.5 1..2 pmf",) * 3,
    "roll_environment_groups": ("hard-bounds 0..2",) * 3,
    "prime_rl": ("hard-bounds 0..4",) * 3,
    "prime_rl_before": ("hard-bounds 1..2",) * 3,
    "prime_rl_before strict": ("hard-bounds mean 2 2..2 pmf",) * 3,
    "pipeline_rl": ("cap-binds mean 2",) * 3,
    "pipeline_rl few permits": ("no law", "no law", "cap-binds mean 2"),
    "pipeline_rl open": NONE,
    "pipeline_rl by the sample": ("cap-idle mean 6.4", "no law", "open-loop-mean mean 3.093"),
    "slime_train_async": ("hard-bounds mean 0.5 0..1 pmf",) * 3,
    "slime_fully_async": NONE,
    "miles": ("no law", "no law", "mean-staleness-identity mean 3"),
    "miles cut": NONE,
    "openrlhf": ("hard-bounds 1..3",) * 3,
    "openrlhf shortest": ("hard-bounds mean 1 1..1 pmf",) * 3,
    "nemo_rl_legacy": ("hard-bounds mean 2 2..2 pmf",) * 3,
    "nemo_rl_in_order": ("hard-bounds mean 2 2..2 pmf",) * 3,
    "nemo_rl_weight_fifo": ("hard-bounds mean 2 2..2 pmf",) * 3,
    "nemo_rl_ready_first": ("cap-binds mean 2",) * 3,
    "nemo_rl_windowed": ("hard-bounds 0..2",) * 3,
    "trl": ("hard-bounds 0..2",) * 3,
    "open_instruct": ("hard-bounds 0..3",) * 3,
    "tinker_cookbook": ("hard-bounds 0..2",) * 3,
    "tinker_cookbook_pipelined": ("hard-bounds mean 2 0..3",) * 3,
    "torchtitan": ("hard-bounds mean 2 0..3",) * 3,
    "torchtitan in order": ("hard-bounds mean 2 2..2 pmf",) * 3,
    "torchforge": ("hard-bounds 0..1",) * 3,
    "tba": NONE,
    "m2po": ("hard-bounds mean 6 6..6 pmf",) * 3,
    "oapl": ("hard-bounds mean 0 0..0 pmf",) * 3,
    "fixed_lag": ("hard-bounds mean 3 3..3 pmf",) * 3,
    "update_on_arrival": ("geometric mean 5 pmf", "update-on-arrival mean 5", "update-on-arrival mean 5 5..5 pmf"),
    "buffered": (
        "arrivals-per-update mean 2.333 pmf",
        "arrivals-per-update mean 2.333",
        "arrivals-per-update mean 2.333",
    ),
}
"""The law of each case at the three loads: its claim, mean, support, and what more is known."""


def system(case: str, configuration: int) -> tuple[System, int]:
    """The system of a case at one of three loads, and its samples in a group."""
    name, knobs = CASES[case]
    make = getattr(presets, name)
    if name in ("update_on_arrival", "buffered"):
        return make(**knobs, service=SERVICES[configuration]), 1
    samples = knobs.get("num_generations", knobs.get("attempts", SAMPLES))
    if name in ("synchronous", "one_step_off"):
        # They have no load: one group in generation for each one in the batch.
        group = LENGTH.expected_max(samples)
        return make(**knobs, length=LENGTH, train_time=LOADS[configuration] * group), samples
    return make(**knobs, length=LENGTH, load=LOADS[configuration]), samples


def n(low: int, high: int) -> st.SearchStrategy:
    return st.integers(low, high)


GROUPS = n(1, 4)
KNOBS: dict[str, dict[str, st.SearchStrategy]] = {
    "synchronous": {"groups_per_batch": GROUPS},
    "one_step_off": {"groups_per_batch": GROUPS},
    "verl_fully_async": {
        "ppo_mini_batch_size": GROUPS,
        "staleness_threshold": st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.3]),
        "trigger_parameter_sync_step": n(1, 3),
        "require_batches": n(1, 2),
        "partial_rollout": st.booleans(),
        "concurrent_samples_per_replica": n(1, 8),
        "replicas": n(1, 2),
    },
    "vcpo": {"ppo_mini_batch_size": GROUPS, "staleness_threshold": n(0, 6), "replicas": n(1, 2)},
    "verl_separate_async": {
        "train_batch_size": st.sampled_from([2, 4]),
        "num_warmup_batches": n(1, 2),
        "parameter_sync_step": n(1, 2),
        "max_off_policy_threshold": n(3, 6),
        "max_off_policy_strategy": st.sampled_from(["drop", "wait"]),
    },
    "areal": {"max_head_offpolicyness": n(0, 4), "consumer_batch_size": GROUPS, "max_concurrent_rollouts": n(1, 12)},
    "skyrl": {
        "policy_mini_batch_size": st.just(3),
        "max_staleness_steps": n(1, 4),
        "num_parallel_generation_workers": n(3, 6),
        "num_steps_per_epoch": st.sampled_from([None, 1, 4]),
    },
    "roll_single_turn": {"rollout_batch_size": GROUPS, "async_generation_ratio": st.sampled_from([1, 1.5, 2.2])},
    "roll_environment_groups": {
        "num_env_groups": GROUPS,
        "max_traj_per_env": n(1, 2),
        "async_generation_ratio": n(1, 3),
    },
    "prime_rl": {"batch_size": GROUPS, "max_inflight": n(1, 16), "max_off_policy_steps": n(0, 3)},
    "prime_rl_before": {"batch_size": GROUPS, "max_async_level": n(1, 3), "strict_async_level": st.booleans()},
    "pipeline_rl": {
        "train_batch_size": st.sampled_from([2, 4, 8]),
        "max_lag": st.sampled_from([None, 2, 7, 16]),
        "weight_update_interval": n(1, 9),
        "attempts": n(1, 2),
        "llm_max_rollouts": n(2, 16),
        "llms": n(1, 2),
        "ring_buffer_size": n(8, 16),
        "max_ready_samples_per_lead": n(0, 16),
    },
    "slime_train_async": {"rollout_batch_size": GROUPS, "update_weights_interval": n(1, 3)},
    "slime_fully_async": {"rollout_batch_size": GROUPS, "sglang_server_concurrency": n(4, 9), "engines": n(1, 2)},
    "miles": {
        "rollout_batch_size": GROUPS,
        "max_weight_staleness": st.sampled_from([None, 0, 1, 3]),
        "async_data_buffer_capacity_factor": st.sampled_from([1.0, 1.5, 2.0]),
        "async_unused_samples_handler": st.sampled_from(["drop", "retry"]),
        "pause_generation_mode": st.sampled_from(["retract", "in_place"]),
    },
    "openrlhf": {"rollout_batch_size": GROUPS, "async_queue_size": n(1, 3), "partial_rollout_enable": st.booleans()},
    "nemo_rl_legacy": {
        "num_prompts_per_step": GROUPS,
        "max_trajectory_age_steps": n(1, 3),
        "in_flight_weight_updates": st.booleans(),
    },
    "nemo_rl_in_order": {"num_prompts_per_step": GROUPS, "max_lookahead_versions": n(1, 3)},
    "nemo_rl_weight_fifo": {"num_prompts_per_step": GROUPS, "max_staleness_versions": n(1, 3)},
    "nemo_rl_ready_first": {"num_prompts_per_step": GROUPS, "max_staleness_versions": n(1, 3)},
    "nemo_rl_windowed": {
        "num_prompts_per_step": GROUPS,
        "max_staleness_versions": n(1, 3),
        "sample_freshest_first": st.booleans(),
        "max_inflight_prompts": n(1, 12),
    },
    "trl": {
        "samples_per_step": st.sampled_from([2, 4, 8]),
        "max_staleness": n(1, 3),
        "num_generations": n(1, 2),
        "queue_maxsize": n(8, 20),
        "weight_sync_steps": n(1, 2),
    },
    "open_instruct": {"num_unique_prompts_rollout": GROUPS, "async_steps": n(1, 4), "inflight_updates": st.booleans()},
    "tinker_cookbook": {"groups_per_batch": GROUPS, "max_steps_off_policy": n(0, 3)},
    "tinker_cookbook_pipelined": {
        "groups_per_batch": GROUPS,
        "max_steps_off_policy": n(3, 4),
        "pipeline_depth": n(1, 3),
    },
    "torchtitan": {
        "num_prompts_per_train_step": GROUPS,
        "target_offpolicy_steps": n(1, 3),
        "window_fraction": st.sampled_from([None, 0.3, 0.8]),
    },
    "torchforge": {
        "batch_size": GROUPS,
        "max_policy_age": n(0, 3),
        "max_buffer_size": st.sampled_from([None, 4, 9]),
        "max_resample_count": n(0, 2),
        "rollout_threads": n(1, 9),
    },
    "tba": {
        "groups_per_batch": GROUPS,
        "sync_interval": n(1, 4),
        "on_policy_prob": st.sampled_from([0.0, 0.5, 1.0]),
        "n_searchers": n(1, 8),
    },
    "m2po": {"train_batch_size": GROUPS, "stale_iteration": n(0, 5)},
    "oapl": {"groups_per_batch": GROUPS, "period": n(1, 4)},
    "fixed_lag": {"lag": n(0, 4), "groups_per_batch": GROUPS},
    "update_on_arrival": {"workers": n(1, 8), "stagger": st.booleans()},
    "buffered": {"workers": n(1, 8), "buffer_size": n(1, 4), "stagger": st.booleans()},
}
"""Knobs of each preset at random: small numbers, where edges are near."""

# Eighths and constants: many events fall on the same instant.
LENGTHS: st.SearchStrategy[Law] = st.sampled_from(
    [constant(1.0), empirical([0.125, 0.25, 0.5, 2.0]), empirical([0.5, 1.0]), lognormal(1.0, 0.8), exponential(1.0)]
)


@st.composite
def configurations(draw, preset: str) -> System:
    """A system of the preset with random knobs, lengths that tie or not, and any load."""
    knobs = {name: draw(strategy) for name, strategy in KNOBS[preset].items()}
    if preset in ("update_on_arrival", "buffered"):
        return getattr(presets, preset)(**knobs, service=draw(LENGTHS))
    knobs["sync_time"] = draw(st.sampled_from([0.0, 0.0, 0.125]))
    if preset in ("synchronous", "one_step_off") or draw(st.booleans()):
        knobs["train_time"] = draw(st.sampled_from([0.125, 0.5, 1.0, 3.0, lognormal(1.0, 0.5)]))
    else:
        knobs["load"] = draw(st.sampled_from([0.3, 1.0, 2.5]))
    return getattr(presets, preset)(**knobs, length=draw(LENGTHS))
