"""What the figures on BAPO share: looks of its arms, and rows of an arm at the best rate of its grid."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from paper_figures import _methods
from paper_figures import _vcpo as look
from paper_figures._script import pick

TASKS = {"bandit": "bandit", "graded": "graded", "bits": "pass or fail"}
"""Tasks of the experiment, and what a panel calls them."""
SAME, TUNED = "best synchronous rate", "tuned rates"
"""Readings of the rate."""
LOOKS = {"bandit": look.TASK["bandit"], "graded": look.TASK["graded"], "bits": look.TASK["sparse"]}
NAMES = {
    "fresh": "fresh data", "clip": "PPO's clip", "higher": "clip-higher", "bapo": "BAPO",
    "released": "BAPO as released",
    "intent": "BAPO, target on the\ngradient, not the loss", "start": "BAPO's first bounds, fixed",
    "none": "no clip", "rloo": "RLOO, no ratio",
}  # fmt: skip
ARMS = {arm: _methods.look(name) for arm, name in NAMES.items()}


def key(figure: Figure) -> None:
    """Marks of tasks, below the place of the title."""
    marks: list[Any] = [
        Line2D([], [], label=TASKS[task], linestyle="none", markersize=4.0, **style) for task, style in LOOKS.items()
    ]
    look.below(figure, marks)


def laws(rows: Any) -> list[str]:
    """Constant laws of the grid, the stalest last."""
    found = {law for law in rows.law if law.startswith("constant ")}
    return sorted(found, key=lambda law: int(law.split()[1]))


def age(law: str) -> int:
    """Updates of a constant law."""
    return int(law.split()[1])


def best(rows: Any, **place: Any) -> float:
    """The rate of most return of an arm at a place."""
    return float(pick(rows, part="grid", quantity="best", **place).rate.iloc[0])


def at_best(rows: Any, quantity: str, **place: Any) -> Any:
    """The row of a quantity at an arm's best rate."""
    return pick(rows, part="grid", quantity=quantity, rate=best(rows, **place), **place).iloc[0]


def read(rows: Any, quantity: str, reading: str, task: str, law: str, arm: str) -> Any:
    """The row of a quantity at an arm's best rate, or at the best rate of fresh data."""
    if reading == TUNED:
        return at_best(rows, quantity, task=task, law=law, arm=arm)
    rate = best(rows, task=task, law=laws(rows)[0], arm="clip")
    return pick(rows, part="grid", quantity=quantity, rate=rate, task=task, law=law, arm=arm).iloc[0]


def grids(rows: Any, arm: str) -> list[tuple[str, str]]:
    """Tasks with laws of off-policy data on which an arm ran at all rates."""
    own = pick(rows, part="grid", arm=arm, quantity="best")
    known = set(zip(own.task, own.law, strict=True))
    every = [*laws(rows)[1:], "replay", "partial"]
    return [(task, law) for task in TASKS for law in every if (task, law) in known]


def told(law: str) -> str:
    """A law of off-policy data in words."""
    return {"replay": "replay", "partial": "partial rollouts"}.get(law) or f"staleness {age(law)}"


def settled(rows: Any, **place: Any) -> bool:
    """Whether the best rate lies inside its grid."""
    return bool((pick(rows, part="grid", quantity="best", **place).note == "").all())


def curve(rows: Any, quantity: str, **place: Any) -> Any:
    """A quantity at every rate, in order; missing ones left out."""
    own = pick(rows, part="grid", quantity=quantity, **place).dropna(subset="value")
    return own.sort_values("rate").reset_index(drop=True)


def difference(rows: Any, **place: Any) -> Any:
    """The row of an arm beside BAPO; None where it was not compared."""
    own = pick(rows, part="compare", quantity="difference", **place)
    return own.iloc[0] if len(own) and own.word.iloc[0] else None
