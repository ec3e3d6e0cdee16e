"""Findings: what was measured, what a claim predicts, and the verdict after Holm's correction over all questions."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from asyncsim import validation
from asyncsim.base import calls, uncertainty
from asyncsim.base.records import Estimate, plain

VERDICTS = ("as predicted", "differs", "cannot tell")
LEVEL = 0.002
"""Probability that a healthy run gets any finding that differs: a fifth of the one percent that is promised."""
INTERVAL = 0.95
HARMLESS = "Nothing to do."
BY_DEFINITION = "definition"
"""In place of a claim where arithmetic alone decides: a mean exceeds no maximum, two averages of one batch differ."""
BATCHES = 24
"""Stretches of a series whose means are compared."""
FEWEST = 8
"""Steps from which a mean of steps has an interval."""


@dataclass(frozen=True)
class Finding(calls.Told):
    """The finding for one question of a diagnosis.

    `verdict`: one of `VERDICTS`. `cause`: what the data look like, in a few words; "" where nobody can tell.
    `measured` with its 95 percent interval `low` to `high`, `predicted` as a range, all in `unit`; None where there is
    none. `p`: probability of as large a deviation where the prediction holds. `claim`: id of the claim behind it,
    or "definition" where arithmetic decides. `action`: what to do; for "cannot tell", what is missing.
    """

    question: str
    verdict: str
    cause: str
    sentence: str
    action: str
    claim: str
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    predicted: tuple[float, float] | None = None
    unit: str = ""
    p: float | None = None

    def row(self) -> dict[str, Any]:
        """The finding as plain values; numbers that are not finite become None."""
        return dict(plain(asdict(self)))


class Saying(NamedTuple):
    """Text for one outcome of a question: a short cause, one sentence, and the recommended action."""

    cause: str
    sentence: str
    action: str = HARMLESS


@dataclass(frozen=True)
class Draft:
    """A finding before p-values are corrected: `agrees` applies if p is large, `differs` if p is small."""

    question: str
    claim: str
    agrees: Saying
    differs: Saying | None = None
    p: float | None = None
    measured: Estimate | None = None
    predicted: tuple[float, float] | None = None
    unit: str = ""
    decisive: bool = True

    def settled(self, small: bool) -> Finding:
        """Make the finding from the draft, given whether its p-value is small after correction."""
        saying = self.differs if small and self.differs is not None else self.agrees
        verdict = "differs" if small else "as predicted" if self.p is not None and self.decisive else "cannot tell"
        low, value, high = interval(self.measured) if self.measured is not None else (None, None, None)
        return Finding(self.question, verdict, *saying, self.claim, value, low, high, self.predicted, self.unit, self.p)


def missing(question: str, claim: str, sentence: str, action: str) -> Draft:
    """Make a draft for a question that the data cannot answer."""
    return Draft(question, claim, Saying("", sentence, action))


def settle(drafts: list[Draft]) -> list[Finding]:
    """Turn drafts into findings, with verdicts at a familywise level over all questions (Holm)."""
    tested = {str(k): draft.p for k, draft in enumerate(drafts) if draft.p is not None}
    adjusted = validation.holm(tested) if tested else {}
    return [draft.settled(adjusted.get(str(k), 1.0) <= LEVEL) for k, draft in enumerate(drafts)]


def interval(estimate: Estimate) -> tuple[float, float, float]:
    """Lower end, value and upper end of an estimate with its 95 percent interval."""
    reach = uncertainty.critical(1.0 - INTERVAL, estimate.freedom) * estimate.error
    return estimate.value - reach, estimate.value, estimate.value + reach


def mean(series: np.ndarray) -> Estimate | None:
    """Mean of a series over steps, with its error from means of consecutive blocks; None for too few steps."""
    known = series[np.isfinite(series)]
    return None if len(known) < FEWEST else uncertainty.batch_means(known, batches=min(BATCHES, len(known) // 2))


def above(estimate: Estimate, limit: float) -> float:
    """p-value of an estimate at least this large if the true value is at most the limit."""
    if estimate.error <= 1e-12 * max(1.0, abs(limit)):
        return 1.0 if estimate.value <= limit + 1e-9 * max(1.0, abs(limit)) else 0.0
    return float(stats.t.sf((estimate.value - limit) / estimate.error, estimate.freedom))


def below(estimate: Estimate, limit: float) -> float:
    """p-value of an estimate at most this small if the true value is at least the limit."""
    return above(estimate._replace(value=-estimate.value), -limit)


def outside(estimate: Estimate, low: float, high: float) -> float:
    """p-value of an estimate this far out if the true value is in [low, high]: twice the smaller tail."""
    return min(1.0, 2.0 * min(below(estimate, low), above(estimate, high)))
