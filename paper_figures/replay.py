"""Replay: updates for each number of uses, compute at every price of generation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import replay as experiment
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"replay": {"quantity": ("updates", "tried"), "staleness": "grows with uses and buffer"}}
SHOWN = 4
"""Batches in the buffer whose updates are counted."""
SIDES = (-0.24, 0.0, 0.24)
"""Heights of marks beside their task's."""
HELD_LOOK: dict[str, Any] = {"color": look.COLOR["stale"], "marker": "o", **look.HOLLOW}
TUNED_LOOK: dict[str, Any] = {"color": look.COLOR["controlled"], "marker": "o"}
PRICES, PRICE = 2.0 ** np.arange(-2, 8), 8.0
"""Prices of the claim, and the one that is drawn."""
HELD = 0.1
"""A learning rate that all cells share, so small that fresh data need tens of updates."""
BOLD = 3.2
"""A large learning rate, at which some runs fail on every task."""
FEW, KEPT = 1.25, 0.9
"""Updates beside those of fresh data that are few more, and entropy that is preserved."""


def tasks(rows: Any) -> list[str]:
    """Tasks that were run."""
    return [task for task in look.TASK if (rows.task == task).any()]


def cost(ratio: Any, price: Any) -> Any:
    """Compute of an update over that of training alone; ratio 0 is fresh data."""
    return 1.0 + price / np.maximum(ratio, 1)


def updates(rows: Any, task: str, held: bool) -> Any:
    """Updates of every cell of a task, at its best rate or at the held one."""
    where = {"quantity": "tried", "rate": HELD} if held else {"quantity": "updates"}
    return _script.pick(rows, task=task, **where).set_index(["ratio", "buffer"]).sort_index()


def beside(one: Any, fresh: Any, scale: float = 1.0) -> Any:
    """Ratio of two measured values with its 95 percent interval, times a number."""
    reach = np.hypot((one.high - one.value) / one.value, (fresh.high - fresh.value) / fresh.value)
    value = scale * one.value / fresh.value
    return SimpleNamespace(value=value, low=value * np.exp(-reach), high=value * np.exp(reach))


def best(rows: Any, task: str, price: float, held: bool, base: Any = None) -> tuple[int, Any]:
    """Number of uses of the cell of least compute with replay, and its compute over that of fresh data (or of `base`).

    At best rates the cell is chosen on the replicates that chose its rate, and not on those that are reported.
    """
    own = updates(rows, task, held)
    tried = _script.pick(rows, task=task, quantity="tried").groupby(["ratio", "buffer"]).value.min().sort_index()
    ratios = own.index.get_level_values("ratio").to_numpy()
    place = np.where(ratios > 1, (own.value if held else tried).to_numpy() * cost(ratios, price), np.inf).argmin()
    scale = cost(ratios[place], price) / cost(0, price)
    return int(ratios[place]), beside(own.iloc[place], own.loc[0].iloc[0] if base is None else base, scale)


def draw_rates(ax: Axes, rows: Any) -> None:
    """Compute at the quoted price, by task: best replayed cells at both rates, and fresh data at their best rate."""
    for y, task in enumerate(tasks(rows)):
        base, tuned = (updates(rows, task, held).loc[0].iloc[0] for held in (True, False))
        found = [best(rows, task, PRICE, True)[1], beside(tuned, base), best(rows, task, PRICE, False, base)[1]]
        for row, side, style in zip(found, SIDES, (HELD_LOOK, look.SYNCHRONOUS, TUNED_LOOK), strict=True):
            reach = [[row.value - row.low], [row.high - row.value]]
            ax.errorbar([row.value], [y + side], xerr=reach, **{**_style.MEASURED, **style})
    ax.axvline(1.0, **{**_style.REFERENCE, "color": look.COLOR["synchronous"]})
    ax.set(
        xscale="log", ylim=(len(tasks(rows)) - 0.5, -0.6), title=f"Generation {PRICE:g} times as expensive as training"
    )
    ax.set_xlabel(f"compute until a return of {experiment.TARGET:g}, relative to fresh data at learning rate {HELD:g}")
    look.ticks(ax.xaxis, [0.0625, 0.125, 0.25, 0.5, 1], ["1/16", "1/8", "1/4", "1/2", "1"])
    look.ticks(ax.yaxis, range(len(tasks(rows))), tasks(rows))
    ax.set_xlim(0.055, 1.3)
    for x, side, words, style in (
        (0.26, SIDES[0], f"replay, learning rate {HELD:g}", HELD_LOOK),
        (0.13, SIDES[1], "fresh data, tuned rate", look.SYNCHRONOUS),
        (0.28, SIDES[2], "replay, tuned rate", TUNED_LOOK),
    ):
        look.say(ax, x, side, words, style["color"])


def entropy(rows: Any, task: str, ratio: int, buffer: int) -> Any:
    """Entropy where half of the gain is reached, over that of fresh data."""
    own = _script.pick(rows, task=task, quantity="entropy").set_index(["ratio", "buffer"]).sort_index()
    return beside(own.loc[(ratio, buffer)], own.loc[(0, 0)])


def draw(rows: Any) -> Figure:
    """Compute at one rate that all share, and at the best rate of each."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        draw_rates(figure.subplots(), rows)
        saved = {held: [best(rows, task, PRICE, held)[1] for task in tasks(rows)] for held in (False, True)}
        sure = {held: [each.high < 1.0 for each in found] for held, found in saved.items()}
        holds = all(sure[True]) and not all(sure[False])
        _script.headline(figure, holds, "Compute with and without replay, at one learning rate and at tuned ones")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Compute at one price, updates and entropy at four uses, at the held rate and at the best."""
    found = {"price": f"{PRICE:g}", "small": f"{HELD:g}"}
    for task in tasks(rows):
        for held, word in ((False, "best"), (True, "held")):
            own = updates(rows, task, held)
            say = look.value if held else look.spread
            found[f"{task}_{word}"] = say(best(rows, task, PRICE, held)[1])
            if not held or task != "graded":
                found[f"{task}_{word}_updates"] = say(beside(own.loc[(4, 4)], own.loc[0].iloc[0]))
        if task != "graded":
            found[f"{task}_slower"] = look.value(beside(own.loc[(4, 16)], own.loc[(4, 1)]))
        kept = entropy(rows, task, 4, 4)
        found[f"{task}_entropy_ends"] = look.spread(kept)
        if task != "sparse":
            found[f"{task}_entropy"] = look.value(kept)
        fresh = [updates(rows, task, held).loc[0].iloc[0] for held in (False, True)]
        found[f"{task}_fresh"] = look.spread(beside(*fresh))
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether replay saves compute, costs few updates and keeps entropy; whether large buffers are slow and stable."""
    found: dict[str, list[Setting]] = {name: [] for name in ("saves", "cheap", "buffers", "entropy")}
    for held, rate in ((True, f"rate {HELD:g}"), (False, "tuned rates")):
        for task in tasks(rows):
            # At the held rate, fresh data are not at their best.
            for price in PRICES[PRICES > 1.0] if not held else ():
                cost = best(rows, task, price, held)[1]
                found["saves"].append(Setting((task, f"{price:g}"), decided(cost.high < 1.0, cost.low > 1.0)))
            own = updates(rows, task, held)
            for uses in experiment.RATIOS[1:]:
                more = beside(own.loc[(uses, SHOWN)], own.loc[0].iloc[0])
                place = (rate, task, f"{uses}")
                found["cheap"].append(Setting(place, decided(more.high <= FEW, more.low > FEW)))
    tried = _script.pick(rows, quantity="tried")
    for name, rate, slower in (("slower", HELD, True), ("more stable", BOLD, False)):
        for task in tasks(rows):
            for uses in experiment.RATIOS[1:]:
                own = _script.pick(tried, task=task, ratio=uses, rate=rate).set_index("buffer")
                more = beside(own.loc[experiment.BUFFERS[-1]], own.loc[experiment.BUFFERS[0]])
                ends = (more.low > 1.0, more.high <= 1.0) if slower else (more.high < 1.0, more.low >= 1.0)
                found["buffers"].append(Setting((f"{name} at rate {rate:g}", task, f"{uses}"), decided(*ends)))
    for task in tasks(rows):
        for uses in experiment.RATIOS[1:]:
            for size in experiment.BUFFERS:
                kept = entropy(rows, task, uses, size)
                place = (task, f"uses {uses}", f"{size}")
                found["entropy"].append(Setting(place, decided(kept.low >= KEPT, kept.high < KEPT)))
    return found
