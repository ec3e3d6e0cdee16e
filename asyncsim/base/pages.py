"""Render answers as text for a terminal, from templates in this folder with wrapped lines."""

import textwrap
from collections.abc import Collection, Iterable
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

COLUMNS = ContextVar("COLUMNS", default=0)
"""Width of the terminal that an answer is formatted for; 0 if there is none."""
VERBOSE = ContextVar("VERBOSE", default=False)
"""Whether an answer has all details: `--verbose` of the command line."""


@cache
def templates(folder: Path) -> Any:
    """Load the templates of a folder; a missing value raises an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(loader=FileSystemLoader(folder), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def page(name: str, width: int | None = None, indent: str = "", kept: Collection[str] = (), **values: Any) -> str:
    """Render the template NAME.txt.jinja with wrapped lines, as `wrap` does."""
    lines = templates(Path(__file__).parent).get_template(f"{name}.txt.jinja").render(values).splitlines()
    return wrap(lines, width, indent, kept)


def wrap(lines: Iterable[str], width: int | None = None, indent: str = "", kept: Collection[str] = ()) -> str:
    """Join lines, wrapped at `width` (`COLUMNS`, or 80) with their own indent; lines in `kept` are not wrapped."""
    wrapped = list[str]()
    for line in lines:
        deep = " " * (len(line) - len(line.lstrip())) + indent
        short = textwrap.wrap(line, width or COLUMNS.get() or 80, subsequent_indent=deep, break_on_hyphens=False)
        wrapped += [line] if line in kept else short or [""]
    return "\n".join(wrapped)
