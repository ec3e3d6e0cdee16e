"""How does the largest stable learning rate depend on staleness and on the length of a run?

Staleness and learning rate (arXiv 2607.01083): drift over a run of T updates limits the rate to C/T, drift over S stale
updates to R/S, with a knee between. Trained is a proxy; read is the exact true return. A run collapses once it has
gained `GAIN` and lost half of its largest gain; runs of `updates` are read at several `horizon`s.
Tasks: `linear`, a quadratic with a fast mode (curvature 1) that the truth wants at 0 and a slow one (1/128) that it
wants to stay. `bandit` and `tokens` have a shortcut, unlikely at first, that the proxy pays and the truth does not: an
arm, or token 0 in the last half of a sequence; both with an entropy bonus in the reward. `graded` and `sparse` of
`league` are honest.
Arms: `gradient` and `none` (REINFORCE without ratio) by plain steps; `adam`, the latter by Adam; `grpo`, GRPO with its
clipped ratio, by Adam.
`quantity` "limit": `value`, the rate at which half of the replicates have collapsed by the horizon, middle of its two
neighbors in a grid of factor 1.26; `low` and `high`, where the 95 percent interval of the share leaves a half. Missing:
no rate of the grid. "time": median update of the collapse at a `rate`, with the 95 percent interval of its rank.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step
from experiments import league, pipeline_rl

COLUMNS = [*("quantity", "task", "arm", "staleness", "horizon", "rate", "share", "value", "low", "high", "replicates")]
GAIN, LOST, GROUPS, SAMPLES = 0.1, 0.5, 4, 8
CURVATURES, LENGTH, ACTIONS = (1.0, 1.0 / 128.0), 8, 4
PROXY = np.array([0.8, 0.5, 0.3, 0.1, 1.0])
TRUTH = np.array([0.8, 0.5, 0.3, 0.1, 0.0])
BONUS = {"bandit": 0.1, "tokens": 0.1 / LENGTH}
"""Price of a nat in the reward, towards the uniform policy."""
START = {"bandit": np.zeros((GROUPS, 5)), "tokens": np.zeros((LENGTH, ACTIONS))}
"""Logits at first."""
START["bandit"][:, -1], START["tokens"][LENGTH // 2 :, 0] = -3.0, -4.0
TASKS: dict[str, Any] = {
    "linear": sim.tasks.quadratic(CURVATURES, noise=0.02, start=1.0),
    "bandit": sim.tasks.softmax_bandit(5, np.tile(PROXY, (GROUPS, 1)), kl_coef=BONUS["bandit"], logits=START["bandit"]),
    "tokens": sim.tasks.token_bandit(
        ACTIONS, LENGTH, "position", kl_coef=BONUS["tokens"], logits=START["tokens"].tolist()
    ),
    "graded": league.TASKS["graded"],
    "sparse": league.TASKS["sparse"],
}
ARMS: dict[str, Any] = {
    "gradient": (sim.methods.gradient(), sim.updates.sgd),
    "none": (sim.methods.reinforce(league.first), sim.updates.sgd),
    "adam": (sim.methods.reinforce(league.first), sim.updates.adam),
    "grpo": (sim.methods.grpo(), sim.updates.adam),
}
RATES = {
    "gradient": [0.005 * 2.0 ** (k / 3) for k in range(31)],
    "none": [0.5 * 2.0 ** (k / 3) for k in range(31)],
    "adam": [0.005 * 2.0 ** (k / 3) for k in range(31)],
    "grpo": [0.005 * 2.0 ** (k / 3) for k in range(31)],
}
HORIZONS = {"linear": (128, 512, 2048), "": (128, 512)}
_SIZES: dict[str, Any] = {"updates": 512, "replicates": 24, "seed": 0}
_STALE = (0, 2, 4, 8, 16, 32, 64, 128)
SETTINGS: list[dict[str, Any]] = [
    *({**_SIZES, "task": "linear", "arm": "gradient", "updates": 2048, "staleness": s} for s in (0, 1, *_STALE[1:])),
    *({**_SIZES, "task": t, "arm": a, "staleness": s} for t in START for a in ("none", "grpo") for s in _STALE),
    *({**_SIZES, "task": t, "arm": "grpo", "staleness": s} for t in ("graded", "sparse") for s in _STALE[:-1]),
    *({**_SIZES, "task": t, "arm": "adam", "staleness": s} for t in ("graded", "sparse") for s in (0, 64)),
]
QUICK = [
    {**setting, "updates": setting["updates"] // 8, "replicates": 2, "rates": RATES[setting["arm"]][::4]}
    for setting in SETTINGS
    if setting["staleness"] in (0, 64)
]


def true_return(task: str, parameters: Tensor) -> Tensor:
    """Exact return of the truth where a shortcut is trained, `[R]`."""
    if task == "linear":
        # The slow mode should stay where it is.
        wanted = torch.tensor([0.0, 1.0], dtype=parameters.dtype)
        return -0.5 * ((parameters - wanted) ** 2).sum(-1)
    prob = torch.softmax(parameters.reshape(-1, *START[task].shape), -1)
    if task == "bandit":
        return (prob * torch.as_tensor(TRUTH)).sum(-1).mean(-1)
    right = prob[..., 0]
    return right[:, : LENGTH // 2].mean(-1) - right[:, LENGTH // 2 :].mean(-1)


def metric(task: str) -> Metric:
    """What is read of a task."""

    def read(step: Step) -> Tensor:
        trained = task in ("graded", "sparse")
        return pipeline_rl.expected(step) if trained else true_return(task, step.parameters)

    return Metric("true_return", read)


def collapsed(curve: np.ndarray) -> np.ndarray:
    """First update at which a replicate has gained `GAIN` and lost half of its largest gain; inf where none, `[R]`."""
    # A replicate that left the range of numbers has lost everything.
    gain = np.where(np.isfinite(curve), curve, -np.inf) - curve[0]
    peak = np.maximum.accumulate(gain, 0)
    bad = (peak > GAIN) & (gain < LOST * peak)
    return np.where(bad.any(0), bad.argmax(0), np.inf)


def shares(times: np.ndarray, horizon: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Share of the replicates `[rates, R]` that have collapsed by then, with its exact 95 percent interval."""
    hit, n = (times < horizon).sum(1), times.shape[1]
    low = np.where(hit > 0, stats.beta.ppf(0.025, hit, n - hit + 1), 0.0)
    high = np.where(hit < n, stats.beta.ppf(0.975, hit + 1, n - hit), 1.0)
    return hit / n, low, high


def limit(rates: list[float], times: np.ndarray, horizon: int) -> dict[str, Any]:
    """The rate at which the share of collapsed replicates first reaches a half."""
    share, low, high = shares(times, horizon)
    reaches = [int(np.argmax(bad)) if bad.any() else None for bad in (high >= 0.5, share >= 0.5, low > 0.5)]
    below, middle, above = reaches
    found: dict[str, Any] = {"horizon": horizon, "value": None, "low": None, "high": None}
    if middle is not None:
        found["value"] = math.sqrt(rates[middle] * rates[middle - 1]) if middle else rates[0]
    if below is not None:
        found["low"] = rates[max(below - 1, 0)]
    if above is not None:
        found["high"] = rates[above]
    return found


def median(times: np.ndarray) -> dict[str, Any]:
    """Median time with the 95 percent interval of its rank; infinite where they have not collapsed."""
    low, value, high = stats.binom.ppf([0.025, 0.5, 0.975], len(times), 0.5).astype(int)
    ordered = np.sort(times)
    return dict(zip(("low", "value", "high"), (float(ordered[k - 1]) for k in (low, value, high)), strict=True))


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """The limits of one arm at one staleness, for each horizon, and the time of collapse at each rate."""
    task, arm, each, updates = (setting[name] for name in ("task", "arm", "replicates", "updates"))
    (method, optimizer), rates = ARMS[arm], setting.get("rates", RATES[arm])
    drawn = tuple(float(rate) for rate in np.repeat(rates, each))
    spec = sim.Spec(
        TASKS[task],
        sim.schedules.fixed(setting["staleness"], groups_per_batch=1 if task == "linear" else GROUPS),
        method,
        sim.chain(optimizer(drawn)),
        samples_per_group=SAMPLES,
        updates=updates,
        replicates=len(drawn),
        diagnostics=[metric(task)],
    )
    curve = sim.run(spec, seed=setting["seed"], progress=False)["true_return"]
    times = collapsed(curve).reshape(len(rates), each)
    shared = {"task": task, "arm": arm, "staleness": setting["staleness"], "replicates": each}
    rows = [{"quantity": "limit", **limit(rates, times, horizon)} for horizon in HORIZONS.get(task, HORIZONS[""])]
    for rate, own in zip(rates, times, strict=True):
        share = float(np.isfinite(own).mean())
        if share >= 0.75:
            rows.append({"quantity": "time", "rate": float(rate), "share": share, **median(own)})
    return [{name: (shared | row).get(name) for name in COLUMNS} for row in rows]
