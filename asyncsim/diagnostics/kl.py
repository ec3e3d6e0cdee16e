"""Mean divergence of behavior from current policy per sequence, k3 estimate on the batch.

KL(mu || pi) = E (W_i - 1 - log W_i) with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, in nats per sequence, never
negative. Assumes E W = 1 and is off by E W - 1 where it is not; blind to whether that is so (`mean_weight` sees it),
and one heavy ratio can be all of it. Source: textbook (Schulman's k3).
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

kl = Metric(
    "kl",
    lambda step: step.mean(step.sequence_log_ratio.expm1() - step.sequence_log_ratio),
    outputs=("log_prob",),
    default=True,
    doc=__doc__,
)
