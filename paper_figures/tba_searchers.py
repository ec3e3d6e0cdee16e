"""Return of TBA against the number of searchers, on two tasks."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments.tba_returns import SEARCHERS
from paper_figures import _script
from paper_figures import _tba_steps as tba
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.tba_asynchrony import searched

EXPERIMENTS = {"tba_steps": {"part": "search", "rate": "best synchronous"}}
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "arms": ("many arms", {"color": look.COLOR["controlled"], "marker": "^"}),
    "rare": ("rarely rewarded", {"color": look.COLOR["tuned"], "marker": "D"}),
}


def draw(rows: Any) -> Figure:
    """Mean return against searchers, by task."""
    with _style.applied():
        figure, names, grows = _style.picture(_style.WIDTH, 2.6), {}, []
        ax = figure.subplots()
        for task, (name, style) in TASKS.items():
            own = searched(rows, task, "return", 1.0)
            look.points(ax, own.number, own, **look.CONNECTED, **style)
            names[name] = (float(own.value.iloc[-1]), style["color"])
            late = own[own.number == int(SEARCHERS[-1])].value
            grows.append(own.low.iloc[-1] > own.high.iloc[0] and (abs(own.value.iloc[-1] - late) < tba.SMALLEST).all())
        ax.set(xlabel="generators (TBA's searchers)", ylabel="mean return over training", ylim=(0.3, 1.0), xscale="log")
        look.ticks(ax.xaxis, sorted(own.number.unique()))
        look.ends(ax, names)
        _script.headline(figure, all(grows), "TBA's return by generators")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Returns by searchers stand beside those by staleness."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether more generators return more than one, by task, reading of the rate and number."""
    found = []
    for reading, times in (("one rate", 1.0), ("tuned rates", None)):
        for task, (name, _) in TASKS.items():
            first, *more = searched(rows, task, "return", times).itertuples()
            for row in more:
                apart, reach = row.value - first.value, tba.reach(row, first)
                found.append(Setting((reading, name, str(row.number)), decided(apart > reach, apart < -reach)))
    return {"more": found}
