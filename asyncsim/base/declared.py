"""A point that declares its parameters once: what is accepted, what is typical, in which unit, and what it means.

    class Setting(Declared):
        staleness = Integer(0, 64, typical=(0, 8), example=4, unit="updates", doc="from reading to applying")
        momentum = Real(0.0, 0.99, typical=(0.0, 0.9), example=0.5, doc="share of the step before that is kept")

        def joint(self):  # rules between parameters
            checks.require(...)

`Setting(point)` has the values as attributes, or raises `InputError`. Documentation, the stated example, random draws
and the report read the same lines.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np

from asyncsim.base import checks
from asyncsim.base.records import Point

T = TypeVar("T")
_NUMBER_WORDS = {1: "one", 2: "two", 3: "three"}


class Parameter(Generic[T]):
    """One entry of a point.

    `example`: its value in the stated point. `typical`: values of random points, (least, largest) for numbers, the
    choices for words. `optional`: it may be missing or None. `remedy` is the advice of a refusal (default: from `doc`).
    """

    name = ""

    def __init__(
        self,
        *,
        example: Any = None,
        typical: tuple[Any, ...] = (),
        unit: str = "",
        doc: str = "",
        remedy: str = "",
        optional: bool = False,
    ) -> None:
        self.example, self.typical, self.unit, self.doc, self.optional = example, typical, unit, doc, optional
        self.remedy = remedy or f"give the {doc}"

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
        raise NotImplementedError

    @property
    def domain(self) -> str:
        """What is accepted, in words."""
        raise NotImplementedError


Draw = Callable[[Parameter[Any]], Any]
"""Gives a typical value of a parameter."""


class Integer(Parameter[int]):
    """A whole number in [low, high]."""

    def __init__(self, low: int, high: int | None = None, **details: Any) -> None:
        super().__init__(**details)
        self.low, self.high = low, high

    def read(self, value: Any) -> int:
        """The number."""
        most = () if self.high is None else (self.high,)
        return checks.integer(self.name, value, self.low, self.remedy, *most)

    @property
    def domain(self) -> str:
        """Its interval."""
        return f"integer >= {self.low}" if self.high is None else f"integer in [{self.low}, {self.high}]"


class Count(Integer):
    """A whole number of what its `doc` names."""

    def __init__(self, low: int, high: int | None = None, *, doc: str, **details: Any) -> None:
        super().__init__(low, high, **{"doc": doc, "remedy": f"count the {doc}", **details})


class Staleness(Integer):
    """Staleness in updates."""

    def __init__(self, low: int = 0, high: int | None = None, **details: Any) -> None:
        doc = "optimizer updates between reading and applying"
        super().__init__(low, high, **{"unit": "updates", "doc": doc, "remedy": f"count {doc}", **details})


class Real(Parameter[float]):
    """A finite number in [low, high]; `open_low` leaves the least out."""

    def __init__(self, low: float = -np.inf, high: float = np.inf, *, open_low: bool = False, **details: Any) -> None:
        super().__init__(**details)
        self.low, self.high, self.open_low = low, high, open_low

    def read(self, value: Any) -> float:
        """The number."""
        return checks.real(self.name, value, self.remedy, self.low, self.high, open_low=self.open_low)

    @property
    def domain(self) -> str:
        """Its interval."""
        least = f"{'> ' if self.open_low else '>= '}{self.low:g}" if np.isfinite(self.low) else ""
        most = f"<= {self.high:g}" if np.isfinite(self.high) else ""
        return "number " + " and ".join(filter(None, (least, most))) if least or most else "number"


class Positive(Real):
    """A number above 0."""

    def __init__(self, **details: Any) -> None:
        super().__init__(0.0, open_low=True, **{"remedy": "give a positive number", **details})


class Vector(Parameter[np.ndarray]):
    """Numbers above `low`, as many as `length` says (None: any); `sizes`: how many are typical."""

    def __init__(
        self, low: float = -np.inf, length: int | None = None, sizes: tuple[int, int] = (1, 3), **details: Any
    ) -> None:
        super().__init__(**{"remedy": "give a tuple of numbers", **details})
        self.low, self.length, self.sizes = low, length, sizes

    def read(self, value: Any) -> np.ndarray:
        """float64 `[length]`."""
        array = checks.finite_array(self.name, value, [self.length], self.remedy)
        above = bool((array > self.low).all())
        checks.require(above, self.name, value, f"numbers above {self.low:g}", "raise the smallest entry")
        return array

    @property
    def domain(self) -> str:
        """Its entries."""
        return ("numbers" if np.isinf(self.low) else f"numbers > {self.low:g}") + (
            "" if self.length is None else f", {self.length} of them"
        )


class Counts(Parameter["list[int]"]):
    """Distinct whole numbers in [low, high], two at least unless `least` says otherwise."""

    def __init__(self, low: int, high: int | None = None, least: int = 2, **details: Any) -> None:
        super().__init__(**details)
        self.low, self.high, self.least = low, high, least

    def read(self, value: Any) -> list[int]:
        """The numbers in their order."""
        entries = value if isinstance(value, (tuple, list)) else (value,)
        most = () if self.high is None else (self.high,)
        numbers = [checks.integer(self.name, one, self.low, self.remedy, *most) for one in entries]
        enough = len(set(numbers)) >= self.least
        least = _NUMBER_WORDS.get(self.least, self.least)
        checks.require(enough, self.name, numbers, f"{least} distinct values or more", "add a value")
        return numbers

    @property
    def domain(self) -> str:
        """Its entries."""
        inside = f">= {self.low}" if self.high is None else f"in [{self.low}, {self.high}]"
        return f"{_NUMBER_WORDS.get(self.least, self.least)} or more distinct integers {inside}"


class Choice(Parameter[str]):
    """One of some words."""

    def __init__(self, *options: str, **details: Any) -> None:
        super().__init__(**{"typical": options, **details})
        self.options = options

    def read(self, value: Any) -> str:
        """The word."""
        return checks.one_of(self.name, value, self.options, self.remedy)

    @property
    def domain(self) -> str:
        """The words."""
        return "one of " + ", ".join(self.options)


class Flag(Parameter[bool]):
    """True or False."""

    def __init__(self, **details: Any) -> None:
        super().__init__(**{"typical": (False, True), **details})

    def read(self, value: Any) -> bool:
        """The truth."""
        return checks.boolean(self.name, value, self.remedy)

    @property
    def domain(self) -> str:
        """Both values."""
        return "True or False"


class Parsed(Parameter[T]):
    """A value that `parse(name, value)` converts or refuses: the text of a law, a table of logits."""

    def __init__(self, parse: Callable[[str, Any], T], accepts: str, **details: Any) -> None:
        super().__init__(**details)
        self.parse, self.accepts = parse, accepts

    def read(self, value: Any) -> T:
        """The value as the formulas take it."""
        return self.parse(self.name, value)

    @property
    def domain(self) -> str:
        """As given."""
        return self.accepts


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

    def __init__(self, point: Point) -> None:
        required = [name for name, p in self.parameters.items() if not p.optional]
        nullable = [name for name, p in self.parameters.items() if p.optional]
        checks.require(isinstance(point, Mapping), "point", point, "a mapping", "give the parameters by name")
        known = f"the keys {', '.join(required)}" + (f" and optionally {', '.join(nullable)}" if nullable else "")
        missing = [name for name in required if point.get(name) is None]
        checks.require(not missing, "point", sorted(point), known, f"add {', '.join(missing)}")
        # A misspelled optional key would otherwise be a silent default.
        unknown = sorted(set(point) - set(self.parameters))
        checks.require(not unknown, "point", sorted(point), known, f"drop {', '.join(map(str, unknown))}")
        for name, parameter in self.parameters.items():
            value = point.get(name)
            vars(self)[name] = None if value is None else parameter.read(value)
        self.joint()

    def but(self, **values: Any) -> Self:
        """The same point with other values of some parameters, as formulas take them."""
        other = copy.copy(self)
        vars(other).update(values)
        other.joint()
        return other

    def joint(self) -> None:
        """Rules that one parameter sets for another. Raises `InputError` where one is broken."""

    def require(self, holds: Any, name: str, bound: str, remedy: str) -> None:
        """Raise `InputError` for the value of a parameter unless something holds of it."""
        value = getattr(self, name)
        checks.require(bool(holds), name, value.tolist() if isinstance(value, np.ndarray) else value, bound, remedy)

    @classmethod
    def example(cls) -> dict[str, Any]:
        """The stated point, at which wrong formulas show."""
        return {name: p.example for name, p in cls.parameters.items() if p.example is not None}

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """A random point; `draw(parameter)` gives a typical value. A class whose parameters depend on one another
        draws them in turn, and a point that leaves the domain is drawn again."""
        return {name: draw(p) for name, p in cls.parameters.items() if not p.optional or p.typical}

    @classmethod
    def described(cls) -> list[dict[str, Any]]:
        """A row for each parameter: name, domain, unit, meaning, example."""
        return [
            {
                "name": name,
                "domain": p.domain,
                "unit": p.unit,
                "doc": p.doc,
                "example": p.example,
                "optional": p.optional,
            }
            for name, p in cls.parameters.items()
        ]
