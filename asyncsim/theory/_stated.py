"""A claim as its file states it: formulas of a point that has been read, and names of what they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np

from asyncsim.base.records import Claim, Point

S = TypeVar("S")
Quantities = dict[str, float]


class Details(TypedDict, total=False):
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
    **details: Unpack[Details],
) -> Claim:
    """The claim whose formulas take what `point` reads: each reads a point first, and so refuses one by name.

    >>> halves = stated(lambda point: point["x"], lambda x: {"half": x / 2}, lambda x: {"half": x * 0.5}, {},
    ...     id="a/b", statement="half", kind="identity", status="exact", reference="none")
    >>> halves.predict({"x": 3.0})
    {'half': 1.5}
    """

    def with_point(formula: Callable[..., Quantities]) -> Callable[..., Quantities]:
        @wraps(formula)
        def evaluate(values: Point, *factors: float) -> Quantities:
            return formula(point(values), *factors)

        return evaluate

    defects = {name: with_point(formula) for name, formula in formula_defects.items()}
    scaled = {name: with_point(formula) for name, formula in (terms or {}).items()}
    return Claim(
        point=point,
        predict=with_point(predict),
        cross_check=with_point(cross_check),
        formula_defects=defects,
        terms=scaled,
        **details,
    )


def indexed(stem: str, values: Any) -> Quantities:
    """Components of a vector as quantities `stem[0]`, `stem[1]`, ...

    >>> indexed("pi", [0.25, 0.75])
    {'pi[0]': 0.25, 'pi[1]': 0.75}
    """
    return {f"{stem}[{k}]": float(v) for k, v in enumerate(np.ravel(values))}
