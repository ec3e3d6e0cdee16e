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
from paper_figures import _gac_nulls, _gac_reading, _script

EXPERIMENTS = ("gac_alignment",)
ARMS = ((0, 0.9), (made.LATE, 0.3), (made.LATE, 0.9))
"""Staleness and share of the largest stable step in training; the middle one is quoted, not drawn."""
MARKERS = {"gaussian": "o", "softmax": "s", "token": "^"}
AGES = {1: "#e59a48", 2: "#8a4206", 4: "#e59a48", 8: _style.COLORS["stale"], 16: "#8a4206"}
"""Shades of constant staleness."""
CAUSES = {
    "far, batch 16": "far from the optimum (strong\nsignal, tiny step), batch of 16",
    "far, batch 256": "far from the optimum (strong\nsignal, tiny step), batch of 256",
    "batch used 4 times": "at the optimum, 0.3 of the limit, each\nbatch used 4 times (synchronous only)",
    "momentum": "at the optimum, momentum 0.9, a 40th\nof its limit (synchronous only)",
    "small step": "at the optimum,\n0.3 of the limit at staleness 8",
    "large step": "at the optimum,\n0.9 of the limit at staleness 8",
}
LARGE, SHOWN = 0.9, (1, 4, 16)
"""The share of the largest stable step in training, and the staleness values whose correlograms are drawn."""
LIKENESS = "correlation of consecutive gradients"
RANDOM = "large step, random"
"""Drawn in the row of the large step."""


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


def causes(condition: str, staleness: int) -> float | None:
    """Predicted correlation of neighbors under a condition; none with momentum, which no claim covers."""
    own = made.CONDITIONS[condition]
    if "momentum" in own:
        return None
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
    """Mean correlation along training, with what signal to noise and stationarity predict."""
    late_name = f"{made.LATE} updates old"
    names = {0: (-0.25, "synchronous, same step", "synchronous"), made.LATE: (0.93, late_name, "stale")}
    for tau, (height, name, color) in names.items():
        own = rows[(rows.part == "training") & (rows.staleness == tau) & (rows.fraction == LARGE)]
        own, shade = own[own.quantity == "correlation"], _style.COLORS[color]
        ax.plot(own["update"], own.value, color=shade)
        ax.fill_between(own["update"], own.low, own.high, color=shade, alpha=0.25, linewidth=0)
        last = own["update"].max()
        ax.text(last, height, name, color=shade, fontsize=7, ha="right")
        read = path(tau, LARGE, int(last))
        size = made.DIMENSION * read**2
        chance = made.DIMENSION * np.array([noise(s, made.SAMPLES) ** 2 for s in size]) / made.SAMPLES
        # The first gradients after a start all read the first weights: their mean is steady, later ones' is not.
        if tau:
            ax.plot([1, tau], [signal(made.START, made.SAMPLES)] * 2, zorder=4, **_style.PREDICTED)
            ax.text(1.05, 0.83, "predicted: weights\nnot yet moved (orange)", fontsize=6.5)
            ax.text(17, 0.31, "dips: policy overshoots\nthe optimum", fontsize=6.5, color=shade, va="top")
        late = int(np.flatnonzero(size > 0.02 * chance).max())
        if late < len(read) - 1:
            ax.plot([late, len(read)], [steady("gaussian", tau, LARGE)] * 2, zorder=4, **_style.PREDICTED)
            above = steady("gaussian", tau, LARGE) + (0.05 if tau == 0 else -0.1)
            ax.text(last, above, "predicted: steady state", fontsize=6.5, ha="right")
    ax.set_xscale("log")
    ax.set(xticks=[1, 10, 100, 1000], xlabel="updates of training", xlim=(1, None))
    ax.set_xticklabels(["1", "10", "100", "1000"])
    ax.set(ylabel=LIKENESS, ylim=(-0.32, 1.02))
    setting = f"(Gaussian bandit, {LARGE} of the limit at staleness {made.LATE})"
    ax.set_title(f"Early in training, fresh gradients align too\n{setting}")
    return ax


def draw_steady(ax: Axes, rows: Any) -> Axes:
    """Three tasks at their optimum."""
    span = np.linspace(0.05, 0.9, 40)
    names = {"gaussian": "Gaussian bandit", "token": "token bandit", "softmax": "softmax bandit"}
    for task, marker in MARKERS.items():
        for tau, color in ((0, "synchronous"), (made.LATE, "stale")):
            known, shade = [steady(task, tau, f) for f in span], _style.COLORS[color]
            ax.plot(span, known, **_style.PREDICTED)
            own = rows[(rows.part == "steady") & (rows.task == task) & (rows.staleness == tau)]
            look = {**_style.MEASURED, "marker": marker, "color": shade, "markersize": 3.5}
            ax.errorbar(own.fraction, own.value, yerr=[own.value - own.low, own.high - own.value], **look)
            if tau:
                ax.text(0.94, known[-1], names[task], color=shade, fontsize=7, va="center")
    ax.text(0.94, -0.08, "all three", color=_style.COLORS["synchronous"], fontsize=7, va="center")
    ax.text(0.08, 0.16, f"{made.LATE} updates old", color=_style.COLORS["stale"], fontsize=7)
    ax.text(0.08, -0.13, "synchronous, same steps", color=_style.COLORS["synchronous"], fontsize=7)
    ax.plot([0.0, 0.93], [0.0, 0.0], color=_style.COLORS["muted"], linewidth=0.6, zorder=0)
    ax.set(xlabel=f"step / largest stable step at staleness {made.LATE} (limit)", xlim=(0.0, 1.28))
    ax.set(xticks=[0.0, 0.2, 0.4, 0.6, 0.8], ylabel=LIKENESS, ylim=(-0.2, 0.6))
    ax.set_title("At the optimum, staleness aligns gradients,\nbut strongly only near the limit")
    return ax


def draw_correlogram(ax: Axes, rows: Any) -> Axes:
    """Correlograms of several staleness values, one above the other, and where each drops."""
    own = rows[(rows.part == "reading") & (rows.quantity == "correlation") & rows.staleness.isin(SHOWN)]
    shown, marker = sorted(own.staleness.unique()), dict(zip(SHOWN, "D^s", strict=True))
    for row, tau in enumerate(shown):
        one, base = own[own.staleness == tau].sort_values("lag"), -2.3 * row
        known = _gac_reading.correlations(int(tau), float(one.step.iloc[0]), made.LAGS)
        peak = np.abs(known[1:]).max()
        ax.plot([0.3, made.LAGS + 0.5], [base, base], color=_style.COLORS["muted"], linewidth=0.5, zorder=0)
        ax.fill_between([tau, tau + 1], base - 1.1, base + 1.1, color=_style.COLORS["effect"], linewidth=0, zorder=0)
        ax.plot(np.arange(1, made.LAGS + 1), base + known[1:] / peak, **_style.PREDICTED)
        reach = [(one.value - one.low) / peak, (one.high - one.value) / peak]
        look = {**_style.MEASURED, "markersize": 2.8, "marker": marker[tau], "color": AGES[tau]}
        ax.errorbar(one.lag, base + one.value / peak, yerr=reach, **look)
        name = f"staleness {int(tau)}\n(largest {peak:.2f})"
        ax.text(made.LAGS + 0.8, base, name, color=AGES[tau], fontsize=7, va="center")
    lowest, shaded = -2.3 * (len(shown) - 1), "shaded: from lag = staleness\nto the next lag"
    ax.text(shown[-1] - 0.5, lowest - 0.95, shaded, fontsize=6.5, ha="right", color=_style.COLORS["muted"])
    ax.set(xlabel="lag: updates between the two gradients", xlim=(0.3, made.LAGS + 7.5))
    ax.set(xticks=[1, 4, 8, 12, 16, 20, 24], ylim=(lowest - 1.15, 1.15), yticks=[])
    ax.set_ylabel("correlation / its largest size; gray line: 0")
    ax.set_title("Correlation drops most right after lag = staleness\n(noisy descent on a quadratic of 8 coordinates)")
    return ax


def draw_reading(ax: Axes, rows: Any) -> Axes:
    """Share of runs whose constant staleness is read right."""
    own = rows[(rows.part == "reading") & (rows.quantity == "right")]
    places = {4: (200, 40, "staleness 4"), 8: (790, 55, "8"), 16: (2900, 55, "16")}
    for tau, marker in zip((4, 8, 16), "^os", strict=True):
        one = own[own.staleness == tau].sort_values("update")
        if one.empty:
            continue
        lengths = np.geomspace(one["update"].min(), one["update"].max(), 24)
        known = _gac_reading.readings(tau, float(one.step.iloc[0]), lengths, made.LAGS, 8)
        ax.plot(lengths, 100 * known, **_style.PREDICTED)
        reach = [100 * (one.value - one.low).clip(lower=0), 100 * (one.high - one.value).clip(lower=0)]
        look = {**_style.MEASURED, "marker": marker, "color": AGES[tau]}
        ax.errorbar(one["update"], 100 * one.value, yerr=reach, **look)
        ax.text(*places[tau], color=AGES[tau], fontsize=7, ha="right")
    ax.axhline(95.0, color=_style.COLORS["muted"], linewidth=0.7, linestyle=":")
    ax.text(27, 96.5, "dotted: 95 %", fontsize=6.5, color=_style.COLORS["muted"])
    ax.set_xscale("log")
    ax.set(xticks=[30, 100, 300, 1000, 3000, 8000], xlim=(25, 9200), ylim=(-3.0, 104.0), xlabel="updates watched")
    ax.set_xticklabels(["30", "100", "300", "1000", "3000", "8000"])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(ylabel="runs whose staleness is read right (%)")
    ax.set_title("Larger staleness takes longer to read\n(checked reading of one run; else: cannot tell)")
    return ax


def draw_causes(ax: Axes, rows: Any) -> Axes:
    """What aligns gradients, with and without staleness."""
    kinds = {
        "synchronous": ("synchronous", "o", 0.23),
        "stale": (f"always {made.LATE} updates old", "s", -0.23),
        "random": (f"0 to {made.LATE} updates old, at random", "D", -0.23),
    }
    own = rows[rows.part == "causes"]
    for found in own.itertuples():
        kind = "random" if found.condition == RANDOM else "stale" if found.staleness else "synchronous"
        row = list(CAUSES).index("large step" if kind == "random" else found.condition)
        where, reach = kinds[kind][2] - row, [[found.value - found.low], [found.high - found.value]]
        look = {**_style.MEASURED, "marker": kinds[kind][1], "color": _style.COLORS[kind], "mfc": "white", "capsize": 0}
        ax.errorbar(found.value, where, xerr=reach, **look)
        known, dash = causes(found.condition, int(found.staleness)), {**_style.PREDICTED, "linestyle": (0, (2.5, 1))}
        if known is not None:
            ax.plot([known, known], [where - 0.21, where + 0.21], **dash)
    for row in range(len(CAUSES) - 1):
        ax.axhline(-row - 0.5, color=_style.COLORS["effect"], linewidth=0.6, zorder=0)
    for kind, (name, marker, _) in kinds.items():
        look = {**_style.MEASURED, "marker": marker, "color": _style.COLORS[kind], "mfc": "white"}
        ax.errorbar([], [], label=name, **look)
    ax.plot([], [], label="predicted (momentum: not)", **_style.PREDICTED)
    ax.axvline(0.0, color=_style.COLORS["muted"], linewidth=0.6)
    ax.set(xlim=(-0.15, 1.0), ylim=(0.5 - len(CAUSES), 0.5), xlabel=LIKENESS)
    ax.set_yticks([-row for row in range(len(CAUSES))], list(CAUSES.values()))
    ax.legend(loc="lower right", borderpad=0.0)
    ax.set_title("Strong signal, re-used batches and momentum align gradients without any delay")
    return ax


def told(rows: Any) -> list[str]:
    """The text above the panels, with the runs behind a mark of each part."""
    parts = ("training", "steady", "reading", "causes", "nulls")
    first, second, third, fourth, fifth = (int(rows[rows.part == part].samples.max()) for part in parts)
    return [
        "Are stale gradients alike, and does likeness reveal staleness? A gradient is 8 updates old (staleness 8)",
        "if computed with the weights of 8 updates ago; the limit is the largest stable step. Policy gradients of a",
        "Gaussian bandit (an action is a number) where no other is named (softmax: one of several arms; token:",
        f"{made.HORIZON} in a row); middle row and bottom: noisy gradient descent, middle at 0.7 of its largest stable",
        "step. Measured: correlation, the mean",
        "product of two gradients over their mean squared norm (1: same direction, 0: unrelated, −1: opposite);",
        f"runs: {first} (top left), {second} (top right), {third} (middle), {fourth} and {fifth} (below); bands and",
        "bars: 95 % intervals, often smaller than the marks. Black dashes: predicted, nothing fitted. Checked reading:",
        "the lag of the largest drop, if the drop leads from positive to equally negative correlation and exceeds",
        "all other drops; else it cannot tell. To see: high correlation alone does not show staleness; the drop does",
        "if staleness is constant, steps are plain, all directions curve alike and training has settled.",
    ]


def draw(rows: Any) -> Figure:
    """Six panels on the measured rows, theory dashed."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 12.0)
        upper, lower, lowest = figure.subfigures(3, 1, height_ratios=(2.15, 0.98, 1.15))
        for ax, panel in zip(
            upper.subplots(2, 2, height_ratios=(1, 1.1)).flat,
            (draw_training, draw_steady, draw_correlogram, draw_reading),
            strict=True,
        ):
            panel(ax, rows)
        draw_causes(lower.subplots(), rows)
        _gac_nulls.draw(lowest.subplots(), rows)
        _script.caption(figure, *told(rows))
    return figure


def _said(row: Any) -> str:
    return f"{row.value:+.3f} ± {(row.high - row.low) / 2:.3f}".replace("-", "−")


def numbers(rows: Any) -> dict[str, str]:
    """Correlations early and late, those at the optimum, updates that a reading needs, and causes."""
    found = {"late": str(made.LATE), "floor": f"{floor():.2f}", **_learned(rows), **_settled(rows), **_read(rows)}
    found |= _gac_nulls.numbers(rows)
    rolling = made.CONDITIONS["momentum"]
    point = {"staleness": 0, "curvatures": (1.0,), "momentum": rolling["momentum"]}
    limit = theory.claim("staleness/heavy-ball").predict(point)
    found["beta"] = f"{rolling['momentum']:g}"
    found["momentum_share"] = f"{rolling['step'] / limit['step']:.2f}"
    found |= {"passes": str(made.CONDITIONS["batch used 4 times"]["passes"])}
    found |= {f"batch_{size}": str(made.CONDITIONS[f"far, batch {size}"]["samples"]) for size in (16, 256)}
    kept = rows[(rows.part == "causes") & (rows.condition != "small step")]
    for row in kept[(kept.condition != "large step") | (kept.staleness > 0)].itertuples():
        found[f"{row.condition.replace(',', '').replace(' ', '_')}_{int(row.staleness)}"] = _said(row)
    return found


def _learned(rows: Any) -> dict[str, str]:
    """Early and last windows of training by arm."""
    found = {"small": f"{ARMS[1][1]:g}", "large": f"{ARMS[2][1]:g}"}
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
    """Updates after which at most one run of twenty is not read right, and how many runs are read wrong at all."""
    own, found = rows[rows.part == "reading"], {"four": "4", "sixteen": "16"}
    for tau in (4, 16):
        one = own[(own.staleness == tau) & (own.quantity == "right")].sort_values("update")
        enough = one[one.value >= 0.95]["update"]
        last = f"more than {int(one['update'].max()):,}"
        found[f"enough_{tau}"] = f"{int(enough.iloc[0]):,}" if len(enough) else last
        plain = own[(own.staleness == tau) & (own.quantity == "unchecked")].sort_values("update")
        enough = plain[plain.value <= 0.05]["update"]
        found[f"known_{tau}"] = f"{int(enough.iloc[0]):,}" if len(enough) else last
    wrong = own[own.quantity == "wrong"]
    count = int((wrong.value * wrong.samples).round().sum())
    return found | {"wrong_read": str(count), "all_read": f"{int(wrong.samples.sum()):,}"}
