"""Moments and effective sample size of the ratios of a chain of bits, sampled through the loop."""

from __future__ import annotations

from asyncsim.trials._chains import MOMENTS, Chain, OneNumber, moments, moments_beyond, replicates_for, spread_of_square
from asyncsim.trials._plants import ShortProduct, Tempered, with_policy
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_EFFECT, _COMPARISONS = 0.02, 12


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    chain = Chain(point)
    replicates = replicates_for(spread_of_square(chain.moment), effect, _COMPARISONS)
    return moments(chain.run(MOMENTS, replicates, seed, plant), chain.moment)


_SHORT = {"horizon": 24, "behavior_margins": (0.6, 1.4), "current_margins": (0.9, 1.6)}

trial = Trial(
    points=(_SHORT, {"horizon": 64, "behavior_margins": (-0.5, 0.5), "current_margins": (-0.3, 0.4)}),
    more=({"horizon": 200, "behavior_margins": (1.0, 0.0), "current_margins": (1.1, 0.05)},),
    measure=_measure,
    defects={
        "last token left out": Defect(with_policy(ShortProduct), {**_SHORT, "current_margins": (0.6, 2.4)}),
        "one number for all bits": Defect(with_policy(OneNumber), _SHORT),
        "scored at another temperature": Defect(with_policy(Tempered), _SHORT),
    },
    effect=_EFFECT,
    reach=lambda point: moments_beyond(Chain(point).moment),
    through="loop",
)
