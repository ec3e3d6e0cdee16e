"""Every method that can be compared with a loss: their arguments, their weights on probes, and the nearest of them."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from asyncsim import checks, plugins
from asyncsim.conformance._loss_probes import Points
from asyncsim.conformance._loss_subject import Probe
from asyncsim.conformance.loss_reports import shown
from asyncsim.methods._method import ANCHORS, Method

_ASIDE = ("advantage", "aggregator", "anchor", "at", "critic", "entropy", "kl")
"""Arguments that do not belong to the weight, and those that are set on the method itself."""
_COMBINATIONS = 16


@dataclass(frozen=True)
class Family:
    """A public function that makes methods: `numbers` and `choices` are the arguments that may be fitted."""

    name: str
    make: Callable[..., Method]
    numbers: Mapping[str, float | None]
    choices: Mapping[str, tuple[Any, ...]]
    aggregator: str
    trimmed: bool
    """Whether the method has parts, a critic for one, that a loss of log-probs does not show."""
    source: str
    """First arXiv number of its source; "" for textbooks, so that the older of two equal methods comes first."""

    def method(self, settings: Mapping[str, Any], aggregator: str | None = None) -> Method | None:
        """The method with these settings, its score weight alone; None where they contradict one another."""
        inside = {key: value for key, value in settings.items() if key not in ("anchor", "aggregator")}
        try:
            made = bare(self.make(**inside))
            made = made.replace(anchor=settings["anchor"]) if "anchor" in settings else made
            return made.replace(aggregator=settings.get("aggregator", aggregator or made.aggregator))
        except (checks.InputError, TypeError, ValueError, AttributeError):
            return None


def bare(method: Method) -> Method:
    """The method without what a loss of log-probs does not contain: critic, bonuses, dropped groups."""
    return method.replace(critic=0.0, constants={}, drop_equal=False)


def reason(method: Method) -> str | None:
    """Why a method cannot be compared; None where it can."""
    extra = sorted(set(method.outputs) - {"log_prob"})
    if not method.scored:
        return "is not a weight on log-probs"
    if method.at != "current":
        return "takes its gradient at other parameters"
    return f"reads {', '.join(extra)}" if extra else None


@cache
def families() -> tuple[list[Family], dict[str, str]]:
    """All that can be compared, and why the others cannot."""
    found, skipped = [], {}
    for name in plugins.summaries("asyncsim.methods"):
        try:
            made = bare(plugins.load("asyncsim.methods", name, "method")())
            why = reason(made) or _unreadable(made)
        except (checks.InputError, TypeError) as error:
            why = str(error)
        if why:
            skipped[name] = why
        else:
            found.append(_family(name))
    return found, skipped


def _unreadable(method: Method) -> str | None:
    """What the weight misses among log-probs, masks and advantages."""
    row = torch.full((2, 2), -1.0, dtype=torch.float64)
    probe = Probe("", row, row - 0.1, row - 0.2, row + 2.0, row + 2.0, 2)
    try:
        expected(method, [probe])
    except checks.InputError as error:
        return f"reads {error.field}"
    except (NotImplementedError, KeyError, RuntimeError) as error:
        return f"reads more than log-probs ({type(error).__name__})"
    return None


def _family(name: str) -> Family:
    make = plugins.load("asyncsim.methods", name, "method")
    numbers: dict[str, float | None] = {}
    choices: dict[str, tuple[Any, ...]] = {}
    for key, parameter in inspect.signature(make).parameters.items():
        default = parameter.default
        if key in _ASIDE or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if isinstance(default, bool):
            choices[key] = (default, not default)
        elif isinstance(default, str):
            choices[key] = _options(make, key, default)
        elif isinstance(default, float) or _takes_numbers(make, key):
            numbers[key] = default
    made = make()
    if made.weight.anchored:
        choices["anchor"] = (made.anchor, *(a for a in ANCHORS if a != made.anchor))
    trimmed = bare(made) != made or bool(getattr(made.advantage, "outputs", ()))
    source = re.search(r"Source:.*?(\d{4}\.\d{5})", inspect.getdoc(make) or "", re.DOTALL)
    return Family(name, make, numbers, choices, made.aggregator, trimmed, source[1] if source else "")


def _options(make: Callable[..., Method], key: str, default: str) -> tuple[str, ...]:
    """What a named choice may be, as its refusal of another word says."""
    try:
        make(**{key: "no such word"})
    except checks.InputError as error:
        listed = re.fullmatch(r"one of (.*)", error.bound)
        if listed and error.value == "no such word":
            words = [word.strip() for word in listed[1].split(",")]
            return (default, *(word for word in words if word != default))
    except Exception:
        return (default,)
    return (default,)


def _takes_numbers(make: Callable[..., Method], key: str) -> bool:
    try:
        return isinstance(make(**{key: 2.5}), Method)
    except Exception:
        return False


def expected(method: Method, probes: Sequence[Probe]) -> list[Tensor]:
    """Cotangents of the method on every batch; batches of one shape are weighed together."""
    found: dict[int, Tensor] = {}
    shape = {i: (*p.mask.shape, p.group) for i, p in enumerate(probes)}
    for key in dict.fromkeys(shape.values()):
        index = [i for i in shape if shape[i] == key]
        B, T, N = key

        def stack(name: str, index: list[int] = index, size: tuple[int, ...] = (B // N, N, T)) -> Tensor:
            return torch.stack([getattr(probes[i], name).reshape(size) for i in index])

        mask, advantages = stack("mask"), stack("advantages")
        weighed = method.weigh(
            stack("log_prob"), stack("behavior"), stack("proximal"),
            advantages=advantages, rewards=advantages[..., 0], mask=mask, categorical=False,
        )
        for row, i in enumerate(index):
            found[i] = weighed.cotangent[row].reshape(B, T)
    return [found[i] for i in range(len(probes))]


def expected_alone(method: Method, at: Points, pair: bool) -> Tensor:
    """Cotangents of single tokens, each a batch of its own (or beside its like of the other sign), `[K]`."""
    shape = (len(at.log_prob), 1, 1, 1)
    columns = [x.reshape(shape).expand(-1, -1, 2 if pair else 1, -1) for x in at]
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64).reshape(1, 1, 2, 1) if pair else 1.0
    advantages = columns[3] * sign
    found = method.weigh(
        *columns[:3], advantages=advantages, rewards=advantages[..., 0], categorical=False
    )
    return found.cotangent[:, 0, 0, 0]


@dataclass
class Evidence:
    """What was measured of a loss: cotangents on batches (`times` undoes a wrong divisor) and on single tokens."""

    probes: Sequence[Probe]
    answers: Sequence[Tensor]
    points: Points
    alone: Tensor
    pair: bool
    aggregator: str | None
    times: Sequence[float]
    separable: bool = False
    penalties: tuple[Any, ...] = ()
    cache: dict[str, Fit] = field(default_factory=dict)
    lines: dict[str, float] = field(default_factory=dict)

    def penalized(self, penalty: Any) -> Evidence:
        """The same measurements, explained with a penalty beside each method."""
        return replace(self, penalties=(penalty,), cache={}, lines={})

    def fit(self, family: Family, settings: Mapping[str, Any]) -> Fit:
        """How well a method with these settings explains all of it."""
        key = f"{family.name}{sorted(settings.items(), key=str)}"
        if key not in self.cache:
            self.cache[key] = self._fit(family, dict(settings))
        return self.cache[key]

    def curve(self, family: Family, settings: Mapping[str, Any]) -> float:
        """Mean deviation on single tokens alone: a fifth of the work."""
        key = f"curve of {family.name}{sorted(settings.items(), key=str)}"
        if key not in self.lines:
            method = family.method(settings, self.aggregator)
            self.lines[key] = 2.0 if method is None else self._line(method)
        return self.lines[key]

    def _line(self, method: Method) -> float:
        penalized = method.replace(penalties=(*method.penalties, *self.penalties))
        try:
            wanted = expected_alone(penalized, self.points, self.pair)
        except (checks.InputError, NotImplementedError, KeyError, RuntimeError):
            return 2.0
        return float(apart(self.alone, _scale(self.alone, wanted) * wanted).mean())

    def residuals(self, family: Family, settings: Mapping[str, Any]) -> Tensor | None:
        """Smooth deviations of all tokens, relative to the size of their weights; None where settings are refused."""
        method = family.method(settings, self.aggregator)
        if method is None:
            return None
        theirs, ours = self.both(method.replace(penalties=(*method.penalties, *self.penalties)))
        found, wanted = torch.cat(theirs), torch.cat(ours)
        scale = _scale(found, wanted)
        # Where both are next to nothing there is nothing to fit.
        size = torch.cat([x.abs().clamp(min=1e-3 * float(x.abs().max()) + 1e-300) for x in theirs])
        return ((scale * wanted - found) / size).clamp(-3.0, 3.0).nan_to_num(3.0)

    def _fit(self, family: Family, settings: dict[str, Any]) -> Fit:
        method = family.method(settings, self.aggregator)
        if method is None:
            return Fit(family, settings, 2.0, 2.0, 2.0, 1.0)
        try:
            penalized = method.replace(penalties=(*method.penalties, *self.penalties))
            return self.compare(penalized, family, settings)
        except (checks.InputError, NotImplementedError, KeyError, RuntimeError):
            return Fit(family, settings, 2.0, 2.0, 2.0, 1.0)

    def both(self, method: Method) -> tuple[list[Tensor], list[Tensor]]:
        """Cotangents found and wanted: of the generated tokens of every batch, and last of the single tokens."""
        kept = [probe.mask > 0 for probe in self.probes]
        theirs = [x[k] for x, k in zip(self.answers, kept, strict=True)]
        listed = zip(expected(method, self.probes), self.times, kept, strict=True)
        ours = [(x * t)[k] for x, t, k in listed]
        return [*theirs, self.alone], [*ours, expected_alone(method, self.points, self.pair)]

    def compare(self, method: Method, family: Family | None, settings: dict[str, Any]) -> Fit:
        """How well one method explains all of it, in the scale that suits most tokens."""
        theirs, ours = self.both(method)
        scale = _scale(torch.cat(theirs), torch.cat(ours))
        *parts, tokens = [apart(f, scale * e) for f, e in zip(theirs, ours, strict=True)]
        batches = torch.cat(parts)
        largest = float(torch.maximum(batches.max(), tokens.max()))
        return Fit(family, settings, float(tokens.mean()), float(batches.mean()), largest, scale)


@dataclass(frozen=True)
class Fit:
    """A method with settings: mean deviation on single tokens and on batches, the largest one, the factor found."""

    family: Family | None
    settings: dict[str, Any]
    curve: float
    batches: float
    largest: float
    scale: float

    @property
    def score(self) -> float:
        """Mean of both."""
        return (self.curve + self.batches) / 2

    @property
    def label(self) -> str:
        """The call that makes it."""
        inside = ", ".join(f"{name}={shown(value)}" for name, value in self.settings.items())
        return f"{self.family.name if self.family else 'method'}({inside})"

    def exact(self, tolerance: float) -> bool:
        """Whether no token deviates."""
        return self.largest <= tolerance


def apart(found: Tensor, wanted: Tensor) -> Tensor:
    """|found - wanted| over the larger of both, 0 where both are nothing; in [0, 2]; 2 where one is not finite."""
    size = torch.maximum(found.abs(), wanted.abs())
    floor = 1e-7 * (float(wanted.abs().nan_to_num(0.0, 0.0, 0.0).max()) if wanted.numel() else 0.0)
    ratio = (found - wanted).abs() / size.clamp(min=max(floor, 1e-300))
    return torch.where(torch.isfinite(ratio), ratio, torch.full_like(ratio, 2.0))


def _scale(found: Tensor, wanted: Tensor) -> float:
    """The factor that most tokens agree on: the median ratio where both have a weight."""
    both = (wanted != 0) & (found != 0) & torch.isfinite(found) & torch.isfinite(wanted)
    if not bool(both.any()):
        return 1.0
    return float((found[both] / wanted[both]).median())


def combinations(family: Family) -> Iterator[dict[str, Any]]:
    """Named choices, the defaults first."""
    names = list(family.choices)
    for values in itertools.islice(itertools.product(*(family.choices[name] for name in names)), _COMBINATIONS):
        default = {name: family.choices[name][0] for name in names}
        yield {name: value for name, value in zip(names, values, strict=True) if value != default[name]}
