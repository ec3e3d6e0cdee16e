"""Divergence from behavior over updates on old data: KL of three arms, and M2PO's bound."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = steps.drawn(task="chain", staleness=(0, 256), rate="best synchronous")
KL = ("clip", "m2po", "fresh")


def draw_kl(ax: Axes, rows: Any) -> None:
    """KL from behavior of the arms."""
    names = {}
    for arm in KL:
        own, style = steps.curve(rows, arm, "kl", steps.usual(rows)), steps.LOOKS[arm]
        steps.trace(ax, own, **style)
        names[steps.NAMES[arm]] = (float(own.value.iloc[-1]), style["color"])
    ax.set(xlabel="update", xlim=(0, None), title="KL divergence")
    ax.set_ylabel("KL from the behavior policy\n(nats per response)")
    look.ends(ax, names)


def draw_bound(ax: Axes, rows: Any) -> bool:
    """The divergence of M2PO's policy from behavior and what the second moment allows; whether that bounds it."""
    chi, most = (steps.curve(rows, "m2po", name, steps.usual(rows)) for name in ("chi", "bound"))
    steps.trace(ax, chi, **steps.LOOKS["m2po"])
    ax.plot(most["at"], most.value, label="M2PO's bound", **_style.PREDICTED)
    ax.set(
        yscale="log",
        xlabel="update",
        xlim=(0, None),
        ylabel="χ² from the behavior policy",
        title="χ² divergence and M2PO's bound",
    )
    ends = {"M2PO's bound": (float(most.value.iloc[-1]), look.INK)}
    look.ends(ax, ends | {"M2PO": (float(chi.value.iloc[-1]), steps.LOOKS["m2po"]["color"])})
    return bool((chi.value <= most.value).all())


def draw(rows: Any) -> Figure:
    """KL, bound."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2)
        draw_kl(left, rows)
        held = draw_bound(right, rows)
        m2po, clip = (steps.curve(rows, arm, "kl", steps.usual(rows)).value.max() for arm in ("m2po", "clip"))
        _script.headline(figure, held and m2po > 1.3 * clip, "Divergence from the behavior policy over updates")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Divergences stand beside tokens."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the second moment bounds the divergence, by method and rate, and M2PO keeps KL lower, by update."""
    chi, kl = [], []
    for arm in ("clip", "m2po", "none"):
        for rate in steps.rates(rows):
            own, most = (steps.curve(rows, arm, name, rate) for name in ("chi", "bound"))
            answer = decided((own.value <= most.value).all(), (own.low > most.high).any())
            chi.append(Setting((f"{steps.NAMES[arm]} at rates", f"{rate:g}"), answer))
    for at, clip, mask in steps.pairs(rows, "kl"):
        kl.append(Setting(at, decided(mask.high < clip.low, mask.low > clip.high)))
    return {"chi": chi, "kl": kl}
