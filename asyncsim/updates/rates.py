"""Learning rates that change in the course of a run."""

import math
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.parts import choice, number, whole
from asyncsim.updates._link import Record, State, link


@link("textbook", reports="lr_schedule_scale, a pure number")
class lr_schedule:
    """Warm-up and decay of the learning rate: a factor on the step that depends on the number of the update.

    step <- f_t step, t = 0, 1, ... counts updates that were not skipped. f_t = (t + 1) / warmup in the first `warmup`
    updates. Behind them, with p the share of the remaining updates up to `updates` that is over, f_t = floor + (1 -
    floor) g: g = 1 for "constant", 1 - p for "linear", (1 + cos(pi p)) / 2 for "cosine"; from update `updates` on it
    stays. Put it behind `adam`, `adamw` or `sgd`, whose learning rate is then the highest.
    """

    warmup: int = whole(0, "updates of the warm-up", 0, checks.LARGEST, remedy="0 begins with the whole rate")
    decay: str = choice("constant", "linear", "cosine", words="how it falls")
    updates: int | None = whole(None, "updates at whose end the decay is over", 1, checks.LARGEST, optional=True)
    floor: Any = number(0.0, "share of the learning rate that is left at the end", 0.0, 1.0)

    @staticmethod
    def joint(warmup: int, decay: str, updates: int | None, **_: Any) -> None:
        """A decay has an end, behind the warm-up."""
        if decay == "constant":
            return
        checks.require(updates is not None, "updates", updates, "given for a decay", "give the updates of the run")
        assert updates is not None
        checks.require(updates > warmup, "updates", updates, f"more than warmup = {warmup}", "shorten the warm-up")

    def init(self, parameters: Tensor) -> State:
        return {"count": torch.zeros((parameters.shape[0], 1), dtype=torch.float64, device=parameters.device)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        count = state["count"]
        factor = torch.clamp((count + 1.0) / max(1, self.warmup), max=1.0)
        if self.decay != "constant":
            assert self.updates is not None
            over = torch.clamp((count - self.warmup) / (self.updates - self.warmup), 0.0, 1.0)
            left = 1.0 - over if self.decay == "linear" else 0.5 * (1.0 + torch.cos(math.pi * over))
            factor = factor * (self.floor + (1.0 - self.floor) * left)
        record.statistics["lr_schedule_scale"] = factor[:, 0]
        record.direction = record.direction * factor.to(record.direction.dtype)
        return record, {"count": count + 1.0}
