"""The delightful gate: cosines as the learner improves, exact; returns beside no correction, each at its best rate."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import delight as experiment
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = ("delight",)
LOOKS: dict[str, dict[str, Any]] = {
    experiment.BASE: {"color": look.COLOR["stale"], "marker": "o"},
    "exact IS": {"color": look.COLOR["synchronous"], "marker": "s"},
    "sign-blind": {"color": look.COLOR["tuned"], "marker": "D", "markersize": 4.5},
    "DG": {"color": look.COLOR["controlled"], "marker": "^"},
    "DG, 1/4": {"color": look.COLOR["partial"], "marker": "v"},
}
NAMES = {experiment.BASE: "no correction", "DG, 1/4": "DG, temperature 1/4"}
ONE = math.sqrt(experiment.ARMS / (2.0 * (experiment.ARMS - 1)))
"""Cosine of the push away from one wrong arm, where the learner hardly fails: e_1 - e_2 beside e_1 less the others."""


def course(rows: Any, part: str, place: str, quantity: str, arm: str) -> Any:
    """Values of an estimator over the learner's failures, the largest first."""
    own = _script.pick(rows, part=part, place=place, quantity=quantity, arm=arm)
    return own.set_index("failure").value.sort_index(ascending=False)


def draw_cosines(ax: Axes, rows: Any, part: str, place: str, quantity: str, title: str) -> None:
    """A line for each estimator; the learner improves to the right."""
    for arm, style in LOOKS.items():
        own = course(rows, part, place, quantity, arm)
        ax.plot(own.index, own.values, **{"markersize": 3.5, "linewidth": 0.9, **style})
    ax.set(xscale="log", xlim=(0.7, 0.0007), ylim=(0.48, 1.03), title=title, xlabel="learner's failure rate")


def draw_returns(ax: Axes, rows: Any, task: str, arms: list[str]) -> None:
    """Difference from no correction, on fresh data hollow and on stale filled."""
    for law, shift, more in (("fresh", -0.16, look.HOLLOW), ("constant 32", 0.16, {})):
        for row in _script.pick(rows, part="compare", task=task, law=law).dropna(subset="difference").itertuples():
            style = {"color": look.INK, "marker": "o", **LOOKS.get(row.arm, {}), "markersize": 3.5}
            reach = [[row.difference - row.low], [row.high - row.difference]]
            ax.errorbar(row.difference, arms.index(row.arm) + shift, xerr=reach, **{**_style.MEASURED, **style, **more})
    ax.axvline(0.0, **_style.REFERENCE)
    ax.set(ylim=(len(arms) - 0.5, -0.5), title=task)
    ax.locator_params(axis="x", nbins=4)


def marks() -> list[Any]:
    """What colors and fillings mean."""
    own = [
        Line2D([], [], label=NAMES.get(arm, arm), **{"markersize": 3.5, "linewidth": 0.9, **LOOKS[arm]})
        for arm in LOOKS
    ]
    ink: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 3.5, "color": look.INK}
    return [
        *own,
        Line2D([], [], label="fresh data", **ink, **look.HOLLOW),
        Line2D([], [], label="32 updates old", **ink),
    ]


def draw(rows: Any) -> Figure:
    """Cosines, then returns."""
    arms = [arm for arm in experiment.METHODS if arm != experiment.BASE and (rows.arm == arm).any()]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 5.2)
        first, *others = figure.subplots(2, 2).ravel()
        draw_cosines(first, rows, "cosine", "bug", "mean", "mean estimate, a faulty actor")
        first.plot([0.02, 0.0007], [ONE, ONE], **_style.PREDICTED)
        first.set(ylabel="cosine with the gradient", ylim=(0.75, 1.02))
        for ax, task in zip(others, ("bandit", "graded", "sparse"), strict=True):
            draw_returns(ax, rows, task, arms)
            ax.set_yticks(range(len(arms)), arms)
            ax.set_xlabel("return − that without correction")
        worse = (course(rows, "cosine", "bug", "mean", "DG") < course(rows, "cosine", "bug", "mean", "exact IS")).all()
        lost = _script.pick(rows, part="compare", law="constant 32", arm="DG").dropna(subset="difference").difference
        words = "DG (gate: advantage × surprisal) points worse than exact IS, and loses return on stale data"
        drawn = "DG (gate: advantage × surprisal) beside exact IS: direction, and return"
        title = _script.finding(worse and len(lost) and (lost < 0.0).all(), words, drawn)
        figure.legend(handles=marks(), loc="outside upper left", ncols=4, title=title)
    return figure


def gained(rows: Any, task: str, arm: str) -> str:
    """Difference from no correction at staleness 32, with half of its interval."""
    own = _script.pick(rows, part="compare", task=task, law="constant 32", arm=arm).dropna(subset="difference")
    if not len(own):
        return "not compared"
    row = own.iloc[0]
    return look.value(SimpleNamespace(value=row.difference, low=row.low, high=row.high), "+")


def numbers(rows: Any) -> dict[str, str]:
    """Quantities of the faulty actor at both ends of learning, and differences in return."""
    found = {}
    for key, arm, quantity in (
        ("none", experiment.BASE, "mean"), ("dg", "DG", "mean"), ("dg", "DG", "batch"), ("dg", "DG", "across"),
        ("is", "exact IS", "batch"), ("is", "exact IS", "across"),
    ):  # fmt: skip
        last = course(rows, "cosine", "bug", quantity, arm).iloc[-1]
        found[f"{key}_{quantity}"] = f"{last:.{4 if quantity == 'across' else 2}f}"
    found["dg_first"] = f"{course(rows, 'cosine', 'bug', 'mean', 'DG').iloc[0]:.2f}"
    late = _script.pick(rows, part="cosine", quantity="mean")
    late = late[late.failure <= 0.01].set_index(["place", "failure"])
    off = (late[late.arm == "sign-blind"].value - late[late.arm == "DG"].value).abs().max()
    found["blind_off"] = f"{off:.4f}"
    for task in experiment.league.TASKS:
        found |= {f"{task}_{key}": gained(rows, task, arm) for arm, key in (("DG", "dg"), ("exact IS", "is"))}
    return found
