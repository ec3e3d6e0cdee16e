"""A claim in one class: what it says, computed twice, and how it is measured on the product.

    class HeavyBall(Claim):
        '''momentum `beta` raises the largest stable learning rate ...'''  # the statement

        kind, source = "threshold", "arXiv ..."
        staleness = Staleness(0, 64, typical=(0, 24), example=4)  # the parameters of a point

        def predict(s): ...  # quantities by name, from the point that was read
        def check(s): ...    # the same by an independent route
        wrong = {...}        # what known mistakes make of quantities, which the measurement must contradict

        points = ({...},)
        def measure(point, effect, seed, plant): ...  # estimates of the same quantities, on the product
        defects = {...}                               # mistakes planted in the product, which must flip the verdict

The two sides stay apart by what they may reach. A prediction reaches neither `sim` nor `lab`; a measurement reaches no
formula. Reading a claim loads neither torch nor numba: the measured side names the product through `sim` and `lab`.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar

import numpy as np

# Claims import from here what they are written with.
import asyncsim as sim  # noqa: F401
from asyncsim.base import checks, records  # noqa: F401
from asyncsim.base.declared import (  # noqa: F401
    Choice,
    Count,
    Counts,
    Declared,
    Draw,
    Flag,
    Integer,
    Parsed,
    Positive,
    Real,
    Staleness,
    Vector,
)
from asyncsim.base.records import Estimate, Point, Timeline  # noqa: F401
from asyncsim.claims import lab  # noqa: F401
from asyncsim.claims._trial import (  # noqa: F401
    Defect,
    Plant,
    Trial,
    Wrapped,
    heavy,
    named,
    replaced,
    sampled,
    too_rare,
    units_for,
    untouched,
    within,
)

Quantities = dict[str, float]


class Claim(Declared):
    """Base of every claim; an instance is a point that was read.

    `kind`, `status`, `source`, `relative_to`, `wrong` and `terms`: see `records.Claim`. A wrong formula or a term gives
    what it changes, all other quantities are those of `predict`. `points`, `more`, `through`, `effect`, `reach` and
    `loose`: see `Trial`. `defects`: mistakes planted in the product, each a function without arguments that gives the
    plant, and the point at which the verdict must flip where that is not the first. So reading a claim loads no `lab`.
    """

    kind: ClassVar[str]
    status: ClassVar[str] = "exact"
    source: ClassVar[str]
    relative_to: ClassVar[str] = "value"
    wrong: ClassVar[Mapping[str, Callable[[Any], Quantities]]]
    terms: ClassVar[Mapping[str, Callable[[Any, float], Quantities]]] = {}
    through: ClassVar[str]
    effect: ClassVar[float] = 0.02
    points: ClassVar[tuple[Point, ...]]
    more: ClassVar[tuple[Point, ...]] = ()
    loose: ClassVar[frozenset[str]] = frozenset()
    defects: ClassVar[Mapping[str, Callable[[], Plant | tuple[Plant, Point]]]]

    def predict(s) -> Quantities:
        """Quantities by name."""
        raise NotImplementedError

    def check(s) -> Quantities:
        """The same by an independent route."""
        raise NotImplementedError

    @staticmethod
    def reach(point: Point, /) -> str | None:
        """Why a point inside the domain cannot be measured, in one sentence; None where it can."""
        return None

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        """Estimates of the quantities, on the product."""
        raise NotImplementedError


def stated(claim: type[Claim], id: str) -> records.Claim:
    """What a claim says, each formula a function of a point that is not read yet: so it refuses one by name."""

    def at_point(
        formula: Callable[..., Quantities], rest: Callable[[Any], Quantities] = lambda s: {}
    ) -> Callable[..., Quantities]:
        @wraps(formula)
        def evaluate(point: Point, *factors: float) -> Quantities:
            s = claim(point)
            return rest(s) | formula(s, *factors)

        return evaluate

    return records.Claim(
        id,
        " ".join((claim.__doc__ or "").split()),
        claim.kind,
        claim.status,
        claim,
        at_point(claim.predict),
        at_point(claim.check),
        claim.source,
        {name: at_point(formula, claim.predict) for name, formula in claim.wrong.items()},
        claim.relative_to,
        {name: at_point(formula, claim.predict) for name, formula in claim.terms.items()},
    )


def tried(claim: type[Claim]) -> Trial:
    """How a claim is measured."""
    made = ((name, plant()) for name, plant in claim.defects.items())
    defects = {name: Defect(*(each if isinstance(each, tuple) else (each, claim.points[0]))) for name, each in made}
    return Trial(
        claim.points, claim.measure, defects, claim.effect, claim.through, claim.more, claim.reach, claim.loose
    )


def each_term(formula: Callable[[Any, str, float], Quantities], *names: str) -> dict[str, Any]:
    """Terms of a bound by name, from the bound with the term of a name multiplied by a factor."""
    return {name: lambda s, factor, name=name: formula(s, name, factor) for name in names}


def multiplied(quantity: str) -> Callable[[Any, float], Quantities]:
    """The term of a bound that is one of its quantities whole."""
    return lambda s, factor: {quantity: factor * s.predict()[quantity]}


def indexed(stem: str, values: Any) -> Quantities:
    """Components of a vector as quantities `stem[0]`, `stem[1]`, ...

    >>> indexed("pi", [0.25, 0.75])
    {'pi[0]': 0.25, 'pi[1]': 0.75}
    """
    return {f"{stem}[{k}]": float(v) for k, v in enumerate(np.ravel(values))}
