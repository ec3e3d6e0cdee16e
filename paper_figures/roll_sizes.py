"""Speed of ROLL Flash's asynchronous training by GPUs, and the ratio that a step needs."""

from __future__ import annotations

import itertools
from typing import Any

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

EXPERIMENTS = {"roll_sizes": {"part": ("gpus", "ratio"), "task": shared.TASK}}
MORE, ENOUGH, LARGE = 16, 0.95, 128
"""Spare prompts whose seconds are quoted, the share of a speed that is enough, and samples of large batches."""
SIZES: tuple[dict[str, Any], ...] = (
    shared.OTHER,
    {"color": look.COLOR["tuned"], "marker": "D"},
    {"color": look.COLOR["random"], "marker": "v"},
    {"color": look.INK, "marker": "o"},
)
"""Looks by samples per step, which are those of no arm."""
GPU_ARMS = {"batch": shared.OLD, "queue": shared.PART, "asynchronous": shared.NEW}


def draw_gpus(ax: Axes, rows: Any) -> None:
    """Speed divided by that of the smallest pool with batch scheduling."""
    base, first = shared.one(rows, "gpus", "batch", roll_sizes.GPUS[0], spread=shared.TIGHT), roll_sizes.GPUS[0]
    names = {"linear scaling": (roll_sizes.GPUS[-1] / first, look.COLOR["muted"])}
    for arm, style in GPU_ARMS.items():
        own = shared.fastest(rows, "gpus", arm, shared.TIGHT)
        found = [shared.faster(base, row) for row in own.itertuples()]
        shared.line(ax, own.x, found, **style)
        names[arm if arm == "asynchronous" else f"{arm},\nsynchronous"] = (found[-1]["value"], style["color"])
    ax.plot(roll_sizes.GPUS, [count / first for count in roll_sizes.GPUS], **_style.REFERENCE)
    ax.set(xscale="log", yscale="log", xlabel="GPUs", ylabel=f"speed divided by batch\nscheduling on {first} GPUs")
    ax.set_title("By number of GPUs")
    look.ticks(ax.xaxis, roll_sizes.GPUS)
    look.ticks(ax.yaxis, (1, 2, 4, 8))
    look.ends(ax, names, gap=0.12)


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
    """Speed against the asynchronous ratio, for four sizes of a step."""
    names = {}
    for size, style in zip(roll_sizes.SIZES, SIZES, strict=True):
        found, first = speeds(rows, size, shared.TIGHT), enough(rows, size, shared.TIGHT)
        shared.line(ax, list(found), list(found.values()), **style)
        ring = {"markersize": 10.0, "markerfacecolor": "none", "linestyle": "none", "color": look.COLOR["muted"]}
        ax.plot([first], [found[first]["value"]], marker="o", **ring)
        names[f"{size} samples"] = (list(found.values())[-1]["value"], style["color"])
    look.ticks(ax.xaxis, roll_sizes.RATIOS)
    ax.set(
        xlabel="asynchronous ratio (maximum staleness)", ylabel="speed divided by\nsynchronous speed", ylim=(1.0, None)
    )
    ax.set_title("By samples per step")
    words = f"ring: smallest ratio with\n{100 * ENOUGH:.0f} % of maximum speed"
    look.say(ax, 8.0, 2.7, words, look.COLOR["muted"], ha="right")
    look.ends(ax, names)


def draw(rows: Any) -> Figure:
    """Pools, ratios; lengths of spread 0.5."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2)
        draw_gpus(left, rows)
        draw_ratio(right, rows)
        first, last = (enough(rows, size, shared.TIGHT) for size in (roll_sizes.SIZES[0], roll_sizes.SIZES[-1]))
        few, many = (gained(rows, count, shared.TIGHT) for count in (roll_sizes.GPUS[0], roll_sizes.GPUS[-1]))
        holds = many["value"] > few["value"] and first > last
        _script.headline(figure, holds, "Speed by number of GPUs and by asynchronous ratio")
    return figure


def gained(rows: Any, count: int, spread: float) -> dict[str, float]:
    """Speed of asynchronous training over batch scheduling on so many GPUs."""
    pair = (shared.one(rows, "gpus", arm, count, spread=spread) for arm in ("batch", "asynchronous"))
    return shared.faster(*pair)


def numbers(rows: Any) -> dict[str, str]:
    """Speeds by pool, seconds of queues and of replicated prompts, sufficient ratios, and shares of the bounds."""
    found: dict[str, str] = {"more": str(MORE), "share": f"{100 * ENOUGH:.0f}"}
    ends = {"few": roll_sizes.GPUS[0], "many": roll_sizes.GPUS[-1], "least": roll_sizes.SIZES[0]}
    ends |= {"most": roll_sizes.SIZES[-1], "configurations": len(roll_sizes.CONFIGURATIONS)}
    found |= {key: str(value) for key, value in ends.items()}
    found |= {"tight": f"{shared.TIGHT:g}", "wide": f"{shared.LONG:g}"}
    for key, spread in (("", shared.TIGHT), ("long_", shared.LONG)):
        for count in (roll_sizes.GPUS[0], roll_sizes.GPUS[-1]):
            base = shared.one(rows, "gpus", "batch", count, spread=spread)
            row = shared.one(rows, "gpus", "asynchronous", count, spread=spread)
            found[f"{key}gpus_{count}"] = shared.times(base, row)
        found[f"{key}batch"] = shared.seconds(shared.one(rows, "queue", "batch", 0, spread=spread))
        for more in (0, MORE):
            row = shared.one(rows, "queue", "queue, free", more, spread=spread)
            found[f"{key}queue_{more}"] = shared.seconds(row)
        found[f"{key}same_{MORE}"] = shared.seconds(shared.one(rows, "queue", "queue", MORE, spread=spread))
        ratios = [enough(rows, size, spread) for size in (roll_sizes.SIZES[0], roll_sizes.SIZES[-1])]
        # The last ratio measured always has all of its own speed.
        words = [f"> {roll_sizes.RATIOS[-2]}" if each == roll_sizes.RATIOS[-1] else str(each) for each in ratios]
        found[f"{key}small"], found[f"{key}large"] = words
        gains = [replicated(rows, *each, spread)[0] for each in roll_sizes.CONFIGURATIONS]
        found[f"{key}replicated"] = f"{min(gains):.2f} to {max(gains):.2f}"
    whole, alone = (shared.one(rows, "replication", arm, 32, 16, shared.TIGHT) for arm in ("together", "replicated"))
    found["replicated_64_16"] = replicated(rows, 64, 16, shared.TIGHT)[1]
    return found | {"whole": shared.seconds(whole), "alone": shared.seconds(alone)}


def replicated(rows: Any, prompts: int, samples: int, spread: float) -> tuple[float, str]:
    """Speed with samples on any GPU over one GPU per prompt, and the same in words."""
    pair = [shared.one(rows, "replication", arm, prompts, samples, spread) for arm in ("together", "replicated")]
    return float(shared.faster(*pair)["value"]), shared.times(*pair)


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether a ratio of 2 has most of the largest speed, less of it with half as many samples; and by GPUs."""
    found, smaller, grows, paper = [], [], [], []
    for spread in (shared.TIGHT, shared.LONG):
        for size in roll_sizes.SIZES:
            own = speeds(rows, size, spread)
            most, modest = max(own.values(), key=lambda each: each["value"]), own[2]
            enough = decided(modest["low"] >= ENOUGH * most["high"], modest["high"] < ENOUGH * most["low"])
            place = (f"spread {spread:g}, samples per step", str(size))
            found.append(Setting(place, enough, spread == shared.TIGHT and size >= LARGE))
        for half, size in itertools.pairwise(roll_sizes.SIZES):
            less, more = (reached(rows, each, spread) for each in (half, size))
            place = (f"spread {spread:g}, samples per step", str(half))
            smaller.append(Setting(place, decided(less["high"] < more["low"], less["low"] > more["high"])))
        for few, many in itertools.pairwise(roll_sizes.GPUS):
            less, more = (gained(rows, each, spread) for each in (few, many))
            place = (f"spread {spread:g}, GPUs", str(many))
            grows.append(Setting(place, decided(more["low"] > less["high"], more["high"] < less["low"])))
        for count in roll_sizes.GPUS:
            own, factor = gained(rows, count, spread), PAPER["reasoning"]
            place = (f"spread {spread:g}, ratio 2, on GPUs", str(count))
            paper.append(Setting(place, decided(own["low"] >= factor, own["high"] < factor), False))
    return {"modest": found, "smaller": smaller, "grows": grows, "reasoning": paper}


def reached(rows: Any, size: int, spread: float) -> dict[str, float]:
    """Share of the largest speed that a ratio of 2 has, with the interval that both give."""
    arms = _script.pick(shared.fastest(rows, "ratio", "asynchronous", spread), x=size)
    return shared.faster(arms.loc[arms.value.idxmin()], arms[arms.y == 2].iloc[0])
