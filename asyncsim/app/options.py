"""Options and arguments of the command line, each declared once: type, default, help, completion."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from asyncsim.app.streams import Files
from asyncsim.base import notation, plugins

KINDS = (*plugins.PARTS, "claims", "papers", "logs", "adapters", "like", "exports")
"""Kinds that can be listed."""
ALSO = {part: kind for kind, part in plugins.PARTS.items()}
ALSO |= {"metrics": "diagnostics", "links": "updates", "presets": "systems", "baselines": "advantages"}
ALSO |= dict.fromkeys(("losses", "algorithms", "estimators"), "methods") | {"optimizers": "updates"}
ALSO |= dict.fromkeys(("envs", "environments", "benchmarks"), "tasks") | {"trainers": "systems", "stacks": "systems"}
ALSO |= {each.removesuffix("s"): kind for each, kind in (*ALSO.items(), *zip(KINDS, KINDS, strict=True))}
"""Other names of these kinds."""
SECTIONS = {
    "Look up names": "list",
    "Simulate a system": "timeline advise",
    "Train and compare": "run compare sweep results",
    "Read your own run": "log calibrate forecast diagnose judge",
    "Check claims and code": "verify conformance export device",
}
"""Commands in the order of the help, by purpose."""
STORE = "asyncsim-results"
"""Default store of the command line."""
STDOUT = Path("-")


class Options(SimpleNamespace):
    """The options of a command by name; `given` lists those that the user gave; `files` are the requested outputs."""

    given: list[str]
    files: Files


class Row(NamedTuple):
    """One option: its type (None: that of its default); `of` is the kind whose names complete it."""

    kind: Any
    default: Any
    help: str
    metavar: str | None = None
    of: str | None = None
    written: bool = False
    positional: bool = False
    short: str = ""


def argument(kind: Any, default: Any, text: str, of: str | None = None) -> Row:
    """Declare a positional argument; `...` means that it has no default."""
    return Row(kind, default, text, of=of, positional=True)


def writes(text: str) -> Row:
    """Declare an option for an output file."""
    return Row(Path, None, text, written=True)


DESCRIBES = {
    "task": Row(str, "softmax-bandit", "What is trained; see `asyncsim list tasks`.", of="tasks"),
    "policy": Row(str, None, "Instead of the task's; see `asyncsim list policies`.", of="policies"),
    "method": Row(str, "reinforce", "Estimator; see `asyncsim list methods`.", of="methods"),
    "advantage": Row(str, None, "Baseline; see `asyncsim list advantages`.", of="advantages"),
    "penalty": Row(list[str], None, "Penalty; see `asyncsim list penalties`. Repeat.", of="penalties"),
    "factor": Row(list[str], None, "Mask or weight; see `asyncsim list factors`. Repeat.", of="factors"),
    "staleness": Row(int, None, "Constant staleness in versions (a fixed schedule)."),
    "system": Row(str, None, "Instead of --staleness; see `asyncsim list systems`.", of="systems"),
    "coupled": Row(bool, False, "Lengths from the policy, not --system's distribution."),
    "schedule": Row(str, None, "Instead of --staleness; see `asyncsim list schedules`.", of="schedules"),
    "rewards": Row(str, None, "Late rewards; see `asyncsim list rewards late`.", of="rewards"),
    "link": Row(list[str], None, "Update link (default: sgd, or clip-norm, adam). Repeat.", of="updates"),
    "set": Row(list[str], None, "Set an argument; repeat for more.", "KEY=VALUE"),
    "samples": Row(int, 16, "Samples per group, N."),
    "updates": Row(int, 200, "Optimizer updates."),
    "epochs": Row(int, None, "Passes over a batch (default: the system's, or 1)."),
    "minibatches": Row(int, None, "Parts of a batch (default: the system's, or 1)."),
    "cut": Row(str, None, "Cut by groups (default), parts, samples or tokens."),
    "advantages_from": Row(str, "batch", "Compute advantages per batch or per minibatch."),
    "replicates": Row(int, None, "Independent seeds, R (default: 64, language models 1)."),
    "sampling": Row(str, "monte_carlo", "monte_carlo, counts or enumerate."),
    "diagnostics": Row(str, "default", "default, none, or names separated by commas."),
    "every": Row(int, 1, "Record every N-th update."),
    "dtype": Row(str, None, "float64 or float32 (default: the policy's)."),
    "device": Row(str, "cpu", "cpu or cuda (networks only)."),
}
"""Options that describe a run; they cannot be combined with the file of a spec."""
PARTS = ("task", "policy", "method", "advantage", "system", "schedule", "rewards")
SIZES = tuple(DESCRIBES)[tuple(DESCRIBES).index("samples") :]
"""Names of the settings of a spec that belong to no part."""

OPTIONS = {
    **DESCRIBES,
    "seed": Row(int, 0, "Seed of everything."),
    "plot": writes("Draw a picture to this path (.png, .pdf or .svg)."),
    "save": writes("Save the trace; load it with sim.Trace.load."),
    "csv": writes("Write the table to this path."),
    "json": writes("Write the result as JSON to this path."),
    "checkpoint": writes("Keep what is reached in this file, for --resume."),
    "checkpoint_every": Row(str, None, 'Seconds between checkpoints, or "500 updates".', "SECONDS"),
    "resume": Row(Path, None, "Go on from this checkpoint, without other options."),
    "trust": Row(list[str], None, "Code that a file may call, my.py:name. Repeat for more.", "PLACE"),
    "other_code": Row(bool, False, "Continue although the code has changed."),
    "workers": Row(int, None, "Worker processes (default: one per core if long)."),
    "log": Row(list[str], None, "Log metrics, live or as tensorboard:FOLDER. Repeat.", "WHERE"),
    "print_spec": Row(bool, False, "Print the spec as JSON, ready for a file, and stop."),
    "dry_run": Row(bool, False, "Check the spec, print its header, and stop."),
    "metric": Row(str, notation.TRAINED, "What is compared; see `asyncsim list metrics`.", of="diagnostics"),
    "over": Row(str, "mean", "mean (over updates), end, time, reached, collapse."),
    "target": Row(float, None, "Value to reach (time, reached, seconds or slot-hours)."),
    "better": Row(str, None, "higher or lower (default: lower for KL, loss, time)."),
    "store": Row(str, STORE, "Folder or address of the store."),
    "verbose": Row(bool, False, "Print all settings and details.", short="v"),
    "at": Row(list[str], None, "Measure one claim at another point; repeat for more.", "KEY=VALUE"),
}
"""All options that several commands share, or that describe a run."""
