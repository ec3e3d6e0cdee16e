"""Largest stable rate of GRPO against staleness: on proxies that it over-optimizes, and on honest tasks."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.step_limits import COLOR, LONG, RISE, SHORT, axis, grown, limits, plot

EXPERIMENTS = {"step_limits": {"arm": "grpo"}}


def draw_panel(ax: Axes, rows: Any, arms: tuple[tuple[str, int], ...], title: str) -> None:
    """Limits of tasks over so many updates."""
    names = {}
    for task, horizon in arms:
        own = limits(rows, task, "grpo", horizon)
        plot(ax, own, COLOR[task], horizon)
        last = own.value.dropna()
        if len(last):
            names[f"{task}, {horizon} updates"] = (float(last.iloc[-1]), COLOR[task])
    axis(ax, title, xlim=(0.42, 160.0), ylim=(0.004, 3.0))
    look.ends(ax, names)


def draw(rows: Any) -> Figure:
    """Proxies on the left, true rewards on the right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2)
        draw_panel(
            left, rows, (("tokens", SHORT), ("tokens", LONG), ("bandit", LONG)), "flawed rewards (harmful shortcut)"
        )
        honest = [limits(rows, task, "grpo", LONG) for task in ("graded", "sparse")]
        known = [int(each) for own in honest for each in own[own.value.notna()].staleness]
        words = f"true rewards: no limit found below $S$ = {min(known)}" if known else "true rewards: no limit found"
        draw_panel(right, rows, (("graded", LONG), ("sparse", LONG)), words)
        up = all(grown(rows, task, "grpo") > RISE for task in ("tokens", "bandit"))
        down = all(grown(rows, task, "grpo") < 1 / RISE for task in ("graded", "sparse"))
        words = "GRPO's maximum stable rate rises with staleness on flawed rewards, and falls on true rewards"
        title = _script.finding(up and down, words, "GRPO's maximum stable rate against staleness")
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Limits stand beside those of REINFORCE."""
    return {}
