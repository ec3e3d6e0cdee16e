"""Mean divergence of behavior from current policy per sequence, k1 estimate on the batch.

KL(mu || pi) = E (-log W_i) with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, in nats per sequence, unbiased, and
negative in unlucky batches. Blind to spread: ratios far above and far below 1 cancel. Source: textbook (Schulman's k1).
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

kl_k1 = Metric("kl_k1", lambda step: -step.mean(step.sequence_log_ratio), outputs=("log_prob",), doc=__doc__)
