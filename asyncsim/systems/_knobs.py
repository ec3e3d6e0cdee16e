"""A preset is a table: a trainer's knobs, each declared once in the signature, and settings of the event model."""

import functools
import inspect
import math
import textwrap
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from asyncsim.base import calls, checks, records
from asyncsim.base.laws import as_law
from asyncsim.base.parts import Knob, handed_on
from asyncsim.base.parts import flag as flag
from asyncsim.systems._system import PLACES, System


def count(words: str, default: Any = ..., remedy: str = "count groups", low: int = 1, high: int | None = PLACES) -> Any:
    return Knob(default, words, lambda name, value: checks.integer(name, value, low, remedy, high))


def samples(words: str, default: Any = ..., remedy: str = "count samples", low: int = 1) -> Any:
    """Declare a knob that is a number of samples, which may exceed the number of slots."""
    return count(words, default, remedy, low, checks.LARGEST)


def limit(words: str, remedy: str, low: int = 1) -> Any:
    """Declare a knob that is a number, or None (or infinity) for no limit, which is the default."""
    return Knob(None, words, lambda name, value: optional(name, value, low, remedy))


def given(words: str, default: Any = ...) -> Any:
    """Declare a knob whose value the preset reads itself, together with other knobs."""
    return handed_on(default, words)


def choice(*allowed: str, words: str) -> Any:
    """Declare a knob that is one of several words, by default the first; `words` complete "say ..."."""
    kind, names = f"Literal{list(allowed)}", f"{', '.join(allowed[:-1])} or {allowed[-1]}, {words}"
    return Knob(allowed[0], names, lambda name, value: checks.one_of(name, value, allowed, f"say {words}"), kind=kind)


def share(words: str, default: Any, remedy: str, low: float = 0.0, high: float = math.inf, **more: Any) -> Any:
    """Declare a knob that is a fraction or factor, multiplied with the trainer's own rounding.

    Trainers round the product of floats. Truncated, 115 % of 100 are 114; rounded up, 110 % of 100 are 111.
    """

    def read(name: str, value: Any) -> int | float:
        number = checks.real(name, value, remedy, low, high, **more)
        return int(number) if number.is_integer() else number

    return Knob(default, words, read)


WHOLE = 100
"""Whole lengths beyond it may be tokens that were meant to have a speed."""
_LAW, _TIME = "distribution of seconds per sample (of tokens if `rate` is set)", "seconds to train on a batch"
_SHARED = {
    "length": Knob(..., _LAW, as_law, kind="Law | float | str"),
    "load": handed_on(None, "generation rate divided by training rate (or give `train_time`)", kind="float | None"),
    "train_time": handed_on(None, _TIME, kind="Law | float | str | None"),
    "sync_time": handed_on(0.0, "seconds of a publish", kind="float"),
}
"""Arguments of presets behind their own knobs: settings of a system under the same names."""
ALONE = {
    "length": Knob(1.0, _LAW, as_law, kind="Law | float | str"),
    "train_time": handed_on(1.0, _TIME, kind="Law | float | str"),
    "sync_time": _SHARED["sync_time"],
}
"""The same where nothing depends on the time of training."""
_MODEL = handed_on(
    None,
    "other settings of the event model by name, such as {'rate': 30} (tokens per second of a sample) or "
    "{'reward': '@delays.csv:ms*0.001'}",
    kind="Mapping[str, Any] | None",
)


def preset(
    reference: str, places: str, times: Mapping[str, Knob] = _SHARED
) -> Callable[[Callable[..., dict[str, Any]]], Callable[..., System]]:
    """Decorator that makes a preset from a function from knobs to `settings`; each parameter's default is its `Knob`.

    The preset takes `times` and `model` besides. It records its knobs as they were given, but for those in the settings
    under `knobs`. Too many places are refused under the knob `places`. What a docstring says of arguments, what is
    returned and raised, and the `reference` stand before its example.
    """

    def make(function: Callable[..., dict[str, Any]]) -> Callable[..., System]:
        name, own = function.__name__, inspect.signature(function).parameters
        knobs: dict[str, Knob] = {each: parameter.default for each, parameter in own.items()}
        more = {**times, "model": _MODEL}
        keywords = (
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=knob.default, annotation=knob.kind)
            for n, knob in more.items()
        )
        signature = inspect.Signature(
            [*(p.replace(default=p.default.default) for p in own.values()), *keywords], return_annotation="System"
        )

        @functools.wraps(function)
        def build(*arguments: Any, **named: Any) -> System:
            bound = calls.bound(name, signature, arguments, named, build)
            bound.apply_defaults()
            given = bound.arguments
            event = function(**{each: knob.read(each, given[each]) for each, knob in knobs.items()})
            recorded = {each: records.plain(given[each]) for each in knobs} | event.pop("knobs", {})
            event |= {each: knob.read(each, given[each]) for each, knob in times.items()}
            if "places" in event:
                many: int = event.pop("places")
                few, remedy = 1 <= many <= PLACES, f"{many} generator slots follow from it; choose a smaller number"
                limit = f"such that 1 to {PLACES} groups are generated at once"
                checks.require(few, places, recorded[places], limit, remedy)
                event["rates"] = (1.0,) * many
            system, model = System(name, recorded, **event), given["model"]
            if model is not None:
                remedy = "write model={'rate': 30}"
                checks.require(isinstance(model, Mapping), "model", model, "settings by name", remedy)
                system = system.modeled(model)
            law = system.length
            # With a load all times scale with the length; beside seconds of training its unit matters.
            means = law.parameters[:1] if law.kind == "lognormal" and not given.get("load") else (0.0,)
            lengths = law.parameters if law.kind in ("constant", "empirical", "recorded") else means
            if {*system.rates} == {1.0} and max(lengths) > WHOLE and not any(number % 1.0 for number in lengths):
                text = f"length = {max(lengths):g} is read as seconds, because a sample decodes 1 unit per second; if "
                text += "it is in tokens, add --set model.rate=30, in tokens per second (Python: model={'rate': 30})"
                warnings.warn(checks.RunWarning(text), stacklevel=3)
            return system

        words = "; ".join(f"`{each}`, {knob.words}" for each, knob in (knobs | more).items())
        told = f"Arguments: {words}. Returns a system. Raises `InputError`. Source: {reference}."
        text, mark, example = inspect.cleandoc(function.__doc__ or "").partition("\n\n>>> ")
        build.__doc__ = f"{text}\n\n{textwrap.fill(told, 116, break_on_hyphens=False)}{mark}{example}"
        vars(build).update(__signature__=signature, knobs=knobs, places=places)
        return build

    return make


def settings(places: int, batch: int, **more: Any) -> dict[str, Any]:
    """Settings of the event model, given the number of slots (of rate 1) and groups per batch; see `System`."""
    return {"places": places, "groups_per_batch": batch, **more}


def ahead(batch: int, versions: int, places: int | None = None, **more: Any) -> dict[str, Any]:
    """Settings with K = (versions + 1) batches of permits that return at the publish, and a slot for each permit."""
    tickets = (versions + 1) * batch
    return settings(tickets if places is None else places, batch, tickets=tickets, **more)


class Source(NamedTuple):
    """Source from which a preset was read: a repository at a commit, a paper or a textbook, and the date."""

    origin: str
    date: str
    path: str
    kind: str = "source"

    def line(self) -> str:
        """Format the preset's source in one line."""
        place = f"{self.origin} {self.path}".strip()
        dated = ", ".join(part for part in (place, f"of {self.date}" if self.date else "") if part)
        return f"Read: {dated} ({self.kind})" if dated else f"Read: no trainer's source ({self.kind})"


def source(origin: str = "", date: str = "", path: str = "", kind: str = "source") -> Callable[[Any], Any]:
    """Decorator that records what a preset was read from, in November 2026, as the preset's attribute `source`."""

    def add(make: Any) -> Any:
        make.source = Source(origin, date, path, kind)
        return make

    return add


def optional(name: str, value: Any, low: int, remedy: str) -> int | None:
    """Validate a knob that is a number, or None (or infinity) for no limit."""
    endless = value is None or (isinstance(value, float) and value == math.inf)
    return None if endless else checks.integer(name, value, low, f"{remedy}, or None for no limit", PLACES)


def groups_of(name: str, samples: int, size: int, by: str) -> int:
    checks.require(samples % size == 0, name, samples, f"a multiple of {by} = {size}", "train whole groups")
    return samples // size
