"""Largest stable learning rate of stale gradient descent with momentum, on noiseless quadratics through the loop."""

from __future__ import annotations

from asyncsim import schedules, updates
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._threshold import marginal_step, noiseless_descent
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.updates._link import Chain, chain


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    tau, beta, scale = point["staleness"], point["momentum"], 1.0 / max(point["curvatures"])
    descent = noiseless_descent(point["curvatures"], schedules.fixed(tau))

    def build(steps: tuple[float, ...], count: int) -> Spec:
        link = updates.momentum(beta)
        return plant(descent(steps, count).replace(update=chain(link, updates.sgd(steps))))

    low = 0.4 * scale * (1.0 - beta) / (1 + tau)
    return {"step": marginal_step(build, low, 4.5 * scale, tau + 3, seed, modes=len(point["curvatures"]))}


def _dampened(spec: Spec) -> Spec:
    """The gradient enters the velocity with a factor 1 - beta."""
    link, *rest = spec.update.links
    return spec.replace(update=Chain((link, updates.scale(1.0 - link.beta), *rest)))  # type: ignore[attr-defined]


def _point(staleness: int, momentum: float) -> Point:
    return {"staleness": staleness, "momentum": momentum, "curvatures": (1.0, 0.25)}


def _reach(point: Point) -> str | None:
    if point["staleness"] + point["momentum"] / (1.0 - point["momentum"]) > 40.0:
        return "staleness + momentum/(1 - momentum) of at most 40; lower either, runs would be too long"
    return None


trial = Trial(
    points=tuple(_point(*each) for each in ((0, 0.5), (1, 0.5), (1, 0.9), (4, 0.5))),
    more=(_point(4, 0.9), _point(0, 0.9), _point(8, 0.8), _point(2, 0.95)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _point(4, 0.5)),
        "factor 1 - beta on the gradient": Defect(_dampened, _point(1, 0.5)),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
