"""Largest stable rate of GRPO against staleness: on proxies that it over-optimizes, and on honest tasks."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.step_limits import COLOR, LONG, RISE, axis, grown, limits, plot

MEANS = {"tokens": "8 tokens, one kind harmful in the second half", "bandit": "one arm harmful"}
EXPERIMENTS = {"step_limits": {"arm": "grpo", "horizon": LONG, "means": MEANS}}


def draw_panel(ax: Axes, rows: Any, tasks: tuple[str, ...], title: str, ends: tuple[float, float]) -> None:
    """Limits of tasks."""
    names = {}
    for task in tasks:
        own = limits(rows, task, "grpo", LONG)
        plot(ax, own, COLOR[task], LONG)
        last = own.value.dropna()
        if len(last):
            names[task] = (float(last.iloc[-1]), COLOR[task])
    axis(ax, title, xlim=ends, ylim=(0.004, 3.0))
    look.ends(ax, names)


def draw(rows: Any) -> Figure:
    """Proxies on the left, true rewards on the right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2, width_ratios=(1.0, 0.6))
        draw_panel(
            left,
            rows,
            ("tokens", "bandit"),
            "Tokens and bandit: flawed rewards, a shortcut ruins the true return",
            (0.42, 160.0),
        )
        honest = [limits(rows, task, "grpo", LONG) for task in ("graded", "sparse")]
        known = [int(each) for own in honest for each in own[own.value.notna()].staleness]
        words = f"no limit for $S<{min(known)}$" if known else "no limit found"
        draw_panel(right, rows, ("graded", "sparse"), "Graded and sparse: true rewards", (6.0, 90.0))
        look.say(right, 6.5, 0.006, words)
        left.set_ylabel(f"maximum stable learning rate\n(above it, half of the runs\ncollapse within {LONG} updates)")
        look.say(right, 9.2, 2.2, "open: no upper limit found", COLOR["graded"])
        up = all(grown(rows, task, "grpo") > RISE for task in ("tokens", "bandit"))
        down = all(grown(rows, task, "grpo") < 1 / RISE for task in ("graded", "sparse"))
        _script.headline(figure, up and down, "GRPO's maximum stable rate against staleness")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Limits stand beside those of REINFORCE."""
    return {}
