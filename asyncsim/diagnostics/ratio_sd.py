"""Standard deviation of the untruncated ratios of the step."""

from __future__ import annotations

from torch import Tensor

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import Bound, checked, named, ratios_of
from asyncsim.step import Step


def _deviation(step: Step, level: str) -> Tensor:
    return ratios.standard_deviation(*ratios_of(step, level))


def ratio_sd(level: str = "sequence") -> Metric:
    """Standard deviation of the untruncated ratios: sd = sqrt(E (w - E w)^2), w = W_i or r_it = pi/mu, by mass.

    The mean is `mean_weight` or `token_ratio_mean`; (sd / mean)^2 = 1/ESS - 1.

    Arguments: `level`, "sequence" or "token". Returns a metric of shape `[R]`, a pure number, infinite where it exceeds
    the largest float. Raises `InputError` for an unknown level. Blind to a tail that the batch has not drawn: where the
    second moment is infinite it still reads a finite number. Source: textbook.

    >>> ratio_sd("token").name
    'ratio_sd_token'
    """
    name = named("ratio_sd", level=(checked(level), "sequence"))
    return Metric(name, Bound(_deviation, (level,)), outputs=("log_prob",))
