"""Multiply the learning rate by a random number: a control with mean and spread of an adaptive rule, without signal."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, rng
from asyncsim.base.knobs import MARK, Number, knob
from asyncsim.step.versions import tensor
from asyncsim.updates._link import Record, State


@dataclass(frozen=True)
class RandomScale:
    """direction * (mean + spread u), u uniform in [-1, 1); see `random_scale`."""

    mean: Any = field(metadata=MARK)
    spread: Any = field(metadata=MARK)
    seed: int
    replicates: np.ndarray | None = field(default=None, repr=False, compare=False)

    def numbered(self, replicates: np.ndarray) -> RandomScale:
        """The same link for replicates with these global numbers."""
        return dataclasses.replace(self, replicates=np.asarray(replicates))

    def init(self, parameters: Tensor) -> State:
        """No update yet."""
        R = parameters.shape[0]
        return {"count": torch.zeros((R, 1), dtype=torch.int64, device=parameters.device)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Scale the direction and report the scale."""
        count = state["count"]
        replicates = np.arange(len(count)) if self.replicates is None else self.replicates
        drawn = rng.Stream(self.seed, "random_scale").uniform(replicates, count[:, 0].cpu().numpy())
        factor = self.mean + self.spread * (2.0 * tensor(drawn).unsqueeze(-1) - 1.0)
        record.statistics["random_scale"] = factor[:, 0]
        record.direction = record.direction * factor.to(record.direction.dtype)
        return record, {"count": count + 1}


def random_scale(mean: Number = 0.5, spread: Number = 0.25, seed: int = 0) -> RandomScale:
    """Random control: step <- (mean + spread u) step, u uniform in [-1, 1), keyed by replicate and update.

    Give mean and spread (sqrt(3) standard deviations) of the scales that `ess_step` reported. Then the first two
    moments stay, and their tie to the batch is cut. A skipped update draws nothing.

    Arguments: `mean` > 0 and `spread` in [0, mean], pure numbers (or one per replicate); `seed`, of the scales alone.
    Returns a link on directions `[R, P]` that reports random_scale, `[R]`. Raises `InputError` for values outside these
    ranges. Source: this package.

    >>> random_scale(0.7, 0.2).mean
    0.7
    """
    middle = knob("mean", mean, "give a positive mean scale", 0.0, open_low=True)
    wide = knob("spread", spread, "give the half width of the scales", 0.0)
    crossed = np.any(np.asarray(wide) > np.asarray(middle))
    checks.require(not crossed, "spread", spread, f"at most mean = {mean}", "a negative scale would turn the step")
    return RandomScale(middle, wide, checks.integer("seed", seed, 0, "give a non-negative integer seed", 2**63 - 1))
