"""The trace of a run from what its blocks left behind."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from asyncsim.base import manifest
from asyncsim.base.trace import Trace
from asyncsim.diagnostics import _ranges
from asyncsim.running.sources import Source
from asyncsim.running.spec import Spec
from asyncsim.running.standing import Part


def trace_of(spec: Spec, seed: int, source: Source, parts: list[Part], by: str | None = None) -> Trace:
    """The trace of all blocks, or of those that a signal, named in `by`, left time for.

    Blocks give their recorded numbers up: a long run holds them once.
    """
    if source.coupled:
        # Schedules have as many batches as the first or cannot stand beside it.
        parts = list(itertools.takewhile(lambda part: part.updates == parts[0].updates, parts))
    # Describe the run in the header; blocks side by side end at several updates.
    longest = max(parts, key=lambda part: part.updates)
    made = longest.updates
    header: dict[str, Any] = {"spec": spec.describe(), "manifest": manifest.manifest(seed=seed, device=spec.device)}
    if (frozen := getattr(spec.trained_policy, "frozen", None)) is not None:
        header["manifest"]["weights"] = frozen
    sizes = [len(part.parameters) for part in parts]
    R = sum(sizes)
    if by is not None:
        complete = sum(size for size, part in zip(sizes, parts, strict=True) if part.updates == spec.updates)
        counts = {"replicates": R, "of_replicates": spec.replicates, "complete": complete}
        least = min(part.updates for part in parts)
        header["partial"] = {"by": by, "updates": least, "of": spec.updates, **counts}
    header["settings"] = {name: list(values[:R]) for name, values in spec.settings().items()}
    # Join the blocks.
    metrics = _join([part.metrics for part in parts], sizes, longest.metrics)
    header["ranges"] = _ranges.declared(metrics, spec.recorded[0])
    if longest.axes:
        header["axes"] = longest.axes
    return Trace(
        metrics=metrics,
        updates=np.arange(0, made, spec.every),
        accumulated=_join([part.accumulated for part in parts], sizes, longest.accumulated),
        parameters=np.concatenate([part.parameters for part in parts]),
        diverged=np.concatenate([part.diverged for part in parts]),
        realization=source.realization[:R],
        schedule=source.recorded(parts, made),
        header=header,
    )


def _join(
    parts: list[dict[str, np.ndarray]], sizes: list[int], longest: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Arrays of all blocks, of so many replicates each, beside one another; as long as those of the longest."""
    if len(parts) == 1:
        return longest  # nothing to join, and nothing to hold twice
    joined = {}
    for name, like in list(longest.items()):
        rows = [_pad(each.pop(name, None), like, n) for each, n in zip(parts, sizes, strict=True)]
        joined[name] = np.concatenate(rows, axis=-1)
    return joined


def _pad(values: np.ndarray | None, like: np.ndarray, size: int) -> np.ndarray:
    """The array with as many rows as that of another block; rows that a stopped block has not reached are missing."""
    if values is not None and values.shape[:-1] == like.shape[:-1]:
        return values
    rows = np.full((*like.shape[:-1], size), math.nan)
    if values is not None:
        rows[: len(values)] = values
    return rows
