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
from types import SimpleNamespace
from typing import Annotated, Any, NoReturn

import typer

from asyncsim.app import commands, comparing, complaints, completing, conforming, logs, streams, sweeping, wording
from asyncsim.app.options import (
    COUNT,
    DESCRIBES,
    FILE,
    KINDS,
    NUMBER,
    OPTIONS,
    STDOUT,
    TEXT,
    WORDS,
    Row,
    argument,
    writes,
)
from asyncsim.base import checks, records, stopping

app = typer.Typer(
    no_args_is_help=True,
    epilog="Exit status: 0 all well, 1 violated, 2 bad input, 3 undecided, 4 an output is lost, "
    "5 stdout closed or full, 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A laboratory for asynchronous policy-gradient learning. "
    "Example: asyncsim run --task softmax-bandit --method grpo --staleness 16 --plot out.png",
)


results = typer.Typer(no_args_is_help=True, help="What a store of sweeps holds: ls, show, verify, gc.")
app.add_typer(results, name="results")


def _lines(rows: Sequence[dict[str, str]]) -> str:
    width = max(len(row["name"]) for row in rows)
    return "\n".join(f"{row['name']:{width}}  {row['summary']}" for row in rows)


def command(
    group: typer.Typer, order: str, /, called: str | None = None, **own: Row | str
) -> Callable[[Callable[[Any], int]], Callable[[Any], int]]:
    """A command with options in this order, as in `OPTIONS`, with another help, or of its own.

    The function gets them as one object, with `given`, options that were given, and `paths`, files to be written, which
    are tried first. Bad input ends in one line and status 2, never in a traceback.
    """
    rows: dict[str, Row] = {}
    for name in order.split():
        row = own.get(name) or OPTIONS[name]
        rows[name] = OPTIONS[name]._replace(help=row) if isinstance(row, str) else row

    def add(function: Callable[[Any], int]) -> Callable[[Any], int]:
        def wrapped(context: typer.Context, **options: Any) -> None:
            try:
                paths = {name: path for name, path in options.items() if rows[name].written}
                commands.outputs(**{name: path for name, path in paths.items() if path != STDOUT})
                lists = {name: value or [] for name, value in options.items() if rows[name].kind == WORDS}
                status = function(SimpleNamespace(**{**options, **lists}, given=_given(context), paths=paths))
            except (checks.InputError, checks.RunError) as error:
                streams.complain(str(error))
                status = 2
            except KeyboardInterrupt as error:
                number = stopping.number_of(error)
                nothing = f"stopped by {stopping.NAMES[number]} before there was anything to keep"
                streams.complain(str(error) if isinstance(error, stopping.Kept) else nothing)
                status = 128 + number
            raise typer.Exit(status)

        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        wrapped.__signature__ = inspect.Signature([context, *map(_parameter, rows, rows.values())])  # type: ignore[attr-defined]
        wrapped.__doc__ = function.__doc__
        group.command(called or function.__name__)(wrapped)
        return function

    return add


def _parameter(name: str, row: Row) -> inspect.Parameter:
    """What typer reads of an option."""
    more: dict[str, Any] = {"help": row.help}
    if row.of is not None:
        more["autocompletion"] = getattr(completing, row.of, None) or completing.named(row.of)
    make = typer.Argument if row.positional else functools.partial(typer.Option, f"--{name.replace('_', '-')}")
    default = inspect.Parameter.empty if row.default is ... else row.default
    kind: Any = Annotated[row.kind, make(metavar=row.metavar, **more)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def _given(context: typer.Context) -> list[str]:
    """Options of a command that were given, not left at their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


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


@command(
    app,
    "kind name json",
    called="list",
    kind=argument(TEXT, None, "A kind, such as methods (default: all kinds).", "kinds"),
    name=argument(TEXT, None, "One of them: its arguments and what it is.", "of_kind"),
)
def list_names(o: SimpleNamespace) -> int:
    """What there is of a kind, or all about one of them.

    `--json` alone prints JSON.
    """
    kind = {"metrics": "diagnostics"}.get(o.kind or "", o.kind)
    about: Any
    if kind is None:
        about = commands.kinds()
        page = _lines(about)
    elif o.name is not None:
        checks.one_of("kind", kind, KINDS, "choose what to list")
        about = commands.described(kind, o.name)
        page = "\n\n".join(text for text in (about["signature"] or about["name"], about["doc"]) if text)
    else:
        checks.one_of("kind", kind, KINDS, "choose what to list")
        rows = commands.names(kind)
        about = rows if o.json is None else [row | commands.facts(kind, row["name"]) for row in rows]
        page = _lines(rows)
    if o.json == STDOUT:
        page = json.dumps(records.plain(about), indent=2)
    outputs = streams.Files()
    outputs.write("--json", None if o.json == STDOUT else o.json, lambda path: commands.write_json(path, about))
    print(page)
    return outputs.status(0)


@command(
    app,
    f"file {' '.join(DESCRIBES)} seed plot save checkpoint checkpoint_every resume trust other_code workers log "
    "print_spec dry_run json",
    file=argument(FILE, None, "A spec as JSON or YAML, in place of its options."),
    set="Argument of a part: task.arms=5, adam.lr=0.01. Repeat.",
    seed="Seed of the run.",
    plot="Draw the trace to this path (.png, .pdf or .svg).",
)
def run(o: SimpleNamespace) -> int:
    """Train many replicates on the staleness of a system.

    Aggregators of methods differ in scale: tune learning rates, or use --link adam. Arguments of parts are
    PART.KEY=VALUE: task.arms=5, method.cap=4, adam.lr=0.01, system.load=2, and model.rate=30 for settings of the
    system's event model. Logs go to tensorboard:FOLDER, wandb:PROJECT, trackio:PROJECT, live or live:METRIC.
    """
    if o.resume is not None and not {"file", *DESCRIBES} & set(o.given):
        spec, o.seed = commands.remade(o.resume, o.seed if "seed" in o.given else None, o.trust)
    elif o.file is not None:
        spec = wording.of_file(o.file, o.given, o.trust)
    else:
        names = o.diagnostics if o.diagnostics in ("default", "none") else o.diagnostics.split(",")
        spec = wording.spec({name: vars(o)[name] for name in DESCRIBES} | {"diagnostics": names}, o.set)
    return commands.show(spec, o.print_spec) if o.print_spec or o.dry_run else commands.run(spec, o)


@command(
    app,
    "arms smallest set metric over statistic error tune also target better interval max_replicates seed store workers "
    "plot json",
    arms=argument(list[str], ..., 'Two or more, such as "method=grpo method.low=0.1".'),
    smallest=Row(float, ..., "Smallest difference of the metric that matters."),
    set="Words of all arms: task=token-bandit, staleness=16.",
    statistic=Row(str, "mean", "mean, median, iqm or improvement."),
    error=Row(float, 0.05, "Probability of a wrong word."),
    tune=Row(str, "lr", "Knob in which each arm is tuned first, or none."),
    also=Row(WORDS, None, 'Another task: "task.actions=8 task.horizon=32". Repeat.', "WORDS"),
    interval=Row(str, "auto", "auto, planned or betting."),
    max_replicates=Row(int, 1024, "Where an undecided comparison ends."),
    store=Row(TEXT, None, "Folder or address that keeps each training."),
    plot="Draw curves and intervals to this path.",
)
def compare(o: SimpleNamespace) -> int:
    """Say which of several arms is better, and how surely.

    And by how much, each arm at its own best learning rate. An arm is the words that are its own; NAME: in front of
    them names it. Others are compared with the first. Words of all arms are those of a spec: task.horizon=32,
    link=adam.
    """
    o.metric, o.tune = o.metric.replace("-", "_"), None if o.tune.lower() == "none" else o.tune
    return comparing.compare(o)


@command(
    app,
    "grid set metric over target better replicates seed store workers backend address claim at plot csv other_code "
    "dry_run json",
    grid=Row(list[str], ..., "What is varied: staleness=0,4,16. Repeat for more.", "NAME=V1,V2,..."),
    set="Words of every setting: task=token-bandit, link=adam.",
    metric=OPTIONS["metric"]._replace(help="Names separated by commas; see `asyncsim list metrics`.", of=None),
    replicates=Row(int, 64, "Replicates of each setting."),
    store="Folder or address (s3://bucket/folder) of the numbers.",
    workers="Worker processes (default: one a core).",
    backend=Row(str, "processes", "processes or ray."),
    address=Row(TEXT, None, "Address of a Ray cluster (default: this machine)."),
    claim=Row(TEXT, None, "Claim whose prediction is drawn.", of="claims"),
    at="Parameter of the claim that the grid lacks.",
    plot="Draw a heat map or lines to this path.",
    other_code="Count units of the store that other code made.",
    dry_run="Check every setting, count the units, and stop.",
)
def sweep(o: SimpleNamespace) -> int:
    """Run every setting of a grid and keep all its numbers.

    Resumably, on all cores or a cluster; numbers are those of all replicates. What is varied: staleness=0,4,16,
    method=grpo,reinforce, lr=0.01:1:9 (low:high:count, logarithmic). What is in the store is not done again.
    """
    for option, path in (("--plot", o.plot), ("--csv", o.csv)):
        checks.require(not (o.dry_run and path), option, str(path), "left out beside --dry-run", "nothing is run then")
    return sweeping.sweep(o)


@command(results, "store json", called="ls")
def results_ls(o: SimpleNamespace) -> int:
    """Sweeps of a store, the latest first, how far each is."""
    return sweeping.results_ls(o.store, o.paths)


@command(
    results,
    "name store plot csv json",
    called="show",
    name=argument(TEXT, None, "Beginning of a sweep's id (default: the only one)."),
    plot="Draw a heat map or lines to this path.",
)
def results_show(o: SimpleNamespace) -> int:
    """The table of one sweep, as far as it is done."""
    return sweeping.results_show(o.store, o.name, o.paths)


@command(
    results,
    "store again trust seed json",
    called="verify",
    again=Row(int, 0, "Do so many units again, drawn at random, to the bit."),
    seed="Seed of that draw.",
)
def results_verify(o: SimpleNamespace) -> int:
    """Whether rows are as written, and come out again."""
    checks.integer("--again", o.again, 0, "count units")
    checks.integer("--seed", o.seed, 0, "give a non-negative integer seed")
    return sweeping.results_verify(o.store, o.again, o.seed, o.trust, o.paths)


@command(results, "store dry_run", called="gc", dry_run="Count the files, and move none.")
def results_gc(o: SimpleNamespace) -> int:
    """Move units that no sweep needs into the store's trash.

    And reasons of failures that are over.
    """
    return sweeping.results_gc(o.store, o.dry_run)


@command(
    app,
    "claims size defects at seed report evidence workers json",
    claims=argument(WORDS, None, "Claims (default: all); see `asyncsim list claims`.", "claims"),
    size=Row(str, "quick", "quick, full or long."),
    defects=Row(bool, False, "Plant defects too: each must flip its claim's verdict."),
    seed=Row(COUNT, None, "Seed (default: 0, or a fresh one with --size long)."),
    report=writes("HTML with figures, or Markdown for a path in .md."),
    evidence=writes("Runs of --size long (default: build/evidence.json)."),
    workers="Processes (default: one a core for many claims).",
)
def verify(o: SimpleNamespace) -> int:
    """Measure claims of the theory beside their predictions.

    Verdicts have stated error rates. Size full has half the effect and more points; long is full at fresh seeds, which
    add up in --evidence. The report is build/report.html, or build/report-part.html where not all claims are checked.
    """
    from asyncsim.app import verdicts

    commands.outputs(report=o.report or verdicts.REPORT)
    parameters = wording.settings(o.at, "--at")
    point = {key: wording.understood(value, None) for key, value in parameters.items()} if o.at else None
    checks.require(point is None or len(o.claims) == 1, "--at", o.at, "used with one claim", "name the claim")
    request = verdicts.Request(o.claims, o.size, o.defects, o.seed, point, o.evidence, o.workers)
    return verdicts.verify(request, o.report, o.json)[1]


@command(
    app,
    "preset set model updates samples sweep realizations seed plot trace save json",
    preset=argument(str, ..., "A system; see `asyncsim list systems`.", "systems"),
    model=Row(WORDS, None, "Setting of the event model: rate=30. Repeat for more.", "KEY=VALUE"),
    updates="Optimizer updates to simulate.",
    samples=Row(int, 1, "Samples per group."),
    sweep=Row(WORDS, None, "Simulate at every value. Repeat for more.", "KNOB=V1,V2,..."),
    realizations=Row(int, 16, "Realizations of each value, with --sweep."),
    seed="Seed of the works.",
    plot="Draw the timeline to this path.",
    trace=writes("Write a trace file that ui.perfetto.dev opens."),
    save="Save the timeline; load it with sim.Timeline.load.",
)
def timeline(o: SimpleNamespace) -> int:
    """Simulate a system: its staleness, losses and costs.

    How stale its data is beside the prediction, what is lost and what it costs. The event model has settings for which
    a preset has no knob: rate=30 (tokens a second of a sample), slots=64, reward=exponential:2,
    reward=@delays.csv:reward_ms*0.001. With --sweep: staleness, speed and idle shares at every value, and the knee.
    """
    knobs, changes = wording.settings(o.set), wording.settings(o.model, "--model")
    if not o.sweep:
        return commands.timeline(o, knobs, changes)
    for option, path in (("--save", o.save), ("--trace", o.trace)):
        checks.require(path is None, option, str(path), "left out beside --sweep", "record a single timeline")
    return sweeping.timeline(o, knobs, changes)


@command(
    app,
    "path stack columns set delays staleness plot json",
    called="log",
    path=argument(Path, ..., "A file of the log, a folder, or a pattern in quotes."),
    stack=Row(TEXT, None, "The trainer that wrote it; see `asyncsim list logs`."),
    columns=Row(TEXT, None, "Ours to theirs, as train_version=path:step_#."),
    set="Setting of sim.schedules.replay; repeat for more.",
    delays=Row(TEXT, None, "Report on a column of delays instead, as ms*0.001.", "COLUMN"),
    staleness=Row(TEXT, None, "Expected: constant:4, uniform, geometric:7 or capped."),
    plot="Draw the staleness to this path.",
)
def read_log(o: SimpleNamespace) -> int:
    """How stale a real run was by its own log.

    Its staleness, their distribution, fates, and what the log cannot tell. Versions that it lacks stay unknown. With
    --delays: how correlated measured delays are, of a column or a multiple of it, ms*0.001. Settings: unit,
    batches_per_publish, updates_per_batch, samples_per_publish, train_offset, stamp_offset, start_is, first_version.
    """
    own = {"stack": o.stack, "columns": o.columns}
    outputs = streams.Files()
    if o.delays is not None:
        report, text = logs.recorded(o.path, o.delays, o.set, own | {"staleness": o.staleness, "plot": o.plot})
    else:
        report, text = logs.shown(o.path, own | logs.settings(o.set), o.plot, o.staleness)
    outputs.write("--json", o.json, lambda place: commands.write_json(place, report))
    print(text)
    return outputs.status(int("law" in report and report["law"]["verdict"] == "differs"))


@command(
    app,
    "target like metric set names adapter advantages_per strict allow hazards seed json",
    target=argument(str, ..., "Your code, file.py:name or module:name; trl, torchrl."),
    like=Row(TEXT, None, "The method or metric that it is to be (default: any)."),
    metric=Row(bool, False, "It is a metric, such as an ESS: say which."),
    names=Row(WORDS, None, "Your controller's name of a call, or none. Repeat.", "CALL=METHOD"),
    adapter=Row(TEXT, None, "Style of the loss: verl, areal, roll or openrlhf."),
    advantages_per=Row(TEXT, None, "token or sequence (default: as the adapter says)."),
    strict=Row(bool, False, "Count hazards like bugs."),
    allow=Row(WORDS, None, "A finding that does not count; repeat for more."),
    hazards=Row(bool, False, "Print hazards without a terminal or beside --json too."),
    seed="Seed of the batches on which a loss is evaluated.",
)
def conformance(o: SimpleNamespace) -> int:
    """Say which method a loss is, and its known mistakes.

    Or which metric a number is; or check a controller. Arguments are those of the method of --like (high=0.28), of the
    adapter (adapter.old=behavior), or, for a controller, of its check (batch_size=4) and of its class (controller.KEY).
    Names: capacity=get_capacity; a call named none is left out.
    """
    o.hazards = o.hazards or o.strict or (o.json is None and sys.stdout.isatty())
    result, status = conforming.check(o)
    outputs = streams.Files()
    outputs.write("--json", o.json, lambda path: commands.write_json(path, result))
    return outputs.status(status)


@command(
    app,
    "path tokens batch staleness learning_rate curvature momentum cap floor html json",
    path=argument(Path, ..., ".csv, .jsonl or .parquet, a row a step or a token."),
    tokens=Row(FILE, None, "A second file, a row a token, of the same steps."),
    batch=Row(NUMBER, None, "Weights that the logged ESS counts."),
    staleness=Row(TEXT, None, "Expected: 4, sawtooth, uniform, geometric or capped."),
    learning_rate=Row(NUMBER, None, "Learning rate, beside --curvature."),
    curvature=Row(NUMBER, None, "Largest curvature of the loss."),
    momentum=Row(NUMBER, None, "Momentum of the logged gradients."),
    cap=Row(NUMBER, None, "Clamp of the logged ESS."),
    floor=Row(float, 1e-3, "Variance in nats^2 of engines on fresh tokens."),
    html=writes("Write a page: HTML, or Markdown for a path in .md."),
)
def diagnose(o: SimpleNamespace) -> int:
    """Read a run's telemetry beside its predictions.

    Staleness, mismatch, drift, ESS, cosine, boundary, known bugs.
    """
    from asyncsim.app import diagnosing
    from asyncsim.diagnosing import diagnose as ask

    names = ("tokens", "batch", "staleness", "floor", "learning_rate", "curvature", "momentum", "cap")
    found = ask(o.path, **{name: vars(o)[name] for name in names})
    outputs = streams.Files()
    outputs.write("--json", o.json, lambda path: commands.write_json(path, found.json()))
    outputs.write("--html", o.html, lambda path: diagnosing.write(found, path))
    print(found)
    return outputs.status(diagnosing.status(found))


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
        arguments.append(str(STDOUT))
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
