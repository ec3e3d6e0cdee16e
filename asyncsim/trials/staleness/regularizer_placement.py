"""Largest stable learning rate of a stale softmax bandit by where its KL penalty is evaluated, through the loop."""

from __future__ import annotations

from asyncsim import methods, penalties, schedules
from asyncsim.methods._weights import Ratio
from asyncsim.trials._plants import off_by_one_version, with_method
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.staleness import _soft


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    beta, (place, _, weighted) = point["kl"], point["placement"].partition("_")
    method = methods.full_is() if weighted else methods.reinforce()
    task = _soft.bandit(point, "current" if place == "current" else "behavior")
    start, tau = _soft.optimum(task), point["staleness"]
    if place == "loss":
        task, method = _soft.bandit(point, kl=0.0), method.replace(penalties=(penalties.exact(beta),))
    return _soft.boundary(task, schedules.fixed(tau), method, start, beta, tau, seed, plant)


def _point(placement: str, staleness: int, kl: float = 0.4) -> Point:
    point = {"rewards": (1.0, 0.0), "reference_logits": (0.5, 0.0), "kl": kl}
    return {**point, "staleness": staleness, "placement": placement}


trial = Trial(
    points=(_point("behavior_weighted", 2), _point("current", 2), _point("loss", 2), _point("loss", 1, 0.8)),
    more=(_point("loss", 8), _point("behavior", 4), _point("current_weighted", 4)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _point("loss", 2)),
        "penalty at current log-probs": Defect(_soft.penalty_at("current"), _point("behavior_weighted", 2)),
        "penalty at behavior log-probs": Defect(_soft.penalty_at("behavior"), _point("current", 2)),
        "stale rewards weighted by the ratio": Defect(with_method(weight=Ratio("sequence")), _point("loss", 2)),
    },
    effect=0.02,
    reach=_soft.reach,
    through="loop",
)
