"""Other trust regions on the harness of M2PO, at one rate for all: return over updates on old data."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import m2po_steps
from paper_figures import _m2po_steps as steps
from paper_figures import _script

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = steps.drawn(task="chain", staleness=256, rate="best synchronous and 4 × it")
LEFT, RIGHT = ("cispo", "areal", "gppo", "m2po"), ("topr", "gspo", "clip", "m2po")
BOLD = f"{steps.BOLD:g}× the best synchronous rate"
RIVALS = ("none", *LEFT[:-1], *RIGHT[:2])
PENALIZED = tuple(name for name in steps.TASKS if m2po_steps.TASKS[name].kl_coef > 0)
"""Tasks on which no policy is ever done learning."""


def there(rows: Any) -> list[str]:
    """Tasks with a penalty that were run."""
    return [task for task in PENALIZED if all(len(steps.runs(rows, task, arm, "fell")) for arm in steps.NAMES)]


def fallen(rows: Any, arm: str) -> float:
    """Share of runs that fall at the bold rate, over the tasks with a penalty."""
    shares = [steps.at(rows, task, arm, "fell", steps.BOLD * steps.usual(rows, task)).value for task in there(rows)]
    return float(sum(shares) / len(shares))


def draw(rows: Any) -> Figure:
    """Weights that leave every token its gradient, then those that hold it back; both rates."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.4)
        axes = figure.subplots(2, 2, sharey="row", sharex=True)
        for row, times in zip(axes, (1.0, steps.BOLD), strict=True):
            for ax, shown in zip(row, (LEFT, RIGHT), strict=True):
                steps.traces(ax, rows, shown, "return", times * steps.usual(rows))
                steps.ended(ax, rows, times * steps.usual(rows))
            row[0].set_ylabel("return of the trained policy")
        for row, rate in zip(axes, ("best synchronous rate", BOLD), strict=True):
            for ax in row:
                ax.set_title(rate)
        for ax, shown in zip(axes[0], (LEFT, RIGHT), strict=True):
            for place, arm in enumerate(shown):
                steps.label(ax, 0.2, 0.9 - 0.09 * place, arm)
        for ax in axes[1]:
            ax.set_xlabel("updates")
        drop = min(fallen(rows, arm) for arm in ("cispo", "areal"))
        words = f"At {BOLD}, with a penalty, CISPO and AReaL's PPO collapse; M2PO does not"
        title = _script.finding(
            drop > 0.25 and fallen(rows, "m2po") < 0.1, words, "Trust regions on old data, one rate for all"
        )
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Falls over the tasks with a penalty, ends on all tasks at one rate and at each arm's best."""
    tasks = [task for task in steps.TASKS if all(len(steps.runs(rows, task, arm, "end")) for arm in steps.NAMES)]
    found = {"tasks": str(len(tasks)), "penalized": str(len(there(rows)))}
    for arm in ("m2po", "clip", *RIVALS):
        found[f"{arm}_fell"] = f"{100 * fallen(rows, arm):.0f} %"
        one = [steps.at(rows, task, arm, "end", steps.usual(rows, task)).value for task in tasks]
        own = [steps.best(rows, task, arm, "end").value for task in tasks]
        for key, values in (("usual", one), ("best", own)):
            found[f"{arm}_{key}"] = f"{sum(values) / len(values):.2f}"
    return found
