"""Callbacks of `sim.run`, called for each recorded update: for TensorBoard, wandb, trackio and a terminal.

The callbacks here report for each metric the mean and quartiles over the replicates of a block with finite values.
"""

import importlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asyncsim.base import calls, checks, files, plugins
from asyncsim.base.notation import TRAINED
from asyncsim.running.evaluating import Evaluated, measured

PERIOD = 0.1
"""Seconds between updates of the live line on a terminal."""
SECONDS = 10.0
"""Seconds between its lines without a terminal."""


@dataclass(frozen=True)
class Recorded(calls.Told):
    """One recorded update of one block of replicates.

    `update`: its number, from 0, as in `trace.updates`; `updates`: how many the run makes on every block. `block`: the
    number of the block, from 0, out of `blocks`, which run one after another; `replicates` int `[R]`: global numbers of
    its replicates. `metrics`: name to float64 `[R]`, a row of the trace: NaN if missing; empty with diagnostics="none".
    `parameters`: a tensor `[R, P]` with the values before the update, and the `policy` that they belong to.
    """

    update: int
    updates: int
    block: int
    blocks: int
    replicates: np.ndarray
    metrics: dict[str, np.ndarray]
    parameters: Any = field(default=None, repr=False)
    policy: Any = field(default=None, repr=False)

    def __getitem__(self, name: str) -> np.ndarray:
        """Values of a metric by name, `[R]`."""
        others = "others as recorded.update"
        checks.one_of("metric", name, self.metrics, f"{plugins.unrecorded(name, self.metrics)}; {others}")
        return self.metrics[name]

    def summary(self) -> dict[str, float]:
        """Mean and quartiles of every metric over replicates, with names "ess/mean", "ess/lower", "ess/upper".

        A metric without finite values is left out. With several blocks, names start with the block: "block-1/ess/mean".

        >>> Recorded(0, 10, 0, 1, np.arange(3), {"ess": np.array([1.0, 2.0, 3.0])}).summary()
        {'ess/mean': 2.0, 'ess/lower': 1.5, 'ess/upper': 2.5}
        """
        front = f"block-{self.block}/" if self.blocks > 1 else ""
        numbers: dict[str, float] = {}
        for name, values in self.metrics.items():
            finite = values[np.isfinite(values)]
            if len(finite):
                lower, upper = np.quantile(finite, (0.25, 0.75))
                words = {"mean": finite.mean(), "lower": lower, "upper": upper}
                numbers |= {f"{front}{name}/{word}": float(value) for word, value in words.items()}
        return numbers


Callback = Callable[[Recorded], Any]
"""Function called after each recorded update; its method `close`, if any, is called when the run ends in any way."""


@dataclass
class TensorBoard:
    """Callback that writes scalars to a TensorBoard event file; see `tensorboard`."""

    folder: str
    writer: Any = field(default=None, repr=False)

    def __call__(self, recorded: Recorded) -> None:
        """Write one update; the first call hides later updates of an earlier run."""
        step = recorded.update
        if self.writer is None:
            module = importlib.import_module("torch.utils.tensorboard")
            self.writer = module.SummaryWriter(self.folder, purge_step=step)
        for name, value in recorded.summary().items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write buffered scalars and close the event file."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None


@dataclass
class Tracker:
    """Callback that logs to a run of wandb or trackio, which have the same interface; see `wandb` and `trackio`."""

    module: Any
    init: dict[str, Any]
    run: Any = None

    def __call__(self, recorded: Recorded) -> None:
        """Log one update; its number is a column, since every block starts at 0 again."""
        if self.run is None:
            self.run = self.module.init(**self.init)
            if hasattr(self.run, "define_metric"):
                self.run.define_metric("*", step_metric="update")
        self.run.log({"update": recorded.update, **recorded.summary()})

    def close(self) -> None:
        """Finish the run of wandb or trackio."""
        if self.run is not None:
            self.run.finish()
            self.run = None


@dataclass
class Live:
    """Callback that prints a live line on stderr; see `live`."""

    metric: str | None
    shown: float = -np.inf
    last: Recorded | None = None

    def __call__(self, recorded: Recorded) -> None:
        """Print one update, unless the previous line is too recent."""
        self.last = recorded
        now, terminal = time.monotonic(), _terminal()
        if now - self.shown < (PERIOD if terminal else SECONDS):
            return
        self.shown = now
        _show("\r\x1b[K" + self.line(recorded) if terminal else self.line(recorded) + "\n")

    def line(self, recorded: Recorded) -> str:
        """Format the live line: the update, and the metric's mean and standard deviation over replicates."""
        usual = TRAINED if TRAINED in recorded.metrics else next(iter(recorded.metrics), None)
        name = self.metric if self.metric is not None else usual
        words = f"asyncsim: update {recorded.update + 1} of {recorded.updates}"
        if recorded.blocks > 1:
            words += f", block {recorded.block + 1} of {recorded.blocks}"
        if name is None:
            return words
        checks.one_of("metric", name, list(recorded.metrics), "name a metric that the run records")
        values = recorded.metrics[name]
        finite = values[np.isfinite(values)]
        if not len(finite):
            return f"{words}, no {name}"
        return f"{words}, {name} {finite.mean():.4g} (spread {finite.std():.2g} over {len(finite)})"

    def close(self) -> None:
        """Print the live line of the last update."""
        if self.last is not None:
            line = self.line(self.last) + "\n"
            _show("\r\x1b[K" + line if _terminal() else line)
        self.last, self.shown = None, -np.inf


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _show(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(line)
        sys.stderr.flush()


def tensorboard(folder: str | os.PathLike[str]) -> TensorBoard:
    """Callback that reports mean and quartiles of each metric to TensorBoard, with the update as step.

    Arguments: `folder`, where the event file is written. Returns a callback of `sim.run`. Raises `InputError` if the
    package is not installed: pip install tensorboard. Source: this package.
    """
    where = files.named("folder", folder)
    _package("tensorboard")
    files.writable("folder", where / "events")
    return TensorBoard(str(where))


@calls.named
def wandb(**init: Any) -> Tracker:
    """Callback that reports mean and quartiles of each metric to Weights & Biases, over the column "update".

    Arguments: those of `wandb.init` (project="...", mode="offline"). Returns a callback of `sim.run`; its run begins
    with the first record and ends with the run. Raises `InputError` where the package is absent: pip install
    wandb. Source: this package.
    """
    return Tracker(_package("wandb"), init)


@calls.named
def trackio(**init: Any) -> Tracker:
    """Callback that reports mean and quartiles of each metric to trackio, over the column "update".

    Arguments: those of `trackio.init` (project="..."). Returns a callback of `sim.run`; its run begins with the first
    record and ends with the run. Raises `InputError` where the package is absent: pip install trackio.
    Source: this package.
    """
    return Tracker(_package("trackio"), init)


@dataclass
class Evaluating:
    """Callback that evaluates during a run; see `evaluate`. `results`: update, block, and `sim.evaluate`'s result."""

    task: Any
    every: int
    settings: dict[str, Any]
    results: list[tuple[int, int, Evaluated]] = field(default_factory=list)

    def __call__(self, recorded: Recorded) -> None:
        """Evaluate if the update is due, and print the result on stderr."""
        if recorded.update % self.every:
            return
        found = measured(recorded.policy, recorded.parameters, self.task, **self.settings)
        self.results.append((recorded.update, recorded.block, found))
        _show(f"asyncsim: update {recorded.update} of {recorded.updates}, {found}\n")


def evaluate(task: Any, every: int = 10, samples: int = 1, greedy: bool = False, seed: int = 0) -> Evaluating:
    """Callback that evaluates the mean reward on a task during a run, for example on held-out data.

    Arguments: `task`, on all of whose prompts the policy is evaluated; `every`, the interval in updates, from update 0
    (before training) on; `samples`, `greedy` and `seed` as in `sim.evaluate`. Returns a callback of `sim.run`; its
    `results` lists the update, the block and the result of `sim.evaluate`. Raises `InputError` for a task that does not
    fit the policy. Source: this package.

    >>> import asyncsim as sim
    >>> evaluate(sim.tasks.softmax_bandit(), every=5).every
    5
    """
    checks.integer("every", every, 1, "give a number of updates")
    return Evaluating(task, every, {"samples": samples, "greedy": greedy, "seed": seed})


def live(metric: str | None = None) -> Live:
    """Callback that shows a live line on stderr: update, and a metric's mean and standard deviation over replicates.

    On a terminal the line is overwritten, elsewhere there is a line every ten seconds; the last update is always shown.
    It replaces the progress bar. Arguments: `metric`, its name (default: trained_return, or the first that is
    recorded). Returns a callback of `sim.run`, which raises `InputError` for a metric that is not recorded. Source:
    this package.

    >>> live("ess").metric
    'ess'
    """
    return Live(metric)


def _package(name: str) -> Any:
    """Import an optional package now, so that its absence is reported before any work."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        bound = f"a package that is installed ({error})"
        raise checks.InputError("callback", name, bound, checks.extra(name, name)) from None


READY: dict[str, Callable[[str], Callback]] = {
    "tensorboard": tensorboard,
    "wandb": lambda project: wandb(project=project),
    "trackio": lambda project: trackio(project=project),
    "live": lambda metric: live(metric or None),
}
"""Callbacks by the word for the command line, each made from the text after its colon."""


def named(text: str) -> Callback:
    """Callback for a text: "tensorboard:FOLDER", "wandb:PROJECT", "trackio:PROJECT", "live" or "live:METRIC".

    >>> named("live:ess")
    Live(metric='ess', shown=-inf, last=None)
    """
    word, _, rest = text.partition(":")
    remedy = "write tensorboard:FOLDER, wandb:PROJECT, trackio:PROJECT, live or live:METRIC"
    checks.one_of("--log", word, list(READY), remedy)
    checks.require(bool(rest) or word == "live", "--log", text, "with a folder or project behind a colon", remedy)
    return READY[word](rest)
