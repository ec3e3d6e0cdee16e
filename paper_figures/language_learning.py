"""Exact match over updates: a character model, synchronous and stale, and SmolLM2."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from asyncsim.base import uncertainty
from asyncsim.plotting import _style
from paper_figures import _script

EXPERIMENTS = ("language_learning",)
PANELS = {
    "char": "Character model, 0.9 M weights: two-digit sums",
    "smollm2": "SmolLM2, last 6 of 30 layers: one-digit sums",
}
COLORS = {False: "measured", True: "contrast"}
"""Of synchronous and of stale curves."""


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


def draw_model(ax: Axes, rows: Any, model: str) -> Axes:
    """Batches as a line with a band; problems held out as points at both ends."""
    for staleness in sorted(rows[rows.model == model].staleness.unique()):
        own = rows[(rows.model == model) & (rows.staleness == staleness)]
        color = _style.COLORS[COLORS[bool(staleness > 0)]]
        name = "synchronous" if staleness == 0 else f"staleness {staleness}"
        updates, mean, half = curve(own[own.quantity == "trained"])
        ax.plot(updates, mean, color=color, label=f"{name}, batches")
        ax.fill_between(updates, mean - half, mean + half, color=color, alpha=0.18, linewidth=0)
        updates, mean, half = curve(own[own.quantity == "held out"])
        mark = {**_style.MEASURED, "marker": "o" if staleness == 0 else "s", "mfc": "white"}
        ax.errorbar(updates, mean, yerr=half, color=color, label=f"{name}, held out", **mark)
    ax.set(xlabel="updates", ylim=(0.15, 1.02))
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.legend(loc="lower right", borderpad=0.0)
    ax.set_title(PANELS[model])
    return ax


def draw(rows: Any) -> Figure:
    """One panel for each model."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 3.0)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, model in zip(axes, PANELS, strict=True):
            draw_model(ax, rows, model)
        axes[0].set(ylabel="exact match at temperature 1")
        _script.caption(
            figure,
            "Do language models learn sums from a reward for right answers (GRPO, Adam)? Varied: staleness of the",
            "data. Measured: share of right answers in the batches trained on, and on problems that are never asked in",
            "training, before and after. 95 % intervals: between three seeds (left), of pooled answers (right).",
        )
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Exact match at both ends of each curve, in the batches and held out."""
    found = {}
    for (model, staleness), own in rows.groupby(["model", "staleness"]):
        name = model if staleness == 0 else f"{model}_stale"
        for quantity, key in (("trained", "batches"), ("held out", "held")):
            mean = own[own.quantity == quantity].groupby("update").exact_match.mean().sort_index()
            found |= {f"{name}_{key}_first": f"{mean.iloc[0]:.3f}", f"{name}_{key}_last": f"{mean.iloc[-1]:.3f}"}
    return {**found, "staleness": f"{rows.staleness.max()}"}
