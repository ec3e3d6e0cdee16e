"""The command line: list, run, verify, timeline, conformance.

Each has --help, --json PATH and an exit status that a script can use: 0 all well, 1 a claim is not held (or a defect
not caught) or a loss or controller deviates, 2 bad input (one line names field, value, bound and remedy).
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from asyncsim import checks, commands, conforming, wording

KINDS = (
    "tasks", "policies", "systems", "schedules", "methods", "advantages", "factors", "penalties", "updates",
    "diagnostics", "claims",
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A laboratory for asynchronous policy-gradient learning. "
    "Example: asyncsim run --task softmax-bandit --method grpo --staleness 16 --plot out.png",
)

Json = Annotated[Path | None, typer.Option("--json", help="Write the result as JSON to this path.")]
_STDOUT = Path("-")
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set an argument; repeat for more.")]


def guarded(command: Callable[..., int]) -> Callable[..., None]:
    """Bad input ends in one line and status 2, never in a traceback."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        try:
            status = command(*arguments, **options)
        except (checks.InputError, checks.RunError) as error:
            print(f"asyncsim: {error}", file=sys.stderr)
            status = 2
        raise typer.Exit(status)

    wrapped.__signature__ = inspect.signature(command, eval_str=True)  # type: ignore[attr-defined]
    return wrapped


@app.command("list")
@guarded
def list_names(
    kind: Annotated[str, typer.Argument(help="One of " + ", ".join(KINDS) + " (or metrics).")],
    name: Annotated[str | None, typer.Argument(help="One of them: its arguments and what it is.")] = None,
    json_path: Json = None,
) -> int:
    """What there is of a kind, with one line about each; or all about one of them. `--json` alone prints JSON."""
    shown = json_path == _STDOUT
    commands.outputs(json=None if shown else json_path)
    kind = {"metrics": "diagnostics"}.get(kind, kind)
    checks.one_of("kind", kind, KINDS, "choose what to list")
    if name is not None:
        about = commands.described(kind, name)
        if shown:
            print(_json(about))
            return 0
        print("\n\n".join(text for text in (about["signature"] or about["name"], about["doc"]) if text))
        _write_json(json_path, about)
        return 0
    rows = commands.names(kind)
    if shown:
        print(_json([row | commands.facts(kind, row["name"]) for row in rows]))
        return 0
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:{width}}  {row['summary']}")
    _write_json(json_path, rows if json_path is None else [row | commands.facts(kind, row["name"]) for row in rows])
    return 0


@app.command()
@guarded
def run(
    task: Annotated[str, typer.Option(help="What is trained; see `asyncsim list tasks`.")] = "softmax-bandit",
    policy: Annotated[
        str | None, typer.Option(help="Policy in place of the task's own; see `asyncsim list policies`.")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="Estimator; see `asyncsim list methods`. Aggregators differ in scale: tune steps, or use --link adam."
        ),
    ] = "reinforce",
    advantage: Annotated[str | None, typer.Option(help="Baseline; see `asyncsim list advantages`.")] = None,
    staleness: Annotated[int | None, typer.Option(help="Constant staleness in versions (a fixed schedule).")] = None,
    system: Annotated[
        str | None, typer.Option(help="Event system in place of --staleness; see `asyncsim list systems`.")
    ] = None,
    coupled: Annotated[
        bool, typer.Option("--coupled", help="Take the lengths of --system from the policy instead of its law.")
    ] = False,
    schedule: Annotated[
        str | None, typer.Option(help="Imposed schedule in place of --staleness; see `asyncsim list schedules`.")
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(help="Update link, in order; repeat for a chain (default: sgd for tables, else clip-norm, adam)."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PART.KEY=VALUE",
            help="Argument of a part: task.arms=5, method.cap=4, adam.lr=0.01, system.load=2. Repeat for more.",
        ),
    ] = None,
    samples: Annotated[int, typer.Option(help="Samples per group, N.")] = 16,
    updates: Annotated[int, typer.Option(help="Optimizer updates.")] = 200,
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
    json_path: Json = None,
) -> int:
    """Train a policy on the staleness of a system, over many replicates at once."""
    commands.outputs(plot, save=save, json=json_path)
    parts = {
        "task": task,
        "policy": policy,
        "method": method,
        "advantage": advantage,
        "system": system,
        "schedule": schedule,
    }
    sizes = {
        "samples_per_group": samples,
        "updates": updates,
        "replicates": replicates,
        "sampling": sampling,
        "every": every,
        "dtype": dtype,
        "device": device,
        "diagnostics": diagnostics if diagnostics in ("default", "none") else diagnostics.split(","),
    }
    spec = wording.spec(parts, link or [], staleness, coupled, settings or [], sizes)
    result = commands.run(spec, seed, plot, save)
    _write_json(json_path, result)
    return 0


@app.command()
@guarded
def verify(
    claims: Annotated[
        list[str] | None, typer.Argument(help="Claims to check (default: all); see `asyncsim list claims`.")
    ] = None,
    size: Annotated[str, typer.Option(help="quick, or full (half the effect, more points).")] = "quick",
    defects: Annotated[
        bool, typer.Option("--defects", help="Plant each claim's defects too: every one must flip the verdict.")
    ] = False,
    at: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Ask one claim at another point; repeat for more.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the measurements.")] = 0,
    report: Annotated[Path, typer.Option(help="HTML report with a figure per claim.")] = Path("build/report.html"),
    json_path: Json = None,
) -> int:
    """Measure claims of the theory beside their predictions, with verdicts of stated error rates."""
    commands.outputs(report=report, json=json_path)
    point = wording.settings(at, "--at") if at else None
    checks.require(point is None or len(claims or ()) == 1, "--at", at, "used with one claim", "name the claim")
    result, status = commands.verify(claims or [], size, defects, seed, point, report)
    _write_json(json_path, result)
    return status


@app.command()
@guarded
def timeline(
    preset: Annotated[str, typer.Argument(help="A system; see `asyncsim list systems`.")],
    settings: Set = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Change a setting of the event model that the preset has no knob for: slots=64, reward=exponential:2.",
        ),
    ] = None,
    updates: Annotated[int, typer.Option(help="Optimizer updates to simulate.")] = 200,
    samples: Annotated[int, typer.Option(help="Samples per group.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the works.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the timeline to this path.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write a trace file that ui.perfetto.dev opens.")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the timeline; load it with sim.Timeline.load.")] = None,
    json_path: Json = None,
) -> int:
    """Simulate a system: how stale its data is beside the predicted law, what is lost and what it costs."""
    commands.outputs(plot, save=save, trace=trace, json=json_path)
    knobs, changes = wording.settings(settings or []), wording.settings(model or [], "--model")
    paths = {"plot": plot, "save": save, "trace": trace}
    result = commands.timeline(preset, knobs, changes, updates, samples, seed, paths)
    _write_json(json_path, result)
    return 0


@app.command()
@guarded
def conformance(
    target: Annotated[
        str,
        typer.Argument(help="Your loss or admission controller, module:name or file.py:name; or trl, torchrl."),
    ],
    like: Annotated[
        str | None,
        typer.Option(help="The method that the loss is meant to be (default: any), with either anchor unless set."),
    ] = None,
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
    seed: Annotated[int, typer.Option(help="Seed of the batches on which a loss is asked.")] = 0,
    json_path: Json = None,
) -> int:
    """Say which method a loss is, how biased it is and which known mistakes it shows; or check a controller."""
    commands.outputs(json=json_path)
    whole = hazards or strict or (json_path is None and sys.stdout.isatty())
    asked = conforming.Asked(like, adapter, advantages_per, strict, allow or [], seed, whole)
    result, status = conforming.check(target, asked, settings, names)
    _write_json(json_path, result)
    return status


def _write_json(path: Path | None, value: Any) -> None:
    from asyncsim import records

    if path is not None:
        text = _json(value) + "\n"
        records.write_atomically(path, lambda file: file.write(text.encode()))


def _json(value: Any) -> str:
    from asyncsim import records

    return json.dumps(records.plain(value), indent=2)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the `asyncsim` command; `arguments` default to those of the process."""
    command = typer.main.get_command(app)
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["list"] and arguments[-1] == "--json":
        arguments.append(str(_STDOUT))
    try:
        status = command.main(arguments, prog_name="asyncsim", standalone_mode=False)
    except _USAGE as error:
        status = 2
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
        else:
            print(f"asyncsim: {_translated(error, arguments)}", file=sys.stderr)
    except typer.Abort:
        status = 1
        print("asyncsim: aborted", file=sys.stderr)
    sys.exit(status)


_USAGE: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "UsageError")
"""What the parser raises; typer exports only a child of it."""


def _translated(error: Any, arguments: Sequence[str]) -> checks.InputError:
    """A complaint of the parser in the form of all others."""
    kind, text = type(error).__name__, error.message
    parameter: Any = getattr(error, "param", None)
    context = getattr(error, "ctx", None)
    see = f"see `{context.command_path if context else 'asyncsim'} --help`"
    if kind == "NoSuchOption":
        remedy = f"did you mean {error.possibilities[0]}?" if error.possibilities else see
        return checks.InputError("option", error.option_name, "an option of the command", remedy)
    if kind == "MissingParameter":
        return checks.InputError(parameter.name.replace("_", "-"), None, "given", see)
    if kind == "BadParameter":
        wanted = re.search(r"valid (\w+)", text)
        bound = f"a valid {wanted[1]}" if wanted else f"usable ({text})"
        return checks.InputError(parameter.opts[0], _value_of(parameter.opts[0], arguments), bound, see)
    if kind == "BadOptionUsage":
        bound = "given without a value" if "does not take" in text else "followed by a value"
        return checks.InputError(error.option_name, _value_of(error.option_name, arguments), bound, see)
    extra = re.search(r"'(.*)'|\(([^()]*)\)\.?$", text)
    value = next(part for part in extra.groups() if part) if extra else text
    return checks.InputError("arguments", value, "a command and no more than it takes", see)


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    """What stands behind an option on the command line."""
    for given, following in zip(arguments, [*arguments[1:], None], strict=True):
        if given.partition("=")[0] == option:
            return given.partition("=")[2] or following
    return None
