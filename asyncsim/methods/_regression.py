"""Score weights that are residuals of a regression: an advantage less what the policy has moved already."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim.base.knobs import MARK, per_sample
from asyncsim.methods._weights import Weight
from asyncsim.step.step import Step


@dataclass(frozen=True, kw_only=True)
class Residual(Weight):
    """c = A - tau x, x the log ratio to the anchor of the token or of the sequence (`level`)."""

    level: str
    tau: Any = field(metadata=MARK)

    anchored: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        """What multiplies the advantage: 1."""
        return torch.ones_like(step.mask[..., :1])

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """A less tau times the log ratio."""
        gap = step.sequence(step.anchored) if self.level == "sequence" else step.anchored
        return closed(step, advantage - per_sample(self.tau) * gap)


def closed(step: Step, residual: Tensor) -> Tensor:
    """Residuals with 0 where they are not finite; how many of the samples (or tokens) those are is reported.

    A residual enters linearly, so finite ones are used as they are, however large.
    """
    finite = residual.isfinite()
    missing = ~finite & (step.mask > 0) if residual.shape[-1] > 1 else ~finite
    step.statistics["residual_nonfinite"] = missing.sum((1, 2, 3)).double()
    return torch.where(finite, residual, torch.zeros_like(residual))
