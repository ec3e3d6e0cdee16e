"""What `judge_runs` says of two arms of finished runs: a word, the numbers behind it, and what would decide."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from asyncsim.base import calls
from asyncsim.base.pages import page
from asyncsim.base.records import plain

UNKNOWN = "cannot tell"
OPEN = {"curves", "places"}
"""Fields of an arm that its JSON object leaves out."""


@dataclass(frozen=True)
class RunsOfArm:
    """The runs of one arm: their names, the number of each `[n]`, and mean seconds of a run until it was read.

    `curves` `[n, K]` at `places` `[K]` of the axis are for the picture.
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

    `difference`: mean of B less mean of A, of the numbers of their runs. `half`: half of its interval at the level
    1 - `error`, NaN where the spread between seeds is not known; `basis`: where the spread is from and what is assumed.
    `inside`: half of the 95 percent interval of the difference of one pair of curves against their own noise, NaN where
    the noise outlasts the stretch, None where it was not asked. `overturned`: standard deviation between seeds from
    which on it alone explains the difference. `plan`: rows (seeds of an arm, spread between seeds, hours still to run,
    NaN where no clock was logged) that find a difference of `effect`; `start` and `stop`: the stretch that was read.
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
        """Of the difference between settings; NaN where the spread between seeds is not known."""
        return self.difference - self.half, self.difference + self.half

    @property
    def sentence(self) -> str:
        """The word with the number behind it."""
        said = {
            "better": "B is better than A",
            "worse": "B is worse than A",
            "equal": f"B equals A within {self.within:g}" if self.within else "",
            UNKNOWN: "cannot tell whether B is better than A",
        }[self.word]
        low, high = self.interval
        known = math.isfinite(self.half)
        reach = f" [{low:+.3g}, {high:+.3g}]" if known else ", and the spread between seeds is not known"
        return f"{said}: B less A is {self.difference:+.3g}{reach}."

    def text(self, width: int = 100) -> str:
        """A screen: what was read, both arms, the word, what one pair tells, what would decide."""
        return page("judgment", width, "  ", j=self)

    def __str__(self) -> str:
        return self.text()

    def row(self) -> dict[str, Any]:
        """The JSON object."""
        arms = [{key: value for key, value in asdict(arm).items() if key not in OPEN} for arm in self.arms]
        low, high = self.interval
        return dict(plain({**asdict(self), "arms": arms, "low": low, "high": high, "sentence": self.sentence}))
