"""Does a language model learn to add, from the reward of right answers alone, and what does staleness cost?

GRPO with Adam; a reward of 1 for an answer that is right to the letter, else 0. "char" is the character model on
two-digit sums, "smollm2" is SmolLM2-135M-Instruct on one-digit sums behind four solved ones, its last layers trained.
`quantity` is "trained" (mean reward of the batches, drawn by weights `staleness` updates old, over a window of updates
centered at `update`) or "held out" (problems that are never trained on, current weights, before and after). `seconds`
is the wall time of one update on the machine of the manifest.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

DEVICES = ("cpu", "cuda")
COLUMNS = ["model", "staleness", "seed", "quantity", "update", "exact_match", "samples", "seconds"]
TINY = {"width": 32, "layers": 2, "steps": 0}

_CHARACTERS = {
    "model": "char",
    "digits": 2,
    "shots": 0,
    "prompts": 128,
    "groups": 32,
    "samples": 16,
    "rate": 2e-4,
    "updates": 200,
    "window": 10,
    "held": 64,
    "replicates": 3,
    "seed": 0,
}
_WORDS = {
    "model": "smollm2",
    "digits": 1,
    "shots": 4,
    "prompts": 48,
    "groups": 16,
    "samples": 8,
    "rate": 1e-4,
    "updates": 20,
    "window": 1,
    "held": 48,
    "replicates": 2,
    "seed": 0,
}
SETTINGS = [{**_CHARACTERS, "staleness": 0}, {**_CHARACTERS, "staleness": 8}, {**_WORDS, "staleness": 0}]
_FEW = {"replicates": 1, "staleness": 0, "groups": 2, "samples": 4, "held": 2, "window": 1}
QUICK = [
    {**_CHARACTERS, **_FEW, "recipe": TINY, "updates": 4},
    {**_CHARACTERS, **_FEW, "recipe": TINY, "updates": 4, "staleness": 2},
    {**_WORDS, **_FEW, "updates": 2},
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per window of updates and replicate, and two for the problems held out."""
    import asyncsim as sim

    updates, window, replicates = setting["updates"], setting["window"], setting["replicates"]
    settings = spec(setting, "even", setting["groups"], updates)
    update = sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(setting["rate"]))
    begin = time.monotonic()
    trace = sim.run(
        sim.Spec(
            **settings,
            system=sim.schedules.fixed(setting["staleness"], groups_per_batch=setting["groups"]),
            method=sim.methods.grpo(),
            update=update,
        ),
        seed=setting["seed"],
        progress=False,
    )
    seconds = (time.monotonic() - begin) / (updates * replicates)
    shared = {"model": setting["model"], "staleness": setting["staleness"], "seconds": seconds}
    asked = setting["groups"] * setting["samples"] * window
    rows = []
    for start in range(0, updates, window):
        mean = trace["batch_return"][start : start + window].mean(axis=0)
        rows += _rows(shared, "trained", start + (window - 1) / 2, mean, asked)
    for made, initial in ((0, None), (updates, trace.parameters)):
        rows += _rows(shared, "held out", made, *held_out(setting, initial))
    return rows


def spec(setting: dict[str, Any], part: str, groups: int, updates: int) -> dict[str, Any]:
    """Task, policy and sizes that training on one half of the problems and asking the other have in common."""
    import asyncsim as sim

    characters = setting["model"] == "char"
    task = sim.tasks.arithmetic(
        digits=setting["digits"],
        shots=setting["shots"],
        style="char" if characters else "spaced",
        prompts=max(setting["prompts"], groups) if part == "even" else groups,
        part=part,
    )
    policy = sim.policies.causal_lm(
        setting["model"], train_layers=None if characters else 6, recipe=setting.get("recipe")
    )
    return {
        "task": task,
        "policy": policy,
        "samples_per_group": setting["samples"],
        "updates": updates,
        "replicates": setting["replicates"],
        "diagnostics": ["batch_return"],
        "device": setting.get("device", "cpu"),
    }


def held_out(setting: dict[str, Any], initial: Any) -> tuple[np.ndarray, int]:
    """Exact match on the other half of the problems at given weights `[R, P]`, `[R]`, and the number of answers."""
    import asyncsim as sim

    groups = setting["held"]
    trace = sim.run(
        sim.Spec(
            **spec(setting, "odd", groups, 1),
            system=sim.schedules.fixed(0, groups_per_batch=groups),
            method=sim.methods.reinforce(),
            update=sim.chain(sim.updates.sgd(0.0)),
            initial=initial,
        ),
        seed=setting["seed"] + 1,
        progress=False,
    )
    return trace["batch_return"][0], groups * setting["samples"]


def _rows(shared: dict[str, Any], quantity: str, update: float, mean: np.ndarray, samples: int) -> list[dict[str, Any]]:
    measured = {"quantity": quantity, "update": float(update), "samples": samples}
    return [{**shared, **measured, "seed": r, "exact_match": float(value)} for r, value in enumerate(mean)]
