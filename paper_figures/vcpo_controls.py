"""VCPO taken apart: final return of its parts and of smaller steps without its timing, at three levels of staleness."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script

EXPERIMENTS = ("vcpo_controls",)
COLOR = _style.COLORS
ARMS = {
    ("group mean", "plain"): ("truncated IS as it is", "stale", "o"),
    ("group mean", "ess"): ("ESS step rule alone", "partial", "D"),
    ("group mean", "other"): ("another run's steps at that update", "random", "v"),
    ("group mean", "shuffled"): ("the same steps at random times", "random", "s"),
    ("group mean", "constant"): ("the same mean step always", "tuned", "P"),
    ("group mean", "vcpo mean"): ("VCPO's mean step, always", "tuned", "P"),
    ("group mean", "tuned"): ("step re-tuned", "tuned", "*"),
    ("opob", "plain"): ("optimal baseline alone", "partial", "D"),
    ("opob", "ess"): ("VCPO: optimal baseline + ESS step", "controlled", "^"),
    ("opob", "other"): ("another run's steps at that update", "random", "v"),
    ("opob", "shuffled"): ("the same steps at random times", "random", "s"),
    ("opob", "constant"): ("the same mean step always", "tuned", "P"),
    ("opob", "tuned"): ("step re-tuned", "tuned", "*"),
    ("opob", "tuned ess"): ("VCPO, step re-tuned", "controlled", "*"),
}
"""What an arm is called, its color and its marker, in the order of the rows."""
GAP = 1.3
"""Extra room between the two baselines."""
AGAINST = {
    "other": ("another run's steps at that update", "random", "v"),
    "shuffled": ("the same steps at random times", "random", "s"),
    "constant": ("the same mean step always", "tuned", "P"),
}
QUOTED = {
    "tis": ("group mean", "plain"),
    "rule": ("group mean", "ess"),
    "baseline": ("opob", "plain"),
    "vcpo": ("opob", "ess"),
    "small": ("group mean", "vcpo mean"),
    "tuned": ("group mean", "tuned"),
    "best": ("opob", "tuned"),
}
"""Arms whose final return the entry quotes."""
TITLES = {
    "group mean": "ESS rule on truncated IS: gain against ...",
    "opob": "ESS rule on OPOB, i.e. VCPO: gain against ...",
}


def places() -> dict[tuple[str, str], float]:
    """Height of each arm, from the top down."""
    return {key: -(place + (GAP if key[0] == "opob" else 0.0)) for place, key in enumerate(ARMS)}


def draw_arms(ax: Axes, rows: Any, staleness: int) -> None:
    """Final return of every arm at one staleness, with the share of collapsed runs at the right."""
    own = rows[rows.staleness == staleness]
    for (baseline, arm), y in places().items():
        _, color, marker = ARMS[baseline, arm]
        found = own[(own.baseline == baseline) & (own.arm == arm)]
        final = found[found.quantity == "final"].iloc[0]
        look = {**_style.MEASURED, "marker": marker, "markersize": 6.0 if marker == "*" else 4.5}
        reach = [[final.value - final.low], [final.high - final.value]]
        ax.errorbar([final.value], [y], xerr=reach, color=COLOR[color], **look)
        lost = float(found[found.quantity == "collapsed"].iloc[0].value)
        place = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 6.5, "color": COLOR["muted"]}
        ax.text(1.02, y, f"{100 * lost:.0f} %", **place)
    for key, color in ((("group mean", "plain"), "stale"), (("opob", "ess"), "controlled")):
        found = own[(own.baseline == key[0]) & (own.arm == key[1]) & (own.quantity == "final")]
        ax.axvline(float(found.iloc[0].value), color=COLOR[color], linewidth=0.6, alpha=0.6)
    heights = places()
    least = own[own.quantity == "final"].low.min()
    ax.set(
        xlim=(math.floor(10 * least) / 10, 1.02), ylim=(min(heights.values()) - 0.7, 1.1), yticks=list(heights.values())
    )
    ax.set(xlabel="expected return at the end", title=f"staleness {staleness}")
    ax.tick_params(axis="y", length=0)


def draw_differences(ax: Axes, rows: Any, baseline: str) -> None:
    """Paired differences that the timing of the rule makes, against staleness."""
    levels = sorted(rows.staleness.unique())
    own = rows[(rows.baseline == baseline) & (rows.quantity == "difference")]
    ax.axhline(0.0, color=COLOR["muted"], linewidth=0.7)
    for side, (arm, (text, color, marker)) in zip((-0.16, 0.0, 0.16), AGAINST.items(), strict=True):
        found = own[own.against == arm].sort_values("staleness")
        x = np.array([levels.index(level) for level in found.staleness]) + side
        look = {**_style.MEASURED, "marker": marker, "markersize": 4.5}
        reach = [found.value - found.low, found.high - found.value]
        ax.errorbar(x, found.value, yerr=reach, color=COLOR[color], label=text, **look)
    ax.set(xticks=range(len(levels)), xlim=(-0.5, len(levels) - 0.5), xlabel="staleness (versions)")
    ax.set_xticklabels([str(int(level)) for level in levels])
    ax.set_title(TITLES[baseline])


def draw(rows: Any) -> Figure:
    """Arms at every staleness above, differences of the timing below."""
    levels = sorted(int(level) for level in rows.staleness.unique())
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 6.6)
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.75, 1.0))
        axes = top.subplots(1, len(levels), sharey=True, squeeze=False)[0]
        for ax, staleness in zip(axes, levels, strict=True):
            draw_arms(ax, rows, staleness)
        for text, y in (("with the group mean as baseline", 0.75), ("with the optimal baseline (OPOB)", -7.5)):
            axes[0].text(-0.04, y, text, transform=axes[0].get_yaxis_transform(), ha="right", va="center", fontsize=6.5)
        axes[0].set_yticklabels([text for text, _, _ in ARMS.values()])
        for tick, (_, color, _) in zip(axes[0].get_yticklabels(), ARMS.values(), strict=True):
            tick.set_color(COLOR[color])
        place = {"transform": axes[-1].get_yaxis_transform(), "ha": "right", "fontsize": 6.5, "color": COLOR["muted"]}
        axes[-1].text(1.18, 0.9, "collapsed", **place)
        left, right = bottom.subplots(1, 2, sharey=True)
        draw_differences(left, rows, "group mean")
        draw_differences(right, rows, "opob")
        left.set_ylabel("difference in final return\n(paired runs)")
        left.legend(loc="best", handlelength=1.0)
        _caption(figure, rows)
    return figure


def _caption(figure: Figure, rows: Any) -> None:
    replicates = int(rows[rows.quantity == "final"].samples.max())
    _script.caption(
        figure,
        "Which part of VCPO helps? All arms share the task, the data's age and, but for the re-tuned ones, the step.",
        "Varied: the baseline, and what shrinks the step. The ESS rule does so when few samples of the batch count;",
        "its controls shrink it as much: when another run's rule did, at random times, or always. Measured: the return",
        f"at the end and, in gray, the share of {replicates} runs that collapsed (95 % intervals). See: steps that",
        "another run's rule gave do as well as the run's own, so its own batch is not what counts.",
    )


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes: finals, and differences that the timing makes, at the ends and the middle of staleness."""
    levels = sorted(int(level) for level in rows.staleness.unique())
    ties = rows[(rows.quantity == "difference") & (rows.against == "other")]
    tie = ties.loc[ties.value.abs().idxmax()]
    found = {"replicates": f"{int(rows[rows.quantity == 'final'].samples.max())}", "tie": _value(tie, "+")}
    found["tie_staleness"] = f"{int(tie.staleness)}"
    for name, staleness in (("low", levels[0]), ("middle", levels[len(levels) // 2]), ("high", levels[-1])):
        own = rows[rows.staleness == staleness]
        found[name] = f"{staleness}"
        for key, (baseline, arm) in QUOTED.items():
            found[f"{name}_{key}"] = _value(_of(own, baseline, arm, "final"))
        for against in ("shuffled", "constant"):
            found[f"{name}_{against}"] = _value(_of(own, "opob", "ess", "difference", against), "+")
        found[f"{name}_scale"] = f"{_of(own, 'opob', 'ess', 'scale').value:.2f}"
    return {key: value.replace("-", "−") for key, value in found.items()}


def _of(rows: Any, baseline: str, arm: str, quantity: str, against: str = "") -> Any:
    """The one row of a quantity of an arm."""
    place = (rows.baseline == baseline) & (rows.arm == arm) & (rows.quantity == quantity) & (rows.against == against)
    return rows[place].iloc[0]


def _value(row: Any, sign: str = "") -> str:
    return f"{row.value:{sign}.3f} ± {(row.high - row.low) / 2:.3f}"
