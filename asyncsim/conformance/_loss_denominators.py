"""What a loss divides by: its aggregator, and the exact factor where it divides by something else.

Where all policies agree, a m is the gradient over A. A factor is a product of powers of the batch's size, or a rule:
other rows or tokens are counted, or parts are averaged. It is named where it gives every token of every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.conformance._loss_subject import Probe, Subject

_SAME = 1e-6
ROWS = ("sequence_sum", "sequence_mean", "constant")
AGGREGATORS = ("token_mean", *ROWS)


class Rule(NamedTuple):
    """A factor of the batch and of the tokens that a mask keeps, a number or `[B, 1]`, beside some aggregators."""

    text: str
    aggregators: tuple[str, ...]
    factor: Callable[[Probe, Tensor], Tensor]
    finding: str
    kind: str
    remedy: str


@dataclass(frozen=True)
class Divisor:
    """An aggregator (None: unknown), and the factor that a loss has over it; `rule` says what it is."""

    aggregator: str | None
    rule: Rule | None = None

    @property
    def name(self) -> str:
        """The aggregator with its factor."""
        return f"{self.aggregator} {self.rule.text}" if self.rule else self.aggregator or "unknown"

    def times(self, probe: Probe, kept: Tensor | None = None) -> Tensor | float:
        """The factor in a batch, of which a mask keeps some tokens (None: all)."""
        return 1.0 if self.rule is None else self.rule.factor(probe, probe.mask if kept is None else kept)

    def evidence(self, probes: Sequence[Probe], kept: Sequence[Tensor]) -> str:
        """The factor in words, and in the batch where it is farthest from 1."""
        pairs = zip(probes, kept, strict=True)
        found = [(torch.as_tensor(self.times(p, k)).broadcast_to(p.mask.shape)[k > 0], p.name) for p, k in pairs]
        factors, name = max(found, key=lambda pair: float(pair[0].log().abs().max()) if len(pair[0]) else 0.0)
        low, high = float(factors.min()), float(factors.max())
        numbers = f"{low:.4g}" if high - low < _SAME else f"{low:.4g} to {high:.4g}"
        return f"{self.name}; in the batch '{name}' the gradient is {numbers} times that of {self.aggregator}"


UNKNOWN = Divisor(None)


def shares(aggregator: str, probe: Probe) -> Tensor:
    """a m of every token `[B, T]`."""
    mask, (B, T) = probe.mask, probe.mask.shape
    lengths = mask.sum(-1, keepdim=True).clamp(min=1.0)
    one = torch.ones((), dtype=mask.dtype)
    divisors = {
        "token_mean": mask.sum(),
        "sequence_sum": B * one,
        "sequence_mean": B * lengths,
        "constant": B * T * one,
    }
    return mask / divisors[aggregator]


def _filled(mask: Tensor) -> Tensor:
    return (mask.sum(-1) > 0).sum()


def _paid(probe: Probe) -> Tensor:
    return probe.mask * (probe.advantages != 0)


def _averaged(rows: int | float) -> Callable[[Probe, Tensor], Tensor]:
    """T / (K T_k) of the part to which a row belongs: parts of so many rows, or of that share of all."""

    def factor(probe: Probe, kept: Tensor) -> Tensor:
        size = rows if isinstance(rows, int) else -(-len(kept) // round(1 / rows))
        part = torch.arange(len(kept)) // size
        tokens = torch.zeros(int(part[-1]) + 1, dtype=kept.dtype).index_add(0, part, kept.sum(-1))
        return (kept.sum() / (len(tokens) * tokens.clamp(min=1.0)))[part].unsqueeze(-1)

    return factor


_COUNT = "divide by what the whole step contains"
_SUMS = "add sums over the step, then divide once by its tokens"
_FILTERED = "rows without an advantage leave the denominator"
_GROWS = "a convention of filtered rows; the step grows as fewer rows have an advantage"
_PARTS = {"2 rows": 2, "4 rows": 4, "half of the rows": 0.5, "a quarter of the rows": 0.25}
_TOKENS = ("token_mean",)
RULES = (
    Rule(
        "x T / (T + M), with M rows without tokens that count as a token each", _TOKENS,
        lambda p, k: k.sum() / k.sum(-1).clamp(min=1.0).sum(), "rows without tokens counted as a token", "bug",
        "divide by mask.sum(), not by a sum of lengths of at least 1",
    ),
    Rule(
        "x B / (B - M), without the M rows that have no tokens", ROWS, lambda p, k: len(k) / _filled(k),
        "fully masked sequences leave the count", "note",
        "a convention: verl leaves them out on purpose, others count every row; say which beside results",
    ),
    *(
        Rule(f"of parts of {words}, averaged", _TOKENS, _averaged(rows), "micro-batches averaged", "bug", _SUMS)
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
    """The divisor that explains batches on which all policies agree, with the advantages that the loss reads there."""
    answers = [_sloped(subject, probe) for probe in given]
    for rule, aggregators in ((None, AGGREGATORS), *((rule, rule.aggregators) for rule in RULES)):
        for aggregator in aggregators:
            ratios = _ratios(aggregator, rule, read, answers)
            if float((torch.cat(ratios) / ratios[0][:1] - 1.0).abs().nan_to_num(torch.inf).max()) < _SAME:
                return Divisor(aggregator, rule)
    return next(_powers(read, answers), UNKNOWN)


def _ratios(aggregator: str, rule: Rule | None, probes: Sequence[Probe], answers: Sequence[Tensor]) -> list[Tensor]:
    """What is found over what is expected, of every token with an advantage."""
    ratios = []
    for probe, answer in zip(probes, answers, strict=True):
        factor = 1.0 if rule is None else rule.factor(probe, probe.mask)
        expected = shares(aggregator, probe) * factor * probe.advantages
        used = expected != 0
        ratios.append(answer[used] / expected[used])
    return [x for x in ratios if len(x)] or [torch.full((1,), torch.nan, dtype=torch.float64)]


def _powers(probes: Sequence[Probe], answers: Sequence[Tensor]) -> Iterator[Divisor]:
    """Aggregators times powers of the rows B, the tokens T and the width W of a batch, the simplest first."""
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


def _sloped(subject: Subject, probe: Probe) -> Tensor:
    """What the advantages add to the gradient: a penalty that knows none is taken off."""
    without = subject.quietly(probe.but(probe.name, advantages=torch.zeros_like(probe.advantages)))
    answer = subject.ask(probe).cotangent
    return answer - without.cotangent if without is not None and without.finite else answer
