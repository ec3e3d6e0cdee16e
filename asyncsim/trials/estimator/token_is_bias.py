"""Bias of token-level importance sampling, and its slope in the distance of the policies, through the oracle."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods
from asyncsim.learning import oracle
from asyncsim.methods._importance import PrefixRatio
from asyncsim.methods._weights import Ratio
from asyncsim.trials._plants import dropped_ratio, with_method
from asyncsim.trials._sequences import components, places, planted, sequence_point
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_NEAR = 2e-3
"""Share of the way at which slopes are taken, and twice that, on both sides: their error is of its fourth power."""
_CURVED = 1e-4
"""Allowance for that, relative."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    spec = planted(point, methods.full_is("token", advantages.none()), plant)
    current, behavior = places(point)

    def bias(share: float) -> np.ndarray:
        place = behavior + share * (current - behavior)
        truth = oracle.exact(spec.task, place, spec.policy)[1]
        return oracle.limit(spec.task, spec.method, place, behavior, spec.policy) - truth

    near, far = (bias(share) - bias(-share) for share in (_NEAR, 2.0 * _NEAR))
    slope = (8.0 * near - far) / (12.0 * _NEAR)
    size = float(np.linalg.norm(slope))
    first = {name: each._replace(tolerance=_CURVED * size) for name, each in components("first", slope).items()}
    return components("bias", bias(1.0)) | first


_MARKOV = sequence_point("markov", 4, 4, success=0.5)

trial = Trial(
    points=(sequence_point("iid", 5, 1, success=0.6), sequence_point("position", 3, 3, success=1.0), _MARKOV),
    more=(sequence_point("markov", 6, 4, success=None),),
    measure=_measure,
    defects={
        "sequence ratio labelled token": Defect(with_method(weight=Ratio("sequence")), _MARKOV),
        "prefix ratio": Defect(with_method(weight=PrefixRatio()), _MARKOV),
        "dropped ratio": Defect(dropped_ratio, _MARKOV),
    },
    effect=0.02,
    through="oracle",
)
