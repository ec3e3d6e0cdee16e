"""What the figures on GAC in training share: rates, rows of a method at a place, and who returns more."""

from __future__ import annotations

from typing import Any

from experiments import gac_steps
from paper_figures import _methods, _script

SYNCHRONOUS, METHOD, BASE = "synchronous", "GAC", "GRPO"
ARMS = {arm: _methods.look(arm) for arm in ("GRPO", "M2PO", "BAPO", "GAC")}
"""Methods that the paper compares, with their marks."""
CALLED = {"GAC": "GAC on GRPO"}
AS_GOOD, BOLD = 0.005, 4.0
"""Difference of returns that decides nothing; the 4× rate, in best synchronous ones."""
STALE = tuple(level for level in gac_steps.STALENESS if level)


def steps(rows: Any, **place: Any) -> Any:
    """Rows of training."""
    return _script.pick(rows, part="steps", **place)


def usual(rows: Any, task: str) -> float:
    """The least rate at which synchronous GRPO returns as much over training as at any, within `AS_GOOD`."""
    own = steps(rows, task=task, staleness=0, arm=BASE, quantity="mean")
    return float(own[own.value >= own.value.max() - AS_GOOD].rate.min())


def at(rows: Any, task: str, staleness: int, arm: str, quantity: str, times: float | None) -> Any:
    """The row of a method at so many best synchronous rates, or (None) at its own best rate there."""
    own = steps(rows, task=task, staleness=staleness, arm=arm)
    if times is None:
        means = own[own.quantity == "mean"]
        rate = means.loc[means.value.idxmax()].rate
    else:
        wanted = times * usual(rows, task)
        rate = min(own.rate.unique(), key=lambda each: abs(each / wanted - 1.0))
    return _script.pick(own, quantity=quantity, rate=rate).iloc[0]


def places(rows: Any) -> list[tuple[str, int]]:
    """Tasks at levels of staleness."""
    own = steps(rows, arm=METHOD)
    return [(task, s) for task in gac_steps.TASKS for s in STALE if ((own.task == task) & (own.staleness == s)).any()]


def record(rows: Any, arm: str, other: str, times: float | None) -> tuple[int, int, int]:
    """Places at which a method returns more over training than another, the same, and less, beyond both intervals."""
    words = []
    for task, staleness in places(rows):
        mine, its = (at(rows, task, staleness, each, "mean", times) for each in (arm, other))
        words.append(int(mine.low_end > its.high_end) - int(its.low_end > mine.high_end))
    return words.count(1), words.count(0), words.count(-1)


def fell(rows: Any, arm: str, times: float | None) -> float:
    """Share of runs that fall, over all places."""
    found = [at(rows, task, s, arm, "fell", times).value for task, s in places(rows)]
    return float(sum(found) / len(found))


def returned(rows: Any, arm: str, times: float | None, quantity: str = "mean") -> float:
    """Return over training, or at the end, over all places."""
    found = [at(rows, task, s, arm, quantity, times).value for task, s in places(rows)]
    return float(sum(found) / len(found))
