"""Gradient of a chain's success probability from stale samples, weighted by the sequence ratio, through the loop."""

from __future__ import annotations

import math

import numpy as np

from asyncsim import advantages, methods
from asyncsim.base.uncertainty import between
from asyncsim.trials._chains import MOST, Chain, replicates_for
from asyncsim.trials._plants import dropped_ratio
from asyncsim.trials._runs import MeanGradient
from asyncsim.trials._sequences import token_level
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, too_rare

_EFFECT = 0.02


def _spread(chain: Chain) -> float:
    """Standard deviation of one sample's component over the gradient's norm: W (r - 1/2) (1[right] - p), nearly.

    The factor is for what the three have in common (measured at the points below: at most 1.1).
    """
    norm = float(np.linalg.norm(chain.exact(chain.current)[1][::2]))
    return 1.2 * 0.25 * math.sqrt(chain.moment(2.0)) / norm if norm > 0.0 else math.inf


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    chain, bits = Chain(point, point["fraction"]), point["horizon"]
    method = methods.full_is(advantage=advantages.offset(0.5))
    replicates = replicates_for(_spread(chain), effect, 2 * bits)
    trace = chain.run([MeanGradient()], replicates, seed, plant, method)
    # The logit of the wrong bit has the opposite gradient; the margin is the right one's.
    gradient = trace.accumulated["gradient"][::2]
    return {"total": between(gradient.sum(axis=0)), **{f"grad[{t}]": between(gradient[t]) for t in range(bits)}}


_SHORT = {"horizon": 24, "fraction": 0.83, "behavior_margins": (0.7, 1.4), "current_margins": (1.0, 1.7)}

trial = Trial(
    points=(_SHORT,),
    more=({"horizon": 48, "fraction": 0.7, "behavior_margins": (1.2, 0.4), "current_margins": (1.0, 0.5)},),
    measure=_measure,
    defects={
        "dropped ratio": Defect(dropped_ratio, _SHORT),
        "token ratio in place of the sequence's": Defect(token_level(), _SHORT),
    },
    effect=_EFFECT,
    reach=lambda point: too_rare(_spread(Chain(point, point["fraction"])), MOST),
    through="loop",
)
