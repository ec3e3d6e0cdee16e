"""Reading constant staleness off the autocorrelation of gradients."""

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
from paper_figures._vcpo import ends, percents

EXPERIMENTS = {"gac_alignment": {"part": "reading", "task": "quadratic", "staleness": (4, 8, 16)}}
LATE, LARGEST = made.LATE, 16
SHOWN = {4: "^", 8: "o", 16: "s"}
"""Marks of the levels of staleness."""
NAMES = {
    "synchronous, large step": "synchronous, 0.7 of the stability limit",
    "synchronous, same step": "synchronous, lower learning rate",
    "synchronous, momentum": "synchronous, momentum 0.9",
    "batch used 4 times": "synchronous, batches used 4 times",
    "in turn": f"sawtooth staleness 0–{LATE}",
    "random": f"random staleness 0–{LATE}",
    "batch used twice": "synchronous, batches used twice",
    "stale": f"staleness {LATE}, 0.7 of the stability limit",
    "stale, small step": f"staleness {LATE}, 0.3 of the stability limit",
    "stale, flat modes": f"staleness {LATE}, some directions flat",
    "stale, momentum": f"staleness {LATE}, momentum 0.9",
    "stale, learning": f"staleness {LATE}, still learning",
}
OTHER = ("stale, flat modes", "stale, momentum", "stale, learning")
"""Constant staleness where the delayed linear model does not hold."""
BAND = "largest drop"
FOOLED = "batch used twice"
"""Built against the checks after these were chosen."""


def draw_correlogram(ax: Axes, rows: Any) -> bool:
    """Correlograms of several staleness values, one above the other; whether each drops right after its staleness."""
    own = _script.pick(rows, part="reading", quantity="correlation")
    shown = [tau for tau in (4, 8, 16) if (own.staleness == tau).any()]
    names: dict[str, tuple[float, Any]] = {}
    for row, tau in enumerate(shown):
        one, base, color = own[own.staleness == tau].sort_values("lag"), -2.3 * row, ramp(tau, LARGEST)
        known = _gac_reading.correlations(tau, float(one.step.iloc[0]), made.LAGS)[1:]
        peak = np.abs(known).max()
        ax.plot([0.3, made.LAGS + 0.5], [base, base], color=_style.COLORS["muted"], linewidth=0.5, zorder=0)
        ax.fill_between(
            [tau, tau + 1], base - 1.1, base + 1.1, color=_style.COLORS["effect"], linewidth=0, zorder=0, label=BAND
        )
        ax.plot(np.arange(1, made.LAGS + 1), base + known / peak, **_style.PREDICTED)
        scaled = one.assign(**{name: base + one[name] / peak for name in ("value", "low", "high")})
        points(ax, one.lag, scaled, color=color, marker=SHOWN[tau], markersize=2.6)
        names[f"staleness {tau}"] = (base, color)
    ax.text(shown[0] + 1.3, 0.85, "largest drop: from S to S + 1 updates", color=_style.COLORS["muted"], fontsize=7)
    ax.set(xlabel="updates between two gradients", xlim=(0.3, made.LAGS + 0.5), xticks=[1, 4, 8, 16, 24])
    ax.set(
        ylim=(-2.3 * (len(shown) - 1) - 1.15, 1.15),
        yticks=[],
        ylabel="correlation of two gradients\n(each row scaled to its maximum)",
    )
    ax.set_title("Correlation by distance between gradients")
    ends(ax, names)
    last = [own[(own.staleness == tau)].set_index("lag").value for tau in shown]
    return all(
        one[tau] > 0.0 > one[tau + 1] and -one[tau + 1] > 0.7 * one[tau] for tau, one in zip(shown, last, strict=True)
    )


def draw_reading(ax: Axes, rows: Any) -> bool:
    """Share of replicates whose constant staleness is read right; whether the longest runs nearly all are."""
    own = _script.pick(rows, part="reading", quantity="right")
    places = {4: (85, 0.4, "staleness 4"), 8: (780, 0.15, "staleness 8"), 16: (2700, 0.15, "staleness 16")}
    for tau, place in places.items():
        one, color = own[own.staleness == tau].sort_values("update"), ramp(tau, LARGEST)
        if one.empty:
            continue
        lengths = np.geomspace(one["update"].min(), one["update"].max(), 24)
        known = _gac_reading.readings(tau, float(one.step.iloc[0]), lengths, made.LAGS, 8)
        ax.plot(lengths, known, **_style.PREDICTED)
        points(ax, one["update"], one, color=color, marker=SHOWN[tau])
        ax.text(*place, color=color, fontsize=7)
    ax.set_xscale("log")
    ax.set(xticks=[30, 100, 300, 1000, 3000], xticklabels=["30", "100", "300", "1000", "3000"])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(xlim=(25, 9200), ylim=(-0.03, 1.04), xlabel="updates observed", ylabel="share of runs")
    percents(ax.yaxis)
    last = own.loc[own.groupby("staleness")["update"].idxmax()].value
    ax.set_title("Runs whose true staleness is found")
    return bool((last > 0.9).all())


def passed(rows: Any) -> Any:
    """Share of replicates under each condition in which the checks let a reading pass, and whether it is right."""
    own = rows[rows.part == "nulls"]
    none, wrong = (own[own.quantity == name].set_index("condition") for name in ("none", "wrong"))
    found = none.assign(value=1.0 - none.value, low=1.0 - none.high, high=1.0 - none.low)
    return found.assign(right=wrong.value < 0.5 * found.value).loc[list(NAMES)]


def draw(rows: Any) -> Figure:
    """The drop, and how long it takes to read."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.1)
        left, right = figure.subplots(1, 2)
        flips, read = draw_correlogram(left, rows), draw_reading(right, rows)
        _script.headline(figure, flips and read, "Correlation of gradients, and the staleness read from it")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Wrong readings, and shares that pass the checks."""
    own, found = rows[rows.part == "reading"], {"late": str(LATE)}
    wrong = own[own.quantity == "wrong"]
    found["runs"] = str(int(wrong.samples.max()))
    found["wrong_read"] = str(int((wrong.value * wrong.samples).round().sum()))
    return found | {"all_read": f"{int(wrong.samples.sum()):,}", **_blank(rows)}


def _blank(rows: Any) -> dict[str, str]:
    """What passes where no single staleness is true, and under each condition of constant staleness."""
    own = rows[rows.part == "nulls"]
    share = {(row.condition, row.quantity): row.value for row in own.itertuples()}
    runs = {row.condition: int(row.samples) for row in own.itertuples()}
    blank = [name for name in NAMES if not name.startswith("stale") and name != FOOLED]
    total = sum(runs[name] for name in blank)
    wrong = sum(round(share[name, "wrong"] * runs[name]) for name in blank)
    found = {"blank_wrong": f"{wrong:,}", "blank": f"{total:,}"}
    found |= {"others": str(len(blank)), "runs_each": str(runs["stale"])}
    found["watched"] = f"{int(own[own.condition == 'stale']['update'].iloc[0]):,}"
    found["stale_share"] = f"{made.NULLS['stale']['fraction']:g}"
    pass_of = passed(rows).value
    found["pass_other"] = f"{100 * pass_of[list(OTHER)].max():.0f}"
    keys = {"stale": "plain", FOOLED: "fooled"}
    return found | {f"pass_{key}": f"{100 * pass_of[name]:.0f}" for name, key in keys.items()}
