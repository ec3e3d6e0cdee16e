"""The measured side of each claim: one trial a file, `trials/<family>/<claim>.py`, found by reading folder names."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from asyncsim.base import checks

if TYPE_CHECKING:
    from asyncsim.trials._trial import Trial


@cache
def trials() -> dict[str, Path]:
    """Ids of all claims that have a trial, with the file of each, read from folder names without importing any.

    >>> trials()["staleness/stability-boundary"].name
    'stability_boundary.py'
    """
    files = sorted(Path(__file__).parent.glob("*/*.py"))
    return {f"{f.parent.name}/{f.stem.replace('_', '-')}": f for f in files if not f.stem.startswith("_")}


def trial(id: str) -> Trial:
    """The trial of a claim. Raises `InputError` when it has none."""
    checks.one_of("claim", id, trials(), "see `asyncsim list claims`")
    family, _, name = id.partition("/")
    instance: Trial = importlib.import_module(f"{__name__}.{family}.{name.replace('-', '_')}").trial
    return instance
