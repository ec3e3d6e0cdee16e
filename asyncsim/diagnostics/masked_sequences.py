"""Share of samples of which masks leave no token.

share = E_i [m_it = 0 for every token t], m as in `masked_tokens`, over the samples that have tokens, by mass: shape
`[R]`, a pure number in [0, 1]. Blind to samples that lose all tokens but one. Source: textbook.
"""

from __future__ import annotations

from torch import Tensor

from asyncsim.diagnostics._ages import over_samples
from asyncsim.diagnostics._applied import masked
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step import Step


def _left_nothing(step: Step) -> Tensor:
    gone = masked(step) | (step.batch.mask == 0)
    return over_samples(step, gone.all(-1).double())


masked_sequences = Metric("masked_sequences", _left_nothing, outputs=("log_prob",), doc=__doc__)
