"""Consecutive-gradient cosine, synchronous against stale, on three tiers side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from asyncsim.theory._recursion import autocovariance
from experiments import gradient_alignment
from paper_figures import _script

EXPERIMENTS = ("gradient_alignment",)
LATE = {"bandit": 0.5, "cartpole": 0.75, "characters": 0.0}
"""Share of each tier's updates after which cosines are averaged."""
TIERS = {"bandit": "Gaussian bandit, REINFORCE", "cartpole": "CartPole, A2C", "characters": "Character model, GRPO"}


def predicted(step: float, staleness: int) -> float:
    """Stationary correlation of gradients one update apart in the linear delayed model."""
    power, products = autocovariance(gradient_alignment.CURVATURE, step, 1.0, staleness, [1])
    return float(products[0] / power)


def draw_tier(ax: Axes, rows: Any, tier: str) -> Axes:
    """Mean cosine in windows of updates with 95 percent intervals over replicates."""
    own = rows[rows.tier == tier]
    for staleness, color in zip(sorted(own.staleness.unique()), ("measured", "contrast"), strict=True):
        # Where nothing was rewarded there is no gradient and no cosine.
        one = own[(own.staleness == staleness) & own.cosine.notna()]
        counts = one.groupby("update").cosine.count()
        updates = counts.index[counts > 1].to_numpy()
        found = [_script.interval(one[one["update"] == u].cosine.to_numpy()) for u in updates]
        mean, half = np.array(found).reshape(-1, 2).T
        name = "synchronous" if staleness == 0 else f"staleness {staleness}"
        look = {**_style.MEASURED, "linestyle": "-", "linewidth": 0.8, "markersize": 2.5}
        ax.errorbar(updates, mean, yerr=half, color=_style.COLORS[color], label=name, **look)
        if tier == "bandit":
            ax.axhline(predicted(float(one.step.iloc[0]), int(staleness)), **_style.PREDICTED)
    ax.axhline(0.0, color=_style.COLORS["muted"], linewidth=0.6)
    ax.set(xlabel="updates", xlim=(0, None))
    ax.set_title(TIERS[tier])
    return ax


def draw(rows: Any) -> Figure:
    """Three panels that share the axis of cosines."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 2.7)
        axes = figure.subplots(1, 3, sharey=True)
        for ax, tier in zip(axes, TIERS, strict=True):
            draw_tier(ax, rows, tier)
        axes[0].set(ylabel="cosine of consecutive gradients")
        axes[0].plot([], [], label="predicted", **_style.PREDICTED)
        axes[0].legend(loc="upper right")
        _script.caption(
            figure,
            "Do consecutive gradients point the same way? Varied: synchronous or constant staleness, at equal batch",
            "and step. Measured: mean cosine in windows of updates, 95 % intervals over replicates. Dashed: the",
            "linear delayed model in stationarity, which only the bandit is.",
        )
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Mean cosines of each tier over its last updates, and the bandit's predictions."""
    found = {"staleness": f"{rows.staleness.max()}"}
    for tier in TIERS:
        own = rows[rows.tier == tier]
        for name, staleness in (("fresh", 0), ("stale", own.staleness.max())):
            one = own[own.staleness == staleness]
            late = one[one["update"] > LATE[tier] * one["update"].max()]
            digits = 3 if tier == "bandit" else 2
            found[f"{tier}_{name}"] = f"{late.cosine.mean():+.{digits}f}"
            if tier == "bandit":
                found[f"predicted_{name}"] = f"{predicted(float(one.step.iloc[0]), int(staleness)):+.3f}"
    cart = rows[rows.tier == "cartpole"]
    first = cart[cart["update"] == cart["update"].min()].groupby("staleness").cosine.mean()
    found["early"] = _script.listed(f"{cosine:.2f}" for cosine in first)
    return {**found, "last": f"{(1 - LATE['cartpole']) * cart['update'].max():.0f}"}
