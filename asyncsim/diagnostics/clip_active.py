"""Share of tokens whose gradient the method's weight stops although they have an advantage.

share = E [c_it = 0 and A_it != 0] over the tokens of the step by mass, c the score weight without factors and
penalties: shape `[R]`, a pure number in [0, 1]. Aware of signs: a ratio outside the band that is on its way back
counts as open. Blind to tokens without advantage, and to weights that are small but not 0. Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._applied import over_tokens, stopped
from asyncsim.diagnostics._diagnostic import Metric

clip_active = Metric("clip_active", lambda step: over_tokens(step, stopped(step)), outputs=("log_prob",), doc=__doc__)
