"""`run`: from a spec and a seed to a trace, in blocks of replicates."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from asyncsim.base import checks, files, knobs, manifest, memory, records, stopping
from asyncsim.base.feeds import EagerFeed, head
from asyncsim.base.progress import Progress
from asyncsim.base.trace import Trace
from asyncsim.diagnostics import _price, _ranges
from asyncsim.diagnostics._diagnostic import Hear, Recorder, chosen
from asyncsim.learning import fused, versions
from asyncsim.learning.callbacks import Callback, Listeners, Recorded
from asyncsim.learning.checkpoint import EVERY, Keeper, opened
from asyncsim.learning.drawing import COUPLED, DRAWING
from asyncsim.learning.loop import Plan, run_block
from asyncsim.learning.packing import Unwritable
from asyncsim.learning.rollouts import Sampler
from asyncsim.learning.spec import Spec, initial_rows
from asyncsim.learning.standing import Part, Standing
from asyncsim.learning.updating import Updater
from asyncsim.updates._link import Chain

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


def run(
    spec: Spec | None = None,
    seed: int = 0,
    progress: bool | None = None,
    checkpoint: files.Where | None = None,
    checkpoint_every: float | str = EVERY,
    resume: files.Where | None = None,
    callback: Callback | Sequence[Callback] = (),
) -> Trace:
    """Simulate the system, train the policies on its staleness, and return the trace.

    The result depends on the spec and the seed only: not on blocks, nor on when trajectories are drawn (for networks:
    up to rounding).
    `progress`: say how far a long run has come (default: a bar on a terminal, elsewhere a line every half minute).

    `checkpoint`: a new file that keeps what was reached, written every `checkpoint_every` seconds (or, as text, "500
    updates") behind a batch. `resume`: such a file, from which a run that ended early, however it ended, goes on to the
    bits of an unbroken one; new checkpoints go to the same file. Spec and seed have to be those of the file, or are
    left out; functions of one's own are compared by name, their code is not. Parts that no file can hold are named;
    then the file holds finished blocks, and a block begins again.

    `callback`: called with a `Recorded` behind each recorded update, one or several; see `sim.callbacks`. What it
    raises ends the run. A resumed run calls it for the updates that are made again and later ones.

    Ctrl-C ends the run behind the batch that is being trained and raises `Interrupted`, a KeyboardInterrupt. Its
    `trace` has all updates so far, and a checkpoint is written. A second Ctrl-C ends the run at once.

    Raises `InputError` for a schedule that does not fit, NaN rewards, parts that contradict each other, or a checkpoint
    that is damaged or of another spec, seed, format or version.

    >>> import asyncsim as sim
    >>> update = sim.chain(sim.updates.sgd(0.1))
    >>> spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(2), sim.methods.reinforce(), update,
    ...                 updates=3, replicates=4)
    >>> run(spec, seed=0)["gradient_norm"].shape
    (3, 4)
    """
    if resume is None:
        checks.require(isinstance(spec, Spec), "spec", spec, "a Spec", "write sim.Spec(task, system, method, update)")
    checks.integer("seed", seed, 0, "give a non-negative integer seed", 2**63 - 1)
    listeners = Listeners(callback)
    spec, seed, keeper = opened(spec, seed, checkpoint, checkpoint_every, resume)
    assert spec is not None
    source = _Source(spec, seed)
    if spec.trained_policy.precision == "float32" or fused.pays(spec):
        memory.keep()
    _announce_prices(spec)
    # Run block after block.
    with stopping.deferred() as received:
        shown = False if progress is None and listeners.speak else progress
        with (
            Progress("updates", spec.updates * len(_starts(spec)), shown) as bar,
            torch.no_grad(),
            _threads(spec.trained_policy.threads),
            _on(spec.device),
            listeners,
        ):
            parts = _run_parts(_Run(spec, seed, source, bar, received, keeper, listeners.hear))
        # Still deferred: a signal now must not lose a run that is over.
        by = stopping.NAMES[received[0]] if received else None
        trace = _trace(spec, seed, source, parts, by) if parts else None
    if received:
        raise Interrupted(trace, received[0])
    assert trace is not None
    return trace


def _starts(spec: Spec) -> range:
    """The first replicate of every block."""
    return range(0, spec.replicates, spec.together)


def _run_parts(run: _Run) -> list[Part]:
    """All blocks, as far as signals allow; those of a checkpoint are not run again."""
    spec, keeper = run.spec, run.keeper
    parts = [] if keeper is None else list(keeper.parts)
    if keeper is not None:
        keeper.begin()
    run.bar.begin(len(parts) * spec.updates)
    for start in _starts(spec)[len(parts) :]:
        if run.received:
            break
        parts.append(_run_part(run, np.arange(start, min(start + spec.together, spec.replicates))))
        if keeper is not None and parts[-1].updates == spec.updates:
            keeper.finished(parts[-1], bool(run.received) or start == _starts(spec)[-1])
    return parts


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

    def recorded(self, blocks: list[Part], updates: int) -> records.Schedule:
        """The realized schedule of all blocks, as far as so many updates go."""
        if self.schedule is not None:
            return head(self.schedule, updates // self.spec.passes)
        parts = [block.schedule for block in blocks if block.schedule is not None]
        names = ("version", "trajectory", "work", "seconds")
        known = {name: [getattr(part, name) for part in parts] for name in names if getattr(parts[0], name) is not None}
        joined: dict[str, Any] = {name: np.concatenate(arrays) for name, arrays in known.items()}
        return dataclasses.replace(parts[0], **joined)

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


class _Run(NamedTuple):
    """What all blocks of a run share."""

    spec: Spec
    seed: int
    source: _Source
    bar: Progress
    received: list[int]
    keeper: Keeper | None
    hear: Callable[[Recorded], None] | None


class _Block:
    """What a block of replicates is trained with: feed, source of its batches, and recorder."""

    def __init__(self, run: _Run, replicates: np.ndarray) -> None:
        spec, policy = run.spec, run.spec.trained_policy
        self.replicates, self.task = replicates, spec.fitted_task
        self.feed, realization = run.source.feed(replicates)
        # A part of another package may have no way to be packed.
        parts = {"task": self.task, "policy": policy, "system": self.feed}
        self.unpackable = [name for name, part in parts.items() if not hasattr(part, "packed")]
        if run.keeper is not None and not self.unpackable:
            self.task = self.task.keeping()
            self.feed.keeping()
        sampler = Sampler(self.task, policy, spec.samples_per_group, run.seed, replicates, realization)
        self.source: Any = (COUPLED if run.source.coupled else DRAWING)[spec.drawn](sampler, self.feed, spec.sampling)
        fused.sampling(spec, self.source)
        self.recorder = Recorder(
            spec.diagnostics, policy, spec.every, len(replicates), policy.size, self._heard_by(run.hear, spec)
        )

    def packed(self, at: Standing) -> dict[str, Any]:
        """Everything that the next batch depends on, in plain containers."""
        if self.unpackable:
            raise Unwritable(f"the {self.unpackable[0]} has no method `packed`")
        parts: dict[str, Any] = {"feed": self.feed, "source": self.source, "recorder": self.recorder}
        return {**{name: part.packed() for name, part in parts.items()}, **at._asdict()}

    def restore(self, tree: dict[str, Any]) -> Standing:
        """Where the block stood when `packed` was asked, all its parts with it."""
        self.feed.restore(tree["feed"])
        self.source.restore(tree["source"], tree["batch"])
        self.recorder.restore(tree["recorder"])
        return Standing(*(tree[name] for name in Standing._fields))

    def _heard_by(self, hear: Callable[[Recorded], None] | None, spec: Spec) -> Hear | None:
        """What the recorder calls: the listener with a record of this block."""
        if hear is None:
            return None
        block, blocks = int(self.replicates[0]) // spec.together, len(_starts(spec))
        numbers = self.replicates.copy()
        numbers.flags.writeable = False
        return lambda update, metrics: hear(Recorded(update, spec.updates, block, blocks, numbers, metrics))


def _run_part(run: _Run, replicates: np.ndarray) -> Part:
    spec, keeper = run.spec, run.keeper
    policy, block = spec.trained_policy, _Block(run, replicates)

    def progress(at: Standing) -> bool:
        run.bar.add(spec.passes)
        stopped = bool(run.received)
        if keeper is not None and at.batch < run.source.batches:
            keeper.behind(spec.passes, lambda: block.packed(at), stopped)
        return stopped

    # Train the block.
    chain = knobs.bind(spec.update, replicates)
    updater = Updater(
        task=block.task,
        policy=policy,
        method=knobs.bind(spec.method, replicates),
        update=chain,
        also=block.recorder.outputs,
        updates_per_version=spec.system.batches_per_publish * spec.passes,
        micro_batches=spec.micro_batches,
        limit=FINITE[spec.precision],
    )
    plan = Plan(
        policy=policy,
        update=fused.update(spec, updater, block.recorder),
        source=block.source,
        recorder=block.recorder,
        batches=run.source.batches,
        epochs=spec.passes,
        batches_per_publish=spec.system.batches_per_publish,
        progress=progress,
    )
    at = run_block(plan, _start(run, chain, block))
    # Collect its results.
    made = at.batch * spec.passes
    metrics, accumulated = block.recorder.results(whole=made == spec.updates)
    schedule = block.feed.record() if run.source.coupled else None
    parameters, diverged = at.parameters.double().cpu().numpy(), at.diverged.cpu().numpy()
    return Part(metrics, accumulated, block.recorder.axes, parameters, diverged, schedule, made)


def _start(run: _Run, chain: Chain, block: _Block) -> Standing:
    """Where a block begins: before its first batch, or where a checkpoint has left it."""
    if run.keeper is None or run.keeper.standing is None:
        initial = _initial(run.spec, run.spec.trained_policy, block.replicates, run.seed)
        return Standing(0, initial, chain.init(initial), torch.full(initial.shape[:1], -1))
    tree, run.keeper.standing = run.keeper.standing, None
    with files.decoding(run.keeper.path, "checkpoint file", "begin the run again", "resume"):
        at = block.restore(tree)
    run.bar.begin(run.bar.done + at.batch * run.spec.passes)
    return at


def _trace(spec: Spec, seed: int, source: _Source, parts: list[Part], by: str | None = None) -> Trace:
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
    if parts[0].axes:
        header["axes"] = parts[0].axes
    return Trace(
        metrics=metrics,
        updates=np.arange(0, made, spec.every),
        accumulated=_join([part.accumulated for part in parts], sizes),
        parameters=np.concatenate([part.parameters for part in parts]),
        diverged=np.concatenate([part.diverged for part in parts]),
        realization=source.realization[:R],
        schedule=source.recorded(parts, made),
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
