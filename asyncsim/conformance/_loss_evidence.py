"""What was measured of a loss, and how far a method is from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.conformance._loss_around import Change
from asyncsim.conformance._loss_methods import Family, expected, expected_alone
from asyncsim.conformance._loss_probes import Points
from asyncsim.conformance._loss_subject import Probe
from asyncsim.conformance.loss_reports import shown
from asyncsim.methods._method import Method

_REFUSED = (checks.InputError, NotImplementedError, KeyError, RuntimeError)
_AT_ONCE = 20_000
"""Tokens that are weighed in one call, at most: what bounds the memory of a search."""
BUDGET = 4_000
"""Calls of methods that a search may make, which bounds its time."""
_NOTHING = 1e-7
"""Weights below this share of that at ratio 1 count as 0."""


@dataclass
class Evidence:
    """What was measured of a loss: cotangents on batches (`times` undoes a wrong divisor) and on single tokens.

    `points` begin with a token at ratio 1. `left` counts down how many more methods may be weighed.
    """

    probes: Sequence[Probe]
    answers: Sequence[Tensor]
    points: Points
    alone: Tensor
    pair: bool
    aggregator: str | None
    times: Sequence[float]
    separable: bool = False
    penalties: tuple[Any, ...] = ()
    factors: tuple[Any, ...] = ()
    change: Change | None = None
    cache: dict[str, Fit] = field(default_factory=dict)
    lines: dict[str, float] = field(default_factory=dict)
    left: list[int] = field(default_factory=lambda: [BUDGET])

    def beside(self, **parts: Any) -> Evidence:
        """The same measurements, explained with other penalties, factors or a change of each method."""
        return replace(self, **parts, cache={}, lines={})

    def undivided(self, probes: Sequence[Probe]) -> Evidence:
        """The answers beside these batches as they are, whatever the divisor of the loss."""
        plain = {"aggregator": None, "times": [1.0] * len(probes), "penalties": (), "factors": (), "change": None}
        return self.beside(probes=probes, **plain)

    def full(self, method: Method) -> Method:
        """The method with these penalties, these factors and this change."""
        method = self.change.of(method) if self.change else method
        if not (self.penalties or self.factors):
            return method
        penalties, factors = (*method.penalties, *self.penalties), (*method.factors, *self.factors)
        return method.replace(penalties=penalties, factors=factors)

    def fit(self, family: Family, settings: Mapping[str, Any]) -> Fit:
        """How well a method with these settings explains all of it."""
        key = f"{family.name}{sorted(settings.items(), key=str)}"
        if key not in self.cache:
            self.cache[key] = self._fit(family, dict(settings))
        return self.cache[key]

    def curve(self, family: Family, settings: Mapping[str, Any]) -> float:
        """Mean deviation on single tokens alone: a fifth of the work."""
        key = f"{family.name}{sorted(settings.items(), key=str)}"
        if key not in self.lines:
            self.lines[key] = self._line(family.method(settings, self.aggregator))
        return self.lines[key]

    def scan(self, family: Family, settings: Mapping[str, Any], rows: Sequence[Mapping[str, float]]) -> list[float]:
        """`curve` with each row of numbers in place of the settings' own, many rows in one call."""
        most = max(_AT_ONCE // len(self.alone), 1)
        return [
            score
            for start in range(0, len(rows), most)
            for score in self._scanned(family, settings, rows[start : start + most])
        ]

    def _scanned(self, family: Family, settings: Mapping[str, Any], rows: Sequence[Mapping[str, float]]) -> list[float]:
        """Rows along the replicate axis: a number of each for every point; one by one where a method refuses that."""
        K = len(self.alone)
        columns = {name: np.repeat([row[name] for row in rows], K) for name in rows[0]}
        method = family.method({**settings, **columns}, self.aggregator) if len(rows) > 1 else None
        if method is None:
            return [self.curve(family, {**settings, **row}) for row in rows]
        self.left[0] -= 1
        try:
            many = Points(*(x.repeat(len(rows)) for x in self.points))
            wanted = expected_alone(self.full(method), many, self.pair).reshape(len(rows), K)
        except _REFUSED:
            return [self.curve(family, {**settings, **row}) for row in rows]
        scale = torch.tensor([self._scale(self.alone, row, row) for row in wanted], dtype=wanted.dtype)
        return [float(x) for x in apart(self.alone, scale.unsqueeze(-1) * wanted, self.floor).mean(-1)]

    def _line(self, method: Method | None) -> float:
        self.left[0] -= 1
        if method is None:
            return 2.0
        try:
            return self._apart_on_curve(expected_alone(self.full(method), self.points, self.pair))
        except _REFUSED:
            return 2.0

    def _apart_on_curve(self, wanted: Tensor) -> float:
        scale = self._scale(self.alone, wanted, wanted)
        return float(apart(self.alone, scale * wanted, self.floor).mean())

    @property
    def floor(self) -> float:
        """Weights of single tokens below which nothing is compared."""
        unit = abs(float(self.alone[0]))
        return _NOTHING * (unit if 0.0 < unit < np.inf else 1.0)

    def residuals(self, family: Family, settings: Mapping[str, Any]) -> Tensor | None:
        """Smooth deviations of all tokens, relative to the size of their weights; None where settings are refused."""
        method = family.method(settings, self.aggregator)
        if method is None:
            return None
        self.left[0] -= 1
        theirs, ours = self.both(self.full(method))
        found, wanted = torch.cat(theirs), torch.cat(ours)
        scale = self._scale(found, wanted, ours[-1])
        # Where both are next to nothing there is nothing to fit.
        size = torch.cat(
            [
                *(x.abs().clamp(min=1e-3 * float(x.abs().max()) + 1e-300) for x in theirs[:-1]),
                theirs[-1].abs().clamp(min=1e4 * self.floor),
            ]
        )
        return ((scale * wanted - found) / size).clamp(-3.0, 3.0).nan_to_num(3.0)

    def _fit(self, family: Family, settings: dict[str, Any]) -> Fit:
        method = family.method(settings, self.aggregator)
        if method is None:
            return Fit(family, settings, 2.0, 2.0, 2.0, 1.0)
        self.left[0] -= 5
        try:
            return self.compare(self.full(method), family, settings)
        except _REFUSED:
            return Fit(family, settings, 2.0, 2.0, 2.0, 1.0)

    def both(self, method: Method) -> tuple[list[Tensor], list[Tensor]]:
        """Cotangents found and wanted: of the generated tokens of every batch, and last of the single tokens."""
        kept = [probe.mask > 0 for probe in self.probes]
        theirs = [x[k] for x, k in zip(self.answers, kept, strict=True)]
        listed = zip(expected(method, self.probes), self.times, kept, strict=True)
        ours = [(x * t)[k] for x, t, k in listed]
        return [*theirs, self.alone], [*ours, expected_alone(method, self.points, self.pair)]

    def compare(self, method: Method, family: Family | None, settings: dict[str, Any]) -> Fit:
        """How well one method explains all of it, in the scale of tokens at ratio 1."""
        theirs, ours = self.both(method)
        scale = self._scale(torch.cat(theirs), torch.cat(ours), ours[-1])
        parts = [apart(f, scale * e) for f, e in zip(theirs[:-1], ours[:-1], strict=True)]
        batches, tokens = torch.cat(parts), apart(theirs[-1], scale * ours[-1], self.floor)
        largest = float(torch.maximum(batches.max(), tokens.max()))
        return Fit(family, settings, float(tokens.mean()), float(batches.mean()), largest, scale)

    def _scale(self, found: Tensor, wanted: Tensor, alone: Tensor) -> float:
        """The factor at ratio 1, where every method has the weight A; else the one that most tokens agree on."""
        first, second = float(self.alone[0]), float(alone[0])
        sound = np.isfinite(first) and np.isfinite(second) and first != 0.0 and second != 0.0
        return first / second if sound else scale_of(found, wanted)


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


def apart(found: Tensor, wanted: Tensor, floor: float | None = None) -> Tensor:
    """|found - wanted| over the larger of both, 0 where both are nothing; in [0, 2]; 2 where one is not finite.

    What is smaller than `floor` (default: 1e-7 of the largest wanted) is nothing.
    """
    size = torch.maximum(found.abs(), wanted.abs())
    if floor is None:
        floor = _NOTHING * (float(wanted.abs().nan_to_num(0.0, 0.0, 0.0).max()) if wanted.numel() else 0.0)
    ratio = (found - wanted).abs() / size.clamp(min=max(floor, 1e-300))
    return torch.where(torch.isfinite(ratio), ratio, torch.full_like(ratio, 2.0))


def scale_of(found: Tensor, wanted: Tensor) -> float:
    """The median ratio where both have a weight."""
    both = (wanted != 0) & (found != 0) & torch.isfinite(found) & torch.isfinite(wanted)
    if not bool(both.any()):
        return 1.0
    return float((found[both] / wanted[both]).median())
