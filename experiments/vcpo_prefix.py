"""Which ratio survives lag, small batches and long horizons on chains of bits: of sequences, of tokens, geometric?

A tabular study of VCPO's first author (2026), in our reading: a policy writes `horizon` bits and is paid if a fraction
of them is right; data are `lag` versions old, `batch` samples per update; no ratio is truncated unless it says so.
Each bit is right at first with chance 0.7, and the fraction lies 1.3 deviations above, so that about a tenth of the
samples is paid at every horizon. A divergence of one nat a bit from the start policy costs `PRICE` ("penalty"), or
nothing, from a uniform start ("free"). Adam at one rate for all, behind a norm clip of 1; RLOO baseline.
One of lag, batch and horizon is varied around `CENTER` (`sweep`). Rows over `samples` replicates, 95 percent intervals:
return   of the trained policy, exact, mean over the last tenth of the updates
success  its chance to be paid, likewise
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step
from experiments import _vcpo

COLUMNS = ["sweep", "task", "ratio", "lag", "batch", "horizon", "quantity", "value", "low", "high", "samples", "note"]
GROUP, RATE, ABOVE, PRICE, EVERY = 64, 0.05, 1.3, 0.96, 20
CHANCE = {"penalty": 0.7, "free": 0.5}
_OWN: dict[str, Any] = {"advantage": sim.advantages.leave_one_out(), "aggregator": "sequence_sum"}
RATIOS: dict[str, Any] = {
    "sequence": sim.methods.truncated_is("sequence", cap=None, **_OWN),
    "sequence, cut at 8": sim.methods.truncated_is("sequence", cap=8.0, **_OWN),
    "token": sim.methods.truncated_is("token", cap=None, **_OWN),
    "geometric": sim.methods.truncated_is("geometric", cap=None, **_OWN),
}
PLAIN = ("sequence", "token", "geometric")
"""Ratios of all sweeps; truncation is for small batches."""
CENTER: dict[str, Any] = {"lag": 64, "batch": 256, "horizon": 128, "updates": 400, "replicates": 4, "task": "penalty"}
SWEEPS: dict[str, tuple[int, ...]] = {
    "lag": (0, 16, 64, 256, 1000),
    "batch": (8, 64, 512, 2048),
    "horizon": (128, 256, 512, 1024),
}
LONG = 1100
"""Updates of the sweep over lag: the oldest data have to arrive."""
_CELLS: list[dict[str, Any]] = [
    *({**CENTER, "sweep": "lag", "lag": lag, "updates": LONG} for lag in SWEEPS["lag"]),
    *({**CENTER, "sweep": "batch", "batch": batch, "replicates": 4 if batch > 64 else 16} for batch in SWEEPS["batch"]),
    *({**CENTER, "sweep": "horizon", "horizon": horizon} for horizon in SWEEPS["horizon"]),
    *({**CENTER, "sweep": "free", "task": "free", "lag": lag} for lag in (0, 64)),
]
SETTINGS = [
    {**cell, "ratio": ratio, "seed": 0}
    for cell in _CELLS
    for ratio in RATIOS
    if cell["sweep"] == "batch" or ratio in PLAIN
]
QUICK = [
    {**cell, "ratio": ratio, "seed": 0, "updates": 40, "replicates": 2, "horizon": cell["horizon"] // 8}
    | {"batch": max(8, cell["batch"] // 32), "lag": cell["lag"] // 32}
    for cell in _CELLS[::2]
    for ratio in RATIOS
    if cell["sweep"] == "batch" or ratio in PLAIN
]


def fraction(task: str, horizon: int) -> float:
    """Share of right bits that is paid."""
    chance = CHANCE[task]
    return chance + ABOVE * math.sqrt(chance * (1.0 - chance) / horizon)


def chain(task: str, horizon: int) -> Any:
    """The chain with its penalty."""
    chance = CHANCE[task]
    start = np.tile(np.log([chance, 1.0 - chance]), (horizon, 1))
    price: dict[str, Any] = (
        {"kl_coef": PRICE / horizon, "kl_at": "current", "reference": start} if task == "penalty" else {}
    )
    return sim.tasks.bit_chain(horizon, fraction(task, horizon), logits=start, **price)


def success(step: Step) -> Tensor:
    """Chance that the current policy is paid, `[R]`: bits are independent, so chances of counts follow one by one."""
    task: Any = step.task
    right = torch.softmax(step.parameters.reshape(len(step.parameters), -1, 2), -1)[..., 0]
    counts = torch.zeros((len(right), task.horizon + 2), dtype=right.dtype)
    counts[:, 1] = 1.0
    for bit in right.T:
        # Column 0 stays empty: it feeds the count of none.
        counts[:, 1:] = torch.lerp(counts[:, 1:], counts[:, :-1], bit.unsqueeze(-1))
    return counts[:, task.needed + 1 :].sum(-1)


def price(step: Step) -> Tensor:
    """What the current policy pays for its divergence from the start, `[R]`."""
    task: Any = step.task
    if not task.kl_coef:
        return step.parameters.new_zeros(len(step.parameters))
    now = torch.log_softmax(step.parameters.reshape(len(step.parameters), -1, 2), -1)
    start = torch.as_tensor(np.asarray(task.reference), dtype=now.dtype)
    return task.kl_coef * (now.exp() * (now - torch.log_softmax(start, -1))).sum((1, 2))


METRICS = [Metric("success", success), Metric("price", price)]


def spec(setting: dict[str, Any]) -> sim.Spec:
    """One cell: a ratio at a lag, a batch and a horizon."""
    samples = min(setting["batch"], GROUP)
    return sim.Spec(
        chain(setting["task"], setting["horizon"]),
        sim.schedules.fixed(setting["lag"], groups_per_batch=setting["batch"] // samples),
        RATIOS[setting["ratio"]],
        sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(RATE)),
        samples_per_group=samples,
        updates=setting["updates"],
        replicates=setting["replicates"],
        every=min(EVERY, setting["updates"] // 10),
        diagnostics=METRICS,
    )


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one cell."""
    trace = sim.run(spec(setting), seed=setting["seed"], progress=False)
    paid = trace["success"]
    late = slice(-max(1, len(paid) // 10), None)
    found = {"return": paid - trace["price"], "success": paid}
    shared = {name: setting.get(name) for name in COLUMNS}
    return [{**shared, "quantity": name, **_vcpo.mean(values[late].mean(0))} for name, values in found.items()]
