"""The largest stable step against staleness; the autocorrelation of gradients, whose sign flips at it, is numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from asyncsim import claims
from asyncsim.claims._recursion import autocovariance
from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures._claim import Setting

EXPERIMENTS = {"stability": {"task": "quadratic"}}
SCHEDULES = {
    "fixed": ("constant staleness", {**_style.MEASURED, "color": _style.COLORS["measured"]}),
    "sawtooth": (
        "sawtooth from 0",
        {**_style.MEASURED, "color": _style.COLORS["contrast"], "marker": "s", "markersize": 6.0, "mfc": "none"},
    ),
}
"""Label and look of each schedule; hollow squares let a circle at the same place show."""
LEADER: dict[str, Any] = {"arrowprops": {"arrowstyle": "-", "linewidth": 0.5, "shrinkB": 3}, "va": "center"}


def boundary(schedule: str, staleness: int) -> float:
    """Predicted largest step * curvature."""
    if schedule == "sawtooth":
        # All updates of a period repeat one gradient, so the period is one step of (staleness + 1) times the size.
        return 2.0 / (staleness + 1)
    point = {"staleness": staleness, "curvatures": (1.0,)}
    return claims.claim("staleness/stability-boundary").predict(point)["step"]


def correlations(staleness: int, curvature: float, step: float, lags: Any) -> np.ndarray:
    """Predicted autocorrelation: 1, the closed forms up to lag staleness + 1, the Lyapunov equation beyond."""
    point = {"staleness": staleness, "noise": 1.0, "step": step, "curvature": curvature}
    found = claims.claim("alignment/lag1-closed-form").predict(point)
    known = {0: 1.0} | {int(key[5:-1]): value for key, value in found.items() if key.startswith("corr[")}
    beyond = [int(lag) for lag in lags if lag > staleness + 1]
    power, products = autocovariance(curvature, step, 1.0, staleness, beyond)
    known |= {lag: product / power for lag, product in zip(beyond, products, strict=True)}
    return np.array([known[int(lag)] for lag in lags])


def draw_boundary(ax: Axes, rows: Any) -> Axes:
    """Measured boundary * curvature with its bracket on the predicted curves."""
    every = np.arange(0, 21)
    for schedule, (label, look) in SCHEDULES.items():
        ax.plot(every, [boundary(schedule, int(tau)) for tau in every], **_style.PREDICTED)
        own = rows[rows.schedule == schedule]
        product, reach = own.value * own.curvature, (own.high - own.low) / 2 * own.curvature
        ax.errorbar(own.staleness, product, yerr=reach, label=label, **look)
    edges = np.array([[boundary(schedule, int(tau)) for tau in every] for schedule in SCHEDULES])
    for edge, far, color in ((edges.max(axis=0), 10.0, "violated"), (edges.min(axis=0), 0.01, "held")):
        ax.fill_between(every, edge, far, color=_style.COLORS[color], alpha=0.06, linewidth=0)
    ax.text(3.2, 1.5, "both diverge", color=_style.COLORS["violated"])
    ax.text(0.0, 0.1, "both converge", color=_style.COLORS["held"])
    for schedule, tau, spot in (("fixed", 2, (0.0, 0.33)), ("sawtooth", 4, (4.6, 0.72))):
        label, look = SCHEDULES[schedule]
        words = label.replace(" from 0", r": 0, 1, ..., $\tau$ in turn")
        ax.annotate(words, (tau, boundary(schedule, tau)), spot, color=look["color"], **LEADER)
    ax.set_yscale("log")
    ax.set(ylim=(0.08, 2.6), yticks=[0.1, 0.2, 0.5, 1, 2], ylabel=r"maximum stable learning rate $\times$ curvature")
    ax.set_yticklabels(["0.1", "0.2", "0.5", "1", "2"])
    ax.set_xscale("function", functions=(np.log1p, np.expm1))
    ax.set(xlim=(-0.12, 19.0), xticks=[0, 1, 2, 4, 8, 16], xlabel=r"maximum staleness $\tau$ (versions)")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())
    return ax


def draw(rows: Any) -> Figure:
    """Measured boundaries on their predictions; correlations of gradients are numbers."""
    steps = rows[rows.quantity == "boundary"]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.2)
        draw_boundary(figure.subplots(), steps)
        own = steps[steps.schedule == "fixed"].sort_values("staleness")
        smaller = (own.value * own.curvature).is_monotonic_decreasing and own.value.iloc[-1] < 0.5 * own.value.iloc[0]
        holds = smaller and all(each.held for each in held(rows)["limit"])
        _script.headline(figure, holds, "Maximum stable learning rate by staleness")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Boundaries against their predictions, and the correlations where their sign flips."""
    steps = rows[rows.quantity == "boundary"]
    predicted = [boundary(schedule, int(tau)) for schedule, tau in zip(steps.schedule, steps.staleness, strict=True)]
    off = np.abs(steps.value * steps.curvature / np.array(predicted) - 1.0)
    largest = int(steps.staleness.max())
    lags = rows[rows.quantity == "autocorrelation"]
    tau, curvature, step = int(lags.staleness.iloc[0]), float(lags.curvature.iloc[0]), float(lags.step.iloc[0])
    found = {
        "boundaries": f"{len(steps)}",
        "least": f"{int(steps.staleness.min())}",
        "largest": f"{largest}",
        "bracket": f"{50 * ((steps.high - steps.low) / steps.value).max():.1f}",
        "off": f"{100 * off.max():.2f}",
        "staleness": f"{tau}",
        "step": f"{step * curvature:g}",
        "replicates": f"{int(lags.samples.iloc[0])}",
    }
    for name, lag in (("before", tau), ("after", tau + 1)):
        row = lags[lags.lag == lag].iloc[0]
        found |= {f"{name}_lag": f"{lag}", name: f"{row.value:+.4f} ± {(row.high - row.low) / 2:.4f}"}
        found[f"{name}_predicted"] = f"{correlations(tau, curvature, step, [lag])[0]:+.2f}"
    return {key: value.replace("-", "−") for key, value in found.items()}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the predicted limit is inside the bracket of the measured one, by schedule and staleness."""
    found = []
    for row in rows[rows.quantity == "boundary"].sort_values(["schedule", "staleness"]).itertuples():
        inside = row.low * row.curvature <= boundary(row.schedule, int(row.staleness)) <= row.high * row.curvature
        found.append(Setting((SCHEDULES[row.schedule][0], f"{row.staleness}"), bool(inside)))
    return {"limit": found}
