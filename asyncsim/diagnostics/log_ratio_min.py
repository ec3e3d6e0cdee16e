"""Smallest untruncated log ratio of the step."""

from __future__ import annotations

from torch import Tensor

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import Bound, checked, named, ratios_of
from asyncsim.step import Step


def _smallest(step: Step, level: str) -> Tensor:
    return ratios.quantile(*ratios_of(step, level), 0.0)


def log_ratio_min(level: str = "sequence") -> Metric:
    """Smallest log ratio: l = min over the step of log w, w = W_i or r_it = pi/mu untruncated, of what has mass.

    Arguments: `level`, "sequence" or "token". Returns a metric of shape `[R]`, in nats, infinite where a ratio is,
    NaN where one is NaN. Raises `InputError` for an unknown level. Blind to all ratios but one, and it grows with the
    number of samples: compare batches of one size. Source: textbook.

    >>> log_ratio_min("token").name
    'log_ratio_min_token'
    """
    name = named("log_ratio_min", level=(checked(level), "sequence"))
    return Metric(name, Bound(_smallest, (level,)), outputs=("log_prob",))
