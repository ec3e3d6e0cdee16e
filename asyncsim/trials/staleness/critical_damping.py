"""Where stale descent begins to oscillate, and how fast it decays there, on a noiseless quadratic through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import schedules
from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._runs import run
from asyncsim.trials._threshold import PROBE, crossing, noiseless_descent, roots
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    # Roots beyond the recursion's own would not be small beside those that decay.
    tau, order = point["staleness"], point["staleness"] + 1
    build = noiseless_descent((point["curvature"],), schedules.fixed(tau))

    def pairs(steps: np.ndarray) -> np.ndarray:
        """The two largest roots at each step, `[R, 2]`."""
        spec = build(tuple(steps), 4 * order).replace(diagnostics=[PROBE])
        series = run(spec, seed, plant)["probe"]
        return np.array([roots(column, order, 1e-12)[:2] for column in series.T])

    def oscillation(steps: np.ndarray) -> np.ndarray:
        """1 where the largest root is complex, else -1."""
        return np.where(np.abs(pairs(steps)[:, 0].imag) > 1e-7, 1.0, -1.0)

    step = crossing(oscillation, *(share / (tau + 1) / point["curvature"] for share in (0.05, 1.0)))
    radius = float(pairs(np.full(2, step.value))[0].mean().real)
    return {"step": step, "radius": Estimate(radius, tolerance=1e-4, samples=1)}


def _point(staleness: int) -> Point:
    return {"staleness": staleness, "curvature": 2.0}


trial = Trial(
    points=(_point(1), _point(2), _point(4)),
    more=(_point(3), _point(8)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _point(4)),
        "momentum inserted": Defect(momentum_inserted, _point(2)),
    },
    effect=0.02,
    reach=lambda point: None if point["staleness"] <= 8 else "staleness <= 8: so many roots are not told apart",
    through="loop",
    elsewhere=({"staleness": 3}, {"curvature": 0.2}),
    refused=({"staleness": 9},),
)
