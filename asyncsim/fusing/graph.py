"""The graph of a recorded function, with operations on the numbers of one replicate."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Shape = tuple[int, ...]
LARGEST = 131_072
"""Maximum size per replicate of an operation's result; larger arrays use a processor well without a program."""


class Unfit(Exception):
    """Raised for a function that cannot be compiled: it reads values of tensors, or an operation has no rule."""


@dataclass(eq=False)
class Var:
    """Graph node with the values of one tensor: `shape` with all replicates, on `axis` (None: all share the values).

    `kind`: "f" float64, "i" integers, "b" booleans. `operands` of the operation; `about`: its other settings.
    """

    operation: str
    operands: "tuple[Var, ...]"
    shape: Shape
    axis: int | None
    kind: str
    about: Any = None

    @property
    def inner(self) -> Shape:
        """Sizes of all axes except the replicate axis."""
        return tuple(size for place, size in enumerate(self.shape) if place != self.axis)

    @property
    def lanes(self) -> int:
        """Number of values per replicate."""
        return math.prod(self.inner)

    def places(self) -> np.ndarray:
        """Index of every lane, in the layout of the tensor with one replicate."""
        ones = tuple(1 if place == self.axis else size for place, size in enumerate(self.shape))
        return np.arange(self.lanes).reshape(ones)


@dataclass
class Graph:
    """Graph of tensor operations without duplicates; inputs are in the order of their first use."""

    known: dict[Any, Var] = field(default_factory=dict)
    scalars: list[float] = field(default_factory=list)

    def make(
        self, operation: str, operands: tuple[Var, ...], shape: Shape, axis: int | None, kind: str, about: Any = None
    ) -> Var:
        """Node of an operation, the same node whenever operation and operands are the same."""
        known = about.tobytes() if isinstance(about, np.ndarray) else about
        key = (operation, tuple(id(x) for x in operands), tuple(shape), axis, kind, known)
        if key not in self.known:
            made = Var(operation, operands, tuple(shape), axis, kind, about)
            if made.lanes > LARGEST:
                raise Unfit(f"{made.lanes} numbers for each replicate, at most {LARGEST}")
            self.known[key] = made
        return self.known[key]

    def fill(self, value: float | int | bool, shape: Shape = (), axis: int | None = None) -> Var:
        """Node with one constant in every element."""
        kind = "b" if isinstance(value, bool) else "i" if isinstance(value, int) else "f"
        about: Any = value
        if kind == "f" and not (math.isinf(value) or math.isnan(value) or value in (0.0, 1.0, -1.0, 0.5, 2.0)):
            # Settings are told at the call, so that runs that differ in them share a program.
            if value not in self.scalars:
                self.scalars.append(value)
            about = ("scalar", self.scalars.index(value))
        return self.make("fill", (), shape, axis, kind, about)

    def cast_fill(self, value: float | int | bool, shape: Shape, axis: int | None, kind: str) -> Var:
        """Node with one constant in every element, converted to a kind."""
        return self.fill({"f": float, "i": int, "b": bool}[kind](value), shape, axis)

    def arranged(self, source: Var, places: np.ndarray, shape: Shape, axis: int | None) -> Var:
        """Rearrange the lanes of a node: `places` has the index of the source lane for each element of the result."""
        flat = np.ascontiguousarray(places).reshape(-1)
        if source.operation == "fill":
            return self.make("fill", (), shape, axis, source.kind, source.about)
        if source.operation == "arrange":
            flat, source = source.about[flat], source.operands[0]
        if source.shape == shape and source.axis == axis and np.array_equal(flat, np.arange(source.lanes)):
            return source
        return self.make("arrange", (source,), shape, axis, source.kind, flat)

    def cast(self, value: Var, kind: str) -> Var:
        """Convert the numbers of a node to another kind."""
        return value if value.kind == kind else self.make("cast", (value,), value.shape, value.axis, kind)

    def broadcast(self, value: Var, shape: Shape, axis: int | None) -> Var:
        """Broadcast a node to the shape of a result with replicates on `axis`; a shared node keeps size 1 there."""
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
