"""`run`: from a spec and a seed to a trace, in blocks of replicates."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from asyncsim import checks, knobs, manifest, memory, records, versions
from asyncsim.diagnostics._diagnostic import Recorder
from asyncsim.drawing import COUPLED, DRAWING
from asyncsim.feeds import EagerFeed, head
from asyncsim.loop import Plan, run_block
from asyncsim.rollouts import Sampler
from asyncsim.spec import Spec, initial_rows
from asyncsim.trace import Trace

FINITE = {"float64": 1e150, "float32": 1e18}
"""A replicate whose parameters reach this norm is frozen: their squares would overflow next."""
LONG = 2000
"""Updates times blocks from which a run is long enough for a progress bar."""


def run(spec: Spec, seed: int = 0, progress: bool | None = None) -> Trace:
    """Simulate the system, train the policies on its staleness, and return the trace.

    The result depends on the spec and the seed only: not on blocks, nor on when trajectories are drawn (for networks:
    up to rounding).
    `progress`: show a bar (default: on a terminal, when the run is long).

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
    source = _Source(spec, seed)
    block = spec.together
    policy = spec.trained_policy
    starts = range(0, spec.replicates, block)
    if policy.precision == "float32":
        memory.keep()
    total = spec.updates * len(starts)
    with _Bar(total, progress) as tick, torch.no_grad(), _threads(policy.threads), _on(spec.device):
        parts = [_run_part(spec, seed, source, np.arange(s, min(s + block, spec.replicates)), tick) for s in starts]
    metrics, accumulated, parameters, diverged, feeds = zip(*parts, strict=True)
    return Trace(
        metrics=_join(metrics),
        updates=np.arange(0, spec.updates, spec.every),
        accumulated=_join(accumulated),
        parameters=np.concatenate(parameters),
        diverged=np.concatenate(diverged),
        realization=source.realization,
        schedule=source.recorded(feeds),
        header={"spec": spec.describe(), "manifest": manifest.manifest(seed=seed, device=spec.device)},
    )


class _Source:
    """The schedule of a run: made once when it can be known beforehand, stepped block by block when it cannot."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self.spec, self.seed, system = spec, seed, spec.system
        given = isinstance(system, records.Schedule)
        self.coupled = getattr(system, "coupled", False)
        checks.require(
            spec.updates % system.updates_per_batch == 0,
            "updates",
            spec.updates,
            f"a multiple of updates_per_batch = {system.updates_per_batch}",
            "whole batches are trained",
        )
        self.batches = spec.updates // system.updates_per_batch
        checks.require(
            spec.realizations is None or not (given or self.coupled),
            "realizations",
            spec.realizations,
            "absent with a saved or coupled schedule",
            "its realizations are its own",
        )
        if given:
            self._check_given(system)
            wanted = system.realizations
        elif self.coupled:
            wanted = spec.replicates
        else:
            wanted = min(spec.realizations or system.realizations(spec.replicates), spec.replicates)
        self.realization = np.arange(spec.replicates) % wanted
        self.schedule = None
        if given:
            self.schedule = system
        elif not self.coupled:
            self.schedule = system.schedule(self.batches, spec.samples_per_group, spec.task.horizon, wanted, seed)
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

    def recorded(self, feeds: tuple[Any, ...]) -> records.Schedule:
        """The realized schedule of all blocks."""
        if self.schedule is not None:
            return head(self.schedule, self.batches)
        parts = [feed.record() for feed in feeds]
        names = ("version", "trajectory", "work", "seconds")
        known = {name: [getattr(part, name) for part in parts] for name in names if getattr(parts[0], name) is not None}
        return dataclasses.replace(parts[0], **{name: np.concatenate(own) for name, own in known.items()})

    def _check_given(self, schedule: records.Schedule) -> None:
        spec = self.spec
        checks.require(
            schedule.batches >= self.batches,
            "updates",
            spec.updates,
            f"at most {schedule.batches * schedule.updates_per_batch}, the schedule's length",
            "save a longer schedule",
        )
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
        for extreme in (int(schedule.trajectory.min()), int(schedule.trajectory.max())):
            checks.require(0 <= extreme < 1 << 32, "schedule.trajectory", extreme, "in [0, 2^32)", "ids key the draws")
        checks.require(
            schedule.realizations <= spec.replicates,
            "replicates",
            spec.replicates,
            f"at least {schedule.realizations}, the schedule's realizations",
            "raise replicates",
        )


def _run_part(
    spec: Spec, seed: int, source: _Source, replicates: np.ndarray, tick: Callable[[int], None]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray, np.ndarray, Any]:
    policy = spec.trained_policy
    feed, realization = source.feed(replicates)
    sampler = Sampler(spec.fitted_task, policy, spec.samples_per_group, seed, replicates, realization)
    recorder = Recorder(spec.diagnostics, policy, spec.every, len(replicates), policy.size)
    plan = Plan(
        task=spec.fitted_task,
        policy=policy,
        method=knobs.bind(spec.method, replicates),
        update=knobs.bind(spec.update, replicates),
        source=(COUPLED if source.coupled else DRAWING)[spec.drawn](sampler, feed, spec.sampling),
        recorder=recorder,
        initial=_initial(spec, policy, replicates, seed),
        batches=source.batches,
        updates_per_batch=spec.system.updates_per_batch,
        micro_batches=spec.micro_batches,
        batches_per_publish=spec.system.batches_per_publish,
        limit=FINITE[spec.precision],
        progress=tick,
    )
    parameters, diverged = run_block(plan)
    metrics, accumulated = recorder.results()
    return metrics, accumulated, parameters.double().cpu().numpy(), diverged.cpu().numpy(), feed


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


def _join(parts: tuple[dict[str, np.ndarray], ...]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}


@contextmanager
def _threads(wanted: int) -> Iterator[None]:
    """Limit torch's threads: small tensors gain nothing from two, and lose tenfold when a core is taken."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, wanted))
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Bar:
    """A progress bar for long runs on a terminal; otherwise nothing."""

    def __init__(self, total: int, wanted: bool | None) -> None:
        self.total = total
        self.shown = sys.stderr.isatty() and total >= LONG if wanted is None else wanted
        self.bar: Any = None

    def __enter__(self) -> Callable[[int], None]:
        if not self.shown:
            return lambda updates: None
        from rich.console import Console
        from rich.progress import Progress

        self.bar = Progress(console=Console(stderr=True), transient=True)
        self.bar.start()
        task = self.bar.add_task("updates", total=self.total)
        return lambda updates: self.bar.advance(task, updates)

    def __exit__(self, *exception: object) -> None:
        if self.bar is not None:
            self.bar.stop()
