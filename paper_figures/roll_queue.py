"""Seconds of generation with queue scheduling and spare prompts, and with samples of a prompt on any GPU."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import roll_sizes
from paper_figures import _roll_sizes as shared
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"roll_sizes": {"part": ("queue", "replication"), "task": shared.TASK}}
QUEUES = {"queue": ("queue,\n64 slots", shared.PART), "queue, free": ("queue,\nunlimited slots", shared.NEW)}
PLACED = {"together": ("a prompt's samples on one GPU", shared.OLD), "replicated": ("on any GPU", shared.NEW)}


def draw_queue(ax: Axes, rows: Any) -> float:
    """Seconds against spare prompts, beside batches; how many times faster the most spare prompts are."""
    batch = shared.one(rows, "queue", "batch", 0, spread=shared.TIGHT)
    names = {"synchronous\nbatches": (float(batch.value), look.COLOR["muted"])}
    for arm, (name, style) in QUEUES.items():
        own = shared.fastest(rows, "queue", arm, shared.TIGHT)
        shared.line(ax, own.x, own, **style)
        names[name] = (float(own.value.iloc[-1]), style["color"])
    ax.axhline(batch.value, **_style.REFERENCE)
    look.ticks(ax.xaxis, sorted(own.x.unique()))
    ax.set(
        xlabel=f"spare prompts (a step trains on 8 prompts × {roll_sizes.SAMPLES} samples)",
        ylabel="seconds of generation per step",
        ylim=(0.0, None),
        title=f"Spare prompts, {1 - roll_sizes.ACCEPT:.0%} of prompts rejected".replace("%", " %"),
    )
    look.ends(ax, names, gap=0.15)
    slower = own.value.iloc[0] > batch.value
    look.say(
        ax, 1.5, own.value.iloc[0], _script.finding(slower, "without spare prompts,\nslower than batches", "no spares")
    )
    return float(batch.value / own.value.iloc[-1])


def draw_replication(ax: Axes, rows: Any) -> bool:
    """Seconds of every configuration, with and without replication; whether it is faster in all."""
    there, found = list(roll_sizes.CONFIGURATIONS), {}
    for side, (arm, (name, style)) in zip((-0.2, 0.2), PLACED.items(), strict=True):
        own = [shared.one(rows, "replication", arm, x, y, shared.TIGHT) for x, y in there]
        found[arm] = [float(row.value) for row in own]
        places = [k + side for k in range(len(own))]
        ax.bar(places, found[arm], width=0.36, color=style["color"], alpha=0.5, label=name)
        shared.line(ax, places, own, **{**style, "linestyle": "none", "markersize": 0.0})
    look.ticks(ax.xaxis, range(len(there)), [f"{x} × {y}" for x, y in there])
    ax.set(
        xlabel=f"prompts × samples, on {roll_sizes.SERVERS} GPUs of {roll_sizes.HELD} slots",
        ylabel="seconds of generation per step",
        ylim=(0.0, 1.35 * max(found["together"])),
        title="Placement of samples",
    )
    ax.legend(loc="upper right")
    return all(new < old for old, new in zip(*found.values(), strict=True))


def draw(rows: Any) -> Figure:
    """Spare prompts, placement."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2)
        gain, faster = draw_queue(left, rows), draw_replication(right, rows)
        _script.headline(figure, gain > 1.5 and faster, "Seconds of generation by spare prompts and by placement")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Seconds stand beside speeds by pool."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether a queue is faster than batches, by slots and spare prompts; whether replication is, by configuration."""
    found: dict[str, list[Setting]] = {"queue": [], "placed": []}
    for spread in (shared.TIGHT, shared.LONG):
        batch = shared.one(rows, "queue", "batch", 0, spread=spread)
        for arm, slots in (("queue", "64 slots"), ("queue, free", "slots for all samples")):
            # Without spare prompts, 64 slots are enough for all samples.
            for more in sorted(_script.pick(rows, part="queue", arm=arm).x.unique())[arm != "queue" :]:
                own = shared.faster(batch, shared.one(rows, "queue", arm, more, spread=spread))
                place = (f"spread {spread:g}", f"{slots}, spare prompts", f"{more:g}")
                found["queue"].append(Setting(place, decided(own["low"] > 1.0, own["high"] < 1.0)))
        for prompts, samples in roll_sizes.CONFIGURATIONS:
            arms = ("together", "replicated")
            own = shared.faster(*(shared.one(rows, "replication", arm, prompts, samples, spread) for arm in arms))
            place = (f"spread {spread:g}", f"prompts of {samples} samples", str(prompts))
            found["placed"].append(Setting(place, decided(own["low"] > 1.0, own["high"] < 1.0)))
    return found
