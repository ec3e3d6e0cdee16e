"""Reading constant staleness off the autocorrelation of gradients, and where its checks refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from asyncsim.plotting import _style
from experiments import gac_alignment as made
from paper_figures import _gac_reading, _script
from paper_figures._gac_points import points, ramp

EXPERIMENTS = ("gac_alignment",)
LATE, LARGEST = made.LATE, 16
SHOWN = {1: "D", 4: "^", 8: "o", 16: "s"}
"""Marks of the levels of staleness."""
NAMES = {
    "synchronous, large step": "synchronous, 0.7 of the stability limit",
    "synchronous, same step": "synchronous, lower learning rate",
    "synchronous, momentum": "synchronous, momentum 0.9",
    "batch used 4 times": "synchronous, batches used 4 times",
    "in turn": f"sawtooth 0–{LATE}",
    "random": f"random 0–{LATE}",
    "batch used twice": "batches used twice, chosen to mislead",
    "stale": f"staleness {LATE}, 0.7 of the stability limit",
    "stale, small step": f"staleness {LATE}, 0.3 of the stability limit",
    "stale, flat modes": f"staleness {LATE}, some directions flat",
    "stale, momentum": f"staleness {LATE}, momentum 0.9",
    "stale, learning": f"staleness {LATE}, still learning",
}
FOOLED = "batch used twice"
"""Built against the checks after these were chosen."""


def draw_correlogram(ax: Axes, rows: Any) -> None:
    """Correlograms of several staleness values, one above the other, and where each drops."""
    own = _script.pick(rows, part="reading", quantity="correlation")
    shown = [tau for tau in (1, 4, 16) if (own.staleness == tau).any()]
    for row, tau in enumerate(shown):
        one, base, color = own[own.staleness == tau].sort_values("lag"), -2.3 * row, ramp(tau, LARGEST)
        known = _gac_reading.correlations(tau, float(one.step.iloc[0]), made.LAGS)[1:]
        peak = np.abs(known).max()
        ax.plot([0.3, made.LAGS + 0.5], [base, base], color=_style.COLORS["muted"], linewidth=0.5, zorder=0)
        ax.fill_between([tau, tau + 1], base - 1.1, base + 1.1, color=_style.COLORS["effect"], linewidth=0, zorder=0)
        ax.plot(np.arange(1, made.LAGS + 1), base + known / peak, **_style.PREDICTED)
        scaled = one.assign(**{name: base + one[name] / peak for name in ("value", "low", "high")})
        points(ax, one.lag, scaled, color=color, marker=SHOWN[tau], markersize=2.6)
        ax.text(made.LAGS + 1.0, base, f"staleness\n{tau}", color=color, fontsize=7, va="center")
    ax.set(xlabel="lag (updates)", xlim=(0.3, made.LAGS + 8), xticks=[1, 4, 8, 16, 24])
    ax.set(ylim=(-2.3 * (len(shown) - 1) - 1.15, 1.15), yticks=[], ylabel="autocorrelation of gradients\n(each scaled)")
    ends = [own[(own.staleness == tau)].set_index("lag").value for tau in shown]
    flips = all(
        one[tau] > 0.0 > one[tau + 1] and -one[tau + 1] > 0.7 * one[tau] for tau, one in zip(shown, ends, strict=True)
    )
    words = "Autocorrelation drops to its opposite\nright after lag = staleness (shaded)"
    ax.set_title(_script.finding(flips, words, "Autocorrelation, lag =\nstaleness shaded"))


def draw_reading(ax: Axes, rows: Any) -> None:
    """Share of replicates whose constant staleness is read right."""
    own = _script.pick(rows, part="reading", quantity="right")
    places = {4: (200, 0.4, "staleness 4"), 8: (790, 0.55, "8"), 16: (2900, 0.55, "16")}
    for tau, place in places.items():
        one, color = own[own.staleness == tau].sort_values("update"), ramp(tau, LARGEST)
        if one.empty:
            continue
        lengths = np.geomspace(one["update"].min(), one["update"].max(), 24)
        known = _gac_reading.readings(tau, float(one.step.iloc[0]), lengths, made.LAGS, 8)
        ax.plot(lengths, known, **_style.PREDICTED)
        points(ax, one["update"], one, color=color, marker=SHOWN[tau])
        ax.text(*place, color=color, fontsize=7, ha="right")
    ax.set_xscale("log")
    ax.set(xticks=[30, 100, 300, 1000, 3000], xticklabels=["30", "100", "300", "1000", "3000"])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(xlim=(25, 9200), ylim=(-0.03, 1.04), xlabel="updates observed", ylabel="replicates with the right staleness")
    last = own.loc[own.groupby("staleness")["update"].idxmax()].value
    ax.set_title(_script.finding((last > 0.9).all(), "Enough updates give\nthe staleness", "Readings by updates"))


def passed(rows: Any) -> Any:
    """Share of replicates under each condition in which the checks let a reading pass, and whether it is right."""
    own = rows[rows.part == "nulls"]
    none, wrong = (own[own.quantity == name].set_index("condition") for name in ("none", "wrong"))
    found = none.assign(value=1.0 - none.value, low=1.0 - none.high, high=1.0 - none.low)
    return found.assign(right=wrong.value < 0.5 * found.value).loc[list(NAMES)]


def draw_passed(ax: Axes, rows: Any) -> None:
    """How many replicates pass the checks under each condition."""
    for line, row in enumerate(passed(rows).itertuples()):
        color = _style.COLORS["muted" if row.value < 0.5 else "held" if row.right else "violated"]
        reach = [[max(row.value - max(row.low, 0.0), 0.0)], [max(min(row.high, 1.0) - row.value, 0.0)]]
        ax.plot([0.0, row.value], [-line, -line], color=color, linewidth=2.0)
        ax.errorbar(row.value, -line, xerr=reach, **{**_style.MEASURED, "color": color, "capsize": 0})
    names = list(NAMES)
    ax.text(
        0.9, -names.index(FOOLED) + 0.25, "wrong staleness", fontsize=7, ha="right", color=_style.COLORS["violated"]
    )
    ax.text(0.9, -names.index("stale") - 0.5, "right staleness", fontsize=7, ha="right", va="center",
            color=_style.COLORS["held"])  # fmt: skip
    ax.set(
        xlim=(-0.02, 1.02),
        ylim=(0.5 - len(NAMES), 0.6),
        xlabel="replicates with one drop to the opposite sign, clear of noise",
    )
    ax.set_yticks([-line for line in range(len(NAMES))], list(NAMES.values()))
    own = passed(rows)
    blank = [name for name in NAMES if not name.startswith("stale") and name != FOOLED]
    shows = own.value["stale"] > 0.5 and own.right["stale"] and (own.value[blank] < 0.5).all()
    fake = own.value[FOOLED] > 0.5 and not own.right[FOOLED]
    words = "Settled plain descent shows the drop; chosen batches fake it"
    ax.set_title(_script.finding(shows and fake, words, "Where the checks let a reading pass"))


def draw(rows: Any) -> Figure:
    """The drop, how long it takes to read, and where the checks pass."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 5.2)
        upper, lower = figure.subfigures(2, 1, height_ratios=(1.0, 1.05))
        first, second = upper.subplots(1, 2)
        draw_correlogram(first, rows)
        draw_reading(second, rows)
        draw_passed(lower.subplots(), rows)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Wrong readings, and shares that pass the checks."""
    own, found = rows[rows.part == "reading"], {"late": str(LATE)}
    wrong = own[own.quantity == "wrong"]
    found["wrong_read"] = str(int((wrong.value * wrong.samples).round().sum()))
    return found | {"all_read": f"{int(wrong.samples.sum()):,}", **_blank(rows)}


def _blank(rows: Any) -> dict[str, str]:
    """What passes where no single staleness is true, and under each condition of constant staleness."""
    own = rows[rows.part == "nulls"]
    share = {(row.condition, row.quantity): row.value for row in own.itertuples()}
    runs = {row.condition: int(row.samples) for row in own.itertuples()}
    blank = [name for name in NAMES if not name.startswith("stale") and name != FOOLED]
    total = sum(runs[name] for name in blank)
    wrong = {kind: sum(round(share[name, kind] * runs[name]) for name in blank) for kind in ("unchecked", "wrong")}
    found = {f"blank_{kind}": f"{count:,}" for kind, count in wrong.items()} | {"blank": f"{total:,}"}
    found["watched"] = f"{int(own[own.condition == 'stale']['update'].iloc[0]):,}"
    found["stale_share"] = f"{made.NULLS['stale']['fraction']:g}"
    pass_of = passed(rows).value
    keys = {"stale": "plain", "stale, flat modes": "flat", "stale, momentum": "momentum", "stale, learning": "learning",
            FOOLED: "fooled"}  # fmt: skip
    return found | {f"pass_{key}": f"{100 * pass_of[name]:.0f}" for name, key in keys.items()}
