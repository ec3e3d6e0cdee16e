"""The parser of the command line: commands from declared options, shell completion, complaints in our own form."""

import functools
import inspect
import itertools
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from asyncsim.app import commands, streams, wording
from asyncsim.app.options import ALSO, COMMANDS, DESCRIBES, KINDS, PARTS, SECTIONS, SIZES, STDOUT, Options, Row
from asyncsim.base import checks, laws, plugins, stopping

USAGE: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "UsageError")
"""What the parser raises; typer exports only a child of it."""
LISTED = 24
"""Options of a command that are all named where an unknown one is like none of them."""


class Sections(typer.core.TyperGroup):
    """A group of commands whose help lists the commands by purpose, and the options below them."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of the group to its help, and the options below them."""
        self.format_commands(ctx, formatter)
        with formatter.section("Options"):
            formatter.write_dl([record for each in self.get_params(ctx) if (record := each.get_help_record(ctx))])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands to the group's help, with a section for each purpose."""
        for section, names in SECTIONS.items():
            with formatter.section(section):
                texts = {name: self.commands[name].get_short_help_str(formatter.width) for name in names.split()}
                formatter.write_dl([(f"{name:11}", text) for name, text in texts.items()])


class Grouped(typer.core.TyperCommand):
    """A command whose help groups the options of a run: experiment, sizes and sampling, output and execution."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Words after the command's name in its usage line, without braces around required arguments."""
        return [piece.translate({ord("{"): "", ord("}"): ""}) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options of a run to the command's help, with a section for each group of options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        describes = any(each.name == "task" for each in self.params)
        for parameter in self.get_params(ctx):
            name = str(parameter.name)
            group = "Experiment" if name in DESCRIBES else "Output and execution"
            group = "Sizes and sampling" if name in SIZES else group
            section = "Arguments" if parameter.param_type_name == "argument" else group if describes else "Options"
            if record := parameter.get_help_record(ctx):
                sections.setdefault(section, []).append((re.sub(r" <list\[\w+\]>", "", record[0]), record[1]))
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def command(group: typer.Typer, name: str) -> Callable[[Callable[[Options], int]], Callable[[Options], int]]:
    """A decorator that adds a command with the options and arguments of its table, named by the last word of `name`."""
    rows = COMMANDS[name]

    def add(function: Callable[[Options], int]) -> Callable[[Options], int]:
        def wrapped(context: typer.Context, **options: Any) -> None:
            try:
                paths = {name: path for name, path in options.items() if rows[name].written}
                commands.outputs(**{name: path for name, path in paths.items() if path != STDOUT})
                lists: dict[str, Any] = {n: v or [] for n, v in options.items() if rows[n].kind == list[str]}
                lists |= {"columns": ",".join(lists["columns"]) or None} if "columns" in lists else {}
                outputs = streams.Files(paths, functools.partial(_typed, known=rows, answer=True))
                given = [n for n in context.params if "COMMANDLINE" in str(context.get_parameter_source(n))]
                status = function(Options(**{**options, **lists}, given=given, files=outputs))
            except (checks.InputError, checks.RunError) as error:
                told = _several(error, options, rows)
                streams.complain(told, functools.partial(_typed, known=rows), whole(told, context.obj))
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
        vars(wrapped)["rows"] = rows
        group.command(name.rpartition(" ")[2], cls=Grouped)(wrapped)
        return function

    return add


def _several(error: Exception, options: Mapping[str, Any], known: Collection[str]) -> Exception:
    """The complaint itself, or that a setting got several values, and what takes them."""
    for pair in options.get("set") or ():
        value = getattr(error, "value", None)
        if isinstance(value, (tuple, list)) and value == wording.value(pair.partition("=")[2]):
            option = next((f"--{each}" for each in ("sweep", "along") if each in known), "asyncsim sweep --grid")
            one = f"this takes one value, as --set {pair.partition('=')[0]}={next(iter(value), '')}"
            one += "; run the command again for another"
            takes = {"sweep", "task", "smallest", "grid"} & {*known} and not wording.is_file(options.get("preset"))
            remedy = f"write {option} {pair} for several values" if takes else one
            return checks.InputError("--set", pair, f"of another value ({error})", remedy)
    return error


def whole(error: Any, words: Sequence[str]) -> str:
    """The typed `words` with all that must be given, an arm's in its own; "" for complaints of other things."""
    added = re.fullmatch(r'add (?:each, .* shell )?(--set .*)|write "(.+)"', getattr(error, "remedy", ""))
    if not (added and words and isinstance(error, checks.InputError) and error.bound == "given"):
        return ""
    error.args = (f"{error.field.removesuffix(' argument')} needs {error.value}, which must be given; try",)
    words = [added[2] if added[2] and added[2].startswith(f"{word} ") else word for word in words]
    text = shlex.join(["asyncsim", *words, *shlex.split(added[1] or "")])
    if words[0] != "compare":
        return text
    try:
        size, unit, most = wording.smallest([*itertools.pairwise(shlex.split(text)[1:])])
    except checks.InputError as further:
        return whole(further, shlex.split(text)[1:]) or text
    typed = _value_of("--smallest", words)
    if typed and (not checks.is_number(number := wording.value(typed)) or number <= most):
        return text
    why = f"; {typed} is more than all of it, and is of seconds only beside --target VALUE" * bool(typed)
    error.add_note(f"  --smallest  the smallest difference that matters, of {unit}{why}")
    return re.sub(r" --smallest[= ]\S+", "", text) + f" --smallest {size:g}"


def _typed(message: str, known: Collection[str], answer: bool = False) -> str:
    """A message in which settings of Python, such as updates=3, are the options that a command has.

    In an answer only texts in quotes are: names of arms may be settings, such as staleness=4.
    """

    def option(found: re.Match[str]) -> str:
        name = {"samples_per_group": "samples"}.get(found[1], found[1])
        value = "none" if found[2] == "None" else shlex.quote(found[2].strip("'"))
        # Inside a call all is Python.
        if re.search(r"--[\w-]+ $|\w\([^()]*$", remedy[: found.start()]):
            return found[0]
        if name in known:
            return f"--{name.replace('_', '-')} {value}"
        return f"--set {name}={value}" if "set" in known and "task" not in known else found[0]

    head, mark, remedy = message.rpartition(": must be ")
    remedy = re.sub(r"^(?=\w+=VALUE: )", "--set ", remedy) if "set" in known else remedy
    if {"task", "smallest", "grid"} & {*known}:
        kinds = "|".join(plugins.PARTS)
        remedy = re.sub(rf"\bsim\.({kinds})\.(\w+)\(\.\.\.\)", lambda m: f"--{plugins.PARTS[m[1]]} {m[2]}", remedy)
        several = r"sim\.sweep\(spec, \{'(\w+)': \[([\d, ]+)\]\}\)"
        remedy = re.sub(several, lambda m: f"asyncsim sweep --grid {m[1]}={m[2].replace(' ', '')}", remedy)
        remedy = re.sub(r"\bsim\.tasks\.(\w+)\((\w+=\w+)\)", r"--task \1 --set task.\2", remedy)
    remedy = re.sub(r"write (\w+=\[.*?\])", r"write --at '\1'", remedy) if "claims" in known else remedy
    values = r"'[\w.,=:/+ -]+'" + r"|None|\d+" * (not answer)
    written = re.sub(rf"(?<![\w.\x22-])(\w+)=({values})(?![\w=])", option, remedy)
    # Settings side by side are options side by side.
    return head + mark + re.sub(r"(--[\w-]+ [^\s,]+), (?=--\w)", r"\1 ", written)


def _parameter(name: str, row: Row) -> inspect.Parameter:
    more: dict[str, Any] = {"help": row.help}
    if row.of is not None:
        more["autocompletion"] = _named(row.of)
    # A keyword of Python has a trailing underscore here.
    names = (_dashed(name), *(f"-{letter}" for letter in row.short))
    make = typer.Argument if row.positional else functools.partial(typer.Option, *names)
    default = inspect.Parameter.empty if row.default is ... else row.default
    named = name.upper() if row.positional else "NAME" if row.of is not None else None
    kind: Any = row.kind | None if row.default is None else row.kind
    annotation: Any = Annotated[kind, make(metavar=row.metavar or named, **more)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _named(kind: str) -> Callable[[Any, str], list[tuple[str, str]]]:
    """Completion of a shell: names of a kind, or of the one that stands before them, with their summaries."""

    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        given = ctx.params.get("kind", "")
        of = ALSO.get(given, given) if kind == "of_kind" else kind
        rows = commands.kinds() if of == "kinds" else commands.names(of) if of in KINDS else []
        begins = ((row["name"], row["summary"]) for row in rows)
        return [each for each in begins if each[0].replace("-", "_").startswith(incomplete.replace("-", "_"))]

    return complete


def _dashed(name: str) -> str:
    """An option as it is written."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def translated(error: Any, arguments: Sequence[str], known: Sequence[str]) -> checks.InputError | str:
    """Convert a parser error about arguments to an error in asyncsim's form; `known` are the commands."""
    kind, text = type(error).__name__, error.message
    parameter: Any = getattr(error, "param", None)
    context: Any = getattr(error, "ctx", None)
    see = f"see `{context.command_path if context else 'asyncsim'} --help`"
    if kind == "NoSuchOption":
        asked, command = error.option_name, context.command.name
        helps = {each.name: each.help or "" for each in context.command.params if each.param_type_name == "option"}
        takes = [each.name for each in context.command.params]
        part, dot, key = asked.lstrip("-").partition(".")
        name, word = part.replace("-", "_"), _value_of(asked, arguments) or "VALUE"
        near, meant, presets = checks.near(part, helps, cutoff=0.7), checks.near(name, helps, 3, 3.0), list[str]()
        written = f"write --set {part}.{key}=VALUE" if dot else ""
        if {*checks.near(part, takes)} - {*helps}:
            written = f"write its value alone, without --{part}"
        elif command in ("advise", "calibrate", "forecast") and not near:
            written = _as_fields(command, takes, arguments)
        elif "preset" in takes:
            named = plugins.summaries("asyncsim.systems")
            presets = [word for word in map(str.lower, arguments) if word.replace("-", "_") in named]
            of_file = _as_fields("advise", takes, arguments) if any(map(wording.is_file, arguments)) else ""
            ours = (wording.of_preset(each, name) for each in presets)
            theirs = checks.advice(name, "unnamed", "learner", "asyncsim.systems", "event_model")
            written = of_file or max(ours, default="", key=bool) or theirs
        elif {"task", "smallest", "grid"} & {*takes} and not dot:
            given = [(o[2:], w) for o, w in itertools.pairwise(arguments) if o[:2] == "--"]
            # Of arms and grids, --task NAME has become --set task=NAME.
            given += [word.partition("=")[::2] for text in arguments for word in text.split() if "=" in word]
            words = {each: DESCRIBES[each].default for each in PARTS} | {o: w for o, w in given if o in PARTS}
            words |= {"link": [each for o, w in given if o == "link" for each in w.split(",")]}
            written = wording.placed(name, words) or checks.advice(name, "words")
        elif command == "export" and not near:
            own = next(own for each in (*arguments, "truncated_is") if (own := wording.takes("methods", each)))
            pairs = [f"--set {each}=VALUE" for each in checks.near(name, own, 2, 3.0) or checks.near(name, own)]
            written = " ".join(["write", *pairs]) * bool(pairs)
        beside = getattr(context.parent and context.parent.command, "commands", {})
        takers = [each for each in beside if any(asked in other.opts for other in beside[each].params)]
        if len(meant) > 1:
            meant = [each for each in meant if word.endswith(f".{each}")] or meant
            plain, end = os.path.splitext(word)
            ends = {each: {**_SUFFIXES, "save": (".npz",), "store": ("",)}.get(each, (end,))[0] for each in meant}
            see = f"write {' or '.join(f'{_dashed(each)} {plain}{ends[each] if end else end}' for each in meant)}"
        elif near:
            see = f"did you mean {_dashed(near[0])}?"
        elif takers:
            see = f"{see}; {' and '.join(takers[:3])} take{'s' * (len(takers) == 1)} {asked}"
        elif helps and len(helps) <= LISTED:
            see = f"it has {', '.join(map(_dashed, helps))}"
        behind = [*itertools.dropwhile(lambda text: text != asked, arguments)][1:]
        values = " ".join(itertools.takewhile(lambda text: text[:1] != "-", behind)) or word
        advice = checks.advice(name, f"asyncsim.{command}", "asyncsim")
        advice = advice.replace("VALUES", "grpo gspo" if values == "VALUE" else values.replace(",", " "))
        advice = advice.replace("--like METHOD ", "" if _value_of("--like", arguments) else "--like grpo ")
        word = str(word.count(",") + 1) if meant[:1] == ["replicates"] and "," in word else word
        remedy = wording.filled(advice or written or see, word)
        refusal = checks.InputError("option", asked, "an option of the command", remedy)
        for other in (word.partition("=")[0] for word in arguments if word.startswith("--")):
            mine = [f"did you mean {_dashed(each)}?" for each in checks.near(other[2:], helps, 1, 0.7)]
            mine = mine or [wording.of_preset(each, other[2:].replace("-", "_")) for each in presets[:1]]
            also = checks.advice(other[2:].replace("-", "_"), f"asyncsim.{command}", otherwise="".join(mine))
            also = wording.filled(also, _value_of(other, arguments) or "VALUE")
            if also and (presets or "--set" not in written) and other not in (asked, *map(_dashed, helps)):
                refusal.add_note(f"  also {other}: {also}")
        known_by = {} if advice or written or near else {_dashed(each): text for each, text in helps.items()}
        return refusal.explaining(name, known_by)
    if kind == "MissingParameter":
        name, what = parameter.name.rstrip("_").replace("_", "-"), getattr(parameter, "help", None)
        option = parameter.param_type_name == "option"
        write = f"add --{name} VALUE" if option else f"write {context.command_path} {name.upper()}"
        choice = next((word for word in arguments[1:] if option and word.isidentifier() and word in str(what)), "")
        write = f"write --{name} {choice} for {choice} alone" if choice else write
        write = checks.advice(" | ".join([name, *arguments, ""]), "missing", otherwise=write)
        if name == "smallest":
            try:
                size, unit, _ = wording.smallest([*itertools.pairwise(arguments)])
                write = f"add --smallest {size:g}: the smallest difference that matters, of {unit}"
                return checks.InputError(name, None, "given", write)
            except checks.InputError as wrong:
                return wrong
        remedy = f"{write}: {what[0].lower()}{what[1:].rstrip('.')}" if what else see
        rules = plugins.RULES if context.command.name == "timeline" else {}
        return checks.InputError(name, None, "given", remedy).explaining("", rules)
    if kind == "BadParameter":
        wanted = re.search(r"valid (\w+)", text)
        bound = f"a valid {wanted[1]}" if wanted else f"usable ({text})"
        value = _value_of(parameter.opts[0], arguments)
        digits = re.fullmatch(r"([\d.]+(?:e\d+)?)([%kKM]?)", str(value))
        if digits and wanted and checks.is_number(wording.value(digits[1])):
            number = float(digits[1]) * {"%": 0.01, "": 1.0, "M": 1e6}.get(digits[2], 1e3)
            see = f"write {parameter.opts[0]} {number:{'.0f' if wanted[1] == 'integer' else 'g'}}"
            if digits[2] == "%" and not re.search("share|probability|rate", parameter.help or "", re.IGNORECASE):
                see = f"{see}, or a number in its own unit: {parameter.help}"
        elif wanted and (time := checks.seconds(value)) is not None:
            see = f"write {parameter.opts[0]} {time:.15g} for {value}; beside --over seconds it is in seconds"
            see = see if parameter.name in ("horizon", "at") else f"give a number in its own unit: {parameter.help}"
        elif wanted and parameter.help:
            see = f"write {parameter.opts[0]} {(re.match('[0-9.]+', str(value)) or ['NUMBER'])[0]}: {parameter.help}"
        if parameter.name == "staleness" and not checks.is_number(wording.value(str(value))):
            see = f"for staleness that varies within a run write {laws.varied(value)}"
        if wanted and "," in str(value):
            see = f"give one, as {parameter.opts[0]} {str(value).split(',')[0]}; run the command again for another"
            if {"task", "smallest", "grid"} & {each.name for each in context.command.params}:
                see = f"give one; asyncsim sweep --grid {parameter.name}={value} takes several"
            see = "give one; --replicates takes their number" if parameter.name == "seed" else see
        return checks.InputError(parameter.opts[0], value, bound, see)
    if kind == "BadOptionUsage":
        bound = "given without a value" if "does not take" in text else "followed by a value"
        remedy = see if "does not take" in text else f"write {error.option_name} VALUE"
        return checks.InputError(error.option_name, _value_of(error.option_name, arguments), bound, remedy)
    if unknown := re.match(r"No such command '(.*?)'", text):
        word, known = unknown[1].replace("-", "_"), list(getattr(context.command, "commands", known))
        listed, kinds = ALSO.get(word, word), plugins.kinds_of(word)
        instead = f"in Python write sim.{word}(...)" * (word in sys.modules["asyncsim"].NAMES)
        if listed in KINDS:
            instead = f"write asyncsim list {listed}"
        elif kinds:
            measured = f"asyncsim run --diagnostics {word}, which measures it; " * (kinds[-1] == "diagnostics")
            instead = f"write {measured}asyncsim list {kinds[-1]} {word}{' explains it' * bool(measured)}"
        remedy = checks.advice(word, "command") or instead or checks.hint(unknown[1], known, see)
        every = checks.InputError("command", unknown[1], f"one of {', '.join(known)}", remedy)
        return every if remedy == see else f"no command {unknown[1]}; {remedy}"
    extra = re.search(r"'(.*)'|\(([^()]*)\)\.?$", text)
    value = next((part for part in extra.groups() if part), "") if extra else text
    names = ("sweep",) * ("," in value) + ("grid", "set", "store")
    option = next((n for n in names if context and n in [each.name for each in context.command.params]), None)
    before = arguments[arguments.index(value) - 1] if value in arguments[1:] else ""
    command = context.command.name if context else ""
    advice = checks.advice(" | ".join([command, option or "", before, value, *arguments]), "extra")
    if command in ("advise", "calibrate", "forecast") and "=" in value:
        advice = _as_fields(command, (), [f"--{value}"]) or advice
    if option == "grid" and not advice:
        kinds, each = plugins.kinds_of(value.replace("-", "_")), re.findall(r"[^,\s]+", value)
        typed = next((word for word in (value, *each[:1]) if word in arguments[1:]), "")
        advice = f"write --grid {arguments[arguments.index(typed) - 1]}={','.join(each)}" if typed and each else ""
        advice = f"write --{plugins.PARTS[kinds[0]]} {value}" if kinds else advice
    see = advice or checks.advice("()", f"asyncsim.{command}", otherwise=see)
    return checks.InputError("arguments", value, "left out, as the command takes no more", see)


def _as_fields(of: str, takes: Collection[str], arguments: Sequence[str]) -> str:
    """What to write for options that are fields of a description, all of those given; "" if the first is none."""
    from asyncsim.sweeping.advising import FIELDS, TRAINERS

    theirs = {option: field for each in TRAINERS.values() for option, field in each.fields().items()}
    pairs = list[str]()
    for word in (word.partition("=")[0] for word in arguments if word.startswith("--")):
        name = word.removeprefix("--").replace("-", "_")
        field = theirs.get(name) or next(iter(checks.near(name, FIELDS, 1)), "")
        known = checks.advice(name, of, *["learner"] * (not field), otherwise="write")
        if not (pairs or known == "write"):
            return re.sub(r"(\w+)='([^']+)'", r"--set \1=\2", known)
        if name not in takes and field:
            value = _value_of(word, arguments) or "VALUE"
            if of == "advise" and field == "staleness_limit" and value.isdigit():
                # A maximum to try, where advice compares several.
                value = ",".join(dict.fromkeys(str(round(int(value) * part / 4)) for part in range(5)))
            pairs.append(f"--set {field}={value.split(',')[0] if field == 'trainer' else value}")
    return f"write {' '.join(pairs)}" * bool(pairs)


_FILES = ("--config", "--file", "--spec", "--input", "--path", "--csv", "--yaml", "--log")
"""Options of other tools for the file that is an argument here."""
_SUFFIXES: dict[str, tuple[str, ...]] = {"json": (".json",), "csv": (".csv",), "plot": (".png", ".pdf", ".svg")}
"""Formats by the options that write them: a suffix of another option is a mistake."""
_PIPED = ("json", "csv", "html", "report")
"""Options whose text may go to standard output, as -."""
_SEVERAL = re.compile(r",|^[\d.e+-]+:[\d.e+-]+:\d+$")
"""Values apart by commas, or a range low:high:count; a distribution is lognormal:1:1."""


def rewritten(arguments: Sequence[str], command: Any) -> list[str]:
    """Rewrite options of `run` as settings of `compare` and `sweep`, and --PART.KEY as --set PART.KEY."""
    rows = _rows_of(arguments, command)
    # A file behind an option that the command lacks is its argument: advise --config system.yaml.
    options = {f"--{name}" for name, row in rows.items() if not row.positional}
    if len(options) < len(rows):
        pairs = zip(arguments, [*arguments[1:], ""], strict=True)
        arguments = [w for w, path in pairs if w not in _FILES or w in options or not os.path.isfile(path)]
    if not {"smallest", "grid", "task"} & {*rows}:
        return list(arguments)
    several = "grid" if "grid" in rows else "along"
    words, lists, own = list[str](), dict[str, list[str]](), {*rows, "diagnostics"}
    rest = list(arguments)
    given = [word.partition("=")[0] for word in rest]
    arms = [part for part in PARTS if given.count(f"--{part}") > 1 and "smallest" in rows]
    while rest:
        word = rest.pop(0)
        key, mark, text = rest[0].partition("=") if rest else ("", "", "")
        if word == "--set" and mark and "task" in rows and key.replace("-", "_") in DESCRIBES:
            word, rest = f"{_dashed(key)}={text}", rest[1:]  # as settings of sweeps and arms are written
        name, equals, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        row = DESCRIBES.get(name)
        ours = word.startswith("--") and name not in own and (row or name in ("lr", "model") or "." in name)
        if not ours:
            words.append(word)
            continue
        if row and row.kind is bool:
            value = value or "true"
        elif not equals and rest and not rest[0].startswith("--"):
            value = rest.pop(0)
        if not value:
            words.append(word)
        elif row and row.kind == list[str]:
            lists.setdefault(name, []).append(value)
        elif name in arms:
            words.append(f"{name}={value}")
        else:
            # Several numbers behind one option are several values: --staleness 0 4 16.
            while rest and several in rows and checks.is_number(wording.value(rest[0])):
                value += f",{rest.pop(0)}"
            grid = several in rows and bool(_SEVERAL.search(value)) and value[:1] not in "[{("
            setting = f"model.{value}" if name == "model" else f"{name}={value}"
            words += [f"--{several}" if grid else "--set", setting]
    return [*words, *(text for name, each in lists.items() for text in ("--set", f"{name}={','.join(each)}"))]


def _rows_of(arguments: Sequence[str], command: Any) -> Mapping[str, Row]:
    """Return the declared options of the command that the arguments call."""
    words = list(arguments)
    while words and words[0] in getattr(command, "commands", ()):
        command = command.commands[words.pop(0)]
    return getattr(command.callback, "rows", {})


def refuse(arguments: Sequence[str], command: Any) -> None:
    """Refuse what a parser accepts silently: a single-value option that is given twice, and 1_0 for ten."""
    for name, row in (rows := _rows_of(arguments, command)).items():
        option = f"--{name.replace('_', '-')}"
        places = [place for place, word in enumerate(arguments) if word.partition("=")[0] == option]
        values = [str(_value_of(option, arguments[place:])) for place in places]
        behind = [after for word, after in itertools.pairwise([*arguments, "--"]) if word == option]
        if any(after[:2] == "--" for after in behind) and row.kind is not bool and not row.positional:
            said = f"write {option} {row.metavar or ('FILE' if row.kind is Path else 'VALUE')}: {row.help}"
            raise checks.InputError(option, None, "followed by a value", said)
        for value in values if row.kind in (int, float) else ():
            plain = not checks.GROUPED.fullmatch(value)
            checks.require(plain, option, value, "a number without _", "write digits alone")
        if row.written:
            remedy = f"write {option} FILE; a text may go to standard output, as --json -"
            checks.require(name in _PIPED or "-" not in values, option, "-", "the path of a file", remedy)
            folder = next((value for value in values if value.endswith("/")), "")
            checks.require(not folder, option, folder, "a file, not a folder", f"write {option} {folder}FILE")
            others = {each: _SUFFIXES[each] for each in _SUFFIXES if each != name and name in ("json", "csv")}
            other = next((each for each in others for value in values if value.endswith(others[each])), "")
            remedy = f"write --{other} {values[0]}" if other in rows else f"write {option} NAME.{name}"
            checks.require(not other, option, ", ".join(values), f"the path of a {name.upper()} file", remedy)
        arms = " ".join(f"{name}={value}" for value in values)
        listed = "separated by commas" in row.help or all("=" in value for value in values)
        joined = f"write {option} {','.join(values)}" if listed else "give one of them"
        remedy = f"compare several with asyncsim compare {arms}" if name in PARTS else joined
        once = len(values) < 2 or row.kind in (bool, list[str])
        checks.require(once, option, ", ".join(values), "given once", remedy)


def piped(arguments: Sequence[str], command: Any) -> list[str]:
    """The arguments, with /dev/stdout instead of - after options that write text; `list` prints its JSON itself."""
    names = [] if arguments[:1] == ["list"] else [f"--{n}" for n in _PIPED if n in _rows_of(arguments, command)]
    words = [re.sub("=-$", "=/dev/stdout", w) if w.partition("=")[0] in names else w for w in arguments]
    return ["/dev/stdout" if w == "-" and b in names else w for b, w in zip(["", *words], words, strict=False)]


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    pairs = ((word.partition("="), after) for word, after in zip(arguments, [*arguments[1:], None], strict=True))
    return next((own or after for (name, _, own), after in pairs if name == option), None)
