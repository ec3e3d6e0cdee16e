"""Answers as text on a screen: a template of this folder, filled, its lines wrapped."""

import textwrap
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any


@cache
def templates(folder: Path) -> Any:
    """The templates of a folder; what one is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(loader=FileSystemLoader(folder), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def page(name: str, width: int = 80, indent: str = "", kept: Collection[str] = (), **values: Any) -> str:
    """The template NAME.txt.jinja in lines of a width; a line goes on so much further in, those `kept` stay."""
    lines = list[str]()
    for line in templates(Path(__file__).parent).get_template(f"{name}.txt.jinja").render(values).splitlines():
        deep = " " * (len(line) - len(line.lstrip())) + indent
        wrapped = textwrap.wrap(line, width, subsequent_indent=deep, break_on_hyphens=False)
        lines += [line] if line in kept else wrapped or [""]
    return "\n".join(lines)
