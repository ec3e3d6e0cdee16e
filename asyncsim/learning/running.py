"""`run`: from a spec and a seed to a trace, in blocks of replicates."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from asyncsim.base import checks, knobs, manifest, memory, records, stopping
from asyncsim.base.feeds import EagerFeed, head
from asyncsim.base.progress import Progress
from asyncsim.base.trace import Trace
from asyncsim.diagnostics import _price, _ranges
from asyncsim.diagnostics._diagnostic import Recorder, chosen
from asyncsim.learning import versions
from asyncsim.learning.drawing import COUPLED, DRAWING
from asyncsim.learning.loop import Plan, run_block
from asyncsim.learning.rollouts import Sampler
from asyncsim.learning.spec import Spec, initial_rows

FINITE = {"float64": 1e150, "float32": 1e18}
"""A replicate whose parameters reach this norm is frozen: their squares would overflow next."""


class Interrupted(stopping.Stopped):
    """Ctrl-C ended a run behind a batch; `trace` has what was recorded until then, None where nothing was.

    `trace.partial` says how far it came.
    """

    def __init__(self, trace: Trace | None, number: int) -> None:
        self.trace, self.number = trace, number
        self.by = by = stopping.NAMES[number]
        far = "before its first batch was trained" if trace is None else f"after {how_far(trace)}"
        super().__init__(f"stopped by {by} {far}" + ("" if trace is None else "; .trace has what was recorded"))


def run(spec: Spec, seed: int = 0, progress: bool | None = None) -> Trace:
    """Simulate the system, train the policies on its staleness, and return the trace.

    The result depends on the spec and the seed only: not on blocks, nor on when trajectories are drawn (for networks:
    up to rounding).
    `progress`: say how far a long run has come (default: a bar on a terminal, elsewhere a line every half minute).

    Ctrl-C ends the run behind the batch that is being trained and raises `Interrupted`, a KeyboardInterrupt. Its
    `trace` has all updates so far. A second Ctrl-C ends the run at once.

    Raises `InputError` for a schedule that does not fit, NaN rewards, or parts that contradict each other.

    >>> import asyncsim as sim
    >>> update = sim.chain(sim.updates.sgd(0.1))
    >>> spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(2), sim.methods.reinforce(), update,
    ...                 updates=3, replicates=4)
    >>> run(spec, seed=0)["gradient_norm"].shape
    (3, 4)
    """
    checks.require(isinstance(spec, Spec), "spec", spec, "a Spec", "write sim.Spec(task, system, method, update)")
    checks.integer("seed", seed, 0, "give a non-negative integer seed", 2**63 - 1)
    # Prepare the schedule and the blocks.
    source = _Source(spec, seed)
    block = spec.together
    policy = spec.trained_policy
    starts = range(0, spec.replicates, block)
    if policy.precision == "float32":
        memory.keep()
    _announce_prices(spec)
    # Run block after block.
    parts: list[_Part] = []
    with stopping.deferred() as received:
        with (
            Progress("updates", spec.updates * len(starts), progress) as bar,
            torch.no_grad(),
            _threads(policy.threads),
            _on(spec.device),
        ):
            for start in starts:
                if received:
                    break
                replicates = np.arange(start, min(start + block, spec.replicates))
                parts.append(_run_part(spec, seed, source, replicates, bar, received))
        # Still deferred: a signal now must not lose a run that is over.
        by = stopping.NAMES[received[0]] if received else None
        trace = _trace(spec, seed, source, parts, by) if parts else None
    if received:
        raise Interrupted(trace, received[0])
    assert trace is not None
    return trace


def _announce_prices(spec: Spec) -> None:
    """One line on stderr where metrics that list every outcome take longer than a glance."""
    price = spec.price(chosen(spec.diagnostics, spec.trained_policy)[0])
    if price.in_all >= _price.NOTED:
        print(f"asyncsim: {price}", file=sys.stderr, flush=True)


def how_far(trace: Trace) -> str:
    """How much of a run a partial trace has, in words."""
    partial = trace.partial
    if partial is None:
        return "all updates"
    text = f"{partial['updates']} of {partial['of']} updates"
    if partial["complete"] or partial["replicates"] < partial["of_replicates"]:
        text += f" ({partial['complete']} of {partial['of_replicates']} replicates complete)"
    return text


class _Source:
    """The schedule of a run: made once when it can be known beforehand, stepped block by block when it cannot."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self.spec, self.seed, system = spec, seed, spec.system
        saved = isinstance(system, records.Schedule)
        self.coupled = not saved and system.coupled
        checks.require(
            spec.updates % spec.passes == 0,
            "updates",
            spec.updates,
            f"a multiple of epochs = {spec.passes}",
            "whole batches are trained",
        )
        # Count batches and realizations.
        self.batches = spec.updates // spec.passes
        checks.require(
            spec.realizations is None or not (saved or self.coupled),
            "realizations",
            spec.realizations,
            "absent with a saved or coupled schedule",
            "its realizations are its own",
        )
        if saved:
            self._check_saved(system)
            count = system.realizations
        elif self.coupled:
            count = spec.replicates
        else:
            count = min(spec.realizations or system.realizations(spec.replicates), spec.replicates)
        # Spread replicates over the schedule.
        self.realization = np.arange(spec.replicates) % count
        self.schedule = None
        if saved:
            self.schedule = system
        elif not self.coupled:
            self.schedule = system.schedule(self.batches, spec.samples_per_group, spec.task.horizon, count, seed)
        checks.require(
            self.schedule is None or int(self.schedule.version.min()) >= 0,
            "schedule.version",
            -1,
            "known for every token",
            "data of unknown version cannot be drawn again; drop those trajectories",
        )

    def feed(self, replicates: np.ndarray) -> tuple[Any, np.ndarray]:
        """A feed for a block of replicates, and the realization that each of them reads from it."""
        spec = self.spec
        if self.schedule is None:
            feed = spec.system.feed(
                self.batches,
                spec.samples_per_group,
                spec.task.horizon,
                len(replicates),
                self.seed,
                first=int(replicates[0]),
            )
            return feed, np.arange(len(replicates))
        rows, position = np.unique(self.realization[replicates], return_inverse=True)
        whole = len(rows) == self.schedule.realizations
        return EagerFeed(head(self.schedule, self.batches, None if whole else rows)), position

    def recorded(self, feeds: list[Any], updates: int) -> records.Schedule:
        """The realized schedule of all blocks, as far as so many updates go."""
        if self.schedule is not None:
            return head(self.schedule, updates // self.spec.passes)
        parts = [feed.record() for feed in feeds]
        names = ("version", "trajectory", "work", "seconds")
        known = {name: [getattr(part, name) for part in parts] for name in names if getattr(parts[0], name) is not None}
        return dataclasses.replace(parts[0], **{name: np.concatenate(arrays) for name, arrays in known.items()})

    def _check_saved(self, schedule: records.Schedule) -> None:
        spec = self.spec
        checks.require(
            schedule.batches >= self.batches,
            "updates",
            spec.updates,
            f"at most {schedule.batches * spec.passes}, the schedule's length",
            "save a longer schedule",
        )
        # Match group size and horizon.
        checks.require(
            schedule.version.shape[3] == spec.samples_per_group,
            "samples_per_group",
            spec.samples_per_group,
            f"{schedule.version.shape[3]}, as in the schedule",
            "use the group size it was made for",
        )
        checks.require(
            schedule.version.shape[4] in (1, spec.task.horizon),
            "schedule tokens",
            schedule.version.shape[4],
            f"1 or the task's horizon {spec.task.horizon}",
            "use the task it was made for",
        )
        # Bound ids and realizations.
        for extreme in (int(schedule.trajectory.min()), int(schedule.trajectory.max())):
            checks.require(0 <= extreme < 1 << 32, "schedule.trajectory", extreme, "in [0, 2^32)", "ids key the draws")
        checks.require(
            schedule.realizations <= spec.replicates,
            "replicates",
            spec.replicates,
            f"at least {schedule.realizations}, the schedule's realizations",
            "raise replicates",
        )


class _Part(NamedTuple):
    """What a block leaves behind, and how many of its updates were made."""

    metrics: dict[str, np.ndarray]
    accumulated: dict[str, np.ndarray]
    parameters: np.ndarray
    diverged: np.ndarray
    feed: Any
    updates: int


def _run_part(
    spec: Spec, seed: int, source: _Source, replicates: np.ndarray, bar: Progress, received: list[int]
) -> _Part:
    policy = spec.trained_policy
    feed, realization = source.feed(replicates)
    # Gather sampler, recorder and progress.
    sampler = Sampler(spec.fitted_task, policy, spec.samples_per_group, seed, replicates, realization)
    recorder = Recorder(spec.diagnostics, policy, spec.every, len(replicates), policy.size)
    before = bar.done

    def progress(updates: int) -> bool:
        bar.add(updates)
        return bool(received)

    # Train the block.
    plan = Plan(
        task=spec.fitted_task,
        policy=policy,
        method=knobs.bind(spec.method, replicates),
        update=knobs.bind(spec.update, replicates),
        source=(COUPLED if source.coupled else DRAWING)[spec.drawn](sampler, feed, spec.sampling),
        recorder=recorder,
        initial=_initial(spec, policy, replicates, seed),
        batches=source.batches,
        epochs=spec.passes,
        micro_batches=spec.micro_batches,
        batches_per_publish=spec.system.batches_per_publish,
        limit=FINITE[spec.precision],
        progress=progress,
    )
    parameters, diverged = run_block(plan)
    # Collect its results.
    made = bar.done - before
    metrics, accumulated = recorder.results(whole=made == spec.updates)
    return _Part(metrics, accumulated, parameters.double().cpu().numpy(), diverged.cpu().numpy(), feed, made)


def _trace(spec: Spec, seed: int, source: _Source, parts: list[_Part], by: str | None = None) -> Trace:
    """The trace of all blocks, or of those that a signal, named in `by`, left time for."""
    if source.coupled and len(parts) > 1 and parts[-1].updates < spec.updates:
        parts = parts[:-1]  # their schedules have as many batches as the others or cannot stand beside them
    # Describe the run in the header.
    made = max(part.updates for part in parts)
    header: dict[str, Any] = {"spec": spec.describe(), "manifest": manifest.manifest(seed=seed, device=spec.device)}
    sizes = [len(part.parameters) for part in parts]
    R = sum(sizes)
    if by is not None:
        complete = sum(size for size, part in zip(sizes, parts, strict=True) if part.updates == spec.updates)
        counts = {"replicates": R, "of_replicates": spec.replicates, "complete": complete}
        header["partial"] = {"by": by, "updates": parts[-1].updates, "of": spec.updates, **counts}
    header["settings"] = {name: list(values[:R]) for name, values in spec.settings().items()}
    # Join the blocks.
    metrics = _join([part.metrics for part in parts], sizes)
    header["ranges"] = _ranges.declared(metrics, chosen(spec.diagnostics, spec.trained_policy)[0])
    return Trace(
        metrics=metrics,
        updates=np.arange(0, made, spec.every),
        accumulated=_join([part.accumulated for part in parts], sizes),
        parameters=np.concatenate([part.parameters for part in parts]),
        diverged=np.concatenate([part.diverged for part in parts]),
        realization=source.realization[:R],
        schedule=source.recorded([part.feed for part in parts], made),
        header=header,
    )


def _initial(spec: Spec, policy: Any, replicates: np.ndarray, seed: int) -> torch.Tensor:
    dtype = getattr(torch, spec.precision)
    rows = initial_rows(spec.initial, spec.replicates, policy.size)
    if rows is None:
        return policy.initial(replicates, dtype, seed)
    chosen = np.broadcast_to(rows, (spec.replicates, policy.size))[replicates]
    return versions.tensor(chosen.copy()).to(dtype)


@contextmanager
def _on(device: str) -> Iterator[None]:
    """New tensors on a device; what it has no room for is refused by name."""
    try:
        with versions.on(device):
            yield
    except (MemoryError, RuntimeError) as error:
        # Torch has a class of its own for a full GPU, and for full main memory only a text.
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and "allocate memory" not in str(error):
            raise
        raise checks.InputError(
            "memory",
            str(error).splitlines()[0] if str(error) else "exhausted",
            f"within that of the device ({device})",
            "lower samples_per_group, groups_per_batch, the horizon, block or the policy's micro_batch",
        ) from error


def _join(parts: list[dict[str, np.ndarray]], sizes: list[int]) -> dict[str, np.ndarray]:
    """Arrays of all blocks, of so many replicates each, beside one another."""
    return {
        name: np.concatenate([_pad(each.get(name), first, n) for each, n in zip(parts, sizes, strict=True)], axis=-1)
        for name, first in parts[0].items()
    }


def _pad(values: np.ndarray | None, like: np.ndarray, size: int) -> np.ndarray:
    """The array with as many rows as that of another block; rows that a stopped block has not reached are missing."""
    if values is not None and values.shape[:-1] == like.shape[:-1]:
        return values
    rows = np.full((*like.shape[:-1], size), math.nan)
    if values is not None:
        rows[: len(values)] = values
    return rows


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Limit torch's threads: small tensors gain nothing from two, and lose tenfold when a core is taken."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, count))
    try:
        yield
    finally:
        torch.set_num_threads(before)
