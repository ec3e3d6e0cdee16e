"""Effective samples between places of the stale Gaussian bandit as far apart as its data is old, through the loop.

A run gives the places; fresh large batches between each pair give the ESS, as small groups would read it high.
"""

from __future__ import annotations

import math

import numpy as np

from asyncsim import methods, schedules, tasks
from asyncsim.base.uncertainty import between
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import Displace, Tempered, momentum_inserted, off_by_one_version, with_policy
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.staleness._gaussian import bandit, settled, warm_up
from asyncsim.updates._link import chain

_PAIRS, _SAMPLES = 6, 512
_BIAS = 1.5e-3
"""Allowance for the upward bias of a batch, relative; its leading term is below that at the points below."""
_PLACE = Metric("place", lambda step: step.parameters[:, 0].clone(), ())


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    # One ESS has a standard deviation of 0.21 of its mean at most at the points below (measured).
    tau, replicates = point["staleness"], units_for(0.21 / math.sqrt(_PAIRS), effect, 2)
    apart = 3 * (tau + 1)
    place = run(bandit(point, warm_up(point) + _PAIRS * apart, replicates, [_PLACE]), seed, plant)["place"]
    ends = [len(place) - 1 - k * apart for k in range(_PAIRS)]
    sizes = [_between(point, place[end - tau], place[end], seed + end, plant) for end in ends]
    ess = between(np.mean(sizes, axis=0))
    return {"ess": ess._replace(tolerance=_BIAS * ess.value)}


def _between(point: Point, behavior: np.ndarray, current: np.ndarray, seed: int, plant: Plant) -> np.ndarray:
    """ESS of a large batch drawn at one place and scored at the other, of every replicate."""
    spec = Spec(
        tasks.gaussian_bandit(point["curvature"], width=point["width"]),
        schedules.frozen(),
        methods.full_is(),
        chain(Displace(tuple((float(x),) for x in current - behavior))),
        samples_per_group=_SAMPLES,
        updates=2,
        replicates=len(current),
        initial=behavior[:, None],
        diagnostics=["ess"],
    )
    return np.asarray(run(spec, seed, plant)["ess"][1])


def _reach(point: Point) -> str | None:
    few = "24 samples or more; displacements of fewer are not normal"
    return settled(point) or (None if point["samples"] >= 24 else few)


_POINT = {"staleness": 2, "samples": 32, "curvature": 2.0, "width": 0.5, "step": 0.15}

trial = Trial(
    points=(_POINT,),
    more=({**_POINT, "staleness": 4, "step": 0.08, "samples": 24},),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _POINT),
        "momentum inserted": Defect(momentum_inserted, _POINT),
        "scored at another temperature": Defect(with_policy(Tempered), _POINT),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
