"""Knobs of a part, each declared once with its default, domain and meaning.

    @advantage("2506.20520")
    def offset(step: Step, v: Any = number(..., "absolute baseline in units of reward")) -> Tensor:
        '''A fixed baseline v: A = r - v.'''
        return step.reward - per_sample(v, 3)

Each kind of part has a decorator (`advantage`, `estimator`, `link`, ...) for a function whose body is the formula, or
for a class named like the part, if it has several methods. The decorator returns the public function, which checks each
knob and makes a frozen dataclass; Arguments, Raises, Returns, Source and an example are added to its docstring.
"""

import dataclasses
import functools
import inspect
import math
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from asyncsim.base import calls, checks, knobs

T = TypeVar("T")
Made = TypeVar("Made", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Knob:
    """Declaration of a setting: default (`...` if required), description, check, domain, and type in stubs."""

    usual: Any
    words: str
    check: Callable[[str, Any], Any]
    domain: str = ""
    kind: str = ""
    varies: bool = False
    optional: bool = False

    @property
    def default(self) -> Any:
        """Default of the knob, as a signature shows it."""
        return inspect.Parameter.empty if self.usual is ... else self.usual

    def read(self, name: str, value: Any) -> Any:
        """Convert a value of the knob. Raises `InputError`, which mentions None if None is accepted."""
        if value is None and self.optional:
            return None
        try:
            return self.check(name, value)
        except checks.InputError as refused:
            if not self.optional:
                raise
            raise checks.InputError(refused.field, refused.value, f"{refused.bound}, or None", refused.remedy) from None

    def but(self, usual: Any, *, optional: bool = False) -> Any:
        """A copy of the knob with another default; `optional`: None is accepted."""
        if not optional:
            return dataclasses.replace(self, usual=usual)
        words = ", ".join(filter(None, (self.words, "None for none")))
        return dataclasses.replace(self, usual=usual, words=words, optional=True)


def number(
    usual: Any,
    words: str,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: bool = False,
    optional: bool = False,
    varies: bool = True,
    remedy: str = "",
) -> Any:
    """Declare a knob: a number in [low, high], or one per replicate if it `varies`; `above` excludes `low`."""
    check = knobs.knob if varies else checks.real
    advice = remedy or f"give {'' if words.startswith('how ') else 'the '}{words}"
    domain = f"{'>' if above else '>='} {low:g}" if low > -math.inf else ""
    if low > -math.inf and high < math.inf:
        domain = f"in {'(' if above else '['}{low:g}, {high:g}{']' if high == round(high, 9) else ')'}"

    def read(name: str, value: Any) -> Any:
        return check(name, value, advice, low, high, open_low=above)

    words, kind = words + ", None for none" * optional, "Number" if varies else "float"
    return Knob(usual, words, read, domain, kind, varies, optional)


def real(usual: Any, words: str, low: float = -math.inf, high: float = math.inf, **more: Any) -> Any:
    """Declare a knob: a number, as `number` does, that is the same for all replicates."""
    return number(usual, words, low, high, varies=False, **more)


def whole(
    usual: Any, words: str, low: int, high: int | None = None, *, remedy: str = "", optional: bool = False
) -> Any:
    """Declare a knob: an integer of at least `low`."""

    def check(name: str, value: Any) -> int:
        return checks.integer(name, value, low, remedy or words, high)

    return Knob(usual, words, check, f">= {low}", "int", optional=optional)


def choice(*options: str, words: str, usual: str = "", remedy: str = "") -> Any:
    """Declare a knob: one of several words, the first by default; `words` describe it, as in "say how it falls"."""
    named = [f'"{option}"' for option in options]
    domain = f"{' or '.join(filter(None, (', '.join(named[:-1]), named[-1])))}, {words}"

    def check(name: str, value: Any) -> str:
        return checks.one_of(name, value, options, remedy or f"say {words}")

    return Knob(usual or options[0], "", check, domain, f"Literal[{', '.join(named)}]")


def handed_on(usual: Any, words: str, domain: str = "", kind: str = "") -> Any:
    """Declare a knob that is passed on to another part, which checks it."""
    return Knob(usual, words, lambda _, value: value, domain, kind=kind)


def flag(words: str, usual: bool = False) -> Any:
    """Declare a knob: a boolean; `words` complete "whether ..."."""
    says = f"whether {words}"
    return Knob(usual, says, lambda name, value: checks.boolean(name, value, f"say {says}"), kind="bool")


def told(own: Mapping[str, Knob], *also: str) -> str:
    """Sentences for a docstring that describe knobs and other arguments."""
    words = [f"`{n}`{f' {k.domain}' * bool(k.domain)}{f', {k.words}' * bool(k.words)}" for n, k in own.items()]
    each = [f"`{name}`" for name, knob in own.items() if knob.varies]
    who = "Each" if len(each) == len(own) and not also else " and ".join(each)
    varying = f" {who} may be one number per replicate." * bool(each)
    return f"Arguments: {'; '.join([*words, *also])}.{varying}" * bool(words or also)


def documented(doc: str | None, *sentences: str, example: str) -> str:
    """A docstring with sentences that declarations generate, and an example."""
    text = textwrap.fill(" ".join(filter(None, sentences)), 116, break_on_hyphens=False, break_long_words=False)
    return "\n\n".join([inspect.cleandoc(doc or ""), text, example])


def declared(body: Any) -> dict[str, Knob]:
    """Knobs that the signature of a function declares, or that a class and its bases declare as attributes."""
    if isinstance(body, type):
        known = {name: value for each in reversed(body.__mro__) for name, value in vars(each).items()}
        return {name: value for name, value in known.items() if isinstance(value, Knob)}
    return {n: p.default for n, p in inspect.signature(body).parameters.items() if isinstance(p.default, Knob)}


def kind_of(body: Any, own: Mapping[str, Knob], bases: tuple[type, ...], **traits: Any) -> Any:
    """The frozen dataclass of a part, named after it: the class itself, or a new one with these traits."""
    name = "".join(map(str.capitalize, body.__name__.split("_")))
    fields = {n: _field(k, knobs.MARK if k.varies else {}) for n, k in own.items()}
    if isinstance(body, type):
        for n, field in fields.items():
            setattr(body, n, field)
        body.__annotations__ = dict.fromkeys(own, "Any") | vars(body).get("__annotations__", {})
        body.__name__ = body.__qualname__ = name
        kind: Any = dataclasses.dataclass(frozen=True)(body)
    else:
        kind = dataclasses.make_dataclass(
            name, [(n, Any, field) for n, field in fields.items()], bases=bases, frozen=True, namespace=traits
        )
        kind.__module__, kind.__doc__ = body.__module__, f"See `{body.__name__}`."
    setattr(sys.modules[body.__module__], name, kind)
    return kind


def fields_of(kind: Any) -> Any:
    """Declare the fields of a class from its knobs, for `dataclass`; metadata of each field have its knob."""
    for name, knob in declared(kind).items():
        setattr(kind, name, _field(knob, {"declared": knob}))
    return kind


def _field(knob: Knob, metadata: Mapping[str, Any]) -> Any:
    field: Any = dataclasses.field(metadata=metadata)
    field.default = dataclasses.MISSING if knob.usual is ... else knob.usual
    return field


def factory(name: str, body: Any, own: Mapping[str, Any], make: Callable[..., Any], doc: str) -> Any:
    """Public function of a part: it checks every knob and calls `make`; other arguments have plain defaults."""
    declares = {n: k for n, k in own.items() if isinstance(k, Knob)}
    usual = {**own, **{n: k.default for n, k in declares.items()}}
    annotations = getattr(body, "__annotations__", {})
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    named = inspect.Signature(
        [inspect.Parameter(n, kind, default=x, annotation=annotations.get(n, "Any")) for n, x in usual.items()]
    )

    def made(*arguments: Any, **settings: Any) -> Any:
        every = usual | calls.bound(name, named, arguments, settings).arguments
        return make(**every | {n: k.read(n, every[n]) for n, k in declares.items()})

    functools.update_wrapper(made, body, assigned=("__module__",), updated=())
    made.__name__, made.__qualname__, made.__doc__ = name, name, doc
    vars(made).update(__signature__=named, knobs=declares)
    return made


def page(source: Any, returns: str, refused: str = "settings outside their range") -> Callable[[type[T]], type[T]]:
    """A decorator that turns a class into its public function, which checks the knobs; may be used without ()."""
    if isinstance(source, type):
        return page("the user", returns, refused)(source)

    def make(body: Any) -> Any:
        name, own = body.__name__, declared(body)
        return public(name, body, own, kind_of(body, own, ()), returns, refused * bool(own), source)

    return make


def public(name: str, body: Any, own: Mapping[str, Knob], kind: Any, returns: str, refused: str, source: str) -> Any:
    """Public function that makes a frozen dataclass; its `joint(**knobs)` raises for inconsistent knobs."""
    joint = getattr(kind, "joint", None)

    def build(**given: Any) -> Any:
        if joint is not None:
            joint(**given)
        return kind(**given)

    required = ", ".join("0.5" for knob in own.values() if knob.usual is ...)
    usual = ", ".join(f"{n}={0.5 if knob.usual is ... else knob.usual!r}" for n, knob in own.items())
    doc = documented(
        body.__doc__,
        told(own),
        f"Returns {returns}.",
        f"Raises `InputError` for {refused}." * bool(refused),
        f"Source: {source}.",
        example=f">>> {name}({required})\n{kind.__name__}({usual})",
    )
    return factory(name, body, own, build, doc)


def made(source: str, returns: str, refused: str) -> Callable[[Made], Made]:
    """A decorator for a function that makes a part from checked knobs; other arguments are passed unchanged."""

    def decorate(body: Made) -> Made:
        own = {name: each.default for name, each in inspect.signature(body).parameters.items()}
        text, mark, example = inspect.cleandoc(body.__doc__ or "").partition(">>> ")
        ends = (f"Returns {returns}.", f"Raises `InputError` for {refused}.", f"Source: {source}.")
        doc = documented(text.rstrip(), told(declared(body)), *ends, example=mark + example)
        public: Made = factory(body.__name__, body, own, body, doc)
        return public

    return decorate
