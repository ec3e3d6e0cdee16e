"""A claim in one class: what it says, computed twice, and how it is measured on the product (EXTENDING.md has one).

The second paragraph of its file, or its own docstring, is the statement, whose letters `symbols.toml` explains. Its
parameters are those of a point. `predict` and `check` compute quantities by name on independent routes, `wrong` by
known mistakes that the measurement must contradict. `measure` estimates the same quantities on the product at `points`,
`defects` are mistakes planted there, which must flip the verdict.

The two sides stay apart by what they may reach. A prediction reaches neither `sim` nor `lab`; a measurement reaches no
formula. Reading a claim loads neither torch nor numba: the measured side names the product through `sim` and `lab`.
"""

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar

import numpy as np

# Claims import from here what they are written with.
import asyncsim as sim
from asyncsim.base import checks, outside, records
from asyncsim.base.declared import Choice, Count, Declared, Flag, Integer, Parsed, Positive, Real, Staleness, Vector
from asyncsim.base.records import Estimate, Point, Timeline
from asyncsim.claims import lab
from asyncsim.claims._trial import Plant, heavy, named, replaced, sampled, too_rare, units_for, untouched, up_to, within

Quantities = dict[str, float]


class Claim(Declared):
    """Base class of claims; an instance is one parsed point, or the trial that is given points to measure.

    `kind`, `status`, `source`, `relative_to`, `wrong` and `terms`: see `records.Claim`. `kind = "bound"` is an upper
    bound: the measurement must not exceed `predict`; for a lower bound negate both. A wrong formula or a term gives
    what it changes, all other quantities are those of `predict`.

    `points` are measured at the quick size, `more` beside them at the full one. `through` names parts of the product in
    the measurement, `effect` is the relative size of what it must see, `loose` the terms of a bound that no point is
    known to attain. `defects`: mistakes planted in the product, each a function without arguments that gives the plant,
    and the point at which the verdict must flip where that is not the first. So reading a claim loads no `lab`.
    """

    kind: ClassVar[str] = "expectation"
    status: ClassVar[str] = "exact"
    source: ClassVar[str] = "a user's conjecture"
    relative_to: ClassVar[str] = "value"
    wrong: ClassVar[Mapping[str, Callable[[Any], Quantities]]] = {}
    terms: ClassVar[Mapping[str, Callable[[Any, float], Quantities]]] = {}
    through: ClassVar[str] = "loop"
    effect: ClassVar[float] = 0.02
    points: ClassVar[tuple[Point, ...]] = ()
    more: ClassVar[tuple[Point, ...]] = ()
    loose: ClassVar[frozenset[str]] = frozenset()
    defects: ClassVar[Mapping[str, Callable[[], Plant | tuple[Plant, Point]]]] = {}

    def predict(s) -> Quantities:
        """Return the quantities that the claim predicts at this point, by name."""
        raise NotImplementedError

    def check(s) -> Quantities:
        """Return the predicted quantities by an independent derivation."""
        raise NotImplementedError

    def reach(self, point: Point, /) -> str | None:
        """Return why a point inside the domain cannot be measured, with the bound and the remedy; None if it can."""
        return None

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        """Estimate the quantities by runs of `plant(spec)`, with enough replicates to detect the given effect."""
        raise NotImplementedError

    def given(self, at: Point, /) -> Point:
        """Return the claim's parameters for the parameters that a user gives; by default both are the same."""
        return at

    def at(self, size: str) -> tuple[Point, ...]:
        """Return the points that a verification of the given size, such as quick or full, measures."""
        return (*self.points, *(self.more if size == "full" else ()))

    def planted(self) -> dict[str, tuple[Plant, Point]]:
        """Return all defects to inject by name, each with the point at which it must change the verdict."""
        made = ((name, plant()) for name, plant in self.defects.items())
        return {name: each if isinstance(each, tuple) else (each, self.points[0]) for name, each in made}


def stated(claim: type[Claim], id: str, own: bool = False) -> records.Claim:
    """Record of a claim, whose formulas parse the point when called, so that errors name the invalid parameter."""

    def at_point(
        formula: Callable[..., Quantities], rest: Callable[[Any], Quantities] = lambda s: {}, name: str = "predict"
    ) -> Callable[..., Quantities]:
        @wraps(formula)
        def evaluate(point: Any = None, *factors: float, **given: Any) -> Quantities:
            if point is None or given:
                whole = {**getattr(claim, "example", dict)(), **(point or {}), **given}
                remedy = f"write {name}({checks.shown(whole)}), with all parameters by name"
                raise checks.CallError(f"{name} argument", ", ".join(given) or None, "one mapping", remedy)
            s = claim(point)
            try:
                found = formula(s, *factors)
            except Exception as error:
                if not own or isinstance(error, checks.InputError):
                    raise
                made = outside.user_error(error, f"{id}.{name}", None, f"computable at {dict(point)}", "correct it")
                remedy = f"{made.remedy}; parameters are s.NAME"
                raise checks.InputError(made.field, None, made.bound, remedy) from error
            fits = not own or (isinstance(found, dict) and found and all(isinstance(each, str) for each in found))
            checks.require(bool(fits), f"{id}.{name}", found, "a dict of numbers by name", "return {'mean': 4.0}")
            return rest(s) | found

        return evaluate

    return records.Claim(
        id,
        " ".join((claim.__doc__ or (sys.modules[claim.__module__].__doc__ or "").split("\n\n")[1]).split()),
        claim.kind,
        claim.status,
        claim,
        at_point(claim.predict),
        at_point(claim.check),
        claim.source,
        {name: at_point(formula, claim.predict, f"wrong[{name!r}]") for name, formula in claim.wrong.items()},
        claim.relative_to,
        {name: at_point(formula, claim.predict) for name, formula in claim.terms.items()},
    )


def each_term(formula: Callable[[Any, str, float], Quantities], *names: str) -> dict[str, Any]:
    """Map the name of each term of a bound to the bound in which a factor multiplies that term."""
    return {name: lambda s, factor, name=name: formula(s, name, factor) for name in names}


def multiplied(quantity: str) -> Callable[[Any, float], Quantities]:
    """Return a term that multiplies one predicted quantity by a factor."""
    return lambda s, factor: {quantity: factor * s.predict()[quantity]}


def indexed(stem: str, values: Any) -> Quantities:
    """Name the components of a vector as quantities `stem[0]`, `stem[1]`, ..."""
    return {f"{stem}[{k}]": float(v) for k, v in enumerate(np.ravel(values))}


BEHAVIOR = ((0.3, -0.2, 0.5), (0.0, 0.7, -0.4), (-0.5, 0.2, 0.1), (0.9, 0.1, 0.0))
CURRENT = ((1.0, -0.6, 0.2), (0.4, 0.2, -0.8), (0.3, -0.3, 0.6), (0.2, 0.8, -0.5))
"""Two policies on sequences of three tokens."""
PAIR: dict[str, Any] = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1)}
"""Two policies over three actions."""


def sequence_point(dependence: str, horizon: int, rows: int, **more: Any) -> dict[str, Any]:
    """Point of a claim with two policies on 3 actions, tables of `rows` rows, and further parameters."""
    shape = {"actions": 3, "horizon": horizon, "dependence": dependence}
    return {**shape, "behavior_logits": BEHAVIOR[:rows], "current_logits": CURRENT[:rows], **more}


Rows = tuple[tuple[float, ...], ...]
FORK: tuple[Rows, ...] = (((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), ((0.0, 1.0, 0.0),) * 2, ((0.0, 0.0, 1.0),) * 2)
"""Transitions of three states: the choice in the first decides for ever."""


def process(transition: tuple[Rows, ...], rewards: Rows, discount: float, **logits: Rows) -> dict[str, Any]:
    """Point of a claim with a decision process and the logits of each state."""
    return {"transition": transition, "rewards": rewards, "discount": discount, **logits}
