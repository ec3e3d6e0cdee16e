"""What the first update alone forecasts: how far policies drift apart, and the ESS of stale batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting
from paper_figures._vcpo_ess import drawn, forecast, law, means
from paper_figures._vcpo_ess import drift as numbers

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"vcpo_ess": {"task": "token bandit"}}
REWARDS = {"tokens": {"color": look.COLOR["measured"], "marker": "s"},
           "chance": {"color": look.COLOR["contrast"], "marker": "s"}}  # fmt: skip
PREDICTED = "predicted from the first update"
LENGTH = 16
"""Tokens of the runs whose drift is drawn; that of other lengths coincides."""
LEVELS = [2**k for k in range(8)]


def met(rows: Any) -> bool:
    """Whether variances of batches from before training lie within a factor of 1.5 of the law of one update."""
    own = means(rows, "start", "log_variance", "tokens")
    own = own[own.length == LENGTH]
    ratio = own.value / LENGTH / law(rows, "tokens", own.staleness.to_numpy(dtype=float))
    return bool(((ratio > 1 / 1.5) & (ratio < 1.5)).all())


def parts(rows: Any) -> bool:
    """Whether ESS under random rewards leaves the forecast by 0.03 and more only beyond a staleness of 32."""
    own = means(rows, "start", "ess", "chance")
    apart = own.value - np.exp(-own.length * law(rows, "chance", own.staleness.to_numpy(dtype=float)))
    return bool(((abs(apart) > 0.03) == (own.staleness > 32)).all())


def draw_drift(ax: Axes, rows: Any) -> None:
    """Variance of a sequence's log ratio against staleness, with the law of one update."""
    every = np.geomspace(1.0, 128.0, 60)
    for reward, style in REWARDS.items():
        ax.plot(every, LENGTH * law(rows, reward, every), label=PREDICTED, **_style.PREDICTED)
        own = means(rows, "start", "log_variance", reward)
        own = own[own.length == LENGTH].sort_values("staleness")
        look.points(ax, own.staleness, own, **style)
    ax.set_xscale("log", base=2)
    look.ticks(ax.xaxis, LEVELS)
    ax.set(yscale="log", ylim=(1e-4, 30.0), xlabel="staleness (versions)", ylabel="variance (nats²)")
    ax.set_title(f"Variance of the log ratio of {LENGTH} tokens")


def draw_ess(ax: Axes, rows: Any) -> None:
    """ESS of batches of the initial policy against staleness, with what the first update forecasts."""
    every = np.geomspace(1.0, 128.0, 60)
    for reward, style in REWARDS.items():
        variance = LENGTH * law(rows, reward, every)
        told = [each.ess for each in forecast(rows, LENGTH, variance)] if reward == "tokens" else np.exp(-variance)
        ax.plot(every, told, label=PREDICTED, **_style.PREDICTED)
        own = means(rows, "start", "ess", reward)
        own = own[own.length == LENGTH].sort_values("staleness")
        look.points(ax, own.staleness, own, **style)
    ax.set_xscale("log", base=2)
    look.ticks(ax.xaxis, LEVELS)
    look.shares(ax)
    ax.set(xlabel="staleness (versions)", ylabel="ESS / batch size", title="Effective sample size (ESS)")


def draw(rows: Any) -> Figure:
    """Drift and ESS of batches that were generated before training."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        drift, ess = figure.subplots(1, 2)
        draw_drift(drift, rows)
        draw_ess(ess, rows)
        look.say(drift, 1.1, 8e-2, "random rewards", look.COLOR["contrast"])
        look.say(drift, 9.0, 1e-2, "rewards for\ncorrect tokens", look.COLOR["measured"])
        look.say(ess, 70.0, 0.82, "random\nrewards", look.COLOR["contrast"])
        look.say(ess, 26.0, 0.42, "rewards for\ncorrect tokens", look.COLOR["measured"], ha="right")
        inside = [each.held for each in held(rows)["first"] if each.inside]
        holds = met(rows) and parts(rows) and inside.count(True) > 0.9 * len(inside)
        _script.headline(figure, holds, "Drift of the policy, and ESS")
    return figure


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the interval of ESS of early batches contains its prediction, by rewards, length and staleness."""
    found = []
    for row in drawn(means(rows, "start", "ess").sort_values(["length", "staleness"])):
        expected = forecast(rows, int(row.length), [row.length * law(rows, "tokens", row.staleness)])[0].ess
        place = ("rewards for correct tokens", f"{row.length} tokens, staleness", f"{row.staleness:g}")
        found.append(Setting(place, bool(row.low <= expected <= row.high)))
    for row in means(rows, "start", "ess", "chance").sort_values("staleness").itertuples():
        expected = float(np.exp(-row.length * law(rows, "chance", float(row.staleness))))
        place = ("random rewards", f"{row.length} tokens, staleness", f"{row.staleness:g}")
        found.append(Setting(place, bool(row.low <= expected <= row.high), False))
    return {"first": found}
