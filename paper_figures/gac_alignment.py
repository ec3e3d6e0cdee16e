"""Alignment of stale gradients in training, the staleness read off them, and other causes of alignment."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from asyncsim import theory
from asyncsim.plotting import _style
from experiments import _gac
from experiments import gac_alignment as made
from paper_figures import _gac_reading, _script

EXPERIMENTS = ("gac_alignment",)
ARMS = {
    (0, 0.9): ("synchronous", "-", "synchronous, step of the top curve"),
    (made.LATE, 0.3): ("partial", "--", f"{made.LATE} updates old, a third of that step"),
    (made.LATE, 0.9): ("stale", "-", f"{made.LATE} updates old, 0.9 of the largest step"),
}
MARKERS = {"gaussian": "o", "softmax": "s", "token": "^"}
NAMES = {"gaussian": "Gaussian bandit", "softmax": "softmax bandit", "token": "token bandit"}
CAUSES = {
    "far, batch 16": "far from the optimum,\nbatch of 16",
    "far, batch 256": "far from the optimum,\nbatch of 256",
    "batch used 4 times": "each batch used 4 times",
    "small step": "at the optimum,\n0.3 of the largest step",
    "large step": "at the optimum,\n0.9 of the largest step",
    "large step, random": f"the same, staleness\ndrawn from 0..{made.LATE}",
}


def steady(task: str, staleness: int, fraction: float) -> float:
    """Correlation of neighbors at a task's optimum: each mode's, weighted by its energy; noise as its curvature."""
    modes = made.curvatures(task)[0]
    step = fraction * _gac.boundary("fixed", made.LATE) / modes.max()
    law = theory.claim("alignment/lag1-closed-form")
    energy = neighbors = 0.0
    for mode in modes:
        found = law.predict({"staleness": staleness, "curvature": mode, "noise": float(np.sqrt(mode)), "step": step})
        energy += mode * found["amplification"]
        neighbors += mode * found["amplification"] * found["corr[1]"]
    return neighbors / energy


def noise(square: float, samples: int) -> float:
    """Noise of one coordinate of the Gaussian bandit's gradient, as if of one sample, at |theta|^2 = `square`.

    The gradient is the covariance of rewards -|a|^2/2 and z over N samples, whose variance is (m22 - (N-2)/(N-1) m11^2
    + m20 m02/(N-1)) / N by the central moments; summed over the coordinates.
    """
    d, n = made.DIMENSION, samples
    m22 = (d + 2) * square + d * (d + 4) / 2
    total = m22 - (n - 2) / (n - 1) * square + d * (square + d / 2) / (n - 1)
    return float(np.sqrt(total / d))


def signal(coordinate: float, samples: int) -> float:
    """Correlation of neighbors while the mean gradient is steady, at one value of every coordinate."""
    d = made.DIMENSION
    point = {"dimension": d, "signal": abs(coordinate) * np.sqrt(d), "samples": samples}
    return theory.claim("alignment/snr").predict({**point, "noise": noise(d * coordinate**2, samples)})["corr[1]"]


def path(staleness: int, fraction: float, updates: int) -> np.ndarray:
    """Mean of a coordinate that the gradient of each update reads, from far away."""
    a, mean = fraction * _gac.boundary("fixed", made.LATE), [made.START]
    for t in range(updates):
        mean.append(mean[-1] - a * mean[max(t - staleness, 0)])
    return np.array([mean[max(t - staleness, 0)] for t in range(updates)])


def causes(condition: str, staleness: int) -> float:
    """Predicted correlation of neighbors under a condition."""
    own = made.CONDITIONS[condition]
    if not own.get("steady", True):
        return signal(made.START, own["samples"])
    if own.get("schedule") == "random":
        law = (1.0 / (staleness + 1),) * (staleness + 1)
        point = {"law": law, "curvature": 1.0, "noise": 1.0, "step": own["share"] * _gac.boundary("fixed", made.LATE)}
        return theory.claim("alignment/random-delay-cosine").predict(point)["corr[1]"]
    passes = own.get("passes", 1)
    # Updates on one batch repeat one gradient exactly, so batches see so many times the step.
    return (passes - 1) / passes + steady("gaussian", staleness, own["share"] * passes) / passes


def floor() -> float:
    """Mean size of the cosine of two unrelated gradients."""
    return theory.claim("alignment/noise-floor").predict({"dimension": made.DIMENSION, "threshold": 0.5})["mean_size"]


def draw_training(ax: Axes, rows: Any) -> Axes:
    """Mean cosine along training, with what signal to noise and stationarity predict."""
    places = {(0, 0.9): -0.2, (made.LATE, 0.3): 0.08, (made.LATE, 0.9): 0.92}
    for (tau, fraction), (color, line, name) in ARMS.items():
        own = rows[(rows.part == "training") & (rows.staleness == tau) & (rows.fraction == fraction)]
        own, shade = own[own.quantity == "correlation"], _style.COLORS[color]
        ax.plot(own["update"], own.value, color=shade, linestyle=line, linewidth=1.0)
        ax.fill_between(own["update"], own.low, own.high, color=shade, alpha=0.25, linewidth=0)
        ax.text(own["update"].max(), places[tau, fraction], name, color=shade, fontsize=6.5, ha="right")
        read = path(tau, fraction, int(own["update"].max()))
        size = made.DIMENSION * read**2
        chance = made.DIMENSION * np.array([noise(s, made.SAMPLES) ** 2 for s in size]) / made.SAMPLES
        # The first gradients after a start all read the first weights: their mean is steady, later ones' is not.
        if tau:
            ax.plot([1, tau], [signal(made.START, made.SAMPLES)] * 2, zorder=4, **_style.PREDICTED)
        late = int(np.flatnonzero(size > 0.02 * chance).max())
        if late < len(read) - 1:
            ax.plot([late, len(read)], [steady("gaussian", tau, fraction)] * 2, zorder=4, **_style.PREDICTED)
    ax.axhspan(-floor(), floor(), color=_style.COLORS["effect"], alpha=0.6, linewidth=0, zorder=0)
    ax.set_xscale("log")
    ax.set(xticks=[1, 10, 100, 1000], xlabel="updates of training", xlim=(1, None))
    ax.set_xticklabels(["1", "10", "100", "1000"])
    ax.set(ylabel="correlation of neighboring gradients", ylim=(-0.3, 1.02))
    ax.set_title("Training: at first fresh ones align as well")
    return ax


def draw_steady(ax: Axes, rows: Any) -> Axes:
    """Three tasks at their optimum."""
    span = np.linspace(0.05, 0.93, 40)
    for task, marker in MARKERS.items():
        for tau, color in ((0, "synchronous"), (made.LATE, "stale")):
            ax.plot(span, [steady(task, tau, f) for f in span], **_style.PREDICTED)
            own = rows[(rows.part == "steady") & (rows.task == task) & (rows.staleness == tau)]
            look = {**_style.MEASURED, "marker": marker, "color": _style.COLORS[color]}
            ax.errorbar(own.fraction, own.value, yerr=[own.value - own.low, own.high - own.value], **look)
        ax.errorbar([], [], label=NAMES[task], **{**_style.MEASURED, "marker": marker, "color": _style.COLORS["muted"]})
    ax.text(0.1, 0.16, f"{made.LATE} updates old", color=_style.COLORS["stale"], fontsize=7)
    ax.text(0.1, -0.14, "synchronous", color=_style.COLORS["synchronous"], fontsize=7)
    ax.axhline(0.0, color=_style.COLORS["muted"], linewidth=0.6)
    ax.set(xlabel=f"step, as a share of the largest at staleness {made.LATE}", xlim=(0.0, 1.0))
    ax.set(ylabel="correlation of neighboring gradients", ylim=(-0.2, 0.62))
    ax.legend(loc="upper left", borderpad=0.0)
    ax.set_title("At the optimum only stale ones do, near the limit")
    return ax


def draw_correlogram(ax: Axes, rows: Any) -> Axes:
    """Correlograms of several staleness values, one above the other, and where each turns."""
    own = rows[(rows.part == "reading") & (rows.quantity == "correlation")]
    for row, tau in enumerate(sorted(own.staleness.unique())):
        one, base = own[own.staleness == tau], -1.3 * row
        known = _gac_reading.correlations(int(tau), float(one.step.iloc[0]), made.LAGS)
        ax.axhline(base, color=_style.COLORS["muted"], linewidth=0.5)
        ax.axvspan(tau, tau + 1, 1 - (row + 1) / own.staleness.nunique(), 1 - row / own.staleness.nunique(),
                   color=_style.COLORS["effect"], linewidth=0)  # fmt: skip
        ax.plot(np.arange(1, made.LAGS + 1), base + known[1:], **_style.PREDICTED)
        reach = [one.value - one.low, one.high - one.value]
        look = {**_style.MEASURED, "markersize": 2.5, "color": _style.COLORS["stale"]}
        ax.errorbar(one.lag, base + one.value, yerr=reach, **look)
        ax.text(made.LAGS + 0.7, base, f"{int(tau)}", color=_style.COLORS["stale"], fontsize=7, va="center")
    ax.set(xlabel="lag: gradients so many updates apart", xlim=(0.3, made.LAGS + 2.2))
    ax.set(ylim=(-1.3 * (own.staleness.nunique() - 1) - 0.65, 0.65), yticks=[])
    ax.set_ylabel("correlation, − to +, one line for each staleness")
    ax.set_title("The lag behind which it turns is the staleness")
    return ax


def draw_reading(ax: Axes, rows: Any) -> Axes:
    """Share of runs whose staleness is read wrong."""
    own = rows[(rows.part == "reading") & (rows.quantity == "wrong")]
    for (tau, shade), marker in zip(_script.shades(own.staleness), "ovsD^", strict=False):
        one = own[own.staleness == tau].sort_values("update")
        lengths = np.geomspace(one["update"].min(), one["update"].max(), 12)
        known = _gac_reading.errors(tau, float(one.step.iloc[0]), lengths, made.LAGS, 8)
        ax.plot(lengths, 100 * known, **_style.PREDICTED)
        reach = [100 * (one.value - one.low).clip(lower=0), 100 * (one.high - one.value)]
        ax.errorbar(one["update"], 100 * one.value, yerr=reach, **{**_style.MEASURED, "marker": marker, "color": shade})
        place = one.iloc[(one.value - 0.35).abs().argmin()]
        # Curves that never leave 0 start at the same place.
        aside = (5, 4) if place.value > 0.02 else (-4 + 8 * (tau - 1), 5)
        ax.annotate(f"{tau}", (place["update"], 100 * place.value), aside, textcoords="offset points", color=shade)
    ax.axhline(5.0, color=_style.COLORS["muted"], linewidth=0.6, linestyle=":")
    ax.set_xscale("log")
    ax.set(xticks=[30, 100, 300, 1000, 3000, 8000], ylim=(-3.0, 100.0), xlabel="updates watched")
    ax.set_xticklabels(["30", "100", "300", "1000", "3000", "8000"])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(ylabel="runs read wrong (%)")
    ax.set_title("How long must one watch, by true staleness?")
    return ax


def draw_causes(ax: Axes, rows: Any) -> Axes:
    """What aligns gradients, with and without staleness."""
    own = rows[rows.part == "causes"]
    for row, condition in enumerate(CAUSES):
        ax.axhline(-row, color=_style.COLORS["effect"], linewidth=0.6, zorder=0)
        for tau, color, marker, off in ((0, "synchronous", "o", 0.14), (made.LATE, "stale", "s", -0.14)):
            one = own[(own.condition == condition) & (own.staleness == tau)]
            look = {**_style.MEASURED, "marker": marker, "color": _style.COLORS[color]}
            for found in one.itertuples():
                where, reach = off - row, [[found.value - found.low], [found.high - found.value]]
                ax.errorbar(found.value, where, xerr=reach, **look)
                ax.plot([causes(condition, tau)] * 2, [where - 0.17, where + 0.17], **_style.PREDICTED)
    for tau, color, marker in ((0, "synchronous", "o"), (made.LATE, "stale", "s")):
        look = {**_style.MEASURED, "marker": marker, "color": _style.COLORS[color]}
        ax.errorbar([], [], label=f"{tau} updates old" if tau else "synchronous", **look)
    ax.axvline(0.0, color=_style.COLORS["muted"], linewidth=0.6)
    ax.set(xlim=(-0.15, 1.0), ylim=(0.5 - len(CAUSES), 0.5), xlabel="correlation of neighboring gradients")
    ax.set_yticks([-row for row in range(len(CAUSES))], list(CAUSES.values()))
    ax.legend(loc="lower right", borderpad=0.0)
    ax.set_title("What aligns neighboring gradients? More than staleness")
    return ax


def draw(rows: Any) -> Figure:
    """Five panels on the measured rows, theory dashed."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 8.4)
        upper, lower = figure.subfigures(2, 1, height_ratios=(2.15, 0.95))
        for ax, panel in zip(
            upper.subplots(2, 2, height_ratios=(1, 1.15)).flat,
            (draw_training, draw_steady, draw_correlogram, draw_reading),
            strict=True,
        ):
            panel(ax, rows)
        draw_causes(lower.subplots(), rows)
        _script.caption(
            figure,
            "Are stale gradients alike, and does likeness mean staleness? Policy gradients (below: noisy descent).",
            "Measured: how alike gradients are (1: same direction, 0: unrelated, −1: opposite), 95 % intervals.",
            "Dashed: predicted without fitting. Pale band, upper left: what unrelated gradients reach by chance. To",
            "see: signal and re-used batches align fresh gradients as well; it is the turn that betrays staleness.",
        )
    return figure


def _said(row: Any) -> str:
    return f"{row.value:+.3f} ± {(row.high - row.low) / 2:.3f}".replace("-", "−")


def numbers(rows: Any) -> dict[str, str]:
    """Correlations early and late, those at the optimum, updates that a reading needs, and causes."""
    found = {"late": str(made.LATE), "floor": f"{floor():.2f}", **_learned(rows), **_settled(rows), **_read(rows)}
    found |= {"passes": str(made.CONDITIONS["batch used 4 times"]["passes"])}
    found |= {f"batch_{size}": str(made.CONDITIONS[f"far, batch {size}"]["samples"]) for size in (16, 256)}
    kept = rows[(rows.part == "causes") & (rows.condition != "small step")]
    for row in kept[(kept.condition != "large step") | (kept.staleness > 0)].itertuples():
        found[f"{row.condition.replace(',', '').replace(' ', '_')}_{int(row.staleness)}"] = _said(row)
    return found


def _learned(rows: Any) -> dict[str, str]:
    """Early and last windows of training by arm."""
    found = {"small": f"{list(ARMS)[1][1]:g}", "large": f"{list(ARMS)[2][1]:g}"}
    for (tau, fraction), name in zip(ARMS, ("fresh", "small", "large"), strict=True):
        own = rows[(rows.part == "training") & (rows.staleness == tau) & (rows.fraction == fraction)]
        for quantity in ("correlation", "cosine"):
            one = own[own.quantity == quantity].sort_values("update")
            early, end = one[one["update"] <= 4].iloc[-1], one.iloc[-1]
            found[f"end_{name}_{quantity}"] = _said(end)
            if name != "small":
                found[f"early_{name}_{quantity}"] = _said(early)
            found |= {"early": str(int(early["update"])), "end": f"{int(end['update']):,}"}
    return found


def _settled(rows: Any) -> dict[str, str]:
    """Correlations at the optimum, at the largest step and, stale ones, at the smallest; the worst deviation."""
    own, scores, found = rows[rows.part == "steady"], [], {}
    for row in own.itertuples():
        scores.append(abs(row.value - steady(row.task, int(row.staleness), row.fraction)) / row.error)
        if row.fraction == own.fraction.max():
            found[f"near_{row.task}_{int(row.staleness)}"] = _said(row)
        elif row.fraction == own.fraction.min() and row.staleness > 0:
            found[f"deep_{row.task}"] = _said(row)
    found |= {"near": f"{own.fraction.max():g}", "deep": f"{own.fraction.min():g}"}
    return found | {"worst_steady": f"{max(scores):.1f}", "compared_steady": str(len(own))}


def _read(rows: Any) -> dict[str, str]:
    """Updates after which at most one run of twenty is read wrong."""
    own = rows[(rows.part == "reading") & (rows.quantity == "wrong")]
    found = {"four": "4", "sixteen": "16", "shortest": str(int(own["update"].min()))}
    for tau in (4, 16):
        one = own[own.staleness == tau].sort_values("update")
        enough = one[one.value <= 0.05]["update"]
        last = f"more than {int(one['update'].max()):,}"
        found[f"enough_{tau}"] = f"{int(enough.iloc[0]):,}" if len(enough) else last
    return found | {"first_16": f"{100 * one.value.iloc[0]:.0f}"}
