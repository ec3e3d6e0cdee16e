"""Replay: updates for each number of uses, compute at every price of generation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import replay as experiment
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = ("replay",)
SHADES = {"bandit": "stale", "graded": "synchronous", "sparse": "muted"}
BUFFERS = {1: "controlled", 4: "partial", 16: "tuned"}
PRICES, PRICE = 2.0 ** np.arange(-2, 8), 8.0
"""Prices that are drawn, and the one that is quoted."""
HELD = 0.1
"""A learning rate that all cells share, so small that fresh data need tens of updates."""


def tasks(rows: Any) -> list[str]:
    """Tasks that were run."""
    return [task for task in SHADES if (rows.task == task).any()]


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


def best(rows: Any, task: str, price: float, held: bool) -> tuple[int, Any]:
    """Number of uses of the cell of least compute with replay, and its compute over that of fresh data.

    At best rates the cell is chosen on the replicates that chose its rate, and not on those that are reported.
    """
    own = updates(rows, task, held)
    tried = _script.pick(rows, task=task, quantity="tried").groupby(["ratio", "buffer"]).value.min().sort_index()
    ratios = own.index.get_level_values("ratio").to_numpy()
    place = np.where(ratios > 1, (own.value if held else tried).to_numpy() * cost(ratios, price), np.inf).argmin()
    scale = cost(ratios[place], price) / cost(0, price)
    return int(ratios[place]), beside(own.iloc[place], own.loc[0].iloc[0], scale)


def draw_updates(ax: Axes, rows: Any, task: str) -> None:
    """Updates beside fresh data for each number of uses: filled at the best rates, hollow at the held one."""
    for held in (False, True):
        own = updates(rows, task, held)
        fresh = own.loc[0].iloc[0]
        for buffer, shade in BUFFERS.items():
            ratios = [y for y in experiment.RATIOS if (y, buffer) in own.index]
            found = [beside(own.loc[(y, buffer)], fresh) for y in ratios]
            reach = [[f.value - f.low for f in found], [f.high - f.value for f in found]]
            style = {**_style.MEASURED, **look.CONNECTED, "markersize": 3.5, "color": look.COLOR[shade]}
            ax.errorbar(ratios, [f.value for f in found], yerr=reach, **{**style, **(look.HOLLOW if held else {})})
    fine = np.geomspace(1.0, 8.0, 40)
    ax.plot(fine, [experiment.noise(y, 1) for y in fine], **_style.PREDICTED)
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set(xscale="log", yscale="log", ylim=(0.7, 13.0), title=task, xlabel="uses of a sample")
    ax.set_ylabel("updates, times fresh data's")
    look.ticks(ax.xaxis, experiment.RATIOS)
    look.ticks(ax.yaxis, [1, 2, 4, 8])


def draw_prices(ax: Axes, rows: Any) -> None:
    """Compute of the best replayed cell against the price."""
    for task in tasks(rows):
        for held in (False, True):
            found = [best(rows, task, price, held)[1] for price in PRICES]
            reach = [[f.value - f.low for f in found], [f.high - f.value for f in found]]
            style = {**_style.MEASURED, **look.CONNECTED, "markersize": 3.5, "color": look.COLOR[SHADES[task]]}
            ax.errorbar(PRICES, [f.value for f in found], yerr=reach, **{**style, **(look.HOLLOW if held else {})})
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set(title="cheapest replay, chosen on other runs", ylabel="compute, times fresh data's", ylim=(0.0, 4.5))
    ax.set(xscale="log", xlabel="seconds to generate / seconds to train on")
    look.ticks(ax.xaxis, [0.25, 1, 4, 16, 64])


def entropy(rows: Any, task: str, ratio: int, buffer: int) -> Any:
    """Entropy where half of the gain is reached, over that of fresh data."""
    own = _script.pick(rows, task=task, quantity="entropy").set_index(["ratio", "buffer"]).sort_index()
    return beside(own.loc[(ratio, buffer)], own.loc[(0, 0)])


def lines(names: dict[str, str]) -> list[Any]:
    """What colors mean."""
    return [Line2D([], [], color=look.COLOR[shade], label=name) for name, shade in names.items()]


def draw(rows: Any) -> Figure:
    """Updates of each task, then compute."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 5.2)
        *above, last = figure.subplots(2, 2).ravel()
        for ax, task in zip(above, tasks(rows), strict=True):
            draw_updates(ax, rows, task)
        draw_prices(last, rows)
        ink: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 3.5, "color": look.INK}
        rates = [
            Line2D([], [], label="best rate", **ink),
            Line2D([], [], label=f"held rate, {HELD:g}", **ink, **look.HOLLOW),
        ]
        batches = {f"buffer of {n} batch{'es' if n > 1 else ''}": shade for n, shade in BUFFERS.items()}
        saved = {held: [best(rows, task, PRICE, held)[1] for task in tasks(rows)] for held in (False, True)}
        sure = {held: [each.high < 1.0 for each in found] for held, found in saved.items()}
        words = "Replay saves compute at a small, held rate, not reliably at best ones"
        drawn = "Updates and compute with replay, beside fresh data's"
        title = _script.finding(all(sure[True]) and not all(sure[False]), words, drawn)
        figure.legend(handles=[*rates, *lines(batches)], loc="outside upper left", ncols=3, title=title)
        last.legend(handles=lines(SHADES), frameon=False, fontsize=7)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Compute at one price, updates and entropy at four uses, at the held rate and at the best."""
    found = {"price": f"{PRICE:g}"}
    for task in tasks(rows):
        for held, word in ((False, "best"), (True, "held")):
            own = updates(rows, task, held)
            say = look.value if held else look.spread
            found[f"{task}_{word}"] = say(best(rows, task, PRICE, held)[1])
            if not held or task != "graded":
                found[f"{task}_{word}_updates"] = say(beside(own.loc[(4, 4)], own.loc[0].iloc[0]))
        if task != "graded":
            found[f"{task}_slower"] = look.value(beside(own.loc[(4, 16)], own.loc[(4, 1)]))
        found[f"{task}_entropy"] = look.value(entropy(rows, task, 4, 4))
    return found
