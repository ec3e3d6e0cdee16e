"""Learning curves of PPO on CartPole beside those of stable-baselines3, on whole batches and on minibatches."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from asyncsim.plotting import _style
from experiments.cartpole_minibatches import SIZE
from paper_figures import _script
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"cartpole_parity": {"task": "CartPole", "staleness": "0"}, "cartpole_minibatches": {"staleness": "0"}}
SIDES = {"asyncsim": "measured", "stable-baselines3": "contrast"}
NEAR = 10.0
"""Percent within which the whole interval of a difference is no difference."""
LEVEL = 0.9
"""Level of the interval of the difference between both sides."""


def draw_curves(ax: Axes, rows: Any) -> Axes:
    """Mean training return against environment steps, both sides, with 95 percent bands."""
    for side, color in SIDES.items():
        own = rows[rows.side == side]
        steps = np.sort(own.steps.unique())
        seeds = [own[own.steps == step].episode_return.to_numpy() for step in steps]
        mean, half = np.array([_script.interval(each) for each in seeds]).T
        ax.plot(steps / 1e3, mean, color=_style.COLORS[color], label=side)
        ax.fill_between(
            steps / 1e3,
            mean - half,
            mean + half,
            color=_style.COLORS[color],
            alpha=0.2,
            linewidth=0,
            label="95 % intervals",
        )
    ax.set(xlabel="environment steps (1000)", ylim=(0, 515), xlim=(0, None))
    return ax


def draw(curves: Any, minibatches: Any) -> Figure:
    """Whole batches and minibatches on one axis of returns."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.4)
        left, right = figure.subplots(1, 2, sharey=True)
        draw_curves(left, curves).set(ylabel="episode return")
        draw_curves(right, minibatches)
        left.set_title("Whole batches")
        right.set_title("Minibatches")
        areas = [compare_areas(rows) for rows in (curves, minibatches)]
        same = all(-NEAR < float(each["low"]) < float(each["high"]) < NEAR for each in areas)
        words = "PPO learns CartPole equally fast in asyncsim and in stable-baselines3"
        title = _script.finding(same, words, "PPO on CartPole in asyncsim and in stable-baselines3")
        figure.suptitle(title, x=0.01, ha="left")
        for side, place in zip(SIDES, (0.16, 0.06), strict=True):
            color = _style.COLORS[SIDES[side]]
            left.text(0.97, place, side, color=color, ha="right", transform=left.transAxes)
    return figure


def compare_areas(curves: Any) -> dict[str, str]:
    """Areas under the learning curves of both sides, with the interval of their difference."""
    area = {side: curves[curves.side == side].groupby("seed").episode_return.mean() for side in SIDES}
    ours, theirs = (area[side].to_numpy() for side in SIDES)
    reach = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(LEVEL)
    return {
        "seeds": f"{len(ours)}",
        "area": f"{ours.mean():.0f}",
        "peer_area": f"{theirs.mean():.0f}",
        "low": f"{100 * reach.low / theirs.mean():+.1f}",
        "high": f"{100 * reach.high / theirs.mean():+.1f}",
    }


def numbers(curves: Any, minibatches: Any) -> dict[str, str]:
    """Areas under the learning curves on whole batches and on minibatches."""
    cut = {f"cut_{name}": text for name, text in compare_areas(minibatches).items() if name != "seeds"}
    return {**compare_areas(curves), **cut, "size": f"{SIZE}", "level": f"{100 * LEVEL:.0f}"}


def held(curves: Any, minibatches: Any) -> dict[str, list[Setting]]:
    """Whether the interval of the difference of areas is within ten percent, by kind of batches."""
    found = []
    for name, rows in (("full batches", curves), ("minibatches", minibatches)):
        low, high = (float(compare_areas(rows)[end]) for end in ("low", "high"))
        found.append(Setting((name,), decided(low > -NEAR and high < NEAR, high < -NEAR or low > NEAR)))
    return {"parity": found}
