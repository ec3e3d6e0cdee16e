"""Cosine of consecutive gradients of GRPO over updates, at every staleness."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import gac_steps
from paper_figures import _gac_steps as shared
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures._gac_points import ramp

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"gac_steps": {"part": "steps", "task": "chain", "arm": "GRPO", "rate": "best synchronous"}}
TASKS = {"chain": "chain", "peaked": "64 tokens", "kinds": "32 tokens"}
"""What tables call tasks."""
READINGS = {1.0: "best synchronous rate", 4.0: "4× rate"}
"""Rates, in best synchronous ones."""
ALIGNED = 0.2
"""Cosine or correlation above which gradients are aligned, and below which nearly orthogonal."""
TASK, LEAD, LATE, MIDDLE = "chain", 10, 32, 16
SOONER, FIRST = 20, 30
"""More updates before a fall than `LEAD`, and the most."""
SCORES: dict[str, dict[str, Any]] = {
    "cosine": {"color": look.COLOR["contrast"], "marker": "s"},
    "return": {"color": look.COLOR["muted"], "marker": "D"},
    "ESS": {"color": look.COLOR["measured"], "marker": "o"},
    "staleness": {"color": look.COLOR["tuned"], "marker": "^"},
}
NAMES = {"cosine": "high cosine", "return": "low return", "ESS": "low ESS", "staleness": "high staleness"}
LEVELS = {MIDDLE: "o", LATE: "s"}


def warned(rows: Any, quantity: str, staleness: int | None = None, **place: Any) -> Any:
    """Rows on falls of RLOO at the 4× rate, pooled over staleness or within a level."""
    own = _script.pick(rows, part="warning", quantity=quantity, **place)
    own = own[own.rate == own.rate.max()] if "rate" not in place else own
    return own[own.staleness.isna()] if staleness is None else own[own.staleness == staleness]


def draw_updates(ax: Axes, rows: Any) -> None:
    """Cosines of GRPO over updates at every staleness, at the best synchronous rate."""
    rate, names = shared.usual(rows, TASK), {}
    for level in gac_steps.STALENESS:
        own = shared.steps(rows, task=TASK, arm="GRPO", staleness=level, quantity="cosine", rate=rate)
        if len(own):
            own = own.sort_values("update")
            reach, color = (
                [(own.value - own.low_end).clip(0.0), (own.high_end - own.value).clip(0.0)],
                ramp(level, LATE),
            )
            style = {**_style.MEASURED, **look.CONNECTED, "markersize": 3.0, "color": color}
            ax.errorbar(own["update"], own.value, reach, **style)
            names[f"staleness {level}" if level else "synchronous"] = (float(own.value.iloc[-1]), color)
    ax.axhline(0.0, **_style.REFERENCE)
    ax.set(ylim=(-0.1, 1.0), xlabel="update", ylabel="cosine of consecutive gradients")
    look.ends(ax, names)


def least(rows: Any) -> float:
    """The least rate of runs that are warned of, at which some at the largest staleness never fall."""
    return float(_script.pick(rows, part="warning").rate.min())


def swept(rows: Any, staleness: int, quantity: str, skips: bool) -> Any:
    """Rows of the sweep at the lower rate, by the threshold that varies; no control is the one at 1."""
    own = _script.pick(rows, part="threshold", staleness=staleness, quantity=quantity)
    own = own[own.rate == own.rate.min()]
    return own[own.high < 1.0].sort_values("high") if skips else own[own.high == 1.0].sort_values("low")


def ordered(rows: Any) -> float:
    """The update from which on the cosine is larger at every larger staleness; infinite where it never stays so."""
    own = shared.steps(rows, task=TASK, arm="GRPO", quantity="cosine", rate=shared.usual(rows, TASK))
    steps = own.pivot(index="update", columns="staleness", values="value").diff(axis=1).iloc[::-1, 1:]
    return (steps > 0.0).all(axis=1).cumprod().replace(0, math.nan).last_valid_index() or math.inf


def draw(rows: Any) -> Figure:
    """Cosines of GRPO over updates."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        draw_updates(figure.subplots(), rows)
        first, half = ordered(rows), shared.steps(rows)["update"].max() / 2
        _script.headline(figure, first <= half, "Cosine of consecutive gradients of GRPO")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Cosines by staleness, areas at one lead, and what thresholds do."""
    found: dict[str, str] = {
        "lead": str(LEAD),
        "sooner": str(SOONER),
        "first": str(FIRST),
        "late": str(LATE),
        "low": "8",
        "middle": str(MIDDLE),
        "least": f"{least(rows):g}",
    }
    rate, half = shared.usual(rows, TASK), shared.steps(rows)["update"].max() / 2
    for level in gac_steps.STALENESS:
        own = shared.steps(rows, task=TASK, arm="GRPO", staleness=level, quantity="cosine", rate=rate)
        for name, part in (("early", own["update"] <= half), ("late", own["update"] > half)):
            found[f"{name}_{level}"] = f"{own[part].value.mean():.2f}" if len(own) else "none"
    for score in SCORES:
        if score in ("cosine", "staleness"):
            own = warned(rows, "area", arm=score, lead=LEAD)
            found[f"area_{score}"] = spread(own.iloc[0]) if len(own) else "none"
        if score != "staleness":
            # Within one level the staleness is the same for all runs; pooled are all levels.
            for key, level, place in (
                ("sooner", LATE, {"rate": least(rows)}),
                ("lower", MIDDLE, {}),
                ("pooled", None, {}),
            ):
                own = warned(rows, "area", level, arm=score, lead=SOONER, **place)
                found[f"{key}_{score.lower()}"] = spread(own.iloc[0]) if len(own) else "none"
    found["most"] = f"{_script.pick(rows, part='warning').rate.max():g}"
    for key, lead in (("near", LEAD), ("first_cosine", FIRST)):
        own = _script.pick(rows, part="warning", quantity="area", arm="cosine", lead=lead).value
        found[key] = f"{own.min():.2f} to {own.max():.2f}" if len(own) else "none"
    own = swept(rows, LATE, "fell", False)
    found["bare"] = f"{100 * own[own.low == 1.0].value.iloc[0]:.0f} %"
    found["projected"] = f"{100 * own[own.low < 1.0].value.min():.0f} %"
    found["skipped"] = f"{100 * swept(rows, LATE, 'fell', True).value.iloc[0]:.0f} %"
    for quantity in ("mean", "end"):
        own = swept(rows, LATE, quantity, False)
        found[f"bare_{quantity}"] = f"{own[own.low == 1.0].value.iloc[0]:.2f}"
        controlled = own[own.low < 1.0].value
        found[f"projected_{quantity}"] = f"{controlled.min():.2f} to {controlled.max():.2f}"
        found[f"skipped_{quantity}"] = spread(swept(rows, LATE, quantity, True).iloc[0])
    return found


def spread(row: Any) -> str:
    """A value with half of its interval."""
    return f"{row.value:.2f} ± {(row.high_end - row.low_end) / 2:.2f}"


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether stale gradients of GRPO align and synchronous ones do not, by rate, task and staleness."""
    found = []
    for times, reading in READINGS.items():
        for task, staleness in shared.places(rows):
            rate = times * shared.usual(rows, task)
            own = shared.steps(rows, task=task, arm="GRPO", quantity="cosine")
            # Solved tasks have no gradients later.
            means = own[np.isclose(own.rate, rate)].groupby("staleness")[["low_end", "high_end"]].mean()
            fresh, stale = means.loc[0], means.loc[staleness]
            answer = decided(
                fresh.high_end < ALIGNED < stale.low_end, fresh.low_end > ALIGNED or stale.high_end < ALIGNED
            )
            # Found in these rows, not predicted.
            inside = (times, task) == (1.0, "chain")
            found.append(Setting((f"{reading}, {TASKS[task]}", f"{staleness}"), answer, inside))
    return {"aligned": found}
