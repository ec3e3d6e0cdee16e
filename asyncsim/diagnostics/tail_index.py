"""Hill estimate of the tail exponent of the step's sequence ratios; NaN for counts and populations."""

from __future__ import annotations

import math

from torch import Tensor, full_like

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric, Step, samples


def _tail_index(step: Step) -> Tensor:
    found = ratios.tail_index(step.signal.sequence_log_ratio)
    # Order statistics need single samples; cells of counts and enumeration are none.
    single = samples(step) == step.signal.sequence_log_ratio[0].numel() and step.signal.step_mass.shape[0] == 1
    return found if single else full_like(found, math.nan)


tail_index = Metric("tail_index", _tail_index, outputs=("log_prob",))
