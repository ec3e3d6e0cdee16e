"""Share of tokens that a dual clip stops: ratios above its bound with a negative advantage.

share = E [rho_it > dual and A_it < 0] over the tokens of the step by mass, rho the token ratio to the method's anchor:
shape `[R]`, a pure number in [0, 1], NaN for a method without a dual clip. Blind to the band of the plain clip
(`clip_active` has both). Source: 1912.09729.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from asyncsim.diagnostics._applied import advantages, over_tokens
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.knobs import per_sample
from asyncsim.methods._weights import Clip
from asyncsim.step import Step


def _dual(step: Step) -> Tensor:
    weight = step.method.weight
    dual = getattr(weight, "dual", None)
    if not isinstance(weight, Clip) or dual is None:
        return torch.full(step.batch.reward.shape[:1], math.nan, dtype=torch.float64)
    return over_tokens(step, (step.anchored.exp() > per_sample(dual)) & (advantages(step) < 0))


clip_dual = Metric("clip_dual", _dual, outputs=("log_prob",), doc=__doc__)
