"""What the experiments on consecutive gradients share: rows with intervals, schedules and their boundaries."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asyncsim.base import uncertainty
from asyncsim.base.records import Estimate

SURE = 3.0
"""Standard errors that a reading of the staleness must be sure by."""


def measured(found: Estimate) -> dict[str, Any]:
    """Value with its 95 percent interval and the number of independent runs behind it."""
    reach = uncertainty.critical(0.05, found.freedom) * found.error
    return {
        "value": found.value,
        "low": found.value - reach,
        "high": found.value + reach,
        "error": found.error,
        "samples": found.samples,
        "reason": "",
    }


def missing(reason: str) -> dict[str, Any]:
    """A row that says why nothing was measured."""
    return {"value": None, "low": None, "high": None, "error": None, "samples": 0, "reason": reason}


def boundary(schedule: str, staleness: int) -> float:
    """Largest stable step * curvature of a schedule whose largest staleness is given; for `random` in mean square."""
    if schedule == "sawtooth":
        return 2.0 / (staleness + 1)
    if schedule == "random":
        from asyncsim.claims._random import mean_square_boundary

        return mean_square_boundary(np.full(staleness + 1, 1.0 / (staleness + 1)))
    return 2.0 * math.sin(math.pi / (2 * (2 * staleness + 1)))


def system(schedule: str, staleness: int) -> Any:
    """The imposed schedule by name: constant, 0 to `staleness` in turn, or drawn evenly for every update."""
    from asyncsim import schedules

    if schedule == "sawtooth":
        return schedules.sawtooth(staleness + 1)
    if schedule == "random":
        return schedules.random(np.full(staleness + 1, 1.0 / (staleness + 1)))
    return schedules.fixed(staleness)


@dataclass
class Readings:
    """Products of gradients k updates apart summed up to several run lengths; see `diagnostics.autocorrelogram`.

    Its result `[lengths, lags + 1, R]`: mean products of the first so many updates behind `after`.
    """

    lags: int
    after: int
    lengths: tuple[int, ...]
    ring: list[np.ndarray] = field(default_factory=list, repr=False)
    sums: np.ndarray | None = field(default=None, repr=False)
    kept: list[np.ndarray] = field(default_factory=list, repr=False)
    count: int = 0

    name = "readings"
    outputs = ()

    def fresh(self) -> Readings:
        """An empty copy."""
        return dataclasses.replace(self, ring=[], sums=None, kept=[], count=0)

    def observe(self, step: Any) -> None:
        """Add one update's products; lags that reach back behind the start fill up first."""
        if step.update < self.after - self.lags:
            return
        self.ring = [step.gradient.double().cpu().numpy(), *self.ring[: self.lags]]
        if step.update < self.after:
            return
        products = np.array([np.einsum("rp,rp->r", self.ring[0], old) for old in self.ring])
        self.sums = products if self.sums is None else self.sums + products
        self.count += 1
        if self.count in self.lengths:
            self.kept.append(self.sums / self.count)

    def result(self) -> dict[str, np.ndarray]:
        """Mean products `[lengths, lags + 1, R]`."""
        return {"readings": np.array(self.kept)}


def largest_fall(products: np.ndarray) -> np.ndarray:
    """The lag k >= 1 behind which correlograms `[lags + 1, R]` fall most: some lag, with and without staleness."""
    correlations = products / products[0]
    fall: np.ndarray = 1 + np.argmax(correlations[1:-1] - correlations[2:], axis=0)
    return fall


def read(products: np.ndarray, count: float) -> np.ndarray:
    """Staleness read off correlograms `[lags + 1, R]` of `count` updates times coordinates; 0 where none can be told.

    Answered is the lag k of the largest fall if, as behind constant staleness, correlations are positive up to k and
    negative at k + 1, both of one size within `SURE` errors, and the fall exceeds every other by as many. Errors are
    those of unrelated gradients, 1/sqrt(count) for a correlation.
    """
    correlations, error = products / products[0], 1.0 / np.sqrt(count)
    found, runs = largest_fall(products), np.arange(products.shape[1])
    falls = correlations[1:-1] - correlations[2:]
    before, behind = correlations[found, runs], correlations[found + 1, runs]
    others = np.where(np.arange(1, len(falls) + 1)[:, None] == found, -np.inf, falls).max(axis=0)
    positive = np.minimum.accumulate(correlations[1:], axis=0)[found - 1, runs] > 0.0
    # A sum of two correlations has variance 2; one fall less its neighbor weighs three by 1, -2 and 1: 6.
    turned = positive & (behind < 0.0) & (np.abs(before + behind) < SURE * np.sqrt(2.0) * error)
    alone = before - behind - others > SURE * np.sqrt(6.0) * error
    answer: np.ndarray = np.where(turned & alone, found, 0)
    return answer
