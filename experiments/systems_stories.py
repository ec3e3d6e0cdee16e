"""What does a configured limit of staleness really limit, and what does an age cut do to the data?

Two stories, told apart by the column `story`. Works are in units of their mean, one unit a second, groups of one
sample, 32 groups a batch; numbers are those after a warm-up, one row per independent realization.
straggler  staleness of five systems whose mean is to be 4, behind heavy tails of length: `mean`, `largest`, `survival`
           (P(s >= level)), `throughput` (groups per second), `length_trained`, `dropped` (fraction of groups),
           `wasted` (fraction of tokens). Training takes 1 s, generation of a batch's worth 0.2 s: the trainer is slow.
cut        what an age limit does to lengths. `kept` is the share of the groups in a bin of length that is trained,
           `generated` and `trained` are a bin's shares of all, `level` the lower edge of the bin in mean lengths;
           `length_drawn` and `length_trained` are mean lengths, of all groups and of the trained; `unfinished` is the
           share that had not left at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BATCH = 32
LAW = "lognormal:1.0:1.0"
HEAVY = {"lognormal": "lognormal:1.0:1.5", "pareto": "pareto:0.3333333333333333:1.5"}
LEVELS = (*range(1, 11), 12, 14, 17, 20, 24, 28, 34, 40, 48, 56, 68, 80, 96, 112, 136, 160, 192, 224, 256)
EDGES = tuple(round(float(edge), 4) for edge in np.geomspace(0.05, 20.0, 33))
FINE = tuple(round(0.1 * k, 1) for k in range(41))
"""Edges of bins of length, in units of the mean: for the shape of lengths, and for what is kept."""
COLUMNS = ["story", "system", "length", "limit", "realization", "quantity", "level", "value"]


def _verl(warm_up: int, threshold: int) -> dict[str, Any]:
    own = {"train_batch_size": BATCH, "num_warmup_batches": warm_up, "parameter_sync_step": 1}
    return {**own, "max_off_policy_threshold": threshold}


STRAGGLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "areal": ("areal", {"max_head_offpolicyness": 4, "consumer_batch_size": BATCH, "max_concurrent_rollouts": 160}),
    "nemo_rl_in_order": ("nemo_rl_in_order", {"num_prompts_per_step": BATCH, "max_lookahead_versions": 4}),
    "torchtitan": ("torchtitan", {"num_prompts_per_train_step": BATCH, "target_offpolicy_steps": 4}),
    "verl_separate_async wait": ("verl_separate_async", {**_verl(4, 8), "max_off_policy_strategy": "wait"}),
    "verl_separate_async drop": ("verl_separate_async", {**_verl(4, 8), "max_off_policy_strategy": "drop"}),
}
"""Preset and knobs of the systems that are to run 4 versions ahead, by the name of their rows."""

CUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "prime_rl": ("prime_rl", {"batch_size": BATCH, "max_off_policy_steps": 2, "max_inflight": 96}),
    "nemo_rl_windowed": (
        "nemo_rl_windowed",
        {"num_prompts_per_step": BATCH, "max_staleness_versions": 2, "max_inflight_prompts": 96},
    ),
    "trl": ("trl", {"samples_per_step": BATCH, "max_staleness": 2, "max_inflight_tasks": 96, "num_generations": 1}),
    "verl_separate_async drop": ("verl_separate_async", {**_verl(2, 3), "max_off_policy_strategy": "drop"}),
    "verl_separate_async wait": ("verl_separate_async", {**_verl(2, 3), "max_off_policy_strategy": "wait"}),
    "nemo_rl_in_order": ("nemo_rl_in_order", {"num_prompts_per_step": BATCH, "max_lookahead_versions": 2}),
    "torchtitan": ("torchtitan", {"num_prompts_per_train_step": BATCH, "target_offpolicy_steps": 2}),
    "areal": ("areal", {"max_head_offpolicyness": 2, "consumer_batch_size": BATCH, "max_concurrent_rollouts": 96}),
}
"""Preset and knobs of systems with 96 groups in flight, by the name of their rows."""
OPEN: dict[str, Any] = {
    "samples_per_step": BATCH,
    "max_inflight_tasks": 64,
    "queue_maxsize": 65536,
    "num_generations": 1,
}
"""The open loop on which the law of the age cut holds when training takes no time: 64 in flight, a long queue."""


def _straggler(system: str, length: str, **sizes: Any) -> dict[str, Any]:
    return {"story": "straggler", "system": system, "length": HEAVY[length], "train_time": 1.0, "seed": 0, **sizes}


def _cut(system: str, limit: int, train_time: float, **sizes: Any) -> dict[str, Any]:
    own = {"story": "cut", "system": system, "limit": limit, "length": LAW, "train_time": train_time}
    return {**own, "seed": 0, **sizes}


SETTINGS = [
    *(_straggler(name, length, batches=10000, realizations=16) for length in HEAVY for name in STRAGGLERS),
    *(_cut("open loop", limit, 0.0, batches=2000, realizations=8) for limit in (1, 2, 4)),
    *(_cut(name, 2, 0.25, batches=2000, realizations=8) for name in CUTS),
]
_SMALL: dict[str, dict[str, Any]] = {"straggler": {"batches": 400}, "cut": {"batches": 200}}
QUICK = [{**setting, **_SMALL[setting["story"]], "realizations": 2} for setting in SETTINGS]


def system_of(setting: dict[str, Any]) -> Any:
    """The event system of a setting."""
    import asyncsim as sim

    timing = {"length": setting["length"], "train_time": setting["train_time"]}
    if setting["system"] == "open loop":
        return sim.systems.trl(max_staleness=setting["limit"], **OPEN, **timing)
    preset, knobs = (STRAGGLERS if setting["story"] == "straggler" else CUTS)[setting["system"]]
    return getattr(sim.systems, preset)(**knobs, **timing)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one system."""
    system = system_of(setting)
    shared = {name: setting.get(name) for name in ("story", "system", "length", "limit")}
    rows = []
    for m in range(setting["realizations"]):
        found = summarized(system, setting, m) if setting["story"] == "straggler" else lengths(system, setting, m)
        rows += [
            {**shared, "realization": m, "quantity": quantity, "level": level, "value": float(value)}
            for (quantity, level), value in found.items()
        ]
    return rows


def _usual(found: dict[str, Any]) -> dict[tuple[str, float | None], float]:
    return {
        ("mean", None): found["staleness"]["mean"],
        ("largest", None): found["staleness"]["max"],
        ("throughput", None): found["throughput"],
        ("dropped", None): found["dropped_fraction"],
        ("wasted", None): found["wasted_token_fraction"],
    }


def summarized(system: Any, setting: dict[str, Any], realization: int) -> dict[tuple[str, float | None], float]:
    """Staleness and speed of one realization, without a record."""
    found = system.summary(setting["batches"], 1, setting["seed"], realization)
    values = _usual(found) | {("length_trained", None): found["mean_length_trained"]}
    pmf = found["staleness"]["pmf"]
    return values | {("survival", float(level)): sum(pmf[level:]) for level in LEVELS}


def lengths(system: Any, setting: dict[str, Any], realization: int) -> dict[tuple[str, float | None], float]:
    """Which lengths were trained, among those of groups admitted after the first tenth of the run.

    The last fifth is left out as well: what has left of it by the end are the short ones.
    """
    warm = setting["batches"] // 10
    found, record = system.recorded(setting["batches"], 1, seed=setting["seed"], realization=realization, warm=warm)
    samples, starts = record.samples, record.batches["t_start"]
    counted = (samples["t_submit"] >= starts[warm]) & (samples["t_submit"] < starts[len(starts) * 4 // 5])
    work, trained = samples["work"][counted], samples["fate"][counted] == "trained"
    every, kept = (np.histogram(part, EDGES)[0] for part in (work, work[trained]))
    values = _usual(found) | {
        ("length_drawn", None): work.mean(),
        ("length_trained", None): work[trained].mean(),
        ("unfinished", None): float(np.mean(samples["fate"][counted] == "unfinished")),
    }
    for edge, drawn, taken in zip(EDGES, every, kept, strict=False):
        values[("generated", edge)] = drawn / len(work)
        values[("trained", edge)] = taken / max(1, trained.sum())
    every, kept = (np.histogram(part, FINE)[0] for part in (work, work[trained]))
    values |= {("kept", edge): t / d for edge, d, t in zip(FINE, every, kept, strict=False) if d}
    return values
