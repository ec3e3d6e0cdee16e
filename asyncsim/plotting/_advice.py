"""Advice on a staleness limit, drawn for whoever decides: what each limit costs in seconds, and how stale data are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.base.notation import plural
from asyncsim.plotting import _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from asyncsim.base.advice import Advice, Setting

COLORS = ("measured", "contrast", "tuned", "partial")
MOST = len(COLORS)
RING = {"markersize": 11, "fillstyle": "none", "color": _style.INK}


def draw_advice(advice: Advice) -> Figure:
    """Seconds per update (left) and staleness of trained tokens (right) against the limit; the knee is marked."""
    figure = _style.picture(_style.WIDTH, 3.0)
    left, right = figure.subplots(1, 2)
    limits = sorted({each.limit for each in advice.settings})
    least = min((each for each in limits if each > 0.0), default=1.0)  # below it the axis is linear
    curves = list(dict.fromkeys((each.machines, each.partial) for each in advice.settings))[:MOST]
    for name, (machines, partial) in zip(COLORS, curves, strict=False):
        rows = advice.curve(machines, partial)
        words = [f"{plural(machines, 'machine')} ({plural(rows[0].slots, 'slot')})"]
        words += [f"partial rollouts {'on' if partial else 'off'}"] * (len({p for _, p in curves}) > 1)
        _line(left, rows, "seconds", _style.COLORS[name], ", ".join(words))
    for name, label, mark in (("staleness", "mean", "o"), ("p99", "99th percentile", "^")):
        _line(right, advice.curve(), name, _style.COLORS["measured"], label, marker=mark)
    knee, knees = advice.knee, advice.knees()[:MOST]
    left.plot([k.limit for k in knees], [k.mean("seconds") for k in knees], "o", **RING)
    right.plot([knee.limit], [knee.mean("staleness")], "o", **RING)
    for ax in (left, right):
        ax.axvspan(*advice.between, color=_style.COLORS["effect"], linewidth=6.0, zorder=0)
        ax.set_xscale("symlog", linthresh=least)
        ax.set_xticks(limits, [f"{each:g}" for each in limits])
        ax.minorticks_off()
        ax.set_ylim(0.0)
        ax.set_xlabel(f"{advice.knob}\n(circles: knees; shaded: 95 % interval of today's)")
    whose = f"today: {left.get_legend_handles_labels()[1][0]}"
    right.legend(loc="upper left", title=whose.replace(", ", ",\n"), title_fontsize=8.0, alignment="left")
    # Above the curves, which fall.
    left.set_ylim(top=left.get_ylim()[1] * (1.1 + 0.12 * len(curves)))
    left.legend(loc="upper right")
    left.set(ylabel="seconds per update", title=rf"$\bf{{a}}$   {knee.mean('seconds'):.4g} s per update at the knee")
    stale = f"{knee.mean('staleness'):.2g}, 99th percentile {knee.p99}"
    right.set(ylabel="staleness of tokens (versions)", title=rf"$\bf{{b}}$   mean {stale} at the knee")
    trainer, slots = (knee.mean(f"{side}_idle_seconds") for side in ("trainer", "generator"))
    figure.suptitle(
        f"{advice.trainer}: {advice.knob} = {knee.limit:g} is the smallest within {advice.share:.0%} of the fewest "
        f"seconds;\nthere the trainer waits {trainer:.3g} s per update, a slot idles {slots:.3g} s", ha="left", x=0.02,
    )  # fmt: skip
    _style.key(figure)
    return figure


def _line(ax: Axes, rows: list[Setting], name: str, color: str, label: str, **more: Any) -> None:
    mean, low, high = np.array([each.interval(name) for each in rows]).T
    # Neither seconds nor staleness is below 0.
    reach = np.stack([mean - np.maximum(low, 0.0), high - mean])
    marks = {**_style.MEASURED, "linestyle": "-", "linewidth": 0.8, **more}
    ax.errorbar([each.limit for each in rows], mean, yerr=reach, color=color, label=label, **marks)
