"""What `judge_runs` says of two arms of finished runs: a word, the numbers behind it, and what would decide."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

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

    def __str__(self) -> str:
        """One line."""
        count, x = len(self.names), self.numbers
        spread = f", standard deviation between seeds {x.std(ddof=1):.3g}" if count > 1 else ""
        files = ", ".join(self.names[:3]) + f" and {count - 3} more" * (count > 3)
        return f"{self.letter}: {count} run{'s' * (count > 1)}, mean {x.mean():.4g}{spread} ({files})"


@dataclass(frozen=True)
class Judgment:
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

    def _these(self) -> str:
        """What a single pair of curves tells of itself, and what it does not."""
        if self.inside is None:
            return ""
        low, high = self.difference - self.inside, self.difference + self.inside
        if math.isnan(self.inside):
            return (
                "These two runs: cannot tell either. Their difference drifts for as long as the stretch that was read, "
                "so its noise cannot be measured there; read a longer stretch."
            )
        apart = "differ beyond" if abs(self.difference) > self.inside else "do not differ beyond"
        reach = f"[{low:+.3g}, {high:+.3g}], 95 percent interval"
        return (
            f"These two runs {apart} their own noise: {self.difference:+.3g} {reach}. This says nothing of other seeds."
        )

    def _wanted(self) -> list[str]:
        """What would decide."""
        if self.word != UNKNOWN:
            return []
        lines = []
        if self.overturned > 0.0 and math.isnan(self.half):
            lines.append(
                f"If seeds of one setting spread by {self.overturned:.2g} or more (standard deviation), this "
                "difference is what seeds alone do. Give the spread (--seed-spread), or runs of one setting (--pilot)."
            )
        if not self.plan:
            return lines
        what = f"a difference of {self.effect:.3g} ({'that matters' if self.within else 'as seen, itself uncertain'})"
        lines.append(f"To find {what} with probability {self.power:g}:")
        known = ("as seen", "(95 % upper bound)") if math.isfinite(self.spread) else ("at most",) * len(self.plan)
        for (seeds, spread, hours), of in zip(self.plan, known, strict=False):
            cost = "" if math.isnan(hours) else f", {hours:,.{int(hours < 100.0)}f} more hours of runs"
            lines.append(f"  {seeds:,} seeds of each arm{cost}, if they spread by {spread:.2g} {of}")
        if math.isnan(self.plan[0][2]):
            lines.append("Hours are not known, since no column counts seconds.")
        return lines

    def text(self, width: int = 100) -> str:
        """A screen: what was read, both arms, the word, what one pair tells, what would decide."""
        parts = [
            f"{self.metric}, mean over {self.axis} {self.start:.6g} to {self.stop:.6g} (last {self.last:.0%} of what "
            f"all runs have); {self.better} is better; error rate {self.error:g}",
            *(f"  {arm}" for arm in self.arms),
            self.sentence,
            self.basis,
            self._these(),
            *self._wanted(),
            *(f"note: {note}" for note in self.notes),
        ]
        lines = list[str]()
        for part in filter(None, parts):
            deep = " " * (len(part) - len(part.lstrip()))
            lines += textwrap.wrap(part, width, subsequent_indent=deep + "  ", break_on_hyphens=False)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def row(self) -> dict[str, Any]:
        """The JSON object."""
        arms = [{key: value for key, value in asdict(arm).items() if key not in OPEN} for arm in self.arms]
        low, high = self.interval
        return dict(plain({**asdict(self), "arms": arms, "low": low, "high": high, "sentence": self.sentence}))
