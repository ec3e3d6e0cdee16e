"""What the figures on `bapo_steps` share: rates that are named, rows of an arm at a place, counts over places."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from paper_figures import _bapo as arms
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting

AS_GOOD, SMALLEST, BOLD = 0.005, 0.02, 4.0
"""Differences of return that decide nothing: among rates, among arms; and the 4× rate, in best synchronous ones."""
TASKS = {"tokens": "16 tokens", "long": "64 tokens", "noisy": "16 tokens with noise"}
TOLD = {"tokens": "graded", "long": "long task", "noisy": "noisy rewards"}
"""Tasks as the page calls them."""
ARMS: dict[str, dict[str, Any]] = {
    "fresh": arms.ARMS["fresh"],
    "clip": arms.ARMS["clip"],
    "bapo": arms.ARMS["bapo"],
    "half": {**arms.ARMS["bapo"], **look.HOLLOW},
    "none": arms.ARMS["none"],
}
NAMES = {
    "fresh": "fresh data",
    "clip": "PPO's clip",
    "bapo": "BAPO, target 0.4",
    "half": "BAPO, target 0.5",
    "none": "no clip",
}
TARGET = "target: share of loss\nfrom positive advantages"
"""What BAPO's target is."""
READINGS: dict[str, float | None] = {"bold": BOLD, "best": None}
"""Each in best synchronous rates; None: every arm at its own best."""


def tasks(rows: Any) -> list[str]:
    """Tasks of the rows, in order."""
    return [task for task in TASKS if (rows.task == task).any()]


def grid(rows: Any, **place: Any) -> Any:
    """Rows of the grid at a place: the arm `fresh` is any of them on data that are used once and at once."""
    if place.get("arm") == "fresh":
        place |= {"arm": "clip", "staleness": 0, "epochs": 1}
    return _script.pick(rows, part=place.pop("part", "grid"), **place)


def usual(rows: Any, task: str) -> float:
    """The best synchronous rate: the least at which fresh data return as much as at any, within `AS_GOOD`."""
    own = grid(rows, task=task, arm="fresh", quantity="mean")
    return float(own[own.value >= own.value.max() - AS_GOOD].rate.min())


def near(own: Any, rate: float) -> Any:
    """Rows at the rate that is nearest to this one."""
    rates = own.rate.unique()
    return own[own.rate == min(rates, key=lambda each: abs(each / rate - 1.0))]


def at(rows: Any, quantity: str, times: float | None, **place: Any) -> Any:
    """The row of a quantity at so many best synchronous rates, or at the rate of the arm's own largest mean return."""
    own = grid(rows, quantity=quantity, **place)
    if times is not None:
        return near(own, times * usual(rows, place["task"])).iloc[0]
    best = grid(rows, quantity="mean", **place)
    return own[own.rate == best.loc[best.value.idxmax()].rate].iloc[0]


def places(rows: Any) -> list[dict[str, Any]]:
    """Tasks on old data and on data that are used again."""
    own = grid(rows, quantity="mean", arm="clip")
    found = own[(own.staleness > 0) | (own.epochs > 1)][["task", "staleness", "epochs"]].drop_duplicates()
    return [
        {"task": row.task, "staleness": int(row.staleness), "epochs": int(row.epochs)} for row in found.itertuples()
    ]


def reach(one: Any, other: Any) -> float:
    """Half of the interval of a difference of two means."""
    return float(math.hypot(one.high - one.low, other.high - other.low)) / 2.0


def word(one: Any, other: Any, smallest: float = SMALLEST) -> str:
    """Whether a mean is above another: by more than the interval of the difference and than what decides nothing."""
    difference = one.value - other.value
    if abs(difference) <= max(reach(one, other), smallest):
        return "ties"
    return "wins" if difference > 0 else "losses"


def counted(rows: Any, arm: str, other: str, times: float | None, axis: str = "") -> dict[str, int]:
    """Wins, ties and losses of an arm beside another over all places, or those with another `staleness` or `epochs`."""
    fresh = {"staleness": 0, "epochs": 1}
    kept = [place for place in places(rows) if not axis or place[axis] != fresh[axis]]
    found = [word(*(at(rows, "mean", times, **place, arm=each) for each in (arm, other))) for place in kept]
    return {each: found.count(each) for each in ("wins", "ties", "losses")}


def settings(
    rows: Any,
    readings: Mapping[str, float | None],
    held: Callable[[dict[str, Any], float | None], bool | None],
    reused: bool,
) -> list[Setting]:
    """Whether something holds, by reading of the rate and place; with `reused`, also on data that are used again."""
    found = []
    for reading, times in readings.items():
        for place in places(rows):
            again = place["epochs"] > 1
            if reused or not again:
                name = f"{TOLD[place['task']]}, {'passes' if again else 'staleness'}"
                level = str(place["epochs" if again else "staleness"])
                found.append(Setting((reading, name, level), held(place, times)))
    return found


def score(counts: dict[str, int]) -> str:
    """Wins, ties and losses in a few letters."""
    return f"{counts['wins']}/{counts['ties']}/{counts['losses']}"
