"""Second moment of the token ratios minus one.

chi^2 = E r^2 - 1 with r_it = pi/mu untruncated, over the tokens of the step by mass: shape `[R]`, a pure number; chi^2
of pi from mu per token where E r = 1. Blind to products along a sequence: over T independent tokens `chi_square` is
(1 + chi^2)^T - 1. Source: textbook.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import ratios_of

chi_square_token = Metric(
    "chi_square_token", lambda step: ratios.chi_square(*ratios_of(step, "token")), outputs=("log_prob",), doc=__doc__
)
