"""Hill estimate of the tail exponent of the step's sequence ratios; NaN for counts and populations.

1/alpha = mean of log W_i over the m largest minus the log of the (m+1)-th, m = min(n/5, 3 sqrt n): shape `[R]`, a pure
number; NaN below 10 samples too. Variances are finite above 2, means above 1. Blind to whether there is a tail: bounded
ratios (softmax bandits) have none, and it still reads a number. Source: Hill 1975; m as in 1507.02646.
"""

from __future__ import annotations

import math

from torch import Tensor, full_like

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step import Step


def _tail_index(step: Step) -> Tensor:
    found = ratios.tail_index(step.sequence_log_ratio, step.step_mass)
    # Order statistics need single samples; cells of counts and enumeration are none.
    single = step.batch.size == step.batch.reward.shape[2] and step.batch.mass.shape[0] == 1
    return found if single else full_like(found, math.nan)


tail_index = Metric("tail_index", _tail_index, outputs=("log_prob",), doc=__doc__)
