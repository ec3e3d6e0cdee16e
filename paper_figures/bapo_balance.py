"""Share of the gradient that comes from positive advantages, over a run, with the clip, BAPO, its code, and no clip."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _bapo as arms
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures._script import pick

TASK = "graded"
EXPERIMENTS = {"bapo": {"part": "grid", "task": TASK, "law": "constant 32", "tuned": True}}
DRAWN = {
    "clip": ("PPO's clip", 36, 0.12),
    "bapo": ("BAPO as in the paper", 17, 0.29),
    "released": ("BAPO as released (raises the lower bound first)", 41, 0.66),
    "none": ("no clip", 22, 0.91),
}
"""Arms with their names, and where those are written."""
LAST = 80
"""Last update that is drawn; shares hardly change afterwards."""


def course(rows: Any, arm: str) -> Any:
    """The share over updates, at an arm's best rate on the oldest data."""
    own = pick(rows, part="course", task=TASK, law=arms.laws(rows)[-1], arm=arm, quantity="positive")
    return own.sort_values("number")


def draw_arms(ax: Axes, rows: Any) -> None:
    """A curve with its band for each arm."""
    for arm, (name, x, y) in DRAWN.items():
        own, color = course(rows, arm), arms.ARMS[arm]["color"]
        band: dict[str, Any] = {"color": color, "alpha": 0.2, "linewidth": 0, "label": "95 % intervals"}
        ax.fill_between(own.number, own.low, own.high.clip(upper=1.0), **band)
        ax.plot(own.number, own.value, color=color, linewidth=1.1)
        look.say(ax, x, y, name, color)


def draw(rows: Any) -> Figure:
    """The share over updates on one task, each arm at its best rate."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.7)
        ax = figure.subplots()
        ax.axhspan(0.0, 0.5, color=look.COLOR["effect"], linewidth=0, alpha=0.6)
        draw_arms(ax, rows)
        look.say(ax, LAST + 0.8, 0.5, "half", look.COLOR["muted"])
        look.say(ax, LAST - 1, 0.06, "negative advantages dominate", look.COLOR["muted"], ha="right")
        ax.set(xlabel="update", xlim=(0, LAST), ylim=(0.0, 1.0))
        ax.set_ylabel("share of the gradient from\npositive advantages")
        look.percents(ax.yaxis)
        low = {arm: course(rows, arm).value.min() for arm in DRAWN}
        holds = max(low["clip"], low["bapo"]) < 0.3 and low["released"] > 0.4
        _script.headline(figure, holds, "Share of the gradient from positive advantages over a run")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Mean positive shares stand beside returns."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether negative advantages dominate the gradient, and whether BAPO's positive share is above the clip's."""
    found: dict[str, list[Setting]] = {"dominated": [], "balanced": []}
    names = {"clip": "PPO's clip", "none": "no clip", "bapo": "as described", "released": "as released"}
    for arm, name in names.items():
        for reading in (arms.SAME, arms.TUNED):
            for task, law in arms.grids(rows, arm):
                own, clip = (arms.read(rows, "positive", reading, task, law, each) for each in (arm, "clip"))
                place = (f"{name}, {reading}", arms.TASKS[task], arms.told(law))
                if arm in ("clip", "none"):
                    met = decided(own.high < 0.5, own.low > 0.5)
                    found["dominated"].append(Setting(place, met, arm == "clip"))
                else:
                    met = decided(own.low > clip.high, own.high < clip.low)
                    found["balanced"].append(Setting(place, met, arm == "released"))
    return found
