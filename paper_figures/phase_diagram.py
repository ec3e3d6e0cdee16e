"""Staleness and learning rate at which runs collapse: shares of each arm, and boundaries beside their predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from asyncsim import claims
from asyncsim.plotting import _style
from experiments import phase_diagram as phase
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = ("phase_diagram",)
NAMES = {
    "plain": "no ratio",
    "weighted": "importance weights",
    "clipped": "PPO's clip",
    "weighted, large": "weights,\nlarge batch",
}
COLOR = {"plain": "stale", "weighted": "controlled", "clipped": "tuned", "weighted, large": "partial"}
SHADES = LinearSegmentedColormap.from_list("share", ["white", look.COLOR["violated"]])
MARKS = {"bandit": "o", "graded": "s"}


def predicted(staleness: int, arm: str = "plain") -> float:
    """Largest stable rate at the optimum, in units of 1/curvature: stale rewards beside a current bonus, or none."""
    if arm != "plain":
        return 2.0
    gap = phase.GAPS["bandit"]
    setting = {"rewards": (gap, 0.0), "reference_logits": (0.0, 0.0), "kl": gap / phase.SHARPNESS}
    claim = claims.claim("staleness/regularizer-placement")
    step = claim.predict({**setting, "staleness": staleness, "placement": "loss"})["step"]
    return step * phase.curvature("bandit")


def places(staleness: Any) -> np.ndarray:
    """Staleness s is drawn at s + 1 on a logarithmic axis."""
    return np.asarray(staleness, dtype=float) + 1.0


def draw_shares(ax: Axes, rows: Any, arm: str) -> Any:
    """Share of bandit runs that collapsed at each staleness and rate, and the predicted boundary. The shades."""
    own = _script.pick(rows, part="share", task="bandit", arm=arm)
    table = own.pivot(index="rate", columns="staleness", values="value")
    edges = np.arange(len(table.columns) + 1) - 0.5
    rates = table.index.to_numpy()
    ratio = np.sqrt(rates[1] / rates[0])
    heights = np.append(rates / ratio, rates[-1] * ratio)
    shades = ax.pcolormesh(edges, heights, table.to_numpy(), cmap=SHADES, vmin=0.0, vmax=1.0, rasterized=True)
    levels = [int(s) for s in table.columns]
    ax.plot(range(len(levels)), [predicted(s, arm) for s in levels], **_style.PREDICTED)
    ax.set(yscale="log", xlabel="staleness (versions)", title=f"Bandit, {NAMES[arm]}: share of runs that collapse")
    look.ticks(ax.xaxis, range(len(levels)), [str(s) for s in levels])
    look.ticks(ax.yaxis, [0.01, 0.1, 1.0])
    return shades


def draw_boundaries(ax: Axes, rows: Any) -> None:
    """Rates at which half of the runs collapse, both tasks, on the predictions."""
    names = {}
    for (task, arm), own in _script.pick(rows, part="boundary").dropna(subset="value").groupby(["task", "arm"]):
        style: dict[str, Any] = {"color": look.COLOR[COLOR[arm]], "marker": MARKS[task]}
        style |= look.HOLLOW if task == "graded" else {}
        if task == "bandit":
            names[NAMES[arm]] = (float(own.sort_values("staleness").value.iloc[-1]), style["color"])
        # No bars: rates are known to a step of the grid, which is no interval of chance.
        ax.plot(places(own.staleness), own.value, markersize=4, **look.CONNECTED, **style)
    levels = sorted(int(s) for s in rows.staleness.unique())
    for arm in ("plain", "weighted"):
        ax.plot(places(levels), [predicted(s, arm) for s in levels], **_style.PREDICTED)
    ax.set(xscale="log", yscale="log", xlabel="staleness (versions)", title="Rate at which half of the runs collapse")
    look.ticks(ax.xaxis, places(levels), [str(s) for s in levels])
    look.ticks(ax.yaxis, [0.01, 0.1, 1.0])
    look.ends(ax, names, gap=0.1)
    look.say(ax, places(8), 2.2, "predicted, weights/clip", look.INK, ha="center", va="bottom")
    look.say(ax, places(6), 0.08, "predicted, no ratio", look.INK, ha="right")
    style = {"color": look.INK, "linestyle": "none"}
    bandit, graded = (Line2D([], [], label=task, marker=mark, **style) for task, mark in MARKS.items())
    graded.set(**look.HOLLOW)
    ax.legend(handles=[bandit, graded], loc="lower left")


def falls(rows: Any) -> bool:
    """Whether boundaries of the bandit without a ratio fall as 1/staleness, and others by far less."""
    late, slopes = int(rows.staleness.max()), {}
    for arm in phase.ARMS:
        own = _script.pick(rows, part="boundary", task="bandit", arm=arm).dropna(subset="value")
        own = own[own.staleness > 0]
        slopes[arm] = np.polyfit(np.log(own.staleness), np.log(own.value), 1)[0] if len(own) > 1 else 0.0
        if arm == "plain" and (own.empty or own.staleness.max() < late):
            return False
    return -1.3 < slopes["plain"] < -0.7 and all(slope > -0.5 for arm, slope in slopes.items() if arm != "plain")


def draw(rows: Any) -> Figure:
    """Collapses without a ratio, and the boundaries of all arms."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.2)
        axes = figure.subplots(1, 2, sharey=True)
        shades = draw_shares(axes[0], rows, "plain")
        place = axes[0].inset_axes((0.06, 0.16, 0.4, 0.05))
        bar = figure.colorbar(shades, cax=place, orientation="horizontal", format=PercentFormatter(1.0, symbol=" %"))
        bar.set_ticks([0.0, 0.5, 1.0])
        place.set_title("runs that collapse", **look.LETTERS)
        draw_boundaries(axes[1], rows)
        axes[0].set_ylabel("learning rate × curvature")
        own = _script.pick(rows, part="boundary", task="bandit").dropna(subset="value")
        own = own[(own.arm != "plain") & (own.staleness > 0)]
        times = [predicted(int(row.staleness), row.arm) / row.value for row in own.itertuples()]
        slow = "weights or a clip slow the fall, but less than predicted"
        words = f"Without ratios, the maximum stable learning rate falls as 1/staleness; {slow}"
        title = _script.finding(
            falls(rows) and max(times, default=1.0) > 2.0, words, "Learning rates at which runs collapse, by staleness"
        )
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def boundary(rows: Any, task: str, arm: str, staleness: int) -> str:
    """The measured one; NaN beyond the grid."""
    found = _script.pick(rows, part="boundary", task=task, arm=arm, staleness=staleness).value.iloc[0]
    return f"{float(found):#.2g}"


def numbers(rows: Any) -> dict[str, str]:
    """Measured over predicted boundaries without a ratio, and those of all arms at the largest staleness and at 0."""
    own = _script.pick(rows, part="boundary", arm="plain").dropna(subset="value")
    late = int(rows.staleness.max())
    found = {"late": str(late)}
    for name, some in (("off", own[own.staleness > 0]), ("fresh", own[own.staleness == 0])):
        ratio = some.value / [predicted(int(s)) for s in some.staleness]
        found[f"plain_{name}"] = f"{ratio.min():.1f} to {ratio.max():.1f}"
    for task in phase.TASKS:
        found |= {f"{task}_{arm}": boundary(rows, task, arm, late) for arm in phase.ARMS}
        found[f"{task}_fresh"] = boundary(rows, task, "plain", 0)
    held = _script.pick(rows, part="boundary", staleness=late)
    held = held[held.arm.isin(["weighted", "clipped"])]
    below = [predicted(late, row.arm) / row.value for row in held.itertuples()]
    found |= {"below_least": f"{min(below):.1f}", "below_most": f"{max(below):.1f}"}
    return found | {"large": boundary(rows, "bandit", "weighted, large", late)}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether stale data allow larger rates with weights than without, by task and staleness."""
    found, own = [], _script.pick(rows, part="boundary")
    for task in phase.TASKS:
        plain, weighted = (
            _script.pick(own, task=task, arm=arm).set_index("staleness") for arm in ("plain", "weighted")
        )
        for level in plain.index[plain.index > 0].intersection(weighted.index):
            # Ends are rates of the grid: at an end that both share, most runs without weights collapse, and few with.
            one, other = weighted.loc[level], plain.loc[level]
            raised = decided(one.low >= other.high, one.value <= other.value)
            found.append(Setting((task, f"{level}"), raised))
    return {"raised": found}
