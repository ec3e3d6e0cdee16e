"""Staleness of single tokens while their sample is generated, from the kernel's own account of tokens and versions."""

from __future__ import annotations

from asyncsim.base import laws
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.trials.systems._clocked import completions, crowded, per_sample, slow_installs
from asyncsim.trials.systems._kernel_defects import end_stamped_early
from asyncsim.trials.systems._windows import realizations_for

_COMPLETIONS = 8000
"""Samples of one realization."""
_SPREAD = {"exponential": 0.02, "gamma": 0.02}
_WIDE = 0.05
"""Largest relative standard deviation of one realization's quantity, by the law at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    law = laws.as_law("length", point["length"])
    realizations = realizations_for(_SPREAD.get(law.kind, _WIDE), effect, 0.0, 12)
    window = _COMPLETIONS * law.mean() / point["places"]
    runs = [completions(point, window, m, seed, plant) for m in range(realizations)]
    works = [s.work for s in runs]
    return {
        "sample_mean": per_sample([s.tokens for s in runs]),
        "token_mean": per_sample([s.tokens for s in runs], works),
        "sample_head": per_sample([s.head for s in runs]),
        "token_head": per_sample([s.head for s in runs], works),
    }


def _point(length: str, period: float, places: int) -> Point:
    return {"length": length, "period": period, "places": places, "groups_per_batch": 8}


_EXPONENTIAL = _point("exponential:1.0", 1.0, 32)


def _reach(point: Point) -> str | None:
    law = laws.as_law("length", point["length"])
    if law.kind == "lognormal" and law.parameters[1] > 1.0:
        return "a log-normal sigma of at most 1; the square of a longer tail takes more samples than a run has"
    if law.kind == "gamma" and law.parameters[1] < 0.25:
        return "a gamma shape of at least 0.25; the square of a longer tail takes more samples than a run has"
    return crowded(point)


trial = Trial(
    points=(_EXPONENTIAL, _point("gamma:1.0:4.0", 0.25, 64)),
    more=(_point("lognormal:1.0:0.8", 0.4, 64),),
    measure=_measure,
    defects={
        "all tokens stamped with the first version": Defect(replaced(mode="pin"), _EXPONENTIAL),
        "ends stamped a version early": Defect(end_stamped_early, _EXPONENTIAL),
        "the trainer waits for installs": Defect(slow_installs, _EXPONENTIAL),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
