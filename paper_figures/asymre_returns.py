"""Return of shifted baselines − that of the mean, each at its best learning rate, on stale and on frozen data."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import asymre as lab
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"asymre": {"part": "tuned"}}
TITLES = {"constant 32": "data 32 versions old", "frozen": "frozen data"}


def draw_tuned(ax: Axes, rows: Any, law: str) -> None:
    """Differences from shift 0 at the best rates."""
    for place, (task, style) in enumerate(look.TASK.items()):
        own = _script.pick(rows, part="tuned", task=task, law=law).dropna(subset="difference").sort_values("shift")
        x = [sorted(lab.TUNED).index(shift) + 0.2 * (place - 1) for shift in own["shift"]]
        look.points(ax, x, own.assign(value=own.difference), label=task, **style)
    ax.axhline(0.0, **_style.REFERENCE)
    look.ticks(ax.xaxis, range(len(lab.TUNED)), [f"{shift:g}".replace("-", "−") for shift in sorted(lab.TUNED)])
    ax.set(xlabel="shift of the baseline from the mean reward", title=TITLES[law])


def draw(rows: Any) -> Figure:
    """A panel for each kind of data."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.2)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, law in zip(axes, lab.LAWS, strict=True):
            draw_tuned(ax, rows, law)
        axes[0].set(ylabel="return minus return without a shift")
        none = not (_script.pick(rows, part="tuned").word == "better").any()
        words = "With tuned learning rates, no shift of the baseline (AsymRE) helps"
        title = _script.finding(none, words, "Shifted baselines (AsymRE)")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, title=title, loc="outside upper left", ncols=3, alignment="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Differences stand beside limits."""
    return {}
