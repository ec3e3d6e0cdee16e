"""What the figure on projection and Adam draws and quotes: rows, predictions, chosen steps, numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim import theory
from paper_figures import _script

BEHIND, PLAIN = "behind", " without momentum"
MOMENTUM = 0.9
"""Of Adam where it has one."""


def only(rows: Any, quantity: str, **columns: Any) -> Any:
    """Rows of a quantity with these columns that have a value."""
    return _script.pick(rows, quantity=quantity, **columns).dropna(subset="value")


def boundary(staleness: int) -> float:
    """Predicted largest step * curvature without control."""
    return theory.claim("staleness/stability-boundary").predict({"staleness": staleness, "curvatures": (1.0,)})["step"]


def restored(staleness: int, reference: str) -> float:
    """Predicted largest step * curvature far away, projected on the previous "raw" or "applied" direction."""
    point = {"staleness": staleness, "curvature": 1.0, "noise": 1.0, "others": 20, "step": 1.5, "reference": reference}
    return theory.claim("alignment/projection-restores-sync-boundary").predict(point)["step"]


def swing(staleness: int, momentum: float) -> float:
    """Expected root mean square of one mode under Adam without control, in its steps: a heuristic, no claim holds it.

    A mode that grows enlarges Adam's second moment until step (1 - momentum) curvature / sqrt(v) is the largest that is
    stable with that momentum; v is then the mean square of the mode's own gradient, which has to drown the noise.
    """
    point = {"staleness": staleness, "momentum": momentum, "curvatures": (1.0,)}
    return (1.0 - momentum) / float(theory.claim("staleness/heavy-ball").predict(point)["step"])


def shrunk(own: Any, signals: Any) -> dict[str, np.ndarray]:
    """Predicted shares of the step at these signals, in front of Adam and behind it."""
    first = own.iloc[0]
    point = {"dimension": int(first.dimension), "strength": float(first.strength), "reference": str(first.reference)}
    found = [theory.claim("alignment/adam-inflation").predict({**point, "signal": float(x)}) for x in signals]
    return {"before": np.array([f["before"] for f in found]), BEHIND + PLAIN: np.array([f["behind"] for f in found])}


def best(rows: Any, arm: str, staleness: int) -> float:
    """The step size that does best among the replicates that choose."""
    scored = only(rows, "tuning", arm=arm, staleness=staleness)
    return float(scored.step[scored.value.astype(float).idxmin()])


def too_large(rows: Any) -> float:
    """The step size of the grid nearest to four times the best synchronous one."""
    steps = np.unique(only(rows, "regret").step.astype(float))
    return float(steps[np.abs(np.log(steps / (4.0 * best(rows, "none", 0)))).argmin()])


def at(rows: Any, arm: str, staleness: int, step: float, quantity: str = "regret") -> Any:
    """The row of an arm at a step size, measured on the replicates that did not choose."""
    return only(rows, quantity, arm=arm, staleness=staleness, step=step).iloc[0]


def table(rows: Any, arms: tuple[str, ...]) -> Any:
    """One row for each arm and staleness, at its best step."""
    ages = sorted({int(lag) for lag in only(rows, "regret").staleness})
    return type(rows)([at(rows, arm, tau, best(rows, arm, tau)).to_dict() for tau in ages for arm in arms])


def times(rows: Any, staleness: int) -> str:
    """How many times the best step without control the best one with control behind Adam is."""
    return f"{best(rows, BEHIND, staleness) / best(rows, 'none', staleness):.0f}"


def shown(row: Any, digits: int = 3) -> str:
    """Value and half of its interval, with as many digits as show the half."""
    half = float(row.high - row.low) / 2
    digits = max(digits, min(6, -int(np.floor(np.log10(half))))) if half > 0.0 else digits
    return f"{row.value:.{digits}f} ± {half:.{digits}f}"


def share_numbers(rows: Any) -> dict[str, str]:
    """What is left of the step, and how far from the prediction."""
    own, gaps = only(rows, "shrinkage"), []
    for _, part in own.groupby(["reference", "dimension"]):
        for arm, predicted in shrunk(part, sorted(set(part.signal))).items():
            mine = part[part.arm == arm].sort_values("signal")
            gaps.append(np.abs(mine.value.astype(float) / predicted - 1.0).max())
    known, full = own[own.reference == "known"], own[own.reference == "previous"]
    spread = known[(known.dimension == known.dimension.max()) & (known.arm == "before")].sort_values("signal")
    single = known[(known.dimension == 1) & (known.arm == "before")]
    even = full.signal.iloc[int(np.abs(np.log(full.signal.astype(float))).argmin())]
    middle = {arm: full[(full.arm == arm) & (full.signal == even)].iloc[0] for arm in sorted(set(full.arm))}
    return {
        "strength": f"{known.strength.iloc[0]:g}",
        "spread": f"{known.dimension.max():.0f}",
        "single": f"{single.value.min():.3f} to {single.value.max():.3f}",
        "weak": shown(spread.iloc[0]),
        "weak_signal": f"{spread.signal.iloc[0]:g}",
        "strong": shown(spread.iloc[-1]),
        "strong_signal": f"{spread.signal.iloc[-1]:g}",
        "even_signal": f"{even:g}",
        "even_before": shown(middle["before"]),
        "even_behind": shown(middle[BEHIND + PLAIN]),
        "even_momentum": shown(middle[BEHIND]),
        "share_gap": f"{100.0 * max(gaps):.1f}",
    }


def stability_numbers(rows: Any) -> dict[str, str]:
    """Boundaries and oscillations at the largest staleness, and the deviations from what is predicted."""
    own, sizes = only(rows, "boundary"), only(rows, "amplitude")
    own, largest, off = own.assign(staleness=own.staleness.astype(int)), int(own.staleness.max()), {}
    last = own[own.staleness == largest].set_index("arm").value
    for arm in ("none", "raw", "applied"):
        mine = own[(own.arm == arm) & ((own.staleness > 0) | (arm == "none"))]
        right = [boundary(tau) if arm == "none" else restored(tau, arm) for tau in mine.staleness]
        off[arm] = f"{100.0 * np.abs(mine.value.astype(float) / right - 1.0).max():.2f}"
    tau = int(sizes.staleness.max())
    end = {row.arm: row for row in sizes[sizes.staleness == tau].itertuples()}
    plain, usual = (sizes[sizes.arm == arm] for arm in ("none" + PLAIN, "none"))
    gap, momentum_gap = (
        np.abs(mine.value.astype(float) / [swing(int(lag), beta) for lag in mine.staleness] - 1.0).max()
        for mine, beta in ((plain, 0.0), (usual[usual.staleness > 0], MOMENTUM))
    )
    return {
        "largest": f"{largest}",
        **{f"edge_{arm}": f"{last[arm]:.4f}" for arm in ("none", "half", "applied", "raw")},
        **{f"{arm}_off": value for arm, value in off.items()},
        "swing_lag": f"{tau}",
        "swing": shown(end["none" + PLAIN], 2),
        "swing_predicted": f"{swing(tau, 0.0):.2f}",
        "swing_gap": f"{100.0 * gap:.1f}",
        "swing_momentum_predicted": f"{swing(tau, MOMENTUM):.2f}",
        "swing_momentum_gap": f"{100.0 * momentum_gap:.1f}",
        "swing_fresh": shown(usual[usual.staleness == 0].iloc[0]),
        "swing_fresh_predicted": f"{swing(0, MOMENTUM):.3f}",
        "swing_before": shown(end["before" + PLAIN], 2),
        "swing_behind": shown(end[BEHIND + PLAIN], 2),
        "before_momentum": shown(end["before"], 2),
        "swing_momentum": shown(end["none"], 2),
        "swing_behind_momentum": shown(end[BEHIND], 2),
    }


def regret_numbers(rows: Any) -> dict[str, str]:
    """Regret at the best synchronous step, at four times that, and at the best step of each arm."""
    largest = int(only(rows, "regret").staleness.max())
    step, large = best(rows, "none", 0), too_large(rows)
    arms = ("none", "before", "behind")
    frozen = best(rows, "behind, default", largest)
    skipped = at(rows, "behind, default", largest, step, "skipped").value
    return {
        "regret_lag": f"{largest}",
        "step": f"{step:.3f}",
        "large": f"{large:.3f}",
        "synchronous": shown(at(rows, "none", 0, step), 4),
        **{f"same_{arm}": shown(at(rows, arm, largest, step), 4) for arm in arms},
        **{f"large_{arm}": shown(at(rows, arm, largest, large), 2) for arm in arms},
        **{f"best_{arm}": shown(at(rows, arm, largest, best(rows, arm, largest)), 4) for arm in arms},
        "times": times(rows, largest),
        "default": shown(at(rows, "behind, default", largest, frozen), 2),
        **gain(rows, ("before", "before, default", "behind", BEHIND + PLAIN)),
        "skipped": f"{100.0 * skipped:.1f}",
    }


def less(first: Any, second: Any) -> tuple[float, float]:
    """Value of the first row less that of the second, and half of its interval, as if they were independent."""
    reach = math.hypot(first.high - first.low, second.high - second.low) / 2
    return float(first.value - second.value), reach


def over(first: Any, second: Any) -> str:
    """Value of the first row over that of the second, with half of its interval, as if they were independent."""
    parts = [float((row.high - row.low) / (2 * row.value)) for row in (first, second)]
    ratio = float(first.value / second.value)
    return f"{ratio:.1f} ± {ratio * math.hypot(*parts):.1f}"


def signed(value: float, reach: float) -> str:
    """A difference with half of its interval."""
    return f"{value:+.4f} ± {reach:.4f}"


def delays(rows: Any) -> list[int]:
    """Staleness values of the bandit but 0."""
    return sorted({int(lag) for lag in only(rows, "regret").staleness} - {0})


def room_numbers(rows: Any) -> dict[str, str]:
    """What staleness costs at tuned steps, which is all that a control can win back, and what control itself costs."""
    largest = delays(rows)[-1]

    def tuned(arm: str, tau: int) -> Any:
        return at(rows, arm, tau, best(rows, arm, tau))

    costs = {tau: less(tuned("none", tau), tuned("none", 0)) for tau in delays(rows)}
    most = max(costs, key=lambda tau: costs[tau])
    return {
        "cost": signed(*costs[largest]),
        "cost_most": signed(*costs[most]),
        "cost_lag": f"{most}",
        "harm_before": signed(*less(tuned("before", largest), tuned("none", largest))),
        "fresh_behind": shown(tuned(BEHIND, 0), 4),
        "fresh_worse": over(tuned(BEHIND, 0), tuned("none", 0)),
        "worse": over(tuned(BEHIND, largest), tuned("none", largest)),
    }


def gain(rows: Any, arms: tuple[str, ...]) -> dict[str, str]:
    """Most that a control at its best step gains over a smaller step, in regret, with its interval."""
    found = []
    for tau in delays(rows):
        none = at(rows, "none", tau, best(rows, "none", tau))
        found += [(*less(none, at(rows, arm, tau, best(rows, arm, tau))), tau) for arm in arms]
    most, reach, tau = max(found)
    return {"gain": signed(most, reach), "gain_lag": f"{tau}"}
