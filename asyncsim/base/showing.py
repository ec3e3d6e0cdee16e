"""Small HTML tables by which notebooks show a trace, a spec, a verdict or an estimate; all text is escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from asyncsim.base import checks, notation, records, uncertainty

if TYPE_CHECKING:
    from asyncsim.base.trace import Trace

ROWS = 12
"""Most rows of a table."""
ENDS = 24
"""Most rows of a trace."""
LONGEST = 120
"""Most signs of a cell."""


def estimate(value: records.Estimate) -> str:
    """Value with its 95 percent interval, and how many independent units stand behind it."""
    half = value.tolerance + (uncertainty.critical(0.05, value.freedom) * value.error if value.error else 0.0)
    known = math.isfinite(half) and value.independent
    shown = notation.measurement(value.value, half, value.value) if known else notation.number(value.value)
    rows = [("value", shown), ("samples", value.samples)]
    return table(rows, "" if known else "no interval: a single run, or one shared random schedule")


def verdict(value: records.Verdict) -> str:
    """Statement and verdict, then its comparisons, those with the least margin where there are many."""
    few = sorted(value.points, key=lambda row: row.margin)[:ROWS]
    rows = [("quantity", "predicted", "measured", "verdict", "point")]
    for row in few:
        half = (row.high - row.low) / 2.0
        measured = notation.measurement(row.measured, half, row.predicted)
        place = ", ".join(f"{key} = {each}" for key, each in row.point.items())
        rows.append((row.quantity, notation.number(row.predicted), measured, row.verdict, place))
    left = len(value.points) - len(few)
    more = f"; {left} comparisons of more margin are left out" if left else ""
    return table(rows, f"{value.verdict}: {value.id}. {value.statement}{more}", heading=True)


def spec(header: Mapping[str, Any]) -> str:
    """The settings of a run by name, as `Spec.describe` gives them."""
    return table([(key, value) for key, value in header.items() if value not in (None, [], {})], rows=40)


def trace(value: Trace) -> str:
    """What was run, how far it came, and where its first metrics ended, for each setting."""
    head = value.header.get("spec") or {}
    parts = value.split()
    rows: list[Sequence[Any]] = [("setting", "metric", "last tenth, mean and 95 %")]
    cells = [(name, part, metric) for name, part in parts.items() for metric in part.metrics]
    rows += [(name or "all replicates", metric, _ended(part, metric)) for name, part, metric in cells[:ENDS]]
    words = [f"{key} {head[key]}" for key in ("task", "method") if key in head]
    words += [f"{len(value.updates)} recorded updates", f"{value.replicates} replicates"]
    if value.partial is not None:
        words.append(f"stopped after {value.partial['updates']} of {value.partial['of']} updates")
    if len(cells) > ENDS:
        words.append(f"the first {ENDS} of {len(cells)} rows")
    return table(rows, ", ".join(words), heading=True, rows=ENDS)


def _ended(part: Trace, metric: str) -> str:
    """A metric over the last tenth of the recorded updates."""
    try:
        found = part.final(metric)
    except checks.InputError:
        return "—"
    low, high = part.interval(metric, found)
    if math.isnan(low):
        return f"{notation.number(found.value)} (no interval)"
    return f"{notation.number(found.value)} [{notation.number(low)}, {notation.number(high)}]"


def table(lines: Sequence[Sequence[Any]], caption: str = "", heading: bool = False, rows: int = ROWS) -> str:
    """Lines of cells as an HTML table of so many rows, the first line as its head where that is asked for."""
    head, body = (lines[:1], lines[1:]) if heading else ([], lines)
    left = len(body) - rows
    caption += f" ({left} more rows)" if left > 0 else ""
    text = "".join(_row(line, "th") for line in head) + "".join(_row(line, "td") for line in body[:rows])
    return f"<table>{f'<caption>{escape(caption)}</caption>' if caption else ''}{text}</table>"


def _row(cells: Sequence[Any], tag: str) -> str:
    shown = (str(cell) if len(str(cell)) <= LONGEST else f"{str(cell)[: LONGEST - 3]}..." for cell in cells)
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in shown) + "</tr>"
