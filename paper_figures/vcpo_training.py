"""Training curves of synchronous, truncated and VCPO training, and who collapses at which staleness."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import _vcpo
from paper_figures import _script

EXPERIMENTS = ("vcpo_training",)
COLOR = _style.COLORS
ARMS = {
    "synchronous": ("synchronous", (0, (1, 1)), "s"),
    "truncated": ("stale", "solid", "o"),
    "vcpo": ("controlled", (0, (5, 1)), "^"),
}
"""Color, line and marker of each arm."""
SHOWN = 32
PROBLEMS = {
    "graded": "Graded, noisy reward (8 actions, 32 tokens):\ntruncation alone collapses, VCPO does not",
    "exact": "Pass or fail, without noise (32 bits):\nnobody collapses, with or without VCPO",
}
QUANTITIES = {
    "return": "expected return\n(best: 1)",
    "ess": "ESS/N: share of\nsamples that count",
    "kl": "KL, behavior to\ncurrent (nats/seq.)",
    "gradient_norm": "gradient norm\n(before clipping)",
}
CASES = {
    ("graded", "adam"): "graded reward, Adam",
    ("graded", "sgd"): "graded reward, SGD",
    ("noisy", "adam"): "pass or fail + noise",
    ("exact", "adam"): "pass or fail, exact",
}
STALENESS = (0, 2, 8, 32, 128)
FLOOR = 1e-9
"""Gradient norms below it are drawn on it."""


def arm_rows(rows: Any, problem: str, arm: str, optimizer: str = "adam") -> Any:
    """Rows of an arm of the figure; synchronous training is the truncated arm at staleness 0."""
    own = rows[(rows.problem == problem) & (rows.optimizer == optimizer)]
    if arm == "synchronous":
        return own[(own.staleness == 0) & (own.arm == "truncated")]
    return own[(own.staleness > 0) & (own.arm == arm)]


def draw_curves(ax: Axes, rows: Any, quantity: str) -> None:
    """One quantity of one problem over updates; single replicates of the truncated arm thin."""
    problem = rows.problem.iloc[0]
    for arm, (color, line, _) in ARMS.items():
        own = arm_rows(rows, problem, arm)
        own = own[(own.quantity == quantity) & own.staleness.isin((0, SHOWN))]
        for _, single in own[own.replicate >= 0].groupby("replicate"):
            ax.plot(single["update"], single.value.clip(lower=FLOOR), color=COLOR[color], linewidth=0.35, alpha=0.55)
        own = own[own.replicate < 0]
        low, high = (own[end].clip(lower=FLOOR) if quantity == "gradient_norm" else own[end] for end in ("low", "high"))
        value = own.value.clip(lower=FLOOR) if quantity == "gradient_norm" else own.value
        ax.fill_between(own["update"], low, high, color=COLOR[color], alpha=0.25, linewidth=0)
        ax.plot(own["update"], value, color=COLOR[color], linestyle=line, linewidth=1.5)


def draw_problem(axes: Any, rows: Any) -> None:
    """The four quantities of one problem, one under the other."""
    problem, last = rows.problem.iloc[0], int(rows["update"].max())
    for ax, (quantity, label) in zip(axes, QUANTITIES.items(), strict=True):
        draw_curves(ax, rows, quantity)
        ax.set(xlim=(0, last), ylabel=label)
    top, ess, kl, norm = axes
    top.set_title(PROBLEMS[problem])
    top.set(ylim=(0, 1.05))
    ess.axhline(1 / _vcpo.SAMPLES, **_style.PREDICTED)
    ess.set(ylim=(0, 1.08))
    kl.set_yscale("symlog", linthresh=1.0, linscale=0.6)
    kl.set(ylim=(-0.3, 120), yticks=[0, 1, 10, 100], yticklabels=["0", "1", "10", "100"])
    norm.set_yscale("log")
    norm.set(ylim=(FLOOR, 1), yticks=[1e-8, 1e-6, 1e-4, 1e-2, 1], xlabel="updates")


def label_curves(top: Axes, ess: Axes, rows: Any) -> None:
    """The arms' names, each in its color with its line."""
    last = int(rows["update"].max())
    for arm, text, y in (
        ("synchronous", "synchronous", 0.24),
        ("vcpo", f"VCPO, staleness {SHOWN}", 0.14),
        ("truncated", f"truncated IS, staleness {SHOWN}", 0.04),
    ):
        color, line, _ = ARMS[arm]
        top.plot([0.46 * last, 0.54 * last], [y + 0.03] * 2, color=COLOR[color], linestyle=line)
        top.text(0.56 * last, y, text, color=COLOR[color], fontsize=6.6)
    text = f"dashed: 1/{_vcpo.SAMPLES}, a single sample is everything"
    ess.text(0.98 * last, 0.12, text, ha="right", fontsize=6.5)


def draw_ends(ax: Axes, rows: Any, quantity: str) -> None:
    """Final return, or share collapsed, of one problem's arms against staleness."""
    levels = list(STALENESS)
    for arm, side in (("truncated", -0.08), ("vcpo", 0.08)):
        color, line, marker = ARMS[arm]
        own = rows[(rows.arm == arm) & (rows.quantity == quantity)].sort_values("staleness")
        x = np.array([levels.index(level) for level in own.staleness]) + side
        look = {**_style.MEASURED, "linestyle": line, "marker": marker, "linewidth": 0.9}
        reach = [own.value - own.low, own.high - own.value]
        ax.errorbar(x, own.value, yerr=reach, color=COLOR[color], **look)
    ax.set(xticks=range(len(levels)), xlim=(-0.4, len(levels) - 0.6))
    ax.set_xticklabels([str(level) for level in levels])


def draw_outcomes(axes: Any, ends: Any) -> None:
    """Final return above share collapsed, one column for every problem and optimizer."""
    for (above, below), ((problem, optimizer), title) in zip(axes.T, CASES.items(), strict=True):
        own = ends[(ends.problem == problem) & (ends.optimizer == optimizer)]
        draw_ends(above, own, "final")
        draw_ends(below, own, "collapsed")
        above.set_title(title, fontsize=7.5)
        below.set(xlabel="staleness (versions)")
        above.set(ylim=(0, 1.08))
        below.set(ylim=(-0.03, 0.45))
        above.tick_params(labelbottom=False)
        if (above, below) != tuple(axes[:, 0]):
            above.tick_params(labelleft=False)
            below.tick_params(labelleft=False)
    above, below = axes[:, 0]
    above.set_ylabel("return at the end")
    below.set_ylabel("share of runs\nthat collapse")
    for arm, text, y in (("truncated", "● truncated IS", 0.2), ("vcpo", "▲ VCPO", 0.06)):
        above.text(0.04, y, text, transform=above.transAxes, color=COLOR[ARMS[arm][0]], fontsize=6.8)


def draw(rows: Any) -> Figure:
    """Curves of two problems at one staleness, then what became of every problem at every staleness."""
    ends, curves = rows[rows.part == "end"], rows[(rows.part == "curve") & (rows.optimizer == "adam")]
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 9.2)
        top, bottom = figure.subfigures(2, 1, height_ratios=(2.3, 1.0))
        grid = top.subplots(4, 2, height_ratios=(1.5, 0.9, 0.9, 1.0), sharex=True)
        for column, problem in enumerate(PROBLEMS):
            draw_problem(grid[:, column], curves[curves.problem == problem])
        label_curves(grid[0, 1], grid[1, 1], curves)
        draw_outcomes(bottom.subplots(2, 4), ends)
        _caption(figure, ends)
    return figure


def _caption(figure: Figure, ends: Any) -> None:
    runs, batch = int(ends[ends.quantity == "final"].samples.max()), _vcpo.SAMPLES
    _script.caption(
        figure,
        "Does stale data make training with truncated importance ratios collapse? Varied: how old the data is.",
        f"Both arms share the batch ({batch} samples), the optimizer and the step, a good one for synchronous runs.",
        f"Above: {runs} runs, 95 % bands (means of return and ESS, medians of KL and gradient norm); thin: single runs",
        "of truncated IS; dashed: the least that ESS/N can be. Below: four problems; a run has collapsed when it ends",
        "with less than half of what it had gained (95 % intervals).",
    )


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes."""
    ends, bodies, steps = (rows[rows.part == part] for part in ("end", "anatomy", "step"))
    largest = int(ends.staleness.max())

    def end(problem: str, optimizer: str, staleness: int, arm: str, quantity: str) -> Any:
        place = (ends.problem == problem) & (ends.optimizer == optimizer) & (ends.staleness == staleness)
        return ends[place & (ends.arm == arm) & (ends.quantity == quantity)].iloc[0]

    found = {
        "shown": f"{SHOWN}",
        "largest": f"{largest}",
        "replicates": f"{int(ends[ends.quantity == 'final'].samples.max())}",
    }
    found["sync"] = _value(end("graded", "adam", 0, "truncated", "final"))
    for arm in ("truncated", "vcpo"):
        for name, staleness in (("shown", SHOWN), ("largest", largest)):
            found[f"{arm}_{name}"] = _value(end("graded", "adam", staleness, arm, "final"))
            found[f"{arm}_{name}_collapsed"] = _share(end("graded", "adam", staleness, arm, "collapsed"))
    found |= {
        "sgd_truncated": _share(end("graded", "sgd", SHOWN, "truncated", "collapsed")),
        "sgd_vcpo": _share(end("graded", "sgd", SHOWN, "vcpo", "collapsed")),
        "exact_most": _share(_most(ends, "exact")),
        "uniform": f"{math.log(_vcpo.PROBLEMS['graded'].actions):.2f}",
        "noisy_most": _share(_most(ends, "noisy")),
        **{
            f"{problem}_{arm}": _value(end(problem, "adam", _last(ends, problem), arm, "final"))
            for problem in ("exact", "noisy")
            for arm in ("truncated", "vcpo")
        },
        "clipped": f"{100 * ends[ends.quantity == 'clipped'].value.max():.2f}",
        "step": f"{ends[ends.optimizer == 'adam'].step.iloc[0]:g}",
        "steps": f"{len(steps[(steps.problem == 'graded') & (steps.optimizer == 'adam')])}",
    }
    return found | _explored(ends, largest) | _anatomy(bodies)


def _explored(ends: Any, staleness: int) -> dict[str, str]:
    """Entropy of the runs that were not solved."""
    found = {}
    own = ends[(ends.problem == "graded") & (ends.optimizer == "adam") & (ends.staleness == staleness)]
    for arm in ("truncated", "vcpo"):
        row = own[(own.arm == arm) & (own.quantity == "entropy") & (own.among == "unsolved")].iloc[0]
        found[f"{arm}_entropy"] = f"{row.value:.2f} ({row.low:.2f} to {row.high:.2f})" if row.samples else "(none)"
        found[f"{arm}_unsolved"] = f"{row.samples}"
    return found


def _anatomy(bodies: Any) -> dict[str, str]:
    """Spike and aftermath of collapses, beside others, at the largest staleness where both were seen."""
    own = bodies[(bodies.problem == "graded") & (bodies.optimizer == "adam") & (bodies.arm == "truncated")]
    seen = own[own.samples > 0]
    if seen.empty:
        names = ("spike_collapsed", "spike_others", "after_collapsed", "after_others")
        return dict.fromkeys(names, "(no collapse)") | {"anatomy": "none", "fallen": "0"}
    staleness = int(seen.groupby("staleness").samples.min().idxmax())
    seen = seen[seen.staleness == staleness]
    found = {"anatomy": f"{staleness}", "fallen": f"{int(seen[seen.among == 'collapsed'].samples.iloc[0])}"}
    for row in seen.itertuples():
        value, low, high = (f"{x:,.0f}" if x >= 10 else f"{x:.2g}" for x in (row.value, row.low, row.high))
        found[f"{row.quantity}_{row.among}"] = f"{value} ({low} to {high})"
    return found


def _last(ends: Any, problem: str) -> int:
    """The largest staleness of a problem."""
    return int(ends[ends.problem == problem].staleness.max())


def _most(ends: Any, problem: str) -> Any:
    """The truncated arm's row with the largest share collapsed."""
    own = ends[(ends.problem == problem) & (ends.arm == "truncated") & (ends.quantity == "collapsed")]
    return own.loc[own.value.idxmax()]


def _value(row: Any) -> str:
    return f"{row.value:.3f} ± {(row.high - row.low) / 2:.3f}"


def _share(row: Any) -> str:
    return f"{100 * row.value:.1f} percent ({100 * row.low:.1f} to {100 * row.high:.1f})"
