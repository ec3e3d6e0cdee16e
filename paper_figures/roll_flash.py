"""Speed of asynchronous training over synchronous on one pool, against the asynchronous ratio."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import roll_flash
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"roll_flash": {"task": ""}}
ARMS: dict[tuple[str, float], tuple[str, str, str]] = {
    ("reasoning", 0.0): ("equal lengths", "muted", "s"),
    ("reasoning", 0.5): ("spread 0.5", "partial", "v"),
    ("reasoning", 1.0): ("spread 1", "measured", "o"),
    ("reasoning", 1.5): ("spread 1.5", "tuned", "^"),
    ("agentic", 1.0): ("agentic, spread 1", "contrast", "D"),
}
"""Name, color and marker of each workload."""
PAPER = {"reasoning": 2.24, "agentic": 2.72}
"""Speed-ups that the abstract states."""
SHOWN = (2, 4, 8)
"""Ratios of the table."""
ENOUGH = 0.95
"""Share of the speed-up at the largest ratio that counts as having it."""


def speeds(rows: Any, workload: str, sigma: float) -> dict[int, tuple[float, float]]:
    """Speed over synchronous at each ratio with its best share, and half of its interval between realizations."""
    own = _script.pick(rows, workload=workload, sigma=sigma, quantity="step_seconds")
    base = own[own.ratio == 0].sort_values("realization").value.to_numpy()
    found = {}
    for ratio in roll_flash.RATIOS:
        times = own[own.ratio == ratio].pivot_table(index="realization", columns="share", values="value")
        best = times.mean().idxmin()
        found[ratio] = _script.interval(base / times[best].to_numpy())
    return found


def rounded(mean: float, half: float) -> str:
    """A speed-up to the hundredth."""
    return f"{mean:.2f} ± {half:.2f}" if half >= 0.005 else f"{mean:.2f}"


def draw_arm(ax: Axes, rows: Any, arm: tuple[str, float]) -> tuple[str, float, str]:
    """Speed against the ratio; name, last speed and color."""
    name, color, marker = ARMS[arm]
    found, shade = speeds(rows, *arm), _style.COLORS[color]
    mean, half = zip(*found.values(), strict=True)
    ax.errorbar(list(found), mean, yerr=half, **{**_style.MEASURED, **look.CONNECTED, "color": shade, "marker": marker})
    return name, mean[-1], shade


def draw(rows: Any) -> Figure:
    """Speed against the ratio, a line for each workload."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.4)
        ax = figure.subplots()
        ends = [draw_arm(ax, rows, arm) for arm in ARMS]
        ax.axhline(1.0, **_style.REFERENCE)
        look.say(ax, 0.95, 1.05, "synchronous training", look.COLOR["muted"], va="bottom")
        for name, value in PAPER.items():
            ax.axhline(value, **_style.REFERENCE)
            look.say(ax, 5.0, 0.95 * value, f"paper, {name}: {value}", look.COLOR["muted"])
        ax.set(xlabel="asynchronous ratio (maximum staleness in versions)")
        ax.set(ylabel="speed-up over synchronous training")
        ax.set(xticks=roll_flash.RATIOS, xlim=(0.7, 8.3), ylim=(0.8, 4.6), yscale="log")
        ax.set_yticks([1, 2, 3, 4], ["1", "2", "3", "4"])
        ax.minorticks_off()
        look.ends(ax, {name: (last, shade) for name, last, shade in ends}, 0.07)
        look.say(ax, 8.0, 1.12, "spread: standard deviation (log length)", look.COLOR["muted"], ha="right")
        long = [speeds(rows, *arm) for arm in ARMS if arm[1] >= 1.0]
        twice, last = ([own[ratio][0] for own in long] for ratio in (SHOWN[0], SHOWN[-1]))
        holds = all(1.75 <= each < 2.75 for each in twice) and all(2.75 <= each < 4.5 for each in last)
        _script.headline(figure, holds and (SHOWN[0], SHOWN[-1]) == (2, 8), "Speed of ROLL Flash by asynchronous ratio")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Speed-ups with intervals at three ratios, and the ratio from which on little is gained."""
    found: dict[str, str] = {}
    keys = {"even": ("reasoning", 0.0), "mild": ("reasoning", 0.5), "long": ("reasoning", 1.0)}
    for key, arm in (keys | {"longest": ("reasoning", 1.5), "agentic": ("agentic", 1.0)}).items():
        own = speeds(rows, *arm)
        last = own[roll_flash.RATIOS[-1]][0]
        found |= {f"{key}_{ratio}": rounded(*own[ratio]) for ratio in SHOWN}
        enough = next(r for r in own if own[r][0] >= ENOUGH * last)
        # The last ratio measured always has all of its own speed.
        found[f"{key}_enough"] = f"> {roll_flash.RATIOS[-2]}" if enough == roll_flash.RATIOS[-1] else str(enough)
    found["rlvr"], found["agents"] = (f"{value}" for value in PAPER.values())
    found |= dict(zip(("first", "second", "last"), map(str, SHOWN), strict=True)) | {
        "mild": "0.5",
        "long": "1",
        "longest": "1.5",
    }
    found |= {"most": f"{100 * ENOUGH:.0f}", "shares": str(len(roll_flash.SHARES))}
    for workload, factor in PAPER.items():
        long = [speeds(rows, *arm) for arm in ARMS if arm[0] == workload and arm[1] >= 1.0]
        reach = (ratio for ratio in roll_flash.RATIOS if all(own[ratio][0] - own[ratio][1] >= factor for own in long))
        found[f"{workload}_reach"] = str(next(reach, "none"))
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether training is as many times as fast as the paper says."""
    found: dict[str, list[Setting]] = {workload: [] for workload in PAPER}
    for workload, sigma in ARMS:
        factor = PAPER[workload]
        for ratio, (value, half) in speeds(rows, workload, sigma).items():
            met = sigma >= 1.0 and ratio >= (3 if workload == "reasoning" else 4)
            place = (f"spread {sigma:g} at ratios" if sigma else "equal lengths at ratios", str(ratio))
            found[workload].append(Setting(place, decided(value - half >= factor, value + half < factor), met))
    return found
