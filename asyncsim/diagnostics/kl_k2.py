"""Mean divergence of behavior from current policy per sequence, k2 estimate on the batch.

KL(mu || pi) ~ E (log W_i)^2 / 2 with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, in nats squared per sequence,
never negative; biased, right to second order in the drift. Blind to the sign of log ratios. Source: textbook
(Schulman's k2). Equation: k2 = (log W)^2 / 2.
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

kl_k2 = Metric(
    "kl_k2", lambda step: step.mean(0.5 * step.sequence_log_ratio**2), outputs=("log_prob",), doc=__doc__
)
