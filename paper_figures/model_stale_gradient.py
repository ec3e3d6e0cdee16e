"""Gradient of stale batches beside that of fresh ones at the same weights, with and without ratios."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _methods, _models, _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"model_gradients": {"task": "sums (character model)"}}
NAMES = {"no correction": "no correction", "full IS": "untruncated IS"}
PREDICTED = "predicted for untruncated IS"
WIDE = 1.0
"""Length of an interval, in fresh gradients, above which a mean says nothing and is not drawn."""
QUANTITIES = ("cosine", "norm", "along")
"""What is predicted of a stale gradient; the last is drawn."""


def levels(rows: Any) -> Any:
    """Rows on batches of several ages at the same weights."""
    return rows[rows.quantity.isin([*QUANTITIES, *(f"told_{name}" for name in QUANTITIES)])]


def judged(rows: Any) -> list[tuple[str, str, int, Any, float]]:
    """Loss, quantity, staleness, mean and prediction on stale data."""
    own, found = levels(rows), []
    for name in NAMES:
        for staleness in sorted(set(own.staleness) - {0}):
            place = {"method": name, "staleness": staleness}
            for quantity in QUANTITIES:
                told = f"told_{quantity}"
                law = 1.0 if quantity == "along" else _models.mean(own, quantity=told, **place).value
                found.append((name, quantity, int(staleness), _models.mean(own, quantity=quantity, **place), law))
    return found


def kept(rows: Any) -> list[bool]:
    """Whether cosines, norms and projections are as predicted."""
    return [_models.meets(row, told) for *_, row, told in judged(rows)]


def biased(rows: Any) -> bool:
    """Whether the mean gradient turns without ratios and does not with them, at the largest staleness."""
    last = max(level for _, _, level, _, _ in judged(rows))
    found = {name: row for name, what, level, row, _ in judged(rows) if (what, level) == ("along", last)}
    return bool(found["no correction"].high < 0.9 and _models.meets(found["full IS"], 1.0))


def draw(rows: Any) -> Figure:
    """The mean gradient's part along the fresh one, against staleness."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        ax, own, ends, left_out = figure.subplots(), levels(rows), {}, set[str]()
        for dodge, (name, said) in zip((0.98, 1.02), NAMES.items(), strict=True):
            look_of = _methods.look(said)
            shown = _models.means(own, "staleness", method=name, quantity="along")
            wide = shown.high - shown.low > WIDE
            left_out |= {f"{level:g}" for level in shown[wide].staleness}
            shown.loc[wide, ["value", "low", "high"]] = np.nan
            _models.points(ax, shown.staleness * dodge, shown, **look_of)
            ends[said] = (float(shown.value.iloc[-1]), look_of["color"])
        places = sorted(own.staleness.unique())
        ax.plot(places, [1.0] * len(places), label=PREDICTED, **_style.PREDICTED)
        look.say(ax, 16.0, 1.12, PREDICTED, ha="center")
        _models.levels(ax, places)
        ax.set(xlim=(0.85 * places[0], 1.15 * places[-1]), ylim=(-0.3, 1.5))
        words = (
            f"; {_script.listed(sorted(left_out))}: not drawn, as intervals are wider than {WIDE:g}" if left_out else ""
        )
        ax.set_xlabel(f"staleness (versions{words})")
        look.ends(ax, ends)
        ax.axhline(0.0, color=_style.COLORS["muted"], linewidth=0.6)
        ax.set_ylabel("part of the fresh gradient\nin the mean stale gradient")
        plain = _models.mean(own, method="no correction", quantity="along", staleness=places[-1])
        holds = biased(rows) and plain.value < 0.5
        _script.headline(figure, holds, "Mean gradient of stale batches along that of fresh ones")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Predictions met by loss, and cosines of mean gradients at the largest staleness."""
    every = judged(rows)
    levels = sorted({level for _, _, level, _, _ in every})
    between, last = levels[min(1, len(levels) - 1)], levels[-1]
    found = {"staleness": f"{last}"}
    for name in NAMES:
        own = [_models.meets(row, told) for loss, _, _, row, told in every if loss == name]
        key = name.replace(" ", "_").lower()
        found[f"{key}_met"] = _models.count(own)
        row = next(row for loss, what, s, row, _ in every if (loss, what, s) == (name, "along", last))
        found[f"{key}_cosine"] = _models.value(row)
        second = next(row for loss, what, s, row, _ in every if (loss, what, s) == (name, "along", between))
        found[f"{key}_second"] = _models.value(second)
    norm, law = next((row, law) for *place, row, law in every if place == ["full IS", "norm", last])
    found |= {"second": f"{between}", "norm": _models.value(norm, 0), "norm_told": f"{law:.1f}"}
    return found | {"met": _models.count(kept(rows))}
