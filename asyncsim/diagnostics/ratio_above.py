"""Share of ratios above a bound, measured before any truncation."""

from __future__ import annotations

from torch import Tensor

from asyncsim import checks, ratios
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import Bound, checked, named, ratios_of
from asyncsim.step import Step


def _above(step: Step, bound: float, level: str) -> Tensor:
    return ratios.beyond(*ratios_of(step, level), bound, "above")


def ratio_above(bound: float = 2.0, level: str = "sequence") -> Metric:
    """Share of untruncated ratios above a bound: share = E [w > bound], w = W_i or r_it = pi/mu, by mass.

    What a cap of this size truncates. A share of ratios that were clamped first is 0 whatever happens.

    Arguments: `bound` > 0, a pure number; `level`, "sequence" or "token". Returns a metric of shape `[R]`, a pure
    number in [0, 1]. Raises `InputError` for a bound that is not positive and an unknown level. Blind to how far above
    it the ratios are. Source: textbook.

    >>> ratio_above(8.0).name
    'ratio_above_8.0'
    """
    limit = checks.real("bound", bound, "give a positive ratio", 0.0, open_low=True)
    name = named("ratio_above", bound=(limit, 2.0), level=(checked(level), "sequence"))
    return Metric(name, Bound(_above, (limit, level)), outputs=("log_prob",))
