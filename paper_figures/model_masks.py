"""Shares of tokens that PPO's clip and M2PO's mask stop on the same data, against staleness."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import model_losses
from paper_figures import _models, _script

EXPERIMENTS = {"model_losses": {"task": "sums (character model)", "rate": model_losses.USUAL, "staleness": (16, 64)}}
COLOR = {"clip": "clip", "masked": "m2po"}
MARK = {"clip": "o", "masked": "^"}
LABEL = {"clip": "PPO's clip", "masked": "M2PO's mask"}
RUNS = ("PPO clip", "M2PO")
TRAINED = {"PPO clip": "PPO's clip", "M2PO": "M2PO's mask"}


def usual(rows: Any) -> Any:
    """Rows at the usual rate, means over runs alone."""
    return rows[(rows.rate == model_losses.USUAL) & (rows["update"] == -1)]


def judged(rows: Any) -> list[tuple[str, str, int, Any, float]]:
    """Run, quantity, staleness, mean and prediction of every share on stale data."""
    own, found = usual(rows), []
    for run in RUNS:
        for quantity in COLOR:
            for staleness in sorted(set(own.staleness) - {0}):
                place = {"method": run, "staleness": staleness}
                told = _models.mean(own, quantity=f"told_{quantity}", **place).value
                found.append((run, quantity, int(staleness), _models.mean(own, quantity=quantity, **place), told))
    return found


def pairs(rows: Any) -> list[tuple[Any, Any]]:
    """Shares that the mask and the clip stop on the same run, of every run on stale data."""
    found = {(run, quantity, s): row for run, quantity, s, row, _ in judged(rows)}
    return [(row, found[run, "clip", s]) for (run, what, s), row in found.items() if what == "masked"]


def fewer(rows: Any, share: float = 1.0) -> list[bool]:
    """Whether the mask stops less than a share of what the clip does on the same run, intervals apart."""
    return [bool(mask.high < share * clip.low) for mask, clip in pairs(rows)]


def kept(rows: Any) -> list[bool]:
    """Whether the mask stops fewer tokens than the clip, and at most a tenth of them: the paper has a twentieth."""
    return fewer(rows) + fewer(rows, 0.1)


def draw(rows: Any) -> Figure:
    """A panel for either loss that is trained."""
    own = usual(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        axes = figure.subplots(1, 2, sharey=True)
        own = own[own.staleness > 0]
        levels = sorted(own.staleness.unique())
        for ax, run in zip(axes, RUNS, strict=True):
            for shift, (quantity, color) in zip((-0.12, 0.12), COLOR.items(), strict=True):
                shade, places = _style.COLORS[color], np.arange(len(levels)) + shift
                shown = _models.means(own, "staleness", method=run, quantity=quantity)
                told = _models.means(own, "staleness", method=run, quantity=f"told_{quantity}")
                for place, value in zip(places, 100 * told.value, strict=True):
                    ax.plot(
                        [place - 0.1, place + 0.1],
                        [value, value],
                        label="predicted for Gaussian log ratios",
                        **_style.PREDICTED,
                    )
                percent = shown.assign(value=100 * shown.value, low=100 * shown.low, high=100 * shown.high)
                look: dict[str, Any] = {"linestyle": "none", "marker": MARK[quantity]}
                _models.points(ax, places, percent, shade, **look)
                ax.text(
                    places[0] + 0.14, percent.value.iloc[0], LABEL[quantity], color=shade, fontsize=7.5, va="center"
                )
            ax.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
            ax.set(
                xlim=(-0.5, len(levels) - 0.5),
                xlabel="staleness (versions)",
                title=f"Policy trained with {TRAINED[run]}",
            )
        axes[0].set_ylim(0.0, None)
        axes[0].set_ylabel("tokens removed (%)")
        found = {(run, quantity, level): row.value for run, quantity, level, row, _ in judged(rows)}
        ratios = [found[run, "masked", level] / found[run, "clip", level] for run in RUNS for level in levels]
        off = [row.value / told for _, quantity, _, row, told in judged(rows) if quantity == "masked"]
        twice = max(ratios) <= 0.5 and 1.5 < min(off) <= max(off) < 2.6
        _script.headline(figure, all(fewer(rows)) and twice, "Tokens that a clip and a mask remove")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Shares at the largest staleness on M2PO's own run, their ratio, and predictions that are met."""
    every = judged(rows)
    met = [_models.meets(row, told) for *_, row, told in every]
    found = {"met": _models.count(met), "fewer": _models.count(fewer(rows)), "tenth": _models.count(fewer(rows, 0.1))}
    last = max(s for _, _, s, _, _ in every)
    for run, quantity, staleness, row, told in every:
        if (run, staleness) == ("M2PO", last):
            found |= {quantity: f"{100 * row.value:.1f} %", f"{quantity}_told": f"{100 * told:.1f} %"}
    ratio = [mask.value / clip.value for mask, clip in pairs(rows)]
    return found | {"staleness": f"{last}", "least": f"{min(ratio):.2f}", "most": f"{max(ratio):.2f}"}
