"""Speed of asynchronous training over synchronous on one pool, against the asynchronous ratio."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import roll_flash
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"roll_flash": {"task": "none (timing only)"}}
ARMS: dict[tuple[str, float], tuple[str, str, str]] = {
    ("reasoning", 0.0): ("equal", "muted", "s"),
    ("reasoning", 0.5): ("spread 0.5", "partial", "v"),
    ("reasoning", 1.0): ("spread 1", "measured", "o"),
    ("reasoning", 1.5): ("spread 1.5", "tuned", "^"),
    ("agentic", 1.0): ("agentic: 4 turns, spread 1", "contrast", "D"),
}
"""Name, color and marker of each workload."""
PAPER = {"reasoning": 2.24, "agentic": 2.72}
"""Speed-ups that the abstract states."""
SHOWN = (2, 4, 8)
"""Ratios of the table."""
LIMIT = "if no slot were ever idle"
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


def price(rows: Any, workload: str, sigma: float) -> dict[int, float]:
    """Mean staleness at each ratio with the share that is fastest."""
    own = rows[(rows.workload == workload) & (rows.sigma == sigma)]
    means: Any = own.groupby(["quantity", "ratio", "share"]).value.mean()
    return {r: float(means["staleness", r, means["step_seconds", r].idxmin()]) for r in roll_flash.RATIOS}


def rounded(mean: float, half: float) -> str:
    """A speed-up to the hundredth."""
    return f"{mean:.2f} ± {half:.2f}" if half >= 0.005 else f"{mean:.2f}"


def draw_arm(axes: Any, rows: Any, arm: tuple[str, float]) -> None:
    """Speed against the ratio, and against the staleness that it costs; the dashed line is a pool that never idles."""
    name, color, marker = ARMS[arm]
    found, stale = speeds(rows, *arm), price(rows, *arm)
    values = [mean for mean, _ in found.values()]
    style: dict[str, Any] = {"color": _style.COLORS[color], "marker": marker, "markersize": 4.0, "linewidth": 1.0}
    axes[0].plot(list(found), values, **style)
    axes[1].plot(list(stale.values()), values, **style, label=name)
    own = _script.pick(rows, workload=arm[0], sigma=arm[1], quantity="step_seconds", ratio=0)
    limit, shade = own.value.mean() / roll_flash.IDEAL, _style.COLORS[color]
    axes[0].plot([6.5, 8.8], [limit] * 2, label=LIMIT, **{**_style.PREDICTED, "color": shade})


def draw(rows: Any) -> Figure:
    """Two panels on one axis of speed."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        axes: list[Axes] = list(figure.subplots(1, 2, sharey=True))
        for arm in ARMS:
            draw_arm(axes, rows, arm)
        for name, value in {
            "synchronous": 1.0,
            **{f"paper, {name} {value}": value for name, value in PAPER.items()},
        }.items():
            axes[0].axhline(value, **_style.REFERENCE)
            place = {"ha": "right", "va": "top"} if value > 1.0 else {"ha": "right", "va": "bottom"}
            look.say(axes[0], 9.2 if value > 1.0 else 6.2, 0.985 * value, name, look.COLOR["muted"], **place)
        axes[0].set(xlabel="asynchronous ratio (versions at most)", ylabel="speed / synchronous speed", yscale="log")
        axes[0].set(xticks=roll_flash.RATIOS, xlim=(0.6, 9.2), ylim=(0.8, 8.0))
        axes[0].set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        axes[0].minorticks_off()
        axes[0].set_title("By the bound on staleness")
        axes[1].set(xlabel="mean staleness (versions)", title="By mean staleness, measured")
        axes[1].legend(frameon=False, fontsize=7, title="lengths of samples", alignment="left")
        long = [speeds(rows, *arm) for arm in ARMS if arm[1] >= 1.0]
        twice, last = ([own[ratio][0] for own in long] for ratio in (SHOWN[0], SHOWN[-1]))
        holds = all(1.75 <= each < 2.75 for each in twice) and all(2.75 <= each < 4.5 for each in last)
        words = f"Long-tailed lengths: twice as fast at ratio {SHOWN[0]}, three to four times at ratio {SHOWN[-1]}"
        title = _script.finding(holds, words, "Speed of asynchronous training beside synchronous")
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Speed-ups with intervals at three ratios, limits, and the ratio from which on little is gained."""
    found: dict[str, str] = {}
    keys = {"even": ("reasoning", 0.0), "mild": ("reasoning", 0.5), "long": ("reasoning", 1.0)}
    for key, arm in (keys | {"longest": ("reasoning", 1.5), "agentic": ("agentic", 1.0)}).items():
        own = speeds(rows, *arm)
        last = own[roll_flash.RATIOS[-1]][0]
        base = _script.pick(rows, workload=arm[0], sigma=arm[1], quantity="step_seconds", ratio=0).value.mean()
        found |= {f"{key}_{ratio}": rounded(*own[ratio]) for ratio in SHOWN}
        found[f"{key}_limit"] = f"{base / roll_flash.IDEAL:.2f}"
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
    return found
