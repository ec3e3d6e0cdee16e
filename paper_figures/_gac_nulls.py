"""How single runs are read that are not the model behind the reading: a panel, and what its entry quotes."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from asyncsim.plotting import _style
from experiments import gac_alignment as made

LATE = made.LATE
NAMES = {
    "synchronous, large step": "synchronous, 0.7 of its own limit",
    "synchronous, same step": f"synchronous, 0.9 of the limit at staleness {LATE}",
    "synchronous, momentum": "synchronous, momentum 0.9",
    "batch used 4 times": "synchronous, batches used 4 times",
    "batch used twice": "batches used twice, step chosen to mislead",
    "in turn": f"0, 1, ..., {LATE} updates old in turn",
    "random": f"0 to {LATE} updates old, at random",
    "stale": f"{LATE} updates old, 0.7 of the limit",
    "stale, small step": f"{LATE} updates old, 0.3 of the limit",
    "stale, momentum": f"{LATE} updates old, momentum 0.9",
    "stale, flat modes": f"{LATE} updates old, 1 steep and 7 flat directions",
    "stale, learning": f"{LATE} updates old, far away, first 60 updates",
}
KINDS = {
    "unchecked": ("muted", "o", 0.16, "by the largest drop alone"),
    "wrong": ("violated", "D", -0.16, "by the checked reading"),
}
"""Color, marker and height of the two ways to read, and how they are told apart."""
FOOLED = "batch used twice"
"""Built against the checks after these were chosen."""


def draw(ax: Axes, rows: Any) -> Axes:
    """Share of runs given a wrong staleness by either way to read, and of those whom the checked one reads right."""
    own, places = rows[rows.part == "nulls"], {name: -row for row, name in enumerate(NAMES)}
    for kind, (color, marker, height, name) in KINDS.items():
        look = {**_style.MEASURED, "marker": marker, "color": _style.COLORS[color], "capsize": 0, "mfc": "white"}
        one = own[own.quantity == kind]
        reach = [100 * (one.value - one.low).clip(lower=0), 100 * (one.high - one.value).clip(lower=0)]
        ax.errorbar(100 * one.value, one.condition.map(places) + height, xerr=reach, label=name, **look)
    for found in own[own.quantity == "right"].itertuples():
        true = f"staleness {LATE}" if found.condition.startswith("stale") else "cannot tell"
        ax.text(106, places[found.condition], f"{true}: {100 * found.value:.0f} %", fontsize=7, va="center")
    ax.text(106, 1.3, "right answer, checked\nruns that get it", fontsize=7, va="center")
    for row in range(len(NAMES) - 1):
        ax.axhline(-row - 0.5, color=_style.COLORS["effect"], linewidth=0.6, zorder=0)
    ax.set(xlim=(-4, 146), ylim=(0.5 - len(NAMES), 2.1), xticks=[0, 20, 40, 60, 80, 100])
    ax.set_xlabel("runs given a wrong staleness (%)", loc="left")
    ax.set_yticks(list(places.values()), list(NAMES.values()))
    ax.legend(loc="lower center", bbox_to_anchor=(0.36, 0.62), borderpad=0.0)
    ax.set_title("Unchecked, the largest drop names a staleness even where no single one is true")
    return ax


def numbers(rows: Any) -> dict[str, str]:
    """Runs read wrong and right, by both ways to read."""
    own = rows[rows.part == "nulls"]
    share = {(row.condition, row.quantity): row.value for row in own.itertuples()}
    runs = {row.condition: int(row.samples) for row in own.itertuples()}
    blank = [name for name in NAMES if not name.startswith("stale") and name != FOOLED]
    wrong = {kind: sum(round(share[name, kind] * runs[name]) for name in blank) for kind in KINDS}
    found = {f"blank_{kind}": f"{count:,}" for kind, count in wrong.items()}
    found |= {"blank": f"{sum(runs[name] for name in blank):,}", "blank_kinds": str(len(blank))}
    found["watched"] = f"{int(own[own.condition == 'stale']['update'].iloc[0]):,}"
    shares = {"stale_share": "stale", "stale_small_share": "stale, small step"}
    found |= {key: f"{made.NULLS[name]['fraction']:g}" for key, name in shares.items()}
    found["fooled"] = f"{100 * share[FOOLED, 'wrong']:.0f}"
    # The largest share of errors that would leave none in so many runs with a probability of a twentieth.
    found["blank_bound"] = f"{100 * (1 - 0.05 ** (1 / sum(runs[name] for name in blank))):.1f}"
    for name in [name for name in NAMES if name.startswith("stale")]:
        key = name.replace(",", "").replace(" ", "_")
        found[f"{key}_right"] = f"{100 * share[name, 'right']:.0f}"
        if not name.endswith(("stale", "step")):
            found[f"{key}_unchecked"] = f"{100 * share[name, 'unchecked']:.0f}"
    return found
