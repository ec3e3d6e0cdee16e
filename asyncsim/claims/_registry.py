"""The claims by id: found by reading folder names, imported one at a time."""

import importlib
from functools import cache
from pathlib import Path

from asyncsim.base import checks, records
from asyncsim.claims import _claim


@cache
def claims() -> dict[str, Path]:
    """Ids of all claims with the file of each, read from folder names without importing any.

    >>> claims()["staleness/stability-boundary"].name
    'stability_boundary.py'
    """
    files = sorted(Path(__file__).parent.glob("*/*.py"))
    found = {f"{f.parent.name}/{f.stem.replace('_', '-')}": f for f in files if not f.stem.startswith("_")}
    return {id: file for id, file in found.items() if file.parent.name != "lab"}


def known(id: str) -> str:
    """The id of a claim; underscores in place of dashes are accepted.

    Raises `InputError` naming the nearest id where there is none.
    """
    key = str(id).replace("_", "-")
    if key not in claims():
        near = checks.near(key, claims(), 1, 0.4)
        hint = f"did you mean {near[0]}?" if near else "see `asyncsim list claims`"
        raise checks.InputError("claim", id, "the id of a claim, family/name", hint)
    return key


@cache
def class_of(key: str) -> type[_claim.Claim]:
    """The class of a claim."""
    family, _, name = key.partition("/")
    home = importlib.import_module(f"{__package__}.{family}.{name.replace('-', '_')}")
    classes = (each for each in vars(home).values() if isinstance(each, type) and each.__module__ == home.__name__)
    return next(each for each in classes if issubclass(each, _claim.Claim))


_stated = cache(lambda key: _claim.stated(class_of(key), key))


def claim(id: str) -> records.Claim:
    """What the claim of that id says. Raises `InputError` when there is none.

    >>> claim("ess/clamp-floor").predict({"clamp": 2.0})["largest_inverse"]
    1.5625
    """
    said: records.Claim = _stated(known(id))
    return said


def trial(id: str) -> _claim.Claim:
    """How the claim of that id is measured; no point is read. Raises `InputError` when there is none."""
    home = class_of(known(id))
    return home.__new__(home)
