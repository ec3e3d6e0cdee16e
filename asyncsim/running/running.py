"""`run`: from a spec and a seed to a trace, in blocks of replicates, trained by this process or by workers."""

import inspect
import math
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

from asyncsim.base import calls, checks, files, laws, memory, records, stopping
from asyncsim.base.progress import Progress
from asyncsim.base.trace import Trace
from asyncsim.diagnostics import _price
from asyncsim.diagnostics._diagnostic import Hear
from asyncsim.running import fused, spreading
from asyncsim.running.blocks import Block, computing
from asyncsim.running.callbacks import Callback, Live, Recorded
from asyncsim.running.checkpoint import EVERY, Keeper, opened, say
from asyncsim.running.sources import Cut, Source, trace_of
from asyncsim.running.spec import Spec
from asyncsim.running.spreading import Helpers, Piece, Site, Table, Watch
from asyncsim.running.updating import Standing

LARGE = 10_000_000
"""Weights of a model above which a run that names none says which one it trains."""
FRESH = "all ratios are 1 at staleness 0"
"""Why the weights of a run on fresh data are one constant, which is meant where other runs have stale data."""


class Interrupted(stopping.Stopped):
    """Raised after a signal ended a run; `trace` has all records until then, or is None if there are none.

    `trace.partial` describes the progress.
    """

    def __init__(self, trace: Trace | None, number: int) -> None:
        self.trace, self.by = trace, stopping.NAMES[number]
        far = "before its first batch was trained" if trace is None else f"after {how_far(trace)}"
        super().__init__(number, f" {far}" + ("" if trace is None else "; .trace has what was recorded"))


@calls.named
def run(
    spec: Spec | None = None,
    seed: int | None = None,
    progress: bool | None = None,
    checkpoint: files.Where | None = None,
    checkpoint_every: float | str = EVERY,
    resume: files.Where | None = None,
    callback: Callback | Sequence[Callback] = (),
    workers: int | None = None,
    trust: Sequence[str] = (),
    other_code: bool = False,
) -> Trace:
    """Simulate the system, train the policies with its staleness, and return the trace.

    The result depends on the spec and the seed only: not on blocks, nor on when trajectories are drawn (for networks:
    up to rounding). `seed`: default 0. `progress`: report the progress of a long run (default: a bar on a terminal,
    elsewhere a line every half minute).

    `checkpoint`: a new file for the state of the run, written every `checkpoint_every` seconds (or, as text, "500
    updates") after a batch. `resume`: such a file, from which an interrupted run continues with the bits of an
    uninterrupted run; new checkpoints go to the same file. Spec and seed have to be those of the file, or are omitted;
    a file names a user's code only if `trust` lists it (my.py:name). The code of the run, including the user's, has to
    be unchanged; `other_code` allows changes. Parts that no file can hold are named; then the file has finished blocks
    only, and a block starts again.

    `workers`: number of training processes, including this one; the result does not depend on it. The default is one
    per core, once a run is known to take much longer than their start; runs with callbacks or checkpoints stay in this
    process. So does, with a message, a run that another process cannot receive: lambdas, functions of the script
    itself. A run of one block is split for workers if bits do not depend on blocks (tables). If requested with
    `checkpoint`, the file has finished blocks only. If a worker dies, its block is trained again, once.

    `callback`: one or several functions called with a `Recorded` after each recorded update; see `sim.callbacks`. If
    one returns False, the run ends after that batch, and the trace has what was recorded: `callback=lambda recorded:
    recorded["ess"].mean() > 0.5`. An exception in a callback ends the run without a trace. A resumed run calls it for
    repeated and later updates.

    Ctrl-C ends the run after the current batch and raises `Interrupted`, a KeyboardInterrupt. Its `trace` has all
    updates so far, and a checkpoint is written. Without a checkpoint a batch that takes 5 more seconds is given up. A
    second Ctrl-C ends the run at once.

    Raises `InputError` for a schedule that does not fit, NaN rewards or parts that contradict each other. Also
    for a checkpoint that is damaged or of another spec, seed, code, format or version.

    >>> import asyncsim as sim
    >>> update = sim.chain(sim.updates.sgd(0.1))
    >>> spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(2), sim.methods.reinforce(), update,
    ...                 updates=3, replicates=4)
    >>> run(spec, seed=0)["gradient_norm"].shape
    (3, 4)
    """
    if resume is None:
        remedy = "write sim.Spec(task, system, method, update), or sim.Spec.load('spec.yaml') of a file"
        several = "run each, [sim.run(each) for each in specs], or sim.compare them"
        remedy = several if isinstance(spec, list) else remedy
        checks.require(isinstance(spec, Spec), "spec", spec, "a Spec", remedy)
    checks.integer("seed", 0 if seed is None else seed, 0, "give one seed; Spec(replicates=3) has three", 2**63 - 1)
    callbacks = tuple(callback) if isinstance(callback, (list, tuple)) else (callback,)
    for each in callbacks:
        remedy = "write callback=f, or sim.callbacks.NAME(...)"
        checks.require(callable(each), "callback", each, "a function of one record", remedy)
        _callable_with_one(each)
    with Site(workers) as site:
        spec, seed, keeper = opened(spec, seed, checkpoint, checkpoint_every, resume, trust, other_code)
        assert spec is not None
        if callbacks:
            site.refuse("callbacks are called in this one")
        if spec.device != "cpu":
            site.refuse(f"there is one {spec.device} device")
        if keeper is not None and site.asked is None:
            # Workers keep finished blocks only, which may be hours apart.
            site.refuse("checkpoints")
        job = _job(spec, seed)
        with stopping.deferred() as received:
            # Whoever shows how far the run is takes the place of the bar.
            shown = False if progress is None and any(isinstance(each, Live) for each in callbacks) else progress
            with Progress("updates", spec.updates * len(spreading.blocks(spec)), shown) as bar, ExitStack() as closing:
                for each in callbacks:
                    closing.callback(getattr(each, "close", lambda: None))
                training = Training([job], site, received, bar, keeper, callbacks)
                training.run()
            # Still deferred: a signal now must not lose a run that is over.
            trace = _trace(training, 0, received)
    if received:
        raise Interrupted(trace, received[0])
    assert trace is not None
    if trace.partial:
        say(f"a callback returned False, which ended the run after {how_far(trace)}")
    if told := one_weight(spec, lambda: trace.schedule):
        warnings.warn(checks.RunWarning(told), stacklevel=3)
    return trace


def one_weight(spec: Spec, scheduled: Callable[[], records.Schedule]) -> str:
    """Warning if a method gives every token of the last tenth of a run the same weight; else "".

    No formula has to be known: the method weighs drawn log-probs at the staleness of the run. Methods that cannot do so
    need no schedule, whose simulation may take a second.
    """
    method, weight = spec.method, spec.method.weight
    own = not type(weight).__module__.startswith("asyncsim.methods.") or hasattr(weight, "binding")
    # Ratios to the behavior policy, which methods of this package have, differ wherever data is stale.
    if not (own or method.factors or method.ratio_to == "proximal"):
        return ""
    schedule = scheduled()
    late = -max(1, schedule.batches // 10)
    gaps = schedule.train_version[late:, None, None, None] - schedule.version[:, late:]
    age = int(gaps.flat[0])
    # With fresh data and one update on each batch, all policies agree.
    fresh = age == 0 and spec.passes == 1 and not spec.trained_policy.mismatched
    if (fresh and not own) or (gaps != age).any():
        return ""
    draw, shape = torch.Generator().manual_seed(0), (2, 16, min(spec.task.horizon, 4))
    now, then, start = (-3.0 * torch.rand(shape, generator=draw, dtype=torch.float64) for _ in range(3))
    policies = now, now if fresh else then, now if spec.passes == 1 else start
    paid, ages = torch.randn(shape[:2], generator=draw, dtype=torch.float64), torch.full_like(now, age)
    given = {"rewards": paid, "advantages": paid, "reference_log_prob": start}
    try:
        each = (method.weigh(*policies, staleness=a, **given) for a in (ages, ages + torch.arange(shape[1])[:, None]))
        every, other = ((found.score_weight / found.advantage).numpy() for found in each)
    except Exception:
        return ""  # what reads more than log-probs is not tried
    one = float(every.flat[0])
    if one == 0.0 or not np.allclose(every, one, 1e-9, 0.0):
        return ""
    told = f"{method.name}: the weights of this run are one constant, {one:.3g}"
    if method.ratio_to == "proximal" and spec.passes == 1:
        return f"{told}; ratios are to the start of a batch: write --epochs 2, or method.anchor=behavior if it has that"
    if fresh:
        return f"{told}: {FRESH}; for stale data write --staleness 4 (sim.schedules.fixed(4))"
    if np.allclose(other, one, 1e-9, 0.0):
        return f"{told}; it uses neither the ratio nor the staleness of a token"
    varied = laws.varied((age // 2, age + age // 2))
    return f"{told}, as staleness is always {age}; to vary it write {varied} in place of --staleness"


def together(runs: Sequence[tuple[Spec, int]], site: Site) -> list[Trace]:
    """Traces of several specs with their seeds, trained in parallel; each trace is equal to that of `run`."""
    if site.count == 1 and len(runs) > 1:
        return [trace for each in runs for trace in together([each], site)]  # one schedule in memory at a time
    jobs = [_job(spec, seed) for spec, seed in runs]
    with stopping.deferred() as received:
        training = Training(jobs, site, received)
        training.run()
        traces = [_trace(training, number, received) for number in range(len(jobs))]
    if received:
        raise Interrupted(next((trace for trace in traces if trace is None or trace.partial), traces[-1]), received[0])
    return [trace for trace in traces if trace is not None]


def _callable_with_one(callback: Callback) -> None:
    """Check before the run that a callback takes one argument."""
    try:
        inspect.signature(callback).bind(None)
    except TypeError:
        found = f"{getattr(callback, '__name__', callback)}{inspect.signature(callback)}"
        remedy = "write def f(recorded), which has recorded['ess'] and recorded.update"
        raise checks.InputError("callback", found, "a function of one record", remedy) from None
    except ValueError:
        pass  # a function without a signature, such as one of C


def _job(spec: Spec, seed: int) -> Source:
    source = Source(spec, seed)
    if spec.trained_policy.precision == "float32" or fused.pays(spec):
        memory.keep()
    # Say where metrics that list every outcome take longer than a glance.
    if told := unnamed_model(spec):
        say(told)
    price = spec.price(spec.recorded[0])
    if price.in_all >= _price.NOTED:
        say(str(price))
    return source


def unnamed_model(spec: Spec) -> str:
    """Warning if a large language model is trained because no policy was named; else ""."""
    header = {} if spec.policy is not None else spec.trained_policy.describe()
    size = header.get("model_parameters", 0)
    told = f"no policy was given, so {header.get('model')} is trained, {size:,} weights, which is slow; for a small"
    return f"{told} character model write --policy causal-lm --set policy.model=char" * (size >= LARGE)


def _trace(training: "Training", number: int, received: list[int]) -> Trace | None:
    """The trace of one of the runs; None if it has no trained block."""
    job, parts = training.jobs[number], training.table.of(number)
    by = stopping.NAMES[received[0]] if received else "a callback" if training.halted else None
    return trace_of(job.spec, job.seed, job, parts, by) if parts else None


def how_far(trace: Trace) -> str:
    """Describe how many of a run's updates a partial trace covers."""
    partial = trace.partial
    if partial is None:
        return "all updates"
    text = f"{partial['updates']} of {partial['of']} updates"
    if partial["complete"] or partial["replicates"] < partial["of_replicates"]:
        text += f" ({partial['complete']} of {partial['of_replicates']} replicates complete)"
    return text


class Training:
    """Trains the blocks of replicates of several runs; `table` has the results of each block that was started."""

    def __init__(
        self,
        jobs: list[Source],
        site: Site,
        received: list[int],
        bar: Progress | None = None,
        keeper: Keeper | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.jobs, self.site, self.bar, self.keeper, self.callbacks = jobs, site, bar, keeper, callbacks
        self.table, self.watch, self.halted = Table(received), Watch(site), False
        self.helpers: Helpers | None = None
        self.pieces: list[Piece] = []
        self.made = self.due = 0

    @property
    def ending(self) -> bool:
        """Whether a signal or a callback ends the runs after the current batch."""
        return self.halted or bool(self.table.received)

    def run(self) -> None:
        """Train until all blocks are done, or until a signal or an error, which is raised."""
        self._lay_out()
        try:
            piece = self.table.take()
            if self.site.ready:
                self._call_helpers([piece, *self.table.left] if piece is not None else [])
            while piece is not None or self._waiting():
                if piece is not None:
                    self._train(piece)
                piece = self.table.take()
        except BaseException:
            # Whatever ends this ends the workers as well.
            self.table.over = True
            self.site.close()
            raise
        finally:
            if self.helpers is not None:
                self.helpers.leave()
        if self.table.errors:
            raise self.table.errors[0]

    # What is trained.

    def _lay_out(self) -> None:
        """List the blocks to train, in order: finished ones of a checkpoint are skipped, one in progress is resumed."""
        start, keeper, table = 0, self.keeper, self.table
        for part in [] if keeper is None else keeper.parts:
            table.parts[0, start] = part
            start += len(part.parameters)
        if keeper is not None:
            keeper.begin()
            if keeper.standing is not None:
                table.left.append(Piece(0, start, start + len(keeper.standing["parameters"])))
                start = table.left[0].stop
        for number in range(len(self.jobs)):
            table.left += self._blocks(number, start if number == 0 else 0, self.site.ready)
        self.places = [first for (_, first) in table.parts] + [piece.start for piece in table.left]
        self.due = sum(self.jobs[piece.job].shared.spec.updates for piece in table.left)
        if self.bar is not None:
            trained = sum(len(part.parameters) for part in table.parts.values())
            self.bar.begin(self.bar.total * trained // self.jobs[0].shared.spec.replicates)

    def _blocks(self, job: int, start: int, shared: bool) -> list[Piece]:
        """Blocks of a run from a replicate on; if shared by workers, sized so that all have the same amount of work."""
        count = self.site.count
        shares = count // math.gcd(count, len(self.jobs)) if shared else 1
        least = 1 if self.site.asked is not None and len(self.jobs) < count else spreading.LEAST
        each = spreading.blocks(self.jobs[job].shared.spec, start, shares, least)
        return [Piece(job, block.start, block.stop) for block in each]

    def _train(self, piece: Piece) -> None:
        shared, keeper = self.jobs[piece.job].shared, self.keeper
        given_up = False

        def after(at: Standing) -> bool:
            nonlocal given_up
            made = at.batch * shared.spec.passes
            with stopping.abandonable(False):
                self._note(piece, made)
                if keeper is not None and at.batch < shared.batches:
                    keeper.behind(shared.spec.passes, lambda: block.packed(at), self.ending)
                given_up = not self.watch.over and self._spread(piece, made)
            return given_up or self.table.stopped

        # A checkpoint could not save parts as they were before a batch that has changed them.
        with computing(shared.spec), stopping.abandonable(keeper is None):
            # What a block makes, its recorder and bound knobs, is on the run's device as well.
            block = Block(shared, self._cut(piece), keeper is not None, self._heard_by(piece))
            part = block.train(self._standing(block), after)
        if not given_up and part is not None:
            self.table.parts[piece.job, piece.start] = part
            self._keep()

    def _cut(self, piece: Piece) -> Cut:
        return self.jobs[piece.job].cut(np.arange(piece.start, piece.stop))

    def _standing(self, block: Block) -> Standing:
        """The state in which a block starts: before its first batch, or as in the checkpoint."""
        keeper = self.keeper
        if keeper is None or keeper.standing is None:
            return block.begin()
        tree, keeper.standing = keeper.standing, None
        with files.decoding(keeper.path, "checkpoint file", "begin the run again", "resume"):
            at = block.restore(tree)
        if self.bar is not None:
            self.bar.begin(self.bar.done + at.batch * block.shared.spec.passes)
        return at

    def _keep(self) -> None:
        """Pass finished blocks to the keeper of checkpoints, in order."""
        if self.keeper is None:
            return
        for part in self.table.of(0)[len(self.keeper.parts) :]:
            if part.updates < self.jobs[0].shared.spec.updates:
                return
            last = len(self.keeper.parts) + 1 == len(self.places)
            self.keeper.finished(part, last or self.ending)

    def _heard_by(self, piece: Piece) -> Hear | None:
        """The function that a block's recorder calls: it passes a record of this block to the callbacks."""
        if not self.callbacks:
            return None
        spec = self.jobs[0].shared.spec
        block, of = self.places.index(piece.start), len(self.places)
        numbers = np.arange(piece.start, piece.stop)
        numbers.flags.writeable = False

        def hear(update: int, metrics: dict[str, np.ndarray], parameters: Any) -> None:
            recorded = Recorded(update, spec.updates, block, of, numbers, metrics, parameters, spec.trained_policy)
            for callback in self.callbacks:
                try:
                    go_on = callback(recorded)
                except Exception as error:
                    name, seed = getattr(callback, "__name__", type(callback).__name__), self.jobs[0].shared.seed
                    rows = f"replicates {piece.start} to {piece.stop - 1}"
                    error.add_note(f"in the callback {name}, called after update {update} of {rows}, seed {seed}")
                    raise
                whole = go_on is None or isinstance(go_on, (bool, np.bool_))
                remedy = "return nothing, or False to end the run"
                checks.require(whole, "what the callback returns", go_on, "None, True or False", remedy)
                if not (go_on is None or go_on):
                    self.halted = self.table.over = True

        return hear

    # How far it is.

    def _note(self, piece: Piece, made: int) -> None:
        """Count a batch of a block that is trained in this process."""
        if self.helpers is not None:
            self.helpers.board[self.helpers.cell(piece)] = made
            self._look()
        elif self.bar is not None:
            self.bar.add(self.jobs[piece.job].shared.spec.passes)
        else:
            self.made += self.jobs[piece.job].shared.spec.passes
            self._beat(self.made / self.due)

    def _look(self) -> None:
        """Show the progress of all workers, and signal them when to stop."""
        assert self.helpers is not None
        if self.table.stopped:
            self.helpers.board[-1] = 1
        share = self.helpers.share(self.pieces, self.jobs[0].shared.spec.updates)
        if self.bar is None:
            self._beat(share)
        else:
            more = int(self.bar.total * share) - self.bar.done
            if more > 0:
                self.bar.add(more)

    def _beat(self, share: float) -> None:
        """Report the joint progress of these runs to the caller."""
        if self.site.hears is not None:
            self.site.hears(share)

    def _waiting(self) -> bool:
        """Whether blocks are in training elsewhere, or one was returned."""
        if self.helpers is None:
            return False
        self._look()
        going = self.helpers.going()
        self._keep()
        return going or (bool(self.table.left) and not self.table.stopped)

    # Workers.

    def _spread(self, piece: Piece, made: int) -> bool:
        """Start workers once that is worthwhile; return whether the current block is replaced by smaller ones."""
        work = [(piece, made), *((each, 0) for each in self.table.left)]
        left = sum((each.stop - each.start) * (self.jobs[each.job].shared.spec.updates - done) for each, done in work)
        if not self.watch.pays(made * (piece.stop - piece.start), left):
            return False
        for job in self.jobs:
            self.site.fit(job.shared.spec)
        # Smaller ones from the first replicate of each run that is left.
        first = {each.job: each.start for each, _ in reversed(work)}
        smaller = [block for job in sorted(first) for block in self._blocks(job, first[job], True)]
        given_up = len(smaller) > len(work)
        return self._call_helpers(smaller if given_up else [each for each, _ in work], given_up) and given_up

    def _call_helpers(self, pieces: list[Piece], anew: bool = False) -> bool:
        """Start workers for all but one of the remaining blocks; with `anew`, those replace the former blocks."""
        count, updates = min(self.site.count, len(pieces)) - 1, self.jobs[0].shared.spec.updates
        if count < 1:
            if len(self.jobs) == 1:
                self.site.explain("all replicates that are left are in one block; block=N makes smaller ones")
            return False
        try:
            self.helpers = Helpers(self.site, self.table, [job.shared for job in self.jobs], self._cut)
        except spreading.Unsendable as reason:
            self.site.refuse(str(reason))
            return False
        over = [Piece(*place, place[1] + len(part.parameters)) for place, part in self.table.parts.items()]
        for piece in over:
            self.helpers.board[self.helpers.cell(piece)] = updates
        self.pieces = [*over, *pieces]
        if anew:
            self.table.left = deque(pieces)
        if self.keeper is not None:
            self.keeper.whole(f"{self.site.count} workers train them side by side")
        self.helpers.start(count)
        return True
