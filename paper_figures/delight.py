"""The delightful gate (advantage × surprisal): cosines with the policy gradient as the learner improves, exact."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import delight as experiment
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"delight": {"part": "cosine", "task": "bandits", "staleness": "0"}}
IS, DG, BLIND = "exact IS", "DG", "sign-blind"
NAMES = {IS: "exact importance\nsampling", DG: "DG", BLIND: "sign-blind DG"}
LOOKS: dict[str, dict[str, Any]] = {
    experiment.BASE: {"color": look.COLOR["stale"], "marker": "o"},
    IS: {"color": look.COLOR["synchronous"], "marker": "s"},
    BLIND: {"color": look.COLOR["tuned"], "marker": "D"},
    DG: {"color": look.COLOR["controlled"], "marker": "^"},
}
ONE = math.sqrt(experiment.ARMS / (2.0 * (experiment.ARMS - 1)))
"""Cosine of the push away from one wrong arm, where the learner hardly fails: e_1 - e_2 beside e_1 less the others."""


def course(rows: Any, part: str, place: str, quantity: str, arm: str) -> Any:
    """Values of an estimator over the learner's failures, the largest first."""
    own = _script.pick(rows, part=part, place=place, quantity=quantity, arm=arm)
    return own.set_index("failure").value.sort_index(ascending=False)


def draw_cosines(ax: Axes, rows: Any, quantity: str) -> None:
    """A line for each estimator; the learner improves to the right."""
    names = {}
    for size, (arm, style) in zip((4.0, 4.0, 6.5, 4.0), LOOKS.items(), strict=True):
        own = course(rows, "cosine", "bug", quantity, arm)
        ax.plot(own.index, own.values, **{"linewidth": 0.9, **style, "markersize": size})
        names[NAMES.get(arm, arm)] = (float(own.iloc[-1]), style["color"])
    ax.set(
        xscale="log",
        xlim=(0.7, 0.0007),
        ylim=(0.75, 1.02),
        xlabel="failure rate of the learner (learning: left to right)",
    )
    ax.set_ylabel("cosine with the exact policy gradient")
    look.ends(ax, names, gap=0.1)


def draw(rows: Any) -> Figure:
    """The mean estimate, and single batches."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2)
        draw_cosines(left, rows, "mean")
        left.plot([0.02, 0.0007], [ONE, ONE], label="predicted limit without correction", **_style.PREDICTED)
        left.set_title("mean gradient estimate")
        draw_cosines(right, rows, "batch")
        right.set_title(f"gradient of one batch of {experiment.BATCH}")
        each = {arm: [course(rows, "cosine", "bug", name, arm) for name in ("mean", "batch")] for arm in LOOKS}
        worse = all((own < exact).all() and own.iloc[-1] < own.max() - 0.05
                    for own, exact in zip(each[DG], each[IS], strict=True))  # fmt: skip
        faulty = f"With {100 * experiment.SHARE:.0f} % of the data from a faulty actor"
        words = f"{faulty}, DG's gradient turns away from the exact one as the learner improves"
        drawn = f"{faulty}: gradients of DG and of exact importance sampling"
        figure.suptitle(_script.finding(worse, words, drawn), x=0.01, ha="left")
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
