"""Exact match over updates of a character model, synchronous and stale."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.base import uncertainty
from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures._vcpo import ends, percents

EXPERIMENTS = {"language_learning": {"model": "char", "task": "sums (character model)"}}
ARMS = {False: ("synchronous", "o"), True: ("stale", "s")}
"""Color and marker of synchronous and of stale runs."""


def curve(rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Updates, mean exact match and half of its 95 percent interval.

    Between seeds where there are three or more; else that of the answers as independent draws.
    """
    updates = np.sort(rows["update"].unique())
    found = []
    for update in updates:
        own = rows[rows["update"] == update]
        if len(own) >= 3:
            estimate = uncertainty.between(own.exact_match.to_numpy())
        else:
            asked = int(own.samples.sum())
            estimate = uncertainty.proportion(round(float((own.exact_match * own.samples).sum())), asked)
        found.append((own.exact_match.mean(), uncertainty.critical(0.05, estimate.freedom) * estimate.error))
    mean, half = np.array(found).T
    return updates, mean, half


def draw_model(ax: Axes, rows: Any) -> Axes:
    """Batches as a line with a band; problems held out as points at both ends."""
    names: dict[str, tuple[float, str]] = {}
    for staleness in sorted(rows.staleness.unique()):
        color, marker = ARMS[bool(staleness > 0)]
        own, shade = rows[rows.staleness == staleness], _style.COLORS[color]
        updates, mean, half = curve(own[own.quantity == "trained"])
        ax.plot(updates, mean, color=shade)
        ax.fill_between(updates, mean - half, mean + half, color=shade, alpha=0.18, linewidth=0, label="95 % intervals")
        name = f"staleness {staleness}" if staleness else "synchronous"
        names[f"{name},\ntraining sums"] = (float(mean[-1]), shade)
        updates, mean, half = curve(own[own.quantity == "held out"])
        # Both begin with the same weights.
        place = updates + (2.0 if staleness else 0.0)
        ax.errorbar(place, mean, yerr=half, color=shade, **{**_style.MEASURED, "marker": marker, "mfc": "white"})
        names[f"{name},\nheld-out sums"] = (float(mean[-1]), shade)
    ax.set(
        xlabel="update", ylim=(0.0, 1.02), xlim=(-3, 207), xticks=range(0, 201, 50), ylabel="share of correct answers"
    )
    percents(ax.yaxis)
    ends(ax, names, 0.13)
    held = curve(rows[(rows.staleness == rows.staleness.max()) & (rows.quantity == "held out")])[1]
    trained = rows[rows.quantity == "trained"].groupby("staleness").exact_match.mean()
    learns, slower = held[-1] > held[0] + 0.1, trained.iloc[-1] < trained.iloc[0]
    ax.text(4.0, 0.3, "initial policy, held-out sums", color=_style.COLORS["muted"], va="center")
    _script.headline(ax.figure, learns and slower, "A language model learns sums")
    return ax


def draw(rows: Any) -> Figure:
    """The character model, synchronous and stale."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        draw_model(figure.subplots(), rows[rows.model == "char"])
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Exact match at both ends of each curve, held out, with 95 percent intervals."""
    found = {}
    for staleness, own in rows[rows.model == "char"].groupby("staleness"):
        name = "char_stale" if staleness else "char"
        _, mean, half = curve(own[own.quantity == "held out"])
        for place, end in ((0, "first"), (-1, "last")):
            found[f"{name}_held_{end}"] = f"{mean[place]:.3f} ± {half[place]:.3f}"
    return {**found, "staleness": f"{rows.staleness.max()}"}
