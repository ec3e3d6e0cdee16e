"""Share of trajectories whose tokens come from more than one version.

share = E_i [max_t v_it > min_t v_it] over the generated tokens of each sample, by mass: shape `[R]`, a pure number in
[0, 1], NaN where a version is unknown. Blind to how many versions a trajectory has seen. Source: this package.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asyncsim.diagnostics._ages import ages, over_samples
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step import Step


def _mixed(step: Step) -> Tensor:
    found = ages(step)
    span = found.oldest - found.newest
    return over_samples(step, torch.where(torch.isnan(span), span, (span > 0).double()))


mixed_versions = Metric("mixed_versions", _mixed, doc=__doc__)
