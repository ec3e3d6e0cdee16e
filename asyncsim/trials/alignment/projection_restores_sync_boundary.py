"""One mode far from its minimum under stale gradients and projection: its boundary, flips and slow return."""

from __future__ import annotations

import math

import numpy as np

from asyncsim import updates
from asyncsim.base.uncertainty import between
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for, within
from asyncsim.trials.alignment._projection import changed, far_away, largest_step
from asyncsim.updates.align import Align, align

_FALLING = 1000
_SPREAD = 2.0
"""Standard deviation of one replicate's fall over its mean, times root of updates and other coordinates (measured)."""


def _spec(point: Point, step: object, distance: float, updates_: int, replicates: int, every: int = 1) -> Spec:
    links = (align(low=0.0, high=1.0, reference=point["reference"]), updates.sgd(step))
    return far_away(
        point["curvature"], point["noise"], point["others"], distance, links, point["staleness"], updates_,
        replicates, every,
    )  # fmt: skip


def _boundary(point: Point, seed: int, plant: Plant) -> Estimate:
    def build(steps: tuple[float, ...], count: int) -> Spec:
        return plant(_spec(point, steps, 1e6, count, len(steps)))

    tau = point["staleness"]
    # Against the applied direction what must be found lies above 1 / (tau + 1): pi/2 over tau + 1 for large tau.
    reach = (1.2, 3.2) if point["reference"] == "raw" else (0.8 / (tau + 1), 6.0 / (tau + 1))
    low, high = largest_step(build, reach[0] / point["curvature"], reach[1] / point["curvature"], tau, seed)
    middle = math.sqrt(low * high)
    return Estimate(middle, tolerance=max(0.005 * middle, high - low), samples=64)


def _factor(point: Point, seed: int, plant: Plant) -> Estimate:
    """Per tau + 1 updates, over as many of them as leave the mode far above the noise."""
    a, period = point["step"] * point["curvature"], point["staleness"] + 1
    flips = 1 if a < 1.0 else max(1, min(6, int(math.log(1e2) / max(1e-9, -math.log(min(1.0, abs(1.0 - a)))))))
    trace = run(_spec(point, point["step"], 1e6, flips * period, 8), seed, plant)
    factor = between(np.abs(trace.parameters[:, 0] / trace["along"][0]) ** (1.0 / flips))
    return factor._replace(tolerance=1e-3 * factor.value)


def _fall(point: Point, effect: float, seed: int, plant: Plant) -> Estimate:
    spread = _SPREAD / math.sqrt(point["others"] * _FALLING)
    replicates = max(8, units_for(spread, 0.8 * effect, 8))
    distance = 300.0 / (1.0 - point["step"] * point["curvature"])
    # From where no stale gradient is older than the flip.
    begin = 2 * (point["staleness"] + 1)
    count = begin * (1 + math.ceil(_FALLING / begin))
    spec = _spec(point, point["step"], distance, count, replicates, begin)
    trace = run(spec, seed, plant)
    fall = between((trace["along"][1] ** 2 - trace.parameters[:, 0] ** 2) / (count - begin))
    return fall._replace(tolerance=1e-3 * abs(fall.value))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    estimates, share = {"step": _boundary(point, seed, plant)}, point["step"] * point["curvature"]
    if point["reference"] == "raw":
        estimates["factor"] = _factor(point, seed, plant)
        if share < 1.0:
            estimates["fall"] = _fall(point, effect, seed, plant)
    return estimates


_OVER = {"staleness": 4, "curvature": 1.0, "noise": 1.0, "others": 20, "step": 1.6, "reference": "raw"}
_UNDER = {**_OVER, "step": 0.7}
_APPLIED = {**_OVER, "reference": "applied"}

trial = Trial(
    points=(_OVER, _UNDER, {**_OVER, "staleness": 1, "curvature": 2.0, "step": 1.1}, _APPLIED),
    more=(
        {**_APPLIED, "staleness": 7, "curvature": 0.5},
        {**_UNDER, "staleness": 8, "others": 5, "noise": 0.5},
        {**_OVER, "staleness": 16, "step": 1.9},
    ),
    measure=_measure,
    defects={
        "reference applied instead of raw": Defect(changed(Align, reference="applied"), _OVER),
        "reference raw instead of applied": Defect(changed(Align, reference="raw"), _APPLIED),
        "half of the component removed": Defect(changed(Align, strength=0.5), _UNDER),
        "projection at any cosine": Defect(changed(Align, low=-1.0), _OVER),
        "off-by-one version": Defect(off_by_one_version, _OVER),
    },
    effect=0.05,
    reach=within(staleness=32),
    through="loop",
)
