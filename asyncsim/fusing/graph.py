"""The graph of a recorded function: what each operation makes of the numbers of one replicate."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LARGEST = 131_072
"""Numbers of one replicate that an operation may have; larger arrays keep a processor busy without a program."""


class Unfit(Exception):
    """A function that cannot become a program: it asks what the numbers are, or does something without a rule."""


@dataclass(eq=False)
class Var:
    """Numbers of one replicate: `shape` as the tensor has it, `axis` the one of the replicates (None: all share them).

    `kind`: "f" float64, "i" integers, "b" booleans. `operands`: what the operation reads; `about`: what else it needs.
    """

    operation: str
    operands: "tuple[Var, ...]"
    shape: tuple[int, ...]
    axis: int | None
    kind: str
    about: Any = None

    @property
    def inner(self) -> tuple[int, ...]:
        """Sizes of the axes but that of the replicates."""
        return tuple(size for place, size in enumerate(self.shape) if place != self.axis)

    @property
    def lanes(self) -> int:
        """How many numbers a replicate has."""
        return math.prod(self.inner)

    def places(self) -> np.ndarray:
        """Number of every lane, laid out like the tensor with one replicate."""
        ones = tuple(1 if place == self.axis else size for place, size in enumerate(self.shape))
        return np.arange(self.lanes).reshape(ones)


@dataclass
class Graph:
    """Operations by what they are, so that equal ones are made once; inputs in the order of their first use."""

    known: dict[Any, Var] = field(default_factory=dict)
    scalars: list[float] = field(default_factory=list)

    def make(
        self,
        operation: str,
        operands: tuple[Var, ...],
        shape: tuple[int, ...],
        axis: int | None,
        kind: str,
        about: Any = None,
    ) -> Var:
        """The operation's result, the same object for the same operation on the same operands."""
        known = about.tobytes() if isinstance(about, np.ndarray) else about
        key = (operation, tuple(id(x) for x in operands), tuple(shape), axis, kind, known)
        if key not in self.known:
            made = Var(operation, operands, tuple(shape), axis, kind, about)
            if made.lanes > LARGEST:
                raise Unfit(f"{made.lanes} numbers for each replicate, at most {LARGEST}")
            self.known[key] = made
        return self.known[key]

    def fill(self, value: float | int | bool, shape: tuple[int, ...] = (), axis: int | None = None) -> Var:
        """One number everywhere."""
        kind = "b" if isinstance(value, bool) else "i" if isinstance(value, int) else "f"
        about: Any = value
        if kind == "f" and not (math.isinf(value) or math.isnan(value) or value in (0.0, 1.0, -1.0, 0.5, 2.0)):
            # Settings are told at the call, so that runs that differ in them share a program.
            if value not in self.scalars:
                self.scalars.append(value)
            about = ("scalar", self.scalars.index(value))
        return self.make("fill", (), shape, axis, kind, about)

    def cast_fill(self, value: float | int | bool, shape: tuple[int, ...], axis: int | None, kind: str) -> Var:
        """One number everywhere, as a kind."""
        return self.fill({"f": float, "i": int, "b": bool}[kind](value), shape, axis)

    def arranged(self, source: Var, places: np.ndarray, shape: tuple[int, ...], axis: int | None) -> Var:
        """Lanes of a value laid out anew: `places` says which lane stands at each place of the result."""
        flat = np.ascontiguousarray(places).reshape(-1)
        if source.operation == "fill":
            return self.make("fill", (), shape, axis, source.kind, source.about)
        if source.operation == "arrange":
            flat, source = source.about[flat], source.operands[0]
        if source.shape == shape and source.axis == axis and np.array_equal(flat, np.arange(source.lanes)):
            return source
        return self.make("arrange", (source,), shape, axis, source.kind, flat)

    def cast(self, value: Var, kind: str) -> Var:
        """The same numbers as another kind."""
        if value.kind == kind:
            return value
        return self.make("cast", (value,), value.shape, value.axis, kind)

    def broadcast(self, value: Var, shape: tuple[int, ...], axis: int | None) -> Var:
        """A value read in the shape of a result whose replicates stand at `axis`; one that all share keeps size 1."""
        ahead = len(shape) - len(value.shape)
        own = None if value.axis is None else value.axis + ahead
        if own is not None and own != axis:
            raise Unfit("replicates stand at different axes")
        if own is None and axis is not None and axis >= ahead and value.shape[axis - ahead] != 1:
            # As many as there are replicates, by chance or as their number: only one number everywhere is surely both.
            if value.operation != "fill":
                raise Unfit("an axis as long as there are replicates")
            value, ahead = self.make("fill", (), (), None, value.kind, value.about), len(shape)
        one = tuple(1 if place == axis else size for place, size in enumerate(shape))
        wide = np.broadcast_to(value.places().reshape((1,) * ahead + value.places().shape), one)
        return self.arranged(value, wide, shape if own is not None else one, own)
