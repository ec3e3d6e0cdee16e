"""Alignment of consecutive gradients against the distance to instability, for three kinds of staleness."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from asyncsim import theory
from asyncsim.plotting import _style
from experiments import _gac
from paper_figures import _script

EXPERIMENTS = ("gac_boundary",)
LATE = 8
"""Largest staleness of the three schedules that are compared."""
CONSTANT = {0: ("synchronous", "o"), 1: ("1", "v"), 2: ("2", "D"), LATE: ("stale", "s")}
NAMES = {0: "synchronous", 1: "1 update old", 2: "2 updates old", LATE: f"{LATE} updates old"}
SHADES = {**_style.COLORS, "1": "#e59a48", "2": "#8a4206"}
"""Constant staleness differs in shade, the rest by concept."""
OTHERS = {
    "fixed": ("stale", "s", f"always {LATE}\nupdates old"),
    "sawtooth": ("muted", "^", f"0, 1, ..., {LATE} in turn:\nnew weights only\nevery {LATE + 1} updates"),
    "random": ("random", "X", f"drawn at random\nfrom 0 to {LATE}"),
}
SPAN = np.concatenate([np.linspace(0.01, 0.9, 60), np.linspace(0.902, 0.99, 60)])
SHARE = "step / largest stable step at that staleness"


def predicted(schedule: str, staleness: int, step: float) -> dict[str, float]:
    """Correlation of neighbors and gradient energy by the schedule's claim; of the sawtooth its pairs too."""
    point: dict[str, Any] = {"curvature": 1.0, "noise": 1.0, "step": float(step)}
    if schedule == "sawtooth":
        found = theory.claim("alignment/sawtooth-cosine").predict({**point, "updates": staleness + 1})
        return {**found, "correlation": found["lag1"], "energy": found["amplification"]}
    if schedule == "random":
        law = (1.0 / (staleness + 1),) * (staleness + 1)
        found = theory.claim("alignment/random-delay-cosine").predict({**point, "law": law})
    else:
        found = theory.claim("alignment/lag1-closed-form").predict({**point, "staleness": staleness})
    return {"correlation": found["corr[1]"], "energy": found["amplification"]}


def curve(schedule: str, staleness: int, quantity: str) -> np.ndarray:
    """A predicted quantity along `SPAN` of the schedule's boundary."""
    edge = _gac.boundary(schedule, staleness)
    return np.array([predicted(schedule, staleness, share * edge)[quantity] for share in SPAN])


def of(rows: Any, schedule: str, staleness: int, quantity: str) -> Any:
    """Measured rows of a schedule by fraction of its boundary; those without a value are left out."""
    kept = (rows.schedule == schedule) & (rows.staleness == staleness) & (rows.quantity == quantity)
    return rows[kept & rows.value.notna()].sort_values("fraction")


def points(ax: Axes, x: Any, own: Any, color: str, marker: str, **look: Any) -> None:
    """Measured values with their intervals."""
    reach = [own.value - own.low, own.high - own.value]
    ax.errorbar(x, own.value, yerr=reach, **{**_style.MEASURED, "marker": marker, "color": SHADES[color], **look})


def frame(ax: Axes, reach: float) -> None:
    """The axis of correlations; the zero line ends where labels begin."""
    ax.plot([0.0, reach], [0.0, 0.0], color=_style.COLORS["muted"], linewidth=0.6, zorder=0)
    ax.set(ylabel="correlation of consecutive gradients", ylim=(-1.06, 1.06))


def draw_constant(ax: Axes, rows: Any) -> Axes:
    """Constant staleness, by share of its own boundary."""
    for tau, (color, marker) in CONSTANT.items():
        ax.plot(SPAN, curve("fixed", tau, "correlation"), **_style.PREDICTED)
        own = of(rows, "fixed", tau, "correlation")
        points(ax, own.fraction, own, color, marker)
        ax.text(1.03, curve("fixed", tau, "correlation")[-1], NAMES[tau], color=SHADES[color], fontsize=7, va="center")
    frame(ax, 1.0)
    ax.set(xlabel=SHARE, xlim=(0.0, 1.42), xticks=[0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    ax.set_title("Staler gradients stay unlike for longer,\nthen align more sharply near the limit")
    return ax


def draw_same_step(ax: Axes, rows: Any) -> Axes:
    """Three schedules of the same largest staleness, by the step itself; each ends where it diverges."""
    labels = {"fixed": (0.06, 0.72), "sawtooth": (0.232, 0.66), "random": (0.27, 0.4)}
    limits = {"fixed": (-0.003, "right"), "sawtooth": (0.003, "left"), "random": (-0.003, "right")}
    for schedule, (color, marker, name) in OTHERS.items():
        edge, (aside, side) = _gac.boundary(schedule, LATE), limits[schedule]
        ax.plot(SPAN * edge, curve(schedule, LATE, "correlation"), **_style.PREDICTED)
        own = of(rows, schedule, LATE, "correlation")
        points(ax, own.step, own, color, marker)
        ax.plot([edge, edge], [-0.4, 1.06], color=SHADES[color], linewidth=0.9, linestyle=":")
        ax.text(edge + aside, -0.35, f"limit {edge:.2f}", ha=side, fontsize=6.5, color=SHADES[color])
        ax.text(*labels[schedule], name, color=SHADES[color], fontsize=7)
    words = (
        "dotted: largest stable step, predicted (random age:\nlargest with a finite mean squared gradient; close to"
        " it\nnothing is measured, since there an infinite 4th\nmoment would make intervals invalid)"
    )
    ax.text(0.015, -0.95, words, fontsize=6.5)
    frame(ax, 0.45)
    ax.set(xlabel="step × curvature", xlim=(0.0, 0.45))
    ax.set_title(f"At the same step, gradients align less\nif their age varies between 0 and {LATE}")
    return ax


def draw_cycle(ax: Axes, rows: Any) -> Axes:
    """Pairs between two publishes, pairs across one, and what the average over neighbors leaves."""
    next_one = f"two gradients of neighboring\nblocks of {LATE + 1} updates"
    parts: dict[str, tuple[Any, ...]] = {
        "inside": ("measured", "P", f"two gradients of the\nsame {LATE + 1} updates\n(same weights)", (0.62, 0.5), {}),
        "correlation": ("muted", "^", "", (0.8, 0.1), {}),
        "across": ("measured", "o", next_one, (0.8, -0.72), {"mfc": "white"}),
    }
    for name, (color, marker, label, place, look) in parts.items():
        ax.plot(SPAN, curve("sawtooth", LATE, name), **_style.PREDICTED)
        own = of(rows, "sawtooth", LATE, name)
        points(ax, own.fraction, own, color, marker, **look)
        ax.text(place[0], place[1], label, color=SHADES[color], ha="right", fontsize=7)
    ax.text(1.03, curve("sawtooth", LATE, "correlation")[-1], "all consecutive\npairs (as in grey,\ntop right)",
            color=SHADES["muted"], fontsize=7, va="center")  # fmt: skip
    frame(ax, 1.0)
    ax.set(xlabel=SHARE, xlim=(0.0, 1.42), xticks=[0.0, 0.2, 0.4, 0.6, 0.8, 1.0], ylabel="correlation of two gradients")
    ax.set_title(f'New weights only every {LATE + 1} updates ("in turn"):\nalike within a block, opposed across blocks')
    return ax


def draw_energy(ax: Axes, rows: Any) -> Axes:
    """The correlation as a function of the gradient's size."""
    heights = {0: -0.83, 1: 0.37, 2: 0.68, LATE: 0.95}
    for tau, (color, marker) in CONSTANT.items():
        ax.plot(curve("fixed", tau, "energy"), curve("fixed", tau, "correlation"), **_style.PREDICTED)
        own, energy = (of(rows, "fixed", tau, quantity) for quantity in ("correlation", "energy"))
        points(ax, energy.value, own, color, marker)
        ax.errorbar(energy.value, own.value, xerr=[energy.value - energy.low, energy.high - energy.value],
                    linestyle="none", elinewidth=1.0, color=SHADES[color])  # fmt: skip
        ax.text(100.0, heights[tau], NAMES[tau], color=SHADES[color], fontsize=7, va="center", ha="right")
    frame(ax, 130.0)
    ax.set_xscale("log")
    ax.set(xlim=(0.95, 130.0), xticks=[1, 3, 10, 30, 100])
    ax.set(xlabel="squared gradient norm / that of its noise (log scale)")
    ax.set_xticklabels(["1", "3", "10", "30", "100"])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_title("For known staleness and noise, the gradient\nnorm already tells the correlation")
    return ax


def draw(rows: Any) -> Figure:
    """Four panels on the measured rows, theory dashed."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 6.5)
        (first, second), (third, fourth) = figure.subplots(2, 2)
        draw_constant(first, rows)
        draw_same_step(second, rows)
        draw_cycle(third, rows)
        draw_energy(fourth, rows)
        runs = int(rows.samples.max())
        _script.caption(
            figure,
            "How near to divergence must training be before consecutive gradients align? Noisy gradient descent,",
            f"without momentum, on a quadratic of 16 equal coordinates, in steady state, {runs} runs for each mark.",
            "Varied: the step, and how many updates old the weights are with which a gradient is computed.",
            "Measured: correlation, the mean",
            "product of two gradients over their mean squared norm (1: same direction, 0: unrelated, −1: opposite);",
            "95 % intervals are mostly smaller than the marks. Dashed: predicted, nothing fitted. To see: correlations",
            "above 0.5 need more than 0.8 of the largest stable step; at the same step, constant age aligns most.",
        )
    return figure


def at(rows: Any, schedule: str, staleness: int, quantity: str, fraction: float) -> Any:
    """The measured row at a fraction of the boundary, or the nearest measured one below it."""
    own = of(rows, schedule, staleness, quantity)
    return own[own.fraction <= fraction + 1e-9].iloc[-1]


def _said(row: Any) -> str:
    reach = (row.high - row.low) / 2
    digits = next(k for k in (3, 4, 5, 6) if reach >= 0.5 * 10**-k or k == 6)
    return f"{row.value:+.{digits}f} ± {reach:.{digits}f}".replace("-", "−")


def numbers(rows: Any) -> dict[str, str]:
    """Correlations at half of the boundary and next to it, at one step for all schedules, and the worst deviation."""
    kept = rows[rows.value.notna() & (rows.quantity != "cosine")]
    score = []
    for row in kept.itertuples():
        expected = predicted(row.schedule, int(row.staleness), row.step)[row.quantity]
        score.append(abs(row.value - expected) / row.error)
    high, middle = float(rows.fraction.max()), float(min(rows.fraction, key=lambda f: abs(f - 0.5)))
    found = {"compared": str(len(score)), "worst": f"{max(score):.1f}"}
    found |= {"high": f"{high:g}", "middle": f"{middle:g}", "late": str(LATE), "cycle": str(LATE + 1)}
    for tau in (0, 1, LATE):
        found[f"middle_{tau}"] = _said(at(rows, "fixed", tau, "correlation", middle))
        found[f"high_{tau}"] = _said(at(rows, "fixed", tau, "correlation", high))
    step = 0.95 * _gac.boundary("fixed", LATE)
    found["step"] = f"{step:.3f}"
    for schedule in OTHERS:
        found[f"same_{schedule}"] = f"{predicted(schedule, LATE, step)['correlation']:+.2f}"
    last = predicted("random", LATE, (1 - 1e-6) * _gac.boundary("random", LATE))["correlation"]
    found["edge_random"] = f"{np.ceil(100 * last) / 100:+.2f}"
    random = at(rows, "random", LATE, "cosine", high)
    found["random_cosine"], found["inside"] = _said(random), _said(at(rows, "sawtooth", LATE, "inside", high))
    found["high_sawtooth"] = _said(at(rows, "sawtooth", LATE, "correlation", high))
    found["across"] = _said(at(rows, "sawtooth", LATE, "across", high))
    found["energy"] = f"{at(rows, 'fixed', LATE, 'energy', middle).value:.2f}"
    return found
