"""Return of four methods over updates at three levels of staleness and one learning rate."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from paper_figures import _gac_steps as shared
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.gac_cosine import READINGS, TASKS

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"gac_steps": {"part": "steps", "task": "chain", "rate": "best synchronous"}}
TASK = "chain"
"""The task on which GRPO falls most."""
FRESH: dict[str, Any] = look.SYNCHRONOUS
NEAR, FEW = 0.02, 0.1
"""Difference of final returns that counts as none; share of runs below which hardly any falls."""
TABLE = ("GRPO", "M2PO", "BAPO", "GAC", "RLOO", "GAC on RLOO")


def points(ax: Axes, x: Any, own: Any, **style: Any) -> None:
    """Values with their intervals, joined, within the range of a return."""
    ends = (own.value - own.low_end.clip(lower=0.0), own.high_end.clip(upper=1.0) - own.value)
    reach = [each.clip(lower=0.0) for each in ends]
    ax.errorbar(
        x, own.value, yerr=reach, **{**_style.MEASURED, **look.CONNECTED, "markersize": 2.6, "capsize": 0, **style}
    )


def draw_level(ax: Axes, rows: Any, staleness: int) -> dict[str, tuple[float, str]]:
    """Curves at one level of staleness, beside synchronous GRPO, and where they are when half of training is over."""
    rate, names = shared.usual(rows, TASK), {}
    stale = ((arm, staleness, shared.CALLED.get(arm, arm), style) for arm, style in shared.ARMS.items())
    for arm, level, name, style in ((shared.BASE, 0, "GRPO, synchronous", FRESH), *stale):
        own = shared.steps(rows, task=TASK, staleness=level, arm=arm, quantity="return", rate=rate)
        own = own.sort_values("update")
        points(ax, own["update"], own, **style)
        if len(own):
            names[name] = (float(own.value.iloc[len(own) // 2]), style["color"])
    ax.set(ylim=(0.0, 0.9), xlabel="update", title=f"staleness {staleness}")
    return names


def draw(rows: Any) -> Figure:
    """The levels of staleness on one task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        levels = [level for level in shared.STALE if len(shared.steps(rows, task=TASK, staleness=level))]
        axes = figure.subplots(1, len(levels), sharey=True, squeeze=False)[0]
        halves = [draw_level(ax, rows, level) for ax, level in zip(axes, levels, strict=True)]
        axes[0].set_ylabel("return of the trained policy")
        looks = {"GRPO, synchronous": FRESH}
        looks |= {shared.CALLED.get(arm, arm): style for arm, style in shared.ARMS.items()}
        handles = [Line2D([], [], label=name, **look.CONNECTED, **style) for name, style in looks.items()]
        values = [value for value, _ in halves[-1].values()]
        last = len(values) == len(looks) and values[-1] < min(values[:-1])
        lost = shared.record(rows, "GAC", "GRPO", 1.0)[2] > len(shared.places(rows)) / 2
        words = "On stale data, GAC on GRPO learns more slowly than GRPO; M2PO and BAPO learn fastest"
        soonest = last and max(values[1], values[4]) < min(values[2:4])
        title = _script.finding(lost and soonest, words, "Return over updates at one learning rate")
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=handles, ncols=len(handles), title=title, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Falls and returns of every method, and how often GAC returns more or less than others, by three readings."""
    arms = [arm for arm in TABLE if len(shared.steps(rows, arm=arm))]
    found = {"places": str(len(shared.places(rows))), "runs": str(int(shared.steps(rows).samples.max()))}
    for arm in arms:
        key = arm.replace(" ", "_").lower()
        found[f"{key}_usual"] = f"{100 * shared.fell(rows, arm, 1.0):.0f} %"
        found[f"{key}_return"] = f"{shared.returned(rows, arm, 1.0):.2f}"
        found[f"{key}_end"] = f"{shared.returned(rows, arm, 1.0, 'end'):.2f}"
        if arm not in ("M2PO", "BAPO"):
            found[f"{key}_bold"] = f"{100 * shared.fell(rows, arm, shared.BOLD):.0f} %"
    there = sorted({task for task, _ in shared.places(rows)})
    for key, quantity in (("fresh", "mean"), ("fresh_end", "end")):
        fresh = [shared.at(rows, task, 0, shared.BASE, quantity, 1.0).value for task in there]
        found[key] = f"{sum(fresh) / len(fresh):.2f}"
    share = [shared.at(rows, task, s, shared.BASE, "fell", 1.0).value for task, s in shared.places(rows)]
    found |= {"falling": str(sum(value > 0 for value in share)), "most_fell": f"{100 * max(share):.0f} %"}
    return found | compared(rows, arms)


def compared(rows: Any, arms: list[str]) -> dict[str, str]:
    """Wins, ties and losses of GAC beside GRPO, M2PO and BAPO, and places where it ends as high as fresh data."""
    found = {}
    others = [arm for arm in shared.ARMS if arm in arms and arm != "GAC"]
    for name, times in (("usual", 1.0), ("bold", shared.BOLD), ("best", None)):
        if times:
            found[f"base_{name}"] = outcome(shared.record(rows, "GAC", "GRPO", times))
        for key, arm in (("", "GAC"), ("rloo_", "GAC on RLOO"), ("plain_", "RLOO")):
            found[f"{key}all_{name}"] = "none"
            if arm in arms:
                records = [shared.record(rows, arm, other, times) for other in others]
                found[f"{key}all_{name}"] = outcome([sum(each) for each in zip(*records, strict=True)])
    found |= {"rloo_won": "none", "rloo_most": "none"}
    if "RLOO" in arms and "GAC on RLOO" in arms:
        pairs = [
            [shared.at(rows, *place, arm, "mean", None) for arm in ("GAC on RLOO", "RLOO")]
            for place in shared.places(rows)
        ]
        found["rloo_won"] = str(shared.record(rows, "GAC on RLOO", "RLOO", None)[0])
        found["rloo_most"] = f"{max(own.value - base.value for own, base in pairs):.3f}"
    found |= {"even": str(even(rows, "GAC")), "base_even": str(even(rows, "GRPO"))}
    return found | {"even_mean": str(even(rows, "GAC", "mean"))}


def even(rows: Any, arm: str, quantity: str = "end") -> int:
    """Places where a method's return at the end, or over training, is as high as that of fresh data."""
    return sum(matches(rows, *place, arm, quantity) is True for place in shared.places(rows))


def matches(rows: Any, task: str, staleness: int, arm: str, quantity: str) -> bool | None:
    """Whether a method's return is less than `NEAR` below that of fresh data, at the best synchronous rate."""
    own, fresh = (
        shared.at(rows, task, level, each, quantity, 1.0) for level, each in ((staleness, arm), (0, shared.BASE))
    )
    return decided(own.low_end > fresh.high_end - NEAR, own.high_end < fresh.low_end - NEAR)


def outcome(record: Any) -> str:
    """Wins, ties and losses in short."""
    return "/".join(str(each) for each in record)


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether GAC prevents falls at two rates, matches synchronous training, and returns more than all rivals."""
    found: dict[str, list[Setting]] = {"usual": [], "bold": [], "even": [], "wins": [], "rloo_wins": []}
    for times, reading in READINGS.items():
        for arm, base in (("GAC", "GRPO"), ("GAC on RLOO", "RLOO")):
            for task, s in shared.places(rows):
                place = (f"{reading}, {shared.CALLED.get(arm, arm)}, {TASKS[task]}", f"{s}")
                plain, fell = (shared.at(rows, task, s, each, "fell", times) for each in (base, arm))
                if plain.value >= FEW:
                    answer = decided(fell.high_end < FEW, fell.low_end >= FEW)
                    found["usual" if times == 1.0 else "bold"].append(Setting(place, answer))
                mine, *its = (shared.at(rows, task, s, each, "mean", times) for each in (arm, "GRPO", "M2PO", "BAPO"))
                more = all(mine.low_end > one.high_end for one in its)
                answer = decided(more, any(one.low_end > mine.high_end for one in its))
                found["wins" if base == "GRPO" else "rloo_wins"].append(Setting(place, answer))
    for task, s in shared.places(rows):
        place = (f"{TASKS[task]}", f"{s}")
        found["even"].append(Setting(place, matches(rows, task, s, "GAC", "end")))
    return found
