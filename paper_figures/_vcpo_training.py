"""What the entry of the figure on VCPO's training quotes, read from the rows."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from experiments import _vcpo

SHOWN = 32
"""The staleness whose curves are shown."""


def seen(rows: Any) -> Any:
    """Gradient norms around collapses of truncated IS with SGD at the staleness shown; empty where there is none."""
    bodies = rows[(rows.part == "anatomy") & (rows.problem == "graded") & (rows.optimizer == "sgd")]
    return bodies[(bodies.arm == "truncated") & (bodies.samples > 0) & (bodies.staleness == SHOWN)]


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
    """What the entry quotes."""
    ends = rows[rows.part == "end"]
    largest, main = int(ends.staleness.max()), ends[ends.factor == 1.0]
    end = functools.partial(at, ends)
    found = {
        "shown": f"{SHOWN}",
        "largest": f"{largest}",
        "replicates": f"{int(main[main.quantity == 'final'].samples.max())}",
        "short": f"{int(main.horizon.min())}",
        "long": f"{int(main.horizon.max())}",
        "sync": _value(end("graded", "adam", 0, "truncated", "final")),
    }
    for arm in ("truncated", "vcpo"):
        for name, staleness, late in (("shown", SHOWN, False), ("largest", largest, False), ("late", largest, True)):
            found[f"{arm}_{name}"] = _value(end("graded", "adam", staleness, arm, "final", late))
            if name != "largest":
                found[f"{arm}_{name}_collapsed"] = _share(end("graded", "adam", staleness, arm, "collapsed", late))
        found[f"sgd_{arm}"] = _share(end("graded", "sgd", SHOWN, arm, "collapsed"))
        for problem in ("exact", "noisy"):
            found[f"{problem}_{arm}"] = _value(end(problem, "adam", largest, arm, "final", True))
        found[f"half_{arm}"] = _value(end("graded", "adam", largest, arm, "final", True, 0.5))
        found[f"half_{arm}_collapsed"] = _share(end("graded", "adam", largest, arm, "collapsed", True, 0.5))
        found[f"double_{arm}"] = _value(end("noisy", "adam", largest, arm, "final", True, 2.0))
        for name, late in (("early", False), ("late", True)):
            found[f"double_{arm}_{name}"] = _share(end("noisy", "adam", largest, arm, "collapsed", late, 2.0))
    found |= {f"{problem}_most": _share(most(main, problem)) for problem in ("exact", "noisy")}
    found |= {f"{problem}_most_vcpo": _share(most(main, problem, "vcpo")) for problem in ("exact", "noisy")}
    found |= {
        "few": f"{int(ends[ends.factor != 1.0].samples.max())}",
        "uniform": f"{math.log(_vcpo.PROBLEMS['graded'].actions):.2f}",
        "exact_stuck": _missed(end("exact", "adam", SHOWN, "truncated", "solved")),
        "clipped": f"{100 * ends[ends.quantity == 'clipped'].value.max():.2f}",
    }
    return found | _explored(main, largest) | _chosen(rows, main) | _anatomy(seen(rows))


def _explored(ends: Any, staleness: int) -> dict[str, str]:
    """Entropy of the truncated runs that were not solved at the last end."""
    row = at(ends[ends.among == "unsolved"], "graded", "adam", staleness, "truncated", "entropy", late=True)
    value = f"{row.value:.2f} ({row.low:.2f} to {row.high:.2f})" if row.samples else "(none)"
    return {"entropy": value, "unsolved": f"{row.samples}"}


def _chosen(rows: Any, ends: Any) -> dict[str, str]:
    """The learning rates, how well synchronous runs do at them, and at twice that of the noisy problem."""
    steps = rows[(rows.part == "step") & (rows.optimizer == "adam")]
    rate = ends[ends.optimizer == "adam"].groupby("problem").step.first()
    found = {f"{problem}_step": f"{value:g}" for problem, value in rate.items()}
    found["choosing"] = f"{int(steps.samples.max())}"
    for name, problem, factor in (("graded", "graded", 1.0), ("noisy", "noisy", 1.0), ("double", "noisy", 2.0)):
        own = steps[(steps.problem == problem) & np.isclose(steps.step, factor * rate[problem])]
        own = own.set_index("quantity").value
        if problem == "noisy":
            found[f"{name}_sync"] = f"{own.mean_return:.3f}"
        found[f"{name}_missed"] = f"{100 * (1 - own.solved):.1f}"
    return found


def _anatomy(bodies: Any) -> dict[str, str]:
    """Spike and aftermath of collapses, beside others."""
    if bodies.empty:
        names = ("spike_collapsed", "spike_others", "after_collapsed", "after_others")
        return dict.fromkeys(names, "(no collapse)") | {"anatomy": "none", "fallen": "0"}
    staleness, fallen = int(bodies.staleness.iloc[0]), int(bodies[bodies.among == "collapsed"].samples.iloc[0])
    found = {"anatomy": f"{staleness}", "fallen": f"{fallen}"}
    for row in bodies.itertuples():
        value, low, high = (f"{x:,.0f}" if x >= 10 else f"{x:.2g}" for x in (row.value, row.low, row.high))
        found[f"{row.quantity}_{row.among}"] = f"{value} ({low} to {high})"
    return found


def most(ends: Any, problem: str, arm: str = "truncated") -> Any:
    """An arm's row with the largest share collapsed."""
    own = ends[(ends.problem == problem) & (ends.arm == arm) & (ends.quantity == "collapsed")].reset_index(drop=True)
    return own.loc[own.value.idxmax()]


def _value(row: Any) -> str:
    return f"{row.value:.3f} ± {(row.high - row.low) / 2:.3f}"


def _share(row: Any) -> str:
    return f"{100 * row.value:.1f} percent ({100 * row.low:.1f} to {100 * row.high:.1f})"


def _missed(row: Any) -> str:
    return f"{100 * (1 - row.value):.1f} percent ({100 * (1 - row.high):.1f} to {100 * (1 - row.low):.1f})"
