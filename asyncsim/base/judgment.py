"""The answer of `judge_runs` for two arms of finished runs: a verdict, the numbers behind it, and runs still needed."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from asyncsim.base import calls
from asyncsim.base.pages import COLUMNS, page
from asyncsim.base.records import plain

UNKNOWN = "cannot tell"
OPEN = {"curves", "places"}
"""Fields of an arm that are left out of the JSON object."""


@dataclass(frozen=True)
class RunsOfArm:
    """The runs of one arm: their names, the number read from each `[n]`, and mean seconds of a run up to that point.

    `curves` `[n, K]` at the abscissae `places` `[K]` are for the figure.
    """

    letter: str
    names: tuple[str, ...]
    numbers: np.ndarray
    seconds: float
    curves: np.ndarray = field(repr=False, compare=False)
    places: np.ndarray = field(repr=False, compare=False)


@dataclass(frozen=True)
class Judgment(calls.Told):
    """Whether setting B is better than setting A on fresh seeds: `word` is better, worse, equal or cannot tell.

    `difference`: mean of B minus mean of A, over the numbers of their runs. `half`: half-width of its interval at level
    1 - `error`, NaN if the spread between seeds is unknown; `basis`: source of the spread, and assumptions.
    `inside`: half-width of the 95 percent interval of the difference of one pair of curves given their own noise; NaN
    if noise outlasts the window, None if not requested. `overturned`: standard deviation between seeds above which it
    alone explains the difference. `plan`: rows (seeds per arm, spread between seeds, hours still to run, NaN without
    logged times) that detect a difference of `effect`; `start` and `stop`: the window that was read.
    """

    metric: str
    axis: str
    start: float
    stop: float
    last: float
    better: str
    error: float
    within: float | None
    arms: tuple[RunsOfArm, RunsOfArm]
    word: str
    difference: float
    half: float
    freedom: float
    spread: float
    basis: str
    inside: float | None
    overturned: float
    effect: float
    power: float
    plan: tuple[tuple[int, float, float], ...]
    notes: tuple[str, ...]

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the difference between the two settings; NaN if the spread between seeds is unknown."""
        return self.difference - self.half, self.difference + self.half

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, with the difference and its interval."""
        said = {
            "better": "B is better than A",
            "worse": "B is worse than A",
            "equal": f"B equals A within {self.within:g}" if self.within else "",
            UNKNOWN: "cannot tell whether B is better than A",
        }[self.word]
        low, high = self.interval
        known = math.isfinite(self.half)
        reach = f" [{low:+.3g}, {high:+.3g}]" if known else ", and the spread between seeds is not known"
        return f"{said}: B minus A is {self.difference:+.3g}{reach}."

    def text(self, width: int = 100) -> str:
        """Format the judgment for a terminal: inputs, both arms, verdict, noise of one pair, and seeds needed."""
        return page("judgment", width, "  ", j=self)

    def __str__(self) -> str:
        return self.text(COLUMNS.get() or 100)

    def row(self) -> dict[str, Any]:
        """The judgment of two settings as a JSON object."""
        arms = [{key: value for key, value in asdict(arm).items() if key not in OPEN} for arm in self.arms]
        low, high = self.interval
        return dict(plain({**asdict(self), "arms": arms, "low": low, "high": high, "sentence": self.sentence}))
