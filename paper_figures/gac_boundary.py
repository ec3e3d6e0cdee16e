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
CONSTANT = {0: ("synchronous", "o"), 1: ("stale", "v"), 2: ("stale", "D"), LATE: ("stale", "s")}
NAMES = {0: "synchronous", 1: "1 update old", 2: "2 updates old", LATE: f"{LATE} updates old"}
OTHERS = {
    "fixed": ("stale", "s", f"always {LATE}\nupdates old"),
    "sawtooth": ("muted", "^", f"0, 1, ..., {LATE} in turn"),
    "random": ("random", "X", f"drawn from 0..{LATE}"),
}
SPAN = np.linspace(0.01, 0.995, 90)
SHARE = "step, as a share of the largest stable step"


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


def points(ax: Axes, x: Any, own: Any, color: str, marker: str) -> None:
    """Measured values with their intervals."""
    reach = [own.value - own.low, own.high - own.value]
    ax.errorbar(x, own.value, yerr=reach, **{**_style.MEASURED, "marker": marker, "color": _style.COLORS[color]})


def frame(ax: Axes) -> None:
    """The axis of correlations."""
    ax.axhline(0.0, color=_style.COLORS["muted"], linewidth=0.6)
    ax.set(ylabel="correlation of neighboring gradients")


def draw_constant(ax: Axes, rows: Any) -> Axes:
    """Constant staleness, by share of its own boundary."""
    labels = {0: (0.5, -0.68), 1: (0.3, 0.22), 2: (0.66, 0.46), LATE: (0.98, 0.06)}
    for tau, (color, marker) in CONSTANT.items():
        ax.plot(SPAN, curve("fixed", tau, "correlation"), **_style.PREDICTED)
        own = of(rows, "fixed", tau, "correlation")
        points(ax, own.fraction, own, color, marker)
        ax.text(*labels[tau], NAMES[tau], color=_style.COLORS[color], ha="right", fontsize=7)
    frame(ax)
    ax.set(xlabel=SHARE, xlim=(0.0, 1.02), ylim=(-1.05, 1.05))
    ax.set_title("The staler, the closer to instability to align")
    return ax


def draw_same_step(ax: Axes, rows: Any) -> Axes:
    """Three schedules of the same largest staleness, by the step itself; each ends where it diverges."""
    labels = {"fixed": (0.08, 0.82), "sawtooth": (0.228, 0.62), "random": (0.26, 0.34)}
    for schedule, (color, marker, name) in OTHERS.items():
        edge = _gac.boundary(schedule, LATE)
        ax.plot(SPAN * edge, curve(schedule, LATE, "correlation"), **_style.PREDICTED)
        own = of(rows, schedule, LATE, "correlation")
        points(ax, own.step, own, color, marker)
        ax.axvline(edge, color=_style.COLORS[color], linewidth=0.8, linestyle=":")
        ax.text(edge + 0.002, -0.5, f"diverges at {edge:.2g}", rotation=90, ha="left", va="bottom", fontsize=6,
                color=_style.COLORS[color])  # fmt: skip
        ax.text(*labels[schedule], name, color=_style.COLORS[color], fontsize=7)
    frame(ax)
    ax.set(xlabel="step × curvature", xlim=(0.0, 0.45), ylim=(-0.52, 1.05))
    ax.set_title("At one step, staleness that varies aligns less")
    return ax


def draw_cycle(ax: Axes, rows: Any) -> Axes:
    """Pairs between two publishes, pairs across one, and what the average over neighbors leaves."""
    parts = {
        "inside": ("stale", "s", "both before the same publish", (0.62, 0.6)),
        "correlation": ("muted", "^", "all neighbors, on average", (0.62, 0.22)),
        "across": ("synchronous", "o", "a publish in between", (0.62, -0.55)),
    }
    for name, (color, marker, label, place) in parts.items():
        ax.plot(SPAN, curve("sawtooth", LATE, name), **_style.PREDICTED)
        own = of(rows, "sawtooth", LATE, name)
        points(ax, own.fraction, own, color, marker)
        ax.text(*place, label, color=_style.COLORS[color], ha="right", fontsize=7)
    frame(ax)
    ax.set(xlabel=SHARE, xlim=(0.0, 1.02), ylim=(-1.05, 1.05), ylabel="correlation of gradients")
    ax.set_title(f"A publish every {LATE + 1} updates: agree, then contradict")
    return ax


def draw_energy(ax: Axes, rows: Any) -> Axes:
    """The correlation as a function of the gradient's size."""
    shown: list[tuple[Any, ...]] = [("fixed", tau, *CONSTANT[tau], NAMES[tau]) for tau in (0, 1, LATE)]
    shown += [(schedule, LATE, *OTHERS[schedule]) for schedule in ("sawtooth", "random")]
    places = {("fixed", 0): (12.0, -0.75), ("fixed", 1): (15.0, 0.27), ("fixed", LATE): (1.05, 0.8)}
    places |= {("sawtooth", LATE): (14.0, 0.63), ("random", LATE): (2.9, 0.1)}
    for schedule, tau, color, marker, name in shown:
        ax.plot(curve(schedule, tau, "energy"), curve(schedule, tau, "correlation"), **_style.PREDICTED)
        own = of(rows, schedule, tau, "correlation")
        energy = of(rows, schedule, tau, "energy")
        points(ax, energy.value, own, color, marker)
        ax.errorbar(energy.value, own.value, xerr=[energy.value - energy.low, energy.high - energy.value],
                    linestyle="none", elinewidth=1.0, color=_style.COLORS[color])  # fmt: skip
        ax.text(*places[schedule, tau], name, color=_style.COLORS[color], fontsize=7)
    frame(ax)
    ax.set_xscale("log")
    ax.set(xlim=(0.95, 120.0), ylim=(-1.05, 1.05), xticks=[1, 3, 10, 30, 100])
    ax.set(xlabel="squared gradient norm / its noise alone")
    ax.set_xticklabels(["1", "3", "10", "30", "100"])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_title("Each schedule: the norm already says as much")
    return ax


def draw(rows: Any) -> Figure:
    """Four panels on the measured rows, theory dashed."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 6.1)
        (first, second), (third, fourth) = figure.subplots(2, 2)
        draw_constant(first, rows)
        draw_same_step(second, rows)
        draw_cycle(third, rows)
        draw_energy(fourth, rows)
        _script.caption(
            figure,
            "Noisy gradient descent in steady state. Varied: the step, and how old gradients are. Measured: how alike",
            "consecutive gradients are (1: same direction, 0: unrelated, −1: opposite; 95 % intervals, often inside",
            "the marker). Dashed: predicted without fitting. To see: gradients align strongly only where all are",
            "equally old and the step nearly diverges.",
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
    found["edge_random"] = f"{curve('random', LATE, 'correlation')[-1]:+.2f}"
    random = at(rows, "random", LATE, "cosine", high)
    found["random_cosine"], found["inside"] = _said(random), _said(at(rows, "sawtooth", LATE, "inside", high))
    found["across"] = _said(at(rows, "sawtooth", LATE, "across", high))
    found["energy"] = f"{at(rows, 'fixed', LATE, 'energy', middle).value:.2f}"
    return found
