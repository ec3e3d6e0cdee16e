"""A configured mean of staleness bounds no straggler, and what bounds it costs speed or long samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim import claims
from asyncsim.plotting import _style
from experiments import systems_stories
from paper_figures import _script
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"systems_stories": {"story": "straggler", "task": "none (timing only)"}}
LOOKS: dict[str, tuple[str, str, str]] = {
    "areal": ("measured", "o", "AReaL"),
    "torchtitan": ("muted", "v", ""),
    "verl_separate_async wait": ("muted", "s", ""),
    "nemo_rl_in_order": ("muted", "D", ""),
    "verl_separate_async drop": ("contrast", "^", "verl, drops groups"),
}
"""Color, marker and name: gray where the trainer waits for late groups, orange where they are dropped."""
KIND = "lognormal"
"""Lengths that are drawn."""
FLOOR = 2e-6
NEAR = 0.02
"""Distance from the cap, relative to it, at which a mean staleness is the cap."""
WAITING = ("nemo_rl_in_order", "torchtitan", "verl_separate_async wait")


def intervals(rows: Any, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Levels, means over realizations and half intervals of one quantity."""
    own = rows[rows.quantity == quantity]
    levels = np.sort(own.level.unique())
    mean, half = np.array([_script.interval(own[own.level == level].value) for level in levels]).T
    return levels, mean, half


def number(rows: Any, quantity: str) -> tuple[float, float]:
    """Mean over realizations of one quantity and half its interval."""
    return _script.interval(rows[rows.quantity == quantity].value)


def stragglers(length: str) -> tuple[np.ndarray, np.ndarray]:
    """Predicted P(s >= k) of areal at eta = 4 where the claim applies: levels k and probabilities."""
    levels = tuple(level for level in systems_stories.LEVELS if level >= 5)
    point = {
        "tickets": 5 * systems_stories.BATCH,
        "groups_per_batch": systems_stories.BATCH,
        "release": "publish",
        "samples_per_group": 1,
        "length": length,
        "period": 1.0,
        "levels": levels,
    }
    found = claims.claim("systems/straggler-tail").predict(point)
    return np.array(levels), np.array([found[f"tail[{k}]"] for k in levels])


def draw_survival(ax: Axes, rows: Any) -> bool:
    """P(s >= k) of every system, on logarithmic axes; whether the limit is areal's mean and far below its largest."""
    for system, (color, marker, _) in LOOKS.items():
        levels, mean, half = intervals(rows[rows.system == system], "survival")
        seen, shade = mean > 0, _style.COLORS[color]
        low = np.maximum(np.minimum(half[seen], mean[seen] - FLOOR / 2), 0.0)
        look = {**_style.MEASURED, "marker": marker, "color": shade, "markersize": 2.8}
        ax.errorbar(levels[seen], mean[seen], yerr=[low, half[seen]], zorder=3 if system == "areal" else 2.5, **look)
        if not seen.all():
            # A line through the points and down, where nothing is left.
            ends = np.append(levels[seen], levels[~seen][0]), np.append(mean[seen], FLOOR / 10)
            ax.plot(*ends, color=shade, linewidth=0.9, zorder=2)
    ax.plot(*stragglers(systems_stories.HEAVY[KIND]), label="predicted for AReaL", **_style.PREDICTED, zorder=4)
    ax.axvline(4.0, **_style.REFERENCE)
    most = max(number(rows[rows.system == system], "largest")[0] for system in LOOKS if system != "areal")
    ax.text(8.5, 1e-4, "verl, drops groups", color=_style.COLORS["contrast"])
    for height, words in ((3e-5, "systems that wait"), (1e-5, f"(all ≤ {most:.0f})")):
        ax.text(8.5, height, words, color=_style.COLORS["muted"])
    ax.set(xscale="log", yscale="log", xlim=(0.9, 500), ylim=(FLOOR, 4.0), xlabel="staleness $k$ (versions)")
    ax.set(
        xticks=[1, 4, 10, 40, 200],
        xticklabels=["1", "4", "10", "40", "200"],
        ylabel="share of samples\nwith staleness $\\geq k$",
    )
    own = rows[rows.system == "areal"]
    limit, largest = number(own, "mean")[0], number(own, "largest")[0]
    ax.text(4.3, 2.0, f"AReaL's mean {limit:.1f}", color=_style.COLORS["muted"], va="center")
    ax.text(20, 9e-3, f"AReaL's maximum {largest:.0f}", color=_style.COLORS["measured"])
    ax.set_title("Staleness of samples")
    return abs(limit / 4.0 - 1.0) < NEAR and largest > 10.0 * limit


def draw_price(ax: Axes, rows: Any) -> bool:
    """Mean length trained against throughput; whether hard limits cost either."""
    for system, (color, marker, name) in LOOKS.items():
        own, shade, scale = rows[rows.system == system], _style.COLORS[color], 100.0 / systems_stories.BATCH
        (speed, reach), (length, half) = number(own, "throughput"), number(own, "length_trained")
        look = {**_style.MEASURED, "marker": marker, "color": shade}
        ax.errorbar(scale * speed, length, xerr=scale * reach, yerr=half, **look)
        if name:
            ax.text(
                scale * speed - 2,
                length + (0.07 if length > 0.9 else -0.07),
                name,
                color=shade,
                ha="right",
                va="center",
            )
    ax.text(14, 0.94, "NeMo RL, torchtitan\nand verl", color=_style.COLORS["muted"], va="top")
    ax.axhline(1.0, zorder=1, **_style.REFERENCE)
    ax.set(
        xlim=(0, 108),
        ylim=(0, 1.15),
        xlabel="throughput (% of a trainer that never waits)",
        ylabel="mean trained length /\nmean generated length",
    )
    ends = {s: [number(rows[rows.system == s], q)[0] for q in ("throughput", "length_trained")] for s in LOOKS}
    costs = [ends[s][0] < 0.9 * ends["areal"][0] or ends[s][1] < 0.9 for s in LOOKS if s != "areal"]
    ax.set_title("Throughput and lengths trained")
    return all(costs)


def draw(rows: Any) -> Figure:
    """The straggler behind a configured mean, and the price of a bound."""
    own = rows[(rows.story == "straggler") & (rows.length == systems_stories.HEAVY[KIND])]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2)
        holds, costs = draw_survival(left, own), draw_price(right, own)
        _script.headline(figure, holds and costs, "Staleness, throughput and lengths under limits")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Stragglers beside their prediction, and what bounds cost."""
    first = rows[rows.story == "straggler"]
    held = [_covered(first, length) for length in systems_stories.HEAVY.values()]
    found = {"covered": f"{sum(h.sum() for h in held)}", "levels": f"{sum(h.size for h in held)}"}
    own = first[(first.length == systems_stories.HEAVY["lognormal"]) & (first.system == "areal")]
    found |= {"near": f"{100 * NEAR:.0f}", "lognormal_mean": f"{number(own, 'mean')[0]:.2f}"}
    every = first[first.system == "areal"].groupby("length")
    for kind, length in systems_stories.HEAVY.items():
        found[f"{kind}_largest"] = f"{number(every.get_group(length), 'largest')[0]:,.0f}"
    speed = first[first.system.isin(WAITING) & (first.quantity == "throughput")]
    speed = speed.groupby(["length", "system"]).value.mean() * 100.0 / systems_stories.BATCH

    return {**found, "slow": f"{speed.min():.0f}", "fast": f"{speed.max():.0f}"}


def _covered(rows: Any, length: str) -> np.ndarray:
    """Whether areal's interval at each level to which the claim applies contains the prediction."""
    known, mean, half = intervals(rows[(rows.system == "areal") & (rows.length == length)], "survival")
    levels, expected = stragglers(length)
    inside = np.isin(known, levels)
    return np.abs(mean[inside] - expected) <= half[inside]


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether AReaL's cap of 4 is the maximum and the mean staleness."""
    found, largest = [], []
    own = _script.pick(rows, story="straggler", system="areal", quantity="mean")
    stalest = _script.pick(rows, story="straggler", system="areal", quantity="largest")
    for kind, length in systems_stories.HEAVY.items():
        place: tuple[str, ...] = (f"slow trainer, {kind} lengths",)
        found.append(Setting(place, capped(own[own.length == length]), True))
        largest.append(Setting(place, bool(stalest[stalest.length == length].value.max() <= 4.0)))
    return {"capped": found, "bounded": largest}


def capped(rows: Any) -> bool | None:
    """Whether the mean over realizations lies within `NEAR` of the cap of 4."""
    mean, half = _script.interval(rows.groupby("realization").value.first())
    off = abs(mean / 4.0 - 1.0)
    return decided(off + half / 4.0 < NEAR, off - half / 4.0 > NEAR)
