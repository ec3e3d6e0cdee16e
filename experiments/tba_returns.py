"""Does trajectory balance return more than RLOO and Dr. GRPO on stale and replayed data?

Batches of 4 groups of 8 samples, 120 updates by Adam, every arm at its own best learning rate of one grid
(`sim.compare`). Read is the exact return of the current policy, mean over the run: learning soon and keeping it count.
Compared are interquartile means over replicates.
Tasks: `bandit`, a prompt with 8 arms paid 0 or 1 for each group; `graded`, 8 tokens out of 8, paid by the share that is
right; `rare`, 12 bits, paid 1 if 11 are right, which at first one of 315 is.
Arms: `TBA` at three prices of a nat; `RLOO`, without a ratio; `Dr. GRPO`, with a clip at 0.2, which on equal lengths is
PPO's too. Laws (`place`): `fresh`; `constant 32`, in updates; `replay`, the system `tba`, half of the groups out of
everything since the start. "RLOO, fresh" is RLOO on fresh data beside arms on older ones.
`part` "compare": arms beside TBA at the price where the paper ends. "recency": shares of recent groups beside none,
with TBA, `place` searchers generating while the trainer trains once a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step
from experiments import _compared

COLUMNS = ["part", "task", "place", *_compared.COLUMNS]
SMALLEST = 0.02
"""Least difference in return that matters; returns lie between 0 and 1."""
GROUPS, SAMPLES, RATE = 4, 8, 0.1
LENGTHS = "lognormal:1.0:1.0"
BASE, FRESH = "TBA 0.004", "RLOO, fresh"
"""TBA at the price where the paper ends; it begins at 0.014."""
m = sim.methods
METHODS: dict[str, Any] = {
    BASE: m.tba(0.004),
    "TBA 0.014": m.tba(0.014),
    "TBA 0.1": m.tba(0.1),
    "RLOO": m.reinforce(),
    "Dr. GRPO": m.grpo(advantage=sim.advantages.group_mean(), aggregator="constant"),
}
TASKS: dict[str, Any] = {
    "bandit": sim.tasks.softmax_bandit(8, means=np.random.default_rng(0).random((GROUPS, 8))),
    "graded": sim.tasks.token_bandit(8, 8, "position"),
    "rare": sim.tasks.bit_chain(12, 11 / 12),
}
LAWS: dict[str, Any] = {
    "fresh": sim.schedules.fixed(0, groups_per_batch=GROUPS),
    "constant 32": sim.schedules.fixed(32, groups_per_batch=GROUPS),
    "replay": sim.systems.tba(GROUPS, 2, 0.5, GROUPS, length=LENGTHS, load=1.0),
}
SHARES, SEARCHERS = ("0", "0.5", "0.95"), ("1", "16")
_SIZES = {"updates": 120, "most": 64, "seed": 0}
_COMPARE, _RECENCY = {"part": "compare", **_SIZES}, {"part": "recency", "arms": list(SHARES), **_SIZES}
SETTINGS = [
    *(
        {**_COMPARE, "task": task, "place": law, "arms": [*METHODS, *([FRESH] if law != "fresh" else [])]}
        for task in TASKS
        for law in LAWS
    ),
    *({**_RECENCY, "task": task, "place": searchers} for task in ("graded", "rare") for searchers in SEARCHERS),
]
QUICK = [
    *({**SETTINGS[place], "updates": 40} for place in (0, 1)),
    {**_RECENCY, "task": "rare", "place": "1", "updates": 16, "arms": ["0", "0.95"]},
]


def expected(step: Step) -> Tensor:
    """Exact expected return of the current policy, `[R]`."""
    task: Any = step.task
    if not hasattr(task, "dependence"):
        return task.exact(step.policy, step.parameters)[0]
    # One row per position: the share that is right is the mean chance of token 0.
    return torch.softmax(step.parameters.reshape(-1, task.rows, task.actions), -1)[..., 0].mean(-1)


RETURN = Metric("policy_return", expected, range=(0.0, 1.0))


def replayed(share: float, searchers: int) -> Any:
    """TBA's system where the trainer trains once a second, a searcher finishes a sample a second on average."""
    return sim.systems.tba(GROUPS, 2, share, searchers, length=LENGTHS, train_time=1.0)


def spec(setting: dict[str, Any], arm: str) -> sim.Spec:
    """One arm: a method under the law of its place, or TBA with a share of recent groups."""
    if setting["part"] == "recency":
        method, law = METHODS[BASE], replayed(float(arm), int(setting["place"]))
    else:
        method, law = METHODS[arm.partition(", ")[0]], LAWS["fresh" if arm == FRESH else setting["place"]]
    chain = sim.chain(sim.updates.adam(RATE))
    sizes = {"samples_per_group": SAMPLES, "updates": setting["updates"], "every": 4, "diagnostics": [RETURN]}
    return sim.Spec(TASKS[setting["task"]], law, method, chain, **sizes)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one comparison, the first arm the one beside which the others stand."""
    arms = {arm: spec(setting, arm) for arm in setting["arms"]}
    choices = {"smallest": SMALLEST, "tune": "adam.lr", "max_replicates": setting["most"], "seed": setting["seed"]}
    # Of the middle half of replicates: at bold rates one in a hundred keeps a wrong token, and no mean is known then.
    choices["statistic"] = "iqm"
    found = _compared.rows(arms, setting["arms"][0], metric=RETURN, progress=False, workers=1, **choices)
    return [{**{name: setting[name] for name in ("part", "task", "place")}, **row} for row in found]
