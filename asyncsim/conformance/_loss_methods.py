"""All methods that can be compared with a loss, and their variants: other anchors, masks, low caps."""

import dataclasses
import inspect
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim import factors
from asyncsim.base import checks, plugins
from asyncsim.conformance._loss_parts import Curves
from asyncsim.conformance._loss_probes import Points, points
from asyncsim.conformance._loss_subject import TENSORS, Probe
from asyncsim.conformance.reports import shown
from asyncsim.factors._factor import Factor
from asyncsim.methods._given import Received, received, stepped
from asyncsim.methods._method import ANCHORS, Method
from asyncsim.methods._weights import Weight
from asyncsim.step import ratios
from asyncsim.step.step import Step

_ASIDE = ("advantage", "aggregator", "anchor", "at", "critic", "entropy", "kl")
"""Arguments that do not belong to the weight, and those that are set on the method itself."""
_COMBINATIONS = 16
_SLOW = ("low_step", "high_step", "low_cap", "high_cap")
"""Arguments that set how long a method itself searches: a constant read off a loss says nothing of them."""


@dataclass(frozen=True, eq=False)
class Family:
    """A public function that makes methods; `numbers` and `choices` are its arguments that may be fitted."""

    name: str
    make: Callable[..., Method]
    numbers: Mapping[str, float | None]
    choices: Mapping[str, tuple[Any, ...]]
    aggregator: str
    trimmed: bool
    """Whether the method has parts, a critic for one, that a loss of log-probs does not show."""
    source: str
    """First arXiv number of its source; "" for textbooks, so that the older of two equal methods comes first."""
    instance: Method | None = None
    """The only method of the family, where it is the one that was asked for."""

    def method(self, settings: Mapping[str, Any], aggregator: str | None = None) -> Method | None:
        """The family's method with these settings, score weight only; None if the settings contradict each other."""
        try:
            return _method_of(self, aggregator, tuple(settings), *settings.values())
        except TypeError:  # one number for each replicate
            return _method_of.__wrapped__(self, aggregator, tuple(settings), *settings.values())


@lru_cache(2048, typed=True)
def _method_of(family: Family, aggregator: str | None, names: Sequence[str], *values: Any) -> Method | None:
    settings = dict(zip(names, values, strict=True))
    inside = {key: value for key, value in settings.items() if key not in ("anchor", "aggregator")}
    try:
        with warnings.catch_warnings(action="ignore"):  # the search tries clip ranges that no user writes
            method = family.make(**inside)
            anchored = settings.get("anchor", method.anchor)
            return bare(method, anchor=anchored, aggregator=settings.get("aggregator", aggregator or method.aggregator))
    except (checks.InputError, TypeError, ValueError, AttributeError):
        return None


def fixed(method: Method) -> Family:
    """A family that has one fixed method and no settings to fit."""
    return Family(method.name, lambda **_: method, {}, {}, method.aggregator, False, "", method)


def settings_of(method: Method) -> dict[str, Any]:
    """Settings of a method that determine its weights."""
    settings = {k: v for k, v in method.weight.describe().items() if k not in ("weight", "level")}
    return settings | {"aggregator": method.aggregator} | ({"anchor": method.anchor} if method.weight.anchored else {})


def bare(method: Method, **changes: Any) -> Method:
    """The method without the parts that a loss of log-probs does not contain: critic, bonuses, dropped groups."""
    return method.replace(critic=0.0, constants={}, drop_equal=False, **changes)


def reason(method: Method) -> str | None:
    """Return why a method cannot be compared with a loss; None if it can."""
    extra = sorted(set(method.outputs) - {"log_prob"})
    if not method.scored:
        return "is not a weight on log-probs"
    if method.at != "current":
        return "takes its gradient at other parameters"
    if method.weight.selects:
        return "stops tokens of fresh data, so that no scale can be read off"
    if method.weight.grouped:
        return "weighs each row by the others of its group, which a loss does not see"
    return f"reads {', '.join(extra)}" if extra else None


@cache
def families() -> tuple[list[Family], dict[str, str]]:
    """All methods that can be compared with a loss, and the reasons why the others cannot."""
    members, skipped = [], {}
    for name in plugins.summaries("asyncsim.methods"):
        try:
            method = bare(plugins.load("asyncsim.methods", name, "method")())
            why = reason(method) or unreadable(method)
        except (checks.InputError, TypeError) as error:
            why = str(error)
        if why:
            skipped[name] = why
        else:
            members.append(_family(name))
    return members, skipped


def unreadable(method: Method) -> str | None:
    """Return what a method's weight reads beyond log-probs, masks and advantages; None if nothing."""
    row = torch.full((2, 2), -1.0, dtype=torch.float64)
    probe = Probe("", row, row - 0.1, row - 0.2, row + 2.0, row + 2.0, 2)
    try:
        plain(method, probe)
    except checks.InputError as error:
        return f"reads {error.field}"
    except (NotImplementedError, KeyError, RuntimeError) as error:
        return f"reads more than log-probs ({type(error).__name__})"
    return None


def _family(name: str) -> Family:
    make = plugins.load("asyncsim.methods", name, "method")
    make = getattr(make, "__wrapped__", make)  # nobody asks how these were made
    numbers: dict[str, float | None] = {}
    choices: dict[str, tuple[Any, ...]] = {}
    for key, parameter in inspect.signature(make).parameters.items():
        default = parameter.default
        if key in (*_ASIDE, *_SLOW) or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if isinstance(default, bool):
            choices[key] = (default, not default)
        elif isinstance(default, str):
            choices[key] = _options(make, key, default)
        elif isinstance(default, float) or _takes_numbers(make, key):
            numbers[key] = default
    method = make()
    if method.weight.anchored:
        choices["anchor"] = (method.anchor, *(a for a in ANCHORS if a != method.anchor))
    trimmed = bare(method) != method or bool(method.advantage.outputs)
    source = re.search(r"Source:.*?(\d{4}\.\d{5})", inspect.getdoc(make) or "", re.DOTALL)
    return Family(name, make, numbers, choices, method.aggregator, trimmed, source[1] if source else "")


def _options(make: Callable[..., Method], key: str, default: str) -> tuple[str, ...]:
    """Values of a named choice, taken from the message that refuses another value."""
    try:
        make(**{key: "no such word"})
    except Exception as error:
        match = re.fullmatch(r"one of (.*)", getattr(error, "bound", ""))
        if match and getattr(error, "value", "") == "no such word":
            words = [word.strip() for word in match[1].split(",")]
            return (default, *(word for word in words if word != default))
    return (default,)


def _takes_numbers(make: Callable[..., Method], key: str) -> bool:
    try:
        return isinstance(make(**{key: 2.5}), Method)
    except Exception:
        return False


class Stack(NamedTuple):
    """Batches of one shape, stacked to be weighted together: their indices and tensors."""

    places: tuple[int, ...]
    tensors: Received


def as_given(probe: Probe) -> Probe:
    """Return a batch unchanged, as a loss without another interpretation reads it."""
    return probe


@lru_cache(512)
def stacks(probes: tuple[Probe, ...], of: Callable[[Probe], Probe] = as_given) -> list[Stack]:
    """Stack batches by shape, as a loss reads them; the tensors are checked once for all methods."""
    shape = {i: (*p.mask.shape, p.group) for i, p in enumerate(probes)}
    found = []
    for key in dict.fromkeys(shape.values()):
        index = tuple(i for i in shape if shape[i] == key)
        B, T, N = key
        columns = [torch.stack([getattr(probes[i], name).reshape(B // N, N, T) for i in index]) for name in TENSORS]
        found.append(Stack(index, _received(of(Probe.of("", columns, N)))))
    return found


def _received(probe: Probe) -> Received:
    tensors = {"advantages": probe.advantages.expand(probe.mask.shape), "mask": probe.mask}
    tensors["rewards"] = tensors["advantages"][..., 0]
    found = received(probe.log_prob, probe.behavior, probe.proximal, **tensors, categorical=False)
    _ = [getattr(found.step, name) for name in ("log_ratio", "drift", "behavior_log_ratio", "lengths")]  # once for all
    return found


def plain(method: Method, probe: Probe, of: Callable[[Probe], Probe] = as_given) -> Tensor:
    """Cotangents of a method on a batch, as a loss reads it."""
    return expected_on(method, stacks((probe,), of))[0]


def expected_on(method: Method, batches: Sequence[Stack]) -> list[Tensor]:
    """Cotangents of the method on every stacked batch, in the order of the batches."""
    cotangents: dict[int, Tensor] = {}
    for stack in batches:
        B, N, T = stack.tensors.shape[1:]
        found = stepped(method, stack.tensors).cotangents["log_prob"]
        cotangents |= {i: found[row].reshape(B * N, T) for row, i in enumerate(stack.places)}
    return [cotangents[i] for i in sorted(cotangents)]


def singles(at: Points, pair: bool, of: Callable[[Probe], Probe] = as_given) -> Received:
    """Single tokens as batches of one (or two of opposite sign); the tensors are checked once for all methods."""
    probe, shape = at.probe(pair), (len(at.log_prob), 1, 1 + pair, 1)
    return _received(of(Probe.of("", (getattr(probe, name).reshape(shape) for name in TENSORS), 1 + pair)))


def expected_alone(method: Method, tensors: Received) -> Tensor:
    """Cotangents of a method on single tokens, `[K]`."""
    return stepped(method, tensors).cotangents["log_prob"].expand(tensors.step.mask.shape)[:, 0, 0, 0]


def combinations(family: Family) -> Iterator[dict[str, Any]]:
    """Combinations of one value for each named choice, the defaults first."""
    names = list(family.choices)
    for values in itertools.islice(itertools.product(*(family.choices[name] for name in names)), _COMBINATIONS):
        default = {name: family.choices[name][0] for name in names}
        yield {name: value for name, value in zip(names, values, strict=True) if value != default[name]}


_OPEN = 1e9
"""Upper bound of a mask that closes below only."""
_MASKS: tuple[Callable[..., Any], ...] = (factors.token_mask, factors.geometric_mask, factors.sequence_mask)


@dataclass(frozen=True)
class _Changed(Weight):
    """A weight that replaces another one: around pi_prox instead of mu, or c(A) - c(0)."""

    inner: Weight
    around: bool

    def __post_init__(self) -> None:
        for name in ("level", "outputs", "anchored", "rewarded"):
            object.__setattr__(self, name, getattr(self.inner, name))

    @property
    def proximal(self) -> bool:  # type: ignore[override]
        """Whether it uses pi_prox."""
        return self.around or self.inner.proximal

    def describe(self) -> dict[str, Any]:
        """Description of the inner weight."""
        return self.inner.describe()

    def applied(self, step: Step) -> Tensor:
        """Applied weight of the inner weight."""
        return self.inner.applied(_turned(step) if self.around else step)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Score weight with swapped policies, or minus the weight at zero advantage."""
        if self.around:
            return self.inner.score_weight(_turned(step), advantage)
        return self.inner.score_weight(step, advantage) - self.inner.score_weight(step, torch.zeros_like(advantage))


def _turned(step: Step) -> Step:
    return dataclasses.replace(step, batch=dataclasses.replace(step.batch, behavior=step.proximal))


@dataclass(frozen=True)
class Change:
    """A change to every method before it is compared, and its description in a report."""

    of: Callable[[Method], Method]
    words: str


SNAPSHOT = Change(lambda m: m.replace(weight=_Changed(m.weight, True)), "with pi_prox in the place of mu")
PAID = Change(lambda m: m.replace(weight=_Changed(m.weight, False)), "without its penalty")


@cache
def pulled() -> tuple[Family, ...]:
    """Methods whose score weight has a term that no advantage multiplies."""
    at = points("drift", 0.0, np.array([0.3, -0.9]))
    return tuple(one for one in families()[0] if bool(plain(bare(one.make()), at.probe(False)).any()))


@dataclass(frozen=True)
class Shared(Factor):
    """A factor outside the catalogue: a truncated or masked row ratio, or a ratio normalized by its batch mean.

    `over`: the "product" or "mean" of a row's ratios, or of a batch's generated "tokens" or all of its "places".
    """

    cap: float | None
    ratio: str
    over: str
    masked: bool = False

    def factor(self, step: Step, advantage: Tensor) -> Tensor:
        """Row weights `[R, G, N, 1]`, or weights of mean 1, `[R, G, N, T]`."""
        logs = step.log_ratio - (step.drift if self.ratio == "h" else 0.0)
        if self.over in ("product", "mean"):
            logs = torch.where(step.mask > 0, logs, 0.0).sum(-1, keepdim=True)
            logs = logs / step.mask.sum(-1, keepdim=True).clamp(min=1.0) if self.over == "mean" else logs
        weight = ratios.usable(logs)
        beyond = weight > (self.cap or math.inf)
        weight = torch.where(beyond, 0.0, weight) if self.masked else weight.clamp(max=self.cap)
        if self.over in ("product", "mean"):
            return weight
        tokens = torch.ones_like(step.mask) if self.over == "places" else step.mask
        return weight * tokens.sum((1, 2, 3), keepdim=True) / (weight * tokens).sum((1, 2, 3), keepdim=True)

    @property
    def words(self) -> str:
        """Description of the factor for a report."""
        name = {"h": "pi_prox / mu", "r": "pi / mu"}[self.ratio]
        rows = {"product": f"the product of {name} along a row", "mean": f"the geometric mean of {name} in a row"}
        name = rows.get(self.over, name)
        if self.masked:
            return f"{name} up to {self.cap:g}, and 0 beyond"
        name = name if self.cap is None else f"min({name}, {self.cap:g})"
        batch = {"places": "the padded batch", "tokens": "the tokens of the batch"}.get(self.over)
        return f"{name} over its mean, that of {batch}" if batch else name


def masks(curves: Curves) -> list[Any]:
    """Masks that set weights to 0 where a loss does: first the mask of tokens, then those of full rows.

    A mask closes below 1 for A > 0, or above 1 for A < 0, where clips leave tokens alone; beyond, neither sign is open.
    """
    for ladder, ratio in (("drift", "r"), ("lag", "h")):
        shut = [k for k in curves.kinks if k.kind == "jump" and k.ladder == ladder]
        low = [k.ratio for k in shut if k.sign > 0 and k.log_ratio < 0 and abs(k.below) < 1e-9]
        high = [k.ratio for k in shut if k.sign < 0 and k.log_ratio > 0 and abs(k.above) < 1e-9]
        if low or (high and ladder == "lag"):
            bounds = max(low, default=0.0), min(high, default=_OPEN)
            sides = zip(bounds, (-0.1, 0.1), strict=True)
            beyond = [math.log(bound) + step for bound, step in sides if 0 < bound < _OPEN]
            closed = all(abs(curves.at(ladder, sign, x)[0]) < 1e-9 for x in beyond for sign in (1, -1))
            return [make(*bounds, ratio) for make in _MASKS] if closed else []
    return []


def notation(part: Any) -> str:
    """The call that makes a factor or penalty, as text without default arguments."""
    (kind, name), *settings = part.describe().items()
    constructor = plugins.load("asyncsim.penalties", name, kind) if kind == "penalty" else None
    usual = {key: p.default for key, p in inspect.signature(constructor).parameters.items()} if constructor else {}
    pairs = [(key, value) for key, value in settings if key == "coefficient" or usual.get(key, part) != value]
    arguments = [shown(value) if key == "coefficient" else f"{key}={shown(value)}" for key, value in pairs]
    return f"{name}({', '.join(arguments)})"


def masking(factor: Any) -> str:
    """Description of a factor, such as a mask with its bounds, for a report."""
    if isinstance(factor, Shared):
        return factor.words
    description = factor.describe()
    kind = {"token_mask": "tokens", "geometric_mask": "rows by their mean", "sequence_mask": "rows by their product"}
    high = f"{description['high']:g}]" if description["high"] < _OPEN else "inf)"
    return f"a mask of {kind[description['factor']]} with {description['ratio']} in [{description['low']:g}, {high}"


def capped_low(curves: Curves, families: Sequence[Family]) -> Family | None:
    """The family of CISPO with a cap below 1, which asyncsim's CISPO refuses; None if the curves show other weights."""
    bends = [k for k in curves.kinks if k.kind == "bend" and k.log_ratio < -1e-6 and k.ladder in ("drift", "snapshot")]
    caps = {round(k.log_ratio, 6): k.ratio for k in bends}
    cispo = next((one for one in families if one.name == "cispo"), None)
    if len(caps) != 1 or cispo is None:
        return None
    ((at, cap),) = caps.items()
    below, middle, above = curves.at("drift", 1, np.array([at - 1.0, at, at + 1.0]))
    if abs(above / middle - 1.0) > 1e-6 or abs(below * math.e / middle - 1.0) > 1e-5:
        return None
    make = cispo.make

    def low(high: float, anchor: str = "behavior") -> Method:
        method = make(anchor=anchor)
        return method.replace(weight=dataclasses.replace(method.weight, high=high))  # type: ignore[type-var]

    numbers = {"high": cap - 1.0}
    return dataclasses.replace(cispo, make=low, numbers=numbers, choices={"anchor": cispo.choices["anchor"]})
