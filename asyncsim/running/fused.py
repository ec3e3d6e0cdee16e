"""Updates of tables as one compiled program; the tensor path remains their definition.

The program is made from the updater's own operations (`asyncsim.fusing`), so that there is no second formula. Sums are
in another order: results agree up to rounding. The spec alone decides whether a program is used, so a run does not
depend on its blocks or on being resumed.
"""

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, compiling, knobs, plugins
from asyncsim.diagnostics._diagnostic import Recorder
from asyncsim.fusing.graph import Unfit
from asyncsim.fusing.program import Program
from asyncsim.fusing.tape import Varies
from asyncsim.running.updating import Now, Standing, Updater, When
from asyncsim.sampling.drawing import Late
from asyncsim.sampling.rollouts import COLUMNS, Sampler, Trajectories, generate, monte_carlo
from asyncsim.step import versions
from asyncsim.step.batch import Batch
from asyncsim.step.minibatches import Cuts, Minibatch
from asyncsim.step.step import Carried, Step

OUTSIDE = ("version", "train_version", "realization", "trajectory", "after")
"""Fields of a batch that differ between batches and are not tensors of the replicates."""
AGE = ("batch", "age")
"""Path of the staleness of tokens in a program's input; it is computed only for programs that read it."""
UPDATES = 1000
"""Number of updates in a run from which a program is made: shorter runs take less time than compiling."""

UNROLLED = 512
"""Maximum tokens per batch for which a program draws sequences, unrolled; above it `Policy.walk` is faster."""


def pays(spec: Any) -> bool:
    """Whether a compiled program is worthwhile for a spec's updates, as far as is known before the first batch."""
    if spec.compiled is False or spec.device != "cpu" or spec.precision != "float64" or spec.micro_batches > 1:
        return False
    return bool(spec.compiled) or spec.updates >= UPDATES


def update(spec: Any, updater: Updater, recorder: Recorder, at: Standing) -> Any:
    """Updater of a spec, compiled to a program if that is worthwhile; see `Fused`."""
    # A block that was on tensors when it was left stays there.
    left = at.batch > 0 and at.weights is None
    fits = pays(spec) and not left and updater.method.at == "current" and all(map(plugins.own, _parts(updater)))
    if spec.compiled and not fits and not left:
        _say("programs are float64 on the CPU, of whole batches and the package's own parts")
    return Fused(updater, recorder, spec.rounds, bool(spec.compiled)) if fits else updater


def sampling(spec: Any, source: Any) -> None:
    """Let a source of batches sample with a compiled program if that is worthwhile."""
    if not (pays(spec) and isinstance(source, Late) and spec.sampling == "monte_carlo"):
        return
    long = spec.task.horizon * spec.samples * spec.groups > UNROLLED
    if plugins.own(source.sampler.task) and not (long and source.sampler.moves):
        source.sample = FusedSampling()


class Fused:
    """Updater that runs as a compiled program if possible; reports `why` not if a program was `asked` for."""

    def __init__(self, updater: Updater, recorder: Recorder, epochs: int, asked: bool) -> None:
        self.asked = asked
        self.updater, self.recorder, self.epochs = updater, recorder, epochs
        self.programs: dict[tuple[bool, bool], _Update] = {}
        self.rows = list(knobs.bound((updater.method, updater.update)))
        self.beginning: Program | None = None
        self.why: str | None = None

    @property
    def own_bits(self) -> bool:
        """Whether published weights come from a compiled program, whose last bits can differ."""
        return self.why is None

    def begin(self, now: Now, batch: Batch, when: When, cuts: Cuts) -> Carried:
        """Values that updates on the minibatches of a batch share, as `Updater.begin`, from a compiled program."""
        if self.why is not None:
            return self.updater.begin(now, batch, when, cuts)
        if self.beginning is None or AGE in self.beginning.paths:
            _ = batch.staleness
        tree = {"now": now._asdict(), "batch": batch.__dict__}
        try:
            if self.beginning is None:
                self.beginning = Program(partial(self._begun, when, cuts), tree, now.parameters.shape[0], self.rows)
            made = self.beginning(tree)
        except Exception as reason:
            self.why = _reason(reason, self.asked)
            return self.updater.begin(now, batch, when, cuts)
        return Carried({}, **made, weights=now.weights, unfinished=cuts.unfinished)

    def _begun(self, when: When, cuts: Cuts, tree: dict[str, Any]) -> dict[str, Any]:
        """`Updater.begin` on recorded tensors."""
        start = self.updater.begin(Now(**tree["now"]), _told(tree["batch"]), when, cuts)
        return {name: getattr(start, name) for name in ("advantages", "targets", "counted")}

    def __call__(
        self, now: Now, batch: Batch, start: Carried | None, when: When, part: Minibatch | None = None
    ) -> tuple[Step, Now, dict[str, Tensor]]:
        """As `Updater.__call__`."""
        if self.why is not None:
            return self.updater(now, batch, start, when, part)
        recorded = bool(self.recorder.metrics) and when.update % self.recorder.every == 0
        key = (start is None, recorded)
        if key not in self.programs:
            try:
                self.programs[key] = _Update(self, now, batch, start, part, recorded)
            except Exception as reason:
                self.why = _reason(reason, self.asked)
                return self.updater(now, batch, start, when, part)
        return self.programs[key](now, batch, start, when, part)


def _reason(error: Exception, asked: bool) -> str:
    """Why there is no program, reported if one was requested, or if the cause is an unexpected error."""
    if asked or not isinstance(error, (Unfit, checks.InputError)):
        _say(f"{type(error).__name__}: {error}".splitlines()[0].removeprefix("Unfit: "))
    return str(error)


def _say(why: str) -> None:
    compiling.report("programs", f"updates are not compiled, they run on tensors: {why}")


class _Update:
    """The program for one kind of update: the first on a batch or a later one, recorded or not."""

    def __init__(
        self, fused: Fused, now: Now, batch: Batch, start: Carried | None, part: Minibatch | None, recorded: bool
    ) -> None:
        self.updater, self.recorder, self.recorded, self.epochs = fused.updater, fused.recorder, recorded, fused.epochs
        self.names = tuple(dict.fromkeys((*self.updater.method.outputs, *self.updater.also)))
        self.counts = [torch.zeros((), dtype=torch.int64) for _ in When._fields]
        self.tell = [count.numpy() for count in self.counts]
        self.cut, self.aged = None if part is None else part.cut, True
        tree = self._tree(now, batch, start, part)
        self.program = Program(self._recorded, tree, now.parameters.shape[0], fused.rows)
        self.aged = AGE in self.program.paths

    def __call__(
        self, now: Now, batch: Batch, start: Carried | None, when: When, part: Minibatch | None
    ) -> tuple[Step, Now, dict[str, Tensor]]:
        """Run the program, and return its results in the form of the tensor path."""
        for place, count in zip(self.tell, when, strict=True):
            place[()] = count
        made = self.program(self._tree(now, batch, start, part))
        u, whole = self.updater, batch
        # Our own metrics of the policy do not read the samples of an update; any other may.
        reads = any(
            getattr(each, "subject", "step") != "policy" or each.enumerates or not plugins.own(each.measure)
            for each in self._left(made["measured"])
        )
        if part is not None and start is not None and reads:
            batch, start = part.of(batch, start)
        step = Step(u.method, batch, made["current"] or None, start, u.task, u.policy, now.weights, None, self.names)
        step.update, step.elapsed, step.updates_per_version = when.update, when.elapsed, u.updates_per_version
        step.parameters, step.gradient = now.parameters, made["gradient"]
        step.measured, step.whole = made["measured"], whole
        return step, Now(*made["now"]), made["statistics"]

    def _tree(self, now: Now, batch: Batch, start: Carried | None, part: Minibatch | None) -> dict[str, Any]:
        """All inputs of an update that differ between updates, in plain containers."""
        if self.aged:
            _ = batch.staleness
        return {
            "now": now,
            "batch": batch.__dict__,
            "start": None if start is None else start.__dict__,
            "rows": None if part is None else part.rows,
            "previous": self.recorder.previous if self.recorded else None,
            "when": self.counts,
        }

    def _recorded(self, tree: dict[str, Any]) -> dict[str, Any]:
        batch = whole = _told(tree["batch"])
        start = None if tree["start"] is None else Carried(**tree["start"])
        if start is not None and self.cut is not None:
            batch, start = Minibatch(tree["rows"], self.cut).of(batch, start, outside=False)
        now = Now(*tree["now"])
        step, then, statistics = self.updater(now, batch, start, When(*tree["when"]))
        step.whole = whole
        measured: dict[str, Tensor] = {}
        if self.recorded:
            step.previous = tree["previous"]
            measured = dict(_measured(self.recorder, step, then.diverged < 0))
        # Outputs that later updates read again, or what is outside of the program.
        kept = (self.epochs > 1 and self.cut is None) or any(each.outputs for each in self._left(measured))
        return {
            "now": then,
            "gradient": step.gradient if self.recorder.active else None,
            "current": dict(step.current) if kept else {},
            "statistics": statistics,
            "measured": measured,
        }

    def _left(self, measured: dict[str, Tensor]) -> list[Any]:
        """Metrics and accumulators that read the step outside the program."""
        metrics = self.recorder.metrics if self.recorded else []
        return [*(each for each in metrics if each.name not in measured), *self.recorder.accumulators]


class FusedSampling:
    """Samples Monte Carlo batches with a compiled program, if all tokens are drawn from the same weights."""

    def __init__(self) -> None:
        self.program: Program | None = None
        self.why: str | None = None

    def __call__(self, sampler: Sampler, *given: Any) -> Batch:
        """As `monte_carlo`."""
        version, train_version, trajectory, view, _ = given
        if self.why is not None or not view.single or sampler.task.pays:
            return monte_carlo(sampler, *given)
        # A copy: schedules are read-only, which torch warns about.
        ids = trajectory.copy() if len(trajectory) == 1 else trajectory[sampler.realization]
        weights = {name: stack[int(view.slot.flat[0])] for name, stack in view.weights.items()}
        tree = {"weights": weights, "told": [torch.from_numpy(ids), *sampler.told]}
        if self.program is None:
            try:
                count = len(sampler.realization)
                try:
                    self.program = Program(partial(_rolled_out, sampler, trajectory, True), tree, count)
                except Unfit:  # rewards are added on tensors
                    self.program = Program(partial(_rolled_out, sampler, trajectory, False), tree, count)
            except Exception as reason:
                self.why = _reason(reason, False)
                return monte_carlo(sampler, *given)
        made = self.program(tree)
        reward = made.pop("reward", None)
        trajectories = Trajectories(**made)
        if reward is None:
            reward = sampler.earned(trajectories, sampler.draws(trajectory))
        return sampler.batch(trajectories, reward, sampler.samples, (version, train_version, trajectory, view))


def _rolled_out(sampler: Sampler, trajectory: np.ndarray, paid: bool, tree: dict[str, Any]) -> dict[str, Any]:
    """Trajectories under one set of weights, and their rewards if `paid`, from recorded tensors."""
    draws = dataclasses.replace(sampler.draws(trajectory), told=tuple(tree["told"]))
    prompt = sampler.prompts(trajectory) if sampler.task.prompts == 1 else sampler.prompt_of(tree["told"][0])
    trajectories = generate(sampler, versions.current(tree["weights"]), draws, prompt)
    parts = {name: getattr(trajectories, name) for name in COLUMNS}
    return {**parts, "reward": sampler.earned(trajectories, draws)} if paid else parts


def _told(fields: dict[str, Any]) -> Batch:
    """A batch of recorded tensors, whose other fields cannot be read."""
    return Batch(**(fields | dict.fromkeys(OUTSIDE, Varies()) | {"view": None}))


def _measured(recorder: Recorder, step: Step, alive: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Metrics that a program can compute together with the update."""
    for metric in recorder.metrics:
        if metric.enumerates or not plugins.own(metric.measure):
            continue
        try:
            yield metric.name, recorder.masked(metric.at(step), alive)
        except Unfit:
            continue


def _parts(updater: Updater) -> Iterator[Any]:
    method = updater.method
    yield from (updater.task, updater.policy, method, method.advantage, method.weight)
    yield from (*method.factors, *method.penalties, *updater.update.links)
