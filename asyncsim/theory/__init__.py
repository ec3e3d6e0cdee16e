"""The predicted tower: one claim a file, `theory/<family>/<claim>.py`, found by reading folder names.

Everything here computes in float64 with NumPy and SciPy and imports floor 0 only, so that no formula is shared with the
simulations that are measured against it.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncsim.base import checks
from asyncsim.base.records import Claim

if TYPE_CHECKING:
    from asyncsim.theory._settings import PredictedStaleness


@cache
def claims() -> dict[str, Path]:
    """Ids of all claims with the file of each, read from folder names without importing any.

    >>> claims()["staleness/stability-boundary"].name
    'stability_boundary.py'
    """
    files = sorted(Path(__file__).parent.glob("*/*.py"))
    return {f"{f.parent.name}/{f.stem.replace('_', '-')}": f for f in files if not f.stem.startswith("_")}


def claim(id: str) -> Claim:
    """The claim of that id; underscores in place of dashes are accepted.

    Raises `InputError` naming the nearest id when there is none.

    >>> claim("ess/clamp-floor").predict({"clamp": 2.0})["largest_inverse"]
    1.5625
    """
    known = claims()
    wanted = str(id).replace("_", "-")
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "see `asyncsim list claims`"
        raise checks.InputError("claim", id, "the id of a claim, family/name", hint)
    family, _, name = wanted.partition("/")
    found: Claim = importlib.import_module(f"{__name__}.{family}.{name.replace('-', '_')}").claim
    return found


def predicted_staleness(settings: Mapping[str, Any], samples_per_group: int) -> PredictedStaleness:
    """The law of staleness whose conditions these settings meet, and what it predicts in the steady state; or no law.

    `settings`: all of an event system by name, as `System.describe_at` and the header of a timeline give them. Returns
    a `PredictedStaleness` (law, mean, support, pmf, tail, approximate, also, reason) of the head staleness of trained
    groups, in versions; `law` None where no law's conditions hold. Raises `InputError` where a setting is missing.
    """
    from asyncsim.theory import _settings

    return _settings.predicted(settings, samples_per_group)
