"""Learning rates at which half of the runs collapse, by staleness and estimator, on their predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim import claims
from asyncsim.plotting import _style
from experiments import phase_diagram as phase
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"phase_diagram": {"part": "boundary", "arm": ("plain", "weighted", "clipped")}}
PREDICTED = "predicted, no ratio"
NAMES = {"plain": "no ratio", "weighted": "no clip\n(token ratios)", "clipped": "PPO's clip"}


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


def draw_boundaries(ax: Axes, rows: Any, task: str) -> None:
    """Rates at which half of the runs of a task collapse, on the predictions."""
    names = {}
    for arm, name in NAMES.items():
        own = _script.pick(rows, part="boundary", task=task, arm=arm).dropna(subset="value").sort_values("staleness")
        # No bars: rates are known to a step of the grid, which is no interval of chance.
        style = _methods.look(name)
        ax.plot(places(own.staleness), own.value, markersize=4, **style, **look.CONNECTED)
        names[name] = (float(own.value.iloc[-1]), style["color"])
    levels = sorted(int(s) for s in rows.staleness.unique())
    ax.plot(places(levels), [predicted(s) for s in levels], label=PREDICTED, **_style.PREDICTED)
    ax.set(xscale="log", yscale="log", xlabel="staleness (versions)", title=task)
    look.ticks(ax.xaxis, places(levels), [str(s) for s in levels])
    look.ticks(ax.yaxis, [0.03, 0.1, 0.3, 1.0])
    ax.set_ylim(0.02, 3.5)
    look.say(ax, places(6), 0.06, PREDICTED, look.INK, ha="right")
    if task != next(iter(phase.TASKS)):
        look.ends(ax, names, gap=0.1)


def raised(rows: Any) -> bool:
    """Whether weights raise the limit at every staleness but where the grid cannot tell, and never lower it."""
    own = [each.held for each in held(rows)["raised"]]
    return False not in own and own.count(True) > 0.75 * len(own)


def draw(rows: Any) -> Figure:
    """Boundaries of three arms, a panel for each task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        axes = figure.subplots(1, len(phase.TASKS), sharey=True)
        for ax, task in zip(axes, phase.TASKS, strict=True):
            draw_boundaries(ax, rows, task)
        axes[0].set_ylabel("maximum learning rate × curvature\n(half of the runs lose all entropy)")
        _script.headline(figure, raised(rows), "Maximum learning rate by staleness")
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
