"""Mean squared token log ratio.

M2 = E l^2 with l_it = log pi/mu, over the tokens of the step by mass: shape `[R]`, in nats squared; delta^2 + delta^4/4
for normal policies delta standard deviations apart. Blind to signs, and to products along a sequence. Source:
2510.01161, over all tokens.
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import token_share

m2_all = Metric(
    "m2_all",
    lambda step: (token_share(step) * step.log_ratio**2).sum((1, 2, 3)),
    outputs=("log_prob",),
    doc=__doc__,
)
