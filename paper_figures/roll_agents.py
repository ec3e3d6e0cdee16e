"""Seconds of agentic rollouts: latencies, spare environments, what parts add; and two bounds on time beside it."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import roll_sizes
from paper_figures import _roll_sizes as shared
from paper_figures import _script
from paper_figures import _vcpo as look

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = ("roll_sizes",)
EXTRA = 64
"""Spare environments whose seconds are quoted."""
LADDER = {
    "lockstep": "lockstep",
    "environment": "environment-level",
    "redundant": "… and spare",
    "asynchronous, none spare": "… asynchronous",
    "asynchronous": "… and spare",
}
SPARE = {
    "groups": ("more groups", shared.NEW, {}),
    "samples": ("larger groups", shared.OTHER, {}),
    "groups, slow groups": ("", shared.NEW, look.HOLLOW),
    "samples, slow groups": ("", shared.OTHER, look.HOLLOW),
}
"""Filled: single trajectories stop. Hollow: whole groups are slow."""


def draw_latency(ax: Axes, rows: Any) -> None:
    """Seconds over the spread of latencies."""
    for arm, style in (("lockstep", shared.OLD), ("environment", shared.NEW)):
        own = shared.fastest(rows, "latency", arm)
        shared.line(ax, own.x, own, label=LADDER[arm], **style)
    ax.set(xlabel="standard deviation of latency (s)", ylabel="seconds of a rollout", ylim=(0.0, None))
    shared.key(ax, loc="upper left")


def draw_spare(ax: Axes, rows: Any) -> None:
    """Seconds over spare environments, as groups or as samples."""
    for arm, (name, style, more) in SPARE.items():
        own = shared.fastest(rows, "environments", arm)
        shared.line(ax, own.x, own, label=name or None, **{**style, **more})
    look.ticks(ax.xaxis, roll_sizes.SPARES)
    ax.set(xlabel="spare environments", ylabel="seconds of a rollout", ylim=(0.0, None))
    shared.key(ax, loc="upper right", title="hollow: slow groups", title_fontsize=7.0)


def draw_ladder(ax: Axes, rows: Any) -> None:
    """Speed over lockstep as parts are added."""
    base = shared.one(rows, "agents", "lockstep", roll_sizes.LATENCY)
    for place, arm in enumerate(LADDER):
        found = shared.faster(base, shared.one(rows, "agents", arm, roll_sizes.LATENCY))
        style = shared.OLD if arm == "lockstep" else shared.NEW if "asynchronous" in arm else shared.PART
        shared.line(ax, [place], [found], **style)
    look.ticks(ax.xaxis, range(len(LADDER)), list(LADDER.values()))
    for label in ax.get_xticklabels():
        label.set(rotation=20, ha="right")
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set(ylabel="times lockstep speed", ylim=(0.0, None))


def draw_bound(ax: Axes, rows: Any) -> None:
    """Seconds against their bounds."""
    for arm, style in (("queue", shared.OLD), ("asynchronous", shared.NEW)):
        own = _script.pick(rows, part="bound", arm=arm)
        name = "synchronous queue" if arm == "queue" else "asynchronous"
        look.points(ax, own.bound, own, capsize=0, label=name, **style)
    ends = [0.8 * own.bound.min(), 1.05 * rows.bound.max()]
    ax.plot(ends, ends, label="bound", **_style.PREDICTED)
    ax.set(xlabel="bound on seconds of a step", ylabel="measured seconds", xscale="log", yscale="log")
    look.ticks(ax.xaxis, (50, 100, 200, 400))
    look.ticks(ax.yaxis, (25, 50, 100, 200, 400))
    shared.key(ax, loc="upper left")


def draw(rows: Any) -> Figure:
    """Four panels."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.6)
        axes = figure.subplots(2, 2)
        for ax, part in zip(axes.flat, (draw_latency, draw_spare, draw_ladder, draw_bound), strict=True):
            part(ax, rows)
        wide = speed(rows, roll_sizes.SPREADS[-1])["low"] > speed(rows, roll_sizes.SPREADS[0])["high"]
        split = spared(rows, "groups", "samples")["high"] < 1.0 < spared(rows, *SLOW)["low"]
        words = "Gains grow with latency's spread; spare groups help where groups are slow"
        title = _script.finding(wide and split, words, "Seconds of agentic rollouts, and bounds on time")
        figure.suptitle(title, x=0.01, ha="left")
    return figure


SLOW = ("groups, slow groups", "samples, slow groups")


def speed(rows: Any, deviation: float) -> dict[str, float]:
    """Speed of environment-level rollouts over lockstep."""
    return shared.faster(*(shared.one(rows, "latency", arm, deviation) for arm in ("lockstep", "environment")))


def spared(rows: Any, arm: str, other: str, more: int = EXTRA) -> dict[str, float]:
    """Speed of one use of so many spare environments over another."""
    return shared.faster(*(shared.one(rows, "environments", each, more) for each in (other, arm)))


def numbers(rows: Any) -> dict[str, str]:
    """Speeds by spread, by spare environments, along the ladder; and how near to their bounds seconds come."""
    narrow, broad = roll_sizes.SPREADS[0], roll_sizes.SPREADS[-1]
    found = {"narrow": f"{narrow:g}", "broad": f"{broad:g}", "extra": str(EXTRA)}
    for deviation in (narrow, broad):
        value = speed(rows, deviation)
        found[f"spread_{deviation:.0f}"] = f"{value['value']:.2f} ± {value['value'] - value['low']:.2f}"
    bare = shared.one(rows, "environments", "groups", 0)
    found["none"] = shared.seconds(bare)
    for groups, samples in roll_sizes.BOTH:
        found[f"both_{samples}"] = shared.seconds(shared.one(rows, "environments", "both", groups, samples))
    for arm in SPARE:
        key = arm.replace(", ", "_").replace(" ", "_")
        found[key] = shared.seconds(shared.one(rows, "environments", arm, EXTRA))
    base = shared.one(rows, "agents", "lockstep", roll_sizes.LATENCY)
    for key, arm in (
        ("alone", "environment"),
        ("spare", "redundant"),
        ("ahead", "asynchronous, none spare"),
        ("both", "asynchronous"),
    ):
        found[f"agents_{key}"] = shared.times(base, shared.one(rows, "agents", arm, roll_sizes.LATENCY))
    for arm in ("queue", "asynchronous"):
        own = _script.pick(rows, part="bound", arm=arm)
        found[f"over_{arm}"] = f"{int((own.low > own.bound).sum())} of {len(own)}"
    own = _script.pick(rows, part="bound")
    return found | {"bound": f"{100 * (own.value / own.bound).max():.0f} %"}
