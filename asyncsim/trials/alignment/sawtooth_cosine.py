"""Correlations of gradients inside a publish cycle and across a publish, through the loop."""

from __future__ import annotations

import math

from asyncsim import schedules, tasks, updates
from asyncsim.base import uncertainty
from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, units_for
from asyncsim.trials.alignment._cycles import Cycles

_COPIES = 8
"""Equal coordinates: cheaper than as many replicates."""
_CYCLES, _WARM_UP, _LONGEST = 200, 40, 600
"""Cycles that are measured, cycles left out before them, and the most of these."""
_SPREAD = 0.11
"""Largest relative standard deviation of one replicate's quantity at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    length, skipped = point["updates"], _warm_up(point)
    cycles = Cycles(length, skipped * length)
    spec = descent(
        tasks.quadratic((point["curvature"],) * _COPIES, noise=point["noise"]),
        schedules.sawtooth(length),
        updates.sgd(point["step"]),
        updates=(skipped + _CYCLES) * length,
        replicates=units_for(_SPREAD, effect, 12),
        diagnostics=[cycles],
    )
    means = run(spec, seed, plant).accumulated
    values = {"amplification": uncertainty.between(means["energy"] / (_COPIES * point["noise"] ** 2))}
    names = {"across": "across", "inside": "inside", "lag1": "neighbors"}
    pairs = {name: means[key] for name, key in names.items() if key in means}
    return values | {name: uncertainty.ratio(products, means["energy"]) for name, products in pairs.items()}


def _warm_up(point: Point) -> int:
    """Cycles that are left out: nine times what the start of a cycle takes to fall by a factor of e, or more."""
    factor = abs(1.0 - point["updates"] * point["step"] * point["curvature"])
    return int(min(max(_WARM_UP, -9.0 / math.log(min(max(factor, 1e-9), 1.0 - 1e-9))), 1e9))


def _reach(point: Point) -> str | None:
    cycles = _warm_up(point)
    slow = f"a warm-up of at most {_LONGEST} cycles, not {cycles}; take a step nearer to half of the boundary"
    return slow if cycles > _LONGEST else None


_AT_FOUR = {"updates": 4, "curvature": 1.0, "noise": 1.0, "step": 0.3}
_SLOW = {**_AT_FOUR, "step": 0.2}
"""One cycle more of staleness would make larger steps diverge."""

trial = Trial(
    points=(_AT_FOUR, {"updates": 8, "curvature": 2.0, "noise": 0.5, "step": 0.09}),
    more=({"updates": 1, "curvature": 1.0, "noise": 1.0, "step": 0.7}, {**_AT_FOUR, "updates": 2, "step": 0.6}),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _SLOW),
        "published an update late": Defect(replaced(system=schedules.sawtooth(5)), _AT_FOUR),
        "momentum inserted": Defect(momentum_inserted, _AT_FOUR),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
