"""Does a baseline below the behavior's mean reward help, on frozen data and on stale data?

AsymRE (arXiv 2506.20520): REINFORCE without ratio whose baseline is the behavior's mean reward plus `shift`.
`part` "frozen": 16 bandits of 10 arms, behavior of random logits, all updates on its population; `value`, the
probability of an `action` at the end.
`part` "again": the limit of a `round` is the behavior of the next; mean reward and `support`, arms with probability
above `SEEN`, mean over bandits.
`part` "tuned": three tasks of `pipeline_rl`, data 32 updates stale, or frozen; every shift at its own best rate beside
shift 0, columns as in `_compared`. Read is the exact return of the current policy, mean over updates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncsim as sim
from experiments import _compared, league, pipeline_rl

COLUMNS = [*("part", "task", "law", "shift", "round", "bandit", "action", "value", "support"), *_compared.COLUMNS]
ARMS, BANDITS, SEEN, STEP, FLOOR = 10, 16, 0.01, 3.0, 1e-12
DRAW = np.random.default_rng(3)
LOGITS, MEANS = DRAW.normal(0.0, 1.0, (BANDITS, ARMS)), DRAW.random((BANDITS, ARMS))
SHIFTS = (-1.0, -0.5, -0.2, -0.1, -0.05, -0.02, -0.01, 0.0, 0.01, 0.02, 0.05, 0.1)
AGAIN = (-0.5, -0.1, -0.02, 0.0)
TUNED = (0.0, -0.4, -0.2, -0.1, 0.05, 0.1)
LAWS: dict[str, Any] = {
    "constant 32": league.LAWS["constant 32"],
    "frozen": sim.schedules.frozen(groups_per_batch=league.GROUPS),
}
_TUNED = {"part": "tuned", "updates": 160, "most": 128, "seed": 2}
SETTINGS: list[dict[str, Any]] = [
    {"part": "frozen", "updates": 4000},
    *({"part": "again", "shift": shift, "updates": 1000, "rounds": 5} for shift in AGAIN),
    *({**_TUNED, "task": task, "law": law} for law in LAWS for task in pipeline_rl.TASKS),
]
QUICK = [
    {"part": "frozen", "updates": 50},
    *({"part": "again", "shift": shift, "updates": 20, "rounds": 5} for shift in AGAIN),
    *({**_TUNED, "task": "bandit", "law": law, "updates": 24, "most": 64} for law in LAWS),
]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of each row."""
    weights: np.ndarray = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def ended(logits: np.ndarray, shifts: Any, updates: int) -> np.ndarray:
    """Policies after population updates on data of the policy with these logits, `[shifts, bandits, arms]`."""
    shifts = tuple(float(shift) for shift in shifts)
    spec = sim.Spec(
        sim.tasks.softmax_bandit(ARMS, MEANS, rewards="fixed", logits=logits),
        sim.schedules.frozen(groups_per_batch=BANDITS),
        sim.methods.asymre(shifts),
        sim.chain(sim.updates.sgd(STEP * BANDITS)),
        sampling="enumerate",
        updates=updates,
        replicates=len(shifts),
    )
    found = sim.run(spec, seed=0, progress=False).parameters
    return softmax(np.asarray(found).reshape(len(shifts), BANDITS, ARMS))


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one part."""
    rows = {"frozen": frozen, "again": again, "tuned": tuned}[setting["part"]](setting)
    return [{name: ({**setting, **row}).get(name) for name in COLUMNS} for row in rows]


def frozen(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Probability of every arm in the limit of every bandit at every shift."""
    return [
        {"shift": shift, "bandit": bandit, "action": action, "value": float(policy[bandit, action])}
        for shift, policy in zip(SHIFTS, ended(LOGITS, SHIFTS, setting["updates"]), strict=True)
        for bandit in range(BANDITS)
        for action in range(ARMS)
    ]


def again(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Mean over bandits after each round; the limit of a round is the behavior of the next."""
    logits, rows = LOGITS, []
    for turn in range(setting["rounds"]):
        policy = ended(logits, (setting["shift"],), setting["updates"])[0]
        value, support = (policy * MEANS).sum(-1).mean(), (policy > SEEN).sum(-1).mean()
        rows.append({"round": turn + 1, "value": float(value), "support": float(support)})
        logits = np.log(np.maximum(policy, FLOOR))
    return rows


def tuned(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Every shift beside 0, each at its best learning rate."""
    arms = {
        f"{shift:g}": sim.Spec(
            pipeline_rl.TASKS[setting["task"]],
            LAWS[setting["law"]],
            sim.methods.asymre(shift),
            sim.chain(sim.updates.adam(league.RATE)),
            samples_per_group=league.SAMPLES,
            updates=setting["updates"],
        )
        for shift in TUNED
    }
    choices = {
        "metric": pipeline_rl.RETURN,
        "smallest": league.SMALLEST,
        "tune": "adam.lr",
        "max_replicates": setting["most"],
    }
    found = _compared.rows(arms, "0", seed=setting["seed"], progress=False, workers=1, **choices)
    return [{**row, "shift": float(row["arm"])} for row in found]
