"""Where a block of replicates stands between two batches, and what it leaves behind in the end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from asyncsim.base import records


class Standing(NamedTuple):
    """What the next batch is trained from, beside what feed, source and recorder hold.

    `batch`: its number; `parameters` `[R, P]`; `states` of the update chain's links; `diverged` `[R]`: the update at
    which a replicate left the finite range (-1: never). `memory` of the advantage. `weights`: what is published of
    the parameters, where a program made it, since tensors would give other last bits; else None.
    """

    batch: int
    parameters: Tensor
    states: list[Any]
    diverged: Tensor
    memory: dict[str, Tensor]
    weights: Any = None


class Part(NamedTuple):
    """What a block leaves behind, and how many of its updates were made.

    `axes`: names of the axes of accumulated arrays; `schedule`: the realized one of a coupled system, else None.
    """

    metrics: dict[str, np.ndarray]
    accumulated: dict[str, np.ndarray]
    axes: dict[str, list[str]]
    parameters: np.ndarray
    diverged: np.ndarray
    schedule: records.Schedule | None
    updates: int

    def packed(self) -> dict[str, Any]:
        """The part in plain containers."""
        schedule = None
        if self.schedule is not None:
            arrays, described = self.schedule.packed()
            schedule = [arrays, records.plain(described)]
        return {**self._asdict(), "schedule": schedule}

    @classmethod
    def unpacked(cls, tree: dict[str, Any]) -> Part:
        """The part that `packed` wrote."""
        schedule = None if tree["schedule"] is None else records.Schedule.unpacked(*tree["schedule"])
        return cls(**{**tree, "schedule": schedule})
