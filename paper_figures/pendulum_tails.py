"""ESS of ratios on Pendulum against horizon and staleness, with what the first steps alone predict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"pendulum_tails": {"task": "Pendulum", "staleness": (4, 8, 16)}}
SHOWN = 3
"""Levels of staleness that are drawn, the largest; ESS is near 1 at the others."""
NEAR = 0.1
"""Relative distance from the prediction up to which ESS agrees with it."""


def predicted(rows: Any, horizons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ESS exp(-v T), v per step from the shortest horizon, and where v T <= ln(N) / 4."""
    shortest = rows[rows.horizon == rows.horizon.min()]
    grown = float(shortest.variance.mean()) * horizons
    return np.exp(-grown), grown <= 0.25 * math.log(float(rows.episodes.iloc[0]))


def points(rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Horizons, mean ESS over replicates and half intervals."""
    horizons = np.sort(rows.horizon.unique())
    mean, half = np.array([_script.interval(rows[rows.horizon == T].ess.to_numpy()) for T in horizons]).T
    return horizons, mean, half


def draw_ess(ax: Axes, rows: Any) -> Axes:
    """ESS over the number of episodes, each line labeled at its end; dashed where the prediction applies."""
    fine = np.geomspace(rows.horizon.min(), rows.horizon.max(), 200)
    for level, shade in _script.shades(rows.staleness)[-SHOWN:]:
        own = rows[rows.staleness == level]
        curve, inside = predicted(own, fine)
        ax.plot(
            fine[inside],
            curve[inside],
            label=f"predicted from {rows.horizon.min()}-step episodes",
            zorder=1,
            **_style.PREDICTED,
        )
        horizons, mean, half = points(own)
        ax.errorbar(horizons, mean, yerr=half, **{**_style.MEASURED, "color": shade})
        ax.text(1.07 * horizons[-1], mean[-1], f"staleness {level}", va="center", color=shade)
    ax.set(xscale="log", ylim=(0, 1.03), xlim=(9, 420), xlabel="horizon $T$ (steps)", ylabel="ESS / number of episodes")
    ticks = np.sort(rows.horizon.unique())
    ax.set_xticks(ticks, [f"{tick}" for tick in ticks])
    ax.minorticks_off()
    return ax


def draw(rows: Any) -> Figure:
    """One panel."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        draw_ess(figure.subplots(), rows)
        found, times = numbers(rows), rows.horizon.max() / rows.horizon.min()
        words = f"The ESS of {found['shortest']}-step episodes predicts that of episodes {times:.0f} times longer"
        drawn = f"ESS of longer episodes beside the prediction of {found['shortest']} steps"
        title = _script.finding(found["held"] == found["levels"], words, drawn)
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """ESS at the longest horizon beside its prediction, and the tail index there."""
    longest, shortest, held = rows.horizon.max(), rows.horizon.min(), 0
    for level in sorted(rows.staleness.unique()):
        own = rows[rows.staleness == level]
        (_, mean, half), curve = points(own), predicted(own, np.array([float(longest)]))[0]
        held += abs(mean[-1] - curve[0]) <= half[-1]
        index, reach = _script.interval(own[own.horizon == longest].tail_index)
    return {
        "horizon": f"{longest}",
        "shortest": f"{shortest}",
        "most": f"{level}",
        "ess": f"{mean[-1]:.3f}",
        "law": f"{curve[0]:.3f}",
        "levels": f"{rows.staleness.nunique()}",
        "held": f"{held}",
        "index": f"{index:.1f} ± {reach:.1f}",
    }


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether ESS is within `NEAR` of the prediction, by staleness and horizon."""
    found = []
    for level in sorted(rows.staleness.unique()):
        own = rows[rows.staleness == level]
        horizons, mean, half = points(own)
        curve, inside = predicted(own, horizons)
        # The shortest horizon made the prediction.
        for i in np.flatnonzero(inside[1:]) + 1:
            off, reach = abs(mean[i] / curve[i] - 1.0), half[i] / curve[i]
            near = decided(off + reach <= NEAR, off - reach > NEAR)
            found.append(Setting((f"staleness {level}", f"{horizons[i]}"), near))
    return {"decreases": found}
