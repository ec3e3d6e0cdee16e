"""Metrics that a function is compared with: forms x what they are of x divisors x masks x spans x known mistakes.

A form gives a total and the number of its units; a metric divides the one by the other. What may be wrong stands in
four tables: `DIVISORS`, `MASKS`, `SPANS` and `CHANGES`. An entry has at most two mistakes, and a wrong base stands
alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from asyncsim.conformance._metric_probes import View

Total = tuple[float, float]
"""A sum, and the number of what was added."""


def _weights(logs: np.ndarray) -> np.ndarray:
    return np.exp(logs - logs.max())


def _perplexity(logs: np.ndarray) -> float:
    share = _weights(logs) / _weights(logs).sum()
    return float(np.exp(-(share * np.log(np.where(share > 0, share, 1.0))).sum()))


ESS: dict[str, Callable[[np.ndarray], float]] = {
    "kish": lambda logs: float(_weights(logs).sum() ** 2 / (_weights(logs) ** 2).sum()),
    "maximum": lambda logs: float(_weights(logs).sum()),
    "perplexity": _perplexity,
    "population": lambda logs: float(len(logs) ** 2 / np.exp(2.0 * logs).sum()),
}
"""Effective numbers of samples of log weights."""

MEANS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "k1": lambda x: -x,
    "k2": lambda x: 0.5 * x**2,
    "k3": lambda x: np.expm1(x) - x,
    "reverse": lambda x: x * np.exp(x),
    "reverse_k3": lambda x: x * np.exp(x) - np.expm1(x),
    "weight": np.exp,
    "chi_square": lambda x: np.expm1(2.0 * x),
    "size": np.abs,
}
"""Numbers of a log ratio x of another policy to the sampled one, that are averaged."""

AGES = ("first", "head", "newest", "mean", "span", "last", "row_mean", "largest", "smallest")
POOLS = ("sequence", "token", "geometric", "broadcast", "within", "frames")
LEVELS = ("sequence", "token", "geometric", "sum", "row_mean")
MIXED = ("mixed", "mixed_geometric")
"""k3 of a token's log ratio and its row's ratio (or geometric mean): a mistake of its own."""


def pools(view: View, of: str) -> list[np.ndarray]:
    """Log weights that stand in one ESS; of several, the mean is taken."""
    x, mask = view.x, view.mask
    if of == "token":
        return [x[mask]]
    if of in ("within", "frames"):
        lines = zip(x, mask, strict=True) if of == "within" else zip(x.T, mask.T, strict=True)
        return [row[inside] for row, inside in lines if inside.any()]
    count = mask.sum(1)
    if of == "average":
        return [np.log(np.where(mask, np.exp(x), 0.0).sum(1)[count > 0] / count[count > 0])]
    total = np.where(mask, x, 0.0).sum(1) / (np.maximum(count, 1) if of == "geometric" else 1.0)
    return [np.repeat(total, count)] if of == "broadcast" else [total[count > 0]]


def ess_total(view: View, form: str, of: str, clamp: tuple[float, float] | None) -> Total:
    """Effective number of units and their number; inside rows or positions, of shares and rows or positions."""
    lines = pools(view, of)
    lines = lines if clamp is None else [np.clip(line, *clamp) for line in lines]
    if of in ("within", "frames"):
        return sum(ESS[form](line) / len(line) for line in lines), len(lines)
    return ESS[form](lines[0]) if len(lines[0]) else math.nan, len(lines[0])


def mean_total(view: View, value: Callable[..., np.ndarray], of: str) -> Total:
    """Sum of a number over units, and their number; the number may depend on the sign of the advantage."""
    count = view.mask.sum(1)
    full = count > 0
    if of in ("sequence", "geometric", "average"):
        return float(value(pools(view, of)[0], view.sign[full]).sum()), int(full.sum())
    if of in MIXED:
        row = np.where(view.mask, view.x, 0.0).sum(1) / (1 if of == "mixed" else np.maximum(count, 1))
        return float(np.where(view.mask, np.expm1(row)[:, None] - view.x, 0.0).sum()), int(count.sum())
    numbers = np.where(view.mask, value(view.x, view.sign[:, None]), 0.0)
    if of == "row_mean":
        return float((numbers.sum(1)[full] / count[full]).sum()), int(full.sum())
    if of == "any":
        return float((numbers > 0).any(1).sum()), int(full.sum())
    return float(numbers.sum()), int(full.sum() if of == "sum" else count.sum())


def age_total(view: View, form: str) -> Total:
    """Sum of a reduction of staleness over rows, and their number."""
    x, mask = view.x, view.mask
    full = mask.any(1)
    x, mask = x[full], mask[full]
    if form == "mean":
        return float(x[mask].sum()), int(mask.sum())
    if form == "row_mean":
        return float((np.where(mask, x, 0.0).sum(1) / mask.sum(1)).sum()), len(x)
    oldest, newest = np.where(mask, x, -np.inf).max(1), np.where(mask, x, np.inf).min(1)
    if form in ("largest", "smallest"):
        return float(oldest.max() if form == "largest" else newest.min()), 1
    if form in ("first", "last"):
        place = mask.argmax(1) if form == "first" else mask.shape[1] - 1 - mask[:, ::-1].argmax(1)
        return float(x[np.arange(len(x)), place].sum()), len(x)
    return float({"head": oldest, "newest": newest, "span": oldest - newest}[form].sum()), len(x)


DIVISORS: dict[str, Callable[[float, View], float]] = {
    # divisor of the total by the number of units n and the batch
    "": lambda n, view: n,
    "count": lambda n, view: 1.0,
    "percent": lambda n, view: n / 100.0,
    "padded tokens in the denominator": lambda n, view: view.mask.size,
    "means over different denominators": lambda n, view: n * n / view.mask.size,
    "first moment over padded tokens": lambda n, view: view.mask.size**2 / n,
    "divided by rows": lambda n, view: len(view.mask),
    "divided by rollouts": lambda n, view: len(np.unique(view.rollout)),
    "divided by groups": lambda n, view: len(np.unique(view.group)),
}
PLAIN = ("", "count", "percent")

_UNMASKED = "numerator without the mask"
MASKS: dict[str, Callable[[View], View]] = {
    "": lambda view: view,
    _UNMASKED: lambda view: view._replace(mask=np.ones_like(view.mask)),
    "mask ignored": lambda view: view._replace(mask=np.ones_like(view.mask)),
    "padded tokens counted as 0": lambda view: view._replace(
        x=np.where(view.mask, view.x, 0.0), mask=np.ones_like(view.mask)
    ),
}


def _cut(view: View, size: int) -> list[View]:
    return [view.rows(slice(start, start + size)) for start in range(0, len(view.mask), size)]


SPANS: dict[str, Callable[[View], list[View]]] = {
    "": lambda view: [view],
    "averaged over 2 micro-batches": lambda view: _cut(view, -(-len(view.mask) // 2)),
    "averaged over 4 micro-batches": lambda view: _cut(view, -(-len(view.mask) // 4)),
    "averaged over micro-batches of 2 rows": lambda view: _cut(view, 2),
    "averaged over micro-batches of 4 rows": lambda view: _cut(view, 4),
    "averaged over rows": lambda view: _cut(view, 1),
    "averaged over groups": lambda view: [view.rows(view.group == each) for each in np.unique(view.group)],
}

CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "": lambda x: x,
    "reversed": lambda x: -x,
    "absolute log ratios": np.abs,
    "powers of 2": lambda x: x * math.log(2.0),
    "powers of 10": lambda x: x * math.log(10.0),
    "logarithms to base 2": lambda x: x / math.log(2.0),
    "logarithms to base 10": lambda x: x / math.log(10.0),
}
BASES = list(CHANGES)[2:]
SHIFTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "": CHANGES[""],
    "reversed": CHANGES["reversed"],
    "one too many": lambda x: x + 1.0,
    "one too few": lambda x: x - 1.0,
}
_EVERY = CHANGES | SHIFTS


@dataclass(frozen=True)
class Entry:
    """One metric: a form of a family ("ess", "mean", "age", "clip"), what it is of, and what may be wrong with it."""

    family: str
    form: str
    of: str = ""
    divisor: str = ""
    mask: str = ""
    span: str = ""
    change: str = ""
    clamp: tuple[float, float] | None = None
    rule: Any = None
    """Of a clip fraction: which tokens are counted, by log ratio and sign of the advantage."""

    @property
    def mistakes(self) -> tuple[str, ...]:
        """Names of what is wrong."""
        divisor = () if self.divisor in PLAIN else (self.divisor,)
        return (*divisor, *(each for each in (self.mask, self.span, self.change) if each))

    def value(self, view: View) -> float:
        """The number of a batch."""
        return self.divided(self.parts(view))

    def parts(self, view: View) -> list[tuple[float, float, View]]:
        """Total, count and rows of every part of a batch; the divisor does not enter."""
        change = _EVERY[self.change]
        parts = [part._replace(x=change(part.x)) if self.change else part for part in SPANS[self.span](view)]
        found = [(*self._total(MASKS[self.mask](part)), part) for part in parts]
        return [(x, int(p.mask.sum()) if self.mask == _UNMASKED else n, p) for x, n, p in found]

    def divided(self, parts: list[tuple[float, float, View]]) -> float:
        """The mean over parts of total over divisor."""
        divisors = [DIVISORS[self.divisor](count, part) for _, count, part in parts]
        if 0 in divisors:
            return math.nan
        return sum(total / divisor for (total, _, _), divisor in zip(parts, divisors, strict=True)) / len(parts)

    def _total(self, view: View) -> Total:
        if self.family == "ess":
            return ess_total(view, self.form, self.of, self.clamp)
        if self.family == "age":
            return age_total(view, self.form)
        if self.family == "clip":
            return mean_total(view, self.rule, self.of)
        low, high = self.clamp or (-math.inf, math.inf)
        return mean_total(view, lambda x, sign: MEANS[self.form](np.clip(x, low, high)), self.of)


def _forms(family: str, rule: Any = None, form: str = "") -> Iterator[Entry]:
    """Entries of a family without mistakes, with their ways to divide."""
    if family == "age":
        yield from (Entry(family, each) for each in AGES)
        return
    # Of sequences k1 is the sum, and of geometric means the mean inside rows.
    kinds = {
        "ess": [(each, of) for each in ESS for of in POOLS],
        "mean": [
            *((each, of) for each in MEANS for of in LEVELS if each != "k1" or of not in ("sum", "row_mean")),
            *(("k3", of) for of in MIXED),
        ],
        "clip": [(form, of) for of in ("token", "row_mean", "sequence", "geometric", "average", "any")],
    }[family]
    for each, of in kinds:
        # Added up over all tokens, sums of rows are no other metric.
        twice = of == "sum" or (each, of) == ("k1", "sequence")
        divisors = PLAIN if family != "mean" else PLAIN[: 1 if twice else 2]
        yield from (Entry(family, each, of, divisor, rule=rule) for divisor in divisors)


def _divisors(entry: Entry, masked: bool) -> Iterator[str]:
    """Wrong divisors that an entry may have."""
    if entry.family == "age" or entry.divisor:
        yield from ("padded tokens in the denominator",) if masked and entry.form == "mean" else ()
        return
    if masked and entry.of in ("token", "broadcast"):
        yield "padded tokens in the denominator"
    if masked and entry.family == "ess" and entry.of in ("token", "broadcast"):
        yield from ("means over different denominators", "first moment over padded tokens")
    if entry.family == "ess":
        yield from ("divided by rows",) if entry.of in ("token", "broadcast") else ()
        yield from ("divided by rollouts", "divided by groups")


def _sums(entry: Entry, many: int) -> bool:
    """Whether an entry is a mean over tokens, whose sum may miss the mask."""
    return entry.of == "token" and entry.family in ("mean", "clip") and not entry.divisor and many < 2


def _wrong(entry: Entry, masked: bool, many: int) -> Iterator[Entry]:
    """The entry with so many mistakes."""
    moves = {"age": SHIFTS, "clip": {}}.get(entry.family, CHANGES)
    axes = {
        "divisor": list(_divisors(entry, masked)),
        "mask": [each for each in MASKS if each and (each != _UNMASKED or _sums(entry, many))] if masked else [],
        "span": list(SPANS)[1:],
        # A wrong base or sign is looked for alone.
        "change": [each for each in moves if each and not entry.clamp and (many < 2 or each not in BASES)],
    }
    for names in itertools.combinations(axes, many):
        for picks in itertools.product(*(axes[name] for name in names)):
            changes: dict[str, Any] = dict(zip(names, picks, strict=True))
            wrong = replace(entry, **changes)
            if not (wrong.divisor.startswith(("padded", "means", "first")) and wrong.mask):
                yield wrong


@cache
def entries(families: tuple[str, ...], masked: bool, many: int) -> tuple[Entry, ...]:
    """All entries of these families with so many mistakes."""
    plain = [entry for family in families for entry in _forms(family)]
    return tuple(wrong for entry in plain for wrong in _wrong(entry, masked, many))


def clamped(low: float, high: float, masked: bool, many: int) -> tuple[Entry, ...]:
    """ESS and mean of weights whose logs were clamped."""
    means = (entry for entry in _forms("mean") if entry.form == "weight")
    plain = [replace(entry, clamp=(low, high)) for entry in (*_forms("ess"), *means)]
    return tuple(wrong for entry in plain for wrong in _wrong(entry, masked, many))


def clipped(rule: Any, form: str, masked: bool, many: int) -> tuple[Entry, ...]:
    """Shares of tokens or rows that a rule counts."""
    return tuple(wrong for entry in _forms("clip", rule, form) for wrong in _wrong(entry, masked, many))
