"""Eight alarms on the same runs: areas by lead, by place, and what they announce at equal false alarms."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import alarms
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = ("alarms",)
SHOWN: dict[str, dict[str, Any]] = {
    "return": {"color": look.COLOR["muted"], "marker": "D"},
    "token ESS": {"color": look.COLOR["partial"], "marker": "v"},
    "ESS": {"color": look.COLOR["measured"], "marker": "o"},
    "cosine": {"color": look.COLOR["contrast"], "marker": "s"},
    "entropy": {"color": look.COLOR["tuned"], "marker": "^"},
}
"""Alarms that are followed over leads."""
NAMES = {"token ESS": "low token ESS", "ESS": "low ESS", "KL": "KL to behavior", "return": "low return"}
RATIOS = {"token ESS", "ESS", "KL", "mean weight"}
"""Alarms that read importance ratios."""
NAMES |= {"mean weight": "low mean weight", "norm": "large gradient", "entropy": "low entropy", "cosine": "high cosine"}


def pooled(rows: Any, quantity: str) -> Any:
    """Means over places of every alarm and lead, with the interval that the errors of these places give."""
    own = rows[(rows.quantity == quantity) & rows.value.notna()]
    found = []
    for (alarm, lead), group in own.groupby(["alarm", "lead"]):
        reach = 1.96 * math.hypot(*group.error) / len(group)
        mean = float(group.value.mean())
        found.append({"alarm": alarm, "lead": lead, "value": mean, "low": mean - reach, "high": mean + reach})
    return pd.DataFrame(found)


def one(means: Any, alarm: str, lead: int = alarms.LEAD) -> Any:
    """The row of an alarm at a lead."""
    return _script.pick(means, alarm=alarm, lead=lead).iloc[0]


def draw_leads(ax: Axes, means: Any) -> None:
    """A pooled quantity against the time before the fall."""
    for place, (alarm, style) in enumerate(SHOWN.items()):
        own = _script.pick(means, alarm=alarm).sort_values("lead")
        look.points(ax, 0.15 * (place - 2) - own.lead, own, **look.CONNECTED, **{"markersize": 3.5, **style})
    ax.set(xlabel="updates before the fall")


def draw_places(ax: Axes, rows: Any, means: Any) -> None:
    """Every place as a small mark, their mean with its interval."""
    order = sorted(NAMES, key=lambda alarm: float(one(means, alarm).value))
    for y, alarm in enumerate(order):
        own = _script.pick(rows, quantity="area", alarm=alarm, lead=alarms.LEAD)
        color = SHOWN.get(alarm, {"color": look.COLOR["muted"]})["color"]
        ax.plot(own.value, [y] * len(own), "|", color=color, markersize=7, alpha=0.8)
        look.points(ax, [y], _script.pick(means, alarm=alarm, lead=alarms.LEAD), sideways=True, color=color)
    ax.axvline(0.5, **_style.REFERENCE)
    ax.set_yticks(range(len(order)), [NAMES[alarm] for alarm in order])
    least = {
        alarm: own.value.min() for alarm, own in _script.pick(rows, quantity="area", lead=alarms.LEAD).groupby("alarm")
    }
    sure = {alarm for alarm in NAMES if least[alarm] > 0.5}
    words = "Only alarms on ratios beat chance at every place (tick: a place; dot: all)"
    title = _script.finding(sure and sure <= RATIOS, words, "Each alarm at every place (tick), and over all (dot)")
    ax.set(xlim=(0.0, 1.05), xlabel=f"AUC {alarms.LEAD} updates before", title=title)


def draw(rows: Any) -> Figure:
    """Two panels over leads, one over places."""
    areas, announced = pooled(rows, "area"), pooled(rows, "announced")
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.6)
        grid = figure.add_gridspec(2, 2)
        left, right = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
        draw_leads(left, areas)
        left.axhline(0.5, **_style.REFERENCE)
        left.set(ylim=(0.0, 1.05), ylabel="AUC, falling or healthy")
        seen, told = one(areas, "token ESS").low > 0.75, one(announced, "token ESS").high < 0.5
        left.set_title(_script.finding(seen, "Token ESS sees falls coming …", "How well alarms rank runs …"))
        right.set_title(_script.finding(seen and told, "… yet announces few of them", "… and what they announce"))
        draw_leads(right, announced)
        look.shares(right)
        right.set(ylabel=f"falls announced,\nat {100 * alarms.FALSE:.0f} % false alarms")
        draw_places(figure.add_subplot(grid[1, :]), rows, areas)
        handles = [Line2D([], [], label=NAMES[alarm], **look.CONNECTED, **style) for alarm, style in SHOWN.items()]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Pooled areas and their range over places, announced falls, and how many runs fall."""
    areas, announced = pooled(rows, "area"), pooled(rows, "announced")
    at = rows[(rows.quantity == "area") & (rows.lead == alarms.LEAD)]
    found = {"lead": str(alarms.LEAD), "false": f"{100 * alarms.FALSE:.0f}"}
    found["places"] = str(len(at.groupby(["task", "estimator", "law", "rate"])))
    for alarm in ("token ESS", "ESS", "cosine"):
        key, own = alarm.replace(" ", "_").lower(), at[at.alarm == alarm].value
        row = one(areas, alarm)
        found[key] = f"{row.value:.2f} ± {(row.high - row.low) / 2:.2f}"
        found[f"{key}_announced"] = f"{100 * one(announced, alarm).value:.0f} %"
        found[f"{key}_range"] = f"{own.min():.2f} to {own.max():.2f}"
    shares = _script.pick(rows, quantity="share", alarm="fell").value
    return found | {"fell": f"{100 * shares.min():.0f} to {100 * shares.max():.0f} %"}
