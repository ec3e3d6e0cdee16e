"""How many samples of a stale batch still count, and is it the tail of their ratios that decides?

A bandit over `length` independent tokens of three kinds from one softmax, paid by its share of token 0 (`reward`
"tokens") or by noise of standard deviation `NOISE` ("chance": drift without a direction). REINFORCE with the
leave-one-out mean and plain steps; a batch is one group of `batch` sequences, written `staleness` updates before.
`part`: "update", the first update alone; "start", the batch of update `staleness`, the last that the initial policy
generated; "training", that of update `READ`, amid learning. `update` counts from 0.

Quantities, means over replicates with 95 percent intervals between them (`samples` replicates):
ess            (sum W)^2/(N sum W^2) of the batch's sequence ratios W, the share of samples that still count
largest_share  largest W over the sum of all, in the batch
inverse_tail   1 over Hill's estimate of the exponent of the tail of W, by the batch's largest; 0 where these are equal
log_variance   variance of log W, nats^2, from the batch (divided by N - 1)
spread         largest possible W over the smallest, in nats, by what the policies allow, not by what was drawn
return         of the batch
drift, noise   part "update": the variance per token, nats^2, that the mean step gives to the log ratio, and that the
               rest of a step adds; jackknife intervals
Rows with a `replicate` hold that replicate's `ess`, `largest_share`, and the log-probabilities `log_mu`, `log_pi` of
`token` under the policy that generated the batch and the one that trains on it; they have no interval.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from asyncsim import methods, schedules, tasks, updates
from asyncsim.base import uncertainty
from asyncsim.base.records import Estimate
from asyncsim.base.trace import Trace
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.step.step import Step
from asyncsim.updates._link import chain

ACTIONS, BATCH, STEP, READ, NOISE = 3, 64, 0.04, 160, 2.0
COLUMNS = [
    "part", "reward", "length", "staleness", "batch", "update", "quantity", "replicate", "token", "value", "low",
    "high", "samples",
]  # fmt: skip
MEANS = {"ess": "ess", "largest_share": "max_weight_share", "return": "batch_return"}
"""Quantities that are metrics of the product."""
LEVELS = (1, 2, 4, 8, 16, 32, 64, 128)


def _runs(length: int, stalenesses: tuple[int, ...], training: bool, reward: str = "tokens") -> dict[str, Any]:
    own: dict[str, Any] = {"kind": "runs", "reward": reward, "length": length, "stalenesses": stalenesses}
    return {**own, "training": training, "replicates": 128, "seed": length}


def _update(length: int, reward: str) -> dict[str, Any]:
    return {"kind": "update", "reward": reward, "length": length, "replicates": 1 << 14, "seed": 1}


SETTINGS = [
    *(_update(16, reward) for reward in ("tokens", "chance")),
    *(_runs(length, LEVELS, True) for length in (4, 16)),
    *(_runs(64, half, True) for half in (LEVELS[:4], LEVELS[4:-1])),
    *(_runs(length, (16, 64), False) for length in (2, 8, 32, 128)),
    {**_runs(16, LEVELS, False, "chance"), "replicates": 2048},
]
_TINY = {"replicates": 16}
QUICK = [
    *({**_update(16, reward), "replicates": 1024} for reward in ("tokens", "chance")),
    {**_runs(4, (16, 128), True), **_TINY},
    {**_runs(16, (1, 16, 64), True), **_TINY},
    {**_runs(64, (4, 16), True), **_TINY},
    {**_runs(32, (16, 64), False), **_TINY},
    {**_runs(16, (4, 32), False, "chance"), "replicates": 256},
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one length: of the first update alone, or of runs at several stalenesses."""
    shared = {**dict.fromkeys(COLUMNS), "batch": BATCH, "reward": setting["reward"], "length": setting["length"]}
    if setting["kind"] == "update":
        return [{**shared, "part": "update", "staleness": 1, "update": 1, **row} for row in first_update(setting)]
    rows = []
    for staleness in setting["stalenesses"]:
        own = {**shared, "staleness": staleness}
        trace = train(setting, staleness)
        rows += [{**own, "part": "start", "update": staleness, **row} for row in reading(trace, setting, staleness)]
        if setting["training"]:
            read = [{**own, "part": "training", "update": READ, **row} for row in reading(trace, setting, READ)]
            rows += read + [{**own, "part": "training", "update": READ, **row} for row in singles(trace, READ)]
    return rows


def spec_of(setting: dict[str, Any], staleness: int, last: int) -> Spec:
    """Training up to the batch of update `last`."""
    noisy: Any = {"success": 0.0, "rewards": "gaussian", "deviation": NOISE} if setting["reward"] == "chance" else {}
    task: Any = tasks.token_bandit(ACTIONS, setting["length"], "iid", **noisy)
    known = [*MEANS.values(), "tail_index", "log_ratio_variance", *policies()]
    return Spec(
        task,
        schedules.fixed(staleness),
        methods.reinforce(),
        chain(updates.sgd(STEP)),
        samples_per_group=BATCH,
        updates=last + 1,
        replicates=setting["replicates"],
        diagnostics=known,
        every=math.gcd(staleness, last),
    )


def train(setting: dict[str, Any], staleness: int) -> Trace:
    """A run, read where it is asked for; its seed is that of the setting and 1000 times the staleness."""
    last = READ if setting["training"] else staleness
    seed = setting["seed"] + 1000 * staleness
    return running.run(spec_of(setting, staleness, last), seed=seed, progress=False)


def policies() -> list[Metric]:
    """Log-probability of every token under the policy that generated the batch and under the current one."""

    def behavior(step: Step) -> torch.Tensor:
        view = step.batch.view
        assert view is not None and view.single
        return view.weights["log_prob"][int(view.slot.flat[0])].reshape(len(step.parameters), -1)

    def current(step: Step) -> torch.Tensor:
        return step.weights["log_prob"].reshape(len(step.parameters), -1)

    known = {"log_mu": behavior, "log_pi": current}
    return [
        Metric(f"{name}[{k}]", lambda step, of=of, k=k: of(step)[:, k], ("log_prob",))
        for name, of in known.items()
        for k in range(ACTIONS)
    ]


def table(trace: Trace, name: str, row: int) -> np.ndarray:
    """Log-probabilities `[R, A]` of the policies at a recorded update."""
    return np.stack([trace[f"{name}[{k}]"][row] for k in range(ACTIONS)], axis=1)


def reading(trace: Trace, setting: dict[str, Any], update: int) -> list[dict[str, Any]]:
    """Means over replicates of what the batch of an update shows."""
    row = int(np.flatnonzero(np.asarray(trace.updates) == update)[0])
    found = {name: trace[metric][row] for name, metric in MEANS.items()}
    found["inverse_tail"] = 1.0 / trace["tail_index"][row]
    found["log_variance"] = trace["log_ratio_variance"][row] * BATCH / (BATCH - 1)
    found["spread"] = setting["length"] * np.ptp(table(trace, "log_pi", row) - table(trace, "log_mu", row), axis=1)
    return [{"quantity": name, **interval(uncertainty.between(values))} for name, values in found.items()]


def singles(trace: Trace, update: int) -> list[dict[str, Any]]:
    """Each replicate's policies, with what its batch shows."""
    row = int(np.flatnonzero(np.asarray(trace.updates) == update)[0])
    rows = []
    for name in ("ess", "largest_share"):
        values = trace[MEANS[name]][row]
        rows += [{"quantity": name, "replicate": r, "value": float(value)} for r, value in enumerate(values)]
    for name in ("log_mu", "log_pi"):
        for (r, token), value in np.ndenumerate(table(trace, name, row)):
            rows.append({"quantity": name, "replicate": r, "token": token, "value": float(value)})
    return rows


def first_update(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """The variance of the log ratio of a token that one update makes, split into its mean step and the rest."""
    trace = running.run(spec_of(setting, 1, 1), seed=setting["seed"], progress=False)
    prob = np.exp(table(trace, "log_mu", 1)[0])
    moved = table(trace, "log_pi", 1) - table(trace, "log_mu", 1)
    # In these coordinates squared lengths are variances over the tokens of the initial policy.
    moved = (moved - (moved @ prob)[:, None]) * np.sqrt(prob)
    R, square, total = len(moved), (moved**2).sum(1), moved.sum(0)

    def pairs(count: Any, sums: np.ndarray, squares: Any) -> Any:
        return ((sums**2).sum(-1) - squares) / (count * (count - 1))

    mean, without = pairs(R, total, square.sum()), pairs(R - 1, total - moved, square.sum() - square)
    parts = {"drift": (mean, without), "noise": (square.mean() - mean, (square.sum() - square) / (R - 1) - without)}
    rows = []
    for name, (value, left) in parts.items():
        error = math.sqrt((R - 1) / R * float(((left - left.mean()) ** 2).sum()))
        rows.append({"quantity": name, **interval(Estimate(float(value), error, R - 1.0, samples=R))})
    return rows


def interval(found: Estimate) -> dict[str, Any]:
    """Columns of an estimate."""
    reach = uncertainty.critical(0.05, found.freedom) * found.error
    return {"value": found.value, "low": found.value - reach, "high": found.value + reach, "samples": found.samples}
