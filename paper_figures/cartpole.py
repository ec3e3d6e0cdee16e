"""PPO on CartPole: the learning curve beside stable-baselines3's, and which learning rates survive staleness."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from asyncsim.plotting import _style
from experiments.cartpole_minibatches import SIZE
from paper_figures import _script

EXPERIMENTS = ("cartpole_parity", "cartpole_staleness", "cartpole_minibatches")
SIDES = {"asyncsim": "measured", "stable-baselines3": "contrast"}
LEVEL = 0.9
"""Level of the interval of the difference between both sides."""
CORRECTIONS = {"none": "Anchor recomputed (blind)", "behavior": "Anchor: behavior log-probs"}


def draw_curves(ax: Axes, rows: Any) -> Axes:
    """Mean training return against environment steps, both sides, with 95 percent bands."""
    for side, color in SIDES.items():
        own = rows[rows.side == side]
        steps = np.sort(own.steps.unique())
        points = [_script.interval(own[own.steps == step].episode_return.to_numpy()) for step in steps]
        mean, half = np.array(points).T
        seeds = own.seed.nunique()
        ax.plot(steps / 1e3, mean, color=_style.COLORS[color], label=f"{side} ({seeds} seeds)")
        ax.fill_between(steps / 1e3, mean - half, mean + half, color=_style.COLORS[color], alpha=0.2, linewidth=0)
    ax.set(xlabel="environment steps (1000)", ylabel="episode return", ylim=(0, 515), xlim=(0, None))
    ax.set_title("Staleness 0: the same PPO")
    ax.legend(loc="lower right")
    return ax


def draw_rates(ax: Axes, rows: Any, correction: str) -> Axes:
    """Final return against the learning rate, one line per staleness."""
    levels = _script.shades(rows.staleness)
    for k, (level, shade) in enumerate(levels):
        own = rows[(rows.staleness == level) & (rows.correction == correction)]
        rates = np.sort(own.rate.unique())
        mean, half = np.array([_script.interval(own[own.rate == rate].final_return.to_numpy()) for rate in rates]).T
        # Points of one rate stand side by side, so that their intervals can be told apart.
        shift = rates * 1.04 ** (k - (len(levels) - 1) / 2)
        look = {**_style.MEASURED, "linestyle": "-", "linewidth": 0.8, "color": shade}
        ax.errorbar(shift, mean, yerr=half, label=str(level), **look)
    ax.set_xscale("log")
    ax.set(xlabel="learning rate", ylim=(0, 515), xticks=rates)
    ax.set_xticklabels([f"{rate:g}" for rate in rates])
    ax.minorticks_off()
    ax.set_title(CORRECTIONS[correction])
    return ax


def draw(curves: Any, rows: Any, minibatches: Any) -> Figure:
    """Three panels that share the axis of returns."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 2.7)
        left, middle, right = figure.subplots(1, 3, sharey=True)
        draw_curves(left, curves)
        draw_rates(middle, rows, "none")
        draw_rates(right, rows, "behavior")
        middle.set_ylabel("final episode return")
        right.legend(title="staleness (versions)", loc="lower right", fontsize=6, title_fontsize=6, ncols=3)
        _script.caption(
            figure,
            "PPO on CartPole. Varied: side (left); constant staleness, learning rate and anchor of the clipped ratio",
            "(middle, right). Measured: mean return of training episodes, 95 % intervals over seeds.",
        )
    return figure


def compare_areas(curves: Any) -> dict[str, str]:
    """Areas under the learning curves of both sides, with the interval of their difference."""
    area = {side: curves[curves.side == side].groupby("seed").episode_return.mean() for side in SIDES}
    ours, theirs = (area[side].to_numpy() for side in SIDES)
    reach = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(LEVEL)
    return {
        "seeds": f"{len(ours)}",
        "area": f"{ours.mean():.0f}",
        "peer_seeds": f"{len(theirs)}",
        "peer_area": f"{theirs.mean():.0f}",
        "low": f"{100 * reach.low / theirs.mean():+.1f}",
        "high": f"{100 * reach.high / theirs.mean():+.1f}",
    }


def numbers(curves: Any, rows: Any, minibatches: Any) -> dict[str, str]:
    """Areas under the learning curves on whole batches and on minibatches, and the best final returns."""
    found = {
        **compare_areas(curves),
        **{f"cut_{name}": text for name, text in compare_areas(minibatches).items()},
        "size": f"{SIZE}",
        "level": f"{100 * LEVEL:.0f}",
        "rates": f"{rows.rate.nunique()}",
        "rate_seeds": f"{rows.seed.nunique()}",
        "staleness": _script.listed(f"{level}" for level in sorted(rows.staleness.unique())),
    }
    final = rows.groupby(["correction", "staleness", "rate"]).final_return.mean()
    best = final.groupby(["correction", "staleness"]).max()
    for correction, name in (("none", "blind"), ("behavior", "behavior")):
        known = best.loc[correction] if correction in best else []
        found[name] = _script.listed(f"{value:.0f}" for value in known)
        found[f"{name}_last"] = f"{known.iloc[-1]:.0f}" if len(known) else "unknown"
    return found
