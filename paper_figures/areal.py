"""AReaL's objectives against its bound on staleness, each at its best learning rate."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from asyncsim.plotting import _style
from experiments import areal
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"areal": {"part": "objective"}}
TASKS = {"bandit": "bandit", "graded": "graded", "sparse": "sparse"}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "fresh": ("PPO, fresh", {"color": look.COLOR["synchronous"], "marker": "s"}),
    "uncorrected": ("no behavior weight", {"color": look.COLOR["partial"], "marker": "D"}),
    "naive": ("naive PPO", {"color": look.COLOR["stale"], "marker": "o"}),
}
DECOUPLED = ("decoupled PPO", {"color": look.COLOR["controlled"], "marker": "^"})
FIRST, TOP = "graded", 1.0
"""Task of the first panel, and its largest return."""
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


def draw_ends(ax: Axes, rows: Any, task: str) -> None:
    """Return at the end of training against the bound."""
    names, least = {}, 0.85
    for shift, (arm, (name, style)) in zip(
        (-0.15, -0.05, 0.05, 0.15), ({"decoupled": DECOUPLED} | ARMS).items(), strict=True
    ):
        own = _script.pick(rows, part="objective", task=task, over="end", arm=arm).sort_values("eta")
        reach = norm.ppf(0.975) * own.end_error
        high = np.minimum(own.end + reach, TOP) - own.end
        ax.errorbar(own.eta * 2.0**shift, own.end, yerr=[reach, high], **{**_style.MEASURED, **look.CONNECTED, **style})
        names[name] = (float(own.end.iloc[-1]), style["color"])
        least = min(least, float((own.end - reach.fillna(0.0)).min()) - 0.01)
    ax.axhline(TOP, **_style.REFERENCE)
    ax.set(ylim=(least, 1.01), ylabel="return at the end", title=f"{TASKS[task]}: last updates")
    ax.set_xscale("log", base=2)
    names["maximum"] = (TOP, look.COLOR["muted"])
    look.ends(ax, names, gap=0.085)


def draw_task(ax: Axes, rows: Any, task: str) -> None:
    """Mean return over training less that of the decoupled objective."""
    names = {"decoupled PPO": (0.0, look.COLOR["muted"])}
    for shift, (arm, (name, style)) in zip((-0.08, 0.0, 0.08), ARMS.items(), strict=True):
        pairs = [(eta, pair(rows, task, eta, arm, "mean")) for eta in bounds(rows)]
        own = [(eta * 2.0**shift, row) for eta, row in pairs if row is not None]
        values = [row.difference for _, row in own]
        reach = [[row.difference - row.low for _, row in own], [row.high - row.difference for _, row in own]]
        ax.errorbar([x for x, _ in own], values, yerr=reach, **{**_style.MEASURED, **look.CONNECTED, **style})
        names |= {name: (values[-1], style["color"])} if values else {}
    ax.axhline(0.0, **_style.REFERENCE)
    ax.set(ylabel="mean return − decoupled PPO's", title=f"{TASKS[task]}: over training")
    ax.set_xscale("log", base=2)
    look.ends(ax, names, gap=0.085)


def title(rows: Any) -> str:
    """What staleness costs while learning and at the end, if it does."""

    def cost(arm: str, over: str) -> list[float]:
        """What fresh data bring beyond an arm, wherever both were compared."""
        both = [
            [pair(rows, task, eta, each, over) for each in ("fresh", arm)] for task in TASKS for eta in bounds(rows)
        ]
        return [fresh.difference - own.difference for fresh, own in both if fresh is not None and own is not None]

    naive, bare = cost("naive", "mean"), cost("uncorrected", "mean")
    ends = _script.pick(rows, part="objective", over="end", word="worse")
    holds = naive and bare and min(naive) > -areal.SMALLEST and max(naive) > max(bare) and set(ends.arm) == {"naive"}
    words = "While learning, staleness costs return; at the end only naive PPO is worse than decoupled PPO"
    return _script.finding(holds, words, "Return at the end, and return over training beside decoupled PPO's")


def draw(rows: Any) -> Figure:
    """Return at the end on one task, then the difference over training on all."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.6)
        first, *others = figure.subplots(2, 2).ravel()
        ran = [task for task in TASKS if (rows.task == task).any()]
        draw_ends(first, rows, FIRST if FIRST in ran else ran[0])
        for ax, task in zip(others, ran, strict=False):
            draw_task(ax, rows, task)
        for ax in others[len(ran) :]:
            ax.remove()
        for ax in figure.axes:
            ax.set(xlabel="bound on staleness $\\eta$ (versions)")
            look.ticks(ax.xaxis, bounds(rows))
        figure.suptitle(title(rows), x=0.01, ha="left")
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
