"""Boundary of a far mode under partial projection, and the share of updates that skipping alone leaves out."""

from __future__ import annotations

import math

import numpy as np

from asyncsim import updates
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._runs import run, share_of
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.alignment._projection import changed, far_away, largest_step
from asyncsim.updates.align import Align, align

_UPDATES = 240
_CROSSING = 1.5
"""Full gradients at changes of sign move the boundary by less than this times (strength/staleness)^2 (iterated)."""

_SPREAD = 0.6
"""Relative standard deviation of a replicate's share times root of updates, where most are skipped (measured)."""


def _boundary(point: Point, seed: int, plant: Plant) -> Estimate:
    def build(steps: tuple[float, ...], count: int) -> Spec:
        links = (align(low=0.0, high=1.0, strength=point["strength"]), updates.sgd(steps))
        size = (point["curvature"], 1.0, 8, 1e6, links, point["staleness"], count, len(steps))
        return plant(far_away(*size))

    # The boundary is near pi/2 over staleness + 1/2.
    middle = 1.5 / ((point["staleness"] + 0.5) * point["curvature"] * (1.0 - point["strength"]))
    low, high = largest_step(build, 0.5 * middle, 2.0 * middle, point["staleness"], seed)
    found = math.sqrt(low * high)
    moved = _CROSSING * (point["strength"] / point["staleness"]) ** 2
    return Estimate(found, tolerance=moved * found + high - low, samples=64)


def _skipped(point: Point, effect: float, seed: int, plant: Plant) -> Estimate:
    """At learning rate 0; the first update has none before it."""
    replicates = max(16, units_for(_SPREAD / math.sqrt(_UPDATES), effect, 4))
    links = (align(low=point["high"], high=point["high"]), updates.sgd(0.0))
    distance = point["signal"] / math.sqrt(point["others"])
    spec = far_away(1.0, 1.0, point["others"], distance, links, 0, _UPDATES + 1, replicates)
    return share_of(np.asarray(run(spec, seed, plant)["align_skipped"])[1:])


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    return {"step": _boundary(point, seed, plant), "skipped": _skipped(point, effect, seed, plant)}


def _reach(point: Point) -> str | None:
    most = min(0.5, point["staleness"] / 15)
    if point["staleness"] < 6 or point["staleness"] > 24 or point["strength"] > most:
        return (
            f"staleness in [6, 24] and strength <= {most:.3g}; nearer to the limit of the boundary, or too long a run"
        )
    threshold = math.sqrt(point["others"] * point["high"] / (1.0 - point["high"]))
    if point["signal"] < threshold or point["others"] > 400:
        return f"signal at least {threshold:.3g}, others at most 400; skipping is too rare, or vectors too long"
    return None


_EIGHT = {"staleness": 8, "curvature": 1.0, "strength": 0.3, "others": 24, "signal": 4.5, "high": 0.3}

trial = Trial(
    points=(
        _EIGHT,
        {**_EIGHT, "staleness": 6, "curvature": 2.0, "strength": 0.25, "others": 40, "signal": 10.0, "high": 0.6},
    ),
    more=({**_EIGHT, "staleness": 16, "strength": 0.4, "signal": 6.0, "high": 0.5},),
    measure=_measure,
    defects={
        "strength forgotten": Defect(changed(Align, strength=1.0), _EIGHT),
        "nothing removed": Defect(changed(Align, strength=0.0), _EIGHT),
        "off-by-one version": Defect(off_by_one_version, _EIGHT),
        "skipped only at a higher cosine": Defect(changed(Align, high=1.0), _EIGHT),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
