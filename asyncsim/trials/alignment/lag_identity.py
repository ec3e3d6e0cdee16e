"""Gradient autocorrelation at the lags that the staleness names, ratio of averages, through the loop."""

from __future__ import annotations

from asyncsim.base import uncertainty
from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.alignment._linear import linear_reach, products

_UPDATES = 600
_SPREAD = 0.3
"""Standard deviation of one replicate's correlation, relative to the predicted one, at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    tau = point["staleness"]
    spread = _SPREAD * (2 if tau > 4 else 1)
    sums = products(point, point["curvatures"], _UPDATES, spread, effect, 6, seed, plant)
    lags = [tau + 1] if tau == 0 else [tau, tau + 1]
    return {f"corr[{k}]": uncertainty.ratio(sums[k], sums[0]) for k in lags}


_AT_FOUR = {"staleness": 4, "curvatures": (1.0, 0.5), "noise": 1.0, "step": 0.28}

trial = Trial(
    points=({"staleness": 0, "curvatures": (1.0, 0.5), "noise": 1.0, "step": 0.6}, _AT_FOUR),
    more=({"staleness": 8, "curvatures": (1.0,), "noise": 0.5, "step": 0.15},),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _AT_FOUR),
        "momentum inserted": Defect(momentum_inserted, _AT_FOUR),
    },
    effect=0.02,
    reach=lambda p: linear_reach(p["curvatures"], p["staleness"], p["step"]),
    through="loop",
)
