"""When stale gradients align: along the training of a bandit, and at the optimum of three tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import gac_alignment as made
from paper_figures import _script
from paper_figures._gac_alignment import settled, signal, steady
from paper_figures._gac_points import points, ramp, written, zero

EXPERIMENTS = {"gac_alignment": {"part": ("training", "steady")}}
LATE, LARGE = made.LATE, 0.9
"""Staleness, and share of its largest stable learning rate, in training."""
MARKERS = {"gaussian": ("o", 0.5), "token": ("^", 0.42), "softmax": ("s", 0.34)}
"""Mark of each task, and where its name stands."""
ARMS = {0: "synchronous", LATE: "stale"}
"""Keys of the two levels of staleness."""


def trained(rows: Any, staleness: int, quantity: str = "correlation") -> Any:
    """Windows of training in order."""
    own = _script.pick(rows, part="training", staleness=staleness, fraction=LARGE, quantity=quantity)
    return own.sort_values("update")


def draw_training(ax: Axes, rows: Any) -> None:
    """Mean correlation along training, with what signal to noise and stationarity predict."""
    for tau in ARMS:
        own, shade = trained(rows, tau), ramp(tau, LATE)
        ax.plot(own["update"], own.value, color=shade)
        ax.fill_between(own["update"], own.low, own.high, color=shade, alpha=0.25, linewidth=0, label="95 % intervals")
        last = int(own["update"].max())
        if tau:
            # The first gradients after a start all read the first weights: their mean is steady, later ones' is not.
            ax.plot([1, tau], [signal(made.START, made.SAMPLES)] * 2, zorder=4, **_style.PREDICTED)
        late = settled(tau, LARGE, last)
        if late < last - 1:
            ax.plot([late, last], [steady("gaussian", tau, LARGE)] * 2, zorder=4, **_style.PREDICTED)
    ax.text(60, 0.85, f"staleness {LATE}", color=ramp(LATE, LATE), fontsize=7)
    ax.text(60, -0.27, "synchronous", color=ramp(0, LATE), fontsize=7)
    zero(ax, 2000)
    ax.set(ylim=(-0.4, 1.04), yticks=[0.0, 0.5, 1.0])
    ax.set_xscale("log")
    ax.set(xlim=(1, 1500), xticks=[1, 10, 100, 1000], xticklabels=["1", "10", "100", "1000"])
    ax.set(xlabel="updates of training", ylabel="correlation of consecutive gradients")
    early = trained(rows, 0)
    early = early[early["update"] <= 4].iloc[-1]
    place = f"Gaussian bandit, learning rate\n{LARGE} of the limit at staleness {LATE}"
    words = "Early in training, synchronous gradients align too"
    ax.set_title(f"{_script.finding(early.low > 0.2, words, 'Correlation along training')}\n({place})")


def draw_steady(ax: Axes, rows: Any) -> None:
    """Three tasks at their optimum."""
    span = np.linspace(0.05, 0.9, 40)
    for task, (marker, height) in MARKERS.items():
        for tau in ARMS:
            ax.plot(span, [steady(task, tau, f) for f in span], **_style.PREDICTED)
            own = _script.pick(rows, part="steady", task=task, staleness=tau)
            points(ax, own.fraction, own, color=ramp(tau, LATE), marker=marker)
        ax.text(0.94, height, task.replace("gauss", "Gauss"), color=ramp(LATE, LATE), fontsize=7, va="center")
    ax.text(0.3, 0.2, f"staleness {LATE}", color=ramp(LATE, LATE), fontsize=7)
    ax.text(0.3, -0.13, "synchronous", color=ramp(0, LATE), fontsize=7)
    zero(ax, 0.95)
    ax.set(ylim=(-0.2, 0.65), yticks=[-0.2, 0.0, 0.2, 0.4, 0.6], ylabel="correlation of consecutive gradients")
    ax.set(xlim=(0.0, 1.25), xticks=[0.0, 0.2, 0.4, 0.6, 0.8])
    ax.set_xlabel(f"learning rate / stability limit at staleness {LATE}")
    own = rows[(rows.part == "steady") & (rows.task == "gaussian")]
    fresh, stale = (own[own.staleness == tau].sort_values("fraction") for tau in ARMS)
    near = stale.value.iloc[-1] > 2.0 * stale.value.iloc[len(stale) // 2] > 0.0
    words = "At the optimum, only stale gradients\nalign, strongly only near the limit\n(three bandits)"
    ax.set_title(_script.finding((fresh.value <= 0.0).all() and near, words, "At the optimum, three tasks"))


def draw(rows: Any) -> Figure:
    """Two panels on the measured rows, theory dashed."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.1)
        first, second = figure.subplots(1, 2)
        draw_training(first, rows)
        draw_steady(second, rows)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Correlations early and late in training, and at the optimum; the worst deviation from what is predicted."""
    found = {"late": str(LATE), "large": f"{LARGE:g}"}
    for tau, name in ARMS.items():
        one = trained(rows, tau)
        early, end = one[one["update"] <= 4].iloc[-1], one.iloc[-1]
        found |= {"early": str(int(early["update"])), "end": f"{int(end['update']):,}"}
        found |= {f"early_{name}": written(early), f"end_{name}": written(end)}
    return found | _settled(rows)


def _settled(rows: Any) -> dict[str, str]:
    own, scores, found = rows[rows.part == "steady"], [], {}
    for row in own.itertuples():
        scores.append(abs(row.value - steady(row.task, int(row.staleness), row.fraction)) / row.error)
        if row.task == "gaussian" and row.fraction == own.fraction.max():
            found[f"near_gaussian_{int(row.staleness)}"] = written(row)
        elif row.task == "gaussian" and row.fraction == own.fraction.min() and row.staleness > 0:
            found["deep_gaussian"] = written(row)
    found |= {"near": f"{own.fraction.max():g}", "deep": f"{own.fraction.min():g}"}
    return found | {"worst": f"{max(scores):.1f}", "compared": str(len(own))}
