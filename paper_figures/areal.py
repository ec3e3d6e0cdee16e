"""AReaL's objectives against its bound on staleness, each at its best learning rate."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from asyncsim.base import uncertainty
from asyncsim.plotting import _style
from experiments import areal
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"areal": {"part": "objective", "task": "graded"}}
TASKS = {"bandit": "bandit", "graded": "graded", "sparse": "sparse"}
ARMS = ("fresh", "naive")
"""Arms whose words are counted."""
SHOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "naive": ("naive PPO", _methods.look("naive PPO")),
    "decoupled": ("decoupled PPO", _methods.look("decoupled PPO")),
}
PANELS = {"end": "At the end", "mean": "Mean over training"}
FIRST = "graded"
"""Task that is drawn."""
PAPER = 2.77
"""Speed-up that the abstract states."""
TOLERATED = 8
"""Bound on staleness that the paper tolerates."""
ENOUGH = 0.95
"""Share of the speed at the largest bound that counts as having it."""


def pair(rows: Any, task: str, eta: int, arm: str, over: str) -> Any:
    """The row of an arm beside the decoupled objective; None where it was not compared."""
    own = _script.pick(rows, part="objective", task=task, eta=eta, arm=arm, over=over)
    own = own[own.word.notna()]
    return own.iloc[0] if len(own) else None


def bounds(rows: Any) -> list[int]:
    """Values of eta that objectives were compared at."""
    return sorted(int(eta) for eta in rows[rows.part == "objective"].eta.unique())


def speeds(rows: Any, sigma: float) -> dict[int, tuple[float, float]]:
    """Speed over synchronous training at each bound with its best share, and half of its interval."""
    own = _script.pick(rows, part="speed", sigma=sigma)
    base = own[own.eta < 0].sort_values("realization").value.to_numpy()
    found = {}
    for eta in areal.BOUNDS:
        times = own[own.eta == eta].pivot_table(index="realization", columns="share", values="value")
        found[eta] = _script.interval(base / times[times.mean().idxmin()].to_numpy())
    return found


def enough(rows: Any) -> int:
    """The least bound with most of the speed at the largest bound, whatever the spread of lengths."""
    every = [speeds(rows, sigma) for sigma in areal.SPREADS]
    return next(eta for eta in areal.BOUNDS if all(own[eta][0] > ENOUGH * own[areal.BOUNDS[-1]][0] for own in every))


def beside_fresh(rows: Any, task: str, eta: int, arm: str, over: str) -> tuple[float, float, float] | None:
    """Return of an arm less that of fresh data, with the ends of its interval."""
    fresh, own = pair(rows, task, eta, "fresh", over), pair(rows, task, eta, arm, over)
    if fresh is None or (own is None and arm != "decoupled"):
        return None
    if arm == "decoupled":
        return -fresh.difference, -fresh.high, -fresh.low
    # Both were compared with decoupled PPO, as if independently.
    reach = float(np.hypot(own.high - own.low, fresh.high - fresh.low)) / 2.0
    value = own.difference - fresh.difference
    return value, value - reach, value + reach


def points(rows: Any, task: str, arm: str, over: str) -> dict[int, tuple[float, float, float]]:
    """Difference from fresh data by bound."""
    found = {eta: beside_fresh(rows, task, eta, arm, over) for eta in bounds(rows)}
    return {eta: each for eta, each in found.items() if each is not None}


def near(rows: Any, task: str, arm: str) -> dict[int, tuple[float, float, float]]:
    """Final return less that on fresh data by bound; intervals from the spread of replicates, without looks."""
    found = {}
    for eta in bounds(rows):
        own = _script.pick(rows, part="objective", task=task, eta=eta, over="end").dropna(subset="end").set_index("arm")
        if {arm, "fresh"} <= set(own.index):
            errors, freedom = own.end_error[[arm, "fresh"]], own.replicates.min() - 1
            reach = uncertainty.critical(0.05, freedom) * float(np.hypot(*errors))
            value = float(own.end[arm] - own.end["fresh"])
            found[eta] = value, value - reach, value + reach
    return found


def draw_task(ax: Axes, rows: Any, task: str, over: str) -> None:
    """Return less that on fresh data against the bound."""
    names = {"fresh data": (0.0, look.COLOR["synchronous"])}
    ax.axhline(0.0, **{**_style.REFERENCE, "color": look.COLOR["synchronous"]})
    for shift, (arm, (name, style)) in zip((0.06, -0.06), SHOWN.items(), strict=True):
        found = points(rows, task, arm, over)
        found = near(rows, task, arm) if over == "end" else found
        if found:
            value, low, high = np.array(list(found.values())).T
            x, reach = np.array(list(found)) * 2.0**shift, [value - low, high - value]
            ax.errorbar(x, value, yerr=reach, **{**_style.MEASURED, **look.CONNECTED, **style})
            names[name] = (float(value[-1]), style["color"])
    ax.set_xscale("log", base=2)
    ax.set(xlabel="staleness limit (versions)", title=PANELS[over])
    look.ticks(ax.xaxis, bounds(rows))
    if over == "mean":
        look.ends(ax, names, gap=0.16)


def drawn(rows: Any) -> str:
    """The task that is drawn."""
    ran = [task for task in TASKS if (rows.task == task).any()]
    return FIRST if FIRST in ran else ran[0]


def behind(rows: Any) -> bool:
    """Whether both arms are behind fresh data at the largest bound while learning, and only naive PPO at the end."""
    last = {
        over: {arm: found[max(found)] for arm in SHOWN if (found := points(rows, drawn(rows), arm, over))}
        for over in PANELS
    }
    costs = len(last["mean"]) == len(SHOWN) and max(high for _, _, high in last["mean"].values()) < 0.0
    late = {arm for arm, (_, _, high) in last["end"].items() if high < 0.0}
    as_fresh = {arm for arm, (_, low, _) in last["end"].items() if low > -areal.SMALLEST}
    return costs and late >= {"naive"} and as_fresh == {"decoupled"}


def draw(rows: Any) -> Figure:
    """Return at the end, then over training, on one task, beside fresh data's."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        axes = figure.subplots(1, 2)
        for ax, over in zip(axes, PANELS, strict=True):
            draw_task(ax, rows, drawn(rows), over)
        axes[0].set_ylabel("return minus that on fresh data")
        axes[0].set_ylim(min(-0.15, axes[0].get_ylim()[0]), max(0.05, axes[0].get_ylim()[1]))
        axes[0].yaxis.set_major_locator(MultipleLocator(0.05))
        look.side(axes[0], "below 0: worse than fresh data", 0.72)
        _script.headline(figure, behind(rows), "Return on stale data minus that on fresh data")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Words of the comparisons, largest differences, and speeds."""
    etas = bounds(rows)
    found = {"smallest": f"{areal.SMALLEST:g}", "last": str(etas[-1])}
    for arm in ARMS:
        for over in ("mean", "end"):
            own = [row for task in TASKS for eta in etas if (row := pair(rows, task, eta, arm, over)) is not None]
            found[f"{arm}_{over}"] = said([row.word for row in own], max((row.difference for row in own), key=abs))
            found["places"] = str(len(own))
    for over in PANELS:
        own = [each for task in TASKS for each in points(rows, task, "naive", over).values()]
        found[f"naive_fresh_{over}"] = str(sum(high < 0.0 and low < -areal.SMALLEST for _, low, high in own))
    held = _script.pick(rows, part="objective", arm="fresh", over="end")
    held = held[held.eta <= TOLERATED]
    found |= {"held": str(int((held.word == "equal").sum())), "within": str(len(held))}
    for key, sigma in (("mild", 0.5), ("long", 1.0), ("longest", 1.5)):
        found |= {f"{key}_{eta}": f"{speeds(rows, sigma)[eta][0]:.2f}" for eta in (0, 4)}
    return found | {"paper": f"{PAPER}", "enough": str(enough(rows))}


def said(words: list[str], largest: float) -> str:
    """How often each word was said, and the largest difference."""
    counts = [f"{words.count(word)} {word}" for word in ("better", "equal", "worse", "undecided") if word in words]
    return f"{_script.listed(counts)} ({largest:+.2f})".replace("-", "−")


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether naive PPO is worse than fresh data, and decoupled PPO is not at the end, up to a bound of 8."""
    found: dict[str, list[Setting]] = {"naive": [], "decoupled": []}
    for over, stage in (("mean", "over training"), ("end", "at the end")):
        for task, arm in itertools.product(TASKS, found):
            for eta, (_, low, high) in points(rows, task, arm, over).items():
                worse = high < 0.0 and low < -areal.SMALLEST
                fine = low > 0.0 or max(-low, high) <= areal.SMALLEST
                known = decided(worse, fine) if arm == "naive" else decided(fine, worse)
                if arm == "naive":
                    found[arm].append(Setting((stage, f"{task} at bounds", str(eta)), known))
                elif over == "end" and eta <= TOLERATED:
                    found[arm].append(Setting((f"{task} at bounds", str(eta)), known))
    return found
