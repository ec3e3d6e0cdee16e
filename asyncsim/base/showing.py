"""Small HTML tables by which notebooks show a trace, a spec, a verdict or an estimate; all text is escaped."""

from collections.abc import Sequence
from html import escape
from typing import Any

ROWS = 12
"""Most rows of a table."""
LONGEST = 120
"""Most signs of a cell."""


def table(lines: Sequence[Sequence[Any]], caption: str = "", heading: bool = False, rows: int = ROWS) -> str:
    """Lines of cells as an HTML table of so many rows, the first line as its head where that is asked for."""
    head, body = (lines[:1], lines[1:]) if heading else ([], lines)
    surplus = len(body) - rows
    caption += f" ({surplus} more rows)" if surplus > 0 else ""
    text = "".join(_row(line, "th") for line in head) + "".join(_row(line, "td") for line in body[:rows])
    return f"<table>{f'<caption>{escape(caption)}</caption>' if caption else ''}{text}</table>"


def _row(cells: Sequence[Any], tag: str) -> str:
    texts = (str(cell) if len(str(cell)) <= LONGEST else f"{str(cell)[: LONGEST - 3]}..." for cell in cells)
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in texts) + "</tr>"
