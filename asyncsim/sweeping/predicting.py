"""What a claim predicts at the settings of a sweep or of a boundary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asyncsim import claims
from asyncsim.base import checks


def predicted(name: str, setting: Mapping[str, Any], at: Mapping[str, Any]) -> float:
    """The one number that a claim predicts at a setting; `at` gives the parameters that the setting does not have.

    >>> round(predicted("staleness/stability-boundary", {"staleness": 0, "method": "gradient"},
    ...                 {"curvatures": (2.0,)}), 3)
    1.0
    """
    claim = claims.claim(name)
    known = [row["name"] for row in claim.point.described()]
    for key in at:
        checks.one_of(f"--at of {claim.id}", key, known, f"see `asyncsim list claims {claim.id}`")
    numbers = claim.predict({**{key: value for key, value in setting.items() if key in known}, **at})
    checks.require(len(numbers) == 1, "claim", claim.id, "one that predicts one number", "choose another claim")
    return float(next(iter(numbers.values())))
