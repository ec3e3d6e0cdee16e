"""What aligns consecutive gradients without staleness: signal, batches used again, momentum."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim import claims
from asyncsim.plotting import _style
from experiments import gac_alignment as made
from paper_figures import _script
from paper_figures._claim import Setting, decided
from paper_figures._gac_alignment import causes
from paper_figures._gac_points import ramp, written
from paper_figures.gac_cosine import ALIGNED

EXPERIMENTS = {"gac_alignment": {"part": "causes", "task": "Gaussian bandit", "staleness": 0}}
CAUSES = {
    "small step": "at optimum, 0.3 of maximum stable rate",
    "large step": "at optimum, 0.9 of maximum stable rate",
    "far, batch 16": "far from optimum, batch 16",
    "far, batch 256": "far from optimum, batch 256",
    "batch used 4 times": "at optimum, batches used 4 times",
    "momentum": "at optimum, momentum 0.9 (no prediction)",
}
"""Names of the conditions."""
SIGNAL = {
    **dict.fromkeys(("small step", "large step"), "baseline: "),
    "far, batch 16": "weaker signal: ",
    "far, batch 256": "strong signal: ",
}
"""What conditions are examples of."""
RANDOM = "large step, random"
"""Drawn in the row of the large step."""
SYNCHRONOUS: dict[str, Any] = {"color": ramp(0, made.LATE), "marker": "o"}
TICK: dict[str, Any] = {"color": _style.INK, "marker": "|", "markersize": 11.0, "linestyle": "none", "zorder": 4}
"""A prediction."""


def draw(rows: Any) -> Figure:
    """A line for each condition, on fresh data; predictions are vertical ticks."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        body = figure.subfigures(1, 1)
        ax = body.subplots()
        fresh = rows[(rows.part == "causes") & (rows.staleness == 0)].set_index("condition")
        for line, (condition, row) in enumerate(fresh.loc[list(CAUSES)].iterrows()):
            reach = [[row.value - row.low], [row.high - row.value]]
            ax.errorbar(row.value, -line, xerr=reach, **{**_style.MEASURED, **SYNCHRONOUS, "capsize": 0})
            known = causes(condition, 0)
            if known is not None:
                ax.plot(known, -line, **TICK)
        for line in range(len(CAUSES) - 1):
            ax.axhline(-line - 0.5, color=_style.COLORS["effect"], linewidth=0.6, zorder=0)
        ax.axvline(0.0, color=_style.COLORS["muted"], linewidth=0.6, zorder=0)
        ax.set(
            xlim=(-0.2, 1.0),
            ylim=(0.3 - len(CAUSES), 0.5),
            xticks=[0.0, 0.25, 0.5, 0.75, 1.0],
            xlabel="correlation of consecutive gradients (1: same direction)",
        )
        ax.set_yticks([-line for line in range(len(CAUSES))], [SIGNAL.get(key, "") + CAUSES[key] for key in CAUSES])
        aligned = all(fresh.low[name] > 0.1 for name in ("far, batch 256", "batch used 4 times", "momentum"))
        handles = [
            Line2D([], [], label="synchronous, measured", linestyle="none", markersize=4.0, **SYNCHRONOUS),
            Line2D([], [], label="predicted", **TICK),
        ]
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left", "ncols": len(handles)}
        body.legend(handles=handles, **more)
        _script.headline(figure, aligned, "Correlation of consecutive gradients under each condition")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Correlation under each condition, and the learning rate with momentum in shares of its limit."""
    rolling = made.CONDITIONS["momentum"]
    point = {"staleness": 0, "curvatures": (1.0,), "momentum": rolling["momentum"]}
    limit = claims.claim("staleness/stability-boundary").predict(point)
    found = {"momentum_share": f"{rolling['step'] / limit['step']:.2f}", "late": str(made.LATE)}
    fresh, stale = ("far, batch 256", "batch used 4 times", "momentum"), ("large step", RANDOM)
    for condition, tau in (*((each, 0) for each in fresh), *((each, made.LATE) for each in stale)):
        row = _script.pick(rows, part="causes", condition=condition, staleness=tau).iloc[0]
        found[f"{condition.replace(',', '').replace(' ', '_')}_{tau}"] = written(row)
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether gradients align on stale data and not on fresh ones, by condition."""
    known = rows[rows.part == "causes"].set_index(["condition", "staleness"])
    found = []
    for condition in (*CAUSES, RANDOM):
        fresh = known.loc[condition.removesuffix(", random"), 0]
        stale = known.loc[condition, made.LATE] if (condition, made.LATE) in known.index else fresh
        name = CAUSES.get(condition, f"{CAUSES['large step']} and random staleness").partition(" (")[0]
        answer = decided(fresh.high < ALIGNED < stale.low, fresh.low > ALIGNED or stale.high < ALIGNED)
        found.append(Setting(tuple(name.split(", ")), answer))
    return {"signature": found}
