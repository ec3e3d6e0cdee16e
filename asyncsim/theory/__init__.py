"""The predicted tower: one claim a file, `theory/<family>/<claim>.py`, found by reading folder names.

Everything here computes in float64 with NumPy and SciPy and imports floor 0 only. So no formula is shared with the
simulations that are measured against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from asyncsim.theory._claims import claim, claims
from asyncsim.theory._papers import papers

if TYPE_CHECKING:
    from asyncsim.theory._settings import PredictedStaleness

__all__ = ["claim", "claims", "papers", "predicted_staleness"]


def predicted_staleness(settings: Mapping[str, Any], samples_per_group: int) -> PredictedStaleness:
    """The law of staleness whose conditions these settings meet, and what it predicts in the steady state; or no law.

    `settings`: all of an event system by name, as `System.describe_at` and the header of a timeline give them. Returns
    a `PredictedStaleness` (law, mean, support, pmf, tail, approximate, also, reason) of the head staleness of trained
    groups, in versions; `law` None where no law's conditions hold. Raises `InputError` where a setting is missing.
    """
    from asyncsim.theory import _settings

    return _settings.predicted(settings, samples_per_group)
