"""Speed of agentic rollouts by the spread of latency, and what parts of the system add."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import roll_sizes
from paper_figures import _roll_sizes as shared
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.roll_flash import PAPER

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"roll_sizes": {"part": ("agents", "latency"), "task": "trajectories of 5 turns (timing only)"}}
EXTRA = 64
"""Spare environments whose seconds are quoted."""
LADDER = {
    "lockstep": "lockstep: all wait in every turn",
    "environment": "no waiting",
    "redundant": "no waiting + 1 spare per group",
    "asynchronous, none spare": "no waiting + asynchronous",
    "asynchronous": "no waiting + both",
}
SPARE = ("groups", "samples", "groups, slow groups", "samples, slow groups")
"""Uses of spare environments; of slow groups all trajectories are slow."""


def draw_latency(ax: Axes, rows: Any) -> None:
    """Seconds against the spread of latencies."""
    names = {}
    for arm, style in (("lockstep", shared.OLD), ("environment", shared.NEW)):
        own = shared.fastest(rows, "latency", arm)
        shared.line(ax, own.x, own, **style)
        names[LADDER[arm].partition(":")[0]] = (float(own.value.iloc[-1]), style["color"])
    ax.set(xlabel="standard deviation of latency (seconds)", ylim=(0.0, None))
    ax.set_ylabel("seconds to generate\n128 trajectories")
    ax.set_title("Generation")
    look.ends(ax, names)


def draw_ladder(ax: Axes, rows: Any) -> None:
    """Speed divided by lockstep's as parts are added."""
    base = shared.one(rows, "agents", "lockstep", roll_sizes.LATENCY)
    for place, arm in enumerate(LADDER):
        found = shared.faster(base, shared.one(rows, "agents", arm, roll_sizes.LATENCY))
        style = shared.OLD if arm == "lockstep" else shared.NEW if "asynchronous" in arm else shared.PART
        ax.barh([place], [found["value"]], height=0.55, color=style["color"], alpha=0.5)
        look.points(ax, [place], pd.DataFrame([found]), sideways=True, color=style["color"], markersize=0.0, capsize=0)
        look.say(ax, found["high"] + 0.1, place, f"{found['value']:.1f}", style["color"])
    look.ticks(ax.yaxis, range(len(LADDER)), list(LADDER.values()))
    ax.axvline(1.0, **_style.REFERENCE)
    ax.set(xlabel="speed divided by lockstep speed", xlim=(0.0, 1.15 * ax.get_xlim()[1]))
    ax.set(ylim=(len(LADDER) - 0.5, -0.5), title=f"Generation and training, deviation {roll_sizes.LATENCY:g} s")


def draw(rows: Any) -> Figure:
    """Spread of latency, parts."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2)
        draw_latency(left, rows)
        draw_ladder(right, rows)
        wide = speed(rows, roll_sizes.SPREADS[-1])["low"] > speed(rows, roll_sizes.SPREADS[0])["high"]
        lockstep, alone, _, ahead, _ = (shared.one(rows, "agents", arm, roll_sizes.LATENCY).value for arm in LADDER)
        holds = wide and alone / ahead > lockstep / alone
        _script.headline(figure, holds, "Speed of agentic rollouts by latency and by part")
    return figure


SLOW = ("groups, slow groups", "samples, slow groups")


def speed(rows: Any, deviation: float) -> dict[str, float]:
    """Speed of environment-level rollouts over lockstep."""
    return shared.faster(*(shared.one(rows, "latency", arm, deviation) for arm in ("lockstep", "environment")))


def spared(rows: Any, arm: str, other: str, more: int = EXTRA) -> dict[str, float]:
    """Speed of one use of so many spare environments over another."""
    return shared.faster(*(shared.one(rows, "environments", each, more) for each in (other, arm)))


def numbers(rows: Any) -> dict[str, str]:
    """Speeds by spread, by spare environments and along the ladder."""
    narrow, broad = roll_sizes.SPREADS[0], roll_sizes.SPREADS[-1]
    found = {"narrow": f"{narrow:g}", "broad": f"{broad:g}", "extra": str(EXTRA)}
    for deviation in (narrow, broad):
        value = speed(rows, deviation)
        found[f"spread_{deviation:.0f}"] = f"{value['value']:.2f} ± {value['value'] - value['low']:.2f}"
    for key, arm in (("none", "groups"), ("none_slow", SLOW[0])):
        found[key] = shared.seconds(shared.one(rows, "environments", arm, 0))
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
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether environment-level rollouts gain more speed at each spread of latency than at the next smaller one."""
    own, found = [speed(rows, deviation) for deviation in roll_sizes.SPREADS], []
    for less, more, deviation in zip(own, own[1:], roll_sizes.SPREADS[1:], strict=False):
        grown = decided(more["low"] > less["high"], more["high"] < less["low"])
        found.append(Setting(("seconds of deviation", f"{deviation:g}"), grown))
    paper = []
    for arm, name in (("lockstep", "lockstep"), ("environment", "environment-level")):
        pair = (shared.one(rows, "agents", each, roll_sizes.LATENCY) for each in (arm, "asynchronous, none spare"))
        gain, factor = shared.faster(*pair), PAPER["agentic"]
        place = ("latency of 10 s, ratio 2, synchronous rollouts", name)
        paper.append(Setting(place, decided(gain["low"] >= factor, gain["high"] < factor), False))
    return {"latency": found, "agentic": paper}
