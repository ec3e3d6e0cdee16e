"""Other trust regions on the harness of M2PO, at one 4× rate for all: return over updates on old data."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import m2po_steps
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = steps.drawn(task="chain", staleness=(0, 256), rate="4 × best synchronous")
SHOWN = {arm: steps.NAMES[arm] for arm in ("fresh", "m2po", "areal", "cispo")}
"""Trust regions that are followed; of the others, numbers are told."""
RIVALS = ("none", "cispo", "areal", "gppo", "topr", "gspo")
PENALIZED = tuple(name for name in steps.TASKS if m2po_steps.TASKS[name].kl_coef > 0)
"""Tasks on which no policy is ever done learning."""


def there(rows: Any) -> list[str]:
    """Tasks with a penalty that were run."""
    return [task for task in PENALIZED if all(len(steps.runs(rows, task, arm, "fell")) for arm in steps.NAMES)]


def fallen(rows: Any, arm: str) -> float:
    """Share of runs that collapse at the 4× rate, over the tasks with a penalty."""
    shares = [steps.at(rows, task, arm, "fell", steps.BOLD * steps.usual(rows, task)).value for task in there(rows)]
    return float(sum(shares) / len(shares))


def draw(rows: Any) -> Figure:
    """Returns over updates, and whether M2PO alone nears fresh data."""
    with _style.applied():
        figure, rate = _style.picture(_style.WIDTH, 2.9), steps.BOLD * steps.usual(rows)
        ax = figure.subplots()
        steps.traces(ax, rows, SHOWN, "return", rate)
        ends = {arm: float(steps.curve(rows, arm, "return", rate).value.iloc[-1]) for arm in SHOWN}
        fresh = steps.at(rows, steps.TASK, "fresh", "end", rate).value
        last = steps.curve(rows, "m2po", "return", rate)["at"].max()
        ax.set(xlabel="update", ylabel="return of the trained policy", xlim=(0, last))
        look.ends(ax, {name: (ends[arm], steps.LOOKS[arm]["color"]) for arm, name in SHOWN.items()}, gap=0.08)
        fell, end = ({arm: steps.at(rows, steps.TASK, arm, key, rate) for arm in SHOWN} for key in ("fell", "end"))
        drop = all(fell[arm].value >= 0.25 and end[arm].high < end["m2po"].low for arm in ("cispo", "areal"))
        near = fell["m2po"].value < 0.1 and end["m2po"].value > fresh - 0.03
        _script.headline(figure, drop and near, "Trust regions on stale data, one rate for all")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Falls over the tasks with a penalty, ends on all tasks at each arm's best rate."""
    tasks = [task for task in steps.TASKS if all(len(steps.runs(rows, task, arm, "end")) for arm in steps.NAMES)]
    found = {"tasks": str(len(tasks)), "penalized": str(len(there(rows)))}
    for arm in ("m2po", "clip", *RIVALS):
        found[f"{arm}_fell"] = f"{100 * fallen(rows, arm):.0f} %"
        bold = [steps.at(rows, task, arm, "end", steps.BOLD * steps.usual(rows, task)).value for task in tasks]
        best = [steps.best(rows, task, arm, "end").value for task in tasks]
        found |= {f"{arm}_{key}": f"{sum(own) / len(own):.2f}" for key, own in (("bold", bold), ("best", best))}
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether most runs without a trust region collapse, by task and rate."""
    found = []
    for factor, where in ((1.0, "best synchronous rate"), (steps.BOLD, "4× rate")):
        for task in steps.TASKS:
            if len(steps.runs(rows, task, "none", "fell")):
                row = steps.at(rows, task, "none", "fell", factor * steps.usual(rows, task))
                inside = factor == steps.BOLD and task in PENALIZED
                found.append(Setting((where, steps.place(task)), decided(row.low > 0.5, row.high < 0.5), inside))
    return {"none": found}
