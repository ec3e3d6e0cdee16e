"""What the figures on projection and Adam share: rows, predictions, chosen learning rates, differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim import claims
from paper_figures import _script

BEHIND, PLAIN = "behind", " without momentum"
MOMENTUM = 0.9
"""Of Adam where it has one."""


def only(rows: Any, quantity: str, **columns: Any) -> Any:
    """Rows of a quantity with these columns that have a value."""
    return _script.pick(rows, quantity=quantity, **columns).dropna(subset="value")


def boundary(staleness: int) -> float:
    """Predicted largest step * curvature without control."""
    return claims.claim("staleness/stability-boundary").predict({"staleness": staleness, "curvatures": (1.0,)})["step"]


def restored(staleness: int, reference: str) -> float:
    """Predicted largest step * curvature far away, projected on the previous "raw" or "applied" direction."""
    point = {"staleness": staleness, "curvature": 1.0, "noise": 1.0, "others": 20, "step": 1.5, "reference": reference}
    return claims.claim("alignment/projection-restores-sync-boundary").predict(point)["step"]


def shrunk(own: Any, signals: Any) -> dict[str, np.ndarray]:
    """Predicted shares of the step at these signals, in front of Adam and behind it."""
    first = own.iloc[0]
    point = {"dimension": int(first.dimension), "strength": float(first.strength), "reference": str(first.reference)}
    found = [claims.claim("alignment/adam-inflation").predict({**point, "signal": float(x)}) for x in signals]
    return {"before": np.array([f["before"] for f in found]), BEHIND + PLAIN: np.array([f["behind"] for f in found])}


def best(rows: Any, arm: str, staleness: int) -> float:
    """The step size that does best among the replicates that choose."""
    scored = only(rows, "tuning", arm=arm, staleness=staleness)
    return float(scored.step[scored.value.astype(float).idxmin()])


def at(rows: Any, arm: str, staleness: int, step: float, quantity: str = "regret") -> Any:
    """The row of an arm at a step size, measured on the replicates that did not choose."""
    return only(rows, quantity, arm=arm, staleness=staleness, step=step).iloc[0]


def table(rows: Any, arms: tuple[str, ...]) -> Any:
    """One row for each arm and staleness, at its best step."""
    ages = sorted({int(lag) for lag in only(rows, "regret").staleness})
    return type(rows)([at(rows, arm, tau, best(rows, arm, tau)).to_dict() for tau in ages for arm in arms])


def written(row: Any, digits: int = 3) -> str:
    """Value and half of its interval, with as many digits as show the half."""
    half = float(row.high - row.low) / 2
    digits = max(digits, min(6, -int(np.floor(np.log10(half))))) if half > 0.0 else digits
    return f"{row.value:.{digits}f} ± {half:.{digits}f}"


def less(first: Any, second: Any) -> tuple[float, float]:
    """Value of the first row less that of the second, and half of its interval, as if they were independent."""
    reach = math.hypot(first.high - first.low, second.high - second.low) / 2
    return float(first.value - second.value), reach


def signed(value: float, reach: float) -> str:
    """A difference with half of its interval."""
    return f"{value:+.4f} ± {reach:.4f}".replace("-", "−")


def delays(rows: Any) -> list[int]:
    """Staleness values of the bandit but 0."""
    return sorted({int(lag) for lag in only(rows, "regret").staleness} - {0})


def gain(rows: Any, arms: tuple[str, ...]) -> dict[str, str]:
    """What a control at its best step changes in regret where it lowers it most, with its interval, and where."""
    found = []
    for tau in delays(rows):
        none = at(rows, "none", tau, best(rows, "none", tau))
        found += [(*less(none, at(rows, arm, tau, best(rows, arm, tau))), tau) for arm in arms]
    most, reach, where = max(found)
    return {"gain": signed(-most, reach), "gain_lag": f"{where}"}
