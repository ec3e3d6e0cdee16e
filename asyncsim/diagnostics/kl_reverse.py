"""Mean divergence of current from behavior policy per sequence, estimated on the batch.

KL(pi || mu) = E_mu W_i log W_i with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, in nats per sequence; the other
direction of `kl`. Unbiased on full support, and negative in batches that miss the heavy ratios. Blind to a tail that
the batch has not drawn. Source: textbook.
"""

from __future__ import annotations

import math

from torch import Tensor

from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step import Step


def _weighted(step: Step) -> Tensor:
    log_weight = step.sequence_log_ratio.double()
    # A weight of 0 contributes 0: W log W vanishes with W, while 0 times -inf is NaN.
    return step.mean((log_weight.exp() * log_weight).where(log_weight != -math.inf, log_weight.new_zeros(())))


kl_reverse = Metric("kl_reverse", _weighted, outputs=("log_prob",), doc=__doc__)
