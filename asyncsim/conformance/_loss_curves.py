"""The score weight of a loss as a function of one token's log ratio, and where that function jumps or bends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.conformance._loss_probes import LADDERS, Points, grid, points
from asyncsim.conformance._loss_subject import Subject
from asyncsim.learning import ratios

_CHUNK, _COARSE, _FEW = 64, 4, 16
_SUSPECT = 0.3
"""Change of slope over one step of the grid, in units of the weight itself, that is looked at more closely."""
_SUSPECTS = 60
"""Places of one curve that are looked at, at most: a weight that is rough everywhere has no constants to read off."""
_BENT = 0.02
_NEGLIGIBLE = 3e-8
_FINEST = 1e-9
_CLAMPED = 2.5
"""Smallest log ratio at which a clamp is looked for; nearer to 1 clips and caps close."""


class Kink(NamedTuple):
    """Where the weight jumps or bends: `ladder`, sign of the advantage, log ratio, weight on either side."""

    ladder: str
    sign: int
    log_ratio: float
    kind: str
    below: float
    above: float

    @property
    def ratio(self) -> float:
        """The ratio, rounded to six digits where that is what was meant."""
        return tidy(math.exp(self.log_ratio))

    def told(self, to_snapshot: bool) -> str:
        """As text; `to_snapshot`, whether the ratio of the current policy is one to pi_prox."""
        now = "pi / pi_prox" if to_snapshot else "pi / mu"
        moved = {"drift": now, "lag": "pi_prox / mu", "snapshot": "pi / pi_prox", "probable": now}
        sign = {1: "A > 0", -1: "A < 0", 0: "A = 0"}[self.sign]
        change = f"weight {self.below:.4g} -> {self.above:.4g}" if self.kind == "jump" else f"from {self.below:.4g} on"
        return f"{self.kind} at {moved[self.ladder]} = {self.ratio:.6g} for {sign} ({change})"


def _round(value: float) -> bool:
    """Whether three digits say it."""
    return abs(float(f"{value:.3g}") - value) <= 1e-7 * abs(value)


def tidy(value: float) -> float:
    """The number with the fewest digits within what bisection can tell apart."""
    for digits in range(1, 8):
        near = float(f"{value:.{digits}g}")
        if abs(near - value) <= 2e-8 * max(1.0, abs(value)):
            return near
    return float(f"{value:.9g}")


@dataclass
class Curves:
    """c of single tokens for a subject, divided by c at log ratio 0 and A = 1; asked in batches where that is safe."""

    subject: Subject
    pair: bool = False
    separable: bool = False
    unit: float = 1.0
    sampled: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        center = points("drift", 1.0, np.zeros(1))
        # A loss that standardizes advantages over its batch says nothing about a token alone.
        self.pair = not self.subject.ask(center.probe(False)).finite
        self._decide()
        found = float(self(center)[0])
        self.unit = found if found != 0 and math.isfinite(found) else 1.0

    def __call__(self, at: Points) -> Tensor:
        """-dL/d log_prob of every token as if it were a batch of its own, `[K]`."""
        if not self.separable:
            return torch.stack([self._single(at.part(slice(k, k + 1))) for k in range(len(at.log_prob))])
        parts = []
        for start in range(0, len(at.log_prob), _CHUNK):
            index = torch.arange(start, start + _CHUNK).clamp(max=len(at.log_prob) - 1)
            parts.append(self._many(at.part(index))[: len(at.log_prob) - start])
        return torch.cat(parts) * self._factor

    def of(self, ladder: str, sign: int) -> tuple[np.ndarray, np.ndarray]:
        """Log ratios and weights in units of c(0)."""
        if (ladder, sign) not in self.sampled:
            x = grid(ladder, 1 if self.separable else _COARSE)
            self.sampled[ladder, sign] = x, self.at(ladder, sign, x)
        return self.sampled[ladder, sign]

    def at(self, ladder: str, sign: int, x: np.ndarray | float) -> np.ndarray:
        """Weights in units of c(0) at log ratios."""
        return (self(points(ladder, float(sign), np.atleast_1d(x))) / self.unit).numpy()

    @cached_property
    def kinks(self) -> tuple[Kink, ...]:
        """Everything that jumps or bends, in the order of ladders, signs and log ratios; without `limits`."""
        return tuple(kink for kink in self._found if kink not in self.limits)

    @cached_property
    def limits(self) -> tuple[Kink, ...]:
        """Kinks that are no constants of a method: where a log ratio is limited, live or at asyncsim's own bound."""
        own = ratios.LOG_LIMIT - 1e-3
        return tuple(kink for kink in self._found if abs(kink.log_ratio) >= own or self._is_clamp(kink))

    @cached_property
    def _found(self) -> tuple[Kink, ...]:
        new = [(ladder, sign) for ladder in LADDERS for sign in (1, -1) if not self._repeats(ladder, sign)]
        return tuple(kink for ladder, sign in new for kink in self._kinks(ladder, sign))

    def _is_clamp(self, kink: Kink) -> bool:
        """Whether the log ratio stops there while its graph is kept: no gradient beyond, and a value that stays."""
        up = kink.log_ratio > 0
        outer = kink.above if up else kink.below
        if kink.kind != "jump" or abs(outer) > 1e-12 or abs(kink.log_ratio) < _CLAMPED:
            return False
        if up and (kink.sign > 0 or not _round(kink.log_ratio) or _round(math.exp(kink.log_ratio))):
            return False  # a cap or a dual clip, whose bound is a ratio
        if not up and kink.sign < 0:
            return False  # where PPO closes
        ends = [kink.log_ratio + (1.0 if up else -1.0) * more for more in (0.5, 1.0)]
        first, second = (
            self.subject.ask(points(kink.ladder, float(kink.sign), np.array([x])).probe(self.pair)).value for x in ends
        )
        return first != 0.0 and abs(first - second) <= 1e-9 * abs(first)

    def _repeats(self, ladder: str, sign: int) -> bool:
        """Whether the curve is that of the first ladder."""
        if ladder == LADDERS[0]:
            return False
        (x, y), (first, wanted) = self.of(ladder, sign), self.of(LADDERS[0], sign)
        there = np.isin(first.round(6), x.round(6))
        return int(there.sum()) == len(x) and bool(np.allclose(y, wanted[there], rtol=1e-9, atol=1e-12))

    def _kinks(self, ladder: str, sign: int) -> list[Kink]:
        x, y = self.of(ladder, sign)
        scale = np.maximum.reduce([np.abs(y[:-2]), np.abs(y[1:-1]), np.abs(y[2:])])
        bend = np.abs(np.diff(np.diff(y) / np.diff(x)))
        suspect = np.flatnonzero((bend > _SUSPECT * scale) & (scale > _NEGLIGIBLE)) + 1
        found: list[Kink] = []
        for i in suspect[:_SUSPECTS]:
            if found and found[-1].log_ratio >= x[i - 1] - 1e-9:
                continue  # a jump is seen from both of its sides
            one = self._zoom(ladder, sign, float(x[i - 1]), float(x[i + 1]))
            found += [one] if one else []
        return found

    def _zoom(self, ladder: str, sign: int, low: float, high: float) -> Kink | None:
        """The kink inside an interval, narrowed down; None where it is only steep."""
        before = 0.0
        while high - low > _FINEST:
            x = np.linspace(low, high, _CHUNK if self.separable else _FEW)
            y = self.at(ladder, sign, x)
            steps, bends = np.abs(np.diff(y)), np.abs(np.diff(np.diff(y) / np.diff(x)))
            size, step = float(np.abs(y).max()), float(steps.max())
            if step < 1e-9 * size:
                break  # rounding is all that is left
            if float(bends.max()) < 0.25 * before:
                return None  # a curve that is only steep bends less and less
            before = float(bends.max())
            if step > 0.5 * float(np.ptp(y)) and high - low < 1e-3:
                at = int(np.argmax(steps))
                low, high = float(x[at]), float(x[at + 1])
            else:
                at = int(np.argmax(bends)) + 1
                low, high = float(x[at - 1]), float(x[at + 1])
        middle = (low + high) / 2
        below, above = self.at(ladder, sign, np.array([low - 1e-8, high + 1e-8])) + 0.0
        size = max(abs(float(below)), abs(float(above)))
        if abs(above - below) > 1e-4 * size:
            return Kink(ladder, sign, middle, "jump", float(below), float(above))
        wide, narrow = self._bend(ladder, sign, middle, 1e-4), self._bend(ladder, sign, middle, 1e-5)
        kept = narrow > max(_BENT * size, 0.5 * wide)
        return Kink(ladder, sign, middle, "bend", float(below), float(above)) if kept else None

    def _bend(self, ladder: str, sign: int, at: float, width: float) -> float:
        """Change of slope over a distance."""
        y = self.at(ladder, sign, at + width * np.array([-2.0, -1.0, 1.0, 2.0]))
        return float(abs((y[3] - y[2]) - (y[1] - y[0])) / width)

    def _single(self, at: Points) -> Tensor:
        return self.subject.ask(at.probe(self.pair)).cotangent[0, 0]

    def _many(self, at: Points) -> Tensor:
        found = self.subject.ask(at.probe(self.pair)).cotangent
        return found.reshape(len(at.log_prob), -1)[:, 0]

    def _decide(self) -> None:
        """Whether tokens of one batch leave one another alone, so that many can be asked at once."""
        rng = np.random.default_rng(7)
        order = np.arange(_CHUNK)
        # Tokens near 1 among tokens far out: a threshold that they share would show.
        x, signs = rng.normal(0.0, np.where(order % 3 == 0, 1.5, 0.2)), np.where(order % 2 == 0, 1.0, -1.0)
        drawn = points("lag", 1.0, x)._replace(advantage=torch.from_numpy(signs))
        drawn = drawn._replace(proximal=drawn.log_prob - torch.from_numpy(rng.normal(0.0, 0.3, _CHUNK)))
        together = self._many(drawn)
        alone = torch.stack([self._single(drawn.part(slice(k, k + 1))) for k in range(_CHUNK)])
        nonzero = (alone != 0) & (together != 0)
        self._factor = 1.0
        if bool(nonzero.any()) and torch.equal(alone != 0, together != 0):
            factors = alone[nonzero] / together[nonzero]
            self.separable = float((factors / factors[0] - 1).abs().max()) < 1e-9
            self._factor = float(factors[0])
