"""How fast the exact return of a softmax bandit nears the best arm late in a run, gradients stale, through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, schedules, tasks
from asyncsim.base import checks
from asyncsim.trials._plants import momentum_inserted, with_method
from asyncsim.trials._runs import ascent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_UPDATES, _LONGEST, _EVERY, _EFFECT = 400, 12_800, 4, 0.02
"""Updates that see this effect near the points below, those of the longest run, and how often they are recorded."""

_SWING = 8.0
"""Most that a logit moves before the first update is answered, times the range of rewards."""


def _growth(inverse: np.ndarray, updates: np.ndarray) -> float:
    """Slope in t of 1/(r* - J_t), `[U]`, over its last three quarters, beside a logarithm that its approach leaves."""
    late = slice(len(updates) // 4, None)
    t = updates[late].astype(np.float64)
    columns = np.stack([t, np.ones_like(t), np.log(t)], axis=1)
    return float(np.linalg.lstsq(columns / t[-1], inverse[late] / t[-1], rcond=None)[0][0])


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    task = tasks.softmax_bandit(len(point["rewards"]), point["rewards"], rewards="fixed")
    method = methods.reinforce(advantages.group_mean())
    schedule = schedules.fixed(point["staleness"])
    settings = {"diagnostics": ["exact_return"], "every": _EVERY}
    # What is left of the approach falls like 1/t or slower.
    updates = _UPDATES * max(1, round((_EFFECT / effect) ** 2))
    while True:
        trace = run(ascent(task, schedule, method, point["step"], updates, **settings), seed, plant)
        gap, half = max(point["rewards"]) - trace["exact_return"][:, 0], len(trace.updates) // 2
        checks.require(gap.min() > 0.0, "distance to the best arm", gap.min(), "above rounding", "take smaller steps")
        rate = _growth(1.0 / gap, trace.updates)
        # What is left falls at least like the square root of the time: half the run has 1.4 times as much of it. It may
        # change its sign between the two, at a size that was 2e-4 at most in forty points.
        left = 1e-3 * abs(rate) + 2.5 * abs(rate - _growth(1.0 / gap[:half], trace.updates[:half]))
        if left <= 0.4 * effect * abs(rate):
            return {"rate": Estimate(rate, tolerance=left)}
        bound = f"at most {0.4 * effect:g} of the rate"
        remedy = "take larger steps, less staleness or a clearer best arm"
        share = left / max(abs(rate), 1e-300)
        checks.require(updates < _LONGEST, f"what {updates} updates leave of the approach", share, bound, remedy)
        updates *= 2


def _reach(point: Point) -> str | None:
    swing = point["step"] * (point["staleness"] + 1) * float(np.ptp(point["rewards"]))
    if swing > _SWING:
        return (
            f"step (staleness + 1) range at most {_SWING:g}, not {swing:.3g}; take smaller steps, overshoots last long"
        )
    return None


_TWO, _THREE = (0.0, 1.0), (0.0, 0.5, 1.0)


def _point(rewards: tuple[float, ...], step: float, staleness: int) -> Point:
    return {"rewards": rewards, "step": step, "staleness": staleness}


trial = Trial(
    points=(_point(_TWO, 4.0, 0), _point(_TWO, 1.0, 4), _point(_THREE, 4.0, 1)),
    more=(_point(_THREE, 4.0, 0), _point((0.2, 0.8), 2.0, 4), _point((0.5, 0.5, 1.0), 2.0, 2)),
    measure=_measure,
    defects={
        "momentum inserted": Defect(momentum_inserted, _point(_TWO, 4.0, 0)),
        "entropy bonus": Defect(with_method(constants={"entropy": 0.01}), _point(_TWO, 4.0, 0)),
    },
    effect=_EFFECT,
    reach=_reach,
    through="loop",
)
