"""What presets share: arguments beyond a trainer's own knobs, readers of knobs, equal places."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypedDict, cast, get_type_hints

from asyncsim.base import checks, plugins, records
from asyncsim.base.laws import Law
from asyncsim.systems._system import PLACES, System

Length = Law | float | str
Time = Law | float | str | None

Knobs = ParamSpec("Knobs")


class Times(TypedDict, total=False):
    """Arguments of every preset behind `length`: settings of a system, with their defaults there; see `preset`."""

    load: float | None
    train_time: Time
    sync_time: float


_SHARED = (
    "`length`, distribution of a sample's work at one unit a second; `load`, generation over training rate, or "
    "`train_time`, seconds of a batch; `sync_time`, seconds of a publish. Returns a system. Raises `InputError`. "
    "Source:"
)
"""Words that docstrings of presets share: on `length` and `Times`, and behind them."""
_OTHERS = (
    "`model`, other settings of the event model by name, such as {'rate': 30} (tokens a second of a sample) or "
    "{'reward': '@delays.csv:ms*0.001'}"
)
_MODEL = "Mapping[str, Any] | None"


def preset(make: Callable[Knobs, System]) -> Callable[Knobs, System]:
    """A preset with the argument `model`; of one that ends in `**times` signature and docstring name each of them.

    The system records its own knobs as they were given, but for those that the preset records itself.

    Its docstring lists the trainer's own knobs ("Arguments: ... Source: ..."); one that describes `length` itself stays
    as it is. Raises `TypeError` for arguments that are not in the signature.
    """
    signature = _full_signature(make)

    @functools.wraps(make)
    def build(*knobs: Knobs.args, **settings: Knobs.kwargs) -> System:
        for name in settings:
            if name not in signature.parameters:
                raise TypeError(f"{make.__name__}() got an unexpected keyword argument {name!r}")
        model = settings.pop("model", None)
        system = make(*knobs, **settings)
        object.__setattr__(system, "knobs", _own(signature, knobs, settings) | dict(system.knobs))
        if model is None:
            return system
        checks.require(isinstance(model, Mapping), "model", model, "settings by name", "write model={'rate': 30}")
        return system.modeled(cast(Mapping[str, Any], model))

    build.__signature__ = signature  # type: ignore[attr-defined]
    build.__doc__ = _full_docstring(inspect.getdoc(make) or "")
    return build


def _own(signature: inspect.Signature, arguments: tuple[Any, ...], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The trainer's own knobs of a call, as JSON can hold them; infinity as None."""
    bound = signature.bind(*arguments, **settings)
    bound.apply_defaults()
    own = [p.name for p in signature.parameters.values() if p.kind is not p.KEYWORD_ONLY]
    return {name: records.plain(bound.arguments[name]) for name in own}


def _full_signature(make: Callable[..., Any]) -> inspect.Signature:
    """The signature with each of `Times` in place of `**times`; types are text where they are in the preset's file."""
    signature = inspect.signature(make)
    model = inspect.Parameter("model", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_MODEL)
    *knobs, last = signature.parameters.values()
    if last.kind is not last.VAR_KEYWORD:
        return signature.replace(parameters=[*knobs, last, model])
    text = isinstance(signature.return_annotation, str)
    types = inspect.get_annotations(Times) if text else get_type_hints(Times)
    defaults = {field.name: field.default for field in dataclasses.fields(System)}
    times = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults[name],
            annotation=kind.__forward_arg__ if text else kind,
        )
        for name, kind in types.items()
    ]
    return signature.replace(parameters=[*knobs, *times, model])


def _full_docstring(doc: str) -> str:
    """The docstring with the shared arguments added to its own."""
    paragraphs = doc.split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if paragraph.startswith("Arguments:"):
            told = " ".join(paragraph.split())
            if "`length`" not in told and "`service`" not in told:
                knobs, _, source = told.partition(". Source:")
                told = f"{knobs}; {_SHARED}{source}"
            told = told.replace(". Returns a system.", f"; {_OTHERS}. Returns a system.")
            paragraphs[number] = textwrap.fill(told, 116, break_on_hyphens=False)
    return "\n\n".join(paragraphs)


def count(name: str, value: Any, low: int = 1, remedy: str = "count groups", high: int = PLACES) -> int:
    """A number of groups, batches or versions."""
    return checks.integer(name, value, low, remedy, high)


def renamed(**names: str) -> Callable[[Callable[..., System]], Callable[..., System]]:
    """Refuse names that a trainer's knobs had before, each with the name that it has now."""
    today = {before: f"the trainer's knob is {now} today; write that" for before, now in names.items()}
    return lambda make: plugins.refusing(make, today)


def optional(name: str, value: Any, low: int, remedy: str) -> int | None:
    """A number, or None (or infinity) for no limit."""
    endless = value is None or (isinstance(value, float) and value == math.inf)
    return None if endless else count(name, value, low, f"{remedy}, or None for no limit")


def alike(name: str, value: Any, places: int) -> tuple[float, ...]:
    """Places of rate 1; too many are refused under the name of their knob."""
    checks.require(
        1 <= places <= PLACES,
        name,
        value,
        f"such that 1 to {PLACES} groups are generated at once",
        f"{places} generator slots follow from it; choose a smaller number",
    )
    return (1.0,) * places


def share(name: str, value: Any, remedy: str, low: float = 0.0, high: float = math.inf, **more: Any) -> int | float:
    """A knob that is a share of something, whole or not, to be multiplied as its trainer does.

    Trainers round the product of floats. Truncated, 115 % of 100 are 114; rounded up, 110 % of 100 are 111.
    """
    number = checks.real(name, value, remedy, low, high, **more)
    return int(number) if number.is_integer() else number


def groups_of(name: str, samples: Any, size: int, by: str) -> int:
    """Groups in so many samples, of which a group has `size`, the knob `by`."""
    number = count(name, samples, 1, "count samples", checks.LARGEST)
    checks.require(number % size == 0, name, number, f"a multiple of {by} = {size}", "train whole groups")
    return number // size
