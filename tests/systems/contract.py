"""Every preset under its own knobs: what the contract tests run, the laws that they expect, and random knobs."""

import inspect
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from asyncsim import systems as presets
from asyncsim.base.checks import InputError
from asyncsim.base.laws import Law, constant, empirical, exponential, lognormal
from asyncsim.systems._system import System
from tests.systems.preset_table import REQUIRED, own_knobs, parameters

LENGTH = lognormal(1.0, 0.8)
LOADS = (0.4, 1.0, 2.5)
"""Generation rate over training rate: the generators are the slower side, neither is, the trainer is."""
SAMPLES = 2


def always(law):
    """The same at all three loads."""
    return (law,) * len(LOADS)


NONE = always("no law")
STATED = {
    "synchronous": ({"groups_per_batch": 4}, always("hard-bounds mean 0 0..0 pmf")),
    "colocated": ({"groups_per_batch": 4, "ahead": 0.5}, always("cap-binds mean 0.5")),
    "one_step_off": ({"groups_per_batch": 4}, always("hard-bounds mean 1 1..1 pmf")),
    "verl_fully_async": (
        {"ppo_mini_batch_size": 4, "staleness_threshold": 0.5, "trigger_parameter_sync_step": 2},
        always("cap-binds mean 0.5"),
    ),
    "verl_fully_async drained": (
        {
            "ppo_mini_batch_size": 4,
            "staleness_threshold": 0.5,
            "trigger_parameter_sync_step": 2,
            "partial_rollout": False,
        },
        always("hard-bounds mean 0.5 0..1 pmf"),
    ),
    "verl_fully_async few places": ({"ppo_mini_batch_size": 16}, always("cap-binds mean 0.09375")),
    "vcpo": ({"ppo_mini_batch_size": 4, "staleness_threshold": 3}, always("cap-binds mean 3")),
    "verl_separate_async": ({"train_batch_size": 8, "parameter_sync_step": 2}, always("hard-bounds 0..7")),
    "verl_separate_async wait": (
        {"train_batch_size": 8, "parameter_sync_step": 2, "max_off_policy_strategy": "wait"},
        always("hard-bounds mean 1 0..7"),
    ),
    "areal": (
        {"max_head_offpolicyness": 3, "consumer_batch_size": 16, "max_concurrent_rollouts": 64},
        ("cap-binds mean 3", "cap-binds mean 3", "cap-binds mean 3 tail"),
    ),
    "areal one batch of places": ({"max_head_offpolicyness": 1, "consumer_batch_size": 8}, always("cap-binds mean 1")),
    "areal few places": (
        {"max_head_offpolicyness": 4, "consumer_batch_size": 8},
        ("no law", "no law", "cap-binds mean 4"),
    ),
    "areal idle cap": (
        {"max_head_offpolicyness": 8, "consumer_batch_size": 8, "max_concurrent_rollouts": 32},
        ("cap-idle mean 4.401", "no law", "cap-binds mean 8"),
    ),
    "skyrl": (
        {"policy_mini_batch_size": 4, "max_staleness_steps": 4, "num_parallel_generation_workers": 20},
        always("cap-binds mean 4"),
    ),
    "skyrl in epochs": (
        {
            "policy_mini_batch_size": 4,
            "max_staleness_steps": 4,
            "num_steps_per_epoch": 10,
            "num_parallel_generation_workers": 20,
        },
        NONE,
    ),
    "roll_single_turn": (
        {"rollout_batch_size": 4, "async_generation_ratio": 1.5},
        always("hard-bounds mean 1.5 1..2 pmf"),
    ),
    "roll_environment_groups": ({"num_env_groups": 4, "async_generation_ratio": 2}, always("hard-bounds 0..2")),
    "prime_rl": ({"batch_size": 8, "max_inflight": 32, "max_off_policy_steps": 4}, always("hard-bounds 0..4")),
    "prime_rl_before": ({"batch_size": 4, "max_async_level": 2}, always("hard-bounds 1..2")),
    "prime_rl_before strict": (
        {"batch_size": 4, "max_async_level": 2, "strict_async_level": True},
        always("hard-bounds mean 2 2..2 pmf"),
    ),
    "pipeline_rl": (
        {"train_batch_size": 8, "max_lag": 16, "llm_max_rollouts": 24, "attempts": 2},
        always("cap-binds mean 2"),
    ),
    "pipeline_rl few permits": (
        {"train_batch_size": 32, "max_lag": 64, "llm_max_rollouts": 32, "attempts": 2},
        ("no law", "no law", "cap-binds mean 2"),
    ),
    "pipeline_rl open": ({"train_batch_size": 64, "llm_max_rollouts": 256}, NONE),
    "pipeline_rl by the sample": (
        {
            "train_batch_size": 16,
            "llm_max_rollouts": 96,
            "attempts": 1,
            "ring_buffer_size": 16,
            "max_ready_samples_per_lead": 0,
        },
        ("cap-idle mean 6.4", "no law", "open-loop-mean mean 3.093"),
    ),
    "slime_train_async": (
        {"rollout_batch_size": 4, "update_weights_interval": 2},
        always("hard-bounds mean 0.5 0..1 pmf"),
    ),
    "slime_fully_async": ({"rollout_batch_size": 4, "sglang_server_concurrency": 16}, NONE),
    "miles": ({"rollout_batch_size": 4}, ("no law", "no law", "mean-staleness-identity mean 4")),
    "miles cut": ({"rollout_batch_size": 4, "max_weight_staleness": 2}, NONE),
    "openrlhf": ({"rollout_batch_size": 4, "async_queue_size": 3}, always("hard-bounds 1..3")),
    "openrlhf shortest": ({"rollout_batch_size": 4}, always("hard-bounds mean 1 1..1 pmf")),
    "nemo_rl_legacy": (
        {"num_prompts_per_step": 4, "max_trajectory_age_steps": 2},
        always("hard-bounds mean 2 2..2 pmf"),
    ),
    "nemo_rl_in_order": (
        {"num_prompts_per_step": 4, "max_lookahead_versions": 2},
        always("hard-bounds mean 2 2..2 pmf"),
    ),
    "nemo_rl_weight_fifo": (
        {"num_prompts_per_step": 4, "max_staleness_versions": 2},
        always("hard-bounds mean 2 2..2 pmf"),
    ),
    "nemo_rl_ready_first": ({"num_prompts_per_step": 4, "max_staleness_versions": 2}, always("cap-binds mean 2")),
    "nemo_rl_windowed": ({"num_prompts_per_step": 4, "max_staleness_versions": 2}, always("hard-bounds 0..2")),
    "trl": ({"samples_per_step": 32, "max_staleness": 2, "queue_maxsize": 64}, always("hard-bounds 0..2")),
    "open_instruct": ({"num_unique_prompts_rollout": 4, "async_steps": 3}, always("hard-bounds 0..3")),
    "tinker_cookbook": ({"groups_per_batch": 4, "max_steps_off_policy": 2}, always("hard-bounds 0..2")),
    "tinker_cookbook_pipelined": (
        {"groups_per_batch": 4, "max_steps_off_policy": 3, "pipeline_depth": 2},
        always("hard-bounds mean 2 0..3"),
    ),
    "torchtitan": ({"num_prompts_per_train_step": 4, "target_offpolicy_steps": 2}, always("hard-bounds mean 2 0..3")),
    "torchtitan in order": (
        {"num_prompts_per_train_step": 4, "target_offpolicy_steps": 2, "window_fraction": None},
        always("hard-bounds mean 2 2..2 pmf"),
    ),
    "torchforge": ({"batch_size": 4, "max_policy_age": 1, "rollout_threads": 8}, always("hard-bounds 0..1")),
    "tba": ({"groups_per_batch": 4, "n_searchers": 8}, NONE),
    "xtuner": ({"train_batch_size": 4, "max_staleness": 2}, always("hard-bounds 0..2")),
    "xtuner partial": (
        {"train_batch_size": 4, "max_staleness": 2, "enable_partial_rollout": True},
        always("hard-bounds 1..2"),
    ),
    "xtuner beyond": (
        {"train_batch_size": 4, "max_staleness": 1, "over_sample_threshold": 0.5, "tail_batch_trigger_size": 0},
        always("hard-bounds 0..1"),
    ),
    "unirl": ({"batch_size": 4, "weight_sync_interval": 3, "max_inflight": 2}, always("hard-bounds mean 0 0..0 pmf")),
    "unirl budget": (
        {"batch_size": 4, "weight_sync_interval": 2, "buffer_max_staleness": 4, "max_inflight": 5},
        always("hard-bounds mean 1.5 1..2 pmf"),
    ),
    "megatron_rl": ({"grpo_prompts_per_step": 4, "rl_generation_lag": 2}, always("hard-bounds mean 2 2..2 pmf")),
    "megatron_rl groups": (
        {
            "grpo_prompts_per_step": 4,
            "rl_generation_lag": 1.5,
            "rl_submission_granularity": "G",
            "rl_consumption_granularity": "G",
        },
        always("cap-binds mean 2.5"),
    ),
    "minimax_forge": (
        {"train_batch_size": 4, "generation_batch_size": 16, "window_fraction": 0.5},
        always("hard-bounds mean 4 0..6"),
    ),
    "m2po": ({"train_batch_size": 4, "stale_iteration": 6}, always("hard-bounds mean 6 6..6 pmf")),
    "oapl": ({"groups_per_batch": 4, "period": 3}, always("hard-bounds mean 0 0..0 pmf")),
    "fixed_lag": ({"lag": 3, "groups_per_batch": 4}, always("hard-bounds mean 3 3..3 pmf")),
    "update_on_arrival": (
        {"workers": 6},
        ("arrivals-per-update mean 5 pmf", "arrivals-per-update mean 5", "arrivals-per-update mean 5 5..5 pmf"),
    ),
    "buffered": (
        {"workers": 8, "buffer_size": 3},
        ("arrivals-per-update mean 2.333 pmf", "arrivals-per-update mean 2.333", "arrivals-per-update mean 2.333"),
    ),
}
"""Knobs of each preset at its laws, and at the settings beside them where the laws stop; the law at the three loads.

The first word is the preset. Of a law: its claim, mean, support, and what more is known.
"""


def first(name: str) -> dict[str, Any]:
    """The knobs of a preset that have no default, as its first row of settings has them."""
    return dict(zip((p.name for p in own_knobs(name)), REQUIRED[name], strict=False))


UNSTATED = {name: (first(name), None) for name in REQUIRED if name not in {case.partition(" ")[0] for case in STATED}}
"""Presets without a row, at their first settings; they follow some law there, of which the table says nothing."""
CASES = STATED | UNSTATED

SERVICES = (exponential(1.0), lognormal(1.0, 0.8), constant(1.0))
"""What takes the place of the loads where training takes no time."""


def system(case: str, configuration: int) -> tuple[System, int]:
    """The system of a case at one of three loads, and its samples in a group."""
    return loaded(case.partition(" ")[0], CASES[case][0], configuration)


def loaded(name: str, knobs: dict[str, Any], configuration: int) -> tuple[System, int]:
    """A preset at one of three loads, and its samples in a group."""
    make, takes = getattr(presets, name), parameters(name)
    if "service" in takes:
        return make(**knobs, service=SERVICES[configuration]), 1
    samples = knobs.get("num_generations", knobs.get("attempts", SAMPLES))
    if "load" not in takes:
        # One group in generation for each one in the batch.
        group = LENGTH.expected_max(samples)
        return make(**knobs, length=LENGTH, train_time=LOADS[configuration] * group), samples
    return make(**knobs, length=LENGTH, load=LOADS[configuration]), samples


def n(low: int, high: int) -> st.SearchStrategy:
    return st.integers(low, high)


GROUPS = n(1, 4)
KNOBS: dict[str, dict[str, st.SearchStrategy]] = {
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
    "slime_fully_async": {"rollout_batch_size": GROUPS, "sglang_server_concurrency": n(4, 9), "engines": n(1, 2)},
    "miles": {
        "rollout_batch_size": GROUPS,
        "max_weight_staleness": st.sampled_from([None, 0, 1, 3]),
        "async_data_buffer_capacity_factor": st.sampled_from([1.0, 1.5, 2.0]),
        "async_unused_samples_handler": st.sampled_from(["drop", "retry"]),
        "pause_generation_mode": st.sampled_from(["retract", "in_place"]),
    },
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
    "xtuner": {
        "train_batch_size": GROUPS,
        "max_staleness": n(0, 2),
        "over_sample_threshold": st.sampled_from([0.0, 0.3, 1.0]),
        "sync_weights_interval": n(1, 2),
        "enable_partial_rollout": st.booleans(),
        "tail_batch_trigger_size": n(-1, 1),
    },
    "unirl": {
        "batch_size": GROUPS,
        "weight_sync_interval": n(1, 3),
        "buffer_max_staleness": st.sampled_from([None, 2, 5]),
        "max_inflight": n(1, 4),
    },
    "megatron_rl": {
        "grpo_prompts_per_step": GROUPS,
        "rl_generation_lag": st.sampled_from([0, 0.5, 1, 2.25]),
        "rl_submission_granularity": st.sampled_from(["G", "B"]),
        "rl_kv_cache_management_mode": st.sampled_from(["persist", "recompute"]),
    },
    "minimax_forge": {
        "train_batch_size": GROUPS,
        "generation_batch_size": n(4, 9),
        "window_fraction": st.sampled_from([0.3, 1.0]),
    },
    "update_on_arrival": {"workers": n(1, 8), "stagger": st.booleans()},
    "buffered": {"workers": n(1, 8), "buffer_size": n(1, 4), "stagger": st.booleans()},
}
"""Knobs at random of presets for which small counts would not do."""


def small(preset: str) -> dict[str, st.SearchStrategy]:
    """Counts from 0 and yes or no for the knobs of a preset, as far as they are such; edges are near."""
    kinds = {"int": n(0, 4), "bool": st.booleans()}
    shown = {p.name: inspect.formatannotation(p.annotation).strip("'") for p in own_knobs(preset)}
    return {name: kinds[kind] for name, kind in shown.items() if kind in kinds}


# Eighths and constants: many events fall on the same instant.
LENGTHS: st.SearchStrategy[Law] = st.sampled_from(
    [constant(1.0), empirical([0.125, 0.25, 0.5, 2.0]), empirical([0.5, 1.0]), lognormal(1.0, 0.8), exponential(1.0)]
)


@st.composite
def configurations(draw, preset: str) -> System:
    """A system of the preset with random knobs, lengths that tie or not, and any load."""
    make, takes = getattr(presets, preset), parameters(preset)
    knobs = {name: draw(strategy) for name, strategy in (KNOBS.get(preset) or small(preset)).items()}
    if "service" in takes:
        return make(**knobs, service=draw(LENGTHS))
    knobs["sync_time"] = draw(st.sampled_from([0.0, 0.0, 0.125]))
    if "load" not in takes or draw(st.booleans()):
        knobs["train_time"] = draw(st.sampled_from([0.125, 0.5, 1.0, 3.0, lognormal(1.0, 0.5)]))
    else:
        knobs["load"] = draw(st.sampled_from([0.3, 1.0, 2.5]))
    length = draw(LENGTHS)
    if preset in KNOBS:
        return make(**knobs, length=length)
    try:
        return make(**knobs, length=length)
    except InputError:
        reject()  # A count that may not be 0.
