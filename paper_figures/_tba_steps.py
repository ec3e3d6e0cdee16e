"""What the figures on `tba_steps` share: looks of arms, named rates, rows, and the exact frontier."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from experiments import tba_steps
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import decided

AS_GOOD, SMALLEST = 0.005, 0.02
"""Differences of returns that decide nothing: among rates, among arms."""
LABELS = {tba_steps.CURRENT: "RLOO, current penalty"}
"""Arms that pictures call otherwise."""
KEYS = {"TBA": "tba", "RLOO": "rloo", "Proximal RLOO": "prox", "RLOO, KL of now": "now", "Dr. GRPO": "grpo"}
ARMS = {arm: _methods.look(LABELS.get(arm, arm)) for arm in KEYS}
ARMS["Proximal RLOO"] |= look.HOLLOW
TASK = "arms"


def usual(rows: Any, task: str = TASK) -> float:
    """The best synchronous rate: the least at which RLOO at the least price on fresh data returns as much as at any."""
    own = _script.pick(rows, part="grid", task=task, arm="RLOO", steps=0, reading="mean", quantity="return")
    own = own[own.beta == own.beta.min()]
    return float(own[own.value >= own.value.max() - AS_GOOD].rate.min())


def near(own: Any, rate: float) -> Any:
    """Rows at the rate that is nearest to this one."""
    return own[own.rate == min(own.rate.unique(), key=lambda each: abs(each / rate - 1.0))]


def of(rows: Any, part: str, quantity: str, reading: str, **place: Any) -> Any:
    """Rows of a quantity at a place, all rates."""
    return _script.pick(rows, part=part, quantity=quantity, reading=reading, **place)


def at(rows: Any, part: str, quantity: str, reading: str, times: float | None, **place: Any) -> Any:
    """The row at so many best synchronous rates, or at the best rate: of most return, or objective if that is read."""
    own = of(rows, part, quantity, reading, **place)
    if times is not None:
        return near(own, times * usual(rows, place["task"])).iloc[0]
    best = of(rows, part, "objective" if quantity == "objective" else "return", reading, **place)
    return own[own.rate == best.loc[best.value.idxmax()].rate].iloc[0]


def steps(rows: Any) -> list[int]:
    """Levels of staleness of the grid."""
    return sorted(int(level) for level in rows[rows.part == "grid"].steps.unique())


def old(rows: Any) -> int:
    """About fifteen updates off policy, or the largest staleness."""
    found = steps(rows)
    return 15 if 15 in found else found[-1]


def betas(rows: Any, task: str = TASK) -> list[float]:
    """Prices of the grid."""
    return sorted(_script.pick(rows, part="grid", task=task, arm="TBA").beta.unique())


def frontier(prices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """KL, return, distinct good arms of reference exp(reward / price) / Z on `arms`: none returns more at its KL."""
    log_prob = tba_steps.LOGITS + tba_steps.MEANS / prices[:, None, None]
    log_prob = log_prob - np.logaddexp.reduce(log_prob, -1, keepdims=True)
    known = tba_steps.LOGITS - np.logaddexp.reduce(tba_steps.LOGITS, -1, keepdims=True)
    chance = np.exp(log_prob)
    kl = (chance * (log_prob - known)).sum(-1).mean(-1)
    good = (1.0 - (1.0 - chance[..., : tba_steps.GOOD]) ** tba_steps.DRAWS).sum(-1).mean(-1)
    return kl, (chance * tba_steps.MEANS).sum(-1).mean(-1), good


def best_at(kl: float) -> float:
    """The largest return that any policy has at a KL, on `arms`."""
    prices = np.geomspace(1e-3, 1e2, 4000)
    reach, earned, _ = frontier(prices)
    return float(np.interp(kl, reach[::-1], earned[::-1]))


def value(row: Any) -> str:
    """A mean with half of its interval."""
    return look.value(row)


def reach(one: Any, other: Any) -> float:
    """Half of the interval of a difference of two means."""
    return math.hypot(one.high - one.low, other.high - other.low) / 2.0


def better(low: float, high: float) -> bool | None:
    """Whether an interval of a difference says better: all above 0, and not equal within `SMALLEST`."""
    return decided(low > 0.0 and high > SMALLEST, high < 0.0 or (low > -SMALLEST and high < SMALLEST))


def as_good(low: float, high: float) -> bool | None:
    """Whether an interval of a difference lies less than `SMALLEST` below 0."""
    return decided(low > -SMALLEST, high < -SMALLEST)


def grown(gains: list[tuple[float, float]]) -> bool | None:
    """Whether the last of some gains, each with half of its interval, is larger than the first."""
    (first, one), (last, other) = gains[0], gains[-1]
    apart, half = last - first, math.hypot(one, other)
    return better(apart - half, apart + half)
