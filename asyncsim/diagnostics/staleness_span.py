"""Mean spread of staleness inside a trajectory, in versions.

s = E_i (max_t - min_t)(v_train - v_it) over the generated tokens of each sample, by mass: shape `[R]`, in versions, 0
where every trajectory has one version, NaN where one is unknown. Blind to how old the tokens are. Source: textbook.
"""

from __future__ import annotations

from torch import Tensor

from asyncsim.diagnostics._ages import ages, over_samples
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step import Step


def _span(step: Step) -> Tensor:
    found = ages(step)
    return over_samples(step, found.oldest - found.newest)


staleness_span = Metric("staleness_span", _span, doc=__doc__)
