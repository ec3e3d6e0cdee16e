"""AReaL's objectives against its bound on staleness, each at its best learning rate, and the speed it buys."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import areal
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = ("areal",)
TASKS = {"bandit": "bandit", "graded": "graded sequences", "sparse": "sparse sequences"}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "fresh": ("PPO, fresh data", {"color": look.COLOR["synchronous"], "marker": "s"}),
    "uncorrected": ("no behavior weight", {"color": look.COLOR["partial"], "marker": "D"}),
    "naive": ("naive PPO", {"color": look.COLOR["stale"], "marker": "o"}),
}
LABELS, END = [name for name, _ in ARMS.values()], ", at the end"
PAPER = 2.77
"""Speed-up that the abstract states."""


def pair(rows: Any, task: str, eta: int, arm: str, over: str) -> Any:
    """The row of an arm beside the decoupled objective; None where it was not compared."""
    own = _script.pick(rows, part="objective", task=task, eta=eta, arm=arm, over=over)
    own = own[own.word.notna()]
    return own.iloc[0] if len(own) else None


def bounds(rows: Any) -> list[int]:
    """Values of eta that objectives were compared at."""
    return sorted(int(eta) for eta in rows[rows.part == "objective"].eta.unique())


def speeds(rows: Any, sigma: float) -> dict[int, tuple[float, float]]:
    """Speed over synchronous training at each bound with its best share, and half of its interval."""
    own = _script.pick(rows, part="speed", sigma=sigma)
    base = own[own.eta < 0].sort_values("realization").value.to_numpy()
    found = {}
    for eta in areal.BOUNDS:
        times = own[own.eta == eta].pivot_table(index="realization", columns="share", values="value")
        found[eta] = _script.interval(base / times[times.mean().idxmin()].to_numpy())
    return found


def draw_task(ax: Axes, rows: Any, task: str) -> None:
    """Return less that of the decoupled objective: over training filled and joined, at the end hollow."""
    etas = bounds(rows)
    for start, over, more in ((-0.3, "mean", look.CONNECTED), (0.1, "end", look.HOLLOW)):
        for shift, (arm, (name, style)) in enumerate(ARMS.items()):
            own = [(x, row) for x, eta in enumerate(etas) if (row := pair(rows, task, eta, arm, over)) is not None]
            if own:
                places, values = [x + start + 0.1 * shift for x, _ in own], [row.difference for _, row in own]
                reach = [[row.difference - row.low for _, row in own], [row.high - row.difference for _, row in own]]
                shown = {**_style.MEASURED, **style, **more}
                ax.errorbar(places, values, yerr=reach, label=name + (END if over == "end" else ""), **shown)
    ax.axhline(0.0, **_style.REFERENCE)
    ax.set(title=TASKS[task], xlabel="bound on staleness, eta in publishes", ylabel="return − decoupled PPO's")
    ax.set_xlim(-0.5, len(etas) - 0.5)
    look.ticks(ax.xaxis, range(len(etas)), [str(eta) for eta in etas])


def draw_speed(ax: Axes, rows: Any) -> None:
    """Speed against the bound, for three spreads of lengths."""
    for sigma, color, marker in zip(areal.SPREADS, ("muted", "random", "tuned"), "vo^", strict=True):
        values = [mean for mean, _ in speeds(rows, sigma).values()]
        ax.plot(range(len(values)), values, color=look.COLOR[color], marker=marker, markersize=4.0, linewidth=1.0)
        look.say(ax, len(values) - 0.85, values[-1], f"spread {sigma:g}", look.COLOR[color])
    for value, name in ((1.0, "synchronous"), (PAPER, f"paper: {PAPER}")):
        ax.axhline(value, **_style.REFERENCE)
        look.say(ax, len(areal.BOUNDS) + 0.9, 0.96 * value, name, look.COLOR["muted"], va="top", ha="right")
    ax.set(title="speed, by the spread of lengths", xlabel="bound on staleness, eta in publishes")
    ax.set(ylabel="times synchronous speed", yscale="log", xlim=(-0.3, len(areal.BOUNDS) + 0.9))
    look.ticks(ax.xaxis, range(len(areal.BOUNDS)), [str(eta) for eta in areal.BOUNDS])
    look.ticks(ax.yaxis, [0.5, 1, 2, 4], ["0.5", "1", "2", "4"])


def title(rows: Any) -> str:
    """What staleness costs while learning and at the end, if it does."""

    def cost(arm: str, over: str) -> list[float]:
        """What fresh data bring beyond an arm, wherever both were compared."""
        both = [
            [pair(rows, task, eta, each, over) for each in ("fresh", arm)] for task in TASKS for eta in bounds(rows)
        ]
        return [fresh.difference - own.difference for fresh, own in both if fresh is not None and own is not None]

    naive, bare = cost("naive", "mean"), cost("uncorrected", "mean")
    ends = _script.pick(rows, part="objective", arm="fresh", over="end")
    ends = ends[ends.word.notna()]
    holds = (
        naive
        and bare
        and min(naive) > -areal.SMALLEST
        and max(naive) > max(bare)
        and np.mean(ends.word == "equal") > 0.8
    )
    words = "While learning, staleness costs return, naive PPO most; at the end, hardly any"
    return _script.finding(holds, words, "Return beside decoupled PPO's, over training and at its end; speed")


def draw(rows: Any) -> Figure:
    """A panel a task, then speed."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.9)
        axes = figure.subplots(2, 2).ravel()
        for ax, task in zip(axes, TASKS, strict=False):
            draw_task(ax, rows, task)
        draw_speed(axes[3], rows)
        handles, labels = axes[0].get_legend_handles_labels()
        own = sorted(zip(labels, handles, strict=True), key=lambda pair: LABELS.index(pair[0].removesuffix(END)))
        figure.legend(
            [handle for _, handle in own],
            [label for label, _ in own],
            title=title(rows),
            title_fontsize=8.5,
            loc="outside upper left",
            ncols=len(ARMS),
            alignment="left",
        )
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Words of the comparisons, largest differences, and speeds."""
    etas, found = bounds(rows), {"smallest": f"{areal.SMALLEST:g}"}
    for arm in ARMS:
        for over in ("mean", "end"):
            own = [row for task in TASKS for eta in etas if (row := pair(rows, task, eta, arm, over)) is not None]
            found[f"{arm}_{over}"] = said([row.word for row in own], max((row.difference for row in own), key=abs))
            found["places"] = str(len(own))
    naive = {over: _script.pick(rows, arm="naive", over=over, word="worse") for over in ("mean", "end")}
    found |= {"naive_worse": str(len(naive["mean"])), "naive_end_worse": str(len(naive["end"]))}
    held = _script.pick(rows, part="objective", arm="fresh", over="end")
    held = held[held.eta <= 8]
    found |= {"held": str(int((held.word == "equal").sum())), "within": str(len(held))}
    for key, sigma in (("mild", 0.5), ("long", 1.0), ("longest", 1.5)):
        found[f"{key}_4"] = f"{speeds(rows, sigma)[4][0]:.2f}"
    return found | {"paper": f"{PAPER}"}


def said(words: list[str], largest: float) -> str:
    """How often each word was said, and the largest difference."""
    counts = [f"{words.count(word)} {word}" for word in ("better", "equal", "worse", "undecided") if word in words]
    return f"{_script.listed(counts)} ({largest:+.2f})".replace("-", "−")
