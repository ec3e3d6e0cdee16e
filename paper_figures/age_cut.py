"""An age limit drops long samples: the share trained against length, and mean lengths by system."""

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
from paper_figures._vcpo import percents
from paper_figures.systems_stories import NEAR, intervals, number

EXPERIMENTS = {"systems_stories": {"story": "cut", "task": "none (timing only)"}}
CUTS = {
    "prime_rl": "prime-rl",
    "nemo_rl_windowed": "NeMo RL, window",
    "trl": "TRL",
    "verl_separate_async drop": "verl, drop",
    "verl_separate_async wait": "verl, wait",
    "nemo_rl_in_order": "NeMo RL, in order",
    "torchtitan": "torchtitan",
    "areal": "AReaL",
}
"""Systems with limit or allowance 2, those that drop first."""


def predicted(limit: int) -> dict[str, float]:
    """Predicted share kept, mean length and period of the open loop."""
    point = {
        "length": systems_stories.LAW,
        "places": systems_stories.OPEN["max_inflight_tasks"],
        "groups_per_batch": systems_stories.BATCH,
        "max_age": limit,
    }
    return claims.claim("systems/age-cut-length-bias").predict(point)


def keeping(limit: int, lengths: np.ndarray) -> np.ndarray:
    """Predicted probability that a sample of so much work is trained."""
    return np.clip(limit + 1.0 - lengths / predicted(limit)["period"], 0.0, 1.0)


def draw_kept(ax: Axes, rows: Any) -> bool:
    """Share trained of each bin of lengths, for three limits; whether long ones are dropped."""
    grid = np.linspace(0.0, 4.8, 400)
    for limit, shade in _script.shades([0, *rows.limit])[1:]:
        levels, mean, half = intervals(rows[rows.limit == limit], "kept")
        ax.plot(grid, keeping(limit, grid), **_style.PREDICTED)
        look = {**_style.MEASURED, "color": shade, "markersize": 2.8}
        ax.errorbar(levels + 0.05, mean, yerr=half, label=f"limit {limit}", **look)
    ax.set(xlim=(0.0, 4.8), ylim=(0, 1.05), xlabel="length of a sample / mean length")
    ax.set_ylabel("share of samples used for training")
    percents(ax.yaxis)
    own = rows[rows.quantity == "kept"].groupby(["limit", "level"]).value.mean().unstack()
    ax.legend(loc="upper right", frameon=False)
    ax.set_title("A system without waiting, by staleness limit")
    return bool((own.iloc[:, -1] < 0.5 * own.iloc[:, 0]).all())


def draw_systems(ax: Axes, rows: Any) -> bool:
    """Mean length trained of every system; whether those that drop, and no others, train on shorter samples."""
    dropped, shorter = [], []
    for place, system in enumerate(CUTS):
        own = rows[rows.system == system]
        dropped.append(number(own, "dropped")[0] > 0)
        (length, half), (drawn, _) = number(own, "length_trained"), number(own, "length_drawn")
        shorter.append(length < 0.9 * drawn)
        color = _style.COLORS["contrast" if dropped[-1] else "measured"]
        ax.errorbar(length / drawn, place, xerr=half / drawn, color=color, **_style.MEASURED)
    ax.axvline(1.0, **_style.REFERENCE)
    ax.set(ylim=(len(CUTS) - 0.5, -0.5), yticks=range(len(CUTS)), yticklabels=list(CUTS.values()), xlim=(0, 1.1))
    ax.set(xlabel="mean trained length / mean generated length")
    ax.set_title(f"Limit {rows.limit.max():g} (orange: stale samples dropped)")
    return any(dropped) and not all(dropped) and shorter == dropped


def draw(rows: Any) -> Figure:
    """The open loop, and eight systems."""
    own = rows[rows.story == "cut"]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        left, right = figure.subplots(1, 2)
        falls = draw_kept(left, own[own.system == "open loop"])
        shorter = draw_systems(right, own[own.system != "open loop"])
        _script.headline(figure, falls and shorter, "Lengths trained under a staleness limit")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Mean lengths trained under an age limit: of the open loop beside its prediction, and of systems that drop."""
    own = rows[rows.story == "cut"]
    loop = own[own.system == "open loop"]
    off, kept, shares = [], [], []
    for limit in sorted(int(each) for each in loop.limit.unique()):
        mean = number(loop[loop.limit == limit], "length_trained")[0]
        off.append(abs(mean / predicted(limit)["mean_length"] - 1.0))
        levels, share, _ = intervals(loop[loop.limit == limit], "kept")
        kept.append(np.nanmax(np.abs(share - keeping(limit, levels + 0.05))))
    for system in CUTS:
        part = own[own.system == system]
        if number(part, "dropped")[0]:
            shares.append(number(part, "length_trained")[0])
    return {
        "off": f"{100 * max(off):.1f}",
        "kept": f"{max(kept):.2f}",
        "shortest": f"{min(shares):.2f}",
        "longest": f"{max(shares):.2f}",
    }


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether a system trains on samples clearly shorter than those that it generates; inside: it drops samples."""
    found = []
    for system, name in CUTS.items():
        own = _script.pick(rows, story="cut", system=system)
        drawn = number(own, "length_drawn")[0]
        ratio, half = (each / drawn for each in number(own, "length_trained"))
        drops = number(own, "dropped")[0] > 0
        place = (f"systems that {'drop' if drops else 'do not drop'} samples", name.replace(", ", " "))
        found.append(Setting(place, decided(ratio + half < 1.0 - NEAR, ratio - half > 1.0 - NEAR), drops))
    return {"shorter": found}
