"""Parts of a loss that are identified one by one: its curve, its penalty, omitted tokens, its denominator.

Where all policies agree, a m is the gradient over A. A factor over an aggregator is a product of powers of the batch's
size, or a rule: other rows or tokens are counted, or parts are averaged. It is named where it gives every token of
every batch.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.conformance._loss_probes import LADDERS, Points, grid, points
from asyncsim.conformance._loss_subject import Probe, Subject
from asyncsim.conformance.reports import Finding
from asyncsim.step import ratios

_CHUNK, _LARGE, _COARSE, _FEW = 64, 512, 4, 16
_SUSPECT = 0.3
"""Change of slope over one step of the grid, in units of the weight itself, that is looked at more closely."""
_SUSPECTS = 60
"""Places of one curve that are looked at, at most: a weight that is rough everywhere has no constants to read off."""
_BENT, _NEGLIGIBLE, _FINEST = 0.02, 3e-8, 1e-9
_CLAMPED = 2.5
"""Smallest log ratio at which a clamp is looked for; nearer to 1 clips and caps close."""


class Kink(NamedTuple):
    """A jump or bend of the weight: `ladder`, sign of the advantage, log ratio, and the weights on both sides."""

    ladder: str
    sign: int
    log_ratio: float
    kind: str
    below: float
    above: float

    @property
    def ratio(self) -> float:
        """The ratio at the kink, with the fewest digits that the precision of the search allows."""
        return tidy(math.exp(self.log_ratio))

    def text(self, to_snapshot: bool) -> str:
        """Description of the kink; `to_snapshot`: the current policy's ratio is to pi_prox, not to mu."""
        now = "pi / pi_prox" if to_snapshot else "pi / mu"
        moved = {"drift": now, "lag": "pi_prox / mu", "snapshot": "pi / pi_prox", "probable": now}
        sign = {1: "A > 0", -1: "A < 0", 0: "A = 0"}[self.sign]
        change = f"weight {self.below:.4g} -> {self.above:.4g}" if self.kind == "jump" else f"from {self.below:.4g} on"
        return f"{self.kind} at {moved[self.ladder]} = {self.ratio:.6g} for {sign} ({change})"


def fewest(value: float, most: int, within: float) -> float | None:
    """The number with the fewest digits, at most `most`, within a tolerance of the value; None if there is none."""
    numbers = (float(f"{value:.{digits}g}") for digits in range(1, most + 1))
    return next((near for near in numbers if abs(near - value) <= within), None)


def tidy(value: float) -> float:
    """The number with the fewest digits that the value equals within the precision of the bisection."""
    near = fewest(value, 7, 2e-8 * max(1.0, abs(value)))
    return float(f"{value:.9g}") if near is None else near


@dataclass
class Curves:
    """Weights c of single tokens, in units of c at log ratio 0 and A = 1; evaluated in batches if that is safe."""

    subject: Subject
    pair: bool = False
    separable: bool = False
    unit: float = 1.0
    _factors: dict[int, float] = field(default_factory=dict)
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
        """Return -dL/d log_prob of every token as if it were its own batch, `[K]`."""
        if not self.separable:
            return torch.stack([self._single(at.part(slice(k, k + 1))) for k in range(len(at.log_prob))])
        # The last token again fills the last batch.
        size = next(size for size in self._factors if size >= len(at.log_prob) or size == max(self._factors))
        parts = []
        for start in range(0, len(at.log_prob), size):
            index = torch.arange(start, start + size).clamp(max=len(at.log_prob) - 1)
            answer = self.subject.ask(at.part(index).probe(self.pair)).cotangent
            parts.append(answer.reshape(size, -1)[: len(at.log_prob) - start, 0])
        return torch.cat(parts) * self._factors[size]

    def of(self, ladder: str, sign: int) -> tuple[np.ndarray, np.ndarray]:
        """Log ratios of a ladder, and the weights there in units of c(0)."""
        if (ladder, sign) not in self.sampled:
            x = grid(ladder, 1 if self.separable else _COARSE)
            self.sampled[ladder, sign] = x, self.at(ladder, sign, x)
        return self.sampled[ladder, sign]

    def at(self, ladder: str, sign: int, x: np.ndarray | float) -> np.ndarray:
        """Weights at given log ratios of a ladder, in units of c(0)."""
        return (self(points(ladder, float(sign), np.atleast_1d(x))) / self.unit).numpy()

    @cached_property
    def rough(self) -> bool:
        """Whether weights that change over large steps are constant over small ones, which shows rounding."""
        for at in (np.array([-0.31, 0.33]), np.linspace(-0.61, 0.63, 31)):
            here, near = (np.concatenate([self.at("drift", sign, x) for sign in (1, -1)]) for x in (at, at + 1e-5))
            if not (near == here).all():
                return False
        return len(np.unique(here)) > 8

    @cached_property
    def kinks(self) -> tuple[Kink, ...]:
        """All jumps and bends of the weights, by ladder, sign and log ratio, except those in `limits`."""
        return tuple(kink for kink in self._all_kinks if kink not in self.limits)

    @cached_property
    def limits(self) -> tuple[Kink, ...]:
        """Kinks that are not constants of a method: clamps of the log ratio, live or at asyncsim's own limit."""
        limit = ratios.LOG_LIMIT - 1e-3
        return tuple(kink for kink in self._all_kinks if abs(kink.log_ratio) >= limit or self._is_clamp(kink))

    @cached_property
    def _all_kinks(self) -> tuple[Kink, ...]:
        if self.rough:
            return ()
        new = [(ladder, sign) for ladder in LADDERS for sign in (1, -1) if not self.repeats(ladder, sign)]
        return tuple(kink for ladder, sign in new for kink in self._kinks(ladder, sign))

    def _is_clamp(self, kink: Kink) -> bool:
        """Whether the log ratio is clamped there inside the graph: no gradient beyond, and a constant value."""
        up = kink.log_ratio > 0
        outer = kink.above if up else kink.below
        if kink.kind != "jump" or abs(outer) > 1e-12 or abs(kink.log_ratio) < _CLAMPED:
            return False
        # Whether three digits say the log ratio, and the ratio.
        plain = [fewest(x, 3, 1e-7 * abs(x)) is not None for x in (kink.log_ratio, math.exp(kink.log_ratio))]
        if up and (kink.sign > 0 or plain != [True, False]):
            return False  # a cap or a dual clip, whose bound is a ratio
        if not up and kink.sign < 0:
            return False  # where PPO closes
        beyond = kink.log_ratio + (1.0 if up else -1.0) * np.array([0.5, 1.0])
        ends = [points(kink.ladder, float(kink.sign), x[None]).probe(self.pair) for x in beyond]
        first, second = (self.subject.ask(probe).value for probe in ends)
        return first != 0.0 and abs(first - second) <= 1e-9 * abs(first)

    def repeats(self, ladder: str, sign: int) -> bool:
        """Whether the curve of a ladder equals the curve of the first ladder."""
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
        """Narrow down the kink inside an interval; None if the curve is only steep."""
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
        # Change of slope over a long and over a short distance.
        steps = np.array([-2.0, -1.0, 1.0, 2.0])
        ends = [(width, self.at(ladder, sign, middle + width * steps)) for width in (1e-4, 1e-5)]
        wide, narrow = (float(abs((y[3] - y[2]) - (y[1] - y[0])) / width) for width, y in ends)
        sharp = narrow > max(_BENT * size, 0.5 * wide)
        return Kink(ladder, sign, middle, "bend", float(below), float(above)) if sharp else None

    def _single(self, at: Points) -> Tensor:
        weight = self.subject.ask(at.probe(self.pair)).cotangent[0, 0]
        if bool(torch.isfinite(weight)):
            return weight
        # Where nothing is left to divide by, a token of ratio 1 beside it is: a rejected one has no weight then.
        fresh = points("drift", 0.0, np.zeros(1))
        beside = Points(*(torch.cat(pair) for pair in zip(at, fresh, strict=True)))
        answer = self.subject.ask(beside.probe(False)).cotangent[0, 0]
        return answer if float(answer) == 0.0 else weight

    def _decide(self) -> None:
        """Decide whether tokens of one batch are independent, so that many can be evaluated at once."""
        rng = np.random.default_rng(7)
        order = np.arange(_CHUNK)
        # Tokens near 1 among tokens far out: a threshold or a count that they share would show.
        x, signs = rng.normal(0.0, np.where(order % 3 == 0, 1.5, 0.2)), np.where(order % 2 == 0, 1.0, -1.0)
        drawn = points("lag", 1.0, x)._replace(advantage=torch.from_numpy(signs))
        drawn = drawn._replace(proximal=drawn.log_prob - torch.from_numpy(rng.normal(0.0, 0.3, _CHUNK)))
        alone = torch.stack([self._single(drawn.part(slice(k, k + 1))) for k in range(_CHUNK)])
        # Another mixture of the same tokens: what all of them share would be another number.
        places = torch.arange(_CHUNK)
        factor = self._factor(drawn, alone, places, places % 8)
        if factor is None:
            return
        self.separable, self._factors[_CHUNK] = True, factor
        # More are asked at once where that is the same, to the bit where nothing is centered over the batch.
        with suppress(checks.InputError):
            factor = None if self.pair else self._factor(drawn, alone, torch.arange(_LARGE) % _CHUNK)
            self._factors |= {} if factor is None else {_LARGE: factor}

    def _factor(self, drawn: Points, alone: Tensor, *mixtures: Tensor) -> float | None:
        """Ratio of a token's weight alone to its weight in a batch; None if it is not one number."""
        factors = []
        for places in mixtures:
            answer, one = self.subject.ask(drawn.part(places).probe(self.pair)).cotangent, alone[places]
            together, used = answer.reshape(len(places), -1)[:, 0], one != 0
            if not torch.equal(used, together != 0):
                return None
            factors.append(one[used] / together[used])
        every = torch.cat(factors)
        same = len(every) > 0 and float((every / every[0] - 1).abs().max()) < 1e-9
        return float(every[0]) if same else None


_SHAPES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "k1": lambda x: -np.ones_like(x),
    "k2": lambda x: -x,
    "k3": lambda x: -(1.0 - np.exp(-x)),
}

_AT = np.array([-1.5, -0.7, -0.2, 0.0, 0.3, 0.9, 1.6])


def idle(curves: Curves, ladder: str) -> np.ndarray:
    """Weights of tokens with A = 0, in units of the contribution of an advantage of 1 at log ratio 0."""
    both = float(curves.at("drift", 1, 0.0)[0]), float(curves.at("drift", 0, 0.0)[0])
    curve: np.ndarray = curves.at(ladder, 0, _AT) / ((both[0] - both[1]) or 1.0)
    return curve + 0.0


def shape_of(curves: Curves) -> tuple[str, str, float] | None:
    """Name, reference policy and coefficient of a loss's penalty; None if no known penalty fits."""
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
    """Penalty of a loss as a part of a method; None if it has no penalty, or no known one."""
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
    """Tokens that a loss leaves out, and whether adding one token to the rows removes the mistake."""

    finding: Finding
    mended: bool


def untrimmed(subject: Subject, probe: Probe) -> tuple[Subject, Trimmed | None]:
    """The loss as given if no token is left out; else evaluated on rows with one extra token, if that helps."""
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
        return repaired or subject, Trimmed(Finding(name, "bug", evidence, SHIFT), repaired is not None)
    others = tokens & ~full & (probe.advantages != 0)
    factor = float((subject.ask(probe).cotangent / repaired.ask(probe).cotangent)[others].mean())
    left = float(probe.mask.sum() / (tokens & ~full).sum())
    stay = {1.0: "stay in the denominator", left: "leave the denominator"}
    words = next((text for x, text in stay.items() if math.isclose(x, factor, rel_tol=1e-6)), "are counted in part")
    evidence = f"they have no gradient, and their tokens {words}"
    evidence += f": in '{probe.name}' others have {factor:.4g} times theirs"
    return repaired, Trimmed(Finding(FULL, "note", evidence, TRUNCATED), True)


def _ignored_tokens(subject: Subject, probe: Probe) -> Tensor | None:
    """Generated tokens with an advantage but no gradient; None if there are none, or if all are ignored."""
    sign = torch.where(probe.advantages < 0, -1.0, 1.0).to(probe.mask.dtype)
    answer = subject.quietly(probe.but(probe.name, advantages=sign))
    if answer is None or not answer.finite:
        return None
    ignored = (answer.cotangent == 0) & (probe.mask > 0)
    return ignored if bool(ignored.any()) and not bool(ignored[probe.mask > 0].all()) else None


def _padded(subject: Subject, front: bool, counted: float) -> Subject:
    """The loss on rows with an extra column before or after, on which policies agree and the advantage is 0."""
    fill = (-1.0, -1.0, -1.0, 0.0, counted)

    def loss(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        tensors = (log_prob, behavior, proximal, advantages, mask)
        columns = [torch.full_like(x[:, :1], value) for x, value in zip(tensors, fill, strict=True)]
        pairs = zip(columns, tensors, strict=True) if front else zip(tensors, columns, strict=True)
        return subject.binding(*(torch.cat(pair, -1) for pair in pairs))

    return Subject(loss, attached=list(subject.attached))


_SAME = 1e-6
ROWS = ("sequence_sum", "sequence_mean", "constant")
AGGREGATORS = ("token_mean", *ROWS)


class Rule(NamedTuple):
    """A known extra factor of some aggregators, a number or `[B, 1]`, from the batch and the tokens kept."""

    text: str
    aggregators: tuple[str, ...]
    factor: Callable[[Probe, Tensor], Tensor]
    finding: str
    kind: str
    remedy: str


@dataclass(frozen=True)
class Divisor:
    """Denominator of a loss: an aggregator (None: unknown), and an extra factor that `rule` describes."""

    aggregator: str | None
    rule: Rule | None = None

    @property
    def name(self) -> str:
        """Name of the aggregator, with the extra factor in words."""
        return f"{self.aggregator} {self.rule.text}" if self.rule else self.aggregator or "unknown"

    def times(self, probe: Probe, kept: Tensor | None = None) -> Tensor | float:
        """The extra factor on a batch; `kept` marks the tokens that a mask keeps (None: all)."""
        return 1.0 if self.rule is None else self.rule.factor(probe, probe.mask if kept is None else kept)

    def evidence(self, probes: Sequence[Probe], kept: Sequence[Tensor]) -> str:
        """The extra factor in words, and its value in the batch where it is farthest from 1."""
        pairs = zip(probes, kept, strict=True)
        found = [(torch.as_tensor(self.times(p, k)).broadcast_to(p.mask.shape)[k > 0], p.name) for p, k in pairs]
        factors, name = max(found, key=lambda pair: float(pair[0].log().abs().max()) if len(pair[0]) else 0.0)
        low, high = float(factors.min()), float(factors.max())
        numbers = f"{low:.4g}" if high - low < _SAME else f"{low:.4g} to {high:.4g}"
        return f"{self.name}; in the batch '{name}' the gradient is {numbers} times that of {self.aggregator}"


UNKNOWN = Divisor(None)


def shares(aggregator: str, probe: Probe) -> Tensor:
    """Aggregation weight of every token, its mask divided by the aggregator's denominator, `[B, T]`."""
    mask, (B, T) = probe.mask, probe.mask.shape
    lengths = mask.sum(-1, keepdim=True).clamp(min=1.0)
    by: dict[str, Any] = {"token_mean": mask.sum(), "sequence_sum": B, "sequence_mean": B * lengths, "constant": B * T}
    return mask / by[aggregator]


def _filled(mask: Tensor) -> Tensor:
    return (mask.sum(-1) > 0).sum()


def _paid(probe: Probe) -> Tensor:
    return probe.mask * (probe.advantages != 0)


def _average(rows: int | float, probe: Probe, kept: Tensor) -> Tensor:
    """Factor T / (K T_k) of each row's part, for parts of `rows` rows, or of that fraction of all rows."""
    size = rows if isinstance(rows, int) else -(-len(kept) // round(1 / rows))
    part = torch.arange(len(kept)) // size
    tokens = torch.zeros(int(part[-1]) + 1, dtype=kept.dtype).index_add(0, part, kept.sum(-1))
    return (kept.sum() / (len(tokens) * tokens.clamp(min=1.0)))[part].unsqueeze(-1)


_COUNT = "divide by what the whole step contains"
_SUMS = "add sums over the step, then divide once by its tokens"
_FILTERED = "rows without an advantage leave the denominator"
_GROWS = "a convention of filtered rows; the step grows as fewer rows have an advantage"
_PARTS = {"2 rows": 2, "4 rows": 4, "half of the rows": 0.5, "a quarter of the rows": 0.25}
_TOKENS = ("token_mean",)
EMPTY = Rule(
    "x B / (B - M), without the M rows that have no tokens", ROWS, lambda p, k: len(k) / _filled(k),
    "fully masked sequences leave the count", "note",
    "a convention: verl leaves them out on purpose, others count every row; say which beside results",
)  # fmt: skip
"""The factor of means over rows that have tokens: a convention, so that a loss with it still is the asked method."""
RULES = (
    Rule(
        "x T / (T + M), with M rows without tokens that count as a token each", _TOKENS,
        lambda p, k: k.sum() / k.sum(-1).clamp(min=1.0).sum(), "rows without tokens counted as a token", "bug",
        "divide by mask.sum(), not by a sum of lengths of at least 1",
    ),
    EMPTY,
    *(
        Rule(f"of parts of {words}, averaged", _TOKENS, partial(_average, rows), "micro-batches averaged", "bug", _SUMS)
        for words, rows in _PARTS.items()
    ),
    Rule("x T / T', with T' tokens of rows with an advantage", _TOKENS, lambda p, k: k.sum() / _paid(p).sum(),
         _FILTERED, "note", _GROWS),
    Rule("x B / B', with B' rows with an advantage", ROWS, lambda p, k: _filled(k) / _filled(_paid(p)),
         _FILTERED, "note", _GROWS),
)  # fmt: skip
_REJECTED = "rejected tokens leave the denominator"
_CONVENTION = "a convention: slime and verl leave them out on purpose, AReaL keeps them in; say which beside results"
REJECTING = (
    Rule("x T / T', with the T' tokens that are left", _TOKENS, lambda p, k: p.mask.sum() / k.sum().clamp(min=1.0),
         _REJECTED, "note", _CONVENTION),
    Rule("x T_i / T'_i, with the T'_i tokens that are left of each row", ("sequence_mean",),
         lambda p, k: p.mask.sum(-1, keepdim=True) / k.sum(-1, keepdim=True).clamp(min=1.0),
         _REJECTED, "note", _CONVENTION),
    Rule("x B / B', with the B' rows of which something is left", ROWS,
         lambda p, k: _filled(p.mask) / _filled(k).clamp(min=1), _REJECTED, "note", _CONVENTION),
)  # fmt: skip
"""Rules of what a mask of the method keeps: without rejection they change nothing."""


def divisor_of(subject: Subject, given: Sequence[Probe], read: Sequence[Probe]) -> Divisor:
    """Divisor that explains the batches on which all policies agree, given the advantages that the loss reads."""
    answers = []
    for probe in given:
        # What the advantages add to the gradient: a penalty that knows none is taken off.
        without = subject.quietly(probe.but(probe.name, advantages=torch.zeros_like(probe.advantages)))
        answer = subject.ask(probe).cotangent
        answers.append(answer - without.cotangent if without is not None and without.finite else answer)
    return divisor_among(answers, read)


def divisor_among(answers: Sequence[Tensor], read: Sequence[Probe]) -> Divisor:
    """Divisor that explains the cotangents of a loss on the batches as it reads them."""
    for rule, aggregators in ((None, AGGREGATORS), *((rule, rule.aggregators) for rule in RULES)):
        for aggregator in aggregators:
            ratios = _ratios(aggregator, rule, read, answers)
            if float((torch.cat(ratios) / ratios[0][:1] - 1.0).abs().nan_to_num(torch.inf).max()) < _SAME:
                return Divisor(aggregator, rule)
    return next(_powers(read, answers), UNKNOWN)


def _ratios(aggregator: str, rule: Rule | None, probes: Sequence[Probe], answers: Sequence[Tensor]) -> list[Tensor]:
    """Ratio of found to expected cotangents for every token with an advantage."""
    ratios = []
    for probe, answer in zip(probes, answers, strict=True):
        factor = 1.0 if rule is None else rule.factor(probe, probe.mask)
        expected = shares(aggregator, probe) * factor * probe.advantages
        used = expected != 0
        ratios.append(answer[used] / expected[used])
    return [x for x in ratios if len(x)] or [torch.full((1,), torch.nan, dtype=torch.float64)]


def _powers(probes: Sequence[Probe], answers: Sequence[Tensor]) -> Iterator[Divisor]:
    """Aggregators times powers of the rows B, the tokens T and the width W of a batch, simplest first."""
    found = []
    sizes = np.log([[np.e, len(p.mask), float(p.mask.sum()), p.mask.shape[1]] for p in probes])
    for aggregator in AGGREGATORS:
        ratios = _ratios(aggregator, None, probes, answers)
        if len(ratios) < len(probes) or not all(float(abs(x / x[0] - 1).max()) < _SAME and x[0] != 0 for x in ratios):
            continue
        logs = np.log([abs(float(x[0])) for x in ratios])
        powers = np.round(2.0 * np.linalg.lstsq(sizes, logs, rcond=None)[0][1:]) / 2.0
        if float(np.ptp(logs - sizes[:, 1:] @ powers)) < _SAME:
            found.append((float(np.abs(powers).sum()), aggregator, powers))
    for _, aggregator, powers in sorted(found, key=lambda row: row[0]):
        yield Divisor(aggregator, _of_powers(aggregator, powers))


def _of_powers(aggregator: str, powers: np.ndarray) -> Rule:
    def factor(probe: Probe, kept: Tensor) -> Tensor:
        sizes = torch.tensor([len(kept), float(kept.sum()), kept.shape[1]], dtype=kept.dtype)
        return torch.prod(sizes ** torch.from_numpy(powers))

    texts = [f"{'x' if x > 0 else '/'} {name}" + (f"^{abs(x):g}" if abs(x) != 1 else "") for x, name in
             zip(powers.tolist(), ("B rows", "T tokens", "W columns"), strict=True) if x]  # fmt: skip
    name = f"aggregator off by the number of {'tokens' if powers[1:].any() else 'sequences'}"
    return Rule(" ".join(texts), (aggregator,), factor, name, "bug", _COUNT)
