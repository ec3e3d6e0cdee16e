"""Share of samples that contribute nothing to the gradient.

share = E_i [a_it c_it = 0 for every token t] from the cotangents themselves, penalties included, by mass: shape `[R]`,
a pure number in [0, 1]. Blind to why: a clip, a mask, an advantage of 0, or no tokens. A step of which this is 1 has no
gradient and is no step. Source: this package.
"""

from __future__ import annotations

from torch import Tensor

from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step import Step


def _silent(step: Step) -> Tensor:
    cotangents = step.cotangents
    silent = (cotangents["log_prob"] == 0).expand(step.batch.mask.shape).all(-1)
    if "log_probs" in cotangents:
        silent = silent & (cotangents["log_probs"] == 0).all(-1).all(-1)
    return step.mean(silent.double())


zero_loss_sequences = Metric("zero_loss_sequences", _silent, outputs=("log_prob",), doc=__doc__)
