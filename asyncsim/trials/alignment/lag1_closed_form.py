"""Variance amplification and the whole autocorrelation of stale gradients, through the loop."""

from __future__ import annotations

from asyncsim.base import uncertainty
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.alignment._linear import linear_reach, products

_UPDATES = 800
_SPREAD = 0.25
"""Largest relative standard deviation of one replicate's quantity at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    tau = point["staleness"]
    spread = _SPREAD * (1.8 if tau > 4 else 1.0)
    sums = products(point, (point["curvature"],), _UPDATES, spread, effect, 8, seed, plant)
    lags = {f"corr[{k}]": uncertainty.ratio(sums[k], sums[0]) for k in range(1, max(1, tau) + 1)}
    return {"amplification": uncertainty.between(sums[0] / point["noise"] ** 2)} | lags


_AT_FOUR = {"staleness": 4, "curvature": 1.0, "noise": 1.0, "step": 0.27}

trial = Trial(
    points=({"staleness": 1, "curvature": 1.0, "noise": 1.0, "step": 0.7}, _AT_FOUR),
    more=(
        {"staleness": 0, "curvature": 2.0, "noise": 0.5, "step": 0.5},
        {"staleness": 8, "curvature": 1.0, "noise": 1.0, "step": 0.15},
    ),
    measure=_measure,
    defects={"off-by-one version": Defect(off_by_one_version, _AT_FOUR)},
    effect=0.02,
    reach=lambda p: linear_reach((p["curvature"],), p["staleness"], p["step"]),
    through="loop",
)
