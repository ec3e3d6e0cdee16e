"""Mean square of an unstable stale mode under projection, through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import updates
from asyncsim.base.uncertainty import between
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.alignment._projection import changed, far_away
from asyncsim.updates.align import Align, align

_CYCLES, _WARM_UP = 12, 10
"""Cycles of about 4 staleness + 2 updates, measured and left out."""
_BIAS = 1.2
"""Relative error of finitely many coordinates, times their number (measured: 0.1 +- 0.1 percent of 800)."""
_OTHERS = 200
_SPREAD = 0.0145
"""Relative standard deviation of one replicate's mean square (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    bias = _BIAS / point["others"]
    replicates = max(8, units_for(_SPREAD, effect - 2.0 * bias, 4))
    cycle = 4 * point["staleness"] + 2
    links = (align(low=0.0, high=1.0, strength=point["strength"]), updates.sgd(point["step"]))
    spec = far_away(
        point["curvature"], point["noise"], point["others"], 0.8, links, point["staleness"],
        (_CYCLES + _WARM_UP) * cycle, replicates,
    )  # fmt: skip
    path = np.asarray(run(spec, seed, plant)["along"])[_WARM_UP * cycle :]
    # The period is not exactly that of the boundary: a plain mean would depend on where the last cycle is cut.
    at = (np.arange(len(path)) + 0.5) / len(path)
    window = np.exp(-1.0 / (at * (1.0 - at)))
    square = between(window @ path**2 / window.sum())
    return {"second_moment": square._replace(tolerance=bias * square.value)}


_FULL = {"staleness": 8, "curvature": 1.0, "noise": 1.0, "others": 800, "strength": 1.0, "step": 0.46}
_PARTIAL = {**_FULL, "curvature": 2.0, "noise": 0.5, "strength": 0.7, "step": 0.138}

trial = Trial(
    points=(_FULL, _PARTIAL),
    more=({**_FULL, "staleness": 16, "step": 0.14}, {**_FULL, "staleness": 5, "step": 0.45}),
    measure=_measure,
    defects={
        "reference applied instead of raw": Defect(changed(Align, reference="applied"), _FULL),
        "off-by-one version": Defect(off_by_one_version, _PARTIAL),
        "strength forgotten": Defect(changed(Align, strength=1.0), _PARTIAL),
    },
    effect=0.02,
    reach=lambda p: (
        None
        if p["others"] >= _OTHERS and p["staleness"] <= 40
        else f"others >= {_OTHERS} and staleness <= 40; fewer leave a bias, more staleness takes longer runs"
    ),
    through="loop",
)
