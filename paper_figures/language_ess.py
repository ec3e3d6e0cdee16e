"""ESS of stale answers against staleness, on what one update of a disjoint run predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting

EXPERIMENTS = {
    "language_ess": {
        "part": "even",
        "model": "char",
        "judge": "coin",
        "sampler": "float32",
        "task": "sums (character model)",
    }
}
LAW = "predicted: exp(− staleness × variance after one update)"
CHARACTERS = ("char", "coin", "float32")
ANSWERS = ("char", "answer", "float32")
"""A model, its judge and its sampler: under random rewards, and under rewards for right answers."""


def series(rows: Any, model: str, judge: str, sampler: str) -> Any:
    """Rows of one series on the problems that did not predict."""
    chosen = (rows.model == model) & (rows.judge == judge) & (rows.sampler == sampler) & (rows.part == "even")
    return rows[chosen]


def whole(rows: Any, key: tuple[str, str, str]) -> Any:
    """Rows of one series on whole answers."""
    own = series(rows, *key)
    return own[own.tokens == own.tokens.max()].sort_values("staleness")


def draw_staleness(ax: Axes, rows: Any) -> Axes:
    """ESS of whole answers against staleness, on the prediction with its band."""
    own = whole(rows, CHARACTERS)
    known, color = own[own.inside], _style.COLORS["contrast"]
    ax.plot(known.staleness, known.predicted_ess, zorder=1.5, label=LAW, **{**_style.PREDICTED, "color": color})
    ax.fill_between(
        known.staleness,
        known.predicted_low,
        known.predicted_high,
        color=color,
        alpha=0.12,
        linewidth=0,
        label="95 % interval of the prediction",
    )
    reach = [own.ess - own.low, own.high - own.ess]
    ax.errorbar(own.staleness, own.ess, yerr=reach, **{**_style.MEASURED, "color": color})
    look.say(ax, 0.98, 0.8, LAW, color, ha="right", transform=ax.transAxes)
    ax.set_xscale("log", base=2)
    levels = sorted(own.staleness.unique())
    ax.set(
        xlabel="staleness (versions)",
        ylabel="effective sample size (ESS)\ndivided by number of answers",
        ylim=(0.0, 1.06),
        xticks=levels,
    )
    ax.set_xticklabels([str(level) for level in levels])
    ax.minorticks_off()
    met = (known.low <= 1.1 * known.predicted_ess) & (known.high >= 0.9 * known.predicted_ess)
    holds = len(met) and met.all()
    _script.headline(ax.figure, holds, "ESS of stale answers, and the prediction from one update")
    return ax


def draw(rows: Any) -> Figure:
    """One panel."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        draw_staleness(figure.subplots(), rows)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """ESS of whole answers beside its prediction under random rewards, and how far others are from it."""
    coin = whole(rows, CHARACTERS)
    inside = coin[coin.inside]
    met = inside[(inside.low <= 1.1 * inside.predicted_ess) & (inside.high >= 0.9 * inside.predicted_ess)]
    held = inside[(inside.low <= inside.predicted_ess) & (inside.high >= inside.predicted_ess)]
    answer = whole(rows, ANSWERS)
    off = answer[answer.staleness > 1]
    return {
        "replicates": f"{int(coin.replicates.max())}",
        "answers": f"{int(coin.samples.max())}",
        "levels": f"{len(inside)}",
        "met": f"{len(met)}",
        "held": f"{len(held)}",
        **_oldest(inside),
        "least": f"{(off.variance / off.predicted_variance).min() if len(off) else np.nan:.1f}",
        "most": f"{(off.variance / off.predicted_variance).max() if len(off) else np.nan:.1f}",
    }


def _oldest(rows: Any) -> dict[str, str]:
    """ESS at the largest staleness beside its prediction."""
    found = dict.fromkeys(("oldest_ess", "oldest_predicted"), "not measured")
    for row in rows.tail(1).itertuples():
        ess = f"{row.ess:.2f} ± {(row.high - row.low) / 2:.2f}"
        found = {"oldest_ess": ess, "oldest_predicted": f"{row.predicted_ess:.2f}"}
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the interval of ESS contains its prediction, by rewards and staleness."""
    found = []
    for key, name in ((CHARACTERS, "random rewards"), (ANSWERS, "rewards for correct answers")):
        for row in whole(rows, key).dropna(subset="predicted_low").itertuples():
            inside = bool(row.low <= row.predicted_ess <= row.high)
            found.append(Setting((name, f"{row.staleness}"), inside, key == CHARACTERS))
    return {"predicted": found}
