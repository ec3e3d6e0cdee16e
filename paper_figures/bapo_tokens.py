"""Which updates a clip blocks on old data, by what they do to entropy, from two starts; tokens are numbers."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import bapo_steps
from paper_figures import _bapo_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.bapo_rule import WAYS

NAMED = {"names": {"tokens": "16 tokens"}, "means": {"16 tokens": "fraction of correct tokens"}}
EXPERIMENTS = {"bapo_steps": {"part": "tokens", "task": "tokens", "rate": 0.2, **NAMED}}
STARTS = {bapo_steps.PEAKED: "peaked start", bapo_steps.UNIFORM: "uniform start"}
TASK, FEW = "tokens", 0.001
"""The task that is drawn; least share of tokens that a bin needs."""
KINDS = {"plain": "plain gradient", "natural": "natural gradient"}


def rate(rows: Any) -> float:
    """The boldest rate of this part."""
    return float(rows[rows.part == "tokens"].rate.max())


def own(rows: Any, start: str, quantity: str, part: str = "tokens", task: str = TASK, at: float = 0.0) -> Any:
    """A quantity of a task from one start."""
    chosen = _script.pick(rows, part=part, task=task, knob=start, quantity=quantity, rate=at or rate(rows))
    return chosen.sort_values("number")


def binned(rows: Any, start: str, quantity: str) -> Any:
    """A quantity by distance of the ratio from 1, of bins that hold enough tokens."""
    share = own(rows, start, "share").set_index("number").value
    found = own(rows, start, quantity)
    return found[[share[edge] >= FEW for edge in found.number]]


def draw_blocked(ax: Axes, rows: Any) -> None:
    """Share of pushes up and down that the clip blocks: two bars for each start."""
    names = []
    for place, (start, name) in enumerate(STARTS.items()):
        for side, way, word in ((-0.2, "up", "raise"), (0.2, "down", "lower")):
            row, color = own(rows, start, f"plain {way}", "blocked").iloc[[0]], WAYS[way][1]
            ax.bar([place + side], row.value, width=0.38, color=color, alpha=0.5)
            look.points(ax, [place + side], row, color=look.INK, marker="none")
            look.say(ax, place + side, 0.03, f"{word}\nentropy", look.INK, ha="center", va="bottom")
            percent = f"{100 * row.value.iloc[0]:.0f} %"
            look.say(ax, place + side, row.high.iloc[0] + 0.03, percent, color, ha="center")
        names.append({bapo_steps.PEAKED: "peaked start (on a wrong token)"}.get(start, name))
    ax.set(xlim=(-0.6, 1.6), ylim=(0.0, 0.7), ylabel="share of token updates that PPO's clip blocks")
    look.percents(ax.yaxis)
    look.ticks(ax.xaxis, (0, 1), names)


def biased(rows: Any, start: str, kind: str) -> dict[tuple[str, float], bool | None]:
    """Whether the clip blocks a larger share of what raises entropy than of what lowers it, by task and rate."""
    found = {}
    for task in steps.tasks(rows[rows.part == "blocked"]):
        for at in sorted(_script.pick(rows, part="blocked", task=task).rate.unique()):
            up, down = (own(rows, start, f"{kind} {way}", "blocked", task, at).iloc[0] for way in ("up", "down"))
            found[task, at] = decided(up.low > down.high, up.high < down.low)
    return found


def draw(rows: Any) -> Figure:
    """What the clip blocks, by effect on entropy."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        draw_blocked(figure.subplots(), rows)
        peaked, uniform = ({*biased(rows, start, "plain").values()} for start in STARTS)
        _script.headline(figure, (peaked, uniform) == ({True}, {False}), "What PPO's clip blocks, from two starts")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Shares blocked from both starts, and properties of tokens near to the ratio 1 and far from it."""
    found = {"rate": f"{rate(rows):g}", "old": str(int(rows[rows.part == "tokens"].staleness.max()))}
    for key, start in zip(("peaked", "uniform"), STARTS, strict=True):
        for way in ("up", "down"):
            found[f"{key}_{way}"] = f"{100 * own(rows, start, f'plain {way}', 'blocked').value.iloc[0]:.0f} %"
        closed = own(rows, start, "closed positive").set_index("number").value
        rare = bapo_steps.CHANCES[0]
        found[f"{key}_rare"] = f"{100 * closed[rare]:.0f} %" if rare in closed.index else "none"
    values = binned(rows, bapo_steps.PEAKED, "prob").value
    return found | {"peaked_prob_near": f"{values.iloc[0]:.2f}", "peaked_prob_far": f"{values.min():.2f}"}


def far(rows: Any, start: str) -> list[Setting]:
    """Whether tokens with ratios furthest from 1 are less probable, and more uncertain, than those near 1."""
    found = []
    for quantity, sign, word in (("prob", -1.0, "improbable"), ("entropy", 1.0, "uncertain")):
        for task in steps.tasks(rows[rows.part == "tokens"]):
            for at in sorted(_script.pick(rows, part="tokens", task=task).rate.unique()):
                share = own(rows, start, "share", task=task, at=at).set_index("number").value
                known = own(rows, start, quantity, task=task, at=at)
                first, *_, last = known[[share[edge] >= FEW for edge in known.number]].itertuples()
                apart = sign * (last.value - first.value)
                reach = math.hypot(last.high - last.low, first.high - first.low) / 2.0
                place = (f"{word}, {STARTS[start].split()[0]} start", f"{steps.TOLD[task]} at rates", f"{at:g}")
                found.append(Setting(place, decided(apart > reach, apart < -reach)))
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the clip blocks more of what raises entropy, and properties of ratios far from 1, by start and task."""
    found = []
    for start, name in STARTS.items():
        for kind, gradient in KINDS.items():
            for (task, at), known in biased(rows, start, kind).items():
                place = (f"{name.split()[0]} start, {gradient}", f"{steps.TOLD[task]} at rates", f"{at:g}")
                found.append(Setting(place, known, (start, kind) == (bapo_steps.PEAKED, "plain")))
    return {"blocked": found, "far": [each for start in STARTS for each in far(rows, start)]}
