"""Gradient alignment control: project or skip when consecutive gradients align (a reconstruction)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import checks
from asyncsim.knobs import MARK, knob
from asyncsim.updates._link import Record, State


@dataclass(frozen=True)
class Align:
    """Remove the component along the previous direction above `low`, skip above `high`; see `align`."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)
    strength: Any = field(metadata=MARK)
    reference: str
    refresh: bool

    def init(self, parameters: Tensor) -> State:
        """No reference yet: the first update passes."""
        return {"reference": torch.zeros_like(parameters)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Pass, project or skip each replicate by its cosine to the reference."""
        g, previous = record.direction, state["reference"]
        inner = (g.double() * previous.double()).sum(-1, keepdim=True)
        square = (previous.double() ** 2).sum(-1, keepdim=True)
        # Rounding may carry the cosine of parallel vectors beyond 1, which `high=1.0` promises never to skip.
        cosine = (inner / (square.sqrt() * g.double().norm(dim=-1, keepdim=True))).clamp(-1.0, 1.0)
        # NaN (no reference, zero or broken gradient) compares false twice: the update passes as it is.
        skip, project = cosine > self.high, (cosine > self.low) & ~(cosine > self.high)
        along = (self.strength * inner / torch.where(square > 0, square, torch.ones_like(square)) * previous).to(
            g.dtype
        )
        applied = torch.where(project, g - along, g)
        record.statistics["align_cosine"] = cosine[:, 0]
        record.statistics["align_projected"] = project[:, 0].double()
        record.statistics["align_skipped"] = skip[:, 0].double()
        record.direction, record.skip = applied, record.skip | skip[:, 0]
        kept = {"raw": g, "applied": applied}[self.reference]
        # A skipped update applies nothing, so it has no applied direction to remember.
        renews = skip.logical_not() | (self.refresh and self.reference == "raw")
        usable = torch.isfinite(kept).all(-1, keepdim=True) & renews
        return record, {"reference": torch.where(usable, kept, previous)}


def align(low: Any = 0.05, high: Any = 0.3, strength: Any = 1.0, reference: str = "raw", refresh: bool = True) -> Align:
    """Gradient alignment control: project or skip by kappa = cos(g_t, g_ref), a reconstruction.

    kappa <= low: unchanged; low < kappa <= high: g - strength (<g, g_ref>/|g_ref|^2) g_ref; kappa > high: skip the
    update. Without a reference (first update) and for a gradient that is zero or not finite the update passes as it is.

    Arguments: `low` <= `high`, cosines in [-1, 1], and `strength` >= 0, pure numbers (or one per replicate);
    `reference`, the previous "raw" gradient or the "applied" direction; `refresh`, whether a skipped update renews a
    raw reference. `high=1.0` never skips, `low=0.0, high=1.0` is full projection; `low` has to exceed the cosine of
    unrelated vectors, about 1/sqrt(P). Returns a link on directions `[R, P]` that reports align_cosine, align_projected
    and align_skipped, `[R]`. Raises `InputError` for values outside these ranges. Source: the idea of 2603.01501 from
    its abstract; thresholds, projection and reference are ours and are options.

    >>> align(high=1.0).low
    0.05
    """
    checks.boolean("refresh", refresh, "say whether a skipped update renews the reference")
    checks.one_of("reference", reference, ("raw", "applied"), "say which direction is remembered")
    lower = knob("low", low, "give a cosine", -1.0, 1.0)
    upper = knob("high", high, "give a cosine; 1 never skips", -1.0, 1.0)
    crossed = np.any(np.asarray(lower) > np.asarray(upper))
    checks.require(not crossed, "low", low, f"at most high = {high}", "projection comes before skipping")
    return Align(lower, upper, knob("strength", strength, "1 removes the whole component", 0.0), reference, refresh)
