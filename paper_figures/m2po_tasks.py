"""Final returns on data 256 updates old less those of fresh training, on six tasks, at own best rates."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

__all__ = ["EXPERIMENTS", "draw", "numbers"]

_PAID = (
    "chains, forks: reward 1 if enough bits are correct; forks: every fourth bit uncertain; "
    "graded: fraction of correct tokens"
)
_DRAWN = {"task": _PAID, "rate": "own best", "unit": "updates"}
EXPERIMENTS = {
    "m2po_steps": {**_DRAWN, "staleness": (0, 256), "replicates": 128},
    "paired": {**_DRAWN, "of": "m2po_steps"},
}
READINGS = ("best", "usual", "bold")
"""Rates of the experiment: own best, best synchronous, four times that."""
LEFT = -0.12
"""Left end of the axis; an arrow leads to what is beyond, with its value."""


def tasks(paired: Any) -> list[str]:
    """Tasks that were compared."""
    known = set(_script.pick(paired, of="m2po_steps").task)
    return [task for task in steps.TASKS if task in known]


def apart(paired: Any, task: str, reading: str, arm: str = "m2po", base: str = "fresh") -> Any:
    """The row of an arm less another, replicate by replicate."""
    return _script.pick(paired, of="m2po_steps", task=task, reading=reading, arm=arm, base=base)


def matched(paired: Any, reading: str, arm: str = "m2po") -> list[str]:
    """Tasks on which an arm ends less than `NEAR` below fresh training, interval included."""
    return [task for task in tasks(paired) if apart(paired, task, reading, arm).low.iloc[0] > -steps.NEAR]


def beside(row: Any) -> int:
    """1 where an arm returns more than another beyond `AS_GOOD` and the interval, -1 where less."""
    if abs(row.value) < steps.AS_GOOD:
        return 0
    return int(row.low > 0.0) - int(row.high < 0.0)


def checkpoints(rows: Any) -> dict[str, bool]:
    """Whether the best checkpoint without a trust region is within `NEAR` of fresh training's, both tuned, by task."""
    found = {}
    for task in steps.TASKS:
        if all(len(steps.runs(rows, task, arm, "peak")) for arm in ("none", "fresh")):
            own, fresh = (steps.best(rows, task, arm, "peak", "peak") for arm in ("none", "fresh"))
            found[task] = bool(own.value > fresh.value - steps.NEAR)
    return found


def draw(rows: Any, paired: Any) -> Figure:
    """A line a task, a mark for M2PO and one for the clip."""
    with _style.applied():
        figure, there = _style.picture(_style.WIDTH, 3.2), tasks(paired)
        updates = max(_script.settings(rows, "updates"))
        ax = figure.subplots()
        for side, arm in ((-0.14, "m2po"), (0.14, "clip")):
            for y, task in enumerate(there):
                own = apart(paired, task, "best", arm)
                look.points(ax, [y + side], own, sideways=True, **steps.LOOKS[arm])
                if len(own) and own.value.iloc[0] < LEFT:
                    color, words = steps.LOOKS[arm]["color"], look.value(own.iloc[0])
                    arrow = {"arrowstyle": "->", "color": color}
                    place = (LEFT + 0.012, y + side)
                    ax.annotate(words, (LEFT, y + side), place, arrowprops=arrow, color=color, fontsize=7, va="center")
        ax.set(
            xlim=(LEFT, 0.045),
            ylim=(len(there) - 0.5, -0.5),
            xlabel=f"return after {updates} updates, minus that on fresh data",
        )
        look.ticks(ax.yaxis, range(len(there)), [steps.TASKS[task] for task in there])
        some = all(0 < len(matched(paired, "best", arm)) < len(there) for arm in ("m2po", "clip"))
        _script.headline(figure, some, "Final return on stale data minus that on fresh data")
        looks = {name: steps.LOOKS[arm] for arm, name in (("m2po", "M2PO"), ("clip", "PPO's clip"))}
        look.legend(figure, [ax], looks, steps.NEAR)
        ax.axvspan(0.0, ax.get_xlim()[1], color=look.COLOR["effect"], linewidth=0)
        figure.legends[-1].get_texts()[-1].set_text(f"matches fresh data: interval above −{steps.NEAR:g}")
    return figure


def numbers(rows: Any, paired: Any) -> dict[str, str]:
    """Matches with fresh training, wins and losses beside the clip, by reading."""
    there = tasks(paired)
    found = {"tasks": str(len(there)), "near": f"{steps.NEAR:g}"}
    found["runs"] = str(int(_script.pick(paired, of="m2po_steps").samples.max()))
    for reading in READINGS:
        found[f"matched_{reading}"] = str(len(matched(paired, reading)))
        found[f"clip_matched_{reading}"] = str(len(matched(paired, reading, "clip")))
        signs = [beside(apart(paired, task, reading, "m2po", "clip").iloc[0]) for task in there]
        found |= {f"{key}_{reading}": str(signs.count(sign)) for key, sign in (("won", 1), ("lost", -1))}
    told = {"chain": "usual", "graded": "best"}
    for task in told.keys() & {*there}:
        row = apart(paired, task, told[task]).iloc[0]
        found[f"{task}_{told[task]}"] = f"{-row.value:.3f} ± {(row.high - row.low) / 2:.3f}"
    found |= {"free": str(sum(checkpoints(rows).values())), "updates": f"{max(_script.settings(rows, 'updates'))}"}
    return steps.complete(found, [f"{task}_{reading}" for task, reading in told.items()])


def held(rows: Any, paired: Any) -> dict[str, list[Setting]]:
    """Whether M2PO matches fresh training by its final return; whether stale data do without a trust region."""
    m2po = []
    for reading, where in (("usual", "best synchronous rate"), ("bold", "4× rate"), ("best", "tuned rates")):
        for task in tasks(paired):
            row = apart(paired, task, reading).iloc[0]
            m2po.append(Setting((where, steps.place(task)), decided(row.low > -steps.NEAR, row.high < -steps.NEAR)))
    return {"m2po": m2po, "free": [Setting((steps.place(task),), found) for task, found in checkpoints(rows).items()]}
