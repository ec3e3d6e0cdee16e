"""Final return of PPO on CartPole against the learning rate, by staleness and anchor of the clipped ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script

EXPERIMENTS = {"cartpole_staleness": {"task": "CartPole"}}
ANCHORS = {"none": "Clip around recomputed log-probs", "behavior": "Clip around recorded log-probs"}
"""What the clip is around."""
LARGEST = 500.0
"""Return of an episode that is never lost."""


def draw_rates(ax: Axes, rows: Any, correction: str) -> Axes:
    """Final return against the learning rate, one line per staleness."""
    levels = _script.shades(rows.staleness)
    for k, (level, shade) in enumerate(levels):
        own = rows[(rows.staleness == level) & (rows.correction == correction)]
        rates = np.sort(own.rate.unique())
        mean, half = np.array([_script.interval(own[own.rate == rate].final_return.to_numpy()) for rate in rates]).T
        # Points of one rate stand side by side, so that their intervals can be seen.
        shift = rates * 1.05 ** (k - (len(levels) - 1) / 2)
        ax.plot(shift, mean, color=shade, label=str(level))
        # No return exceeds the largest, nor does an interval.
        reach = [np.minimum(half, mean), np.minimum(half, LARGEST - mean)]
        ax.errorbar(shift, mean, yerr=reach, **{**_style.MEASURED, "color": shade})
    ax.axhline(LARGEST, **_style.REFERENCE)
    ax.set_xscale("log")
    ax.set(xlabel="learning rate (1/1000)", ylim=(0, 515), xticks=rates, xlim=(rates[0] / 1.25, rates[-1] * 1.25))
    ax.set_xticklabels([f"{1e3 * rate:g}" for rate in rates])
    ax.minorticks_off()
    ax.set_title(ANCHORS[correction])
    return ax


def holds(rows: Any) -> bool:
    """Whether the stalest data cost return at best rates, and less of it around recorded log-probs."""
    final = rows.groupby(["correction", "staleness", "rate"]).final_return.mean().groupby(level=[0, 1]).max().unstack()
    last, first = final.iloc[:, -1], final.iloc[:, 0]
    return bool(last["none"] < 0.9 * first["none"] and last["behavior"] > 1.1 * last["none"])


def draw(rows: Any) -> Figure:
    """Both anchors on one axis of returns."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2, sharey=True)
        draw_rates(left, rows, "none").set_ylabel("final episode return\n(dotted: maximum)")
        draw_rates(right, rows, "behavior")
        words = "Stale data cost PPO return; a clip around recorded log-probs keeps more of it"
        figure.suptitle(_script.finding(holds(rows), words, "Final return of PPO by staleness"), x=0.01, ha="left")
        figure.legend(*left.get_legend_handles_labels(), title="staleness\n(versions)", loc="outside right center")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Best final returns by staleness and anchor, with which of them lie at an edge of the grid of learning rates."""
    final = rows.groupby(["correction", "staleness", "rate"]).final_return.mean().unstack()
    ends = (final.columns[0], final.columns[-1])
    found = {
        "rates": f"{len(final.columns)}",
        "least": f"{ends[0]:g}",
        "most": f"{ends[1]:g}",
        "seeds": f"{rows.seed.nunique()}",
        "last": f"{rows.staleness.max()}",
    }
    lines = ["| staleness | recomputed | behavior |", "|---|---|---|"]
    for level in sorted(rows.staleness.unique()):
        cells = [str(level)]
        for anchor in ANCHORS:
            own = final.loc[anchor, level]
            # A tie is no edge where a rate inside does as well.
            rate = max(own.index, key=lambda rate, own=own: (round(own[rate]), rate not in ends))  # type: ignore[misc]
            cells.append(f"{own.max():.0f}" + " (edge)" * (rate in ends))
        lines.append(f"| {' | '.join(cells)} |")
    for anchor, name in (("none", "blind"), ("behavior", "behavior")):
        found[f"{name}_last"] = f"{final.loc[anchor].iloc[-1].max():.0f}"
    return {**found, "table": "\n".join(lines)}
