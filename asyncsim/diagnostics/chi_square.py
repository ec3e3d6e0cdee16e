"""Second moment of the sequence ratios minus one.

chi^2 = E W^2 - 1 with W_i = pi(y_i) / mu(y_i) untruncated, over the step's samples by mass: shape `[R]`, a pure number;
chi^2 of pi from mu where E W = 1, and then ESS/N = 1 / (1 + chi^2). Blind to a tail that the batch has not drawn: where
the second moment is infinite it still reads a finite number. Source: textbook.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

chi_square = Metric(
    "chi_square",
    lambda step: ratios.chi_square(step.sequence_log_ratio, step.step_mass),
    outputs=("log_prob",),
    doc=__doc__,
)
