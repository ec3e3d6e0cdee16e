"""Do old data train as well as fresh ones while tasks are unsolved? ROLL Flash's off-policy methods over updates.

Batches and methods of `token_ratios`, on `roll_single_turn` at an asynchronous `ratio`, beside PPO on synchronous data
(ratio 0), at every `rate` of Adam. Tasks begin far from their optimum: `peaked`, 64 tokens of 8 kinds from a policy
whose favorite tokens are wrong; `graded`, 32 tokens of 8 kinds; `arms`, 16 arms whose best one has a chance of 2 %.

A row for each window of updates that ends with `update`: `value`, mean exact return of the policy that is trained, over
`samples` replicates with 95 percent `low` and `high`. The last windows are those of solved tasks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncsim as sim
from asyncsim.base import uncertainty
from experiments import gac_steps, league, pipeline_rl, token_ratios

COLUMNS = ["task", "ratio", "arm", "rate", "update", "value", "low", "high", "samples"]
TASKS: dict[str, Any] = {
    "peaked": gac_steps.TASKS["peaked"][0],
    "graded": sim.tasks.token_bandit(8, 32, "position"),
    "arms": sim.tasks.softmax_bandit(16, means=[0.9, *[0.5] * 14, 0.4], start="peaked:0.02:0.9"),
}
RATIOS, RATES, ENDS = (2, 8), [0.1 * 2.0**k for k in range(4)], (8, 16, 24, 32, 40, 48, 64, 80, 104, 128)
_SIZES: dict[str, Any] = {"rates": RATES, "ends": ENDS, "replicates": 24, "seed": 0}
SETTINGS = [
    {"task": task, "ratio": ratio, "arm": arm, **_SIZES}
    for task in TASKS
    for ratio in (0, *RATIOS)
    for arm in (token_ratios.METHODS if ratio else ("PPO",))
]
QUICK = [
    {**setting, "rates": RATES[1:3], "ends": ENDS[:4], "replicates": 4}
    for setting in SETTINGS
    if setting["task"] == "arms"
]


def spec(task: str, ratio: int, arm: str, rates: np.ndarray, updates: int) -> sim.Spec:
    """A method at one rate for each replicate."""
    length = "lognormal:1.0:1.0"
    if ratio:
        system = sim.systems.roll_single_turn(league.GROUPS, ratio, length=length, load=2.0)
    else:
        system = sim.systems.synchronous(league.GROUPS, length=length)
    return sim.Spec(
        TASKS[task],
        system,
        league.METHODS[token_ratios.METHODS[arm]],
        sim.chain(sim.updates.adam(tuple(float(rate) for rate in rates))),
        samples_per_group=league.SAMPLES,
        updates=updates,
        replicates=len(rates),
        diagnostics=[pipeline_rl.RETURN],
    )


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one method at all rates."""
    each, ends = setting["replicates"], setting["ends"]
    rates = np.repeat(setting["rates"], each)
    made = spec(setting["task"], setting["ratio"], setting["arm"], rates, ends[-1])
    returns = sim.run(made, seed=setting["seed"], progress=False)["policy_return"]
    rows = []
    for start, end in zip((0, *ends), ends, strict=False):
        for k, rate in enumerate(setting["rates"]):
            found = uncertainty.between(returns[start:end, k * each : (k + 1) * each].mean(0))
            reach = uncertainty.critical(0.05, found.freedom) * found.error
            ends_of = {"low": found.value - reach, "high": found.value + reach, "samples": each}
            place = {name: setting[name] for name in ("task", "ratio", "arm")}
            rows.append({**place, "rate": rate, "update": end, "value": found.value, **ends_of})
    return rows
