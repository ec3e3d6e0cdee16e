"""Clipped or masked tokens and the second moment of ratios over updates on old data, as M2PO's paper draws them."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.m2po_staleness import PUBLISHED
from paper_figures.m2po_steps import OTHERS

EXPERIMENTS = steps.drawn(task="chain", staleness=(0, 256), rate="best synchronous")


def draw(rows: Any) -> Figure:
    """Clipping and return at the best synchronous rate."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        clipped, learned = figure.subplots(1, 2)
        rate, curves = steps.usual(rows), {}
        for ax, quantity in ((clipped, "masked"), (learned, "return")):
            curves[quantity] = {arm: steps.curve(rows, arm, quantity, rate) for arm in OTHERS}
            for arm, own in curves[quantity].items():
                steps.trace(ax, own, **steps.LOOKS[arm])
            ends = {steps.NAMES[arm]: (float(own.value.iloc[-1]), steps.LOOKS[arm]["color"])
                    for arm, own in curves[quantity].items()}  # fmt: skip
            ax.set(xlabel="update", xlim=(0, None), ylim=(0, None))
            look.ends(ax, ends)
        clipped.locator_params(axis="y", nbins=4, steps=[1, 2, 5, 10])
        clipped.set(ylabel="share of tokens masked", title="Masked tokens")
        clipped.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        learned.set(ylabel="return of the trained policy", title="Return")
        clip, mask = (curves["masked"][arm].set_index("at").value for arm in ("clip", "m2po"))
        gain = curves["return"]["m2po"].set_index("at").value
        more = mask.index[mask > clip]
        rises = len(more) > 0 and bool((gain.diff()[more] > 0.0).all()) and not mask.iloc[-1] > clip.iloc[-1]
        _script.headline(figure, rises, "Tokens masked, and return")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Shares and moments stand beside returns."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the mask bounds the second moment, by rate, and removes fewer tokens than the clip, by update."""
    moment, fewer = [], []
    for rate in steps.rates(rows):
        kept = steps.curve(rows, "m2po", "kept", rate)
        inside = decided(kept.high.max() <= PUBLISHED, kept.low.max() > PUBLISHED)
        moment.append(Setting(("chain at rates", f"{rate:g}"), inside))
    for at, clip, mask in steps.pairs(rows, "masked"):
        fewer.append(Setting(at, decided(mask.high < clip.low, mask.low > clip.high)))
    return {"moment": moment, "fewer": fewer}
