"""What every preset must set, written by hand: settings that are not named are those of the model's defaults."""

import inspect

from asyncsim import systems as presets


def ahead(tickets, batch, places=None, **more):
    """K tickets that return at the publish, for batches of so many groups; a place for each ticket unless given."""
    return {"places": tickets if places is None else places, "groups_per_batch": batch, "tickets": tickets, **more}


def loop(places, batch, **more):
    """An open loop."""
    return {"places": places, "groups_per_batch": batch, **more}


def verl(tickets, batch, places, **more):
    """Permits of a queue that drops its oldest; those of dropped groups return at the publish."""
    return ahead(tickets, batch, places, release_dropped="publish", capacity=tickets, overflow="drop_oldest", **more)


def slime(places, batch):
    return loop(places, batch, slots=places, prefetch=1, capacity=places, overflow="close", publish_waits=True, **READ)


def trl(permits, batch, capacity, age, **more):
    more = {"overflow": "close", "age_reference": "submit", **more}
    return loop(permits, batch, permits=permits, capacity=capacity, max_age=age, **more)


def submitted(tickets, batch, age, places=None, **more):
    return ahead(tickets, batch, places, max_age=age, age_reference="submit", **more)


def gate(tickets, batch, **more):
    return ahead(tickets, batch, quantum=batch, **more)


ALL = {"age_at_publish": "all"}
LATE = {"age_at_pack": "none", **ALL}
OLDEST = {"order": "oldest_start"}
READ = {"mode": "reprefill"}
DRAIN = {"mode": "drain"}
MILES = {"prefetch": 1, "publish_waits": True, "age_reference": "end"}
WORKERS = {"work_by": "group", "mode": "pin"}

# name, positional knobs, knobs by name, settings; the first of a preset begins with the knobs that have no default
ROWS = [
    ("synchronous", (3,), {}, gate(3, 3, mode="drain")),
    # 1.5 * 3 truncated: 4 tickets.
    ("colocated", (3, 0.5), {}, ahead(4, 3, colocated=True, **READ)),
    ("colocated", (3, 1), {"partial_rollout": False}, ahead(6, 3, colocated=True, mode="restart")),
    ("one_step_off", (3,), {}, gate(3, 3, release="dequeue", mode="drain")),
    ("fixed_lag", (2, 3), {}, ahead(9, 3, window=1, **OLDEST)),
    # int(10 * 1.1 * 4) tickets for windows of four batches.
    ("verl_fully_async", (10,), {}, verl(44, 10, 16, batches_per_publish=4, **READ)),
    # 1.15 * 20 is below 23 in floats, and 10 * 1.15 * 2 is not: the order of the factors is verl's.
    (
        "verl_fully_async",
        (5, 0.15, 2, 2),
        {"partial_rollout": False, "replicas": 3},
        verl(23, 10, 48, batches_per_publish=2, servers=3, recommended={"minibatches": 2}, **DRAIN),
    ),
    # 100 * 1.15 is below 115 in floats, so verl has 114 tickets.
    ("verl_fully_async", (100, 0.15, 1), {}, verl(114, 100, 16, **READ)),
    ("vcpo", (4,), {}, verl(516, 4, 16, **READ)),
    ("vcpo", (4, 3), {"concurrent_samples_per_replica": 5, "replicas": 2}, verl(16, 4, 10, servers=2, **READ)),
    ("verl_separate_async", (8,), {}, ahead(16, 2, batches_per_publish=4, max_age=7, **OLDEST, **READ)),
    (
        "verl_separate_async",
        (8, 2, 2, 4, "wait"),
        {},
        ahead(24, 4, batches_per_publish=2, quantum=8, max_age=3, age_action="wait", **OLDEST, **READ),
    ),
    ("areal", (2, 4), {}, ahead(12, 4, 4, **OLDEST, **READ)),
    ("areal", (2, 4, 12), {}, ahead(12, 4, **OLDEST, **READ)),
    ("skyrl", (), {}, ahead(1280, 256, 768)),
    ("skyrl", (4, 2, 6), {}, ahead(12, 4, 6)),
    ("skyrl", (4, 2, 6, 25), {}, ahead(12, 4, 6, epoch=25)),
    ("roll_single_turn", (4,), {}, submitted(8, 4, 1, order="version_strict", **LATE, **READ)),
    ("roll_single_turn", (5, 1.3, True, 6), {}, submitted(18, 5, 2, order="version_strict", **LATE, **READ)),
    # 100 * 1.1 is above 110 in floats, so ROLL rounds it up to 111.
    ("roll_single_turn", (100, 1.1), {}, submitted(211, 100, 2, order="version_strict", **LATE, **READ)),
    ("roll_environment_groups", (3, 2, 2), {}, submitted(18, 6, 2, 3, order="target", **ALL)),
    ("roll_environment_groups", (3, 2, 2, 4), {}, submitted(18, 6, 2, 3, redundant=4, order="target", **ALL)),
    ("prime_rl", (4,), {}, loop(1024, 4, permits=1024, prefetch=1, lead=1, max_age=8, **ALL)),
    ("prime_rl", (8, 2, 25, 2), {}, loop(25, 4, permits=25, prefetch=1, lead=1, max_age=2, **ALL)),
    ("prime_rl_before", (4,), {}, gate(8, 4, places=4, order="target")),
    ("prime_rl_before", (4, 2, True), {}, gate(12, 4, order="target")),
    ("pipeline_rl", (32,), {}, loop(64, 4, permits=64, capacity=16, overflow="drop_oldest", prefetch=2)),
    ("pipeline_rl", (128,), {"pop_old_data": False}, loop(64, 16, permits=64)),
    (
        "pipeline_rl",
        (8, 15, 17),
        {"attempts": 2, "llm_max_rollouts": 5, "llms": 3, "max_ready_samples_per_lead": 15},
        ahead(20, 4, 15, permits=15, batches_per_publish=3, prefetch=1),
    ),
    ("slime_train_async", (4,), {}, gate(4, 4, release="dequeue", **DRAIN)),
    ("slime_train_async", (4, 3), {}, gate(4, 4, batches_per_publish=3, release="dequeue", **DRAIN)),
    ("slime_fully_async", (4,), {}, slime(512, 4)),
    ("slime_fully_async", (4, 6, 2), {}, slime(12, 4)),
    ("miles", (4,), {}, loop(4, 4, capacity=8, **MILES, **READ)),
    (
        "miles",
        (4,),
        {"num_steps_per_rollout": 2},
        loop(4, 4, capacity=8, recommended={"minibatches": 2, "cut": "samples"}, **MILES, **READ),
    ),
    (
        "miles",
        (4,),
        {"async_max_concurrent_samples": 47, "n_samples_per_prompt": 8},
        loop(5, 4, capacity=8, **MILES, **READ),
    ),
    (
        "miles",
        (4, 1, 1.7, "retry", "in_place", 6),
        {},
        loop(6, 4, capacity=6, max_age=2, age_action="requeue", **MILES),
    ),
    ("openrlhf", (4,), {}, gate(4, 4, release="dequeue", **DRAIN)),
    ("openrlhf", (4, 3, True), {}, gate(12, 4, places=4, release="dequeue")),
    ("nemo_rl_legacy", (4,), {}, gate(8, 4, order="target", **DRAIN)),
    ("nemo_rl_legacy", (4, 2, True), {}, gate(12, 4, order="target")),
    ("nemo_rl_in_order", (4,), {}, gate(8, 4, order="target")),
    ("nemo_rl_weight_fifo", (4, 2), {}, gate(12, 4, order="version_strict", max_age=2, release_dropped="never")),
    ("nemo_rl_ready_first", (4,), {}, gate(8, 4)),
    ("nemo_rl_windowed", (4,), {}, ahead(8, 4, 4, release="dequeue", max_age=1, **ALL)),
    ("nemo_rl_windowed", (4, 2, True, 6, 5), {}, ahead(5, 4, 6, release="dequeue", order="freshest", max_age=2, **ALL)),
    ("trl", (32,), {}, trl(128, 4, 146, 4)),
    (
        "trl",
        (8, 0, 8),
        {"num_generations": 2, "queue_maxsize": 9, "weight_sync_steps": 3},
        trl(8, 4, 22, 0, batches_per_publish=3),
    ),
    ("trl", (8, 2, 7), {"num_generations": 2}, trl(7, 4, 530, 2)),
    ("open_instruct", (4,), {}, submitted(32, 4, 8, release="dequeue", prefetch=8)),
    ("open_instruct", (4, 2, False), {}, submitted(8, 4, 2, release="dequeue", prefetch=2, **DRAIN)),
    ("tinker_cookbook", (4, 2), {}, loop(4, 4, max_age=2, age_action="requeue", mode="pin")),
    ("tinker_cookbook_pipelined", (4, 2), {}, ahead(8, 4, max_age=2, age_action="wait", mode="pin", **OLDEST)),
    ("torchtitan", (4, 2), {}, ahead(12, 4, window=3, **OLDEST)),
    ("torchtitan", (4, 2, None), {}, ahead(12, 4, window=1, **OLDEST)),
    ("torchtitan", (1, 0), {}, ahead(1, 1, window=1, **OLDEST)),
    ("torchtitan", (4, 2), {"windowed_fifo_batches": 2}, ahead(12, 4, window=8, **OLDEST)),
    ("torchtitan", (4, 2), {"windowed_fifo_batches": None}, ahead(12, 4, **OLDEST)),
    ("torchforge", (4,), {}, loop(1, 4, overflow="drop_oldest", order="random", max_age=1, **DRAIN)),
    (
        "torchforge",
        (4, 2, 9, 3, 5),
        {},
        loop(5, 4, capacity=9, overflow="drop_oldest", order="random", max_age=2, max_uses=4, **DRAIN),
    ),
    (
        "tba",
        (4,),
        {},
        loop(
            1,
            4,
            batches_per_publish=2,
            visible="publish",
            initial_fill=4,
            max_uses=None,
            order="random",
            recent=0.95,
            **DRAIN,
        ),
    ),
    ("m2po", (4,), {}, ahead(260, 4, window=1, recommended={"minibatches": 4, "cut": "samples"}, **OLDEST)),
    ("oapl", (4, 3), {}, ahead(12, 4, batches_per_publish=3, **DRAIN)),
    ("xtuner", (4,), {}, gate(4, 4, **OLDEST, mode="restart")),
    ("xtuner", (4, 2, 0.0, 3, True), {}, ahead(36, 4, 4, batches_per_publish=3, quantum=4, **OLDEST, **READ)),
    # ceil(0.3 * 4) = 2 groups beyond (1 + 1) * 2 batches of 4.
    (
        "xtuner",
        (4, 1, 0.3, 2, True, 64),
        {},
        ahead(18, 4, 6, batches_per_publish=2, max_age=1, age_action="requeue", **ALL, **OLDEST, **READ),
    ),
    ("xtuner", (5, 1, 0.5), {}, ahead(13, 5, 8, max_age=1, mode="restart", **ALL, **OLDEST)),
    ("unirl", (4,), {}, gate(4, 4, **DRAIN)),
    ("unirl", (4, 3, None, 2), {}, gate(12, 4, places=8, batches_per_publish=3, **DRAIN)),
    # A budget of 7 batches after the first, of which 2 + 3 can be out; or of 3, all of which can.
    (
        "unirl",
        (4, 3, 7, 2, 2),
        {},
        gate(20, 4, places=8, batches_per_publish=3, recommended={"minibatches": 2, "cut": "samples"}, **DRAIN),
    ),
    ("unirl", (4, 3, 3, 9), {}, gate(16, 4, places=36, batches_per_publish=3, **DRAIN)),
    ("megatron_rl", (4, 2), {}, gate(12, 4, order="target", recommended={"epochs": 2})),
    # round(2.5) = 2 batches, round(2.5 * 5) = 12 groups, round(2.1 * 5 * 3) = 32 samples.
    (
        "megatron_rl",
        (4, 1.5),
        {"rl_kv_cache_management_mode": "recompute", "grpo_iterations": 1},
        gate(8, 4, order="target", **READ),
    ),
    (
        "megatron_rl",
        (5, 1.5, "G", "G"),
        {"grpo_iterations": 1, "rl_kv_cache_management_mode": "offload"},
        ahead(12, 5, release="dequeue"),
    ),
    ("megatron_rl", (5, 1.5, "G"), {"grpo_iterations": 1}, ahead(12, 5, release="dequeue", order="target")),
    ("megatron_rl", (5, 1.1, "R", "G", 3), {"grpo_iterations": 1}, loop(32, 5, permits=32)),
    ("megatron_rl", (5, 1.1, "R", "B", 3), {"grpo_iterations": 1}, loop(32, 5, permits=32, order="target")),
    ("minimax_forge", (4, 10), {}, ahead(10, 4, release="dequeue", window=3, **OLDEST)),
    ("minimax_forge", (4, 6, 0.1), {}, ahead(6, 4, release="dequeue", window=1, **OLDEST)),
    ("update_on_arrival", (5,), {}, {"places": 5, "tickets": 5, **WORKERS}),
    ("update_on_arrival", (2, 1.0, None, True), {}, {"places": 2, "tickets": 2, "offsets": (0.0, 0.5), **WORKERS}),
    ("buffered", (5, 2), {}, {"places": 5, "groups_per_batch": 2, **WORKERS}),
]


def parameters(name):
    """The arguments of a preset."""
    return inspect.signature(getattr(presets, name)).parameters


def own_knobs(name):
    """The trainer's own knobs of a preset."""
    return [p for p in parameters(name).values() if p.kind is p.POSITIONAL_OR_KEYWORD]


def _required(name, arguments):
    """The first arguments, those of knobs without a default."""
    return arguments[: sum(p.default is p.empty for p in own_knobs(name))]


REQUIRED = {name: _required(name, arguments) for name, arguments, _, _ in reversed(ROWS)}
"""Values for knobs without a default, by preset: those of its first row."""


# What a knob of its type can never be is tried for every preset unasked; here stand bounds of its own.
BAD_KNOBS = [
    ("verl_fully_async", (2, 1000000000.0), {}, "staleness_threshold"),
    ("verl_separate_async", (7, 1, 2), {}, "train_batch_size"),
    ("verl_separate_async", (8, 2, 4, 2, "wait"), {}, "max_off_policy_threshold"),
    ("skyrl", (4, 2, 3), {}, "num_parallel_generation_workers"),
    ("skyrl", (4, 2, 13), {}, "num_parallel_generation_workers"),
    ("prime_rl", (5, 8, 8, 2), {}, "batch_size"),
    ("prime_rl", (4, 8, 1, 2), {}, "max_inflight"),
    ("pipeline_rl", (12,), {}, "train_batch_size"),
    ("slime_fully_async", (4, 3), {}, "sglang_server_concurrency"),
    ("nemo_rl_in_order", (1 << 19, 3), {}, "max_lookahead_versions"),
    ("trl", (9,), {}, "samples_per_step"),
    ("trl", (8, 0), {}, "max_inflight_tasks"),
    ("trl", (8, 4, -1, 7), {}, "queue_maxsize"),
    ("tinker_cookbook_pipelined", (4, 1, 2), {}, "max_steps_off_policy"),
    ("torchtitan", (4, 1, 0.5, 2), {}, "window_fraction"),
    ("buffered", (2, 2, 1.0, [1.0]), {}, "rates"),
    ("fixed_lag", (1 << 20,), {}, "lag"),
    ("xtuner", (4, 0, 1e9), {}, "over_sample_threshold"),
    ("unirl", (4, 3, 1), {}, "buffer_max_staleness"),
    ("megatron_rl", (4, 1e9), {}, "rl_generation_lag"),
    ("megatron_rl", (4, 1, "G", "R"), {}, "rl_consumption_granularity"),
]
