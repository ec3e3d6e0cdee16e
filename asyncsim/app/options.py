"""Options and arguments of the command line, each declared once: type, default, help, completion."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from asyncsim.app.streams import Files
from asyncsim.base import checks, plugins

KINDS = (*plugins.PARTS, "claims", "papers", "logs", "adapters", "like", "exports")
"""Kinds that can be listed."""
ALSO = {part: kind for kind, part in plugins.PARTS.items()}
ALSO |= {word: kind for kind, words in checks.NAMES["list"].items() for word in words}
ALSO |= {each.removesuffix("s"): kind for each, kind in (*ALSO.items(), *zip(KINDS, KINDS, strict=True))}
"""Other names of these kinds."""
STDOUT = Path("-")


class Options(SimpleNamespace):
    """Options of one command by name; `given` lists those that the user gave; `files` are the requested outputs."""

    given: list[str]
    files: Files


class Row(NamedTuple):
    """One command-line option: its type (None: that of its default), and the kind `of` names that complete it."""

    kind: Any
    default: Any
    help: str
    metavar: str | None = None
    of: str | None = None
    written: bool = False
    positional: bool = False
    short: str = ""


_TYPES: dict[str, Any] = {"int": int, "float": float, "bool": bool, "path": Path}
_TYPES |= {"list": list[str], "paths": list[Path]}


def _row(given: dict[str, Any]) -> Row:
    default = ... if given.pop("required", False) else given.pop("default", None)
    return Row(_TYPES.get(given.pop("kind", ""), str), default, **given)


_ROWS = checks.table(__file__, "options.toml")
SECTIONS: dict[str, str] = _ROWS.pop("sections")
"""Commands in the order of the help, by purpose."""
DESCRIBES = {name: _row(row) for name, row in _ROWS.pop("describes").items()}
"""Options that describe a run; they cannot be combined with the file of a spec."""
PARTS = ("task", "policy", "method", "advantage", "system", "schedule", "rewards")
SIZES = tuple(DESCRIBES)[tuple(DESCRIBES).index("samples") :]
"""Names of the settings of a spec that belong to no part."""

OPTIONS = DESCRIBES | {name: _row(row) for name, row in _ROWS.pop("shared").items()}
"""All options that several commands share, or that describe a run."""


def _rows_of(own: dict[str, Any]) -> dict[str, Row]:
    names = own.pop("order").format(" ".join(DESCRIBES)).split()
    helps = {name: OPTIONS[name]._replace(help=own.pop(name)) for name in names if isinstance(own.get(name), str)}
    rows = OPTIONS | helps | {name: _row(row) for name, row in own.items()}
    return {name: rows[name] for name in names}


COMMANDS = {called: _rows_of(own) for called, own in _ROWS.items()}
"""Options and arguments of every command, in order."""
