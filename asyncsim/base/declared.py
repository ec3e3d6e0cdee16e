"""A point that declares its parameters once: what is accepted, what is typical, in which unit, and what it means.

    class Setting(Declared):
        staleness = Integer(0, 64, typical=(0, 8), example=4, unit="updates", doc="from reading to applying")
        momentum = Real(0.0, 0.99, typical=(0.0, 0.9), example=0.5, doc="share of the step before that is kept")

        def joint(self):  # rules between parameters
            checks.require(...)

`Setting(point)` has the values as attributes, or raises `InputError`. Documentation, the stated example, random draws
and the report read the same lines.
"""

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np

from asyncsim.base import checks
from asyncsim.base.records import Point

T = TypeVar("T")


class Parameter(Generic[T]):
    """One entry of a point: `check(name, value)` gives the value as formulas take it, `domain` says what it accepts.

    `example`: its value in the stated point. `typical`: values of random points, (least, largest) for numbers, the
    choices for words. `optional`: it may be missing or None. `remedy` is the advice of a refusal (default: from `doc`).
    """

    name = ""

    def __init__(
        self,
        check: Callable[[str, Any], T],
        domain: str,
        *,
        example: Any = None,
        typical: tuple[Any, ...] = (),
        unit: str = "",
        doc: str = "",
        remedy: str = "",
        optional: bool = False,
    ) -> None:
        self.check, self.domain = check, domain
        self.example, self.typical, self.unit, self.doc, self.optional = example, typical, unit, doc, optional
        self.remedy = remedy or (f"say {doc}" if doc.startswith(("wh", "how ")) else f"give the {doc}")

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        # Instances hold values under the same name, which Python finds first.
        return self

    def read(self, value: Any) -> T:
        """The value as the formulas take it. Raises `InputError` outside the domain."""
        return self.check(self.name, value)


class Integer(Parameter[int]):
    """A whole number in [low, high]."""

    def __init__(self, low: int, high: int | None = None, **details: Any) -> None:
        self.low, self.high = low, high
        checks.require(high is None or low <= high, "high", high, f"{low} or more, the low end", "swap the ends")
        domain = f"integer >= {low}" if high is None else f"integer in [{low}, {high}]"
        super().__init__(lambda name, value: checks.integer(name, value, low, self.remedy, high), domain, **details)


def Count(low: int, high: int | None = None, *, doc: str, **details: Any) -> Integer:
    """A whole number of what its `doc` names."""
    return Integer(low, high, **{"doc": doc, "remedy": f"count the {doc}", **details})


def Staleness(low: int = 0, high: int | None = None, **details: Any) -> Integer:
    """Staleness in updates."""
    doc = "optimizer updates between reading and applying"
    return Integer(low, high, **{"unit": "updates", "doc": doc, "remedy": f"count {doc}", **details})


class Real(Parameter[float]):
    """A finite number in [low, high]; `open_low` leaves the least out."""

    def __init__(self, low: float = -np.inf, high: float = np.inf, *, open_low: bool = False, **details: Any) -> None:
        checks.require(low <= high, "high", high, f"{low:g} or more, the low end", "swap the ends")
        self.low, self.high, self.open_low = low, high, open_low
        ends = [f"{'>' if open_low else '>='} {low:g}"] * bool(np.isfinite(low))
        ends += [f"<= {high:g}"] * bool(np.isfinite(high))
        super().__init__(
            lambda name, value: checks.real(name, value, self.remedy, low, high, open_low=open_low),
            f"number {' and '.join(ends)}".strip(),
            **details,
        )


def Positive(**details: Any) -> Real:
    """A number above 0."""
    return Real(0.0, open_low=True, **{"remedy": "give a positive number", **details})


class Vector(Parameter[np.ndarray]):
    """Numbers above `low`, float64 `[length]` (None: any); `sizes`: how many are typical."""

    def __init__(
        self, low: float = -np.inf, length: int | None = None, sizes: tuple[int, int] = (1, 3), **details: Any
    ) -> None:
        self.low, self.length, self.sizes = low, length, sizes

        def check(name: str, value: Any) -> np.ndarray:
            array = checks.finite_array(name, value, [length], self.remedy)
            above = bool((array > low).all())
            checks.require(above, name, value, f"numbers above {low:g}", "raise the smallest entry")
            return array

        domain = ("numbers" if np.isinf(low) else f"numbers > {low:g}") + f", {length} of them" * (length is not None)
        super().__init__(check, domain, **{"remedy": "give a tuple of numbers", **details})


class Counts(Parameter["list[int]"]):
    """Distinct whole numbers in [low, high], in their order, two at least unless `least` says otherwise."""

    def __init__(self, low: int, high: int | None = None, least: int = 2, **details: Any) -> None:
        self.low, self.high, self.least = low, high, least
        several = {1: "one", 2: "two", 3: "three"}.get(least, least)

        def check(name: str, value: Any) -> list[int]:
            entries = value if isinstance(value, (tuple, list)) else (value,)
            numbers = [checks.integer(name, one, low, self.remedy, high) for one in entries]
            enough = len(set(numbers)) >= least
            checks.require(enough, name, numbers, f"{several} distinct values or more", "add a value")
            return numbers

        inside = f">= {low}" if high is None else f"in [{low}, {high}]"
        super().__init__(check, f"{several} or more distinct integers {inside}", **details)


class Choice(Parameter[str]):
    """One of some words."""

    def __init__(self, *options: str, **details: Any) -> None:
        super().__init__(
            lambda name, value: checks.one_of(name, value, options, self.remedy),
            "one of " + ", ".join(options),
            **{"typical": options, **details},
        )


class Flag(Parameter[bool]):
    """True or False."""

    def __init__(self, **details: Any) -> None:
        super().__init__(
            lambda name, value: checks.boolean(name, value, self.remedy),
            "True or False",
            **{"typical": (False, True), **details},
        )


class Parsed(Parameter[T]):
    """A value that `check(name, value)` converts or refuses: the text of a law, a table of logits."""


class Table(Parsed[np.ndarray]):
    """A table of finite numbers `[rows, columns]`; other parameters say how many of each."""

    def __init__(self, accepts: str, remedy: str, **details: Any) -> None:
        super().__init__(lambda name, value: checks.finite_array(name, value, [None, None], remedy), accepts, **details)


class Declared:
    """Base of the point of a claim: its parameters are the class attributes that are `Parameter`s, of all bases."""

    parameters: ClassVar[dict[str, Parameter[Any]]] = {}

    def __init_subclass__(cls) -> None:
        every = [vars(each).items() for each in reversed(cls.__mro__)]
        cls.parameters = {name: value for own in every for name, value in own if isinstance(value, Parameter)}

    def __init__(self, point: Point = MappingProxyType({}), /, **given: Any) -> None:
        remedy = f"write {type(self).__name__}({given})"
        checks.require(not given, "point", ", ".join(f"{k}={v!r}" for k, v in given.items()), "one mapping", remedy)
        required = [name for name, p in self.parameters.items() if not p.optional]
        nullable = [name for name, p in self.parameters.items() if p.optional]
        checks.require(isinstance(point, Mapping), "point", point, "a mapping", "give the parameters by name")
        known = f"the keys {', '.join(required)}" + (f" and optionally {', '.join(nullable)}" if nullable else "")
        missing = [name for name in required if point.get(name) is None]
        checks.require(not missing, "point", sorted(point), known, f"add {', '.join(missing)}")
        # A misspelled optional key would otherwise be a silent default.
        unknown = sorted(set(point) - set(self.parameters))
        known = known if self.parameters else "empty, as no parameter is declared"
        checks.require(not unknown, "point", sorted(point), known, f"drop {', '.join(map(str, unknown))}")
        for name, parameter in self.parameters.items():
            value = point.get(name)
            vars(self)[name] = None if value is None else parameter.read(value)
        self._refuse()

    def but(self, **values: Any) -> Self:
        """The same point with other values of some parameters, as formulas take them."""
        other = copy.copy(self)
        vars(other).update(values)
        other._refuse()
        return other

    def _refuse(self) -> None:
        for each in reversed(type(self).__mro__):
            vars(each).get("joint", Declared.joint)(self)

    def joint(self) -> None:
        """Rules that one parameter sets for another, after those of its bases. Raises `InputError` for a broken one."""

    def require(self, holds: Any, name: str, bound: str, remedy: str) -> None:
        """Raise `InputError` for the value of a parameter unless something holds of it."""
        value = getattr(self, name)
        checks.require(bool(holds), name, value.tolist() if isinstance(value, np.ndarray) else value, bound, remedy)

    @classmethod
    def example(cls) -> dict[str, Any]:
        """The stated point, at which wrong formulas show."""
        return {name: p.example for name, p in cls.parameters.items() if p.example is not None}

    @classmethod
    def described(cls) -> list[dict[str, Any]]:
        """A row for each parameter: name, domain, unit, meaning, example."""
        return [
            {"name": name, **{key: getattr(p, key) for key in ("domain", "unit", "doc", "example", "optional")}}
            for name, p in cls.parameters.items()
        ]
