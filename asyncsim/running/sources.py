"""Sources of a run: its schedule and the share of it for each block; and the trace from the results of all blocks."""

import itertools
import math
import warnings
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import calls, checks, manifest, records
from asyncsim.base.feeds import EagerFeed, head
from asyncsim.base.trace import Trace
from asyncsim.diagnostics import _diagnostic
from asyncsim.running.spec import Spec
from asyncsim.running.updating import Part
from asyncsim.step.step import OUTSIDE


class Shared(NamedTuple):
    """Values that all blocks of a run share: spec, seed, and number of batches per block."""

    spec: Spec
    seed: int
    batches: int


class Cut(NamedTuple):
    """One block of replicates, and the part of the run's schedule that it reads.

    `replicates`: their global numbers `[R]`; `schedule`: the realizations that they read, None if each block steps its
    own; `realization`: the row of each replicate `[R]`.
    """

    replicates: np.ndarray
    schedule: records.Schedule | None
    realization: np.ndarray

    def __reduce__(self) -> Any:
        """Pickle for other processes, without repeated rows of broadcast axes."""
        if self.schedule is None:
            return Cut, tuple(self)
        arrays, scalars = self.schedule.packed()
        slim = {
            name: (each[tuple(slice(0, 1 if stride == 0 else None) for stride in each.strides)], each.shape)
            for name, each in arrays.items()
        }
        return _whole, (self.replicates, slim, scalars, self.realization)

    def feed(self, spec: Spec, batches: int, seed: int) -> Any:
        """Feed of `batches` batches for a block; a coupled system is stepped from the same keys in any process."""
        if self.schedule is not None:
            return EagerFeed(self.schedule if spec.rewards is None else spec.rewards.scheduled(self.schedule))
        size = len(self.replicates)
        first = int(self.replicates[0])
        return spec.system.feed(batches, spec.samples, spec.task.horizon, size, seed, first=first)


def _whole(replicates: np.ndarray, slim: dict[str, Any], scalars: dict[str, Any], realization: np.ndarray) -> Cut:
    arrays = {name: np.broadcast_to(values, shape) for name, (values, shape) in slim.items()}
    return Cut(replicates, records.Schedule.unpacked(arrays, scalars), realization)


class Source:
    """Schedule of a run, simulated once if it does not depend on the policy, else stepped by each block."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self.spec, self.seed, system = spec, seed, spec.system
        saved = isinstance(system, records.Schedule)
        self.coupled = not saved and system.coupled
        bound = f"a multiple of {spec.passes}, updates on a batch (epochs = {spec.rounds}, minibatches = {spec.parts})"
        checks.require(spec.updates % spec.passes == 0, "updates", spec.updates, bound, "whole batches are trained")
        self.batches = spec.updates // spec.passes
        self.shared = Shared(spec, seed, self.batches)
        fits = spec.realizations is None or not (saved or self.coupled)
        bound = "absent with a saved or coupled schedule"
        checks.require(fits, "realizations", spec.realizations, bound, "its realizations are its own")
        if saved:
            self._check_saved(system)
            count = system.realizations
        elif self.coupled:
            count = spec.replicates
        else:
            count = min(spec.realizations or system.realizations(spec.replicates), spec.replicates)
        self.realization = np.arange(spec.replicates) % count
        self.schedule = None
        if saved:
            self.schedule = system
        elif not self.coupled:
            self.schedule = system.schedule(self.batches, spec.samples, spec.task.horizon, count, seed)
        fits = self.schedule is None or int(self.schedule.version.min()) >= 0
        remedy = "data of unknown version cannot be drawn again; drop those trajectories"
        checks.require(fits, "schedule.version", -1, "known for every token", remedy)

    def cut(self, replicates: np.ndarray) -> Cut:
        """The part of the run's schedule that a block of replicates reads."""
        if self.schedule is None:
            return Cut(replicates, None, np.arange(len(replicates)))
        rows, position = np.unique(self.realization[replicates], return_inverse=True)
        whole = len(rows) == self.schedule.realizations
        return Cut(replicates, head(self.schedule, self.batches, None if whole else rows), position)

    def recorded(self, blocks: list[Part], updates: int) -> records.Schedule:
        """Realized schedule of all blocks of a run, up to a number of updates."""
        if self.schedule is not None:
            return head(self.schedule, updates // self.spec.passes)
        arrays, scalars = zip(*(block.schedule.packed() for block in blocks if block.schedule is not None), strict=True)
        joined = {name: np.concatenate([each[name] for each in arrays]) for name in arrays[0]}
        return records.Schedule.unpacked(joined, scalars[0])

    def _check_saved(self, schedule: records.Schedule) -> None:
        spec = self.spec
        bound = f"at most {schedule.batches * spec.passes}, the schedule's length"
        checks.require(schedule.batches >= self.batches, "updates", spec.updates, bound, "save a longer schedule")
        fits = schedule.version.shape[3] == spec.samples
        bound = f"{schedule.version.shape[3]}, as in the schedule"
        checks.require(fits, "samples_per_group", spec.samples, bound, "use the group size it was made for")
        fits = schedule.version.shape[4] in (1, spec.task.horizon)
        bound = f"1 or the task's horizon {spec.task.horizon}"
        checks.require(fits, "schedule tokens", schedule.version.shape[4], bound, "use the task it was made for")
        for extreme in (int(schedule.trajectory.min()), int(schedule.trajectory.max())):
            checks.require(0 <= extreme < 1 << 32, "schedule.trajectory", extreme, "in [0, 2^32)", "ids key the draws")
        bound, remedy = f"at least {schedule.realizations}, the schedule's realizations", "raise replicates"
        checks.require(schedule.realizations <= spec.replicates, "replicates", spec.replicates, bound, remedy)


def trace_of(spec: Spec, seed: int, source: Source, parts: list[Part], by: str | None = None) -> Trace:
    """Trace of all blocks of a run, or of the blocks trained before the signal named in `by`."""
    if source.coupled:
        # Schedules have as many batches as the first or cannot stand beside it.
        parts = list(itertools.takewhile(lambda part: part.updates == parts[0].updates, parts))
    # Describe the run in the header; blocks side by side end at several updates.
    longest = max(parts, key=lambda part: part.updates)
    made = longest.updates
    header: dict[str, Any] = {"spec": spec.describe(), "manifest": manifest.manifest(seed=seed, device=spec.device)}
    if (frozen := getattr(spec.trained_policy, "frozen", None)) is not None:
        header["manifest"]["weights"] = frozen
    if digest := getattr(spec.task, "digest", ""):
        header["manifest"]["data"] = digest
    with suppress(checks.InputError):  # one that no file can hold
        header["policy"] = calls.written("policy", spec.trained_policy)
    sizes = [len(part.parameters) for part in parts]
    R = sum(sizes)
    if by is not None:
        complete = sum(size for size, part in zip(sizes, parts, strict=True) if part.updates == spec.updates)
        counts = {"replicates": R, "of_replicates": spec.replicates, "complete": complete}
        header["partial"] = {"by": by, "updates": min(part.updates for part in parts), "of": spec.updates, **counts}
    header["settings"] = {name: list(values[:R]) for name, values in spec.settings().items()}
    metrics = _join([part.metrics for part in parts], sizes, longest.metrics)
    header["ranges"] = _diagnostic.declared_ranges(metrics, spec.recorded[0], spec.fitted_task.earnings)
    for name in [name for name in metrics if name.endswith("_skipped")]:
        # Replicates that diverged have no number.
        share = np.nan_to_num(metrics[name]).mean()
        if share > 0.5:
            text = f"{name.removesuffix('_skipped')}: {share:.0%} of the recorded updates were skipped"
            remedy = "the policy stood still there: change its settings (asyncsim list updates), or what makes it skip"
            warnings.warn(checks.RunWarning(f"{text}; {remedy}"), stacklevel=2)
    if "gradient_norm" in metrics and not metrics["gradient_norm"].any():
        text = "gradient_norm is 0 in every recorded update, so nothing was learned"
        remedy = "are the rewards of a group all alike? For your own loss run asyncsim conformance FILE:LOSS"
        warnings.warn(checks.RunWarning(f"{text}; {remedy}"), stacklevel=2)
    outside = np.nan_to_num(metrics.get(OUTSIDE, np.zeros(1)))
    if outside.any():
        text = f"{outside.mean():.2%} of the trained tokens, {outside.max():.2%} at most, were outside the nucleus"
        remedy = "the trainer gives them the ratio 0: truncate='sampler' scores the whole softmax"
        warnings.warn(checks.RunWarning(f"{text} of the current policy ({OUTSIDE}); {remedy}"), stacklevel=2)
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
    """Concatenate the arrays of all blocks, padded to the length of the longest."""
    if len(parts) == 1:
        return longest  # nothing to join, and nothing to hold twice
    joined = {}
    for name, like in list(longest.items()):
        rows = [_pad(each.pop(name, None), like, n) for each, n in zip(parts, sizes, strict=True)]
        joined[name] = np.concatenate(rows, axis=-1)
    return joined


def _pad(values: np.ndarray | None, like: np.ndarray, size: int) -> np.ndarray:
    """Pad an array to the rows of another block's; rows that a stopped block has not reached are missing."""
    if values is not None and values.shape[:-1] == like.shape[:-1]:
        return values
    text = like.dtype.kind == "U"
    rows = np.full((*like.shape[:-1], size), "" if text else math.nan)
    if text:
        rows = rows.astype(like.dtype if values is None else np.result_type(like, values))
    if values is not None:
        rows[: len(values)] = values
    return rows
