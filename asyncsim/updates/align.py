"""Gradient alignment control: project or skip when consecutive gradients align (a reconstruction)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.knobs import MARK, Number, knob
from asyncsim.updates._link import Record, State
from asyncsim.updates._moments import cosine, forgotten, remembered


@dataclass(frozen=True)
class Align:
    """Remove the component along the previous direction above `low`, skip above `high`; see `align`."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)
    strength: Any = field(metadata=MARK)
    reference: str
    refresh: bool
    removal: str = "project"

    def init(self, parameters: Tensor) -> State:
        """No reference yet: the first update passes."""
        return {"reference": torch.zeros_like(parameters)}

    def lost(self, state: State, flag: Tensor) -> State:
        """A direction that was lost leaves nothing to compare the next one with."""
        return {"reference": forgotten(state["reference"], flag)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Pass, project or skip each replicate by its cosine to the reference."""
        g, previous = record.direction, state["reference"]
        kappa, inner = cosine(g, previous)
        # NaN (no reference, zero or broken gradient) compares false twice: the update passes as it is.
        skip, project = kappa > self.high, (kappa > self.low) & ~(kappa > self.high)
        applied = torch.where(project, g - self._removed(kappa, inner, previous).to(g.dtype), g)
        invalid = torch.isnan(kappa)
        for name, flag in (("projected", project), ("skipped", skip), ("invalid", invalid)):
            record.statistics[f"align_{name}"] = flag[:, 0].double()
        record.statistics["align_cosine"] = kappa[:, 0]
        record.direction, record.skip = applied, record.skip | skip[:, 0]
        reference = remembered({"raw": g, "applied": applied}[self.reference])
        # A skipped update applies nothing, so it has no applied direction to remember.
        renews = skip.logical_not() | (self.refresh and self.reference == "raw")
        return record, {"reference": torch.where(renews, reference, previous)}

    def _removed(self, kappa: Tensor, inner: Tensor, previous: Tensor) -> Tensor:
        """What is taken from the gradient, along the reference."""
        square = (previous.double() ** 2).sum(-1, keepdim=True)
        along = self.strength * inner / torch.where(square > 0, square, torch.ones_like(square))
        if self.removal == "shrink":
            # a' / sqrt(a'^2 + b^2) = low with the orthogonal part b kept: of a = |g| kappa remains a' = b tan.
            low = torch.as_tensor(self.low, dtype=kappa.dtype)
            remains = low * (1.0 - kappa**2).clamp(min=0.0).sqrt() / (kappa * (1.0 - low**2).sqrt())
            along = along * (1.0 - remains)
        return along * previous


def align(
    low: Number = 0.05,
    high: Number = 0.3,
    strength: Number = 1.0,
    reference: str = "raw",
    refresh: bool = True,
    removal: str = "project",
) -> Align:
    """Gradient alignment control: project or skip by kappa = cos(g_t, g_ref), a reconstruction.

    kappa <= low: unchanged; low < kappa <= high: g - strength (<g, g_ref>/|g_ref|^2) g_ref, or with removal "shrink" as
    much of that as leaves kappa = low (strength 1); kappa > high: skip the update. Without a valid kappa (first update,
    a gradient that is zero or not finite, here or one update before) the update passes as it is and is counted as
    invalid. Such a gradient clears the reference, also where `skip_nonfinite` stands before.

    Placement: before `adam` raw gradients are compared and the projection reaches both moments. The second shrinks,
    which inflates the step along the old direction. Behind `adam` steps are compared, and momentum alone aligns them.

    Arguments: `low` <= `high`, cosines in [-1, 1], and `strength` >= 0, pure numbers (or one per replicate);
    `reference`, the previous "raw" gradient or the "applied" direction; `refresh`, whether a skipped update renews a
    raw reference; `removal`, "project" or "shrink" (needs low in [0, 1)). `high=1.0` never skips, `low=0.0, high=1.0`
    is full projection; `low` has to exceed the cosine of unrelated vectors, about 1/sqrt(P). Returns a link on
    directions `[R, P]` that reports align_cosine, align_projected, align_skipped and align_invalid, `[R]`. Raises
    `InputError` for values outside these ranges. Source: the idea of 2603.01501 from its abstract; thresholds,
    projection and reference are ours and are options.

    >>> align(high=1.0).low
    0.05
    """
    checks.boolean("refresh", refresh, "say whether a skipped update renews the reference")
    checks.one_of("reference", reference, ("raw", "applied"), "say which direction is remembered")
    checks.one_of("removal", removal, ("project", "shrink"), "say how much of the parallel part is removed")
    lower = knob("low", low, "give a cosine", -1.0, 1.0)
    upper = knob("high", high, "give a cosine; 1 never skips", -1.0, 1.0)
    crossed = np.any(np.asarray(lower) > np.asarray(upper))
    checks.require(not crossed, "low", low, f"at most high = {high}", "projection comes before skipping")
    inside = np.all((np.asarray(lower) >= 0.0) & (np.asarray(lower) < 1.0))
    checks.require(
        removal == "project" or bool(inside), "low", low, "in [0, 1) for removal='shrink'", "shrinking keeps the sign"
    )
    force = knob("strength", strength, "1 removes the whole component", 0.0)
    return Align(lower, upper, force, reference, refresh, removal)
