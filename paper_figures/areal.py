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

EXPERIMENTS = {"areal": {"part": "objective", "task": "graded"}}
TASKS = {"bandit": "bandit", "graded": "graded", "sparse": "sparse"}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "fresh": ("PPO, fresh data", {"color": look.COLOR["synchronous"], "marker": "s"}),
    "uncorrected": ("decoupled PPO without\nits importance weight", {"color": look.COLOR["partial"], "marker": "D"}),
    "naive": ("naive PPO", {"color": look.COLOR["stale"], "marker": "o"}),
}
DECOUPLED = ("decoupled PPO", {"color": look.COLOR["controlled"], "marker": "^"})
FIRST, TOP = "graded", 1.0
"""Task that is drawn, and its largest return."""
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
    """What the return at the end of training lacks, against the bound."""
    for shift, (arm, (_, style)) in zip(
        (-0.15, -0.05, 0.05, 0.15), ({"decoupled": DECOUPLED} | ARMS).items(), strict=True
    ):
        own = _script.pick(rows, part="objective", task=task, over="end", arm=arm).sort_values("eta")
        lack = np.maximum(TOP - own.end, 1e-6)
        reach = norm.ppf(0.975) * own.end_error.fillna(0.0)
        low = np.minimum(reach, 0.9 * lack)
        ax.errorbar(own.eta * 2.0**shift, lack, yerr=[low, reach], **{**_style.MEASURED, **look.CONNECTED, **style})
    ax.set(yscale="log", ylabel="maximum − return at the end", title=f"{TASKS[task]}: last updates")
    ax.set_xscale("log", base=2)


def beside_fresh(rows: Any, task: str, eta: int, arm: str) -> tuple[float, float, float] | None:
    """Mean return over training of an arm less that of fresh data, with the ends of its interval."""
    fresh = pair(rows, task, eta, "fresh", "mean")
    if arm == "fresh" or fresh is None:
        return None
    if arm == "decoupled":
        return -fresh.difference, -fresh.high, -fresh.low
    own = pair(rows, task, eta, arm, "mean")
    if own is None:
        return None
    # Both were compared with decoupled PPO, as if independently.
    reach = float(np.hypot(own.high - own.low, fresh.high - fresh.low)) / 2.0
    value = own.difference - fresh.difference
    return value, value - reach, value + reach


def draw_task(ax: Axes, rows: Any, task: str) -> None:
    """Mean return over training less that on fresh data."""
    names = {ARMS["fresh"][0]: (0.0, ARMS["fresh"][1]["color"])}
    ax.axhline(0.0, **{**_style.REFERENCE, "color": ARMS["fresh"][1]["color"]})
    for shift, (arm, (name, style)) in zip(
        (-0.08, 0.0, 0.0, 0.08), ({"decoupled": DECOUPLED} | ARMS).items(), strict=True
    ):
        found = [(eta, *each) for eta in bounds(rows) if (each := beside_fresh(rows, task, eta, arm)) is not None]
        if found:
            x, value, low, high = (np.array(each, dtype=float) for each in zip(*found, strict=True))
            reach = [value - low, high - value]
            ax.errorbar(x * 2.0**shift, value, yerr=reach, **{**_style.MEASURED, **look.CONNECTED, **style})
            names[name] = (float(value[-1]), style["color"])
    ax.set(ylabel="mean return − that on fresh data", title=f"{TASKS[task]}: mean over training")
    ax.set_xscale("log", base=2)
    look.ends(ax, names, gap=0.12)


def drawn(rows: Any) -> str:
    """The task that is drawn."""
    ran = [task for task in TASKS if (rows.task == task).any()]
    return FIRST if FIRST in ran else ran[0]


def title(rows: Any) -> str:
    """What staleness costs while learning and at the end on the task that is drawn, if it does."""

    def cost(arm: str, over: str) -> list[float]:
        """What fresh data bring beyond an arm, wherever both were compared."""
        both = [[pair(rows, drawn(rows), eta, each, over) for each in ("fresh", arm)] for eta in bounds(rows)]
        return [fresh.difference - own.difference for fresh, own in both if fresh is not None and own is not None]

    naive, bare = cost("naive", "mean"), cost("uncorrected", "mean")
    ends = _script.pick(rows, part="objective", task=drawn(rows), over="end", word="worse")
    holds = naive and bare and min(naive) > -areal.SMALLEST and max(naive) > max(bare) and set(ends.arm) == {"naive"}
    words = "While learning, staleness costs return; at the end only naive PPO is worse than decoupled PPO"
    return _script.finding(holds, words, "Return at the end, and return over training beside fresh data's")


def draw(rows: Any) -> Figure:
    """Return at the end, then the difference over training, on one task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        first, second = figure.subplots(1, 2)
        draw_ends(first, rows, drawn(rows))
        draw_task(second, rows, drawn(rows))
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
