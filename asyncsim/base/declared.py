"""A point of a claim that declares its parameters once: domain, typical values, unit and meaning.

    class Setting(Declared):
        staleness = Integer(0, 64, typical=(0, 8), example=4, unit="updates", doc="from reading to applying")
        momentum = Real(0.0, 0.99, typical=(0.0, 0.9), example=0.5, doc="share of the step before that is kept")

        def joint(self):  # rules between parameters
            checks.require(...)

`Setting(point)` has the values as attributes, or raises `InputError`. Documentation, the example, random draws and
the report are all made from these declarations.
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
    """One parameter of a claim's point: `check(name, value)` converts a value, `domain` describes valid values.

    `example`: its value in the example point. `typical`: range of values in random points, (min, max) for numbers, the
    choices for words. `optional`: it may be missing or None. `remedy`: advice in error messages (default: from `doc`).
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
        """Convert a value of the parameter for formulas. Raises `InputError` outside the domain."""
        return self.check(self.name, value)


class Integer(Parameter[int]):
    """A parameter that is an integer in [low, high]."""

    def __init__(self, low: int, high: int | None = None, **details: Any) -> None:
        self.low, self.high = low, high
        checks.require(high is None or low <= high, "high", high, f"{low} or more, the low end", "swap the ends")
        domain = f"integer >= {low}" if high is None else f"integer in [{low}, {high}]"
        super().__init__(lambda name, value: checks.integer(name, value, low, self.remedy, high), domain, **details)


def Count(low: int, high: int | None = None, *, doc: str, **details: Any) -> Integer:
    """Declare an integer parameter that counts what `doc` names."""
    return Integer(low, high, **{"doc": doc, "remedy": f"count the {doc}", **details})


def Staleness(low: int = 0, high: int | None = None, **details: Any) -> Integer:
    """Declare an integer parameter for staleness in optimizer updates."""
    doc = "optimizer updates between reading and applying"
    return Integer(low, high, **{"unit": "updates", "doc": doc, "remedy": f"count {doc}", **details})


class Real(Parameter[float]):
    """A parameter that is a finite number in [low, high]; `open_low` excludes `low`."""

    def __init__(self, low: float = -np.inf, high: float = np.inf, *, open_low: bool = False, **details: Any) -> None:
        checks.require(low <= high, "high", high, f"{low:g} or more, the low end", "swap the ends")
        self.low, self.high, self.open_low = low, high, open_low
        ends = [f"{'>' if open_low else '>='} {low:g}"] * bool(np.isfinite(low))
        ends += [f"<= {high:g}"] * bool(np.isfinite(high))

        def check(name: str, value: Any) -> float:
            return checks.real(name, value, self.remedy, low, high, open_low=open_low)

        super().__init__(check, f"number {' and '.join(ends)}".strip(), **details)


def Positive(**details: Any) -> Real:
    """A parameter that is a number greater than 0."""
    return Real(0.0, open_low=True, **{"remedy": "give a positive number", **details})


class Vector(Parameter[np.ndarray]):
    """A parameter: numbers above `low`, float64 `[length]` (None: any); `sizes`: range of typical lengths."""

    def __init__(
        self, low: float = -np.inf, length: int | None = None, sizes: tuple[int, int] = (1, 3), **details: Any
    ) -> None:
        self.low, self.length, self.sizes = low, length, sizes

        def check(name: str, value: Any) -> np.ndarray:
            write = f"write {name}=[{value}]" if checks.is_number(value) and length in (None, 1) else self.remedy
            array = checks.finite_array(name, value, [length], write)
            above = bool((array > low).all())
            checks.require(above, name, value, f"numbers above {low:g}", "raise the smallest entry")
            return array

        domain = ("numbers" if np.isinf(low) else f"numbers > {low:g}") + f", {length} of them" * (length is not None)
        super().__init__(check, domain, **{"remedy": "give a list of numbers", **details})


class Counts(Parameter["list[int]"]):
    """A parameter: at least `least` distinct integers in [low, high], in the given order."""

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
    """A parameter that is one of the given words."""

    def __init__(self, *options: str, **details: Any) -> None:
        domain, details = f"one of {', '.join(options)}", {"typical": options, **details}
        super().__init__(lambda name, value: checks.one_of(name, value, options, self.remedy), domain, **details)


class Flag(Parameter[bool]):
    """A parameter that is a boolean."""

    def __init__(self, **details: Any) -> None:
        details = {"typical": (False, True), **details}
        super().__init__(lambda name, value: checks.boolean(name, value, self.remedy), "True or False", **details)


class Parsed(Parameter[T]):
    """A parameter that `check(name, value)` converts or rejects, such as a distribution or a table of logits."""


class Table(Parsed[np.ndarray]):
    """A parameter: a table of finite numbers `[rows, columns]`; other parameters give its size."""

    def __init__(self, accepts: str, remedy: str, **details: Any) -> None:
        super().__init__(lambda name, value: checks.finite_array(name, value, [None, None], remedy), accepts, **details)


class Declared:
    """Base class of the point of a claim; its own and inherited class attributes of type `Parameter` are parameters."""

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
        named = ", ".join(map(str, unknown))
        remedy = f"drop {named}, or declare it in the class, {named} = sim.claims.Integer(0, 64, doc='versions')"
        checks.require(not unknown, "point", sorted(point), known, remedy if len(unknown) == 1 else f"drop {named}")
        for name, parameter in self.parameters.items():
            value = point.get(name)
            vars(self)[name] = None if value is None else parameter.read(value)
        self._refuse()

    def but(self, **values: Any) -> Self:
        """A copy of the point with other values of some parameters, already converted."""
        other = copy.copy(self)
        vars(other).update(values)
        other._refuse()
        return other

    def _refuse(self) -> None:
        for each in reversed(type(self).__mro__):
            vars(each).get("joint", Declared.joint)(self)

    def joint(self) -> None:
        """Check rules between parameters, after those of the base classes. Raises `InputError` for a broken rule."""

    def require(self, holds: Any, name: str, bound: str, remedy: str) -> None:
        """Raise `InputError` for the value of a parameter unless `holds` is true."""
        value = getattr(self, name)
        checks.require(bool(holds), name, value.tolist() if isinstance(value, np.ndarray) else value, bound, remedy)

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Example point of the claim, at which wrong formulas give values that differ from the right one."""
        return {name: p.example for name, p in cls.parameters.items() if p.example is not None}

    @classmethod
    def described(cls) -> list[dict[str, Any]]:
        """Rows that describe the parameters: name, domain, unit, meaning, example, whether optional."""
        keys = ("domain", "unit", "doc", "example", "optional")
        return [{"name": name, **{key: getattr(p, key) for key in keys}} for name, p in cls.parameters.items()]
