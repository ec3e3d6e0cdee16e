"""`run`: from a spec and a seed to a trace, in blocks of replicates."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from asyncsim.base import checks, files, memory, stopping
from asyncsim.base.progress import Progress
from asyncsim.base.trace import Trace
from asyncsim.diagnostics import _price
from asyncsim.running import fused
from asyncsim.running.blocks import Shared
from asyncsim.running.callbacks import Callback, Live
from asyncsim.running.checkpoint import EVERY, opened, say
from asyncsim.running.sources import Source, trace_of
from asyncsim.running.spec import Spec
from asyncsim.running.spreading import Site, blocks
from asyncsim.running.training import Job, Training


class Interrupted(stopping.Stopped):
    """Ctrl-C ended a run behind a batch; `trace` has what was recorded until then, None where nothing was.

    `trace.partial` says how far it came.
    """

    def __init__(self, trace: Trace | None, number: int) -> None:
        self.trace, self.by = trace, stopping.NAMES[number]
        far = "before its first batch was trained" if trace is None else f"after {how_far(trace)}"
        super().__init__(number, f" {far}" + ("" if trace is None else "; .trace has what was recorded"))


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
    """Simulate the system, train the policies on its staleness, and return the trace.

    The result depends on the spec and the seed only: not on blocks, nor on when trajectories are drawn (for networks:
    up to rounding).
    `seed`: 0 unless given. `progress`: say how far a long run has come (default: a bar on a terminal, elsewhere a line
    every half minute).

    `checkpoint`: a new file that keeps what was reached, written every `checkpoint_every` seconds (or, as text, "500
    updates") behind a batch. `resume`: such a file, from which a run that ended early, however it ended, goes on to the
    bits of an unbroken one; new checkpoints go to the same file. Spec and seed have to be those of the file, or are
    left out; a file names code of one's own only where `trust` lists it (my.py:name). The code of the run, one's own
    too, has to be unchanged; `other_code` goes on with another. Parts that no file can hold are named; then the file
    holds finished blocks, and a block begins again.

    `workers`: processes that train, this one included; the result does not depend on it. By default one a core, once a
    run is known to take much longer than their start; runs with callbacks or checkpoints stay in this process. So does,
    with a line, what another process cannot have: lambdas, functions of the script itself. A run of one block is cut
    for them where bits do not depend on blocks (tables). Asked for beside `checkpoint`, the file holds finished blocks.
    A worker that dies has its block trained again, once.

    `callback`: called with a `Recorded` behind each recorded update, one or several; see `sim.callbacks`. What it
    raises ends the run. A resumed run calls it for the updates that are made again and later ones.

    Ctrl-C ends the run behind the batch that is being trained and raises `Interrupted`, a KeyboardInterrupt. Its
    `trace` has all updates so far, and a checkpoint is written. A second Ctrl-C ends the run at once.

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
        checks.require(isinstance(spec, Spec), "spec", spec, "a Spec", "write sim.Spec(task, system, method, update)")
    checks.integer("seed", 0 if seed is None else seed, 0, "give a non-negative integer seed", 2**63 - 1)
    callbacks = tuple(callback) if isinstance(callback, Sequence) else (callback,)
    for each in callbacks:
        checks.require(callable(each), "callback", each, "a function of one record", "write callback=f")
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
            with Progress("updates", spec.updates * len(blocks(spec)), shown) as bar, ExitStack() as closing:
                for each in callbacks:
                    closing.callback(getattr(each, "close", lambda: None))
                training = Training([job], site, received, bar, keeper, callbacks)
                training.run()
            # Still deferred: a signal now must not lose a run that is over.
            trace = _trace(training, 0, received)
    if received:
        raise Interrupted(trace, received[0])
    assert trace is not None
    return trace


def together(runs: Sequence[tuple[Spec, int]], site: Site) -> list[Trace]:
    """The traces of several specs with their seeds, trained side by side; each as `run` gives it.

    Raises what `run` raises; Ctrl-C with the trace of the first run that it cut short.
    """
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


def _job(spec: Spec, seed: int) -> Job:
    source = Source(spec, seed)
    if spec.trained_policy.precision == "float32" or fused.pays(spec):
        memory.keep()
    # Say where metrics that list every outcome take longer than a glance.
    price = spec.price(spec.recorded[0])
    if price.in_all >= _price.NOTED:
        say(str(price))
    return Job(Shared(spec, seed, source.batches), source)


def _trace(training: Training, number: int, received: list[int]) -> Trace | None:
    """The trace of one of the runs; None where nothing of it was trained."""
    job, parts = training.jobs[number], training.table.of(number)
    by = stopping.NAMES[received[0]] if received else None
    return trace_of(job.shared.spec, job.shared.seed, job.source, parts, by) if parts else None


def how_far(trace: Trace) -> str:
    """How much of a run a partial trace has, in words."""
    partial = trace.partial
    if partial is None:
        return "all updates"
    text = f"{partial['updates']} of {partial['of']} updates"
    if partial["complete"] or partial["replicates"] < partial["of_replicates"]:
        text += f" ({partial['complete']} of {partial['of_replicates']} replicates complete)"
    return text
