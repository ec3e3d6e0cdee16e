"""Energy and autocorrelogram of gradients under a delay drawn anew for every update, through the loop."""

from __future__ import annotations

from asyncsim import diagnostics, schedules, tasks, updates
from asyncsim.base import uncertainty
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for

_UPDATES = 600
_COPIES = 8
"""Equal coordinates under one realization of delays: cheaper than as many realizations."""
_SPREAD = 0.11
"""Largest standard deviation of one replicate's quantity at the points below, relative to the norm (measured)."""


def _warm_up(point: Point) -> int:
    """Updates left out at the start."""
    return 80 * len(point["law"])


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    largest, after = len(point["law"]) - 1, _warm_up(point)
    spec = descent(
        tasks.quadratic((point["curvature"],) * _COPIES, noise=point["noise"]),
        schedules.random(point["law"]),
        updates.sgd(point["step"]),
        updates=_UPDATES + after,
        replicates=units_for(_SPREAD, effect, 12),
        diagnostics=[diagnostics.autocorrelogram(lags=largest + 1, after=after)],
    )
    trace = run(spec, seed, plant)
    products, unit = trace.accumulated["autocorrelogram"], trace.realization
    estimates = {"amplification": uncertainty.between(products[0] / (_COPIES * point["noise"] ** 2), unit, random=True)}
    lags = range(1, largest + 2)
    return estimates | {f"corr[{k}]": uncertainty.ratio(products[k], products[0], unit, random=True) for k in lags}


def _reach(point: Point) -> str | None:
    """Closer to the mean-square boundary the fourth moment, on which error bars rest, is infinite."""
    share = point["step"] * point["curvature"]
    if share > 2.0 / (len(point["law"]) + 1):
        return f"step * curvature at most {2.0 / (len(point['law']) + 1):.3g}; lower it, tails are heavier beyond"
    if share * _warm_up(point) < 10.0:
        return f"step * curvature at least {10.0 / _warm_up(point):.3g}; raise it, runs settle too slowly below"
    return None


_AT_FOUR = {"law": (0.2, 0.2, 0.2, 0.2, 0.2), "curvature": 1.0, "noise": 1.0, "step": 0.3}
_UNEVEN = {"law": (0.3, 0.0, 0.3, 0.4), "curvature": 2.0, "noise": 0.5, "step": 0.2}

trial = Trial(
    points=(_AT_FOUR, _UNEVEN),
    more=(
        {"law": (1.0,), "curvature": 1.0, "noise": 1.0, "step": 0.7},
        {"law": (0.1,) * 10, "curvature": 1.0, "noise": 1.0, "step": 0.15},
    ),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _AT_FOUR),
        "largest staleness throughout": Defect(
            lambda spec: spec.replace(system=schedules.random([*[0.0] * (len(spec.system.knobs["law"]) - 1), 1.0])),
            _AT_FOUR,
        ),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
