"""Return over updates of M2PO and other trust regions on old data, at two learning rates."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = steps.drawn(task="chain", staleness=(0, 256), rate="best synchronous and 4 × it")
RETURNS = ("none", "clip", "m2po", "fresh")
OTHERS = ("clip", "m2po", "fresh")


def shape(rows: Any, rate: float) -> dict[str, float]:
    """The highest point of training without a region, what is left at the end, and what the clip has at that time."""
    free, clip = (steps.curve(rows, arm, "return", rate) for arm in ("none", "clip"))
    top = int(free.value.idxmax())
    return {"top": free.value[top], "left": free.value.iloc[-1], "clip": clip.value[top]}


def lags(rows: Any, arm: str, rate: float) -> float:
    """How far an arm ends below fresh training at a rate."""
    own, fresh = (steps.at(rows, steps.TASK, each, "end", rate).value for each in (arm, "fresh"))
    return float(fresh - own)


def draw(rows: Any) -> Figure:
    """Training at the best synchronous rate and at the bold one."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        rate = steps.usual(rows)
        axes = figure.subplots(1, 2, sharey=True)
        titles = ("best synchronous learning rate", f"{steps.BOLD:g} times that learning rate")
        for ax, own, title in zip(axes, (rate, steps.BOLD * rate), titles, strict=True):
            steps.traces(ax, rows, RETURNS, "return", own)
            ends = {arm: float(steps.curve(rows, arm, "return", own).value.iloc[-1]) for arm in RETURNS}
            last = steps.curve(rows, "clip", "return", own)["at"].max()
            ax.set(xlabel="update", xlim=(0, last), title=title)
            names = {arm: steps.NAMES[arm].replace(" (", "\n(") for arm in RETURNS}
            names |= {"none": "no clip"} if ax is axes[1] else {}
            look.ends(ax, {names[arm]: (ends[arm], steps.LOOKS[arm]["color"]) for arm in RETURNS}, gap=0.11)
        axes[0].set_ylabel("return of the trained policy")
        found = [shape(rows, each) for each in (rate, steps.BOLD * rate)]
        rises = all(own["top"] > own["clip"] + 0.3 and own["left"] < own["top"] - 0.15 for own in found)
        near = all(lags(rows, "m2po", each) < 0.05 for each in (rate, steps.BOLD * rate))
        _script.headline(figure, rises and near, "Return over updates on stale data")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Readings at the best synchronous rate and the bold one."""
    usual, bold = steps.usual(rows), steps.BOLD * steps.usual(rows)
    found = {"staleness": f"{steps.oldest(rows)}", "usual": f"{usual:g}", "bold": f"{bold:g}"}
    found["runs"] = f"{int(rows[rows.task == steps.TASK].samples.max())}"
    for key, rate in (("usual", usual), ("bold", bold)):
        for arm in RETURNS:
            found[f"{arm}_{key}"] = look.value(steps.at(rows, steps.TASK, arm, "end", rate))
        found[f"fell_{key}"] = steps.falls(steps.at(rows, steps.TASK, "none", "fell", rate))
    found["top"] = f"{shape(rows, bold)['top']:.2f}"
    for arm in OTHERS:
        found[f"masked_{arm}"] = steps.percent(steps.at(rows, steps.TASK, arm, "masked", usual).value)
    for arm, quantity, key in (("none", "second", "free"), ("m2po", "kept", "after")):
        found[f"second_{key}"] = f"{steps.curve(rows, arm, quantity, usual).value.max():.2g}"
    return found
