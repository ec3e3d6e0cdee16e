"""What does staleness buy: throughput, speed over synchronous training, and return in simulated hours?

Three parts, told apart by the column `part`; one row per realization.
frontier  nine systems on one machine (two servers of 32 slots, which slow down as they fill), 16 groups of 4 samples a
          batch, 3 s of training: `staleness` (head), `token_staleness`, `largest`, `throughput` in groups per second,
          `trainer` and `generators` (utilization), `length_trained`, `dropped`. `knob` is the system's own limit, and
          `places` the groups in generation at once.
speed     `step_seconds`, seconds for a batch of 32 samples on 32 slots, against the spread of lengths: `knob` is sigma
          of a lognormal law of mean 1, `train_time` seconds of training.
learning  a bandit over 8 tokens of 4 kinds, REINFORCE, 8 groups of 4 samples on 32 slots, under lengths of their own
          law: `return` of the batch that starts to train after `hours`, `hours_to_target`, the hour from which any
          three batches in a row average 95 percent of the largest return (missing: never), `final_return`,
          `staleness`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

COLUMNS = [
    "part",
    "system",
    "regime",
    "knob",
    "places",
    "train_time",
    "step",
    "realization",
    "update",
    "hours",
    "quantity",
    "value",
]
BATCH, GROUP, SLOTS = 16, 4, 32
DECODE = tuple(round(min(1.0, 2.0 / (1.0 + n / 8.0)), 6) for n in range(1, SLOTS + 1))
"""Speed of each of n sequences on a server: 1 up to 8 of them, then a server's throughput nears twice its share."""
MACHINE: dict[str, Any] = {"servers": 2, "slots": SLOTS, "decode": DECODE, "prompt": 0.1, "prefill_speedup": 20.0}
AHEAD = (1, 2, 4, 8)
SIGMAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
RACERS = ("synchronous", "one_step_off", "areal", "nemo_rl_in_order", "open loop")
REGIMES = {"long tails": ("lognormal:60.0:1.5", 20.0), "slow trainer": ("lognormal:60.0:0.25", 240.0)}
"""Law of lengths in seconds, and seconds of training, of the two machines on which the bandit learns."""
ACTIONS, HORIZON, PENALTY = 4, 8, 0.05
STEPS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
SHOWN = 4.0
"""Step whose learning curves are kept."""


def largest_return() -> float:
    """Of the policies exp(reward / penalty) on every token: T c log((exp(1/(T c)) + A - 1) / A), c the penalty."""
    each = PENALTY * HORIZON
    return each * math.log((math.exp(1.0 / each) + ACTIONS - 1) / ACTIONS)


def _frontier(system: str, knobs: tuple[float | None, ...] = (None,), places: int | None = None) -> dict[str, Any]:
    own = {"part": "frontier", "system": system, "knobs": knobs, "places": places, "train_time": 3.0}
    return {**own, "batches": 1000, "realizations": 8, "seed": 0}


def _speed(system: str, train_time: float, sigmas: tuple[float, ...] = SIGMAS) -> dict[str, Any]:
    own = {"part": "speed", "system": system, "knobs": sigmas, "train_time": train_time}
    return {**own, "batches": 2000, "realizations": 8, "seed": 0}


def _learning(regime: str, eta: int, steps: tuple[float, ...] = STEPS) -> dict[str, Any]:
    own: dict[str, Any] = {"part": "learning", "system": "areal" if eta else "synchronous", "regime": regime}
    own |= {"knobs": (eta,), "steps": steps, "train_time": REGIMES[regime][1]}
    return {**own, "updates": 160, "replicates": 128, "realizations": 8, "seed": 0}


SETTINGS = [
    _frontier("synchronous"),
    _frontier("one_step_off"),
    *(_frontier("areal", (0, 1, 2, 4, 8), places) for places in (8, 16, 32)),
    _frontier("verl_fully_async", (0.25, 0.5, 1.0, 2.0)),
    *(_frontier(name, AHEAD) for name in ("nemo_rl_in_order", "torchtitan", "verl_separate_async")),
    *(_frontier("slime_fully_async", places=places) for places in (16, 32)),
    _frontier("prime_rl", AHEAD, 32),
    *(_speed(name, train) for train in (0.5, 2.0) for name in RACERS),
    *(_learning(regime, eta) for regime in REGIMES for eta in (0, 1, 4, 16)),
]
_SMALL: dict[str, dict[str, Any]] = {
    "frontier": {"batches": 100},
    "speed": {"batches": 100},
    "learning": {"steps": (SHOWN, 2 * SHOWN), "updates": 60, "replicates": 16},
}
QUICK = [{**setting, **_SMALL[setting["part"]], "realizations": 2} for setting in SETTINGS]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one system."""
    empty = dict.fromkeys(COLUMNS)
    part = {"frontier": frontier, "speed": speed, "learning": learning}[setting["part"]]
    rows = []
    for knob in setting["knobs"]:
        for step in setting.get("steps", (None,)):
            point = {**setting, "knob": knob, "step": step}
            shared = {**empty, **{name: point[name] for name in COLUMNS if name in point}}
            rows += [{**shared, **row, "value": float(row["value"])} for row in part(point)]
    return rows


def machine(setting: dict[str, Any]) -> Any:
    """A system of the frontier on the machine that all share."""
    import asyncsim as sim

    knob, places = setting["knob"], setting["places"]
    shared: dict[str, Any] = {"length": "lognormal:1.0:1.0", "train_time": setting["train_time"], "sync_time": 0.1}
    build = getattr(sim.systems, setting["system"])
    own: dict[str, dict[str, Any]] = {
        "synchronous": {"groups_per_batch": BATCH},
        "one_step_off": {"groups_per_batch": BATCH},
        "areal": {"max_head_offpolicyness": knob, "consumer_batch_size": BATCH, "max_concurrent_rollouts": places},
        "verl_fully_async": {
            "ppo_mini_batch_size": BATCH,
            "staleness_threshold": knob,
            "trigger_parameter_sync_step": 1,
            "replicas": 2,
        },
        "nemo_rl_in_order": {"num_prompts_per_step": BATCH, "max_lookahead_versions": knob},
        "torchtitan": {"num_prompts_per_train_step": BATCH, "target_offpolicy_steps": knob},
        "verl_separate_async": {
            "train_batch_size": BATCH,
            "num_warmup_batches": knob,
            "parameter_sync_step": 1,
            "max_off_policy_threshold": (knob or 0) + 1,
            "max_off_policy_strategy": "wait",
        },
        "slime_fully_async": {"rollout_batch_size": BATCH, "sglang_server_concurrency": places},
        "prime_rl": {
            "batch_size": BATCH * GROUP,
            "group_size": GROUP,
            "max_off_policy_steps": knob,
            "max_inflight": (places or 0) * GROUP,
        },
    }
    return build(**own[setting["system"]], **shared).replace(**MACHINE)


def frontier(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Staleness, throughput and utilization of each realization."""
    rows = []
    found = machine(setting).summaries(setting["batches"], setting["realizations"], GROUP, setting["seed"])
    for m, one in enumerate(found):
        values = {
            "staleness": one["staleness"]["mean"],
            "largest": one["staleness"]["max"],
            "token_staleness": one["token_staleness"],
            "throughput": one["throughput"],
            "trainer": one["trainer_utilization"],
            "generators": one["generator_utilization"],
            "dropped": one["dropped_fraction"],
            "length_trained": one["mean_length_trained"],
        }
        rows += [{"realization": m, "quantity": name, "value": value} for name, value in values.items()]
    return rows


def racer(setting: dict[str, Any]) -> Any:
    """A system of 32 samples a batch on 32 slots."""
    import asyncsim as sim

    batch, name = 32, setting["system"]
    timing = {"length": f"lognormal:1.0:{setting['knob']}", "train_time": setting["train_time"]}
    if name == "open loop":
        # A buffer of eight batches, so that neither side is stopped by chance.
        return sim.systems.slime_fully_async(batch, batch, **timing).replace(capacity=8 * batch)
    if name == "areal":
        return sim.systems.areal(1, batch, batch, **timing)
    if name == "nemo_rl_in_order":
        return sim.systems.nemo_rl_in_order(batch, 1, **timing).replace(slots=batch)
    return getattr(sim.systems, name)(batch, **timing)


def speed(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Seconds for a batch of each realization."""
    found = racer(setting).summaries(setting["batches"], setting["realizations"], 1, setting["seed"])
    shared = {"quantity": "step_seconds"}
    return [{**shared, "realization": m, "value": one["seconds_per_update"]} for m, one in enumerate(found)]


def spec_of(setting: dict[str, Any]) -> Any:
    """The bandit under a system; with no allowance the synchronous one."""
    import asyncsim as sim

    groups, eta = 8, setting["knob"]
    length, train_time = REGIMES[setting["regime"]]
    timing: dict[str, Any] = {"length": length, "train_time": train_time}
    if eta:
        system = sim.systems.areal(eta, groups, (eta + 1) * groups, **timing)
    else:
        system = sim.systems.synchronous(groups, **timing)
    return sim.Spec(
        sim.tasks.token_bandit(ACTIONS, HORIZON, kl_coef=PENALTY),
        # As many slots as the synchronous system uses; what is admitted beyond them waits inside the engine.
        system.replace(slots=groups * GROUP),
        sim.methods.reinforce(),
        sim.chain(sim.updates.sgd(setting["step"])),
        samples_per_group=GROUP,
        updates=setting["updates"],
        replicates=setting["replicates"],
        realizations=setting["realizations"],
        diagnostics=["batch_return", "staleness"],
    )


def learning(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Return against hours of the step that is shown, and of all steps the hours until the return is near its best."""
    import asyncsim as sim

    trace = sim.run(spec_of(setting), seed=setting["seed"], progress=False)
    hours, rows = trace.seconds() / 3600.0, []
    for m in range(setting["realizations"]):
        own = trace.realization == m
        earned, clock = trace["batch_return"][:, own].mean(axis=1), hours[:, own].mean(axis=1)
        rows += [
            {"realization": m, "quantity": "hours_to_target", "value": reached(earned, clock)},
            {"realization": m, "quantity": "staleness", "value": trace["staleness"][-1, own].mean()},
            {"realization": m, "quantity": "final_return", "value": earned[-10:].mean()},
        ]
        if setting["step"] == SHOWN:
            rows += [
                {"realization": m, "quantity": "return", "update": u, "hours": float(clock[u]), "value": earned[u]}
                for u in range(len(earned))
            ]
    return rows


def reached(earned: np.ndarray, hours: np.ndarray) -> float:
    """Hour from which three batches in a row always average 95 percent of the largest return; NaN if never."""
    average = np.convolve(earned, np.ones(3) / 3.0, mode="valid")
    below = np.flatnonzero(average < 0.95 * largest_return())
    since = below[-1] + 1 if len(below) else 0
    return float(hours[since]) if since < len(average) else math.nan
