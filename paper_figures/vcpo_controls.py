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
    "constant": ("their mean over the run,\nat every update", "random", "X"),
    "learning": ("their mean while return < 0.9,\nat every update", "random", "v"),
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


def ends(rows: Any) -> list[tuple[int, int]]:
    """Staleness and updates of every end that is read."""
    own = rows[rows.quantity == "final"]
    return sorted({(int(s), int(u)) for s, u in zip(own.staleness, own.horizon, strict=True)})


def called(rows: Any, staleness: int, horizon: int) -> str:
    """Staleness, with the number of updates where it is not the only one."""
    return f"{staleness}" if sum(s == staleness for s, _ in ends(rows)) == 1 else f"{staleness}, {horizon} updates"


def draw_arms(ax: Axes, rows: Any, staleness: int, horizon: int) -> None:
    """Final return of every arm at one staleness, with the share of collapsed runs at the right."""
    own = rows[(rows.staleness == staleness) & (rows.horizon == horizon)]
    for (baseline, arm), y in places().items():
        _, color, marker = ARMS[baseline, arm]
        final = _of(own, baseline, arm, "final")
        look = {**_style.MEASURED, "marker": marker, "markersize": 4.5}
        reach = [[final.value - final.low], [final.high - final.value]]
        ax.errorbar([final.value], [y], xerr=reach, color=COLOR[color], **look)
        if arm.startswith("tuned"):
            same = "=" if final.step == _of(own, baseline, "plain", "final").step else ""
            beside = {"textcoords": "offset points", "ha": "right", "va": "center", "fontsize": SMALL}
            beside["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            ax.annotate(f"{same}{final.step:g}", (final.low, y), (-5, 0), **beside)
        lost = float(_of(own, baseline, arm, "collapsed").value)
        place = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center", "fontsize": SMALL}
        ax.text(1.27, y, f"{100 * lost:.0f} %", color=COLOR["muted"], **place)
    vcpo = float(_of(own, "opob", "ess", "final").value)
    ax.axvline(vcpo, color=COLOR["controlled"], linewidth=0.6, alpha=0.6)
    heights = places()
    ax.set(ylim=(min(heights.values()) - 0.6, 1.8), yticks=list(heights.values()), xlabel="return at the end")
    ax.set_title("staleness " + called(rows, staleness, horizon).replace(", ", "\n"))
    ax.tick_params(axis="y", length=0)


def label_arms(axes: Any, rate: float) -> None:
    """Names of the arms at the left, the learning rate of the upper ones, and what the gray shares are."""
    first = axes[0]
    first.set_yticklabels([text for text, _, _ in ARMS.values()])
    for tick, (_, color, _) in zip(first.get_yticklabels(), ARMS.values(), strict=True):
        tick.set_color(COLOR[color])
    retuned = max(y for key, y in places().items() if key[1].startswith("tuned"))
    place = {"transform": first.get_yaxis_transform(), "ha": "right", "va": "center", "fontsize": SMALL}
    first.text(-0.03, 1.15, f"learning rate {rate:g}, best\nfor synchronous runs", **place)
    first.text(-0.03, retuned + 1.15, "re-tuned learning rate,\nbeside points (=: same)", **place)
    for ax in axes:
        place = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "bottom", "fontsize": SMALL}
        ax.text(1.27, 1.85, "collapsed", color=COLOR["muted"], **place)
    place = {"transform": first.get_yaxis_transform(), "va": "center", "fontsize": SMALL}
    first.text(0.04, -3.0, f"line: VCPO,\nlearning rate {rate:g}", color=COLOR["controlled"], **place)


def draw_differences(ax: Axes, rows: Any) -> None:
    """What VCPO's own factors on the learning rate gain over others, against staleness."""
    places = ends(rows)
    own = rows[(rows.baseline == "opob") & (rows.arm == "ess") & (rows.quantity == "difference")]
    ax.axhline(0.0, color=COLOR["muted"], linewidth=0.7)
    for side, (arm, (text, color, marker)) in zip((-0.18, -0.06, 0.06, 0.18), AGAINST.items(), strict=True):
        found = own[own.against == arm].sort_values(["staleness", "horizon"])
        x = np.arange(len(places)) + side
        look = {**_style.MEASURED, "marker": marker, "markersize": 4.5}
        reach = [found.value - found.low, found.high - found.value]
        ax.errorbar(x, found.value, yerr=reach, color=COLOR[color], label=text, **look)
    ax.set(xticks=range(len(places)), xlim=(-1.2, len(places) - 0.6), xlabel="staleness (in updates)")
    ax.set_xticklabels([called(rows, *place).replace(", ", "\nafter ") for place in places])
    ax.set_ylabel("return at the end: VCPO\nminus VCPO with ...")
    place = {"transform": ax.get_yaxis_transform(), "fontsize": SMALL, "color": COLOR["muted"]}
    ax.text(0.005, 0.004, "own factors better", va="bottom", **place)
    ax.text(0.005, -0.006, "own factors worse", va="top", **place)


def draw(rows: Any) -> Figure:
    """Parts and re-tuned rates at every staleness above, what the timing of VCPO's factors does below."""
    places = ends(rows)
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 6.5)
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.5, 1.0))
        axes = top.subplots(1, len(places), sharex=True, sharey=True, squeeze=False)[0]
        for ax, place in zip(axes, places, strict=True):
            draw_arms(ax, rows, *place)
        least = rows[rows.quantity == "final"].low.min()
        axes[0].set_xlim(math.floor(20 * least) / 20, 1.02)
        label_arms(axes, rows[rows.arm == "ess"].step.iloc[0])
        top.suptitle(
            "From staleness 32 on both parts of VCPO help; at a re-tuned learning rate the baseline alone does as\n"
            "well, and at 128 truncated IS needs neither: it is only slower",
            fontsize=8,
        )
        ax = bottom.subplots()
        draw_differences(ax, rows)
        ax.set_title(
            "Must VCPO's factor √(ESS/N) come from the run's own batch? Hardly: another run's do nearly as well.\n"
            "Must it change? No: a constant does, if it is the mean while learning (over the run: nearer to 1, worse)."
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
    few = int(rows[(rows.quantity == "final") & (rows.staleness == rows.staleness.max())].samples.max())
    rate, tried = rows[rows.arm == "ess"].step.iloc[0], rows[rows.quantity == "step"].step.nunique()
    _script.caption(
        figure,
        "Which part of VCPO (variance-controlled policy optimization) helps, and would a smaller learning rate do?",
        "Task: 32 tokens, paid the share of right ones, plus noise. Staleness: how many updates ago the policy was",
        "current that wrote the data. Above, varied: what is added to truncated IS (importance sampling with weights",
        "of at most 8), and the learning rate. ESS rule: learning rate times √(ESS/N), small if few of the batch's N",
        f"samples count (ESS: effective sample size). Re-tuned: best of {tried} learning rates for each row and",
        f"staleness, on separate runs. Below: VCPO at learning rate {rate:g}, its factor √(ESS/N) replaced by others.",
        f"Points: means over {replicates} runs ({few} at the oldest data) with 95\u00a0% intervals (below: paired",
        "differences); best return: 1.",
        "Gray: share of runs that collapse (end below half of their peak gain over the start).",
    )


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes: finals, and differences that the timing makes, at every end that is read."""
    places = ends(rows)
    middle = places[len(places) // 2 - 1]
    named = {"low": places[0], "middle": middle, "high": places[-2], "late": places[-1]}
    counts = rows[rows.quantity == "final"].groupby("staleness").samples.max()
    found = {"replicates": f"{counts.iloc[0]}", "fewer": f"{counts.iloc[-1]}"}
    found |= {"short": f"{places[0][1]}", "long": f"{places[-1][1]}"}
    for name, (staleness, horizon) in named.items():
        own = rows[(rows.staleness == staleness) & (rows.horizon == horizon)]
        if name != "late":
            found[name] = f"{staleness}"
        for key, (baseline, arm) in QUOTED.items():
            found[f"{name}_{key}"] = _value(_of(own, baseline, arm, "final"))
        for against in AGAINST:
            found[f"{name}_{against}"] = _value(_of(own, "opob", "ess", "difference", against), "+")
        if name in ("high", "late"):
            found[f"{name}_both"] = _value(_of(own, "opob", "tuned ess", "final"))
    last = rows[(rows.staleness == places[-1][0]) & (rows.horizon == places[-1][1])]
    for key in ("vcpo", "tis", "tuned"):
        found[f"late_{key}_lost"] = _percent(_of(last, *QUOTED[key], "collapsed"))
    found["tuned_step"] = f"{_of(last, *QUOTED['tuned'], 'final').step:g}"
    return {key: value.replace("-", "−") for key, value in found.items()}


def _of(rows: Any, baseline: str, arm: str, quantity: str, against: str = "") -> Any:
    """The one row of a quantity of an arm."""
    place = (rows.baseline == baseline) & (rows.arm == arm) & (rows.quantity == quantity) & (rows.against == against)
    return rows[place].iloc[0]


def _value(row: Any, sign: str = "") -> str:
    return f"{row.value:{sign}.3f} ± {(row.high - row.low) / 2:.3f}"


def _percent(row: Any) -> str:
    return f"{100 * row.value:.1f} percent ({100 * row.low:.1f} to {100 * row.high:.1f})"
