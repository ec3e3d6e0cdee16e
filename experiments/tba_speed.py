"""How much faster does TBA's system train than a synchronous one on the same machines, and does it learn sooner?

A pool of four machines, each generating a group of 8 samples at once or doing a quarter of the training. Lengths have
mean 1 s and lognormal spread 1. Synchronous: all generate a batch of 4 groups, then all train for `training` seconds.
TBA (the preset `tba`): one machine or more train (`trainers`), the others search. Weights and samples change hands
every `interval` batches; 95 percent of the groups are recent, others come from everything since the start.
`part` "speed": no learning; a row for each realization of `step_seconds`, from one batch to the next, and `staleness`,
the mean in updates. `interval` 0 is the synchronous system.
"clock": updates until the exact return reaches the task's target, by `sim.compare` at best learning rates, beside
synchronous RLOO: `mean`, and `difference` of interquartile means with an interval that counts all looks and arms. At
those rates, on other seeds, `updates` is the median; whoever never gets there counts as two runs. Training takes
`CLOCK` seconds there, one machine trains. Tasks: `noisy bandit`, a prompt with 16 arms of similar chances each;
`noisy graded`, 6 tokens out of 4, paid by the share that is right, plus noise of deviation 1.
"search": mean return of TBA with more searchers beside one, while the trainer trains once a second; tasks, batches and
Adam as in `tba_returns`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncsim as sim
from experiments import _compared, _vcpo, tba_returns

COLUMNS = ["part", "task", "arm", "training", "interval", "trainers", "realization", "quantity", "value"]
COLUMNS += ["low", "high", "word", "rate"]
MACHINES, GROUPS, SAMPLES = 4, 4, 8
SPREAD, RECENT = 1.0, 0.95
LENGTHS = f"lognormal:1.0:{SPREAD}"
INTERVALS, TRAININGS, CLOCK = (1, 2, 4, 10, 30), (0.05, 0.1, 0.2, 0.5, 1.0, 2.0), 0.2
TASKS: dict[str, tuple[Any, float]] = {
    "noisy bandit": (
        sim.tasks.softmax_bandit(16, means=0.35 + 0.3 * np.random.default_rng(0).random((GROUPS, 16))),
        0.6,
    ),
    "noisy graded": (sim.tasks.token_bandit(4, 6, "position", rewards="gaussian", deviation=1.0), 0.8),
}
"""Tasks of the clock, which take forty updates, and the targets there; the best returns are 0.63 and 1."""
ARMS: dict[str, tuple[str, int]] = {
    "RLOO, synchronous": ("RLOO", 0),
    "TBA, 10": (tba_returns.BASE, 10),
    "RLOO, 10": ("RLOO", 10),
}
"""Method and interval."""
_SPEED = {"part": "speed", "batches": 1200, "realizations": 8, "seed": 0}
_CLOCK = {"part": "clock", "updates": 300, "most": 64, "seed": 0}
_SEARCH = {"part": "search", "updates": 120, "most": 64, "seed": 0}
SETTINGS = [
    *({**_SPEED, "training": training, "interval": interval} for training in TRAININGS for interval in (0, *INTERVALS)),
    *({**_CLOCK, "task": task, "arms": list(ARMS)} for task in TASKS),
    *({**_SEARCH, "task": task, "arms": ["1", "4", "16"]} for task in ("graded", "rare")),
]
QUICK = [
    *({**setting, "batches": 60, "realizations": 2} for setting in SETTINGS if setting["part"] == "speed"),
    {**_CLOCK, "task": "noisy bandit", "updates": 40, "arms": ["RLOO, synchronous", "TBA, 10"]},
]


def system(training: float, interval: int, trainers: int = 1) -> Any:
    """The pool: by turns for interval 0, else divided."""
    if not interval:
        return sim.systems.synchronous(GROUPS, length=LENGTHS, train_time=training)
    seconds = training * MACHINES / trainers
    return sim.systems.tba(GROUPS, interval, RECENT, MACHINES - trainers, length=LENGTHS, train_time=seconds)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one system, or of one comparison."""
    rows = timed(setting) if setting["part"] == "speed" else learned(setting)
    return [{**dict.fromkeys(COLUMNS), "part": setting["part"], **row} for row in rows]


def timed(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Seconds and staleness of every realization."""
    rows, interval = [], setting["interval"]
    for trainers in range(1, MACHINES) if interval else (MACHINES,):
        made = system(setting["training"], interval, trainers)
        for number in range(setting["realizations"]):
            one = made.summary(setting["batches"], SAMPLES, setting["seed"], number)
            place = {"training": setting["training"], "interval": interval, "trainers": trainers, "realization": number}
            found = {"step_seconds": one["seconds_per_update"]}
            found["staleness"] = one["staleness"]["mean"] * max(1, interval)
            rows += [{**place, "quantity": name, "value": float(value)} for name, value in found.items()]
    return rows


def learned(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Every arm beside the first one: updates to the target, or mean return."""
    arms = {arm: spec(setting, arm) for arm in setting["arms"]}
    clock = setting["part"] == "clock"
    reading: dict[str, Any] = {"smallest": tba_returns.SMALLEST}
    if clock:
        reading = {"over": "time", "target": TASKS[setting["task"]][1], "smallest": 0.02 * setting["updates"]}
    choices = {"tune": "adam.lr", "max_replicates": setting["most"], "seed": setting["seed"], "statistic": "iqm"}
    found = _compared.rows(
        arms, setting["arms"][0], metric=tba_returns.RETURN, progress=False, workers=1, **reading, **choices
    )
    rows = []
    for row in found:
        own = {"task": setting["task"], "arm": row["arm"], "word": row["reason"] or row["word"], "rate": row["rate"]}
        if clock:
            own |= {"training": CLOCK, "interval": ARMS[row["arm"]][1]}
            rows.append({**own, "quantity": "updates", **reached(setting, row["arm"], row["rate"])})
        interval = {name: row[name] for name in ("low", "high")}
        rows.append({**own, "quantity": "mean", "value": row["mean"]})
        rows.append({**own, "quantity": "difference", "value": row["difference"], **interval})
    return rows


def reached(setting: dict[str, Any], arm: str, rate: float | None) -> dict[str, Any]:
    """Median update from which the target is there, at an arm's best rate, with the interval of its ranks."""
    if rate is None:
        return {}
    chain, aim = sim.chain(sim.updates.adam(rate)), TASKS[setting["task"]][1]
    one = spec(setting, arm).replace(update=chain, replicates=setting["most"])
    trace = sim.run(one, seed=setting["seed"] + _vcpo.HELD_OUT, progress=False)
    there = trace["policy_return"] >= aim
    # Whoever never gets there would have needed longer than the run.
    found = _vcpo.median(np.where(there.any(0), trace.updates[there.argmax(0)], 2.0 * setting["updates"]))
    return {name: found[name] for name in ("value", "low", "high")}


def spec(setting: dict[str, Any], arm: str) -> sim.Spec:
    """One arm: a method on its system, or TBA with so many searchers."""
    if setting["part"] == "clock":
        method, interval = ARMS[arm]
        task, made = TASKS[setting["task"]][0], system(CLOCK, interval)
    else:
        method, made = tba_returns.BASE, tba_returns.replayed(RECENT, int(arm))
        task = tba_returns.TASKS[setting["task"]]
    chain = sim.chain(sim.updates.adam(tba_returns.RATE))
    sizes = {"samples_per_group": SAMPLES, "updates": setting["updates"], "every": 2}
    return sim.Spec(task, made, tba_returns.METHODS[method], chain, diagnostics=[tba_returns.RETURN], **sizes)
