"""What does staleness cost a language model at equal updates under five losses, and what do two of them mask?

Adam at one `rate` for all behind a norm clip, a usual and a bold one, sums, constant `staleness`, one advantage
(GRPO's): no correction, TIS (sequence ratio, cap 8), PPO's clip at 0.2, M2PO's mask at tau = 0.04, GSPO. `return` is
that of the policy that is trained, on fresh samples, at the updates of column `update`. Set before the rows: a run S
behind is at least as good as a fresh run of the same loss S updates ago, and no better than it now (`shifted`).

On every run, whatever its loss, at each eighth update: shares of the tokens with an advantage that PPO's clip (`clip`)
and M2PO's mask (`masked`) would stop, and what they would be (`told_clip`, `told_masked`), if token t had a normal log
ratio with variance in proportion to 1 - 2 p + sum_a p_a^2 and the mean square `square` (nats^2) that was measured, and
its advantage either sign alike (`stopped`). These are means over the run (`update` -1). One row a replicate.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

import asyncsim as sim
from asyncsim.diagnostics import _levels
from asyncsim.step.step import Step
from experiments import _models

DEVICES = ("cpu", "cuda")
COLUMNS = ["model", "rate", "method", "staleness", "update", "seed", "quantity", "value", "samples"]
METHODS = _models.methods()
TAU, CLIP, EVERY = 0.04, 0.2, 8
USUAL, BOLD = 5e-5, 2e-4
"""The best synchronous rate of those tried, and four times that."""
_CHAR = {
    "model": "char",
    "task": "sums",
    "rate": USUAL,
    "updates": 80,
    "groups": 8,
    "samples": 8,
    "replicates": 5,
    "seed": 61,
}
_FRESH = ("no correction", "TIS")
"""On fresh data the other losses do what one of these does."""
SETTINGS = [
    *({**_CHAR, "staleness": 0, "method": name} for name in _FRESH),
    *({**_CHAR, "staleness": 64, "method": name} for name in METHODS),
    *({**_CHAR, "staleness": 16, "method": name} for name in ("PPO clip", "M2PO")),
    *({**_CHAR, "rate": BOLD, "staleness": 64, "method": name} for name in ("no correction", "M2PO", "GSPO")),
    *({**_CHAR, "rate": BOLD, "staleness": 0, "method": name} for name in _FRESH),
]
_FEW = {"recipe": _models.TINY, "groups": 2, "samples": 4, "replicates": 2, "updates": 8}
QUICK = [
    *({**_CHAR, **_FEW, "staleness": 0, "method": name} for name in _FRESH),
    *({**_CHAR, **_FEW, "staleness": 4, "method": name} for name in METHODS),
    *({**_CHAR, **_FEW, "rate": BOLD, "staleness": 4, "method": name} for name in ("no correction", "M2PO", "GSPO")),
    *({**_CHAR, **_FEW, "rate": BOLD, "staleness": 0, "method": name} for name in _FRESH),
]
_LARGE = {"model": "smollm2", "rate": 1e-5, "groups": 16, "samples": 16, "micro_batch": 64}
GPU = [*_models.larger(SETTINGS), *_models.larger(SETTINGS[:10], **_LARGE)]


class Shares:
    """Means over every eighth update of what a clip and a mask would stop, measured and as predicted, `[R]`."""

    name, outputs = "shares", ("log_prob",)

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {}

    def fresh(self) -> Shares:
        """One that has seen nothing."""
        return Shares()

    def observe(self, step: Step) -> None:
        """Look at the batch when due; one replicate is computed at a time."""
        if step.update % EVERY != EVERY - 1:
            return
        active = (_levels.advantages(step) != 0).expand(step.mask.shape) & (step.mask > 0)
        if not bool(active.any()):
            return
        for name, method in (("clip", METHODS["PPO clip"]), ("masked", METHODS["M2PO"])):
            other = dataclasses.replace(step, method=method, statistics={})
            self.note(name, _levels.stopped(other)[active].double().mean())
        square = (step.log_ratio[active].double() ** 2).mean()
        norms = step.row_norms[active].double()
        deviation = (square * norms / norms.mean()).sqrt()
        self.note("square", square)
        for name, value in zip(("told_clip", "told_masked"), stopped(deviation), strict=True):
            self.note(name, value)

    def note(self, name: str, value: Any) -> None:
        """Keep a value."""
        self.found.setdefault(name, []).append(float(value))

    def result(self) -> dict[str, np.ndarray]:
        """Their means."""
        return {name: np.array([np.mean(values)]) for name, values in self.found.items()}


def stopped(deviation: Tensor) -> tuple[float, float]:
    """Shares of tokens with normal log ratios, deviations `[n]` in nats, that clip and mask stop.

    Half of the tokens are harmful, whatever their size. The mask keeps |l| <= z with E[l^2; |l| <= z] = tau P(|l| <= z)
    over all of them, everything if E l^2 <= tau.
    """
    small = deviation.clamp(min=1e-12)

    def beyond(z: float) -> float:
        return float(torch.special.erfc(z / small / math.sqrt(2.0)).mean())

    clip = 0.25 * (beyond(math.log(1.0 + CLIP)) + beyond(-math.log(1.0 - CLIP)))

    def excess(z: float) -> float:
        x = z / small
        density = torch.exp(-0.5 * x * x) * math.sqrt(2.0 / math.pi)
        inside = small**2 * (torch.special.erf(x / math.sqrt(2.0)) - x * density)
        return float(inside.mean()) - TAU * (1.0 - beyond(z))

    if float((deviation**2).mean()) <= TAU:
        return clip, 0.0
    low, high = 0.0, 10.0 * float(deviation.max())
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return clip, 0.5 * beyond(low)


def shifted(updates: np.ndarray, fresh: np.ndarray, staleness: int) -> np.ndarray:
    """Return of a fresh run `staleness` updates ago, between the updates at which it is known; its first before."""
    return np.interp(updates - staleness, updates, fresh)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one loss at one staleness."""
    more = {"method": METHODS[setting["method"]]}
    spec = _models.spec(setting, setting["staleness"], setting["updates"], ["trained_return", Shares()], **more)
    trace = sim.run(spec, seed=setting["seed"], progress=False)
    shared = {**_models.place(setting, COLUMNS), "samples": setting["groups"] * setting["samples"]}
    returns = trace["trained_return"]
    rows = []
    for update in np.flatnonzero(np.isfinite(returns).all(1)):
        for seed, value in enumerate(returns[update]):
            rows.append({"update": int(update), "seed": seed, "quantity": "return", "value": float(value)})
    for quantity, values in trace.accumulated.items():
        for seed, value in enumerate(values):
            rows.append({"update": -1, "seed": seed, "quantity": quantity, "value": float(value)})
    return [{**shared, **row} for row in rows]
