"""Regret of a bandit under Adam: what staleness costs at tuned learning rates, and what projection changes."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures._gac_points import points
from paper_figures._gac_projection import BEHIND, at, best, delays, gain, less, only, signed, table, written

EXPERIMENTS = {"gac_projection": {"quantity": "regret", "task": "bandit"}}
LOOK: dict[str, dict[str, Any]] = {
    "synchronous": {"color": _style.COLORS["synchronous"], "marker": "*"},
    "none": {"color": _style.COLORS["stale"], "marker": "o"},
    "before": {"color": _style.COLORS["controlled"], "marker": "s"},
    BEHIND: {"color": _style.COLORS["partial"], "marker": "D"},
}
NAMES = {"none": "no projection", "before": "GAC's projection before Adam", BEHIND: "GAC's projection after Adam"}
ASIDE = {"none": -0.1, "before": 0.1, BEHIND: 0.0}
"""Marks that would cover each other stand side by side."""


def draw_regret(ax: Axes, rows: Any) -> None:
    """Final regret against the learning rate at the largest staleness, beside synchronous."""
    own = only(rows, "regret")
    ax.set_xscale("log", base=2)
    ax.set(yscale="log", ylim=(2.5e-3, 4e4), xlabel="Adam's learning rate", ylabel="final regret divided by initial")
    shown = {"synchronous": own[(own.arm == "none") & (own.staleness == 0)]}
    shown |= {arm: own[(own.arm == arm) & (own.staleness == delays(rows)[-1])] for arm in NAMES}
    for arm, mine in shown.items():
        points(ax, mine.step, mine, joined=True, **LOOK[arm])
    late = delays(rows)[-1]
    top = own.step[own.staleness == late].max()
    bold = at(rows, "before", late, top).high < at(rows, "none", late, top).low
    tuned = [at(rows, arm, late, best(rows, arm, late)) for arm in ("before", "none")]
    words = f"At staleness {late}, projection helps only\nat learning rates that are too large"
    helps_only = bold and tuned[0].value >= tuned[1].low
    ax.set_title(_script.finding(helps_only, words, f"Final regret at staleness {late},\nsynchronous at 0"))


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
    ax.set_xlabel("staleness (versions)")
    end = tuned[tuned.staleness == ages[-1]].set_index("arm")
    free = end.low["none"] <= float(fresh.high) and (end.value >= end.low["none"]).all()
    ax.set_title("Each at its own tuned learning rate")
    return bool(free)


def draw(rows: Any) -> Figure:
    """Two panels: over learning rates at one staleness, and over staleness at the best ones."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.1)
        first, second = figure.subplots(1, 2)
        draw_regret(first, rows)
        free = draw_tuned(second, rows)
        words = "At tuned learning rates, staleness costs this bandit nothing, and GAC's projection cannot help"
        title = _script.finding(free, words, "GAC's projection before and after Adam")
        named = {"synchronous": "synchronous (band in b)", **NAMES}
        handles = [
            Line2D([], [], label=name, linewidth=0.9, markersize=3.2, **LOOK[arm]) for arm, name in named.items()
        ]
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=handles, ncols=len(handles), title=title, **more)
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
        "harm_before": signed(*less(tuned("before", largest), tuned("none", largest))),
        "harm_after": signed(*less(tuned(BEHIND, largest), tuned("none", largest))),
        **gain(rows, ("before", "before, default", BEHIND, BEHIND + " without momentum")),
    }
