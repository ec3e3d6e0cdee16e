"""KL from behavior over updates on old data; M2PO's bound on χ² is judged."""

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
    ax.set(xlabel="update", xlim=(0, None))
    ax.set_ylabel("KL from the behavior policy\n(nats per response)")
    look.ends(ax, names)


def draw(rows: Any) -> Figure:
    """KL of three arms."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        draw_kl(figure.subplots(), rows)
        m2po, clip = (steps.curve(rows, arm, "kl", steps.usual(rows)).value.max() for arm in ("m2po", "clip"))
        _script.headline(figure, m2po > 1.3 * clip, "KL divergence from the behavior policy over updates")
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
