"""Gradient of a stale batch beside that of fresh ones at the same weights, under three losses."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _models, _script

EXPERIMENTS = {"model_gradients": {"task": "sums (character model)"}}
COLOR = {"no correction": "stale", "full IS": "controlled", "PPO clip": "partial"}
MARK = {"no correction": "o", "full IS": "^", "PPO clip": "D"}
TOLD = ("no correction", "full IS")
"""Losses with a prediction."""
NAMES = {"no correction": "no correction", "full IS": "full importance sampling (IS)", "PPO clip": "PPO's clip"}
DRAWN = {
    "cosine": ("Direction of one batch", "cosine with the fresh mean gradient"),
    "norm": ("Length of one batch's gradient", "norm / norm on fresh data"),
    "along": ("Mean over batches", "part along the fresh mean gradient"),
}


def levels(rows: Any) -> Any:
    """Rows on batches of several ages at the same weights."""
    return rows[rows.quantity.isin([*DRAWN, *(f"told_{name}" for name in DRAWN)])]


def judged(rows: Any) -> list[tuple[str, str, int, Any, float]]:
    """Loss, quantity, staleness, mean and prediction on stale data."""
    own, found = levels(rows), []
    for name in TOLD:
        for staleness in sorted(set(own.staleness) - {0}):
            place = {"method": name, "staleness": staleness}
            for quantity in DRAWN:
                told = f"told_{quantity}"
                law = 1.0 if quantity == "along" else _models.mean(own, quantity=told, **place).value
                found.append((name, quantity, int(staleness), _models.mean(own, quantity=quantity, **place), law))
    return found


def kept(rows: Any) -> list[bool]:
    """Whether cosines, norms and projections are as predicted."""
    return [_models.meets(row, told) for *_, row, told in judged(rows)]


def draw_one(ax: Axes, rows: Any, quantity: str) -> None:
    """One quantity against staleness, of every loss."""
    own = levels(rows)
    for place, (name, color) in enumerate(COLOR.items()):
        shade = _style.COLORS[color]
        shown = _models.means(own, "staleness", method=name, quantity=quantity)
        look: dict[str, Any] = {"linestyle": "none", "marker": MARK[name], "label": NAMES[name]}
        _models.points(ax, shown.staleness * 1.15 ** (place - 1), shown, shade, **look)
        if name in TOLD and quantity != "along":
            told = _models.means(own, "staleness", method=name, quantity=f"told_{quantity}")
            ax.plot(told.staleness, told.value, **{**_style.PREDICTED, "color": shade})
    if quantity == "along":
        ax.axhline(1.0, **_style.PREDICTED)
    _models.levels(ax, sorted(own.staleness.unique()))
    ax.set(xlabel="staleness (versions)", title=DRAWN[quantity][0], ylabel=DRAWN[quantity][1])
    if quantity == "norm":
        ax.set_yscale("log")


def biased(rows: Any) -> bool:
    """Whether the mean gradient turns without ratios and does not with them, at the largest staleness."""
    last = max(level for _, _, level, _, _ in judged(rows))
    found = {name: row for name, what, level, row, _ in judged(rows) if (what, level) == ("along", last)}
    return bool(found["no correction"].high < 0.9 and _models.meets(found["full IS"], 1.0))


def draw(rows: Any) -> Figure:
    """Three panels."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.1)
        axes = figure.subplots(1, len(DRAWN))
        for ax, quantity in zip(axes, DRAWN, strict=True):
            draw_one(ax, rows, quantity)
        words = "Without ratios a stale gradient changes direction; full ratios only add noise"
        title = _script.finding(biased(rows), words, "Stale gradients beside fresh ones")
        handles, labels = axes[0].get_legend_handles_labels()
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles, labels, ncols=len(labels), title=title, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Predictions met by loss, and cosines of mean gradients at the largest staleness."""
    every = judged(rows)
    last = max(level for _, _, level, _, _ in every)
    found = {"staleness": f"{last}"}
    for name in TOLD:
        own = [_models.meets(row, told) for loss, _, _, row, told in every if loss == name]
        key = name.replace(" ", "_").lower()
        found |= {f"{key}_met": _models.count(own), f"{key}_word": _models.word(own)}
        row = next(row for loss, what, s, row, _ in every if (loss, what, s) == (name, "along", last))
        found[f"{key}_cosine"] = _models.value(row)
    return found | {"met": _models.count(kept(rows))}
