"""The claims of this tower by id: found by reading folder names, imported one at a time."""

from __future__ import annotations

import difflib
import importlib
from functools import cache
from pathlib import Path

from asyncsim.base import checks
from asyncsim.base.records import Claim


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
    key = str(id).replace("_", "-")
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "see `asyncsim list claims`"
        raise checks.InputError("claim", id, "the id of a claim, family/name", hint)
    family, _, name = key.partition("/")
    instance: Claim = importlib.import_module(f"{__package__}.{family}.{name.replace('-', '_')}").claim
    return instance
