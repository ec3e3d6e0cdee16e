"""Effective sample size of the token ratios over the number of tokens, whole step.

ESS/n = (sum_it r_it)^2 / (n sum_it r_it^2) with r_it = pi/mu untruncated over the n tokens of the step: shape `[R]`, a
pure number in [1/n, 1], 1 iff all token ratios are equal. Blind to how ratios multiply along a sequence: it hardly
moves where `ess` has collapsed. Source: as in PipelineRL (2509.19128), on untruncated ratios.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import ratios_of

ess_token = Metric("ess_token", lambda step: ratios.ess(*ratios_of(step, "token")), outputs=("log_prob",), doc=__doc__)
