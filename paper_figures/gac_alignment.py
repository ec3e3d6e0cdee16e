"""When stale gradients align: along the training of a bandit, and in numbers at the optimum of three tasks."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import gac_alignment as made
from paper_figures import _script
from paper_figures._gac_alignment import settled, signal, steady
from paper_figures._gac_points import ramp, written, zero
from paper_figures._vcpo import ends

LATE, LARGE = made.LATE, 0.9
"""Staleness, and share of its largest stable learning rate, in training."""
EXPERIMENTS = {"gac_alignment": {"part": "training", "fraction": LARGE, "task": "Gaussian bandit"}}
ARMS = {0: "synchronous", LATE: "stale"}
"""Keys of the two levels of staleness."""


def trained(rows: Any, staleness: int, quantity: str = "correlation") -> Any:
    """Windows of training in order."""
    own = _script.pick(rows, part="training", staleness=staleness, fraction=LARGE, quantity=quantity)
    return own.sort_values("update")


def draw(rows: Any) -> Figure:
    """Mean correlation along training, with what signal to noise and stationarity predict."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        ax, names = figure.subplots(), {}
        for tau in ARMS:
            own, shade = trained(rows, tau), ramp(tau, LATE)
            ax.plot(own["update"], own.value, color=shade)
            ax.fill_between(
                own["update"], own.low, own.high, color=shade, alpha=0.25, linewidth=0, label="95 % intervals"
            )
            last = int(own["update"].max())
            names[f"staleness {tau}" if tau else "synchronous"] = (float(own.value.iloc[-1]), shade)
            if tau:
                # The first gradients after a start all read the first weights: their mean is steady.
                ax.plot([1, tau], [signal(made.START, made.SAMPLES)] * 2, zorder=4, **_style.PREDICTED)
            late = settled(tau, LARGE, last)
            if late < last - 1:
                ax.plot([late, last], [steady("gaussian", tau, LARGE)] * 2, zorder=4, **_style.PREDICTED)
        zero(ax, 2000)
        ax.set_xscale("log")
        ax.set(ylim=(-0.4, 1.04), yticks=[0.0, 0.5, 1.0])
        ax.set(xlim=(1, 1.1 * last), xticks=[1, 10, 100, 1000], xticklabels=["1", "10", "100", "1000"])
        ends(ax, names)
        ax.set(xlabel="update", ylabel="correlation of consecutive gradients")
        fresh, stale = (trained(rows, tau) for tau in ARMS)
        early = fresh[fresh["update"] <= 4].iloc[-1]
        holds = early.low > 0.2 > fresh.high.iloc[-1] and stale.low.iloc[-1] > 0.2
        _script.headline(figure, holds, "Correlation of consecutive gradients along training")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Correlations early and late in training; the worst deviation at the optimum from what is predicted."""
    found = {"late": str(LATE), "large": f"{LARGE:g}"}
    for tau, name in ARMS.items():
        one = trained(rows, tau)
        early, end = one[one["update"] <= 4].iloc[-1], one.iloc[-1]
        found |= {"early": str(int(early["update"])), "end": f"{int(end['update']):,}"}
        found |= {f"early_{name}": written(early), f"end_{name}": written(end)}
    return found | _settled(rows)


def _settled(rows: Any) -> dict[str, str]:
    own = rows[rows.part == "steady"]
    scores = [
        abs(row.value - steady(row.task, int(row.staleness), row.fraction)) / row.error for row in own.itertuples()
    ]
    return {"worst": f"{max(scores):.1f}", "compared": str(len(own))}
