"""Seconds of ROLL Flash's rollouts by GPUs, spare prompts and replication, and the ratio that a step needs."""

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
MORE, ENOUGH = 16, 0.95
"""Spare prompts whose seconds are quoted, and the share of a speed that is enough."""
GPU_ARMS = {"batch": shared.OLD, "queue": shared.PART, "asynchronous": shared.NEW}


def draw_gpus(ax: Axes, rows: Any) -> None:
    """Speed over the smallest pool's batch scheduling."""
    base = shared.one(rows, "gpus", "batch", roll_sizes.GPUS[0], spread=shared.TIGHT)
    for arm, style in GPU_ARMS.items():
        own = shared.fastest(rows, "gpus", arm, shared.TIGHT)
        shared.line(ax, own.x, [shared.faster(base, row) for row in own.itertuples()], label=arm, **style)
    first = roll_sizes.GPUS[0]
    ax.plot(roll_sizes.GPUS, [count / first for count in roll_sizes.GPUS], label="in proportion", **_style.REFERENCE)
    ax.set(xscale="log", yscale="log", xlabel="GPUs", ylabel=f"speed, {first} GPUs in batches: 1")
    look.ticks(ax.xaxis, roll_sizes.GPUS)
    look.ticks(ax.yaxis, (1, 2, 4, 8))
    shared.key(ax, loc="upper left")


def draw_queue(ax: Axes, rows: Any) -> None:
    """Seconds over spare prompts."""
    for arm, name, style in (("queue", "64 slots", shared.PART), ("queue, free", "a slot for each sample", shared.NEW)):
        own = shared.fastest(rows, "queue", arm, shared.TIGHT)
        shared.line(ax, own.x, own, label=f"queue, {name}", **style)
    batch = shared.one(rows, "queue", "batch", 0, spread=shared.TIGHT)
    shared.line(ax, [0], [batch], label="rounds of 8 prompts", **shared.OLD)
    look.ticks(ax.xaxis, sorted(own.x.unique()))
    ax.set(xlabel="spare prompts", ylabel="seconds of generation", ylim=(0.0, 310.0))
    shared.key(ax, loc="upper right")


def draw_replication(ax: Axes, rows: Any) -> None:
    """Seconds of four configurations, with and without replication."""
    there = list(roll_sizes.CONFIGURATIONS)
    for arm, side, style in (("together", -0.1, shared.OLD), ("replicated", 0.1, shared.NEW)):
        own = [shared.one(rows, "replication", arm, x, y, shared.TIGHT) for x, y in there]
        name = "a prompt on one GPU" if arm == "together" else "samples on any GPU"
        shared.line(ax, [k + side for k in range(len(own))], own, linestyle="none", label=name, **style)
    look.ticks(ax.xaxis, range(len(there)), [f"{x} × {y}" for x, y in there])
    ax.set(xlabel="prompts × samples", ylabel="seconds of generation", ylim=(0.0, None))
    shared.key(ax, loc="lower left")


def speeds(rows: Any, size: int, spread: float) -> dict[int, dict[str, float]]:
    """Speed over synchronous training at every asynchronous ratio."""
    base = shared.one(rows, "ratio", "synchronous", size, spread=spread)
    own = shared.fastest(rows, "ratio", "asynchronous", spread)
    return {int(row.y): shared.faster(base, row) for row in own[own.x == size].itertuples()}


def enough(rows: Any, size: int, spread: float) -> int:
    """The least ratio with most of the largest speed that was measured."""
    found = speeds(rows, size, spread)
    largest = max(each["value"] for each in found.values())
    return next(ratio for ratio, each in found.items() if each["value"] >= ENOUGH * largest)


def draw_ratio(ax: Axes, rows: Any) -> None:
    """Speed over the asynchronous ratio, for four sizes of a step."""
    looks = (shared.OTHER, {**shared.PART}, {**shared.OLD}, shared.NEW)
    for size, style in zip(roll_sizes.SIZES, looks, strict=True):
        found = speeds(rows, size, shared.TIGHT)
        shared.line(ax, list(found), list(found.values()), label=f"{size} samples", **style)
    look.ticks(ax.xaxis, roll_sizes.RATIOS)
    ax.set(xlabel="asynchronous ratio", ylabel="times synchronous speed", ylim=(1.0, 5.4))
    shared.key(ax, loc="upper left", ncols=2)


def draw(rows: Any) -> Figure:
    """Four panels, lengths of spread 0.5."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.4)
        axes = figure.subplots(2, 2)
        for ax, part in zip(axes.flat, (draw_gpus, draw_queue, draw_replication, draw_ratio), strict=True):
            part(ax, rows)
        first, last = (enough(rows, size, shared.TIGHT) for size in (roll_sizes.SIZES[0], roll_sizes.SIZES[-1]))
        grows = gained(rows, roll_sizes.GPUS[-1], shared.TIGHT) > gained(rows, roll_sizes.GPUS[0], shared.TIGHT)
        words = "Asynchrony gains more on larger pools, and small steps need larger ratios"
        title = _script.finding(grows and first > last, words, "Seconds of rollouts by pool, prompts and ratio")
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def gained(rows: Any, count: int, spread: float) -> float:
    """Speed of asynchronous training over batch scheduling on so many GPUs."""
    pair = (shared.one(rows, "gpus", arm, count, spread=spread) for arm in ("batch", "asynchronous"))
    return float(shared.faster(*pair)["value"])


def numbers(rows: Any) -> dict[str, str]:
    """Speeds by pool, seconds of queues and of replicated prompts, sufficient ratios, and shares of the bounds."""
    found: dict[str, str] = {"more": str(MORE), "share": f"{100 * ENOUGH:.0f}"}
    ends = {"few": roll_sizes.GPUS[0], "many": roll_sizes.GPUS[-1], "least": roll_sizes.SIZES[0]}
    ends |= {"most": roll_sizes.SIZES[-1], "prompts": 64, "samples": 16}
    found |= {key: str(value) for key, value in ends.items()}
    found |= {"tight": f"{shared.TIGHT:g}", "wide": f"{shared.LONG:g}"}
    for key, spread in (("", shared.TIGHT), ("long_", shared.LONG)):
        for count in (roll_sizes.GPUS[0], roll_sizes.GPUS[-1]):
            base = shared.one(rows, "gpus", "batch", count, spread=spread)
            row = shared.one(rows, "gpus", "asynchronous", count, spread=spread)
            found[f"{key}gpus_{count}"] = shared.times(base, row)
        batch = shared.one(rows, "queue", "batch", 0, spread=spread)
        found[f"{key}batch"] = shared.seconds(batch)
        for more in (0, MORE):
            row = shared.one(rows, "queue", "queue, free", more, spread=spread)
            found[f"{key}queue_{more}"] = shared.seconds(row)
        found[f"{key}queue"] = shared.times(batch, row)
        ratios = [enough(rows, size, spread) for size in (roll_sizes.SIZES[0], roll_sizes.SIZES[-1])]
        # The last ratio measured always has all of its own speed.
        words = [f"> {roll_sizes.RATIOS[-2]}" if each == roll_sizes.RATIOS[-1] else str(each) for each in ratios]
        found[f"{key}small"], found[f"{key}large"] = words
        pairs = [
            [shared.one(rows, "replication", arm, x, y, spread) for arm in ("together", "replicated")]
            for x, y in roll_sizes.CONFIGURATIONS
        ]
        found |= {
            f"{key}replicated_{x}_{y}": shared.times(*pair)
            for (x, y), pair in zip(roll_sizes.CONFIGURATIONS, pairs, strict=True)
        }
    whole, alone = (shared.one(rows, "replication", arm, 32, 16, shared.TIGHT) for arm in ("together", "replicated"))
    return found | {"whole": shared.seconds(whole), "alone": shared.seconds(alone)}
