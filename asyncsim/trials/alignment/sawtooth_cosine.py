"""Correlations of gradients inside a publish cycle and across a publish, through the loop."""

from __future__ import annotations

from asyncsim import schedules, tasks, updates
from asyncsim.base import uncertainty
from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, units_for
from asyncsim.trials.alignment._cycles import Cycles

_COPIES = 8
"""Equal coordinates: cheaper than as many replicates."""
_CYCLES = 200
_WARM_UP = 40
"""Cycles that are measured, and cycles left out before them."""
_SPREAD = 0.11
"""Largest relative standard deviation of one replicate's quantity at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    length = point["updates"]
    cycles = Cycles(length, _WARM_UP * length)
    spec = descent(
        tasks.quadratic((point["curvature"],) * _COPIES, noise=point["noise"]),
        schedules.sawtooth(length),
        updates.sgd(point["step"]),
        updates=(_WARM_UP + _CYCLES) * length,
        replicates=units_for(_SPREAD, effect, 12),
        diagnostics=[cycles],
    )
    means = run(spec, seed, plant).accumulated
    values = {"amplification": uncertainty.between(means["energy"] / (_COPIES * point["noise"] ** 2))}
    names = {"across": "across", "inside": "inside", "lag1": "neighbors"}
    pairs = {name: means[key] for name, key in names.items() if key in means}
    return values | {name: uncertainty.ratio(products, means["energy"]) for name, products in pairs.items()}


def _reach(point: Point) -> str | None:
    factor = 1.0 - point["updates"] * point["step"] * point["curvature"]
    if abs(factor) > 0.8:
        return "step * curvature * updates in [0.2, 1.8]: beyond, cycle starts forget too slowly for a run of 240"
    return None


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
    elsewhere=({"updates": 6, "step": 0.2}, {"updates": 1, "step": 1.0, "curvature": 0.9}),
    refused=({"step": 0.49},),
)
