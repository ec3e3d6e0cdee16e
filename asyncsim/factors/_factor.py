"""What the factors share: bands on a ratio, bounds on a statistic of it, ages of tokens."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import parts, plugins
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import T, choice, number
from asyncsim.step.step import Step

RATIO = choice("r", "h", words="pi/mu or pi_prox/mu", remedy="r is pi/mu, h is pi_prox/mu")
_INSTEAD = "a band that leaves 1 out drops on-policy data; give a ratio such as"
LOW = number(0.5, "smallest ratio that is kept", 0.0, 1.0, remedy=f"{_INSTEAD} 0.5")
HIGH = number(2.0, "largest ratio that is kept", 1.0, remedy=f"{_INSTEAD} 2")
_FARTHEST = 1e30
"""Log ratios beyond it (in truth: infinite ones) are outside every band, also of one that is open below."""


class Factor:
    """Base class of factors on score weights; a `ratio` other than "r" needs the proximal policy."""

    @property
    def proximal(self) -> bool:
        return getattr(self, "ratio", "r") != "r"

    def factor(self, step: Step, advantage: Tensor) -> Tensor:
        """Factor on the score weight c, `[R, G, N, T or 1]`; values on masked tokens are ignored."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        settings = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {"factor": plugins.name_of(self), **settings}


class Mask(Factor):
    """Base class of factors that are 1 or 0; subclasses define which tokens are kept."""

    def factor(self, step: Step, advantage: Tensor) -> Tensor:
        """Factor of each token or sample: 1 if it is kept, else 0, `[R, G, N, T or 1]`."""
        return self.keep(step, advantage).to(step.mask.dtype)

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Which tokens or samples are kept, `[R, G, N, T or 1]`; False if the statistic is not finite."""
        raise NotImplementedError


class Band(Mask):
    """Base class of masks that keep a ratio in [low, high], at the level of tokens, sequences or geometric means."""

    level = "token"

    low: Any = LOW
    high: Any = HIGH
    ratio: Any = RATIO

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Which tokens or sequences have a ratio inside the band, bounds included."""
        value = at_level(step, log_ratio(step, self.ratio), self.level)
        return (value >= log_bound(self.low)) & (value <= log_bound(self.high))


class Bounded(Mask):
    """Base class of masks that keep tokens whose divergence, reduced over the sequence, is at most `high`."""

    high: Any = number(2.5, "largest divergence that stays, in nats", 0.0)
    reduce: Any = choice("token", "sum", "mean", "max", words="how tokens of a sequence are put together", usual="mean")
    ratio: Any = RATIO

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Which tokens have a divergence, reduced over the sequence, of at most `high`."""
        each = self.statistic(log_ratio(step, self.ratio).double())
        if self.reduce == "max":
            each = each.amax(-1, keepdim=True)
        elif self.reduce != "token":
            each = step.sequence(each) if self.reduce == "sum" else step.geometric(each)
        return each <= per_sample(self.high)

    def statistic(self, of_tokens: Tensor) -> Tensor:
        """Divergence of each token from its log ratio, `[R, G, N, T]`, nonnegative, and 0 where masked."""
        raise NotImplementedError


def log_ratio(step: Step, ratio: str) -> Tensor:
    """Log ratios of tokens, `[R, G, N, T]`, of r = pi/mu or of h = pi_prox/mu."""
    return step.behavior_log_ratio if ratio == "h" else step.log_ratio


def at_level(step: Step, of_tokens: Tensor, level: str) -> Tensor:
    """Token log ratios, or their sum or mean over the sequence in float64, `[R, G, N, T or 1]`."""
    if level == "token":
        return of_tokens
    return step.sequence(of_tokens.double()) if level == "sequence" else step.geometric(of_tokens.double())


def log_bound(bound: Any) -> Any:
    """Log of a bound on a ratio; with a bound of 0 every finite log ratio is inside."""
    value = per_sample(bound)
    if isinstance(value, float):
        return math.log(value) if value > 0 else -_FARTHEST
    return value.log().clamp(min=-_FARTHEST)


def ages(step: Step) -> tuple[Tensor, Tensor]:
    """Staleness of every token in versions, and whether it is known, each `[R, G, N, T or 1]`."""
    age = step.staleness
    known = (age >= 0) & (age < torch.inf)
    step.statistics["unknown_staleness"] = (step.share * (~known).to(step.share.dtype)).sum((1, 2, 3))
    return age, known


def factor(source: str, *, shape: str = "T or 1") -> Callable[[type[T]], type[T]]:
    """Decorator for a factor: a class that becomes a public function which checks its knobs."""
    return parts.page(source, f"a factor `[R, G, N, {shape}]`")
