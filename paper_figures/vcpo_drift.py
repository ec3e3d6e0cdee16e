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
from paper_figures.vcpo_ess import MARKERS

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"vcpo_ess": {"task": "token bandit"}}
REWARDS = {"tokens": {"color": look.COLOR["measured"], "marker": "s"},
           "chance": {"color": look.COLOR["contrast"], "marker": "s"}}  # fmt: skip
PREDICTED = "predicted from the first update"
LENGTH = 16
"""Tokens of the runs whose drift is drawn; that of other lengths coincides."""
LEAST = 0.01
"""Variance of the log ratio below which every sample counts."""


def met(rows: Any) -> bool:
    """Whether variances of batches from before training lie within a factor of 1.5 of the law of one update."""
    own = means(rows, "start", "log_variance", "tokens")
    own = own[own.length == LENGTH]
    ratio = own.value / LENGTH / law(rows, "tokens", own.staleness.to_numpy(dtype=float))
    return bool(((ratio > 1 / 1.5) & (ratio < 1.5)).all())


def draw_drift(ax: Axes, rows: Any) -> None:
    """Variance of a sequence's log ratio against staleness, with the law of one update."""
    every = np.geomspace(1.0, 128.0, 60)
    for reward, style in REWARDS.items():
        ax.plot(every, LENGTH * law(rows, reward, every), label=PREDICTED, **_style.PREDICTED)
        own = means(rows, "start", "log_variance", reward)
        own = own[own.length == LENGTH].sort_values("staleness")
        look.points(ax, own.staleness, own, **style)
    ax.set_xscale("log", base=2)
    look.ticks(ax.xaxis, [1, 2, 4, 8, 16, 32, 64, 128])
    ax.set(
        yscale="log", ylim=(1e-4, 30.0), xlabel="staleness (versions)", title=f"Variance by staleness, {LENGTH} tokens"
    )
    ax.set_ylabel("variance of a sequence's\nlog ratio (nats²)")


def draw_law(ax: Axes, rows: Any) -> None:
    """ESS of batches of the initial policy against the variance that the first update forecasts."""
    ess = means(rows, "start", "ess")
    longest = int(ess[ess.length.isin(MARKERS)].length.max())
    oldest = float(ess[ess.length == longest].staleness.max())
    variance = np.geomspace(LEAST, longest * float(law(rows, "tokens", oldest)), 30)
    told = [each.ess for each in forecast(rows, longest, variance)]
    ax.plot(variance, told, label=PREDICTED, **_style.PREDICTED)
    for length, marker in MARKERS.items():
        own = ess[ess.length == length].sort_values("staleness")
        variance = length * law(rows, "tokens", own.staleness.to_numpy(dtype=float))
        shown = variance >= LEAST
        style = {"color": look.COLOR["measured"], "marker": marker, "label": f"{length} tokens"}
        look.points(ax, variance[shown], own[shown], **style)
    own = means(rows, "start", "ess", "chance").sort_values("staleness")
    own = own[own.length == LENGTH]
    variance = own.length * law(rows, "chance", own.staleness.to_numpy(dtype=float))
    own, variance = own[variance >= LEAST], variance[variance >= LEAST]
    ax.plot(variance, np.exp(-variance), label=PREDICTED, **_style.PREDICTED)
    look.points(ax, variance, own, **REWARDS["chance"], label=f"{LENGTH} tokens, random rewards")
    ax.legend(handles=ax.containers, loc="lower left", frameon=False)
    ax.set(
        xscale="log",
        xlabel="variance of a sequence's log ratio, predicted\nfrom staleness and the first update (nats²)",
        title="ESS by predicted variance",
    )
    look.ticks(ax.xaxis, [0.01, 0.1, 1.0, 10.0])
    look.shares(ax)
    ax.set_ylabel("effective sample size (ESS) / batch size")


def draw(rows: Any) -> Figure:
    """Drift and ESS of batches that were generated before training."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        drift, shares = figure.subplots(1, 2)
        draw_drift(drift, rows)
        draw_law(shares, rows)
        look.say(drift, 1.1, 8e-2, "random rewards", look.COLOR["contrast"])
        look.say(drift, 9.0, 1e-2, "rewards for\ncorrect tokens", look.COLOR["measured"])
        inside = [each.held for each in held(rows)["first"] if each.inside]
        holds = met(rows) and inside.count(True) > 0.9 * len(inside)
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
