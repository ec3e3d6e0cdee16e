"""Training curves of synchronous, truncated and VCPO training, and who collapses at which staleness."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import _vcpo
from paper_figures import _script
from paper_figures._vcpo_training import SHOWN, at, most, numbers, seen

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = ("vcpo_training",)
COLOR = _style.COLORS
ARMS = {"synchronous": ("synchronous", "s"), "truncated": ("stale", "o"), "vcpo": ("controlled", "^")}
"""Color and marker of each arm."""
LENGTHS = {"graded": 500, "noisy": 200}
"""Updates that are shown: all, and those in which something happens."""
QUANTITIES = {
    "return": "expected return\n(best: 1)",
    "ess": "ESS/N: share of\nsamples counting",
    "kl": "KL, old to current\n(nats a sequence)",
    "gradient_norm": "gradient norm",
}
STALENESS = (0, 2, 8, 32, 128)
FLOOR = 1e-8
"""A gradient norm below it is none."""
FAR = 32
"""A fall with fewer updates before or after it is not measured."""
SMALL = 6.6
TASKS = (("graded", "solid", "full"), ("noisy", "dotted", "left"))
"""Problems that are shown over multiples of the learning rate, the line of each and how its points are filled."""


def arm_rows(rows: Any, problem: str, arm: str, optimizer: str = "adam") -> Any:
    """Rows of an arm of the figure; synchronous training is the truncated arm at staleness 0."""
    own = rows[(rows.problem == problem) & (rows.optimizer == optimizer)]
    if arm == "synchronous":
        return own[(own.staleness == 0) & (own.arm == "truncated")]
    return own[(own.staleness > 0) & (own.arm == arm)]


def draw_curves(ax: Axes, rows: Any, quantity: str) -> None:
    """One quantity of one problem over updates; a gradient norm up to where half of the runs have none left."""
    problem = rows.problem.iloc[0]
    for place, (arm, (color, marker)) in enumerate(ARMS.items()):
        own = arm_rows(rows, problem, arm)
        own = own[(own.quantity == quantity) & (own.replicate < 0) & own.staleness.isin((0, SHOWN))]
        if quantity == "gradient_norm":
            own = own[(own.value.sort_index() >= FLOOR).cummin()]
        own = own[own["update"] <= LENGTHS[problem]]
        low = own.low.clip(lower=FLOOR) if quantity == "gradient_norm" else own.low
        ax.fill_between(own["update"], low, own.high, color=COLOR[color], alpha=0.25, linewidth=0)
        every = max(1, len(own) // 8)
        look: dict[str, Any] = {
            "marker": marker,
            "markersize": 3.5,
            "markevery": (place * every // 3, every),
            "linewidth": 1.4,
        }
        ax.plot(own["update"], own.value, color=COLOR[color], clip_on=quantity != "ess", **look)


def draw_problem(axes: Any, rows: Any) -> None:
    """The four quantities of one problem, one under the other."""
    problem = rows.problem.iloc[0]
    last = min(LENGTHS[problem], int(rows["update"].max()))
    for ax, (quantity, label) in zip(axes, QUANTITIES.items(), strict=True):
        draw_curves(ax, rows, quantity)
        ax.set(xlim=(0, last))
        if problem == "graded":
            ax.set_ylabel(label)
    top, ess, kl, norm = axes
    top.set(ylim=(0, 1.12), yticks=[0, 0.5, 1])
    ess.axhline(1 / _vcpo.SAMPLES, **_style.PREDICTED)
    ess.set(ylim=(0, 1.08), yticks=[0, 0.5, 1])
    kl.set(ylim=(-1, 22), yticks=[0, 10, 20])
    norm.set_yscale("log")
    norm.set(ylim=(FLOOR, 0.1), yticks=[1e-8, 1e-6, 1e-4, 1e-2], xlabel="updates")


def collapsing(rows: Any) -> Any:
    """The first of the single runs of truncated IS that collapses; empty where none does."""
    single = arm_rows(rows, "graded", "truncated")
    single = single[(single.replicate >= 0) & (single.quantity == "return")]
    for _, run in single.groupby("replicate"):
        if _vcpo.outcome(run.sort_values("update").value.to_numpy()[:, None]).collapsed[0]:
            return run
    return single.iloc[:0]


def say(ax: Axes, x: float, y: float, text: str, color: str = "predicted", **more: Any) -> None:
    """A remark at a place in shares of the panel."""
    ax.text(x, y, text, transform=ax.transAxes, color=COLOR[color], **{"fontsize": SMALL, "va": "center", **more})


def label_curves(axes: Any, rows: Any, fallen: float) -> None:
    """Names of the arms beside their curves, and what the curves show."""
    top, ess, kl, norm = axes[:, 0]
    say(top, 0.14, 0.94, "■ synchronous: staleness 0", "synchronous")
    say(top, 0.44, 0.69, f"▲ VCPO, staleness {SHOWN}", "controlled")
    say(top, 0.55, 0.46, f"● truncated IS, staleness {SHOWN}", "stale")
    run = collapsing(rows)
    if len(run):
        top.plot(run["update"], run.value, color=COLOR["stale"], linewidth=0.7)
        say(top, 0.99, 0.32, f"thin: one of the {100 * fallen:.0f} % that collapse", "stale", ha="right")
    say(ess, 0.99, 0.17, f"dashed, 1/{_vcpo.SAMPLES}: only one sample counts", ha="right")
    say(kl, 0.28, 0.86, f"waves: each {SHOWN} updates, data of\nnewer policies begins to arrive")
    say(norm, 0.38, 0.19, "a curve ends where its median\nis 0 (no gradient); a band at\nthe floor: interval reaches 0")
    top, ess, _, norm = axes[:, 1]
    say(top, 0.3, 0.5, "VCPO starts slower, then overtakes;\nall end at 1")
    say(ess, 0.1, 0.8, "■ always 1: all data is current", "synchronous")
    say(norm, 0.02, 0.17, f"● dips: until update {SHOWN} all\ndata is the first policy's", "stale")
    say(norm, 0.56, 0.4, "no curve ends: 60 % suffices,\nso policies stay random")


def draw_ends(ax: Axes, rows: Any, quantity: str) -> None:
    """Final return, or share collapsed, of the graded problem's arms against staleness; hollow: later, where known."""
    levels = list(STALENESS)
    short = rows.horizon.min()
    for arm, side in (("truncated", -0.08), ("vcpo", 0.08)):
        color, marker = ARMS[arm]
        own = rows[(rows.arm == arm) & (rows.quantity == quantity)].sort_values("staleness")
        for late in (False, True):
            part = own[(own.horizon > short) == late]
            x = np.array([levels.index(level) for level in part.staleness]) + side * (4 if late else 1)
            look = {**_style.MEASURED, "linestyle": "none" if late else "solid", "marker": marker, "linewidth": 0.9}
            look |= {"markerfacecolor": "white"} if late else {}
            reach = [part.value - part.low, part.high - part.value]
            ax.errorbar(x, part.value, yerr=reach, color=COLOR[color], **look)
    ax.set(xticks=range(len(levels)), xlim=(-0.4, len(levels) - 0.4), xlabel="staleness (updates)")
    ax.set_xticklabels([f"{level}\n(above)" if level == SHOWN else str(level) for level in levels])


def draw_outcomes(axes: Any, ends: Any) -> None:
    """What became of the runs of the graded problem, at every staleness."""
    own = ends[(ends.problem == "graded") & (ends.optimizer == "adam") & (ends.factor == 1.0)]
    left, right = axes
    draw_ends(left, own, "final")
    draw_ends(right, own, "collapsed")
    short, late = int(own.horizon.min()), int(own.horizon.max())
    left.set(ylim=(0, 1.08), ylabel="return at the end")
    left.set_title("Graded: at 128 VCPO is slow; it gets there later")
    top = own[own.quantity == "collapsed"].high.max()
    right.set(ylim=(-0.02, 1.6 * top), ylabel="share that collapses")
    right.set_title("Graded: VCPO hardly ever collapses")
    say(left, 0.04, 0.34, "▲ VCPO", "controlled")
    say(left, 0.04, 0.23, "● truncated IS", "stale")
    say(left, 0.04, 0.1, f"filled: after {short} updates, hollow: after {late}")
    say(right, 0.03, 0.92, "collapsed: ends below half of its peak gain over the start")
    shares = [100 * at(ends, "graded", "sgd", SHOWN, arm, "collapsed").value for arm in ("truncated", "vcpo")]
    say(right, 0.03, 0.74, f"with SGD, staleness {SHOWN}:\ntruncated IS {shares[0]:.0f} %, VCPO {shares[1]:.0f} %")


def draw_factors(ax: Axes, ends: Any) -> None:
    """Final return on the oldest data at multiples of the learning rate, at the last end that is read."""
    own = ends[(ends.optimizer == "adam") & (ends.staleness == ends.staleness.max()) & (ends.quantity == "final")]
    own = own[own.horizon == own.groupby("factor").horizon.transform("max")]
    for problem, line, fill in TASKS:
        for arm, side in (("truncated", 0.97), ("vcpo", 1.03)):
            color, marker = ARMS[arm]
            part = own[(own.problem == problem) & (own.arm == arm)].sort_values("factor")
            look = {**_style.MEASURED, "linestyle": line, "marker": marker, "linewidth": 0.9, "fillstyle": fill}
            reach = [part.value - part.low, part.high - part.value]
            ax.errorbar(part.factor * side, part.value, yerr=reach, color=COLOR[color], **look)
    factors = sorted(own.factor.unique())
    ax.set_xscale("log", base=2)
    ax.minorticks_off()
    ax.set(xticks=factors, xlabel="learning rate / the one best for synchronous runs", ylim=(0, 1.08))
    ax.set_xticklabels(["½" if factor == 0.5 else f"{factor:g}" for factor in factors])
    ax.set_ylabel(f"return at the end\n({int(own.horizon.max())} updates)")
    ax.set_title(f"Staleness {int(own.staleness.max())}: it depends on the learning rate")
    say(ax, 0.03, 0.26, "▲ VCPO  ● truncated IS")
    say(ax, 0.03, 0.16, "solid: graded reward")
    say(ax, 0.03, 0.07, "dotted, half-filled: pass or fail, with noise added")


def draw_anatomy(ax: Axes, bodies: Any, runs: int) -> None:
    """The norm's jump at a collapse and its size afterwards, beside those of the `runs` that did not collapse."""
    ax.set_title("Does a gradient spike tell of a collapse?\nSurvivors spike, too")
    ax.set_yscale("log")
    ax.set(xlim=(-0.5, 1.5), ylim=(1e-5, 1e9), ylabel="gradient norm / median of\n8 to 32 updates before fall")
    ax.set(xticks=[0, 1], yticks=[1e-4, 1e-2, 1, 1e2])
    ax.set_xticklabels(["largest within 8\nupdates of fall", "median, 8 to\n32 after fall"])
    ax.set_xlabel("fall: last update with 90 % of the peak\ngain; ●: at the fall of a collapsed run", fontsize=SMALL)
    ax.axhline(1.0, color=COLOR["muted"], linewidth=0.7)
    for among, side, color, marker in (("collapsed", -0.12, "stale", "v"), ("others", 0.12, "muted", "o")):
        own = bodies[bodies.among == among].sort_values("quantity", ascending=False)
        look = {**_style.MEASURED, "marker": marker, "color": COLOR[color]}
        ax.errorbar(np.arange(len(own)) + side, own.value, yerr=[own.value - own.low, own.high - own.value], **look)
    if bodies.empty:
        say(ax, 0.1, 0.5, "no run collapsed in its middle")
        return
    counts, staleness = bodies.groupby("among").samples.first(), int(bodies.staleness.iloc[0])
    fallen, others = int(counts["collapsed"]), int(counts["others"])
    say(ax, 0.03, 0.96, f"truncated IS with SGD, staleness {staleness}, medians of")
    say(ax, 0.03, 0.87, f"▼ {fallen} of {runs - others} collapsed runs", "stale")
    if fallen < runs - others:
        say(ax, 0.03, 0.78, f"    ({runs - others - fallen} fell in first or last {FAR} updates)", "stale")
    say(ax, 0.03, 0.69, f"● {others} that do not collapse", "muted")
    say(ax, 0.98, 0.4, "1: no change", "muted", ha="right", va="bottom")


def draw(rows: Any) -> Figure:
    """Curves of two problems at one staleness, then what became of the graded one at every staleness."""
    ends, curves = rows[rows.part == "end"], rows[(rows.part == "curve") & (rows.optimizer == "adam")]
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 10.9)
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.5, 1.0))
        grid = top.subplots(4, 2, height_ratios=(1.6, 0.9, 0.9, 1.0), sharex="col")
        for column, problem in enumerate(LENGTHS):
            draw_problem(grid[:, column], curves[curves.problem == problem])
        fallen = at(ends, "graded", "adam", SHOWN, "truncated", "collapsed").value
        label_curves(grid, curves, fallen)
        grid[0, 0].set_title(
            "Graded: paid the share of 32 tokens right, + noise:\n"
            f"truncated IS stalls, {100 * fallen:.0f} % of its runs collapse"
        )
        grid[0, 1].set_title(f"Pass or fail: paid 1 if 60 % of 32 bits are right,\n+ noise: {_spared(ends)}")
        low = bottom.subplots(2, 2)
        draw_outcomes(low[0], ends)
        draw_factors(low[1, 0], ends)
        draw_anatomy(low[1, 1], seen(rows), int(at(ends, "graded", "sgd", SHOWN, "truncated", "final").samples))
        _caption(figure, ends)
    return figure


def _spared(ends: Any) -> str:
    """How many runs collapse where reward is pass or fail with noise."""
    share = 100 * max(most(ends[ends.factor == 1.0], "noisy", arm).value for arm in ("truncated", "vcpo"))
    return f"at most {share:.1f} % collapse at any staleness"


def _caption(figure: Figure, ends: Any) -> None:
    runs, batch = int(ends[ends.quantity == "final"].samples.max()), _vcpo.SAMPLES
    few = int(ends[(ends.quantity == "final") & (ends.factor != 1.0)].samples.max())
    _script.caption(
        figure,
        "Does old data make training collapse, and does VCPO (variance-controlled policy optimization) prevent it?",
        "Varied: the method, and staleness: how many updates ago the policy was current that wrote a batch.",
        "Truncated IS (importance sampling): a sequence's weight is its probability now over that when written, but at",
        "most 8. VCPO: the same weights, an optimal baseline, and the learning rate times √(ESS/N); ESS: effective",
        f"sample size of a batch's N = {batch} sequences. All use Adam (SGD where said) at the learning",
        f"rate best for synchronous runs, but for multiples of it at the bottom left. Each curve and point: {runs}",
        f"runs ({few} at other learning rates), mean (return, ESS, share) or median (KL, gradient norm); bands and",
        "bars: 95\u00a0% intervals.",
    )
