"""Claims: one class per file, `claims/<family>/<claim>.py`, found by reading folder names.

A class has two sides. The prediction computes in float64 with NumPy and SciPy, by the formulas of this folder's
`_*.py`; the measurement runs the product, with what `lab/` has. Neither reaches what the other does.
"""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from asyncsim.base import calls, checks
from asyncsim.base.declared import Choice, Count, Flag, Integer, Positive, Real, Staleness, Vector
from asyncsim.claims._claim import Claim
from asyncsim.claims._papers import papers, papers_of
from asyncsim.claims._registry import claim, claims, trial
from asyncsim.claims._trial import replaced

if TYPE_CHECKING:
    from asyncsim.claims.staleness_rules._facts import PredictedStaleness

__all__ = ["claim", "claims", "papers", "papers_of", "predicted_ess", "predicted_staleness", "trial"]
__all__ += ["Choice", "Claim", "Count", "Flag", "Integer", "Positive", "Real", "Staleness", "Vector", "replaced"]


class _Catalogue(ModuleType):
    """The package, which answers `sim.claims[ID]` and names that it lacks."""

    __getitem__ = __call__ = staticmethod(claim)

    def __getattr__(self, name: str) -> Any:
        remedy = checks.hint(name, __all__, "a claim is sim.claims['ess/clamp-floor']", 0.75)
        raise calls.unknown_name(__name__, name, remedy)


sys.modules[__name__].__class__ = _Catalogue


@calls.named
def predicted_staleness(settings: Mapping[str, Any], samples_per_group: int) -> "PredictedStaleness":
    """Predict the steady-state distribution of staleness from the settings of a system, if a known formula applies.

    `settings`: all of an event system by name, as `System.describe_at` and the header of a timeline give them. Returns
    a `PredictedStaleness` (law, mean, support, pmf, tail, approximate, also, reason) of the head staleness of trained
    groups, in versions; `law` None where no law's conditions hold. Raises `InputError` where a setting is missing.
    """
    from asyncsim.claims.staleness_rules import _predicted

    return _predicted.predicted(settings, samples_per_group)


def predicted_ess(variance: float, samples: int) -> float:
    """Mean ESS/N of N `samples` whose log ratios are independent normals of this `variance`, by an exact integral.

    The integral is that of `ess/finite-sample`, over a grid of the normal distribution. For a large batch it is
    exp(-variance). Log ratios of a response add up: take the variance of their sum. Raises `InputError` for a variance
    below 0 or above 40, and for fewer than 2 samples. Source: derived; Kong 1992 for the statistic.

    >>> round(predicted_ess(0.5, 256), 4)
    0.6139
    """
    from asyncsim.claims.ess import finite_sample

    checks.real("variance", variance, "give the variance of the log ratio in nats^2", 0.0, 40.0)
    checks.integer("samples", samples, 2, "give the samples of a batch; one alone is always worth one", 1 << 20)
    return finite_sample.of_normal(variance, samples)


globals().update({name: calls.answering(globals()[name]) for name in __all__})
