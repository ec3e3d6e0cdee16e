"""The stale Gaussian bandit through the loop, from its target on."""

import math
from typing import Any

from asyncsim import methods, schedules, tasks
from asyncsim.base.records import Point
from asyncsim.claims.lab.runs import ascent
from asyncsim.running.spec import Spec

_LONGEST = 2000
"""Updates of a warm-up, at most."""


def warm_up(point: Point) -> int:
    """Updates left out at the start: nine relaxation times of the mean square, or more."""
    staleness, share = int(point["staleness"]), point["step"] * point["curvature"]
    return max(15 * (staleness + 1), math.ceil(4.5 / share))


def bandit(point: Point, count: int, replicates: int, diagnostics: list[Any]) -> Spec:
    """So many updates by leave-one-out REINFORCE without ratios."""
    task, schedule = (
        tasks.gaussian_bandit(point["curvature"], width=point["width"]),
        schedules.fixed(point["staleness"]),
    )
    size = {"samples_per_group": point["samples"], "replicates": replicates, "sampling": "monte_carlo"}
    return ascent(task, schedule, methods.reinforce(), point["step"], count, diagnostics=diagnostics, **size)


def settled(point: Point) -> str | None:
    """Why the warm-up of a run would not suffice, or tails would be too heavy to average."""
    a, tau = point["step"] * point["curvature"], point["staleness"]
    most, least = (1.0 if tau == 0 else 1.6) / (2 * tau + 1), 4.5 / _LONGEST
    if not least <= a <= most or point["samples"] < 6:
        return f"step * curvature from {least:.3g} to {most:.3g} and 6 samples; slower to settle, or heavier tails"
    return None
