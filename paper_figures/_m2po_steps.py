"""What the figures on M2PO over updates share: looks of arms, curves with bands, rates, readings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from matplotlib.axes import Axes

from asyncsim.plotting import _style
from paper_figures import _m2po as arms
from paper_figures import _vcpo as look
from paper_figures._script import pick

TASK = "chain"
"""The task whose curves are drawn."""
TASKS = {
    "chain": "chain with penalty",
    "long": "long chain with penalty",
    "anchored": "forks with penalty",
    "forks": "forks",
    "graded": "graded",
    "bandit": "bandit",
}
NAMES = {arm: name for arm, name in arms.NAMES.items() if arm != "release"}
LOOKS = arms.ARMS
AS_GOOD = 0.005
"""Difference of returns that decides nothing."""
BOLD = 4.0
"""The 4× rate, in best synchronous ones."""
SLOW = 0.003125
"""The rate of the forks: at bolder ones they are solved at once."""
NEAR = 0.03
"""Return below fresh training's that still matches it, as in `m2po`."""


def drawn(**columns: Any) -> dict[str, dict[str, Any]]:
    """Which rows a figure draws; four updates make one version, and the paper counts updates."""
    return {"m2po_steps": {**columns, "unit": "updates (4 per version)"}}


def oldest(rows: Any) -> int:
    """The staleness of the arms."""
    return int(rows.staleness.max())


def runs(rows: Any, task: str, arm: str, quantity: str) -> Any:
    """A quantity of whole runs of an arm at every rate, at its own staleness and the published bound."""
    own = pick(rows, over="run", task=task, arm=arm, quantity=quantity)
    own = own[own.staleness == (0 if arm == "fresh" else oldest(rows))]
    if arm == "m2po":
        own = own[(own.tau - 0.04).abs() < 1e-9].drop_duplicates("rate")
    # No return or share exceeds 1, nor does an interval.
    return own.assign(high=own.high.clip(upper=1.0)).sort_values("rate").reset_index(drop=True)


def usual(rows: Any, task: str = TASK) -> float:
    """The best synchronous rate: the least at which the clip on fresh data returns as much as at any, on the mean."""
    own = runs(rows, task, "fresh", "return")
    return float(own[own.value >= own.value.max() - AS_GOOD].rate.min())


def at(rows: Any, task: str, arm: str, quantity: str, rate: float) -> Any:
    """The row of an arm at the rate that is nearest."""
    own = runs(rows, task, arm, quantity)
    return own.loc[(own.rate / rate - 1.0).abs().idxmin()]


def best(rows: Any, task: str, arm: str, quantity: str, by: str = "end") -> Any:
    """The row of an arm at the rate where it returns most at the end."""
    chosen = runs(rows, task, arm, by)
    return at(rows, task, arm, quantity, float(chosen.rate[chosen.value.idxmax()]))


def curve(rows: Any, arm: str, quantity: str, rate: float, task: str = TASK, staleness: int | None = None) -> Any:
    """A quantity over updates, at the rate that is nearest; missing ones left out."""
    own = pick(rows, over="updates", task=task, arm=arm, quantity=quantity)
    age = (0 if arm == "fresh" else oldest(rows)) if staleness is None else staleness
    own = own[own.staleness == age].dropna(subset="value")
    own = own[(own.rate / rate - 1.0).abs() == (own.rate / rate - 1.0).abs().min()]
    return own.sort_values("at").drop_duplicates("at").reset_index(drop=True)


def rates(rows: Any) -> list[float]:
    """Rates of the curves of M2PO on the drawn task."""
    return sorted(pick(rows, over="updates", task=TASK, arm="m2po", quantity="kl").rate.unique())


def pairs(rows: Any, quantity: str) -> Iterator[tuple[tuple[str, str], Any, Any]]:
    """Places, rows of the clip and of M2PO, by named rate and update."""
    for reading, times in (("best synchronous rate, update", 1.0), ("4× rate, update", BOLD)):
        both = (curve(rows, arm, quantity, times * usual(rows)).itertuples() for arm in ("clip", "m2po"))
        for clip, mask in zip(*both, strict=True):
            yield (reading, f"{clip.at:g}"), clip, mask


def trace(ax: Axes, own: Any, **style: Any) -> None:
    """A curve over updates with its band, and a few marks."""
    ax.fill_between(own["at"], own.low, own.high, color=style["color"], alpha=0.22, linewidth=0, label="95 % intervals")
    ax.plot(own["at"], own.value, **{"markersize": 3.2, "markevery": max(1, len(own) // 7), "linewidth": 1.0, **style})


def traces(ax: Axes, rows: Any, shown: Iterable[str], quantity: str, rate: float) -> None:
    """A quantity of several arms over updates."""
    for arm in shown:
        trace(ax, curve(rows, arm, quantity, rate), **LOOKS[arm])


def label(ax: Axes, x: float, y: float, arm: str, text: str = "") -> None:
    """The name of an arm at a place of the panel."""
    own: dict[str, Any] = {"transform": ax.transAxes, "ha": "right"}
    look.say(ax, x, y, text or NAMES[arm], LOOKS[arm]["color"], **own)


def ended(ax: Axes, rows: Any, rate: float) -> None:
    """Axes of returns over updates, with the level of fresh training at the end."""
    ax.axhline(at(rows, TASK, "fresh", "end", rate).value, **_style.REFERENCE)
    ax.set(xlim=(0, None))


def rate_of(rows: Any, task: str) -> float:
    """The best synchronous rate; of the forks the slow one."""
    return SLOW if task == "forks" else usual(rows, task)


def place(task: str) -> str:
    """A task as one part of a setting."""
    return TASKS[task]


def complete(found: dict[str, str], keys: Iterable[str]) -> dict[str, str]:
    """Numbers, with "none" for those that rows of a trial do not give."""
    return dict.fromkeys(keys, "none") | found


def percent(value: float) -> str:
    """A share in percent, two digits below one."""
    return f"{100 * value:.2f} %" if value < 0.01 else f"{100 * value:.1f} %"


def falls(row: Any) -> str:
    """A share of runs in percent."""
    return f"{100 * row.value:.0f} %"
