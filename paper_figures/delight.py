"""The delightful gate (advantage × surprisal): cosines with the policy gradient as the learner improves, exact."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import delight as experiment
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting
from paper_figures.delight_returns import GATE

EXPERIMENTS = {
    "delight": {
        "part": "cosine",
        "task": "bandits",
        "means": {"bandits": f"{100 * experiment.SHARE:.0f} % of data from an actor that always plays one wrong arm"},
    }
}
IS, DG = "exact IS", "DG"
NAMES = {IS: "exact importance\nsampling (IS)", DG: "delightful\ngradient (DG)"}
TOLD = {DG: "DG", f"{DG}, 1/4": "DG at temperature 1/4"}
"""DG by temperature, in tables of settings."""
LOOKS: dict[str, dict[str, Any]] = {
    experiment.BASE: _methods.look("no correction"),
    IS: _methods.look(IS),
    DG: _methods.look(NAMES[DG]),
}
ONE = math.sqrt(experiment.ARMS / (2.0 * (experiment.ARMS - 1)))
"""Cosine of the push away from one wrong arm, where the learner hardly fails: e_1 - e_2 beside e_1 less the others."""


def course(rows: Any, part: str, place: str, quantity: str, arm: str) -> Any:
    """Values of an estimator over the learner's failures, the largest first."""
    own = _script.pick(rows, part=part, place=place, quantity=quantity, arm=arm)
    return own.set_index("failure").value.sort_index(ascending=False)


def draw(rows: Any) -> Figure:
    """A line for each estimator's mean; the learner improves to the right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        ax, names = figure.subplots(), {}
        ax.set(xscale="log", xlim=(0.7, 0.0007), ylim=(0.7, 1.02))
        each = {arm: course(rows, "cosine", "bug", "mean", arm) for arm in LOOKS}
        for arm, style in LOOKS.items():
            ax.plot(each[arm].index, each[arm].values, **{"linewidth": 0.9, **style, "markersize": 4.0})
            names[NAMES.get(arm, arm)] = (float(each[arm].iloc[-1]), style["color"])
        ax.plot([0.02, 0.0007], [ONE, ONE], label="predicted limit without correction", **_style.PREDICTED)
        look.ticks(ax.xaxis, (0.5, 0.1, 0.01, 0.001))
        ax.set_xlabel("learner's failure rate (training proceeds to the right)")
        ax.set_ylabel("cosine of the mean gradient with\nthe exact policy gradient")
        look.ends(ax, names, gap=0.14)
        worse = (each[DG] < each[IS]).all() and each[DG].iloc[-1] < each[DG].max() - 0.05
        worse = worse and (each[DG] > each[experiment.BASE]).all() and each[IS].min() > 0.999
        _script.headline(figure, worse, "Direction of gradients with a faulty actor")
        look.below(figure, [Line2D([], [], linestyle="none", label=GATE)])
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
    soft = course(rows, "cosine", "bug", "mean", "sign-blind, 1/4")
    found |= {"blind_first": f"{soft.iloc[0]:.3f}", "blind_last": f"{soft.iloc[-1]:.3f}"}
    for task in experiment.league.TASKS:
        found |= {f"{task}_{key}": gained(rows, task, arm) for arm, key in (("DG", "dg"), ("exact IS", "is"))}
    return found


def moved(rows: Any, part: str, arm: str, place: str = "") -> int:
    """1 where an estimator's cosine grows as the learner improves (its distance from one halves), -1 where it falls."""
    own = _script.pick(rows, part=part, quantity="mean", arm=arm, **({"place": place} if place else {}))
    # Of values that are one up to rounding neither is true.
    off = (1.0 - own.set_index("failure").value.sort_index(ascending=False)).clip(lower=1e-14)
    return int(off.iloc[-1] <= off.iloc[0] / 2.0) - int(off.iloc[-1] >= 2.0 * off.iloc[0])


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether DG's cosine grows and others fall, by data that bias the gradient, and whether no sign-blind one grows.

    By data and temperature, whether the perpendicular moment of DG falls below a thousandth of that without correction.
    """
    data = {"faulty actor": ("cosine", "bug"), "older actor": ("cosine", "older"), "many prompts": ("prompts", "")}
    grown = []
    for name, (part, place) in data.items():
        for arm, sign in ((DG, 1), (f"{DG}, 1/4", 1), (experiment.BASE, -1), (IS, -1), ("truncated IS", -1)):
            grown.append(Setting((name, TOLD.get(arm, arm)), moved(rows, part, arm, place) == sign))
    blind = (experiment.BASE, IS, "truncated IS", "sign-blind", "sign-blind, 1/4")
    none = [
        Setting((name,), all(moved(rows, *where[:1], arm, where[1]) < 1 for arm in blind))
        for name, where in data.items()
    ]
    small = []
    for place, name in (("bug", "faulty actor"), ("uniform", "random actor"), ("older", "older actor")):
        for arm in (DG, f"{DG}, 1/4"):
            last = float(course(rows, "cosine", place, "across", arm).iloc[-1])
            small.append(Setting((name, TOLD[arm]), last < 0.001))
    return {"grown": grown, "blind": none, "across": small}
