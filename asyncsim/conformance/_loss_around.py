"""What stands beside a method of the list: another policy in the place of mu, a mask, a cap below 1."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from asyncsim import factors
from asyncsim.base import plugins
from asyncsim.conformance._loss_curves import Curves
from asyncsim.conformance._loss_methods import Family
from asyncsim.conformance.loss_reports import shown
from asyncsim.learning.step import Step
from asyncsim.methods._importance import TruncatedClip
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight

_OPEN = 1e9
"""Upper bound of a mask that closes below only."""
_MASKS: tuple[Callable[..., Any], ...] = (factors.token_mask, factors.geometric_mask, factors.sequence_mask)


@dataclass(frozen=True)
class Around(Weight):
    """A weight whose ratios refer to pi_prox in the place of mu."""

    inner: Weight
    proximal = True

    def __post_init__(self) -> None:
        for name in ("level", "outputs", "anchored", "rewarded"):
            object.__setattr__(self, name, getattr(self.inner, name))

    def describe(self) -> dict[str, Any]:
        """That of the weight itself."""
        return self.inner.describe()

    def applied(self, step: Step) -> Tensor:
        """That of the weight itself."""
        return self.inner.applied(_turned(step))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """That of the weight itself."""
        return self.inner.score_weight(_turned(step), advantage)


def _turned(step: Step) -> Step:
    return dataclasses.replace(step, batch=dataclasses.replace(step.batch, behavior=step.proximal))


@dataclass(frozen=True)
class _Floored(TruncatedClip):
    """A truncated clip whose weight of behavior is limited from below as well."""

    inner: TruncatedClip
    least: float

    def carried(self, step: Step) -> Tensor:
        """At least `least`, `[R, G, N, T]`."""
        return self.inner.carried(step).clamp(min=self.least)


@dataclass(frozen=True)
class Change:
    """What is done to every method before it is compared, and how a report says it."""

    of: Callable[[Method], Method]
    told: str
    note: str = ""


SNAPSHOT = Change(lambda method: method.replace(weight=Around(method.weight)), "with pi_prox in the place of mu")


def floored(curves: Curves) -> Change | None:
    """A lower limit of the weight pi_prox / mu, where the curve shows one; None where it shows none."""
    bends = {k.ratio for k in curves.kinks if k.kind == "bend" and k.ladder == "lag" and k.log_ratio < -1e-6}
    if len(bends) != 1:
        return None
    (least,) = bends
    far = curves.at("lag", 1, math.log(least) - np.array([0.5, 3.0]))
    if abs(far[0] / far[1] - 1.0) > 1e-9:
        return None

    def of(method: Method) -> Method:
        inner = method.weight
        if not isinstance(inner, TruncatedClip):
            return method
        return method.replace(weight=_Floored(inner.cap, inner.low, inner.high, inner, least))

    note = f"tokens with pi_prox / mu below {least:g} have the weight {least:g}"
    return Change(of, f"with pi_prox / mu of at least {least:g}", note)


def floorable(families: Sequence[Family]) -> list[Family]:
    """Methods that carry such a weight."""
    return [one for one in families if isinstance(one.make().weight, TruncatedClip)]


def masks(curves: Curves) -> list[Any]:
    """Factors that close where a loss does: the mask of tokens first, then those of whole rows.

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


def told(part: Any) -> str:
    """The call that makes a factor, or a penalty without what is the default there."""
    (kind, name), *settings = part.describe().items()
    made = plugins.load("asyncsim.penalties", name, kind) if kind == "penalty" else None
    usual = {key: p.default for key, p in inspect.signature(made).parameters.items()} if made else {}
    listed = [(key, value) for key, value in settings if key == "coefficient" or usual.get(key, part) != value]
    written = [shown(value) if key == "coefficient" else f"{key}={shown(value)}" for key, value in listed]
    return f"{name}({', '.join(written)})"


def masking(factor: Any) -> str:
    """What a mask does, in words."""
    said = factor.describe()
    kind = {"token_mask": "tokens", "geometric_mask": "rows by their mean", "sequence_mask": "rows by their product"}
    high = f"{said['high']:g}]" if said["high"] < _OPEN else "inf)"
    return f"a mask of {kind[said['factor']]} with {said['ratio']} in [{said['low']:g}, {high}"


def capped_low(curves: Curves, families: Sequence[Family]) -> Family | None:
    """CISPO with its cap below 1, which the method itself refuses; None where the weights are others."""
    bends = [k for k in curves.kinks if k.kind == "bend" and k.log_ratio < -1e-6 and k.ladder in ("drift", "snapshot")]
    caps = {round(k.log_ratio, 6): k.ratio for k in bends}
    cispo = next((one for one in families if one.name == "cispo"), None)
    if len(caps) != 1 or cispo is None:
        return None
    ((at, cap),) = caps.items()
    x = np.array([at - 1.0, at, at + 1.0])
    below, middle, above = curves.at("drift", 1, x)
    if abs(above / middle - 1.0) > 1e-6 or abs(below * math.e / middle - 1.0) > 1e-5:
        return None
    make = cispo.make

    def low(high: float, anchor: str = "behavior") -> Method:
        made = make(anchor=anchor)
        return made.replace(weight=dataclasses.replace(made.weight, high=high))  # type: ignore[type-var]

    numbers = {"high": cap - 1.0}
    return dataclasses.replace(cispo, make=low, numbers=numbers, choices={"anchor": cispo.choices["anchor"]})
