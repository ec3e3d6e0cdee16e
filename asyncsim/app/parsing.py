"""The parser of the command line: commands from declared options, shell completion, complaints in our own form."""

import contextlib
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Annotated, Any, get_args

import typer

from asyncsim.app import commands, streams, wording
from asyncsim.app.options import DESCRIBES, KINDS, OPTIONS, PARTS, STDOUT, Options, Row
from asyncsim.base import checks, stopping

USAGE: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "UsageError")
"""What the parser raises; typer exports only a child of it."""


def command(
    group: typer.Typer, order: str, /, called: str | None = None, **own: Row | str
) -> Callable[[Callable[[Options], int]], Callable[[Options], int]]:
    """A command with options in this order, as in `OPTIONS`, with another help, or of its own.

    The function gets them as one object, with `given`, options that were given, and `files`, those to be written, which
    are tried first. Bad input ends in one line and status 2, never in a traceback.
    """
    rows: dict[str, Row] = {}
    for name in order.split():
        row = own.get(name) or OPTIONS[name]
        rows[name] = OPTIONS[name]._replace(help=row) if isinstance(row, str) else row

    def add(function: Callable[[Options], int]) -> Callable[[Options], int]:
        def wrapped(context: typer.Context, **options: Any) -> None:
            try:
                paths = {name: path for name, path in options.items() if rows[name].written}
                commands.outputs(**{name: path for name, path in paths.items() if path != STDOUT})
                lists = {name: value or [] for name, value in options.items() if rows[name].kind == list[str]}
                files = streams.Files(paths)
                status = function(Options(**{**options, **lists}, given=_given(context), files=files))
            except (checks.InputError, checks.RunError) as error:
                streams.complain(_typed(str(error), rows))
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


def _typed(message: str, known: Container[str]) -> str:
    """A message in which settings of Python, such as updates=3, are the options that a command has.

    >>> _typed("sampling = 'x': must be known; use sampling='counts', or cut=None", ["sampling", "cut"])
    "sampling = 'x': must be known; use --sampling counts, or --cut none"
    """

    def option(found: re.Match[str]) -> str:
        name = {"samples_per_group": "samples"}.get(found[1], found[1])
        value = "none" if found[2] == "None" else found[2].strip("'")
        return f"--{name.replace('_', '-')} {value}" if name in known else found[0]

    head, mark, remedy = message.rpartition("; ")
    return head + mark + re.sub(r"(?<![\w.-])(\w+)=(None|'[\w.-]+'|\d+)(?![\w=])", option, remedy)


def _parameter(name: str, row: Row) -> inspect.Parameter:
    more: dict[str, Any] = {"help": row.help}
    if row.of is not None:
        more["autocompletion"] = {"kinds": _kinds, "of_kind": _of_kind}.get(row.of) or _named(row.of)
    # A keyword of Python has a trailing underscore here.
    names = (f"--{name.rstrip('_').replace('_', '-')}", *(f"-{letter}" for letter in row.short))
    make = typer.Argument if row.positional else functools.partial(typer.Option, *names)
    default = inspect.Parameter.empty if row.default is ... else row.default
    kind: Any = row.kind | None if row.default is None else row.kind
    annotation: Any = Annotated[kind, make(metavar=row.metavar, **more)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _given(context: typer.Context) -> list[str]:
    """Options of a command that were given, not left at their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def _named(kind: str) -> Callable[[str], list[tuple[str, str]]]:
    """Completion of a shell: names of a kind with their summaries."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        begin = incomplete.replace("-", "_")
        rows = [row for row in commands.names(kind) if row["name"].replace("-", "_").startswith(begin)]
        return [(row["name"], row["summary"]) for row in rows]

    return complete


def _kinds(incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def _of_kind(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Names, with their summaries, of the kind that stands before them on the command line."""
    kind = {"metrics": "diagnostics"}.get(ctx.params.get("kind", ""), ctx.params.get("kind"))
    return _named(kind)(incomplete) if kind in KINDS else []


def translated(error: Any, arguments: Sequence[str], known: Sequence[str]) -> checks.InputError:
    """A complaint of the parser about arguments, in the form of all others; `known` are the commands."""
    kind, text = type(error).__name__, error.message
    parameter: Any = getattr(error, "param", None)
    context = getattr(error, "ctx", None)
    see = f"see `{context.command_path if context else 'asyncsim'} --help`"
    if kind == "NoSuchOption":
        takes = {each.name: each.param_type_name for each in context.command.params} if context else {}
        described = {"task", "method"} <= set(takes)
        part, dot, key = error.option_name.lstrip("-").partition(".")
        written = f"write --set {part}.{key}=VALUE" if dot else ""
        near = checks.near(part, [each.lstrip("-") for each in error.possibilities or ()], cutoff=0.7)
        if checks.near(part, DESCRIBES, cutoff=3.0):
            near = []
        alone = [name for name in checks.near(part, takes) if takes[name] == "argument"]
        if alone:
            written = f"write its value alone, without --{part}"
        elif {"set", "smallest"} <= set(takes) or {"set", "grid"} <= set(takes):
            # Words of a spec stand behind --set there.
            words = {name: DESCRIBES[name].default for name in PARTS}
            word = "" if near else wording.placed(part.replace("-", "_"), words, "")
            written = word.replace("write ", "write --set ")
        elif described and not dot and not near:
            words = {name: _value_of(f"--{name}", arguments) or DESCRIBES[name].default for name in PARTS}
            words |= {"link": [w for o, w in itertools.pairwise(arguments) if o == "--link"]}
            with contextlib.suppress(checks.InputError):
                written = wording.placed(part.replace("-", "_"), words)
        if written:
            return checks.InputError("option", error.option_name, "an option of the command", written)
        remedy = f"did you mean --{near[0]}?" if near else see
        return checks.InputError("option", error.option_name, "an option of the command", remedy)
    if kind == "MissingParameter":
        name, what = parameter.name.rstrip("_").replace("_", "-"), getattr(parameter, "help", None)
        option = parameter.param_type_name == "option"
        remedy = f"add --{name} VALUE: {what[0].lower()}{what[1:].rstrip('.')}" if option and what else see
        return checks.InputError(name, None, "given", remedy)
    if kind == "BadParameter":
        wanted = re.search(r"valid (\w+)", text)
        bound = f"a valid {wanted[1]}" if wanted else f"usable ({text})"
        return checks.InputError(parameter.opts[0], _value_of(parameter.opts[0], arguments), bound, see)
    if kind == "BadOptionUsage":
        bound = "given without a value" if "does not take" in text else "followed by a value"
        return checks.InputError(error.option_name, _value_of(error.option_name, arguments), bound, see)
    unknown = re.match(r"No such command '(.*?)'", text)
    if unknown:
        remedy = checks.hint(unknown[1], known, see)
        return checks.InputError("command", unknown[1], f"one of {', '.join(known)}", remedy)
    extra = re.search(r"'(.*)'|\(([^()]*)\)\.?$", text)
    value = next((part for part in extra.groups() if part), "") if extra else text
    return checks.InputError("arguments", value, "a command and no more than it takes", see)


def refuse_grouped(arguments: Sequence[str], callbacks: Iterable[Any]) -> None:
    """Refuse `_` in numbers behind options of the commands: Python takes 1_0 for ten, and 0_1 for one."""
    numbers: set[str] = set()
    for parameter in (each for callback in callbacks for each in inspect.signature(callback).parameters.values()):
        kind, *about = get_args(parameter.annotation) or (parameter.annotation,)
        if {int, float} & {kind, *get_args(kind)}:
            named = getattr((*about, None)[0], "param_decls", None)
            numbers |= {*(named or [f"--{parameter.name.replace('_', '-')}"])}
    for word in arguments:
        option = word.partition("=")[0]
        value = _value_of(option, arguments) if option in numbers else None
        plain = value is None or not checks.GROUPED.fullmatch(value)
        checks.require(plain, option, value, "a number without _", "write digits alone")


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if word.partition("=")[0] == option:
            return word.partition("=")[2] or following
    return None
