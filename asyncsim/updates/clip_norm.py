"""Clip the norm of the direction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from asyncsim.base.knobs import MARK, knob
from asyncsim.updates._link import Record, State, Stateless, norm


@dataclass(frozen=True)
class ClipNorm(Stateless):
    """direction * min(1, limit / |direction|); see `clip_norm`."""

    limit: Any = field(metadata=MARK)

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Shorten long directions and report the norm before."""
        length = norm(record.direction)
        record.statistics["norm_before_clip"] = length[:, 0]
        # A zero direction gives limit / 0 = inf, clamped to 1. A plain number is made a tensor because torch divides it
        # by way of a reciprocal, rounded twice: one limit for all would differ from the same limit for each.
        limit = torch.as_tensor(self.limit, dtype=length.dtype)
        record.direction = record.direction * torch.clamp(limit / length, max=1.0)
        return record, state


def clip_norm(limit: Any = 1.0) -> ClipNorm:
    """One global norm over all parameters: g <- g min(1, limit / |g|).

    Arguments: `limit` > 0 in units of the direction, a number or one per replicate. Returns a link on directions
    `[R, P]` that reports norm_before_clip, `[R]`. Raises `InputError` for a limit that is not positive. Source:
    textbook (1211.5063, algorithm 1).

    >>> clip_norm(1.0).limit
    1.0
    """
    return ClipNorm(knob("limit", limit, "give a positive norm", 0.0, open_low=True))
