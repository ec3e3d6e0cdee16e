"""The function and the arguments that made a part, so that the part can be saved and made again."""

import copy
import dataclasses
import dis
import functools
import inspect
import numbers
import os
import re
import sys
import textwrap
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from asyncsim.base import checks, outside

Called = TypeVar("Called", bound=Callable[..., Any])


class Made(NamedTuple):
    """A recorded call: the name of a function, such as methods.grpo or my_parts.py:power, and its arguments."""

    name: str
    arguments: Mapping[str, Any]


_TAKES: dict[str, inspect.Signature] = {}
"""Arguments of the calls that make parts, by the name of the call."""
_MADE: dict[int, tuple[weakref.ref[Any], Made]] = {}
"""How each living part was made, by its identity: equal parts may come from different calls."""


def meanings(function: Any, names: Iterable[str]) -> dict[str, str]:
    """Extract from a docstring the meaning of each argument or attribute, up to the first stop; "" if there is none."""
    text = " ".join((getattr(function, "__doc__", None) or "").split())
    found = {}
    for name in names:
        marked = re.search(rf"`{name}`(?:(?:,| and|, and) `\w+`)*(?: >=? \d+)?[:,]? ((?:[^.;]|\.(?=\w))+)", text)
        match = marked or re.search(rf"(?<![\w.=]){name}: ((?:[^.;]|\.(?=\w))+)", text)
        found[name] = textwrap.shorten(match[1], 140, placeholder=" ...").rstrip(" ,`") if match else ""
    return found


def examples(lacks: Iterable[str], parameters: Mapping[str, inspect.Parameter], given: Iterable[str]) -> dict[str, str]:
    """Return example values, as written in Python, for missing arguments and a missing clock; "..." if unknown."""
    values = {}
    # A system takes either load or train_time.
    for name in [*lacks, *["load"] * ("load" in parameters and not {"load", "train_time"} & {*given})]:
        kind = re.search("int|float", str(parameters[name].annotation))
        usual = {"int": "8", "float": "1.0"}[kind[0]] if kind else "..."
        values[name] = checks.advice(name, "example", otherwise=usual)
    return values


_TYPES: dict[str, Any] = {"bool": (bool, np.bool_, int), "int": numbers.Integral, "float": numbers.Real, "str": str}
_TYPES |= {"Sequence": (list, tuple), "Iterable": Iterable, "Mapping": Mapping, "Callable": Callable}
_TYPES |= {"PathLike": os.PathLike, "None": type(None)}
"""Types of values by the words of annotations; others are classes of that name."""
_WRONG = (TypeError, ValueError, AttributeError, RuntimeError, OverflowError)
"""Errors that may come from arguments of another kind."""


def typed(given: Mapping[str, Any], signature: inspect.Signature, function: Any) -> None:
    """Raise `CallError` for the first argument whose value has none of the types in its annotation."""
    for name, value in given.items():
        parameter = signature.parameters[name]
        number = parameter.annotation is parameter.empty and checks.is_number(parameter.default)
        annotation = inspect.formatannotation(float if number else parameter.annotation)
        text = re.sub(r"\[(?:[^][]|\[[^][]*\])*\]", "", annotation)
        kinds = [word.strip("' ").rpartition(".")[2] for word in text.split("|")]
        classes = {each.__name__ for each in type(value).__mro__}
        fits = any(kind in classes or isinstance(value, _TYPES.get(kind, ())) for kind in kinds)
        known = [checks.advice(kind, "kind").partition("; ")[::2] for kind in kinds if kind != "None"]
        if not fits and all(words for words, _ in known) and parameter.kind in (1, 3):
            words, meaning = " or ".join(words for words, _ in known), meanings(function, [name])[name]
            remedy = next((write for _, write in known if write), f"{name}: {meaning}" if meaning else f"give {words}")
            remedy = f"write {name}=[{value}]" if "a list" in words and checks.is_number(value) else remedy
            raise checks.CallError(name, value, words, remedy)


def bound(
    name: str, signature: inspect.Signature, arguments: Any, settings: Mapping[str, Any], function: Any = None
) -> inspect.BoundArguments:
    """Arguments of a call by name; raises `CallError` for arguments unknown to the function, with similar names."""
    try:
        return signature.bind(*arguments, **settings)
    except TypeError:
        known = {n: p for n, p in signature.parameters.items() if n not in ("self", "_cls")}
    field, takes = f"{name} argument", f"it takes {', '.join(known) or 'nothing'}"
    place = [n for n, p in signature.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    given = {*place[: len(arguments)], *settings}
    lacks = [n for n, p in known.items() if p.default is p.empty and n not in given and p.kind <= p.KEYWORD_ONLY]
    lacks = [n for n in lacks if known[n].kind is not inspect.Parameter.VAR_POSITIONAL]
    usual, refused = checks.advice("()", name), list[tuple[str, str]]()
    for each in (each for each in settings if each not in known):
        own, theirs = checks.advice(each, name), checks.advice(each, "")
        # The same word behind another, as batch_size in consumer_batch_size.
        behind = next((f"write {n}=VALUE" for n in known if n.endswith(f"_{each}")), "")
        # A word of other libraries is no misspelling of a name that looks like it.
        alike = checks.hint(each, known, "", 2.0 if theirs else 0.65)
        call = checks.advice("=", name) or (f"{usual} ({takes})" if usual and not lacks else usual)
        at = checks.advice(each, "model") if "model" in known else call
        value = len(settings[each]) if isinstance(settings[each], list) and "seed" in each else settings[each]
        value = str(value) if checks.is_number(value) else "VALUE"
        refused.append((each, (own or behind or alike or at or theirs or takes).replace("VALUE", value)))
    if refused:
        (each, remedy), *others = refused
        error = checks.CallError(field, each, "one that it takes", remedy)
        for other, its in others:
            error.add_note(f"also {other}: {'no such argument' if its in (takes, remedy) else its}")
        strange = next((word for word, its in refused if its == takes), "")
        raise error.explaining(strange, meanings(function, known)) if strange else error
    spread = next((n for n, p in known.items() if p.kind is p.VAR_POSITIONAL and n in settings), None)
    if spread:
        raise checks.CallError(field, spread, "given by position", f"write {name}(a, b), without {spread}=")
    most = len(place) - (len(signature.parameters) - len(known))
    if lacks:
        values = examples(lacks, known, given)
        written = ", ".join(f"{each}={value}" for each, value in values.items())
        remedy = usual or f"write {name}({written}), with your own values"
        raise checks.CallError(field, ", ".join(lacks), "given", remedy).explaining("", meanings(function, values))
    twice = next((n for n in place[: len(arguments)] if n in settings), None)
    if twice is not None:
        first = checks.shown(arguments[place.index(twice)])
        remedy = f"leave it out, or name what stands in its place, {first}: one of {', '.join(known)}"
        raise checks.CallError(field, twice, "given once", usual or remedy)
    raise checks.CallError(f"{name} arguments", arguments[-1], f"named behind the first {most}", usual or takes)


def named(function: Called) -> Called:
    """Wrap a function or class so that calls with unknown arguments raise a `CallError` with similar names."""
    if isinstance(function, type):
        function.__init__ = named(function.__init__)  # type: ignore[misc]
        if hasattr(function, "replace"):
            function.__setattr__ = _fixed  # type: ignore[assignment]
        function.__getattr__ = getattr(function, "__getattr__", vars(Told)["__getattr__"])  # type: ignore[attr-defined]
        return function
    owner, _, name = re.sub(r"\.__(init|new)__$", "", function.__qualname__).rpartition(".")
    name, signature = f"{owner.lower()}.{name}" if owner else name, inspect.signature(function)
    flags = {n for n, p in signature.parameters.items() if p.annotation in (bool, "bool", bool | None, "bool | None")}

    @functools.wraps(function)
    def call(*arguments: Any, **settings: Any) -> Any:
        # "false" would be taken for True.
        typed({flag: settings[flag] for flag in flags & settings.keys()}, signature, function)
        try:
            return function(*arguments, **settings)
        except Exception as error:
            refused = outside.part_error(error)
        if isinstance(refused, _WRONG) and not isinstance(refused, checks.InputError):
            typed(bound(name, signature, arguments, settings, function).arguments, signature, function)
        raise refused

    return call  # type: ignore[return-value]


def answering(value: Any) -> Any:
    """Wrap a function or class as `named` does, so that wrong arguments get an answer; other objects stay unchanged."""
    make = value.__init__ if isinstance(value, type) else value  # type: ignore[misc]
    known = hasattr(make, "cache_info") or (inspect.isfunction(make) and not hasattr(make, "__wrapped__"))
    if known and make is not value:
        value.__init__ = named(make)
    return named(value) if known and make is value else value


def _fixed(self: Any, name: str, value: Any) -> None:
    kind, made = type(self).__name__, of(self)
    write = f"write {kind.lower()} = {kind.lower()}.replace({name}=...)"
    if made and not (hasattr(self, "replace") and hasattr(self, name)):
        write = f"make another one: sim.{made.name}(..., {name}={value!r})"
    raise dataclasses.FrozenInstanceError(f"{kind}.{name} cannot be changed; {write}")


def unknown_name(
    place: str, name: str, hint: str, meanings: Mapping[str, str] | None = None, most: int = 8
) -> Exception:
    """Error of a module's `__getattr__`; for `from module import NAME` an ImportError, as Python drops others."""
    frame, text = sys._getframe(2), f"{place} has no {name!r}; {hint}"
    code = frame.f_code.co_code[frame.f_lasti] if frame.f_lasti >= 0 else -1
    # Without names, else Python adds its own "Did you mean".
    error = ImportError(text) if code == dis.opmap["IMPORT_FROM"] else AttributeError(text, name=None, obj=None)
    if note := checks.explained(name, meanings or {}, most):
        error.add_note(note)
    return error


class Lacking(AttributeError):
    """Error for a missing attribute. The message is built only when it is read, since programs often probe for names.

    `name` and `obj` are None, from which Python would make a second "Did you mean" behind the message.
    """

    def __init__(self, asked: str, of: Any) -> None:
        super().__init__(asked, name=None, obj=None)
        self.asked, self.of = asked, of

    def __str__(self) -> str:
        of, name, kind = self.of, self.asked, type(self.of).__name__
        own = [n for n in dir(of) if n[0] != "_"]
        known = checks.advice(name, kind, *own[::-1], "any")
        if "metrics" in own and isinstance(of.metrics, dict) and name in of.metrics:
            known = f"write {kind.lower()}[{name!r}]"
        inner = outside.holder(of, name)
        remedy = known.replace("ANSWER", kind.lower()) or (inner and f"write {kind.lower()}.{inner}")
        remedy = remedy or checks.hint(name, own, "", 0.75)
        if not remedy:
            # A default has the docstring of its type, which says nothing of it.
            static = {n: x for n, x in vars(type(of)).items() if n in own and x.__doc__}
            static = {n: x for n, x in static.items() if x.__doc__ != type(x).__doc__}
            first = {n: x.__doc__.strip().splitlines()[0] for n, x in static.items()}
            about = {**meanings(type(of), own), **{n: x for n, x in first.items() if x[:5] != "Alias"}}
            remedy = f"it has {', '.join(own)}\n{checks.explained(name, about, 24)}".rstrip()
        return f"{kind} has no {name!r}; {remedy}"

    def __reduce__(self) -> tuple[type[AttributeError], tuple[str]]:
        return AttributeError, (str(self),)


class Keyed(dict[str, Any]):
    """A dict of results whose error about an unknown key lists the known keys, nested keys as [outer][inner]."""

    def __missing__(self, name: str) -> Any:
        inner = {
            f"{key}_{each}": f"[{key!r}][{each!r}]"
            for key, own in self.items()
            if isinstance(own, dict)
            for each in own
        }
        known = {key: f"[{key!r}]" for key in self} | inner
        near = checks.near(str(name), known)
        all_of = checks.clipped(", ".join(self), 600)
        raise KeyError(f"no {name!r}; " + (f"write {known[near[0]]}" if near else f"it has {all_of}"))


class Told:
    """Base class of results: errors list the known attributes, and correct a wrong call of a method."""

    if not TYPE_CHECKING:  # checkers of types go by what is declared

        def __init_subclass__(cls, **settings):
            super().__init_subclass__(**settings)
            for name, own in {**vars(cls)}.items():
                if isinstance(own, classmethod) or (inspect.isfunction(own) and not name.startswith("_")):
                    plain = getattr(own, "__func__", own)
                    setattr(cls, name, named(plain) if plain is own else classmethod(named(plain)))

        def __getitem__(self, name):
            kind = type(self).__name__
            if not (advice := checks.advice("[]", kind)):
                getattr(self, str(name))
            raise TypeError(f"{kind} is no mapping; {advice or f'write .{name}'}")

        def __iter__(self):  # for the rows of `pandas.DataFrame(result)`
            if not hasattr(type(self), "table"):
                raise TypeError(str(Lacking("table", self)))
            return iter(self.table().to_dict("records"))

        def __getattr__(self, name):
            if hasattr(type(self), name):  # a property, whose own error says more
                return object.__getattribute__(self, name)
            raise Lacking(name, self)

        def __format__(self, form):
            return no_number(self) if form[-1:] in [*"bcdeEfFgGnoxX%"] else format(str(self), form)


def no_number(self: Any, *_: Any) -> Any:
    """Refuse arithmetic with a result that has several numbers, and say which of these numbers to write."""
    kind = type(self).__name__
    advice = checks.advice("number", kind) or "write one of its numbers, ANSWER.NAME; print(ANSWER) shows them"
    raise TypeError(f"{kind} is no number; {advice.replace('ANSWER', kind.lower())}")


SUMS = [f"__{side}{name}__" for name in ("add", "sub", "mul", "truediv") for side in ("", "r")]
for _name in (*SUMS, "__float__", "__int__", "__round__", "__abs__", "__neg__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(Told, _name, no_number)


def remembering(make: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a function so that each part it makes remembers this function and its arguments.

    The memory stands beside the part, so that a copy with changes does not have it.
    """
    signature = _TAKES[name] = inspect.signature(make)
    refusing = named(make)

    @functools.wraps(make)
    def made(*arguments: Any, **settings: Any) -> Any:
        given = bound(make.__name__, signature, arguments, settings, make).arguments
        if ":" in name:
            # A text for a number would break off later, at the user's own line.
            typed({key: value for key, value in given.items() if isinstance(value, str)}, signature, make)
        given |= given.pop(next((n for n, p in signature.parameters.items() if p.kind is p.VAR_KEYWORD), ""), {})
        part = refusing(*arguments, **settings)
        with suppress(TypeError):  # what takes no weak reference is no part
            key = id(part)
            reference = weakref.ref(part, lambda _: _MADE.pop(key, None))
            kept = {k: _as_now(x) for k, x in given.items()}
            _MADE[key] = (reference, Made(name, kept))
            kind = type(part)
            frozen = getattr(vars(kind).get("__dataclass_params__"), "frozen", False)
            if frozen and kind.__setattr__ is not _fixed and kind.__module__.startswith("asyncsim."):
                kind.__setattr__ = _fixed  # type: ignore[assignment]
                kind.__getattr__ = getattr(kind, "__getattr__", vars(Told)["__getattr__"])
        return part

    return made


def _as_now(value: Any) -> Any:
    """What its owner may change later, as it is now; parts inside it remember how they were made, copies would not."""
    if type(value) in (list, tuple):
        return type(value)(map(_as_now, value))
    if type(value) is dict:
        return {key: _as_now(each) for key, each in value.items()}
    return copy.deepcopy(value) if hasattr(value, "tolist") or isinstance(value, (list, dict)) else value


def of(part: Any) -> Made | None:
    """The function and the arguments that made a part; None if the part does not remember them.

    >>> import asyncsim as sim
    >>> of(sim.updates.sgd(0.1))
    Made(name='updates.sgd', arguments={'lr': 0.1})
    """
    reference, made = _MADE.get(id(part), (None, None))
    return made if reference is not None and reference() is part else None


def replaced(old: Any, changes: Mapping[str, Any]) -> Any:
    """A copy of a dataclass with changed fields; refuses arguments of the calls that made it or its parts."""
    fields = [each.name for each in dataclasses.fields(old)]
    knobs, own = dict[str, tuple[str, str]](), type(old).__name__.lower()
    for at, part in [("", old), *vars(old).items()]:
        call = made.name if (made := of(part)) else f"systems.{getattr(part, 'name', '')}"
        knobs |= dict.fromkeys(_TAKES[call].parameters if call in _TAKES else (), (at, call))
    for name in (each for each in changes if each not in fields and not checks.advice(each, type(old).__name__)):
        near = checks.near(name, [*knobs, *fields], 1, 0.8)
        if near and near[0] in {*knobs} - {*fields}:
            at, call = knobs[near[0]]
            again = f"sim.{call}(..., {near[0]}={changes[name]!r})"
            again = f"{own} = {own}.replace({at}={again})" if at else f"{own} = {again}"
            bound = f"a field; it belongs to the call that made the {at or own}"
            raise checks.CallError(f"{own}.replace argument", name, bound, f"write {again}")
    return dataclasses.replace(old, **changes)


def written(field: str, value: Any) -> Any:
    """Convert a value for JSON, a part to {name: arguments}; raises `InputError` for values that cannot be rebuilt."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if type(value).__name__ == "Law":
        return str(value)  # every argument that takes a law takes its text
    if isinstance(value, (list, tuple)):
        return [written(field, each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): written(field, each) for key, each in value.items()}
    made = of(value)
    if made is None and inspect.isroutine(value):
        remedy = f"put it into a file and give its place, 'my.py:{value.__name__}', instead of the function"
        raise checks.InputError(field, value.__name__, "the place of a function", remedy)
    remedy = "make it by one call of sim.KIND.NAME(...), with the changes among its arguments"
    if not type(value).__module__.startswith("asyncsim."):
        remedy = "put a function that makes it, or its class, into a file and give the place, 'my.py:NAME', instead"
    if made is None:
        raise checks.InputError(field, checks.shown(value), "a part that remembers how it was made", remedy)
    return {made.name: {name: written(f"{field}.{name}", each) for name, each in made.arguments.items()}}


def read(field: str, value: Any, load: Callable[[str], Callable[..., Any]]) -> Any:
    """Rebuild a part or value that `written` wrote; `load` returns the function with a given name.

    A mapping with one key that names a function (with a dot or a colon in it) is a part.
    """
    if isinstance(value, list):
        return [read(field, each, load) for each in value]
    if not isinstance(value, Mapping):
        return value
    key = next(iter(value), None)
    if len(value) != 1 or not (isinstance(key, str) and ("." in key or ":" in key)):
        return {key: read(f"{field}.{key}", each, load) for key, each in value.items()}
    ((name, arguments),) = value.items()
    remedy = "write {kind.name: {argument: value}}"
    checks.require(isinstance(arguments or {}, Mapping), field, arguments, "arguments by name", remedy)
    make = load(name)
    settings = {key: read(f"{field}.{key}", each, load) for key, each in (arguments or {}).items()}
    try:
        takes = inspect.signature(make).parameters.items()
    except (TypeError, ValueError):
        raise checks.InputError(field, name, "a function of named arguments", remedy) from None
    spread = settings.pop(next((key for key, each in takes if each.kind is each.VAR_POSITIONAL), ""), ())
    try:
        return (named(make) if inspect.isfunction(make) else make)(*spread, **settings)
    except checks.InputError:
        raise
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise checks.InputError(field, name, f"callable with these arguments ({reason})", remedy) from None
