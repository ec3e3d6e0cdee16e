"""A claim as its file states it: formulas of a point that has been read, and names of what they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np

from asyncsim.base.records import Claim, Point

S = TypeVar("S")
Quantities = dict[str, float]


class About(TypedDict, total=False):
    """What `Claim` says of itself beside its formulas."""

    id: str
    statement: str
    kind: str
    status: str
    reference: str
    relative_to: str


def stated(
    point: Callable[[Point], S],
    predict: Callable[[S], Quantities],
    cross_check: Callable[[S], Quantities],
    formula_defects: Mapping[str, Callable[[S], Quantities]],
    terms: Mapping[str, Callable[[S, float], Quantities]] | None = None,
    **about: Unpack[About],
) -> Claim:
    """The claim whose formulas take what `point` reads: each reads a point first, and so refuses one by name.

    >>> halves = stated(lambda point: point["x"], lambda x: {"half": x / 2}, lambda x: {"half": x * 0.5}, {},
    ...     id="a/b", statement="half", kind="identity", status="exact", reference="none")
    >>> halves.predict({"x": 3.0})
    {'half': 1.5}
    """

    def of_points(formula: Callable[..., Quantities]) -> Callable[..., Quantities]:
        @wraps(formula)
        def read(given: Point, *more: float) -> Quantities:
            return formula(point(given), *more)

        return read

    defects = {name: of_points(formula) for name, formula in formula_defects.items()}
    scaled = {name: of_points(formula) for name, formula in (terms or {}).items()}
    return Claim(
        point=point,
        predict=of_points(predict),
        cross_check=of_points(cross_check),
        formula_defects=defects,
        terms=scaled,
        **about,
    )


def indexed(stem: str, values: Any) -> Quantities:
    """Components of a vector as quantities `stem[0]`, `stem[1]`, ...

    >>> indexed("pi", [0.25, 0.75])
    {'pi[0]': 0.25, 'pi[1]': 0.75}
    """
    return {f"{stem}[{k}]": float(v) for k, v in enumerate(np.ravel(values))}
