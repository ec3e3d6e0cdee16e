"""Eight alarms on the same runs: areas in every setting, and what they announce at equal false alarms."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from experiments import alarms
from paper_figures import _script, _setup
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"alarms": {"pooled": True}}
NAMES = {"token ESS": "low token ESS", "ESS": "low sequence ESS", "KL": "high KL to behavior", "return": "low return"}
RATIOS = {"token ESS", "ESS", "KL", "mean weight"}
"""Alarms that read importance ratios."""
NAMES |= {
    "mean weight": "low mean weight",
    "norm": "large gradient norm",
    "entropy": "low entropy",
    "cosine": "high gradient cosine",
}


def color_of(alarm: str) -> str:
    """The color of an alarm, by whether it reads importance ratios."""
    return look.COLOR["controlled" if alarm in RATIOS else "muted"]


def pooled(rows: Any, quantity: str) -> Any:
    """Means over places of every alarm and lead, with the interval that the errors of these places give."""
    found = []
    for (alarm, lead), group in _script.pick(rows, quantity=quantity).groupby(["alarm", "lead"]):
        known = group.dropna(subset="value")
        mean = float(known.value.mean())  # NaN where no run falls
        reach = 1.96 * math.hypot(*known.error) / max(1, len(known))
        found.append({"alarm": alarm, "lead": lead, "value": mean, "low": mean - reach, "high": mean + reach})
    return pd.DataFrame(found)


def one(means: Any, alarm: str, lead: int = alarms.LEAD) -> Any:
    """The row of an alarm at a lead."""
    return _script.pick(means, alarm=alarm, lead=lead).iloc[0]


def draw_areas(ax: Axes, rows: Any, means: Any, order: list[str]) -> None:
    """AUC in every setting as a small mark, their mean with its interval."""
    for y, alarm in enumerate(order):
        own, color = _script.pick(rows, quantity="area", alarm=alarm, lead=alarms.LEAD), color_of(alarm)
        ax.plot(own.value, [y] * len(own), "|", color=color, markersize=7, alpha=0.55)
        look.points(ax, [y], _script.pick(means, alarm=alarm, lead=alarms.LEAD), sideways=True, color=color)
    ax.axvline(0.5, **_style.REFERENCE)
    look.say(ax, 0.49, len(order) - 0.5, "chance", look.COLOR["muted"], ha="right")
    look.ticks(ax.yaxis, range(len(order)), [NAMES[alarm] for alarm in order])
    ax.set(
        xlim=(0.0, 1.05),
        ylim=(-0.6, len(order) - 0.1),
        xlabel="probability that a run about to fall (lose half of its gain)\nranks above a healthy run",
    )
    ax.set_title(f"Ranking of runs {alarms.LEAD} updates ahead (AUC)")


def draw_announced(ax: Axes, announced: Any, order: list[str]) -> None:
    """Share of the falls that an alarm announces at few false alarms."""
    for y, alarm in enumerate(order):
        own, color = _script.pick(announced, alarm=alarm, lead=alarms.LEAD), color_of(alarm)
        ax.plot([0.0, float(own.value.iloc[0])], [y, y], color=color, linewidth=3.0, alpha=0.45)
        look.points(ax, [y], own, sideways=True, color=color)
        if own.value.notna().all():
            look.say(ax, float(own.high.iloc[0]) + 0.015, y, f"{100 * own.value.iloc[0]:.0f} %", color)
    ax.set(xlim=(0.0, 0.5), xlabel=f"share of falls caught, at {100 * alarms.FALSE:.0f} % false alarms")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    ax.set_title("Falls that the alarm catches")


def draw(rows: Any) -> Figure:
    """Areas in every setting, and what alarms announce, alarm by alarm."""
    areas, announced = pooled(rows, "area"), pooled(rows, "announced")
    order = sorted(NAMES, key=lambda alarm: float(one(areas, alarm).value))
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.2)
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.5, 1.0))
        draw_areas(left, rows, areas, order)
        draw_announced(right, announced, order)
        own = _script.pick(rows, quantity="area", lead=alarms.LEAD)
        sure = {alarm for alarm in NAMES if _script.pick(own, alarm=alarm).value.min() > 0.5}
        best = {max(NAMES, key=lambda alarm: float(one(means, alarm).value)) for means in (areas, announced)}
        share = float(one(announced, "token ESS").value)
        holds = best == {"token ESS"} and best <= sure and share < 0.5
        _script.headline(figure, holds, "How well alarms rank and catch falls")
        own = {"linestyle": "none", "color": look.INK}
        marks: list[Any] = [
            Line2D(
                [], [], label="alarm on importance ratios", marker="o", linestyle="none", color=color_of(min(RATIOS))
            ),
            Line2D([], [], label="other alarm", marker="o", linestyle="none", color=color_of("")),
            Line2D([], [], label="one setting", marker="|", **own),
            Line2D([], [], label="mean of settings", marker="o", **own),
        ]
        look.below(figure, marks)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Pooled areas and their range over places, announced falls, and how many runs fall."""
    areas, announced = pooled(rows, "area"), pooled(rows, "announced")
    at = rows[(rows.quantity == "area") & (rows.lead == alarms.LEAD)]
    found = {"lead": str(alarms.LEAD), "false": f"{100 * alarms.FALSE:.0f}"}
    found["places"] = str(len(at.groupby(["task", "estimator", "law", "rate"])))
    for alarm in ("token ESS", "ESS", "return", "cosine"):
        key, own = alarm.replace(" ", "_").lower(), at[at.alarm == alarm].value
        row = one(areas, alarm)
        found[key] = f"{row.value:.2f} ± {(row.high - row.low) / 2:.2f}"
        found[f"{key}_announced"] = f"{100 * one(announced, alarm).value:.0f} %"
        found[f"{key}_range"] = f"{own.min():.2f} to {own.max():.2f}"
    least = at[at.alarm == "cosine"].sort_values("value").iloc[0]
    found["cosine_low"] = f"{least.value:.2f} ({least.low:.2f} to {least.high:.2f})"
    shares = _script.pick(rows, quantity="share", alarm="fell").value
    return found | {"fell": f"{100 * shares.min():.0f} to {100 * shares.max():.0f} %"}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether low ESS, by sequence and by token, and a high cosine rank runs better than chance, by setting."""
    found: dict[str, list[Setting]] = {"ess": [], "cosine": []}
    at = rows[(rows.quantity == "area") & (rows.lead == alarms.LEAD)]
    for alarm in ("ESS", "token ESS", "cosine"):
        for row in at[at.alarm == alarm].itertuples():
            weights = {"plain": "no ratio"}.get(row.estimator, f"{row.estimator} ratios")
            age = row.law.removeprefix("constant ").replace("uniform ", "up to ")
            name = {"ESS": "sequence ESS, "}.get(alarm, f"{alarm}, " if alarm != "cosine" else "")
            place = (f"{name}{_setup.NAMES.get(row.task, row.task)}", f"{weights}, staleness {age}")
            known = decided(row.low > 0.5, row.high < 0.5)
            found["cosine" if alarm == "cosine" else "ess"].append(Setting(place, known, row.task == "chain"))
    return found
