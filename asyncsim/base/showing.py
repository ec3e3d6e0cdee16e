"""Small HTML tables for traces, specs, verdicts and estimates in notebooks; all text is escaped."""

from collections.abc import Sequence
from html import escape
from typing import Any

ROWS = 12
"""Maximum number of rows in a table."""
LONGEST = 120
"""Maximum number of characters in a cell."""


def table(lines: Sequence[Sequence[Any]], caption: str = "", heading: bool = False, rows: int = ROWS) -> str:
    """Format lines of cells as an HTML table of at most `rows` rows; with `heading`, the first line is the head."""
    head, body = (lines[:1], lines[1:]) if heading else ([], lines)
    surplus = len(body) - rows
    caption += f" ({surplus} more rows)" if surplus > 0 else ""
    text = "".join(_row(line, "th") for line in head) + "".join(_row(line, "td") for line in body[:rows])
    return f"<table>{f'<caption>{escape(caption)}</caption>' if caption else ''}{text}</table>"


def _row(cells: Sequence[Any], tag: str) -> str:
    texts = (str(cell) if len(str(cell)) <= LONGEST else f"{str(cell)[: LONGEST - 3]}..." for cell in cells)
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in texts) + "</tr>"
