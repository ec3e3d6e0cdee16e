"""ESS of stale answers against staleness and against length, on what one update of a disjoint run predicts."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script

EXPERIMENTS = ("language_ess",)
CHARACTERS = ("char", "coin", "float32")
SERIES = {
    CHARACTERS: ("characters, a coin rewards", "measured", "o"),
    ("char", "answer", "float32"): ("characters, right answers reward", "contrast", "D"),
}
"""Label, color and marker of a model, its judge and its sampler."""


def series(rows: Any, model: str, judge: str, sampler: str) -> Any:
    """Rows of one series on the problems that did not predict."""
    chosen = (rows.model == model) & (rows.judge == judge) & (rows.sampler == sampler) & (rows.part == "even")
    return rows[chosen]


def draw_points(ax: Axes, rows: Any, x: str, color: str, marker: str, **look: Any) -> None:
    """Measured ESS with intervals, hollow outside the law's domain; dashed prediction with its band inside it."""
    known = rows[rows.inside] if rows.inside.any() else rows
    claimed = bool(rows.inside.any())
    line = {**_style.PREDICTED, **({} if claimed else {"color": _style.COLORS["outside"], "linestyle": ":"})}
    ax.plot(known[x], known.predicted_ess, zorder=1.5, **line)
    if len(known) == 1:
        # A line through one point does not show.
        point, place = known.iloc[0], known[x] * 1.12
        reach = [[point.predicted_ess - point.predicted_low], [point.predicted_high - point.predicted_ess]]
        ink = _style.COLORS["predicted"]
        bar = ax.errorbar(place, known.predicted_ess, reach, marker="_", color=ink, linewidth=0.8)
        bar[2][0].set_linestyle(_style.PREDICTED["linestyle"])
    elif claimed:
        shade = {"color": _style.COLORS[color], "alpha": 0.12, "linewidth": 0}
        ax.fill_between(known[x], known.predicted_low, known.predicted_high, **shade)
    style = {**_style.MEASURED, "marker": marker, "color": _style.COLORS[color], **look}
    for part, extra in ((rows[rows.inside], {}), (rows[~rows.inside], {"mfc": "white"})):
        reach = [part.ess - part.low, part.high - part.ess]
        ax.errorbar(part[x], part.ess, yerr=reach, **{**style, **extra})


def draw_staleness(ax: Axes, rows: Any) -> Axes:
    """ESS of whole answers against staleness."""
    for key, (label, color, marker) in SERIES.items():
        own = series(rows, *key)
        own = own[own.tokens == own.tokens.max()]
        draw_points(ax, own, "staleness", color, marker)
        ax.plot([], [], label=label, linestyle="none", marker=marker, color=_style.COLORS[color], markersize=4)
    ax.plot([], [], label="predicted", **_style.PREDICTED)
    ax.set_xscale("log", base=2)
    levels = sorted(rows[rows.part == "even"].staleness.unique())
    ax.set(xlabel="staleness $S$ (updates)", ylabel="ESS / N", ylim=(0.0, 1.06), xticks=levels)
    ax.set_xticklabels([str(level) for level in levels])
    ax.minorticks_off()
    ax.legend(loc="lower left", borderpad=0.0)
    ax.set_title("Stale answers lose effective samples")
    return ax


def draw_length(ax: Axes, rows: Any) -> Axes:
    """ESS of the first tokens of each answer, character model under the coin."""
    own = series(rows, *CHARACTERS)
    levels = sorted(own.staleness.unique())
    for place, staleness in enumerate(levels):
        one = own[own.staleness == staleness].sort_values("tokens")
        shifted = one.assign(tokens=one.tokens + 0.09 * (place - (len(levels) - 1) / 2))
        draw_points(ax, shifted, "tokens", "measured", "o")
        end = one.iloc[-1]
        ax.text(end.tokens + 0.22, end.ess, f"$S = {staleness}$", va="center", fontsize=7)
    tokens = sorted(own.tokens.unique())
    ax.set(xlabel="first tokens of an answer $L$", ylim=(0.0, 1.06), xlim=(0.75, max(tokens) + 0.9), xticks=tokens)
    ax.set_title("Longer answers lose more")
    return ax


def draw(rows: Any) -> Figure:
    """Both panels."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 3.2)
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.35, 1))
        draw_staleness(left, rows)
        draw_length(right, rows)
        _script.caption(
            figure,
            "How many answers does a stale batch stand for? Varied: staleness and length. Measured: ESS of a batch's",
            "ratios over its size N, 95 % intervals between replicates. Dashed, with the band that its error leaves:",
            "predicted from one update's change of log-probs on other problems. Dotted, hollow: outside its domain.",
        )
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """ESS of whole answers beside its prediction: of the coin inside the law's domain, and what lies outside."""
    own = {key: series(rows, *key) for key in SERIES}
    whole = {key: one[one.tokens == one.tokens.max()] for key, one in own.items()}
    coin, answer = (whole[key] for key in SERIES)
    inside = coin[coin.inside]
    met = inside[(inside.low <= 1.1 * inside.predicted_ess) & (inside.high >= 0.9 * inside.predicted_ess)]
    held = inside[(inside.low <= inside.predicted_ess) & (inside.high >= inside.predicted_ess)]
    off = answer[answer.staleness > 1]
    short = rows[(rows.tokens == rows.tokens.max()) & (rows.part == "even") & (rows.model == "char")]
    mixed = short.drop_duplicates("sampler").set_index("sampler").ess_mismatch
    drift = rows[(rows.judge == "coin") & rows.drift_error.notna()].iloc[0]
    return {
        "replicates": f"{int(coin.replicates.max())}",
        "answers": f"{int(coin.samples.max())}",
        "staleness": _script.listed(f"{level}" for level in inside.staleness),
        "ess": ", ".join(f"{row.ess:.3f} ({row.low:.3f} to {row.high:.3f})" for row in inside.itertuples()),
        "predicted": ", ".join(f"{value:.3f}" for value in inside.predicted_ess),
        "drift": f"{drift.drift:+.3f} ± {drift.drift_error:.3f}".replace("-", "−"),
        "levels": f"{len(inside)}",
        "met": f"{len(met)}",
        "held": f"{len(held)}",
        **{f"numerics_{name}": f"{mixed.get(name, math.nan):.4f}" for name in ("bfloat16", "int8")},
        "ratio": _script.listed(f"{row.variance / row.predicted_variance:.1f} at {row.staleness}" for row in
                                off.itertuples()),
    }  # fmt: skip
