"""Moments and effective sample size of the ratios of a chain of bits, sampled through the loop."""

from __future__ import annotations

import math

from asyncsim.base.records import Estimate, Point
from asyncsim.trials._chains import AFFINITY, Chain, OneNumber, ess_allowance, ess_beyond, replicates_for, too_many
from asyncsim.trials._plants import ShortProduct, Tempered, with_policy
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.trials.ratio._displaced import mean_of

_EFFECT, _COMPARISONS = 0.02, 12
_ROUNDING = 1e-10


def _spread(chain: Chain) -> float:
    """Relative standard deviation of one squared weight."""
    return math.sqrt(max(chain.moment(4.0) / chain.moment(2.0) ** 2 - 1.0, 1e-6))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    chain = Chain(point)
    metrics = ["ess", "chi_square", AFFINITY]
    trace = chain.run(metrics, replicates_for(_spread(chain), effect, _COMPARISONS), seed, plant)
    ess, second = mean_of(trace, "ess"), mean_of(trace, "chi_square")
    moments = [chain.moment(p) for p in (2.0, 3.0, 4.0)]
    return {
        "ess": ess._replace(tolerance=ess_allowance(*moments) * ess.value),
        "second_moment": second._replace(value=1.0 + second.value),
        "affinity": mean_of(trace, "affinity", _ROUNDING),
    }


def _reach(point: Point) -> str | None:
    chain = Chain(point)
    return ess_beyond(chain.moment(2.0)) or too_many(_spread(chain), _EFFECT, _COMPARISONS)


_SHORT = {"horizon": 24, "behavior_margins": (0.6, 1.4), "current_margins": (0.9, 1.6)}

trial = Trial(
    claim="ratio/chain-moments",
    points=(_SHORT, {"horizon": 64, "behavior_margins": (-0.5, 0.5), "current_margins": (-0.3, 0.4)}),
    more=({"horizon": 200, "behavior_margins": (1.0, 0.0), "current_margins": (1.1, 0.05)},),
    measure=_measure,
    defects={
        "last token left out": Defect(with_policy(ShortProduct), {**_SHORT, "current_margins": (0.6, 2.4)}),
        "one number for all bits": Defect(with_policy(OneNumber), _SHORT),
        "scored at another temperature": Defect(with_policy(Tempered), _SHORT),
    },
    effect=_EFFECT,
    reach=_reach,
    through="loop",
    elsewhere=({"horizon": 1}, {"current_margins": (0.6, 1.4)}),
    refused=({"current_margins": (2.5, 3.0)},),
)
