"""Share of tokens that masks take out of the loss.

share = E [m_it = 0] over the generated tokens of the step by mass, m = 0 where the method's weight is 0 for A = 1 and
for A = -1, or a factor is 0: shape `[R]`, a pure number in [0, 1], relative to the tokens generated. Blind to what
stops one sign of the advantage only (`clip_active`) and to advantages of 0. Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._applied import masked, over_tokens
from asyncsim.diagnostics._diagnostic import Metric

masked_tokens = Metric(
    "masked_tokens", lambda step: over_tokens(step, masked(step)), outputs=("log_prob",), doc=__doc__
)
