"""Regret of a bandit under Adam: what staleness costs at tuned learning rates, and what projection changes."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from asyncsim.plotting import _style
from paper_figures import _methods, _script
from paper_figures._gac_points import points
from paper_figures._gac_projection import BEHIND, at, best, delays, gain, less, signed, table, written
from paper_figures._vcpo import ends

EXPERIMENTS = {"gac_projection": {"quantity": "regret", "task": "bandit", "tuned": True}}
LOOK: dict[str, dict[str, Any]] = {
    "synchronous": _methods.look("synchronous"),
    "none": _methods.look("no projection"),
    "before": _methods.look("projection"),
    BEHIND: _methods.look("projection", marker="D", markerfacecolor="white"),
}
NAMES = {"none": "no projection", "before": "projection\nbefore Adam", BEHIND: "projection\nafter Adam"}
ASIDE = {"none": -0.1, "before": 0.1, BEHIND: 0.0}
"""Marks that would cover each other stand side by side."""


def draw_tuned(ax: Axes, rows: Any) -> bool:
    """Regret against staleness at the best learning rate of each arm; whether staleness costs nothing there."""
    tuned = table(rows, tuple(NAMES))
    ages = sorted({int(age) for age in tuned.staleness})
    fresh = tuned[(tuned.arm == "none") & (tuned.staleness == 0)].iloc[0]
    green = _style.COLORS["synchronous"]
    ax.axhspan(float(fresh.low), float(fresh.high), color=green, alpha=0.18, linewidth=0.0)
    for arm, aside in ASIDE.items():
        mine = tuned[tuned.arm == arm]
        points(ax, [ages.index(age) + aside for age in mine.staleness], mine, joined=True, **LOOK[arm])
    ax.set(ylim=(0.0, 1.2 * float(tuned.high.max())), xticks=range(len(ages)), xticklabels=ages)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="staleness (versions)", ylabel="final regret divided by initial")
    end = tuned[tuned.staleness == ages[-1]].set_index("arm")
    free = end.low["none"] <= float(fresh.high) and end.low[BEHIND] > end.high["none"]
    names = {name: (float(end.value[arm]), LOOK[arm]["color"]) for arm, name in NAMES.items()}
    ends(ax, names, 0.12)
    ax.text(0.4, 0.35 * float(fresh.low), "band: synchronous", color=green, fontsize=7.5, va="center")
    return bool(free)


def draw(rows: Any) -> Figure:
    """Regret against staleness at the best learning rates."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.7)
        free = draw_tuned(figure.subplots(), rows)
        _script.headline(figure, free, "Final regret with tuned Adam, by staleness")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What staleness costs at tuned learning rates, which is all that a control can win back, and what control does."""
    largest = delays(rows)[-1]

    def tuned(arm: str, tau: int) -> Any:
        return at(rows, arm, tau, best(rows, arm, tau))

    costs = {tau: less(tuned("none", tau), tuned("none", 0)) for tau in delays(rows)}
    most = max(costs, key=lambda tau: costs[tau])
    return {
        "largest": f"{largest}",
        "synchronous": written(tuned("none", 0), 4),
        "cost": signed(*costs[largest]),
        "cost_most": signed(*costs[most]),
        "cost_lag": f"{most}",
        "times": f"{tuned(BEHIND, largest).value / tuned('none', largest).value:.1f}",
        "harm_before": signed(*less(tuned("before", largest), tuned("none", largest))),
        "harm_after": signed(*less(tuned(BEHIND, largest), tuned("none", largest))),
        **gain(rows, ("before", "before, default", BEHIND, BEHIND + " without momentum")),
    }
