"""Progress of one stale batch for ten methods; the page has all of them, at every length, size and drift."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures._atlas_page import RARE, page, part

__all__ = ["EXPERIMENTS", "draw", "numbers", "page"]

DRAWN = (0, 1, 4, 16)
"""Levels of staleness of the picture, the reading point last; of staler data, the entry and the page tell."""
EXPERIMENTS = {"atlas": {"source": "sampled", "task": "Markov token bandits", "staleness": DRAWN}}
SHOWN = {
    "score_centering": "token ratio, centered",
    "reinforce": "no ratio",
    "truncated_is token": "token ratio",
    "icepop": "token ratio, masked",
    "m2po_mask": "token ratio, masked",
    "vcpo": "sequence ratio",
    "full_is": "sequence ratio",
    "truncated_is": "sequence ratio",
    "ppo_clip": "token clip",
    "gspo": "sequence clip",
}
"""One method and more of each family that aims at the gradient, with its kind; the best at the reading point first."""
NAMES = {
    "score_centering": "score centering",
    "reinforce": "REINFORCE",
    "truncated_is token": "token truncated IS",
    "icepop": "IcePop",
    "m2po_mask": "M2PO",
    "vcpo": "VCPO",
    "full_is": "untruncated IS",
    "truncated_is": "truncated IS",
    "ppo_clip": "PPO",
    "gspo": "GSPO",
}
KINDS = ("token ratio", "no ratio", "sequence ratio", "token clip", "sequence clip")
STALENESS = 16
"""The reading point, with the usual length and size of `part`."""
OLDEST = 64
"""A level of staleness at which the order of methods differs."""


def draw_progress(ax: Axes, rows: Any) -> Axes:
    """A line a method, a dot a level of staleness; hollow where moments rest on rare batches."""
    levels = _script.shades(DRAWN)
    for k, (level, shade) in enumerate(levels):
        cells = part(rows, staleness=level).set_index("method").loc[list(SHOWN)]
        # Dots of one method stand one above the other.
        place = np.arange(len(SHOWN)) + 0.13 * (k - (len(levels) - 1) / 2)
        reach = np.maximum([cells.progress - cells.progress_low, cells.progress_high - cells.progress], 0.0)
        size = 5.5 if level == STALENESS else 3.0
        look = {**_style.MEASURED, "capsize": 0.0, "color": shade, "markersize": size}
        ax.errorbar(cells.progress, place, xerr=reach, label=f"{level}", **look)
        rare = (cells.largest > RARE).to_numpy()
        ax.plot(cells.progress[rare], place[rare], "o", color=shade, mfc="white", markersize=size, zorder=5)
    ax.plot([], [], "o", color=shade, mfc="white", markersize=5.5, label="hollow: few\nbatches\ndominate")
    ax.axvline(0.0, **_style.REFERENCE)
    ax.set(xlim=(-1.03, 1.03), ylim=(len(SHOWN) - 0.5, -0.5))
    ax.set_xlabel("progress of one step along the gradient (exact gradient: 1; below 0: away)")
    ax.set_yticks(range(len(SHOWN)), [f"{NAMES[method]}\n{kind}" for method, kind in SHOWN.items()])
    ax.tick_params(axis="y", length=0)
    here = part(rows, staleness=STALENESS).set_index("method").loc[list(SHOWN)].progress
    kinds = {kind: [here[method] for method, own in SHOWN.items() if own.startswith(kind)] for kind in KINDS}
    rest = kinds["sequence ratio"] + kinds["token clip"] + kinds["sequence clip"]
    apart, plain = (min(kinds[kind]) > max(rest) for kind in ("token ratio", "no ratio"))
    _script.headline(ax.figure, apart and plain, "Progress of one step on stale data")
    return ax


def draw(rows: Any) -> Figure:
    """One panel."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.2)
        ax = draw_progress(figure.subplots(), rows)
        (hollow, *marks), (rare, *levels) = ax.get_legend_handles_labels()
        figure.legend([*marks, hollow], [*levels, rare], title="staleness\n(versions)", loc="outside right center")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """The reading point: its log ratios, the best method, and sampled against exact."""
    here = part(rows, staleness=STALENESS)
    cell, best = here.iloc[0], here.loc[here.progress.idxmax()]
    keys = ["length", "samples", "method"]  # the corner has one cell for each
    both = rows[(rows.source == "sampled") & (rows.left_out == "")].merge(
        rows[rows.source == "exact"][[*keys, "progress"]], on=keys, suffixes=("", "_exact")
    )
    inside = both.progress_exact.between(both.progress_low - 1e-12, both.progress_high + 1e-12)
    name = NAMES.get(best.method, best.method)
    stale = part(rows, staleness=OLDEST).set_index("method").progress
    later = {f"oldest_{key}": f"{stale[key]:.2f}".replace("-", "−") for key in ("m2po_mask", "vcpo")}
    return later | {
        "oldest": f"{OLDEST}",
        "read": f"{STALENESS}",
        "methods": f"{len(here)}",
        "token": f"{cell.token_rms:.2f}",
        "sequence": f"{cell.log_deviation:.1f}",
        "best": f"{name}: {best.progress:.2f} ({best.progress_low:.2f} to {best.progress_high:.2f})",
        "away": f"{int((here.progress_high < 0).sum())}",
        "inside": f"{inside.sum()}",
        "exact": f"{len(both)}",
    }
