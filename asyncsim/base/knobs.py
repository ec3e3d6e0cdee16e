"""Numeric knobs: a number, or one number per replicate, so that a single program covers a phase diagram."""

import dataclasses
import functools
import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from asyncsim.base import calls, checks, plugins

MARK = {"knob": True}
"""Metadata of a dataclass field that may hold one number per replicate."""
Number = float | Sequence[float] | np.ndarray
"""Type of a numeric knob."""
_declared: Any = functools.cache(lambda kind: dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())


def knob(
    field: str, value: Any, remedy: str, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False
) -> Any:
    """Check a knob and return a float, or a tuple of floats with one entry per replicate."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0:
        return checks.real(field, value, remedy, low, high, open_low=open_low)
    values = checks.finite_array(field, value, (None,), f"{remedy} (a number, or one per replicate)")
    for extreme in (values.min(), values.max()):
        checks.real(field, float(extreme), remedy, low, high, open_low=open_low)
    return tuple(values.tolist())


def _every(part: Any) -> list[Any]:
    """All knobs of a part, including those of nested parts."""
    found: list[Any] = []
    parts = [part]
    for each in parts:
        parts += each if isinstance(each, tuple) else ()
        for f in _declared(type(each)):
            (found if "knob" in f.metadata else parts).append(getattr(each, f.name))
    return found


def lengths(part: Any) -> set[int]:
    """Distinct numbers of replicates that the array knobs of a part and its nested parts are given for."""
    return {len(value) for value in _every(part) if isinstance(value, tuple)}


def bound(part: Any) -> Iterator[Any]:
    """Knobs of a part and its nested parts that `bind` has turned into tensors `[R, 1]`."""
    return (value for value in _every(part) if hasattr(value, "unsqueeze"))


def arrays(part: Any, name: str) -> dict[str, tuple[float, ...]]:
    """Array knobs of a part called `name` and of its nested parts, keyed as `part.knob`."""
    return {label: value for label, value in values(part, name).items() if isinstance(value, tuple)}


def values(part: Any, name: str) -> dict[str, float | tuple[float, ...]]:
    """All knobs of a part called `name` and of its nested parts, keyed as `part.knob`."""
    numbers: dict[str, float | tuple[float, ...]] = {}
    for label, inside in _inside(part, name):
        several = isinstance(inside, tuple) and all(isinstance(x, float) for x in inside)
        numbers |= {label: inside} if several or isinstance(inside, (float, int)) else values(inside, label)
    return numbers


def with_value(part: Any, name: str, label: str, value: Any) -> Any:
    """A copy of the part called `name` with its knob `label` (as in `values`) set to a number, or one per replicate.

    The part that takes the knob as an argument is made again by its original call, which may reject the value. Copies
    of parts are copied and not checked.

    >>> from asyncsim.updates.steps import sgd
    >>> with_value(sgd(0.1), "sgd", "sgd.lr", 0.5).lr
    0.5
    """
    if not dataclasses.is_dataclass(part):
        return part
    changes: dict[str, Any] = {}
    named = iter(_inside(part, name))
    for f in dataclasses.fields(part):
        before = after = getattr(part, f.name)
        if f.metadata.get("knob"):
            after = value if next(named)[0] == label else before
        elif isinstance(before, tuple):
            every = tuple(with_value(each, next(named)[0], label, value) for each in before)
            after = every if any(new is not old for new, old in zip(every, before, strict=True)) else before
        elif dataclasses.is_dataclass(before):
            after = with_value(before, next(named)[0], label, value)
        changes |= {f.name: after} if after is not before else {}
    # What a part makes inside itself is checked by the part.
    made, argument = calls.of(part), label.rpartition(".")[2]
    changed = dataclasses.replace(part, **changes) if changes else part  # type: ignore[type-var]
    if made is None or not changes or any(calls.of(each) is not None for each in changes.values()):
        return changed
    make = plugins.function(made.name)
    if argument not in inspect.signature(make).parameters:
        return changed
    again = make(**{**made.arguments, argument: value})
    # One argument may be several knobs: beta of oapl is that of its advantage too.
    return again if label == f"{name}.{argument}" or again == changed else changed


def _inside(part: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Knobs and nested parts directly inside a part, with their names, in the order of its fields."""
    if not dataclasses.is_dataclass(part):
        return
    for f in dataclasses.fields(part):
        value = getattr(part, f.name)
        if f.metadata.get("knob"):
            yield f"{name}.{f.name}", value
        elif isinstance(value, tuple):
            yield from zip(numbered(value), value, strict=True)
        elif dataclasses.is_dataclass(value):
            # The weight is what users set through the method's own arguments.
            yield (name if f.name == "weight" else f.name), value


def numbered(parts: Iterable[Any]) -> list[str]:
    """Names of parts such as links; repeated names get a number.

    >>> from asyncsim.updates.steps import sgd
    >>> numbered([sgd(0.1), sgd(0.2)])
    ['sgd', 'sgd2']
    """
    names: list[str] = []
    counts: dict[str, int] = {}
    for part in parts:
        own = plugins.name_of(part)
        counts[own] = counts.get(own, 0) + 1
        names.append(own if counts[own] == 1 else f"{own}{counts[own]}")
    return names


def bind(part: Any, replicates: np.ndarray) -> Any:
    """A copy of the part with every array knob cut to the given replicates and turned into a tensor `[R, 1]`."""
    if hasattr(part, "numbered"):
        part = part.numbered(replicates)
    if not dataclasses.is_dataclass(part) or not lengths(part):
        return part
    import torch

    changes: dict[str, Any] = {}
    for f in dataclasses.fields(part):
        value = getattr(part, f.name)
        if f.metadata.get("knob") and isinstance(value, tuple):
            rows = np.asarray(value, dtype=np.float64)[replicates]
            changes[f.name] = torch.as_tensor(rows).to(torch.get_default_device()).unsqueeze(-1)
        elif lengths(value):
            several = isinstance(value, tuple)
            changes[f.name] = tuple(bind(v, replicates) for v in value) if several else bind(value, replicates)
    return dataclasses.replace(part, **changes)  # type: ignore[type-var]


def per_sample(value: Any, axes: int = 4) -> Any:
    """Reshape a bound knob `[R, 1]` to `axes` axes, such as `[R, 1, 1, 1]` per token; a plain number is unchanged."""
    return value if isinstance(value, float) else value.reshape(-1, *[1] * (axes - 1))
