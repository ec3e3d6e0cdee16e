"""At which staleness and learning rate do runs collapse, and does an importance weight or a clip move that boundary?

Policy gradients with an entropy bonus of weight beta, plain steps, constant staleness. `bandit`: two arms paid 1 and 0;
`graded`: 8 bits, paid by the share that is right, so each is a bandit of gap 1/8. beta is `gap`/2, and the optimum
takes the better arm with probability 0.88. Runs begin at the uniform policy, where curvature is larger than there.
Arms: `plain`, no ratio; `weighted`, the ratio of each action or token; `clipped`, PPO's clip at 0.2. Batches have 4
groups of 8 samples; of `weighted, large` 4 of 128.
A run has collapsed if its mean objective over the last quarter of all updates (exact reward plus beta times entropy of
the current policy) is nearer to that of a policy without any entropy, always the better arm, than to the best.
`rate` is in units of 1/curvature, c = 2 beta p (1 - p) at the optimum p.
`part` "share": share of replicates that collapsed at a `rate`. `part` "boundary": the least rate from which on at least
half collapse, by a line through the shares at the two grid points around it; `low` and `high`, these grid points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step

COLUMNS = ["part", "task", "arm", "staleness", "rate", "value", "low", "high", "replicates"]
SHARPNESS = 2.0
"""Gap of rewards over beta: the margin of the optimum in nats."""
GAPS = {"bandit": 1.0, "graded": 1.0 / 8.0}
TASKS: dict[str, Any] = {
    "bandit": sim.tasks.softmax_bandit(2, means=[1.0, 0.0], rewards="fixed"),
    "graded": sim.tasks.token_bandit(2, 8, "position"),
}
ARMS = ("plain", "weighted", "clipped")
STALENESS = (0, 1, 2, 4, 8, 16, 32)
RATES = [2.0 ** (k / 2.0) for k in range(-13, 6)]
_SIZES = {"rates": RATES, "updates": 800, "seed": 0}
_EACH = {"bandit": 32, "graded": 12}
_LARGE = {"task": "bandit", "arm": "weighted, large", "replicates": 16}
SETTINGS = [
    *(
        {**_SIZES, "task": t, "arm": a, "staleness": s, "replicates": _EACH[t]}
        for t in TASKS
        for a in ARMS
        for s in STALENESS
    ),
    *({**_SIZES, **_LARGE, "staleness": s} for s in (0, 4, 32)),
]
_FEW = {"rates": RATES[::2], "updates": 80, "replicates": 2}
QUICK = [{**setting, **_FEW} for setting in SETTINGS if setting["staleness"] in (0, 4, 32)]


def curvature(task: str) -> float:
    """Largest of the objective at its optimum, reward per squared logit: beta times that of diag p - p p^T."""
    best = 1.0 / (1.0 + np.exp(-SHARPNESS))
    return float(2.0 * GAPS[task] / SHARPNESS * best * (1.0 - best))


def objective(prob: Tensor, gap: float) -> Tensor:
    """Mean over rows of gap times the chance of the better arm plus beta times entropy; `prob` `[..., rows, 2]`."""
    entropy = -torch.xlogy(prob, prob).sum(-1)
    return (gap * prob[..., 0] + gap / SHARPNESS * entropy).mean(-1)


def levels(task: str) -> tuple[float, float]:
    """The best objective, and that of always the better arm."""
    gap = GAPS[task]
    return gap / SHARPNESS * float(np.log1p(np.exp(SHARPNESS))), gap


def method(arm: str, task: str) -> Any:
    """The estimator with its entropy bonus; a band without ends leaves the ratio alone."""
    bonus = GAPS[task] / SHARPNESS
    if arm == "plain":
        return sim.methods.reinforce(entropy=bonus)
    low, high = (0.2, 0.2) if arm == "clipped" else (1.0, 1e9)
    first = sim.advantages.leave_one_out()
    return sim.methods.ppo_clip(low, high, advantage=first, aggregator="sequence_sum", entropy=bonus)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Shares at every rate, and the rate at which they cross one half."""
    task, size = setting["task"], setting["replicates"]

    def measured(step: Step) -> Tensor:
        return objective(torch.softmax(step.parameters.reshape(len(step.parameters), -1, 2), -1), GAPS[task])

    rates = np.repeat(np.array(setting["rates"]) / curvature(task), size)
    spec = sim.Spec(
        TASKS[task],
        sim.schedules.fixed(setting["staleness"], groups_per_batch=4),
        method(setting["arm"], task),
        sim.chain(sim.updates.sgd(tuple(rates.tolist()))),
        samples_per_group=128 if setting["arm"].endswith("large") else 8,
        updates=setting["updates"],
        replicates=len(rates),
        diagnostics=[Metric("objective", measured)],
    )
    late = sim.run(spec, seed=setting["seed"], progress=False)["objective"][-(setting["updates"] // 4) :].mean(0)
    share = (late < sum(levels(task)) / 2.0).reshape(-1, size).mean(1)
    shared = {name: setting[name] for name in ("task", "arm", "staleness")} | {"replicates": size}
    rows = [{"part": "share", "rate": r, "value": float(v)} for r, v in zip(setting["rates"], share, strict=True)]
    rows.append({"part": "boundary", **crossing(np.array(setting["rates"]), share)})
    return [{name: (shared | row).get(name) for name in COLUMNS} for row in rows]


def crossing(rates: np.ndarray, share: np.ndarray) -> dict[str, Any]:
    """Where shares cross one half for good, between the last rate below and the next; missing beyond the grid."""
    below = np.flatnonzero(share < 0.5)
    if not len(below) or below[-1] == len(rates) - 1:
        return {}
    last = int(below[-1])
    part = (0.5 - share[last]) / (share[last + 1] - share[last])
    low, high = float(rates[last]), float(rates[last + 1])
    return {"value": low * (high / low) ** float(part), "low": low, "high": high}
