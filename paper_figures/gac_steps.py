"""Return of four methods over updates, and runs that fall by staleness, at one learning rate."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _gac_steps as shared
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.gac_cosine import READINGS, TASKS

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"gac_steps": {"part": "steps", "task": "chain", "rate": "best synchronous"}}
TASK, SHOWN, FOLLOWED = "chain", 16, ("GRPO", "GAC")
"""The task on which GRPO falls most, the staleness at which GAC prevents that, and whose returns are drawn there."""
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


def draw_level(ax: Axes, rows: Any, staleness: int) -> dict[str, float]:
    """Curves at one level of staleness, beside synchronous GRPO; where they are at a third of training."""
    rate, thirds = shared.usual(rows, TASK), {}
    stale = ((arm, staleness, arm, shared.ARMS[arm]) for arm in FOLLOWED)
    for arm, level, name, style in ((shared.BASE, 0, "synchronous", FRESH), *stale):
        own = shared.steps(rows, task=TASK, staleness=level, arm=arm, quantity="return", rate=rate)
        own = own.sort_values("update")
        points(ax, own["update"], own, **style)
        if len(own):
            thirds[name] = float(own.value.iloc[len(own) // 3])
    ax.set(ylim=(0.0, 0.9), xlabel="update", ylabel="mean return of the trained policies")
    ax.set_title(f"Mean over runs at staleness {staleness} (hides single runs)")
    look.say(ax, 30, 0.85, "synchronous GRPO", FRESH["color"])
    look.say(ax, 96, 0.6, "GRPO", shared.ARMS["GRPO"]["color"], ha="right")
    look.say(ax, 170, 0.5, "GAC on GRPO", shared.ARMS["GAC"]["color"])
    return thirds


def draw_fallen(ax: Axes, rows: Any) -> dict[str, list[float]]:
    """Share of runs that fall against staleness; the shares."""
    levels = [level for level in shared.STALE if len(shared.steps(rows, task=TASK, staleness=level))]
    shares = {}
    for aside, (arm, style) in zip((-0.06, -0.02, 0.02, 0.06), shared.ARMS.items(), strict=True):
        own = [shared.at(rows, TASK, level, arm, "fell", 1.0) for level in levels]
        points(ax, [place + aside for place in range(len(levels))], pd.DataFrame(own), **style)
        shares[arm] = [float(row.value) for row in own]
    look.shares(ax)
    look.ticks(ax.xaxis, range(len(levels)), levels)
    ax.set(xlabel="staleness (versions)", ylabel="runs that fall (lose half of their gain)")
    ax.set_title("Runs that fell at any update")
    ends = {shared.CALLED.get(arm, arm): (own[-1], shared.ARMS[arm]["color"]) for arm, own in shares.items()}
    look.ends(ax, ends, 0.085)
    return shares


def draw(rows: Any) -> Figure:
    """Learning at one level of staleness, and falls at all, on one task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2)
        there = {int(level) for level in shared.steps(rows, task=TASK).staleness}
        thirds = draw_level(left, rows, SHOWN if SHOWN in there else max(there))
        shares = draw_fallen(right, rows)
        slower = thirds["GAC"] < min(value for name, value in thirds.items() if name != "GAC")
        prevents = shares["GAC"][-2:-1] < [FEW] < shares["GRPO"][-2:-1] and shares["GAC"][-1] > 0.5
        ends = [shared.at(rows, TASK, level, shared.BASE, "end", 1.0).low_end for level in there if level]
        back = min(ends) > 0.9 * max(ends)
        _script.headline(figure, slower and prevents and back, "Return over updates, and falls, at one learning rate")
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
    found["falling"] = str(sum(value >= FEW for value in share))
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
