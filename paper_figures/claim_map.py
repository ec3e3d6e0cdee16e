"""Claims of papers: how many of each are reproduced, and how far; the package's own are left out."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from asyncsim.plotting import _style
from paper_figures import _claim, _claims, _script
from paper_figures._gallery import PLACEHOLDER

EXPERIMENTS = tuple(
    dict.fromkeys(
        experiment
        for claim in _claims.CLAIMS
        for name in (claim.figure, *(found[1] for found in PLACEHOLDER.finditer(claim.number) if found[1]))
        for experiment in importlib.import_module(f"paper_figures.{name}").EXPERIMENTS
    )
)
SHARES = (
    ("held", 1.0),
    ("held", 0.5),
    ("muted", 0.3),
    ("contrast", 0.5),
    ("contrast", 1.0),
    ("tuned", 1.0),
    ("muted", 1.0),
)
COLORS = [tuple(1.0 - share * (1.0 - x) for x in to_rgb(_style.COLORS[name])) for name, share in SHARES]
"""From teal to orange by how much of a claim is reproduced; apart: conditions, and what was not tested."""
NAMES = {**_claims.NAMED, "2607.01083": "Step limits"}
"""Papers that have a name here, by arXiv id; exact results give the id."""
OTHERS = "other papers"
ARXIV = {
    "VCPO": "2602.17616", "GAC": "2603.01501", "M2PO": "2510.01161", "BAPO": "2510.18927", "TBA": "2503.18929",
    "ROLL Flash": "2510.11345", "AReaL": "2505.24298", "PipelineRL": "2509.19128", "Step limits": "2607.01083",
    "AsymRE": "2506.20520", "Delight": "2603.20521", "Replay": "2604.08706", "A3C": "1602.01783",
}  # fmt: skip
MEANING = {
    "reproduced": "in all of our settings",
    "mostly": "in most settings",
    "mixed": "in some settings, not in others or undecided",
    "under conditions": "wherever one condition is met",
    "mostly not": "in few settings, or in none with some undecided",
    "not reproduced": "fails in all settings",
    "not tested here": "no setting of ours can show it",
}
"""Where a claim with a verdict holds, in the order of the bars."""


def claims() -> list[tuple[str, str]]:
    """Paper and verdict of each claim, those that figures decide and those that exact results decide."""
    known = [each for each in (*_claims.CLAIMS, *_claims.exact()) if each.source not in _claims.NO_PAPER]
    return [(NAMES.get(each.source, each.source), each.verdict) for each in known]


def counts() -> dict[str, list[int]]:
    """Claims by paper and verdict, most claims first; papers of one claim together, last."""
    known = claims()
    papers = [paper for paper, _ in known]
    merged = [(paper if papers.count(paper) > 1 else OTHERS, verdict) for paper, verdict in known]
    names = sorted(
        dict.fromkeys(paper for paper, _ in merged),
        key=lambda name: (name == OTHERS, -sum(paper == name for paper, _ in merged)),
    )
    return {name: [merged.count((name, verdict)) for verdict in _claim.VERDICTS] for name in names}


def draw(*tables: Any) -> Figure:
    """A bar for each paper, a part for each verdict, its number inside."""
    found = counts()
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.6)
        ax, left = figure.subplots(), np.zeros(len(found))
        for verdict in MEANING:
            k = _claim.VERDICTS.index(verdict)
            width = np.array([row[k] for row in found.values()])
            label = f"{verdict}: {MEANING[verdict]}"
            bars = ax.barh(range(len(found)), width, left=left, height=0.75, color=COLORS[k], label=label)
            ink = "white" if sum(bars[0].get_facecolor()[:3]) < 1.4 else _style.INK
            ax.bar_label(bars, [str(n or "") for n in width], label_type="center", color=ink, fontsize=7.5)
            left = left + width
        names = [f"{name}, arXiv {ARXIV[name]}" if name in ARXIV else name for name in found]
        ax.set_yticks(range(len(found)), names)
        ax.tick_params(axis="y", length=0)
        ax.set(ylim=(len(found) - 0.5, -0.5), xlabel="number of claims")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        # Its numbers are those that are drawn.
        _script.headline(figure, True, "Claims by paper and verdict")
        more: dict[str, Any] = {"handlelength": 1.0, "alignment": "left", "title_fontsize": 8.0}
        ax.legend(title="Does the claim hold?", loc="lower right", **more)
    return figure


def numbers(*tables: Any) -> dict[str, str]:
    """How many claims came out how."""
    found = [verdict for _, verdict in claims()]
    ends = {"good": ("reproduced", "mostly"), "bad": ("mostly not", "not reproduced")}
    some = {key: str(sum(each in words for each in found)) for key, words in ends.items()}
    rest = {
        each.replace(" ", "_"): str(found.count(each)) for each in _claim.VERDICTS if each not in sum(ends.values(), ())
    }
    return {"all": str(len(found)), **some, **rest}
