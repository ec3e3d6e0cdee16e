"""Share of ratios below a bound, measured before any truncation."""

from __future__ import annotations

from torch import Tensor

from asyncsim import checks, ratios
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import Bound, checked, named, ratios_of
from asyncsim.step import Step


def _below(step: Step, bound: float, level: str) -> Tensor:
    return ratios.beyond(*ratios_of(step, level), bound, "below")


def ratio_below(bound: float = 0.5, level: str = "sequence") -> Metric:
    """Share of untruncated ratios below a bound: share = E [w < bound], w = W_i or r_it = pi/mu, by mass.

    Arguments: `bound` > 0, a pure number; `level`, "sequence" or "token". Returns a metric of shape `[R]`, a pure
    number in [0, 1]. Raises `InputError` for a bound that is not positive and an unknown level. Blind to how far below
    it the ratios are. Source: textbook.

    >>> ratio_below(level="token").name
    'ratio_below_token'
    """
    limit = checks.real("bound", bound, "give a positive ratio", 0.0, open_low=True)
    name = named("ratio_below", bound=(limit, 0.5), level=(checked(level), "sequence"))
    return Metric(name, Bound(_below, (limit, level)), outputs=("log_prob",))
