"""An answer: the arms' mean curves, and the interval of each difference against replicates, a row for each task."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.base.answers import SAME_TASK, Answer, OnTask
from asyncsim.plotting import _style

ARMS = ("measured", "contrast", "tuned", "held", "partial", "random")
"""Colors of the arms, in their order."""
HEIGHT = 2.4
"""Inches of a row."""
BESIDE = 1.12
"""Factor between the places of two pairs that were looked at after as many replicates."""


def draw_answer(answer: Answer) -> Figure:
    """Curves on the left, decisions on the right."""
    figure = _style.picture(2 * _style.COLUMN, 0.3 + HEIGHT * len(answer.tasks))
    axes = figure.subplots(len(answer.tasks), 2, squeeze=False)
    for (left, right), on in zip(axes, answer.tasks, strict=True):
        curves(left, on, answer.metric)
        decisions(right, on, answer)
    return figure


def color(number: int) -> str:
    """The color of an arm."""
    return _style.COLORS[ARMS[number % len(ARMS)]]


def curves(ax: Axes, on: OnTask, metric: str) -> Axes:
    """Mean of the metric against updates, each arm at its best step."""
    for number, arm in enumerate(on.arms):
        step = f" ({arm.tuned.knob.rpartition('.')[2]} {arm.tuned.chosen:.2g})" if arm.tuned.knob else ""
        ax.plot(on.updates, arm.curve, color=color(number), label=f"{short(arm.name)}{step}")
    if np.isfinite(on.optimum):
        ax.axhline(on.optimum, color=_style.COLORS["muted"], linestyle=":", linewidth=0.9)
    ax.set_xlabel("update")
    ax.set_ylabel(metric)
    ax.set_title(short(on.name, 48))
    ax.legend(loc="best")
    return ax


def decisions(ax: Axes, on: OnTask, answer: Answer) -> Axes:
    """Difference with its interval at every look; the band of differences that do not matter is shaded."""
    ax.axhspan(-on.smallest, on.smallest, color=_style.COLORS["effect"], zorder=0)
    ax.axhline(0.0, color=_style.COLORS["muted"], linestyle=":", linewidth=0.9)
    for number, pair in enumerate(on.pairs, start=1):
        beside = BESIDE ** (number - (len(on.pairs) + 1) / 2)
        x = [look.replicates * beside for look in pair.looks]
        value = [look.difference for look in pair.looks]
        # An interval of a quantile need not hold the sample's own.
        reach = [[max(look.difference - look.low, 0.0), max(look.high - look.difference, 0.0)] for look in pair.looks]
        label = f"{short(pair.arm)}: {pair.word}"
        ax.errorbar(x, value, yerr=np.array(reach).T, color=color(number), label=label, **_style.MEASURED)
    counts = [look.replicates for look in max(on.pairs, key=lambda pair: len(pair.looks)).looks]
    ax.set_xscale("log", base=2)
    ax.set_xlim(counts[0] / 1.6, counts[-1] * 1.6)
    ax.set_xticks(counts)
    ax.get_xaxis().set_major_formatter(lambda value, _: f"{value:.0f}")
    ax.minorticks_off()
    ax.set_xlabel("replicates")
    ax.set_ylabel(f"difference in {answer.unit}" + ("\n(lower is better)" if answer.better == "lower" else ""))
    ax.set_title(SAME_TASK if on.blind else f"against {short(on.pairs[0].base)}; shaded: too small to matter")
    # On a ground of its own: the line at 0 may run behind it.
    ax.legend(loc="best", frameon=True, framealpha=0.9, edgecolor="none")
    return ax


def short(text: str, most: int = 26) -> str:
    """The text, cut where it is longer."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
