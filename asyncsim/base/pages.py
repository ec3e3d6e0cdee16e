"""Render answers as text for a terminal, from templates in this folder with wrapped lines."""

import textwrap
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any


@cache
def templates(folder: Path) -> Any:
    """Load the templates of a folder; a missing value raises an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(loader=FileSystemLoader(folder), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def page(name: str, width: int = 80, indent: str = "", kept: Collection[str] = (), **values: Any) -> str:
    """Render the template NAME.txt.jinja with lines wrapped at `width`; lines in `kept` are not wrapped."""
    lines = list[str]()
    for line in templates(Path(__file__).parent).get_template(f"{name}.txt.jinja").render(values).splitlines():
        deep = " " * (len(line) - len(line.lstrip())) + indent
        wrapped = textwrap.wrap(line, width, subsequent_indent=deep, break_on_hyphens=False)
        lines += [line] if line in kept else wrapped or [""]
    return "\n".join(lines)
