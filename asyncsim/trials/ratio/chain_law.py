"""Law of the log ratio of a chain of bits, sampled through the loop."""

from __future__ import annotations

from asyncsim.trials._chains import SAMPLES, Chain, OneNumber, replicates_for
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._runs import below, mean_of, share_of, variance_of
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_SPREAD = 4.5
"""Largest relative standard deviation of one sample that is asked for: a cell of 5 percent, or a mean of 0.22 sd."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    cells = [below(number, level) for number, level in enumerate(point["levels"])]
    metrics = ["log_ratio_mean", "log_ratio_variance", *cells]
    trace = Chain(point).run(metrics, replicates_for(_SPREAD, effect, 2 + len(cells)), seed, plant)
    return {
        "mean_log": mean_of(trace, "log_ratio_mean"),
        "var_log": variance_of(trace, SAMPLES),
        **{cell.name: share_of(trace[cell.name][1:], SAMPLES) for cell in cells},
    }


_POINT = {"horizon": 24, "behavior_margins": (0.6, 1.4), "current_margins": (0.9, 1.6), "levels": (-0.9, -0.1, 0.4)}

trial = Trial(
    points=(_POINT,),
    more=({**_POINT, "horizon": 18, "current_margins": (0.2, 1.8)},),
    measure=_measure,
    defects={
        "one number for all bits": Defect(with_policy(OneNumber), _POINT),
        "scored at another temperature": Defect(with_policy(Tempered), _POINT),
    },
    effect=0.04,
    through="loop",
)
