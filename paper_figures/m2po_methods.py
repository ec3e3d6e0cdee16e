"""Other trust regions on the harness of M2PO, at one bold rate for all: return over updates on old data."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import m2po_steps
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = steps.drawn(
    task="chain", staleness=256, rate="4 × best synchronous", names={"chain": "bits with a penalty"}
)
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
    """Weights that leave every token its gradient, then those that hold it back."""
    with _style.applied():
        figure, rate = _style.picture(_style.WIDTH, 2.9), steps.BOLD * steps.usual(rows)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, shown in zip(axes, (LEFT, RIGHT), strict=True):
            steps.traces(ax, rows, shown, "return", rate)
            steps.ended(ax, rows, rate)
            ends = {arm: float(steps.curve(rows, arm, "return", rate).value.iloc[-1]) for arm in shown}
            look.ends(ax, {steps.NAMES[arm]: (end, steps.LOOKS[arm]["color"]) for arm, end in ends.items()})
            ax.set_xlabel("updates")
        axes[0].set_ylabel("return (dotted: fresh data)")
        fell = {arm: steps.at(rows, steps.TASK, arm, "fell", rate).value for arm in (*LEFT, *RIGHT)}
        low, high = (steps.at(rows, steps.TASK, arm, "end", rate) for arm in ("gppo", "m2po"))
        drop, safe = min(fell["cispo"], fell["areal"]) >= 0.25, max(fell[arm] for arm in RIGHT) < 0.1
        words = "CISPO and AReaL's PPO collapse,\nGPPO ends lower than M2PO"
        axes[0].set_title(_script.finding(drop and low.high < high.low, words, "CISPO, AReaL, GPPO and M2PO"))
        words = "TOPR, GSPO and PPO's clip\ndo not collapse"
        axes[1].set_title(_script.finding(drop and safe, words, "TOPR, GSPO, clip and M2PO"))
        words = f"At {BOLD}, CISPO and AReaL's PPO collapse on old data; M2PO does not"
        title = _script.finding(drop and fell["m2po"] < 0.1, words, "Trust regions on old data, one rate for all")
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
