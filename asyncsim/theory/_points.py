"""Reading of points: each claim turns a point into typed values once, and its domain is where that succeeds.

A claim's private `_read(point)` raises `InputError` outside its domain; `domain_of(_read)` is the claim's `domain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from asyncsim import checks
from asyncsim.records import Point

Quantities = dict[str, float]


def domain_of(read: Callable[[Point], Any]) -> Callable[[Point], str | None]:
    """The domain of a claim: None where `read` accepts the point, else the message of its refusal."""

    def domain(point: Point) -> str | None:
        try:
            read(point)
        except checks.InputError as refusal:
            return str(refusal)
        return None

    return domain


def select(point: Point, required: str, nullable: str = "") -> list[Any]:
    """Values of the named keys in order; nullable keys may be missing or None. Unknown keys are refused.

    A misspelled nullable key would otherwise be a silent default.

    >>> select({"workers": 2}, "workers", "rates")
    [2, None]
    """
    checks.require(isinstance(point, Mapping), "point", point, "a mapping", "give the parameters by name")
    names, more = required.split(), nullable.split()
    known = f"the keys {', '.join(names)}" + (f" and optionally {', '.join(more)}" if more else "")
    missing = [n for n in names if point.get(n) is None]
    checks.require(not missing, "point", sorted(point), known, f"add {', '.join(missing)}")
    unknown = sorted(set(point) - {*names, *more})
    checks.require(not unknown, "point", sorted(point), known, f"drop {', '.join(map(str, unknown))}")
    return [point.get(n) for n in names + more]


def vector(field: str, value: Any, low: float = -np.inf, length: int | None = None) -> np.ndarray:
    """`value` as float64 `[length]` with entries above `low`."""
    array = checks.finite_array(field, value, [length], "give a tuple of numbers")
    checks.require(bool((array > low).all()), field, value, f"numbers above {low:g}", "raise the smallest entry")
    return array


def positive(field: str, value: Any) -> float:
    """`value` as a float above 0."""
    return checks.real(field, value, "give a positive number", 0.0, open_low=True)


def staleness(value: Any) -> int:
    """Staleness in updates, an integer >= 0."""
    return checks.integer("staleness", value, 0, "count optimizer updates between reading and applying")


def indexed(stem: str, values: Any) -> Quantities:
    """Components of a vector as quantities `stem[0]`, `stem[1]`, ...

    >>> indexed("pi", [0.25, 0.75])
    {'pi[0]': 0.25, 'pi[1]': 0.75}
    """
    return {f"{stem}[{k}]": float(v) for k, v in enumerate(np.ravel(values))}
