"""Largest stable learning rate of gradient descent at constant staleness, on noiseless quadratics through the loop."""

from __future__ import annotations

from asyncsim import schedules
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._threshold import marginal_step, noiseless_descent
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, within


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    tau, curvatures = point["staleness"], point["curvatures"]
    build, scale = noiseless_descent(curvatures, schedules.fixed(tau), plant), 1.0 / max(curvatures)
    return {"step": marginal_step(build, 0.4 * scale / (1 + tau), 4.0 * scale, tau + 2, seed, modes=len(curvatures))}


trial = Trial(
    points=tuple({"staleness": s, "curvatures": (1.0, 0.25)} for s in (0, 1, 2, 4, 8)),
    more=({"staleness": 16, "curvatures": (2.0,)}, {"staleness": 3, "curvatures": (0.5, 1.0, 3.0)}),
    measure=_measure,
    defects={"off-by-one version": Defect(off_by_one_version, {"staleness": 4, "curvatures": (1.0, 0.25)})},
    effect=0.02,
    reach=within(staleness=64),
    through="loop",
)
