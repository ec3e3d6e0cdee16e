"""Alignment of consecutive gradients against the distance to instability, for three kinds of staleness."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim import claims
from asyncsim.plotting import _style
from experiments import _gac
from paper_figures import _script
from paper_figures._gac_points import points, ramp, written, zero
from paper_figures._vcpo import ends

EXPERIMENTS = {"gac_boundary": {"task": "quadratic"}}
LATE = 8
"""Largest staleness of the three schedules that are compared."""
CONSTANT = {0: "o", 1: "v", 2: "D", LATE: "s"}
"""Levels of constant staleness with their marks."""
SHADES = {0: ramp(0, LATE), 1: ramp(1, LATE), 2: _style.staleness(0.7), LATE: ramp(LATE, LATE)}
"""Colors that tell these levels apart."""
OTHERS = {
    "fixed": (ramp(LATE, LATE), "s", f"constant {LATE}", (0.165, 0.8)),
    "sawtooth": (_style.COLORS["muted"], "^", f"sawtooth (0 to {LATE}, repeated)", (0.235, 0.8)),
    "random": (_style.COLORS["random"], "X", f"random 0–{LATE}", (0.3, 0.07)),
}
"""Color, mark, name of each schedule, and where the name stands."""
SPAN = np.concatenate([np.linspace(0.01, 0.9, 60), np.linspace(0.902, 0.99, 60)])


def predicted(schedule: str, staleness: int, step: float) -> dict[str, float]:
    """Correlation of neighbors and gradient energy by the schedule's claim; of the sawtooth its pairs too."""
    point: dict[str, Any] = {"curvature": 1.0, "noise": 1.0, "step": float(step)}
    if schedule == "sawtooth":
        found = claims.claim("alignment/sawtooth-cosine").predict({**point, "updates": staleness + 1})
        return {**found, "correlation": found["lag1"], "energy": found["amplification"]}
    if schedule == "random":
        law = (1.0 / (staleness + 1),) * (staleness + 1)
        found = claims.claim("alignment/random-delay-cosine").predict({**point, "law": law})
    else:
        found = claims.claim("alignment/lag1-closed-form").predict({**point, "staleness": staleness})
    return {"correlation": found["corr[1]"], "energy": found["amplification"]}


def curve(schedule: str, staleness: int) -> np.ndarray:
    """Predicted correlation along `SPAN` of the schedule's boundary."""
    edge = _gac.boundary(schedule, staleness)
    return np.array([predicted(schedule, staleness, share * edge)["correlation"] for share in SPAN])


def of(rows: Any, schedule: str, staleness: int, quantity: str = "correlation") -> Any:
    """Measured rows of a schedule by fraction of its boundary; those without a value are left out."""
    own = _script.pick(rows, schedule=schedule, staleness=staleness, quantity=quantity)
    return own[own.value.notna()].sort_values("fraction")


def draw_constant(ax: Axes, rows: Any) -> bool:
    """Constant staleness, by share of its own boundary; whether gradients align the more, the nearer it is."""
    names: dict[str, tuple[float, Any]] = {}
    for tau, marker in CONSTANT.items():
        known, own, color = curve("fixed", tau), of(rows, "fixed", tau), SHADES[tau]
        ax.plot(SPAN, known, **_style.PREDICTED)
        points(ax, own.fraction, own, color=color, marker=marker)
        name = f"staleness {tau}" if tau else "synchronous"
        names[name] = (known[-1], color)
    zero(ax, 1.03)
    ax.set(xlabel="learning rate / maximum stable learning rate", xlim=(0.0, 1.03), xticks=[0.0, 0.25, 0.5, 0.75, 1.0])
    ends(ax, names)
    ax.set_ylabel("correlation of consecutive gradients")
    ax.set_title("Constant staleness")
    return all(of(rows, "fixed", tau).value.is_monotonic_increasing for tau in CONSTANT if tau)


def draw_same_step(ax: Axes, rows: Any) -> bool:
    """Three schedules of one largest staleness by the learning rate; whether the varying ones align gradients less."""
    for schedule, (color, marker, name, place) in OTHERS.items():
        edge, own = _gac.boundary(schedule, LATE), of(rows, schedule, LATE)
        ax.plot(SPAN * edge, curve(schedule, LATE), **_style.PREDICTED)
        points(ax, own.step, own, color=color, marker=marker)
        ax.plot([edge, edge], [-0.6, 1.0], **{**_style.REFERENCE, "color": color})
        ax.text(*place, name, color=color, fontsize=7, ha="right" if schedule == "fixed" else "left")
    edges = [_gac.boundary(schedule, LATE) for schedule in OTHERS]
    ax.text(
        float(np.mean(edges)),
        -0.75,
        "dotted: maximum stable learning rate of each",
        color=_style.COLORS["muted"],
        fontsize=7,
        ha="center",
    )
    zero(ax, 0.48)
    ax.set(xlabel="learning rate × curvature", xlim=(0.0, 0.48))
    fixed = of(rows, "fixed", LATE)
    known = curve("fixed", LATE)[-1]
    last = {name: of(rows, name, LATE) for name in OTHERS if name != "fixed"}
    # Every other schedule at the largest rate that it shares with constant staleness.
    less = [own[own.step <= fixed.step.max()].value.max() < 0.5 * fixed.value.max() for own in last.values()]
    ax.set_title("Constant and varying staleness")
    return all(less) and known > 0.0


def draw(rows: Any) -> Figure:
    """Two panels on the measured rows, theory dashed."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.2)
        first, second = figure.subplots(1, 2, sharey=True)
        near, less = draw_constant(first, rows), draw_same_step(second, rows)
        _script.headline(figure, near and less, "Alignment of gradients by learning rate and staleness")
    return figure


def at(rows: Any, schedule: str, staleness: int, quantity: str, fraction: float) -> Any:
    """The measured row at a fraction of the boundary, or the nearest measured one below it."""
    own = of(rows, schedule, staleness, quantity)
    return own[own.fraction <= fraction + 1e-9].iloc[-1]


def numbers(rows: Any) -> dict[str, str]:
    """Correlations at half of the boundary and next to it, and the worst deviation."""
    kept = rows[rows.value.notna() & (rows.quantity != "cosine")]
    score = []
    for row in kept.itertuples():
        expected = predicted(row.schedule, int(row.staleness), row.step)[row.quantity]
        score.append(abs(row.value - expected) / row.error)
    high, middle = float(rows.fraction.max()), float(min(rows.fraction, key=lambda f: abs(f - 0.5)))
    found = {"compared": str(len(score)), "worst": f"{max(score):.1f}", "replicates": str(int(rows.samples.max()))}
    found |= {"high": f"{high:g}", "middle": f"{middle:g}", "late": str(LATE), "one": "1"}
    for level in (0, 1, LATE):
        found[f"middle_{level}"] = written(at(rows, "fixed", level, "correlation", middle))
        found[f"high_{level}"] = written(at(rows, "fixed", level, "correlation", high))
    for key, share in (("high", high), ("middle", middle)):
        found[f"{key}_random"] = written(at(rows, "random", LATE, "cosine", share))
        found[f"{key}_sawtooth"] = written(at(rows, "sawtooth", LATE, "correlation", share))
    found["middle_free"] = written(at(rows, "random", LATE, "correlation", middle))
    last = at(rows, "random", LATE, "cosine", high)
    return found | {"expected": f"{predicted('random', LATE, last.step)['correlation']:+.2f}"}
