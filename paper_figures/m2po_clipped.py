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
MOMENTS: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("none", "second"): ("no clip\n(no trust region)", {}),
    ("m2po", "second"): ("M2PO, before mask", look.HOLLOW),
    ("m2po", "kept"): ("M2PO, after mask", {}),
}
"""Curves of the second moment by arm and quantity."""


def draw(rows: Any) -> Figure:
    """Clipping and second moment at the best synchronous rate."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        clipped, second = figure.subplots(1, 2)
        rate = steps.usual(rows)
        names = {}
        for arm in OTHERS:
            own = steps.curve(rows, arm, "masked", rate)
            steps.trace(clipped, own, **steps.LOOKS[arm])
            names[steps.NAMES[arm]] = (float(own.value.iloc[-1]), steps.LOOKS[arm]["color"])
        clipped.locator_params(axis="y", nbins=4, steps=[1, 2, 5, 10])
        clipped.set(ylim=(0, None), ylabel="share of tokens masked", title="Masked tokens")
        clipped.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        second.set(yscale="log", ylabel="mean square of log ratios (nats²)", title="Second moment of log ratios")
        ends, own = {}, {}
        for (arm, quantity), (name, more) in MOMENTS.items():
            own[name] = steps.curve(rows, arm, quantity, rate)
            steps.trace(second, own[name], **{**steps.LOOKS[arm], **more})
            ends[name] = (float(own[name].value.iloc[-1]), steps.LOOKS[arm]["color"])
        for ax in (clipped, second):
            ax.set(xlabel="update", xlim=(0, None))
        look.ends(clipped, names)
        second.axhline(PUBLISHED, **_style.REFERENCE)
        look.ends(second, ends | {f"M2PO's bound: {PUBLISHED:g}": (PUBLISHED, look.COLOR["muted"])})
        free, *_, after = (each.value.max() for each in own.values())
        clip, mask = (steps.curve(rows, arm, "masked", rate).value.to_numpy() for arm in ("clip", "m2po"))
        ends = all(mask[k] < 0.5 * clip[k] for k in (0, -1))
        holds = after < PUBLISHED < 0.1 * free and ends and mask.max() > 1.5 * clip[mask.argmax()]
        _script.headline(figure, holds, "Tokens masked, and second moment of log ratios")
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
