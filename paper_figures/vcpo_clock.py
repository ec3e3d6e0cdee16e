"""Return against hours of synchronous training, truncated IS and VCPO; seconds of a step in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import vcpo_hours
from experiments.vcpo_hours import MAIN, PAPER
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures import _vcpo_steps as steps
from paper_figures._vcpo_hours import gain, hours_of, machine, pick, step_of

EXPERIMENTS = {
    "vcpo_hours": {"task": "bits with a penalty", "staleness": (0, 2), "tuned": True},
    "vcpo_seconds": {"staleness": (0, 2), "seeds": ""},
}
ARMS: dict[str, tuple[dict[str, Any], str]] = {
    "synchronous": ({"staleness": 0, "method": "tis"}, look.COLOR["synchronous"]),
    "truncated IS, staleness 2": ({"staleness": PAPER, "method": "tis"}, look.TRUNCATED["color"]),
    "VCPO, staleness 2": ({"staleness": PAPER, "method": "vcpo"}, look.VCPO["color"]),
}

EARLY, SHOWN = 3.0, 16.0
"""Hours at which both asynchronous arms still learn, and by which all have learned."""
PLACES = {"synchronous": (6.6, 0.4), "truncated IS, staleness 2": (4.4, 0.68), "VCPO, staleness 2": (2.9, 0.82)}
"""Where the names stand."""


def learned(hours: Any, place: dict[str, Any]) -> Any:
    """Return of an arm at its own rate, over hours."""
    own = {**machine(*MAIN), **place}
    return pick(hours, "return", step=step_of(hours, own), **own).sort_values("hour")


def seconds(rows: Any, staleness: int, quantity: str) -> Any:
    """A part of the step over lengths."""
    return _script.pick(rows, staleness=staleness, quantity=quantity).sort_values("length")


def quicker(rows: Any) -> bool:
    """Whether the asynchronous step is shorter at every length."""
    fresh, old = seconds(rows, 0, "step"), seconds(rows, PAPER, "step")
    return bool((old.high.to_numpy() < fresh.low.to_numpy()).all())


def draw(hours: Any, rows: Any) -> Figure:
    """Curves until all have learned."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        ax = figure.subplots()
        for name, (place, color) in ARMS.items():
            own = learned(hours, place)
            steps.line(ax, own[own.hour <= SHOWN].assign(update=lambda own: own.hour), color=color)
            x, y = PLACES[name]
            side = "right" if name.startswith("VCPO") else "left"
            look.say(ax, x, y, name, color, ha=side)
            own_best = {**machine(*MAIN), **place}
            median = float(np.median(hours_of(hours, own_best, step_of(hours, own_best))))
            ax.plot([median, median], [-0.02, 0.05], color=color, linewidth=2.5, solid_capstyle="butt")
            look.say(ax, median, 0.07, f"{median:.1f} h", color, ha=side)
        ax.set(xlim=(0.0, SHOWN), ylim=(-0.02, 1.0), xlabel="simulated hours", ylabel="return of the trained policy")
        ax.axhline(vcpo_hours.target(), **_style.REFERENCE)
        look.say(ax, 15.9, 0.95, "target return", look.COLOR["muted"], ha="right")
        look.say(ax, 15.9, 0.07, "ticks: median run\nreaches the target", look.COLOR["muted"], ha="right")
        both = [gain(hours, {**machine(*MAIN), **place}, draws=200) for place, _ in list(ARMS.values())[1:]]
        holds = quicker(rows) and all(found is not None and found[1] > 2.0 for found in both)
        _script.headline(figure, holds, "Return over hours")
    return figure


def numbers(hours: Any, rows: Any) -> dict[str, str]:
    """Returns at the same hour, and steps of the longest and the shortest length."""
    found = {"paper": f"{PAPER}", "early": f"{EARLY:g}"}
    for short, (place, _) in zip(("tis", "vcpo"), list(ARMS.values())[1:], strict=True):
        speed = gain(hours, {**machine(*MAIN), **place})
        found[f"{short}_times"] = "no value" if speed is None else f"{speed[0]:.1f}"
    fresh = learned(hours, ARMS["synchronous"][0])
    reached = fresh[fresh.value.astype(float) >= 0.5]
    hour = float(reached.hour.iloc[0]) if len(reached) else float(fresh.hour.iloc[-1])
    found["hour"] = f"{hour:g}"
    for short, (place, _) in zip(("sync", "tis", "vcpo"), ARMS.values(), strict=True):
        own = learned(hours, place)
        for key, then in (("return", hour), ("early", EARLY)):
            at = own.loc[(own.hour.astype(float) - then).abs().idxmin()] if len(own) else None
            found[f"{short}_{key}"] = "no value" if at is None else f"{at.value:.2f}"
    for name, length in (("short", rows.length.min()), ("long", rows.length.max())):
        step, old = (_script.pick(seconds(rows, s, "step"), length=length).value.iloc[0] for s in (0, PAPER))
        found[f"{name}_length"] = f"{int(length):,}"
        found[f"{name}_speed"] = f"{step / old:.2f}"
    return found
