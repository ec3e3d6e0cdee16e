"""What workers are told of a run: what its blocks share as bytes, from which a fresh process makes the same parts."""

from __future__ import annotations

import functools
import importlib
import io
import operator
import pickle
import sys
from types import FunctionType
from typing import Any

from asyncsim.running.blocks import Shared
from asyncsim.running.spec import Spec

_REASONS = (pickle.PicklingError, AttributeError, ImportError, RecursionError, TypeError, ValueError)
"""What is raised for something that has no bytes, here or on the other side."""


class Unsendable(Exception):
    """A run has a part that no other process can have."""


def packed(shared: Shared) -> bytes:
    """The bytes of what blocks share; raises `Unsendable` with a reason where there are none.

    Parts are sent as they are, else by the calls that made them.
    """
    try:
        return _bytes(shared)
    except _REASONS as error:
        reason = str(error).splitlines()[0]
    try:
        return _bytes((shared.spec.to_dict(), *shared[1:]))
    except _REASONS:
        raise Unsendable(reason) from None


def unpacked(data: bytes) -> Shared:
    """What `packed` was given; raises `Unsendable` where this process cannot have it."""
    try:
        spec, *others = pickle.loads(data)
        return Shared(spec if isinstance(spec, Spec) else Spec.from_dict(spec, trust=None), *others)
    except _REASONS as error:
        raise Unsendable(str(error).splitlines()[0]) from None


def _bytes(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Refuses what only this process can find, and finds functions that stand inside a metric of their name."""

    def reducer_override(self, part: Any) -> Any:
        """How a class or function is told; everything else as usual."""
        if not isinstance(part, (type, FunctionType)):
            return NotImplemented
        module, name = part.__module__, part.__qualname__
        if not _findable(module):
            raise pickle.PicklingError(f"{name} stands in {module}, which other processes cannot import")
        there = getattr(sys.modules.get(module), name, None)
        if there is not part and getattr(there, "measure", None) is part:
            return _measure_of, (module, name)
        return NotImplemented


def _measure_of(module: str, name: str) -> Any:
    """The function inside a metric, which stands under the function's name."""
    return operator.attrgetter(f"{name}.measure")(importlib.import_module(module))


@functools.cache
def _findable(module: str) -> bool:
    """Whether a fresh process finds the module: neither the script that was started nor a file loaded by its path."""
    top = module.partition(".")[0]
    return top != "__main__" and any(finder.find_spec(top, None) is not None for finder in sys.meta_path)
