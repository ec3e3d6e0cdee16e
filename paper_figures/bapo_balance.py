"""Share of the gradient that comes from positive advantages, over a run, with the clip, BAPO, its code, and no clip."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _bapo as arms
from paper_figures import _vcpo as look
from paper_figures import bapo_returns
from paper_figures._script import finding, pick

EXPERIMENTS = {"bapo": {"part": "grid", "task": "graded", "law": "constant 32", "tuned": True}}


def draw(rows: Any) -> Figure:
    """The share over updates on one task, each arm at its best rate."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.7)
        ax = figure.subplots()
        ax.axhline(0.5, **_style.REFERENCE)
        ax.set(ylim=(0.0, 1.0), ylabel="positive share of the gradient")
        names = bapo_returns.course(ax, rows, "positive")
        for (name, (_, color)), place in zip(
            names.items(), ((36, 0.12), (22, 0.26), (46, 0.62), (22, 0.9)), strict=True
        ):
            look.say(ax, *place, name, color)
        place = {"task": bapo_returns.SHARED, "law": arms.laws(rows)[-1], "quantity": "positive"}
        low = {arm: pick(rows, part="course", arm=arm, **place).value.min() for arm in bapo_returns.DRAWN}
        words = "Negative advantages dominate early with the clip and BAPO, not with BAPO's code"
        holds = max(low["clip"], low["bapo"]) < 0.3 and low["released"] > 0.4
        figure.suptitle(finding(holds, words, "Share of positive advantages over a run"), x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Mean positive shares stand beside returns."""
    return {}
