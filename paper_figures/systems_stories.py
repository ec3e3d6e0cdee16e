"""A configured mean of staleness bounds no straggler, and every bound has its price in time or in long samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim import theory
from asyncsim.base import laws
from asyncsim.plotting import _style
from experiments import systems_stories
from paper_figures import _script

EXPERIMENTS = ("systems_stories",)
LOOKS: dict[str, dict[str, Any]] = {
    "areal": {"color": _style.COLORS["measured"], "marker": "o", "label": "areal"},
    "torchtitan": {"color": "#7b4fa3", "marker": "v", "label": "torchtitan"},
    "verl_separate_async wait": {"color": "#1a7f4e", "marker": "s", "label": "verl, wait"},
    "nemo_rl_in_order": {"color": "#77808c", "marker": "D", "label": "nemo_rl, in order"},
    "verl_separate_async drop": {"color": _style.COLORS["contrast"], "marker": "^", "label": "verl, drop"},
}
NAMES = {"lognormal": r"Lognormal lengths, $\sigma = 1.5$", "pareto": r"Pareto lengths, $P(L > x) \sim x^{-1.5}$"}
FLOOR = 2e-6
CUTS = {
    "prime_rl": "prime_rl",
    "nemo_rl_windowed": "nemo_rl, windowed",
    "trl": "trl",
    "verl_separate_async drop": "verl, drop",
    "verl_separate_async wait": "verl, wait",
    "nemo_rl_in_order": "nemo_rl, in order",
    "torchtitan": "torchtitan",
    "areal": "areal",
}
"""Systems with limit or allowance 2, those that drop first."""
WAITING = {"nemo_rl_in_order": "nemo", "torchtitan": "titan", "verl_separate_async wait": "wait"}
TAIL = (10, 20, 40)
"""Levels of staleness whose probabilities are quoted."""
TICKS: dict[str, Any] = {"xticks": [0.1, 1, 10], "xticklabels": ["0.1", "1", "10"]}


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
    """Predicted P(s >= k) of areal at eta = 4 where the law applies: levels k and probabilities."""
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
    found = theory.claim("systems/straggler-tail").predict(point)
    return np.array(levels), np.array([found[f"tail[{k}]"] for k in levels])


def draw_survival(ax: Axes, rows: Any, kind: str) -> Axes:
    """P(s >= k) of every system, on logarithmic axes; bounded ones fall off."""
    ax.axvspan(0.9, 4.0, color=_style.COLORS["effect"], linewidth=0)
    for system, look in LOOKS.items():
        own = rows[(rows.system == system) & (rows.length == systems_stories.HEAVY[kind])]
        levels, mean, half = intervals(own, "survival")
        seen = mean > 0
        low = np.minimum(half[seen], mean[seen] - FLOOR / 2)
        style = {**_style.MEASURED, **look, "markersize": 2.8, "zorder": 3 if system == "areal" else 2.5}
        ax.errorbar(levels[seen], mean[seen], yerr=[np.maximum(low, 0.0), half[seen]], **style)
        if seen.all():
            continue
        # A line through the points and down, where nothing is left.
        ends = np.append(levels[seen], levels[~seen][0]), np.append(mean[seen], FLOOR / 10)
        ax.plot(*ends, color=look["color"], linewidth=0.9, zorder=2)
    ax.plot(*stragglers(systems_stories.HEAVY[kind]), **_style.PREDICTED, zorder=4, label="areal, predicted")
    ax.set(xscale="log", yscale="log", xlim=(0.9, 300), ylim=(FLOOR, 3.0), xlabel="staleness $k$ (versions)")
    ax.set(xticks=[1, 4, 10, 40, 200], xticklabels=["1", "4", "10", "40", "200"])
    ax.set_title(NAMES[kind])
    return ax


def draw_price(ax: Axes, rows: Any) -> Axes:
    """Throughput against mean length trained, of both laws; filled lognormal, hollow Pareto."""
    for system, look in LOOKS.items():
        for kind, length in systems_stories.HEAVY.items():
            own = rows[(rows.system == system) & (rows.length == length)]
            speed, length_trained = number(own, "throughput"), number(own, "length_trained")
            style = {**_style.MEASURED, **look, "markersize": 5.0, "label": None}
            style["mfc"] = look["color"] if kind == "lognormal" else "white"
            scale = 100.0 / systems_stories.BATCH
            ax.errorbar(speed[0] * scale, length_trained[0], xerr=speed[1] * scale, yerr=length_trained[1], **style)
    ax.text(103, 1.05, "areal:\nno bound", ha="right", color=LOOKS["areal"]["color"])
    ax.text(12, 0.95, "three that wait\nfor the long", va="top", color=LOOKS["verl_separate_async wait"]["color"])
    ax.text(94, 0.755, "drops\nthe long", ha="right", va="center", color=LOOKS["verl_separate_async drop"]["color"])
    ax.set(xlim=(5, 108), ylim=(0.55, 1.15), xlabel="speed, % of the trainer's")
    ax.set(ylabel="mean length trained / generated")
    ax.plot([], [], "o", color=_style.COLORS["muted"], markersize=4, label="lognormal")
    ax.plot([], [], "o", color=_style.COLORS["muted"], markersize=4, mfc="white", label="Pareto")
    ax.legend(loc="lower left", borderpad=0.0)
    ax.set_title("The price of a bound")
    return ax


def cut_law(limit: int) -> dict[str, float]:
    """Predicted share kept, mean length and period of the open loop."""
    point = {
        "length": systems_stories.LAW,
        "places": systems_stories.OPEN["max_inflight_tasks"],
        "groups_per_batch": systems_stories.BATCH,
        "max_age": limit,
    }
    return theory.claim("systems/age-cut-length-bias").predict(point)


def keeping(limit: int, lengths: np.ndarray) -> np.ndarray:
    """Predicted probability that a sample of so much work is trained."""
    return np.clip(limit + 1.0 - lengths / cut_law(limit)["period"], 0.0, 1.0)


def draw_kept(ax: Axes, rows: Any) -> Axes:
    """Share trained of each bin of lengths, for three limits, on the predicted curves."""
    grid = np.linspace(0.0, 4.8, 400)
    for limit, shade in _script.shades(rows.limit):
        own = rows[rows.limit == limit]
        levels, mean, half = intervals(own, "kept")
        ax.plot(grid, keeping(limit, grid), **_style.PREDICTED)
        look = {**_style.MEASURED, "color": shade, "markersize": 2.8}
        ax.errorbar(levels + 0.05, mean, yerr=half, label=f"$m = {limit}$", **look)
    ax.plot([], [], label="predicted", **_style.PREDICTED)
    ax.set(xlim=(0.0, 4.8), xlabel="length of a sample (mean lengths)", ylabel="share trained")
    ax.legend(loc="upper right", borderpad=0.0, handlelength=1.3)
    ax.set_title("An age limit $m$ cuts by length")
    return ax


def step() -> float:
    """From the lower edge of a bin to its middle."""
    edges = systems_stories.EDGES
    return float(np.sqrt(edges[1] / edges[0]))


def draw_lengths(ax: Axes, rows: Any, limit: int) -> Axes:
    """Lengths generated and trained under one limit, shares of bins; predicted from the law and the keeping."""
    own = rows[rows.limit == limit]
    edges, law = np.array(systems_stories.EDGES), laws.Law.parse(systems_stories.LAW)
    drawn = -np.diff(law.survival(edges))
    middle = edges[:-1] * step()
    taken = drawn * keeping(limit, middle)
    for quantity, color, predicted in (("generated", "muted", drawn), ("trained", "contrast", taken / taken.sum())):
        levels, mean, half = intervals(own, quantity)
        ax.bar(levels, mean, np.diff(edges), align="edge", color=_style.COLORS[color], alpha=0.35, linewidth=0)
        look = {**_style.MEASURED, "color": _style.COLORS[color], "markersize": 2.2}
        ax.errorbar(levels * step(), mean, yerr=half, label=quantity, **look)
        ax.plot(middle, predicted, **_style.PREDICTED)
    trained, all_ = number(own, "length_trained"), number(own, "length_drawn")
    means = f"means\ngenerated {all_[0]:.3f}\ntrained {trained[0]:.3f}\npredicted {cut_law(limit)['mean_length']:.3f}"
    ax.text(0.99, 0.97, means, transform=ax.transAxes, ha="right", va="top", fontsize=6.5)
    ax.set(xscale="log", xlim=(0.05, 20), ylim=(0.0, 0.128), xlabel="length of a sample (mean lengths)")
    ax.set(ylabel="share of samples in bin", **TICKS)
    ax.legend(loc="upper left", borderpad=0.0)
    ax.set_title(f"Long samples are missing ($m = {limit}$)")
    return ax


def draw_systems(ax: Axes, rows: Any) -> Axes:
    """Mean length trained by system, with what each loses."""
    for line, system in enumerate(CUTS):
        own = rows[rows.system == system]
        length, drawn = number(own, "length_trained"), number(own, "length_drawn")
        lost, wasted = number(own, "dropped")[0], number(own, "wasted")[0]
        color = _style.COLORS["contrast" if lost else "measured"]
        ax.barh(line, 100.0 * wasted, color=_style.COLORS["contrast"], alpha=0.3, height=0.62, linewidth=0)
        scale = 100.0 / drawn[0]
        ax.errorbar(scale * length[0], line, xerr=scale * length[1], color=color, **_style.MEASURED)
        speed = number(own, "throughput")[0]
        ax.text(150, line, f"{speed:.0f}/s", va="center", ha="right", fontsize=6.5)
    ax.text(150, -0.95, "groups", ha="right", fontsize=6.5)
    ax.axvline(100.0, **_style.PREDICTED)
    ax.set(ylim=(len(CUTS) - 0.4, -1.5), yticks=range(len(CUTS)), yticklabels=list(CUTS.values()), xlim=(0, 152))
    ax.set(xticks=[0, 50, 100], xlabel="dot: mean length, bar: tokens\nwasted (% of generated)")
    ax.set_title("Drop, wait, or no bound")
    return ax


def draw(rows: Any) -> Figure:
    """Above, the straggler behind a configured mean; below, the lengths behind an age limit."""
    first, second = rows[rows.story == "straggler"], rows[rows.story == "cut"]
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 5.6)
        upper, lower = np.asarray(figure.subfigures(2, 1))
        above, below = upper.subplots(1, 3), lower.subplots(1, 3)
        for ax, kind in zip(above[:2], systems_stories.HEAVY, strict=True):
            draw_survival(ax, first, kind)
        above[0].set(ylabel="P(staleness $\\geq k$)")
        above[1].set(yticklabels=[])
        above[0].annotate(r"$\eta = 4$", (4.0, 3e-6), (1.1, 3e-6), va="center")
        above[1].legend(loc="upper right", borderpad=0.0, fontsize=6.0)
        draw_price(above[2], first)
        loop = second[second.system == "open loop"]
        draw_kept(below[0], loop)
        draw_lengths(below[1], loop, 2)
        draw_systems(below[2], second[second.system != "open loop"])
        _script.caption(
            figure,
            "Above: five systems set to run 4 versions ahead of a slow trainer (verl: verl_separate_async).",
            "Measured: how stale trained groups are, speed, lengths. Below: what an age limit drops; an open loop with",
            "64 groups in flight, and, right, eight systems with limit or allowance 2 and 96 groups in flight.",
            "95 % intervals over realizations. Dashed: predicted without fitting.",
        )
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Stragglers beside their law, what bounds cost, and lengths under an age limit."""
    first, second = rows[rows.story == "straggler"], rows[rows.story == "cut"]
    held = [_covered(first, length) for length in systems_stories.HEAVY.values()]
    found = {"covered": f"{sum(h.sum() for h in held)}", "levels": f"{sum(h.size for h in held)}"}
    for kind, length in systems_stories.HEAVY.items():
        own = first[first.length == length]
        found |= {f"{kind}_{key}": text for key, text in _stragglers(own, length).items()}
    largest = first[first.quantity == "largest"].groupby("system").value.max()
    for name, key in (*WAITING.items(), ("verl_separate_async drop", "drop")):
        found[f"{key}_largest"] = f"{largest.get(name, np.nan):.0f}"
    return {**found, **_lengths(second)}


def _covered(rows: Any, length: str) -> np.ndarray:
    """Whether areal's interval at each level to which the law applies contains the prediction."""
    own = rows[(rows.system == "areal") & (rows.length == length)]
    levels, law = stragglers(length)
    if own.empty:
        return np.zeros(0, dtype=bool)
    known, mean, half = intervals(own, "survival")
    kept = np.isin(known, levels)
    return np.abs(mean[kept] - law) <= half[kept]


def _stragglers(rows: Any, length: str) -> dict[str, str]:
    """Of one law of lengths: areal's mean and tail, and the speeds of those that wait or drop."""
    own = rows[rows.system == "areal"]
    if own.empty:
        return dict.fromkeys(("mean", "tail", "predicted", "largest", "waiting", "dropped", "wasted", "kept"), "nan")
    mean, law = number(own, "mean"), dict(zip(*stragglers(length), strict=True))
    tail = own[(own.quantity == "survival") & own.level.isin(TAIL)].groupby("level").value.mean()
    speed = rows[rows.quantity == "throughput"].groupby("system").value.mean()
    drop = rows[rows.system == "verl_separate_async drop"].groupby("quantity").value.mean()
    return {
        "mean": f"{mean[0]:.4f} ± {mean[1]:.4f}",
        "tail": ", ".join(f"{value:.3g}" for value in tail),
        "predicted": ", ".join(f"{law[level]:.3g}" for level in TAIL),
        "largest": f"{number(own, 'largest')[0]:.0f}",
        "waiting": _script.listed(f"{speed.get(name, np.nan):.1f}" for name in WAITING),
        "dropped": f"{100 * drop.get('dropped', np.nan):.1f}",
        "wasted": f"{100 * drop.get('wasted', np.nan):.0f}",
        "kept": f"{drop.get('length_trained', np.nan):.3f}",
    }


def _lengths(rows: Any) -> dict[str, str]:
    """Mean lengths trained under an age limit: of the open loop, and of every system."""
    mean = rows[rows.level.isna()].groupby(["system", "limit", "quantity"]).value.mean()
    loop = mean.get("open loop")
    limits = sorted(rows[rows.system == "open loop"].limit.unique())
    dropping = [name for name in CUTS if mean.get((name, 2, "dropped"), 0.0) > 0]
    wasted = [100 * mean[name, 2, "wasted"] for name in dropping] or [np.nan]
    return {
        "limits": _script.listed(f"{limit:g}" for limit in limits),
        "drawn": f"{loop.loc[(slice(None), 'length_drawn')].mean():.2f}",
        "trained": _script.listed(f"{loop[limit, 'length_trained']:.3f}" for limit in limits),
        "law": _script.listed(f"{cut_law(int(limit))['mean_length']:.3f}" for limit in limits),
        "cut": _script.listed(f"{mean[name, 2, 'length_trained']:.2f}" for name in dropping),
        "waste_least": f"{min(wasted):.0f}",
        "waste_most": f"{max(wasted):.0f}",
        "keeping": f"{len(CUTS) - len(dropping)}",
    }
