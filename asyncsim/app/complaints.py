"""What the parser of the command line complains about, in the form of all other messages."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import typer

from asyncsim.base import checks

USAGE: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "UsageError")
"""What the parser raises; typer exports only a child of it."""


def translated(error: Any, arguments: Sequence[str], known: Sequence[str]) -> checks.InputError:
    """A complaint of the parser about arguments, in the form of all others; `known` are the commands."""
    kind, text = type(error).__name__, error.message
    parameter: Any = getattr(error, "param", None)
    context = getattr(error, "ctx", None)
    see = f"see `{context.command_path if context else 'asyncsim'} --help`"
    # Translate complaints about options.
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
    # Translate unknown commands and surplus words.
    unknown = re.match(r"No such command '(.*?)'", text)
    if unknown:
        near = difflib.get_close_matches(unknown[1], known, n=1)
        remedy = f"did you mean {near[0]}?" if near else see
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
    """What stands behind an option on the command line."""
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if word.partition("=")[0] == option:
            return word.partition("=")[2] or following
    return None
