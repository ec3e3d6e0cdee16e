"""Effective samples of batches whose ratios have a Pareto tail without a variance, through the loop."""

from __future__ import annotations

import math

from asyncsim.base.uncertainty import between
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.ess._statistic import clamped, pooled, with_ess
from asyncsim.trials.ratio._cooled import colder, cooled

_BATCHES, _MOST = 32, 16_000_000


def _replicates(samples: int, effect: float) -> int:
    """From the relative deviation of 1/ESS of a batch, which grows with the logarithm of its size (measured)."""
    return max(16, units_for(0.3 * math.log(samples) / math.sqrt(_BATCHES), effect, 4))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    read, most = {}, _MOST // (_BATCHES * sum(point["samples"]))
    for number, samples in enumerate(point["samples"]):
        size = samples, _BATCHES, max(16, min(_replicates(samples, effect), most))
        spec = cooled(point["temperature"], 2, ["ess"], size)
        share = run(spec, seed + 1000 * number, plant)["ess"][1:]
        read[f"inverse[{samples}]"] = between((1.0 / (samples * share)).mean(axis=0))
        read[f"ess[{samples}]"] = between(share.mean(axis=0))
    return read


def _reach(point: Point) -> str | None:
    samples = sum(point["samples"])
    return None if samples <= 2000 else f"at most 2000 samples in all batches, not {samples}; take smaller ones"


_POINT = {"temperature": 0.4, "samples": (4, 16)}
_SMALL = {"temperature": 0.4, "samples": (4, 6)}

trial = Trial(
    points=(_POINT,),
    more=({"temperature": 0.2, "samples": (4, 32)},),
    measure=_measure,
    defects={
        "clamped weights": Defect(with_ess(clamped), _SMALL),
        "sums averaged over batches before they are divided": Defect(with_ess(pooled), _SMALL),
        "sampler 5 percent colder than it says": Defect(colder(0.95), _SMALL),
        "scored at another temperature": Defect(with_policy(Tempered), _SMALL),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
