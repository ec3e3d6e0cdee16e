"""Behavior probability and entropy of tokens on old data, by their ratio, from two starts."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import bapo_steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.bapo_tokens import STARTS, binned

EXPERIMENTS = {"bapo_steps": {"part": "tokens", "task": "tokens", "rate": 0.2}}
BINS = ("< 0.05", "0.05–0.2", "0.2–0.5", "0.5–1", "1–2", "> 2")
QUANTITIES = {
    "prob": ("Probability under the behavior policy", "mean probability of the token"),
    "entropy": ("Entropy of the policy at this token", "mean entropy (nats)"),
}


def draw_bins(ax: Axes, rows: Any, quantity: str) -> None:
    """One quantity against the distance of the ratio from 1."""
    for start, (_, style) in STARTS.items():
        found = binned(rows, start, quantity)
        look.points(ax, [bapo_steps.BINS.index(edge) for edge in found.number], found, **look.CONNECTED, **style)
    title, label = QUANTITIES[quantity]
    ax.set(title=title, xlabel="|log importance ratio| of the token", ylabel=label, ylim=(0.0, None))
    look.ticks(ax.xaxis, range(len(BINS)), list(BINS))


def draw(rows: Any) -> Figure:
    """Probability and entropy by ratio."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        for ax, quantity in zip(figure.subplots(1, 2), QUANTITIES, strict=True):
            draw_bins(ax, rows, quantity)
        rare, humped = [], []
        for start in STARTS:
            prob, entropy = (binned(rows, start, quantity).value.to_numpy() for quantity in QUANTITIES)
            rare.append(prob[1:].max(initial=0.0) < prob[0])
            humped.append(entropy[1:-1].max(initial=0.0) > 1.5 * max(entropy[0], entropy[-1]))
        words = "Tokens with ratios near 1 are the most probable; entropy is largest at moderate ratios"
        title = _script.finding(all(rare) and all(humped), words, "Probability and entropy of tokens by ratio")
        handles = [Line2D([], [], label=name, **look.CONNECTED, **style) for name, style in STARTS.values()]
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=handles, ncols=len(handles), title=title, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Readings stand beside what the clip blocks."""
    return {}
