"""Named is what counts: every preset's slots are those that its user named, and idle ones of them are idle."""

import pytest

from asyncsim import systems as presets
from asyncsim.base.laws import exponential, lognormal
from tests.systems.preset_table import REQUIRED, own_knobs
from tests.systems.test_presets import built

SAMPLES = 4
# Preset, its arguments, its knobs of slots: group permits are fewer, so twice as many bring nothing.
UNUSED = [
    ("areal", (1, 4), {"max_concurrent_rollouts": 16}),
    ("verl_fully_async", (4, 1, 1), {"concurrent_samples_per_replica": 16, "replicas": 1}),
    ("vcpo", (4, 1), {"concurrent_samples_per_replica": 8, "replicas": 2}),
    ("nemo_rl_windowed", (4, 1), {"max_inflight_prompts": 16}),
    ("unirl", (4, 2, 3), {"max_inflight": 6}),
    ("pipeline_rl", (16, 16), {"llm_max_rollouts": 32, "llms": 2, "attempts": SAMPLES}),
]
# All slots are used, however many are named.
USED = {
    "skyrl": ("num_parallel_generation_workers", (4, 3, 16)),
    "prime_rl": ("max_inflight", (16, 8, 24, SAMPLES)),
    "trl": ("max_inflight_tasks", (16, 4, 24, 1024, 1, SAMPLES)),
    "slime_fully_async": ("sglang_server_concurrency", (4, 12)),
    "miles": ("async_max_concurrent_samples", (4, None, 2.0, "drop", "retract", 6)),
    "torchforge": ("rollout_threads", (4, 1, None, 0, 5)),
    "tba": ("n_searchers", (4, 2, 0.95, 3)),
    "roll_environment_groups": ("num_env_groups", (4,)),
    "minimax_forge": ("generation_batch_size", (4, 9)),
    "update_on_arrival": ("workers", (5,)),
    "buffered": ("workers", (5, 2)),
}
# No knob names slots: as many groups may run as permits or batches let.
DERIVED = {
    *("synchronous", "one_step_off", "fixed_lag", "verl_separate_async", "roll_single_turn", "prime_rl_before"),
    *("slime_train_async", "openrlhf", "nemo_rl_legacy", "nemo_rl_in_order", "nemo_rl_ready_first"),
    *("nemo_rl_weight_fifo", "open_instruct", "tinker_cookbook", "tinker_cookbook_pipelined", "torchtitan"),
    *("m2po", "oapl", "xtuner", "megatron_rl", "colocated"),
}


def test_every_preset_says_here_what_names_its_slots():
    assert {name for name, *_ in UNUSED} | USED.keys() | DERIVED == set(REQUIRED)


def summary(name, arguments, samples=SAMPLES, **knobs):
    return built(name, arguments, 0.7, "lognormal:1.0:0.8", **knobs).summary(60, samples)


@pytest.mark.parametrize(
    ("name", "arguments", "knobs", "knob"),
    [(*row, knob) for row in UNUSED for knob in row[2] if knob != "attempts"],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_slots_beyond_the_permits_are_idle(name, arguments, knobs, knob):
    usual, twice = summary(name, arguments, **knobs), summary(name, arguments, **{**knobs, knob: 2 * knobs[knob]})
    assert twice["throughput"] == usual["throughput"] and twice["staleness"] == usual["staleness"]
    for unit in ("group_slots", "sample_slots"):
        one, two = usual[unit], twice[unit]
        if one is not None:
            assert two["named"] == 2 * one["named"] and two["used"] == one["used"] < one["named"]
            assert two["busy"] == pytest.approx(one["busy"] / 2, rel=1e-12) and one["busy"] > 0.0
    assert twice["generator_utilization"] == pytest.approx(usual["generator_utilization"] / 2, rel=1e-12)


@pytest.mark.parametrize("name", USED)
def test_slots_that_are_named_are_counted(name):
    knob, arguments = USED[name]
    named = dict(zip((each.name for each in own_knobs(name)), arguments, strict=False))[knob]
    if name in ("update_on_arrival", "buffered"):
        found = built(name, arguments).summary(60, SAMPLES)
    else:
        found = summary(name, arguments)
    by_sample = found["group_slots"] is None or name == "slime_fully_async"
    slots = found["sample_slots" if by_sample else "group_slots"]
    assert slots["named"] == slots["used"] == named


def test_the_same_physics_has_the_same_busy_share():
    """128 slots for 64 group permits, under verl's names, VCPO's and AReaL's."""
    times = {"length": lognormal(1.0, 0.8), "train_time": 1.5}
    verl = presets.verl_fully_async(32, 1, 1, concurrent_samples_per_replica=128, **times)
    vcpo = presets.vcpo(32, 1, concurrent_samples_per_replica=64, replicas=2, **times)
    areal = presets.areal(1, 32, 128, **times).replace(order="done")
    found = [system.summary(80) for system in (verl, vcpo, areal)]
    assert found[0]["group_slots"] == found[1]["group_slots"] == found[2]["group_slots"]
    assert (found[0]["group_slots"]["named"], found[0]["group_slots"]["used"]) == (128, 64)


def test_groups_hold_slots_that_their_samples_do_not_use():
    # Generation never waits: a group holds its slot for the longest of 8, its samples write for their own lengths.
    law = exponential(1.0)
    system = presets.torchforge(16, 99, 64, rollout_threads=16, length=law, train_time=0.01).replace(mode="keep")
    found = [system.summary(300, 8, seed) for seed in range(8)]
    assert all(one["group_slots"]["busy"] == pytest.approx(1.0, abs=1e-9) for one in found)
    shares = [one["sample_slots"]["busy"] for one in found]
    assert all(one["sample_slots"]["named"] == 128 for one in found)
    # E[length] / E[longest of 8] = 1 / (1 + 1/2 + ... + 1/8) = 0.368.
    assert sum(shares) / 8 == pytest.approx(law.mean() / law.expected_max(8), rel=0.01)


def test_slots_of_servers_come_before_permits():
    system = built("prime_rl", (16, 8, 24, SAMPLES)).replace(slots=20, servers=2)
    slots = system.summary(60, SAMPLES)["sample_slots"]
    assert (slots["named"], slots["used"]) == (40, 24)
