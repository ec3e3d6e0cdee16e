"""Parts of a loss that are read off one by one: its curve, its penalty, tokens that are left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import plugins
from asyncsim.conformance._loss_probes import LADDERS, Points, grid, points
from asyncsim.conformance._loss_subject import Probe, Subject
from asyncsim.step import ratios

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

    def text(self, to_snapshot: bool) -> str:
        """As text; `to_snapshot`, whether the ratio of the current policy is one to pi_prox."""
        now = "pi / pi_prox" if to_snapshot else "pi / mu"
        moved = {"drift": now, "lag": "pi_prox / mu", "snapshot": "pi / pi_prox", "probable": now}
        sign = {1: "A > 0", -1: "A < 0", 0: "A = 0"}[self.sign]
        change = f"weight {self.below:.4g} -> {self.above:.4g}" if self.kind == "jump" else f"from {self.below:.4g} on"
        return f"{self.kind} at {moved[self.ladder]} = {self.ratio:.6g} for {sign} ({change})"


def _round(value: float) -> bool:
    """Whether three digits say it."""
    return abs(float(f"{value:.3g}") - value) <= 1e-7 * abs(value)


def fewest(value: float, most: int, within: float) -> float | None:
    """The number with the fewest digits (at most so many) that is as near; None where none is."""
    numbers = (float(f"{value:.{digits}g}") for digits in range(1, most + 1))
    return next((near for near in numbers if abs(near - value) <= within), None)


def tidy(value: float) -> float:
    """The number with the fewest digits within the precision of bisection."""
    near = fewest(value, 7, 2e-8 * max(1.0, abs(value)))
    return float(f"{value:.9g}") if near is None else near


@dataclass
class Curves:
    """c of single tokens for a subject, divided by c at log ratio 0 and A = 1; in batches where that is safe."""

    subject: Subject
    pair: bool = False
    separable: bool = False
    unit: float = 1.0
    _factor: float = 1.0
    sampled: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        center = points("drift", 1.0, np.zeros(1))
        # A loss that centers advantages over its batch says nothing about a token alone.
        answer = self.subject.ask(center.probe(False))
        both = self.subject.ask(center.probe(True)).cotangent
        self.pair = not answer.finite or (float(answer.cotangent[0, 0]) == 0.0 and float(both[0, 0]) != 0.0)
        self._decide()
        value = float(self(center)[0])
        self.unit = value if value != 0 and math.isfinite(value) else 1.0

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
    def rough(self) -> bool:
        """Whether weights that move in large steps stay in small ones: numbers are rounded inside."""
        for at in (np.array([-0.31, 0.33]), np.linspace(-0.61, 0.63, 31)):
            here, near = (np.concatenate([self.at("drift", sign, x) for sign in (1, -1)]) for x in (at, at + 1e-5))
            if not (near == here).all():
                return False
        return len(np.unique(here)) > 8

    @cached_property
    def kinks(self) -> tuple[Kink, ...]:
        """Everything that jumps or bends, in the order of ladders, signs and log ratios; without `limits`."""
        return tuple(kink for kink in self._all_kinks if kink not in self.limits)

    @cached_property
    def limits(self) -> tuple[Kink, ...]:
        """Kinks that are no constants of a method: where a log ratio is limited, live or at asyncsim's own bound."""
        limit = ratios.LOG_LIMIT - 1e-3
        return tuple(kink for kink in self._all_kinks if abs(kink.log_ratio) >= limit or self._is_clamp(kink))

    @cached_property
    def _all_kinks(self) -> tuple[Kink, ...]:
        if self.rough:
            return ()
        new = [(ladder, sign) for ladder in LADDERS for sign in (1, -1) if not self.repeats(ladder, sign)]
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

    def repeats(self, ladder: str, sign: int) -> bool:
        """Whether the curve is that of the first ladder."""
        if ladder == LADDERS[0]:
            return False
        (x, y), (first_x, first_y) = self.of(ladder, sign), self.of(LADDERS[0], sign)
        shared = np.isin(first_x.round(6), x.round(6))
        return int(shared.sum()) == len(x) and bool(np.allclose(y, first_y[shared], rtol=1e-9, atol=1e-12))

    def _kinks(self, ladder: str, sign: int) -> list[Kink]:
        x, y = self.of(ladder, sign)
        scale = np.maximum.reduce([np.abs(y[:-2]), np.abs(y[1:-1]), np.abs(y[2:])])
        bend = np.abs(np.diff(np.diff(y) / np.diff(x)))
        suspect = np.flatnonzero((bend > _SUSPECT * scale) & (scale > _NEGLIGIBLE)) + 1
        kinks: list[Kink] = []
        for i in suspect[:_SUSPECTS]:
            if kinks and kinks[-1].log_ratio >= x[i - 1] - 1e-9:
                continue  # a jump is seen from both of its sides
            one = self._zoom(ladder, sign, float(x[i - 1]), float(x[i + 1]))
            kinks += [one] if one else []
        return kinks

    def _zoom(self, ladder: str, sign: int, low: float, high: float) -> Kink | None:
        """The kink inside an interval, narrowed down; None where it is only steep."""
        # Narrow the interval around the sharpest change.
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
        # Classify what is left: jump, bend or curve.
        middle = (low + high) / 2
        below, above = self.at(ladder, sign, np.array([low - 1e-8, high + 1e-8])) + 0.0
        size = max(abs(float(below)), abs(float(above)))
        if abs(above - below) > 1e-4 * size:
            return Kink(ladder, sign, middle, "jump", float(below), float(above))
        wide, narrow = self._bend(ladder, sign, middle, 1e-4), self._bend(ladder, sign, middle, 1e-5)
        sharp = narrow > max(_BENT * size, 0.5 * wide)
        return Kink(ladder, sign, middle, "bend", float(below), float(above)) if sharp else None

    def _bend(self, ladder: str, sign: int, at: float, width: float) -> float:
        """Change of slope over a distance."""
        y = self.at(ladder, sign, at + width * np.array([-2.0, -1.0, 1.0, 2.0]))
        return float(abs((y[3] - y[2]) - (y[1] - y[0])) / width)

    def _single(self, at: Points) -> Tensor:
        weight = self.subject.ask(at.probe(self.pair)).cotangent[0, 0]
        if bool(torch.isfinite(weight)):
            return weight
        # Where nothing is left to divide by, a token of ratio 1 beside it is: a rejected one has no weight then.
        fresh = points("drift", 0.0, np.zeros(1))
        beside = Points(*(torch.cat(pair) for pair in zip(at, fresh, strict=True)))
        answer = self.subject.ask(beside.probe(False)).cotangent[0, 0]
        return answer if float(answer) == 0.0 else weight

    def _many(self, at: Points) -> Tensor:
        weights = self.subject.ask(at.probe(self.pair)).cotangent
        return weights.reshape(len(at.log_prob), -1)[:, 0]

    def _decide(self) -> None:
        """Whether tokens of one batch leave one another alone, so that many can be evaluated at once."""
        rng = np.random.default_rng(7)
        order = np.arange(_CHUNK)
        # Tokens near 1 among tokens far out: a threshold or a count that they share would show.
        x, signs = rng.normal(0.0, np.where(order % 3 == 0, 1.5, 0.2)), np.where(order % 2 == 0, 1.0, -1.0)
        drawn = points("lag", 1.0, x)._replace(advantage=torch.from_numpy(signs))
        drawn = drawn._replace(proximal=drawn.log_prob - torch.from_numpy(rng.normal(0.0, 0.3, _CHUNK)))
        alone = torch.stack([self._single(drawn.part(slice(k, k + 1))) for k in range(_CHUNK)])
        # Another mixture of the same tokens: what all of them share would be another number.
        mixtures = (torch.arange(_CHUNK), torch.arange(_CHUNK) % 8)
        factors = []
        for places in mixtures:
            together, one = self._many(drawn.part(places)), alone[places]
            nonzero = one != 0
            if not torch.equal(nonzero, together != 0):
                return
            factors.append(one[nonzero] / together[nonzero])
        every = torch.cat(factors)
        self.separable = len(every) > 0 and float((every / every[0] - 1).abs().max()) < 1e-9
        self._factor = float(every[0]) if self.separable else 1.0


_SHAPES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "k1": lambda x: -np.ones_like(x),
    "k2": lambda x: -x,
    "k3": lambda x: -(1.0 - np.exp(-x)),
}

_AT = np.array([-1.5, -0.7, -0.2, 0.0, 0.3, 0.9, 1.6])


def idle(curves: Curves, ladder: str) -> np.ndarray:
    """Weights of tokens with A = 0, in units of what an advantage of 1 adds at log ratio 0."""
    both = float(curves.at("drift", 1, 0.0)[0]), float(curves.at("drift", 0, 0.0)[0])
    curve: np.ndarray = curves.at(ladder, 0, _AT) / ((both[0] - both[1]) or 1.0)
    return curve + 0.0


def shape_of(curves: Curves) -> tuple[str, str, float] | None:
    """Name of the penalty, the policy that it refers to and its coefficient; None where nothing known fits."""
    curve = idle(curves, "drift")
    if not np.isfinite(curve).all() or np.abs(curve).max() < 1e-12:
        return None
    for name, shape in _SHAPES.items():
        unit_curve = shape(_AT)
        coefficient = float(curve @ unit_curve / (unit_curve @ unit_curve))
        if np.abs(curve - coefficient * unit_curve).max() < 1e-6 * np.abs(curve).max():
            moved = float(np.ptp(idle(curves, "snapshot"))) > 1e-12
            return name, "proximal" if moved else "behavior", tidy(coefficient)
    return None


def penalty_of(curves: Curves) -> Any:
    """The penalty as a part of a method; None where there is none, or none that is known."""
    shape = shape_of(curves)
    if shape is None or shape[0] not in plugins.summaries("asyncsim.penalties"):
        return None
    name, to, coefficient = shape
    penalty = plugins.load("asyncsim.penalties", name, "penalty")(abs(coefficient), to=to)
    # A negative coefficient, which the constructor refuses, is a mistake to be named.
    return replace(penalty, coefficient=coefficient)


SHIFT = "log-probs are those of the tokens already: shift neither them nor the mask"
TRUNCATED = "a convention of truncated answers, as TRL and DAPO have it; say what becomes of their tokens"
FIRST, LAST, FULL = "first token left out", "last token left out", "rows as long as the batch left out"


class Trimmed(NamedTuple):
    """What is left out, and whether the loss of rows with one more token there is one without that mistake."""

    name: str
    kind: str
    evidence: str
    remedy: str
    mended: bool


def untrimmed(subject: Subject, probe: Probe) -> tuple[Subject, Trimmed | None]:
    """The loss as it is where no token is left out; else evaluated on rows with one more token there, if that helps."""
    ignored = _ignored_tokens(subject, probe)
    if ignored is None:
        return subject, None
    tokens = probe.mask > 0
    place = torch.arange(tokens.shape[1]).expand(tokens.shape)
    ends = tokens & (place == (place * tokens).amax(-1, keepdim=True))
    starts = tokens & (place == torch.where(tokens, place, tokens.shape[1]).amin(-1, keepdim=True))
    column, full = tokens & (place == tokens.shape[1] - 1), tokens & tokens.all(-1, keepdim=True)
    known = ((FIRST, starts), (LAST, ends), (LAST, column), (FULL, full))
    name = next((name for name, where in known if torch.equal(ignored, where)), None)
    padded = (_padded(subject, name == FIRST, counted) for counted in (0.0, 1.0))
    repaired = next((other for other in padded if name and _ignored_tokens(other, probe) is None), None)
    if name is None or (name == FULL and repaired is None):
        return subject, None
    evidence = f"the {name.split()[0]} generated token of a row has no gradient"
    if name != FULL or repaired is None:
        return repaired or subject, Trimmed(name, "bug", evidence, SHIFT, repaired is not None)
    others = tokens & ~full & (probe.advantages != 0)
    factor = float((subject.ask(probe).cotangent / repaired.ask(probe).cotangent)[others].mean())
    left = float(probe.mask.sum() / (tokens & ~full).sum())
    stay = {1.0: "stay in the denominator", left: "leave the denominator"}
    words = next((text for x, text in stay.items() if math.isclose(x, factor, rel_tol=1e-6)), "are counted in part")
    evidence = (
        f"they have no gradient, and their tokens {words}: in '{probe.name}' others have {factor:.4g} times theirs"
    )
    return repaired, Trimmed(FULL, "note", evidence, TRUNCATED, True)


def _ignored_tokens(subject: Subject, probe: Probe) -> Tensor | None:
    """Generated tokens with an advantage and without a gradient; None where it is none of them, or all."""
    sign = torch.where(probe.advantages < 0, -1.0, 1.0).to(probe.mask.dtype)
    answer = subject.quietly(probe.but(probe.name, advantages=sign))
    if answer is None or not answer.finite:
        return None
    ignored = (answer.cotangent == 0) & (probe.mask > 0)
    return ignored if bool(ignored.any()) and not bool(ignored[probe.mask > 0].all()) else None


def _padded(subject: Subject, front: bool, counted: float) -> Subject:
    """The loss on rows with one more column in front or behind, of one policy and without an advantage."""
    fill = (-1.0, -1.0, -1.0, 0.0, counted)

    def loss(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        tensors = (log_prob, behavior, proximal, advantages, mask)
        columns = [torch.full_like(x[:, :1], value) for x, value in zip(tensors, fill, strict=True)]
        pairs = zip(columns, tensors, strict=True) if front else zip(tensors, columns, strict=True)
        result: Tensor = subject.binding(*(torch.cat(pair, -1) for pair in pairs))
        return result

    return Subject(loss, attached=list(subject.attached))
