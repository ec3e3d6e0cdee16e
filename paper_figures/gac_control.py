"""Alignment control against no control at every learning rate, with and without staleness, on three tasks."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim import claims
from asyncsim.base import uncertainty
from asyncsim.plotting import _style
from experiments import _gac_control as arms
from paper_figures import _methods, _script
from paper_figures._gac_points import points
from paper_figures._vcpo import say

TITLES = {"fixed": "exact rewards", "random": "noisy rewards", "stiff": "stiff quadratic"}
DRAWN = "stiff"
"""The task that is drawn; those of `TITLES` are compared."""
EXPERIMENTS = {"gac_control": {"quantity": "regret", "staleness": (0, 32), "task": DRAWN, "names": TITLES}}
LOOK: dict[str, dict[str, Any]] = {
    "synchronous": _methods.look("synchronous", marker="*"),
    "none": _methods.look("no control"),
    "project": _methods.look("projection"),
    "skip": {"color": _style.COLORS["random"], "marker": "D", "mfc": "white"},
}
WORDS = {
    "none": (2**-3.6, 5e3, "no control"),
    "project": (2**-3.1, 1.0, "projection"),
    "skip": (2**-3.6, 60.0, "skipping"),
    "synchronous": (2**-0.9, 0.2, "synchronous, no control"),
}
"""Where the lines' names stand."""
LIMIT = "predicted stability\nlimit without control"
NEAR = 1.1
"""Times the synchronous regret: up to here a rule counts as matching it."""


def parted(rows: Any) -> tuple[Any, Any]:
    """Rows of the usual length, and of longer runs."""
    short = rows.updates == rows.updates.min()
    return rows[short], rows[~short]


def best(rows: Any, task: str, staleness: int, rule: str) -> float:
    """The learning rate that the choosing replicates prefer."""
    own = _script.pick(rows, quantity="tuning", task=task, staleness=staleness, rule=rule)
    return float(own.step[own.value.idxmin()])


def row(rows: Any, task: str, staleness: int, rule: str, step: float, quantity: str = "regret") -> Any:
    """The one row of a rule at a learning rate."""
    return _script.pick(rows, quantity=quantity, task=task, staleness=staleness, rule=rule, step=step).iloc[0]


def boundary(task: str, staleness: int) -> float:
    """Predicted largest stable learning rate without control."""
    name, places, factor = arms.points(task, staleness)
    return factor * min(claims.claim(name).predict(point)["step"] for point in places)


def ages_of(rows: Any, task: str) -> list[int]:
    """Levels of staleness of a task in order."""
    return sorted(int(age) for age in set(rows[rows.task == task].staleness))


def draw_steps(ax: Axes, rows: Any, task: str, staleness: int) -> None:
    """Final regret against the learning rate at one staleness and without any, with the predicted limit."""
    ax.set_xscale("log", base=2)
    ax.set(yscale="log", ylim=(0.1, 2e4), xlabel="learning rate", ylabel="final loss (lower is better)")
    for arm, look in LOOK.items():
        rule, age = ("none", 0) if arm == "synchronous" else (arm, staleness)
        own = _script.pick(rows, quantity="regret", task=task, rule=rule, staleness=age).sort_values("step")
        lost = own.value.isna().to_numpy()
        own = own[~lost | (lost.cumsum() == 1)]
        points(ax, own.step, own, joined=True, **{"markersize": 2.0 if len(own) > 20 else 2.8, **look})
    ax.axvline(boundary(task, staleness), label=LIMIT, **_style.PREDICTED)


def widened(rows: Any, task: str, staleness: int) -> bool:
    """Whether projection ends lower than no control at some rate above the limit, and at no rate below synchronous."""
    place = {"quantity": "regret", "task": task}
    project, none = (_script.pick(rows, **place, rule=rule, staleness=staleness) for rule in ("project", "none"))
    fresh = _script.pick(rows, **place, rule="none", staleness=0)
    both = project.merge(none, on="step", suffixes=("", "_none"))
    both = both[both.step > boundary(task, staleness)]
    lower = (both.high < both.low_none) | (both.value_none.isna() & both.value.notna())
    return bool(lower.any()) and project.loc[project.value.idxmin()].high >= fresh.loc[fresh.value.idxmin()].low


def draw(rows: Any) -> Figure:
    """Loss against the learning rate at one staleness, and without."""
    rows, _ = parted(rows)
    staleness = ages_of(rows, "fixed")[-1]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        ax = figure.subplots()
        draw_steps(ax, rows, DRAWN, staleness)
        for arm, (x, y, words) in WORDS.items():
            say(ax, x, y, words, LOOK[arm]["color"])
        say(ax, 0.9 * boundary(DRAWN, staleness), 3e3, LIMIT, ha="right")
        lost = _script.pick(rows, quantity="regret", task=DRAWN, staleness=staleness).groupby("rule").value
        lost = lost.apply(lambda values: values.isna().any())
        holds = lost["none"] and not lost["project"] and widened(rows, DRAWN, staleness)
        _script.headline(figure, holds, f"Alignment control at staleness {staleness} and synchronous training")
    return figure


def behind(rows: Any, task: str, staleness: int, rule: str) -> float:
    """How many times the synchronous regret a rule ends at, at the synchronous learning rate; NaN where it diverges."""
    step = best(rows, task, 0, "none")
    return float(row(rows, task, staleness, rule, step).value / row(rows, task, 0, "none", step).value)


def fold(one: Any, other: Any) -> str:
    """Ratio of two regrets with its 95 percent interval, from independent replicates, in logarithms."""
    ratio = one.value / other.value
    spread = math.hypot(one.error / one.value, other.error / other.value)
    reach = math.exp(uncertainty.critical(0.05, min(one.samples, other.samples) - 1) * spread)
    digits = 2 if ratio < 10 else 1
    return f"{ratio:.{digits}f} ({ratio / reach:.{digits}f} to {ratio * reach:.{digits}f})"


def matching(rows: Any, task: str, rule: str) -> str:
    """The staleness up to which a rule stays near the synchronous regret, at the synchronous learning rate."""
    ages = ages_of(rows, task)
    failed = [age for age in ages[1:] if not behind(rows, task, age, rule) <= NEAR]
    return f"{max(age for age in ages if age < min([*failed, math.inf]))}"


def numbers(rows: Any) -> dict[str, str]:
    """Ratios of regrets at the largest staleness, and where rules match synchronous training."""
    rows, longer = parted(rows)
    last = ages_of(rows, "fixed")[-1]
    found = {"last": f"{last}", "near": f"{100 * (NEAR - 1):.0f}"}
    for task in ("random", "stiff"):
        step = best(rows, task, 0, "none")
        found[f"{task}_behind"] = fold(row(rows, task, last, "project", step), row(rows, task, 0, "none", step))
        found |= {f"{task}_{rule}_matches": matching(rows, task, rule) for rule in ("none", "project")}
    for task in TITLES:
        own = [row(rows, task, last, rule, best(rows, task, last, rule)) for rule in ("none", "project")]
        found[f"{task}_gain"] = fold(*own)
    pair = [row(longer, "stiff", last, rule, best(longer, "stiff", last, rule)) for rule in ("none", "project")]
    return found | {"stiff_gain_long": fold(*pair)}
