"""The command line: list, run, compare, sweep, results, verify, timeline, log, conformance, diagnose.

Each has --help, --json PATH and an exit status that a script can use:

    0    all well
    1    a claim is violated (or a planted defect not caught), a loss or controller deviates, a unit of a sweep failed,
         a finding on telemetry differs
    2    bad input: one line names field, value, bound and remedy
    3    nothing is violated, but a claim or a comparison is undecided, or the point of a claim is outside
    4    an output could not be written; the others are
    5    all well, but stdout was closed or full
    130  stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP; what was reached until then is written

Files are written before anything is printed about the result, so that a closed pipe loses none of them.
"""

from __future__ import annotations

import functools
import inspect
import json
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from asyncsim.app import commands, comparing, complaints, completing, conforming, logs, streams, sweeping, wording
from asyncsim.app.commands import KINDS
from asyncsim.base import checks, notation, stopping

app = typer.Typer(
    no_args_is_help=True,
    epilog="Exit status: 0 all well, 1 violated, 2 bad input, 3 undecided, 4 an output is lost, "
    "5 stdout closed or full, 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A laboratory for asynchronous policy-gradient learning. "
    "Example: asyncsim run --task softmax-bandit --method grpo --staleness 16 --plot out.png",
)


def _lines(rows: Sequence[dict[str, str]]) -> str:
    width = max(len(row["name"]) for row in rows)
    return "\n".join(f"{row['name']:{width}}  {row['summary']}" for row in rows)


Json = Annotated[Path | None, typer.Option("--json", help="Write the result as JSON to this path.")]
Over = Annotated[str, typer.Option(help="mean (over updates), end, time (to --target), reached, collapse.")]
Target = Annotated[float | None, typer.Option(help="Value to reach, for --over time and reached.")]
Better = Annotated[str, typer.Option(help="higher or lower values of the metric.")]
RunWorkers = Annotated[
    int | None, typer.Option("--workers", help="Processes that train (default: one a core for what takes long).")
]
_STDOUT = Path("-")
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set an argument; repeat for more.")]
Trust = Annotated[
    list[str] | None,
    typer.Option(metavar="PLACE", help="Your code that a file may call, my.py:name or module:name. Repeat for more."),
]


def guarded(command: Callable[..., int]) -> Callable[..., None]:
    """Bad input ends in one line and status 2, never in a traceback."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        try:
            status = command(*arguments, **options)
        except (checks.InputError, checks.RunError) as error:
            streams.complain(str(error))
            status = 2
        except KeyboardInterrupt as error:
            number = stopping.number_of(error)
            nothing = f"stopped by {stopping.NAMES[number]} before there was anything to keep"
            streams.complain(str(error) if isinstance(error, stopping.Kept) else nothing)
            status = 128 + number
        raise typer.Exit(status)

    wrapped.__signature__ = inspect.signature(command, eval_str=True)  # type: ignore[attr-defined]
    return wrapped


def _version(wanted: bool) -> None:
    if wanted:
        print(f"asyncsim {sys.modules['asyncsim'].__version__}")
        raise typer.Exit(0)


@app.callback()
def everything(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before any command."""


@app.command("list")
@guarded
def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(help="One of " + ", ".join(KINDS) + " (or metrics).", autocompletion=completing.kinds),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(help="One of them: its arguments and what it is.", autocompletion=completing.of_kind)
    ] = None,
    json_path: Json = None,
) -> int:
    """What there is of a kind, with one line about each; or all about one of them. `--json` alone prints JSON."""
    to_stdout = json_path == _STDOUT
    commands.outputs(json=None if to_stdout else json_path)
    kind = {"metrics": "diagnostics"}.get(kind or "", kind)
    about: Any
    if kind is None:
        about = commands.kinds()
        page = _lines(about)
    elif name is not None:
        checks.one_of("kind", kind, KINDS, "choose what to list")
        about = commands.described(kind, name)
        page = "\n\n".join(text for text in (about["signature"] or about["name"], about["doc"]) if text)
    else:
        checks.one_of("kind", kind, KINDS, "choose what to list")
        rows = commands.names(kind)
        about = rows if json_path is None else [row | commands.facts(kind, row["name"]) for row in rows]
        page = _lines(rows)
    outputs = streams.Files()
    outputs.write("--json", None if to_stdout else json_path, lambda path: commands.write_json(path, about))
    print(_json(about) if to_stdout else page)
    return outputs.status(0)


def _given(context: typer.Context) -> list[str]:
    """Options of a command that were given, not left at their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


@app.command()
@guarded
def run(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="A spec as JSON or YAML, in place of the options that describe one.")
    ] = None,
    task: Annotated[
        str, typer.Option(help="What is trained; see `asyncsim list tasks`.", autocompletion=completing.named("tasks"))
    ] = "softmax-bandit",
    policy: Annotated[
        str | None,
        typer.Option(
            help="Policy in place of the task's own; see `asyncsim list policies`.",
            autocompletion=completing.named("policies"),
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="Estimator; see `asyncsim list methods`. Aggregators differ in scale: tune learning rates, "
            "or use --link adam.",
            autocompletion=completing.named("methods"),
        ),
    ] = "reinforce",
    advantage: Annotated[
        str | None,
        typer.Option(help="Baseline; see `asyncsim list advantages`.", autocompletion=completing.named("advantages")),
    ] = None,
    staleness: Annotated[int | None, typer.Option(help="Constant staleness in versions (a fixed schedule).")] = None,
    system: Annotated[
        str | None,
        typer.Option(
            help="Event system in place of --staleness; see `asyncsim list systems`.",
            autocompletion=completing.named("systems"),
        ),
    ] = None,
    coupled: Annotated[
        bool,
        typer.Option(
            "--coupled", help="Use response lengths the policy generates instead of --system's length distribution."
        ),
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="Imposed schedule in place of --staleness; see `asyncsim list schedules`.",
            autocompletion=completing.named("schedules"),
        ),
    ] = None,
    rewards: Annotated[
        str | None,
        typer.Option(
            help="Rewards that arrive late: late, with --set rewards.share=0.2; see `asyncsim list rewards late`.",
            autocompletion=completing.named("rewards"),
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            help="Update link, in order; repeat for a chain (default: sgd for tables, else clip-norm, adam).",
            autocompletion=completing.named("updates"),
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PART.KEY=VALUE",
            help="Argument of a part: task.arms=5, method.cap=4, adam.lr=0.01, system.load=2; or a setting of the "
            "system's event model: model.rate=30. Repeat for more.",
        ),
    ] = None,
    samples: Annotated[int, typer.Option(help="Samples per group, N.")] = 16,
    updates: Annotated[int, typer.Option(help="Optimizer updates.")] = wording.UPDATES,
    epochs: Annotated[
        int | None,
        typer.Option(help="How often each batch is gone through (default: what the system recommends, else 1)."),
    ] = None,
    minibatches: Annotated[
        int | None,
        typer.Option(help="Parts of a batch, an update on each (default: what the system recommends, else 1)."),
    ] = None,
    cut: Annotated[
        str | None, typer.Option(help="What minibatches are cut between: groups (default), parts, samples, tokens.")
    ] = None,
    advantages_from: Annotated[
        str, typer.Option(help="Where advantages are made: in the whole batch, or in each minibatch.")
    ] = "batch",
    replicates: Annotated[
        int | None, typer.Option(help="Independent seeds, R (default: 64, for language models 1).")
    ] = None,
    sampling: Annotated[str, typer.Option(help="monte_carlo, counts or enumerate.")] = "monte_carlo",
    diagnostics: Annotated[str, typer.Option(help="default, none, or names separated by commas.")] = "default",
    every: Annotated[int, typer.Option(help="Record each so many updates.")] = 1,
    dtype: Annotated[str | None, typer.Option(help="float64 or float32 (default: the policy's).")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda (networks only).")] = "cpu",
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the trace to this path (.png, .pdf or .svg).")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the trace to this path; load it with sim.Trace.load.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep what was reached in this file, from which --resume goes on.")
    ] = None,
    checkpoint_every: Annotated[
        str | None, typer.Option(metavar="SECONDS", help='Time between checkpoints (default: 60), or "500 updates".')
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on from this checkpoint, to the same bits; options that describe the run may be left out."
        ),
    ] = None,
    trust: Trust = None,
    other_code: Annotated[
        bool, typer.Option("--other-code", help="Go on with other code than the checkpoint was made with.")
    ] = False,
    workers: RunWorkers = None,
    log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHERE",
            help="Log metrics: tensorboard:FOLDER, wandb:PROJECT, trackio:PROJECT, live, live:METRIC. Repeat for more.",
        ),
    ] = None,
    print_spec: Annotated[
        bool, typer.Option("--print-spec", help="Print the spec as JSON, ready for a file, and stop.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the spec, print its header, and stop.")] = False,
    json_path: Json = None,
) -> int:
    """Train a policy on the staleness of a system, over many replicates at once."""
    commands.outputs(plot, save=save, json=json_path, checkpoint=checkpoint)
    # Collect parts and sizes.
    parts = {
        "task": task,
        "policy": policy,
        "method": method,
        "advantage": advantage,
        "system": system,
        "schedule": schedule,
        "rewards": rewards,
    }
    sizes = {
        "samples_per_group": samples,
        "updates": updates,
        "epochs": epochs,
        "minibatches": minibatches,
        "cut": cut,
        "advantages_from": advantages_from,
        "replicates": replicates,
        "sampling": sampling,
        "every": every,
        "dtype": dtype,
        "device": device,
        "diagnostics": diagnostics if diagnostics in ("default", "none") else diagnostics.split(","),
    }
    # Build the spec, or read it.
    given = _given(context)
    if resume is not None and wording.describe_nothing(given):
        spec, seed = commands.remade(resume, seed if "seed" in given else None, trust or [])
    elif file is None:
        spec = wording.spec(parts, link or [], staleness, coupled, settings or [], sizes)
    else:
        spec = wording.of_file(file, given, trust or [])
    if print_spec or dry_run:
        return commands.show(spec, print_spec)
    keeping = commands.Keeping(checkpoint, checkpoint_every, resume, log or [], workers, other_code)
    return commands.run(spec, seed, plot, save, json_path, keeping)[1]


@app.command()
@guarded
def compare(
    arms: Annotated[
        list[str],
        typer.Argument(
            help='Two or more arms, each the words that are its own: "method=grpo method.low=0.1" or "staleness=0"; '
            "NAME: in front names it. Others are compared with the first."
        ),
    ],
    smallest: Annotated[float, typer.Option(help="Smallest difference that matters, in units of the metric.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Words of all arms: task=token-bandit, task.horizon=32, staleness=16, link=adam, updates=200.",
        ),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="What is compared; see `asyncsim list metrics`.", autocompletion=completing.named("diagnostics")
        ),
    ] = notation.TRAINED,
    over: Over = "mean",
    statistic: Annotated[str, typer.Option(help="mean, median, iqm or improvement.")] = "mean",
    error: Annotated[float, typer.Option(help="Probability of a wrong word.")] = 0.05,
    tune: Annotated[str, typer.Option(help="Knob in which each arm is tuned first; none to keep the arms.")] = "lr",
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS", help='Another task to ask on: "task.actions=8 task.horizon=32". Repeat for more.'
        ),
    ] = None,
    target: Target = None,
    better: Better = "higher",
    interval: Annotated[str, typer.Option(help="auto, planned or betting.")] = "auto",
    max_replicates: Annotated[int, typer.Option(help="Replicates at which an undecided comparison ends.")] = 1024,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    store: Annotated[
        str | None, typer.Option(help="Folder or address that keeps each training; what is there is not done again.")
    ] = None,
    workers: RunWorkers = None,
    plot: Annotated[Path | None, typer.Option(help="Draw curves and intervals to this path.")] = None,
    json_path: Json = None,
) -> int:
    """Say which of several arms is better, by how much and how surely, each at its own best learning rate."""
    commands.outputs(plot, json=json_path)
    options = {
        "smallest": smallest,
        "metric": metric.replace("-", "_"),
        "over": over,
        "statistic": statistic,
        "error": error,
        "tune": None if tune.lower() == "none" else tune,
        "target": target,
        "better": better,
        "interval": interval,
        "max_replicates": max_replicates,
        "seed": seed,
        "store": store,
        "workers": workers,
    }
    return comparing.compare(arms, settings or [], also or [], options, plot, json_path)[1]


@app.command()
@guarded
def sweep(
    grid: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=V1,V2,...",
            help="What is varied: staleness=0,4,16, method=grpo,reinforce, lr=0.01:1:9 (low:high:count, logarithmic). "
            "Repeat for more.",
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Words of every setting: task=token-bandit, task.horizon=32, link=adam, updates=200.",
        ),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="Names separated by commas; see `asyncsim list metrics`.")
    ] = notation.TRAINED,
    over: Over = "mean",
    target: Target = None,
    better: Better = "higher",
    replicates: Annotated[int, typer.Option(help="Replicates of each setting.")] = 64,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    store: Annotated[
        str,
        typer.Option(help="Folder or address (s3://bucket/folder) of the numbers; what is there is not done again."),
    ] = sweeping.STORE,
    workers: Annotated[int | None, typer.Option(help="Worker processes (default: one a core).")] = None,
    backend: Annotated[str, typer.Option(help="processes or ray.")] = "processes",
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster (default: one on this machine).")
    ] = None,
    claim: Annotated[
        str | None, typer.Option(help="Claim whose prediction is drawn.", autocompletion=completing.named("claims"))
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Parameter of the claim that the grid lacks.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw a heat map or lines to this path.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this path.")] = None,
    other_code: Annotated[
        bool, typer.Option("--other-code", help="Count units of the store that other code made.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check every setting, count the units, and stop.")] = False,
    json_path: Json = None,
) -> int:
    """Run every setting of a grid, resumably, on all cores or a cluster, and keep the numbers of all replicates."""
    commands.outputs(plot, csv=csv, json=json_path)
    metrics = [name.strip().replace("-", "_") for name in metric.split(",")]
    reading = {"metrics": metrics, "over": over, "target": target, "better": better}
    paths = {"plot": plot, "csv": csv, "json": json_path}
    for option, path in (("--plot", plot), ("--csv", csv)):
        checks.require(not (dry_run and path), option, str(path), "left out beside --dry-run", "nothing is run then")
    from asyncsim.sweeping.sweeps import Work

    work = Work(store, workers, backend, address, other_code=other_code)
    return sweeping.sweep(settings or [], grid, reading, replicates, seed, work, (claim, at or []), paths, dry_run)[1]


results = typer.Typer(no_args_is_help=True, help="What a store of sweeps holds: ls, show, verify, gc.")
app.add_typer(results, name="results")
Where = Annotated[str, typer.Option("--store", help="Folder or address of the store.")]


@results.command("ls")
@guarded
def results_ls(store: Where = sweeping.STORE, json_path: Json = None) -> int:
    """The sweeps of a store, the latest first, and how far each is."""
    commands.outputs(json=json_path)
    return sweeping.results_ls(store, {"json": json_path})


@results.command("show")
@guarded
def results_show(
    name: Annotated[str | None, typer.Argument(help="Beginning of a sweep's id (default: the only one).")] = None,
    store: Where = sweeping.STORE,
    plot: Annotated[Path | None, typer.Option(help="Draw a heat map or lines to this path.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this path.")] = None,
    json_path: Json = None,
) -> int:
    """The table of one sweep, as far as it is done."""
    commands.outputs(plot, csv=csv, json=json_path)
    return sweeping.results_show(store, name, {"plot": plot, "csv": csv, "json": json_path})


@results.command("verify")
@guarded
def results_verify(
    store: Where = sweeping.STORE,
    again: Annotated[int, typer.Option(help="Do so many units again, drawn at random, and compare to the bit.")] = 0,
    trust: Trust = None,
    seed: Annotated[int, typer.Option(help="Seed of that draw.")] = 0,
    json_path: Json = None,
) -> int:
    """Whether the rows of a store are as they were written, and come out again."""
    commands.outputs(json=json_path)
    checks.integer("--again", again, 0, "count units")
    checks.integer("--seed", seed, 0, "give a non-negative integer seed")
    return sweeping.results_verify(store, again, seed, trust or [], {"json": json_path})


@results.command("gc")
@guarded
def results_gc(
    store: Where = sweeping.STORE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the files, and move none.")] = False,
) -> int:
    """Move units that no sweep of the store needs, and reasons of failures that are over, into its trash."""
    return sweeping.results_gc(store, dry_run)


@app.command()
@guarded
def verify(
    claims: Annotated[
        list[str] | None,
        typer.Argument(
            help="Claims to check (default: all); see `asyncsim list claims`.",
            autocompletion=completing.named("claims"),
        ),
    ] = None,
    size: Annotated[
        str,
        typer.Option(
            help="quick, full (half the effect, more points), or long (full at fresh seeds that add up in --evidence)."
        ),
    ] = "quick",
    defects: Annotated[
        bool, typer.Option("--defects", help="Plant each claim's defects too: every one must flip the verdict.")
    ] = False,
    at: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Measure one claim at another point; repeat for more.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the measurements (default: 0, or a fresh one with --size long).")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Report: HTML with a figure per claim, or Markdown where the path ends in .md (default: "
            "build/report.html of all claims, build/report-part.html of fewer)."
        ),
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option(help="File in which the runs of --size long add up (default: build/evidence.json).")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes (default: one a core for many claims).")] = None,
    json_path: Json = None,
) -> int:
    """Measure claims of the theory beside their predictions, with verdicts of stated error rates."""
    from asyncsim.app import verdicts

    commands.outputs(report=report or verdicts.REPORT, json=json_path, evidence=evidence)
    parameters = wording.settings(at, "--at") if at else None
    point = None if parameters is None else {key: wording.understood(value, None) for key, value in parameters.items()}
    checks.require(point is None or len(claims or ()) == 1, "--at", at, "used with one claim", "name the claim")
    request = verdicts.Request(claims or [], size, defects, seed, point, evidence, workers)
    return verdicts.verify(request, report, json_path)[1]


@app.command()
@guarded
def timeline(
    preset: Annotated[
        str, typer.Argument(help="A system; see `asyncsim list systems`.", autocompletion=completing.named("systems"))
    ],
    settings: Set = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Change a setting of the event model that the preset has no knob for: rate=30 (tokens a second of a "
            "sample), slots=64, reward=exponential:2, reward=@delays.csv:reward_ms*0.001.",
        ),
    ] = None,
    updates: Annotated[int, typer.Option(help="Optimizer updates to simulate.")] = 200,
    samples: Annotated[int, typer.Option(help="Samples per group.")] = 1,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="KNOB=V1,V2,...",
            help="Simulate at every value: staleness, speed and idle shares, and the knee. Repeat for more.",
        ),
    ] = None,
    realizations: Annotated[int, typer.Option(help="Realizations of each value, with --sweep.")] = 16,
    seed: Annotated[int, typer.Option(help="Seed of the works.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the timeline to this path.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write a trace file that ui.perfetto.dev opens.")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the timeline; load it with sim.Timeline.load.")] = None,
    json_path: Json = None,
) -> int:
    """Simulate a system: how stale its data is beside the prediction, what is lost and what it costs."""
    commands.outputs(plot, save=save, trace=trace, json=json_path)
    knobs, changes = wording.settings(settings or []), wording.settings(model or [], "--model")
    if over:
        for option, path in (("--save", save), ("--trace", trace)):
            checks.require(path is None, option, str(path), "left out beside --sweep", "record a single timeline")
        own = {"plot": plot, "json": json_path}
        return sweeping.timeline(preset, knobs, changes, over, updates, samples, realizations, seed, own)[1]
    paths = {"plot": plot, "save": save, "trace": trace, "json": json_path}
    return commands.timeline(preset, knobs, changes, updates, samples, seed, paths)[1]


@app.command("log")
@guarded
def read_log(
    path: Annotated[Path, typer.Argument(help="A file of the log, a folder of files, or a pattern in quotes.")],
    stack: Annotated[
        str | None, typer.Option(help="The trainer that wrote it; `asyncsim list logs` has all of them.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Ours to theirs: start_version=gen_step,train_version=path:step_#.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="unit, batches_per_publish, updates_per_batch, samples_per_publish, train_offset, stamp_offset, "
            "start_is or first_version, as sim.schedules.replay has them; repeat for more.",
        ),
    ] = None,
    delays: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Report on one column of delays instead, ms*0.001 with its factor."),
    ] = None,
    staleness: Annotated[
        str | None, typer.Option(help="Expected staleness: constant:4, uniform, geometric:7 or capped.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the staleness to this path.")] = None,
    json_path: Json = None,
) -> int:
    """How stale a real run was by its own log: staleness, its distribution, fates, and what it cannot tell.

    Versions that the log lacks stay unknown. With --delays it says how correlated measured delays are.
    """
    commands.outputs(plot, json=json_path)
    outputs = streams.Files()
    if delays is not None:
        others = {"stack": stack, "columns": columns, "staleness": staleness, "plot": plot}
        report, text = logs.recorded(path, delays, settings or [], others)
    else:
        chosen = logs.settings(settings or [])
        report, text = logs.shown(path, {"stack": stack, "columns": columns, **chosen}, plot, staleness)
    outputs.write("--json", json_path, lambda place: commands.write_json(place, report))
    print(text)
    return outputs.status(int("law" in report and report["law"]["verdict"] == "differs"))


@app.command()
@guarded
def conformance(
    target: Annotated[
        str, typer.Argument(help="Your loss, metric or controller, module:name or file.py:name; or trl, torchrl.")
    ],
    like: Annotated[
        str | None,
        typer.Option(help="The method or metric that it is meant to be (default: any), a method with either anchor."),
    ] = None,
    metric: Annotated[bool, typer.Option("--metric", help="It is a metric, such as an ESS: say which.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Argument of the method of --like (high=0.28), of the adapter (adapter.old=behavior), or, for a "
            "controller, of its check (batch_size=4) and of its class (controller.KEY). Repeat for more.",
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CALL=METHOD",
            help="Your controller's name of a call (capacity=get_capacity), none to leave it out. Repeat for more.",
        ),
    ] = None,
    adapter: Annotated[str | None, typer.Option(help="Style of the loss: verl, areal, roll or openrlhf.")] = None,
    advantages_per: Annotated[
        str | None,
        typer.Option(help="token or sequence: whether advantages differ inside a row (default: as the adapter says)."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Count hazards like bugs.")] = False,
    allow: Annotated[list[str] | None, typer.Option(help="A finding that does not count; repeat for more.")] = None,
    hazards: Annotated[
        bool, typer.Option("--hazards", help="Print hazards where the output is no terminal, or beside --json.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the batches on which a loss is evaluated.")] = 0,
    json_path: Json = None,
) -> int:
    """Say which method a loss or which metric a number is, and its known mistakes; or check a controller."""
    commands.outputs(json=json_path)
    whole = hazards or strict or (json_path is None and sys.stdout.isatty())
    request = conforming.Request(like, adapter, advantages_per, strict, allow or [], seed, whole, metric)
    result, status = conforming.check(target, request, settings, names)
    outputs = streams.Files()
    outputs.write("--json", json_path, lambda path: commands.write_json(path, result))
    return outputs.status(status)


@app.command()
@guarded
def diagnose(
    path: Annotated[Path, typer.Argument(help="Telemetry: .csv, .jsonl or .parquet, a row a step or a row a token.")],
    tokens: Annotated[Path | None, typer.Option(help="A second file with a row a token, of the same steps.")] = None,
    batch: Annotated[float | None, typer.Option(help="Weights that the logged ESS counts.")] = None,
    staleness: Annotated[
        str | None, typer.Option(help="What is expected: 4, constant:4, sawtooth, uniform, geometric or capped.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate, beside --curvature.")] = None,
    curvature: Annotated[float | None, typer.Option(help="Largest curvature of the loss.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Momentum of the logged gradients.")] = None,
    cap: Annotated[float | None, typer.Option(help="Clamp of the logged ESS.")] = None,
    floor: Annotated[
        float, typer.Option(help="Variance in nats^2 by which engines may differ on fresh tokens.")
    ] = 1e-3,
    html: Annotated[
        Path | None, typer.Option(help="Write a page: HTML, or Markdown where the path ends in .md.")
    ] = None,
    json_path: Json = None,
) -> int:
    """Read a run's telemetry beside its predictions: staleness, mismatch, drift, ESS, cosine, boundary, known bugs."""
    from asyncsim.app import diagnosing
    from asyncsim.diagnosing import diagnose as ask

    commands.outputs(html=html, json=json_path)
    knobs = {"learning_rate": learning_rate, "curvature": curvature, "momentum": momentum, "cap": cap}
    found = ask(path, tokens=tokens, batch=batch, staleness=staleness, floor=floor, **knobs)
    outputs = streams.Files()
    outputs.write("--json", json_path, lambda path: commands.write_json(path, found.json()))
    outputs.write("--html", html, lambda path: diagnosing.write(found, path))
    print(found)
    return outputs.status(diagnosing.status(found))


def _json(value: Any) -> str:
    from asyncsim.base import records

    return json.dumps(records.plain(value), indent=2)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the `asyncsim` command; `arguments` default to those of the process."""
    warnings.formatwarning = _one_line
    with streams.guarded() as out, stopping.terminable():
        status = _status(list(sys.argv[1:] if arguments is None else arguments))
        out.flush()
        if out.failure is not None:
            reason = getattr(out.failure, "strerror", None) or out.failure
            remedy = "files are written; send the page elsewhere" if status == 0 else "send the page elsewhere"
            streams.complain(str(checks.InputError("stdout", str(reason), "open and with room to the end", remedy)))
            status = status or streams.UNREAD
    sys.exit(status)


_FORMAT = warnings.formatwarning


def _one_line(message: Any, category: type[Warning], *where: Any, **more: Any) -> str:
    """Our own warnings as errors are printed, those of others as they are."""
    if issubclass(category, checks.ShortRunWarning):
        return f"asyncsim: {message}\n"
    return _FORMAT(message, category, *where, **more)


def _status(arguments: list[str]) -> int:
    """Run the command and give its exit status."""
    command: Any = typer.main.get_command(app)
    if arguments[:1] == ["list"] and arguments[-1] == "--json":
        arguments.append(str(_STDOUT))
    made = [*app.registered_commands, *results.registered_commands]
    try:
        complaints.refuse_grouped(arguments, (each.callback for each in made))
        return int(command.main(arguments, prog_name="asyncsim", standalone_mode=False) or 0)
    except checks.InputError as error:
        streams.complain(str(error))
        return 2
    except complaints.USAGE as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
        else:
            streams.complain(str(complaints.translated(error, arguments, list(command.commands))))
        return 2
    except typer.Abort:
        streams.complain("stopped before there was anything to keep")
        return 128 + signal.SIGINT


if __name__ == "__main__":
    main()
