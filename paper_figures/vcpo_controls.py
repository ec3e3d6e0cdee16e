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
    ("group mean", "plain"): ("truncated IS", "stale", "o"),
    ("group mean", "ess"): ("+ ESS rule", "partial", "D"),
    ("opob", "plain"): ("+ optimal baseline", "partial", "d"),
    ("opob", "ess"): ("+ both: VCPO", "controlled", "^"),
    ("group mean", "tuned"): ("truncated IS", "tuned", "o"),
    ("group mean", "tuned ess"): ("+ ESS rule", "tuned", "D"),
    ("opob", "tuned"): ("+ optimal baseline", "tuned", "d"),
    ("opob", "tuned ess"): ("+ both: VCPO", "controlled", "^"),
}
"""What an arm is called, its color and its marker, from the top down."""
GAP = 1.7
"""Extra room above the arms with re-tuned learning rates."""
AGAINST = {
    "other": ("another run's factors,\nat the same updates", "random", "p"),
    "shuffled": ("another run's factors,\nshuffled over updates", "random", "s"),
    "constant": ("their mean, at every update", "random", "X"),
}
"""What the factors on the learning rate are that VCPO's own are compared with."""
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
SMALL = 6.6


def places() -> dict[tuple[str, str], float]:
    """Height of each arm, from the top down."""
    return {key: -(place + (GAP if key[1].startswith("tuned") else 0.0)) for place, key in enumerate(ARMS)}


def draw_arms(ax: Axes, rows: Any, staleness: int) -> None:
    """Final return of every arm at one staleness, with the share of collapsed runs at the right."""
    own = rows[rows.staleness == staleness]
    for (baseline, arm), y in places().items():
        _, color, marker = ARMS[baseline, arm]
        final = _of(own, baseline, arm, "final")
        look = {**_style.MEASURED, "marker": marker, "markersize": 4.5}
        reach = [[final.value - final.low], [final.high - final.value]]
        ax.errorbar([final.value], [y], xerr=reach, color=COLOR[color], **look)
        if arm.startswith("tuned"):
            same = " (same)" if final.step == _of(own, baseline, "plain", "final").step else ""
            beside = {"textcoords": "offset points", "ha": "right", "va": "center", "fontsize": SMALL}
            beside["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            ax.annotate(f"{final.step:g}{same}", (final.low, y), (-5, 0), **beside)
        lost = float(_of(own, baseline, arm, "collapsed").value)
        place = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center", "fontsize": SMALL}
        ax.text(1.13, y, f"{100 * lost:.0f} %", color=COLOR["muted"], **place)
    vcpo = float(_of(own, "opob", "ess", "final").value)
    ax.axvline(vcpo, color=COLOR["controlled"], linewidth=0.6, alpha=0.6)
    heights = places()
    ax.set(ylim=(min(heights.values()) - 0.6, 1.8), yticks=list(heights.values()), xlabel="return at the end")
    ax.set_title(f"staleness {staleness}")
    ax.tick_params(axis="y", length=0)


def label_arms(axes: Any, rate: float) -> None:
    """Names of the arms at the left, the learning rate of the upper ones, and what the gray shares are."""
    first = axes[0]
    first.set_yticklabels([text for text, _, _ in ARMS.values()])
    for tick, (_, color, _) in zip(first.get_yticklabels(), ARMS.values(), strict=True):
        tick.set_color(COLOR[color])
    retuned = max(y for key, y in places().items() if key[1].startswith("tuned"))
    place = {"transform": first.get_yaxis_transform(), "ha": "right", "va": "center", "fontsize": SMALL}
    first.text(-0.03, 1.15, f"learning rate {rate:g}, good\nfor synchronous runs", **place)
    first.text(-0.03, retuned + 1.15, "re-tuned learning rate,\nbeside each point", **place)
    for ax in axes:
        place = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "bottom", "fontsize": SMALL}
        ax.text(1.13, 1.95, "collapsed", color=COLOR["muted"], **place)
    place = {"transform": first.get_yaxis_transform(), "va": "center", "fontsize": SMALL}
    first.text(0.04, -3.0, f"line: VCPO,\nlearning rate {rate:g}", color=COLOR["controlled"], **place)


def draw_differences(ax: Axes, rows: Any) -> None:
    """What VCPO's own factors on the learning rate gain over others, against staleness."""
    levels = sorted(rows.staleness.unique())
    own = rows[(rows.baseline == "opob") & (rows.arm == "ess") & (rows.quantity == "difference")]
    ax.axhline(0.0, color=COLOR["muted"], linewidth=0.7)
    for side, (arm, (text, color, marker)) in zip((-0.12, 0.0, 0.12), AGAINST.items(), strict=True):
        found = own[own.against == arm].sort_values("staleness")
        x = np.array([levels.index(level) for level in found.staleness]) + side
        look = {**_style.MEASURED, "marker": marker, "markersize": 4.5}
        reach = [found.value - found.low, found.high - found.value]
        ax.errorbar(x, found.value, yerr=reach, color=COLOR[color], label=text, **look)
    ax.set(xticks=range(len(levels)), xlim=(-0.8, len(levels) - 0.6), xlabel="staleness (updates)")
    ax.set_xticklabels([str(int(level)) for level in levels])
    ax.set_ylabel("return at the end: VCPO\nminus VCPO with ...")
    place = {"transform": ax.get_yaxis_transform(), "fontsize": SMALL, "color": COLOR["muted"]}
    ax.text(0.005, 0.004, "own factors better", va="bottom", **place)
    ax.text(0.005, -0.006, "own factors worse", va="top", **place)


def draw(rows: Any) -> Figure:
    """Parts and re-tuned rates at every staleness above, what the timing of VCPO's factors does below."""
    levels = sorted(int(level) for level in rows.staleness.unique())
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 6.1)
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.5, 1.0))
        axes = top.subplots(1, len(levels), sharex=True, sharey=True, squeeze=False)[0]
        for ax, staleness in zip(axes, levels, strict=True):
            draw_arms(ax, rows, staleness)
        least = rows[rows.quantity == "final"].low.min()
        axes[0].set_xlim(math.floor(20 * least) / 20, 1.02)
        label_arms(axes, rows[rows.arm == "ess"].step.iloc[0])
        top.suptitle(
            "From staleness 32 on both parts of VCPO help; at a re-tuned learning rate the baseline alone does as well",
            fontsize=8,
        )
        ax = bottom.subplots()
        draw_differences(ax, rows)
        ax.set_title(
            "Must VCPO's factor √(ESS/N) come from the run's own batch? No: another run's do as well. Its timing\n"
            "matters: VCPO is better than with shuffled or constant factors at 8 and 32, but worse at 128."
        )
        ax.legend(
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            handlelength=1.0,
            alignment="left",
            title="VCPO minus VCPO with ...",
        )
        _caption(figure, rows)
    return figure


def _caption(figure: Figure, rows: Any) -> None:
    replicates = int(rows[rows.quantity == "final"].samples.max())
    rate, tried = rows[rows.arm == "ess"].step.iloc[0], rows[rows.quantity == "step"].step.nunique()
    _script.caption(
        figure,
        "Which part of VCPO (variance-controlled policy optimization) helps, and would a smaller learning rate do?",
        "Task: 32 tokens, paid the share of right ones, plus noise. Staleness: how many updates ago the policy was",
        "current that wrote the data. Above, varied: what is added to truncated IS (importance sampling with weights",
        "of at most 8), and the learning rate. ESS rule: learning rate times √(ESS/N), small if few of the batch's N",
        f"samples count (ESS: effective sample size). Re-tuned: best of {tried} learning rates for each row and",
        f"staleness, on separate runs. Below: VCPO at learning rate {rate:g}, its factor √(ESS/N) replaced by others.",
        f"Points: means over {replicates} runs with 95\u00a0% intervals (below: paired differences); best return: 1.",
        "Gray: share of runs that collapse (end below half of their peak gain over the start).",
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
