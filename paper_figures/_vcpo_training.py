"""What the entries on VCPO's training quote, read from the rows."""

from __future__ import annotations

import functools
from typing import Any

from paper_figures._vcpo import share, value

SHOWN = 32
"""The staleness whose curves are shown."""
ARMS = ("truncated", "vcpo")
BOLD = 4.0
"""The 4× rate, in best synchronous ones."""


def at(
    ends: Any,
    problem: str,
    optimizer: str,
    staleness: int,
    arm: str,
    quantity: str,
    late: bool = False,
    factor: float = 1.0,
) -> Any:
    """The one row of a quantity of an arm at the first end that is read, or at the last."""
    place = (ends.problem == problem) & (ends.optimizer == optimizer) & (ends.staleness == staleness)
    own = ends[place & (ends.arm == arm) & (ends.quantity == quantity) & (ends.factor == factor)]
    return own.sort_values("horizon").iloc[-1 if late else 0]


def numbers(rows: Any) -> dict[str, str]:
    """What the entry on collapse quotes: ends at the largest staleness, and returns at the staleness shown."""
    ends = rows[rows.part == "end"]
    largest, main = int(ends.staleness.max()), ends[ends.factor == 1.0]
    end = functools.partial(at, ends, "graded", "adam")
    found = {
        "largest": f"{largest}",
        "replicates": f"{int(main[main.quantity == 'final'].samples.max())}",
        "short": f"{int(main.horizon.min())}",
        "long": f"{int(main.horizon.max())}",
        "sync": value(end(0, "truncated", "final")),
    }
    for arm in ARMS:
        found[f"{arm}_shown"] = value(end(SHOWN, arm, "final"))
        found[f"{arm}_late"] = value(end(largest, arm, "final", True))
        found[f"{arm}_late_collapsed"] = share(end(largest, arm, "collapsed", True))
    return found


def rates(rows: Any) -> dict[str, str]:
    """What the entry on learning rates quotes."""
    ends = rows[rows.part == "end"]
    largest, end = int(ends.staleness.max()), functools.partial(at, ends)
    found = {"largest": f"{largest}", "long": f"{int(ends.horizon.max())}"}
    found["few"] = f"{int(ends[(ends.factor != 1.0) & (ends.quantity == 'final')].samples.max())}"
    for arm in ARMS:
        for name, problem, factor in (("same", "graded", 1.0), ("double", "noisy", 2.0)):
            found[f"{name}_{arm}"] = value(end(problem, "adam", largest, arm, "final", True, factor))
    found["bold_vcpo_collapsed"] = (
        f"{100 * end('graded', 'adam', largest, 'vcpo', 'collapsed', True, BOLD).value:.0f} %"
    )
    return found
