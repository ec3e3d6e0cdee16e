"""Cosine of consecutive gradients of a language model at three levels of staleness, beside signal to noise."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _models, _script

EXPERIMENTS = {"model_gradients": {"task": "sums (character model)"}}


def pairs(rows: Any) -> list[tuple[int, Any, Any]]:
    """Staleness of training, mean cosine and m^2/e^2, each with its interval."""
    levels = sorted(rows[rows.quantity == "snr"].behind.unique())
    return [
        (int(level), *(_models.mean(rows, quantity=name, behind=level) for name in ("consecutive", "snr")))
        for level in levels
    ]


def agree(cosine: Any, law: Any) -> bool:
    """Whether the interval of a cosine meets that of the law: both are estimates."""
    return bool(cosine.low <= law.high and law.low <= cosine.high)


def kept(rows: Any) -> list[bool]:
    """At every staleness, whether gradients are more alike than on fresh data, intervals apart."""
    found = pairs(rows)
    return [bool(cosine.low > found[0][1].high) for _, cosine, _ in found[1:]]


def draw(rows: Any) -> Figure:
    """One panel."""
    found = pairs(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        ax = figure.subplots()
        for place, (level, cosine, _) in enumerate(found):
            reach = [[cosine.value - cosine.low], [cosine.high - cosine.value]]
            color = _style.COLORS["measured" if level else "synchronous"]
            ax.errorbar([place], [cosine.value], yerr=reach, **{**_style.MEASURED, "color": color, "markersize": 6})
        ax.axhline(0.0, **_style.REFERENCE)
        ax.set_xticks(range(len(found)), [f"{level}" for level, _, _ in found])
        ax.set(xlim=(-0.5, len(found) - 0.5), xlabel="staleness of training (versions)")
        ax.set_ylabel("cosine of consecutive gradients")
        fresh = found[0][1]
        ax.text(0.06, fresh.value, "fresh data", color=_style.COLORS["synchronous"], fontsize=7.5, va="center")
        holds = not any(kept(rows)) and found[-1][1].value < fresh.value
        _script.headline(figure, holds, "Consecutive gradients against staleness")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Cosines and the law at every level, and on how many levels they agree."""
    found = pairs(rows)
    told = {"met": _models.count([agree(cosine, law) for _, cosine, law in found])}
    for name, (_, cosine, law) in zip(("fresh", "middle", "largest"), (found[0], found[1], found[-1]), strict=True):
        told |= {name: _models.value(cosine), f"{name}_law": _models.value(law)}
    return told | {"between": f"{found[1][0]}", "staleness": f"{found[-1][0]}"}
