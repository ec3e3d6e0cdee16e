"""Metrics that a function is compared with, and the batches on which the function is evaluated.

A metric is a form x what it is of x a divisor x a mask x a span x known mistakes. A form gives a total and the number
of its units; a metric divides the one by the other. What may be wrong stands in four tables: `DIVISORS`, `MASKS`,
`SPANS` and `CHANGES`. An entry has at most two mistakes, and a wrong base stands alone. Batches are small and drawn
from a seed, with every situation that distinguishes metrics.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

ORDINARY = (
    # name, rows, tokens, rows of a group, deviation of log ratios in nats
    ("one group", 4, 5, 4, 0.4),
    ("ragged rows", 8, 6, 2, 0.5),
    ("several micro-batches", 12, 4, 3, 0.3),
    ("far policies", 8, 5, 4, 0.25),
    ("holes in the mask", 8, 6, 2, 0.4),
    ("one heavy weight", 16, 3, 4, 0.2),
    ("equal weights", 8, 5, 4, 0.0),
    ("segments of rollouts", 20, 3, 4, 0.0),
)
_EQUAL = 0.5 * math.log(0.8)
"""Log ratio of which one over the square is 1.25."""
_FAR = 1.7 * np.array(
    [[0, 1, 0, 0, 0], [0, 1, 0, -1, 0], [0, 0, 1, 0, 0], [0, -1, 0, 0, 0], *([k] * 5 for k in (1, 1, -1, -1))]
)
"""Single tokens of some rows, and whole rows of either sign, beyond the bounds of any usual clip."""
_SHARES = {"log_prob": 1.0, "proximal_log_prob": 0.5}
"""How far policies move where they do."""


class View(NamedTuple):
    """Inputs of a catalogue metric: log ratios or staleness `x [B, T]`, and the group and rollout of each row."""

    x: np.ndarray
    mask: np.ndarray
    sign: np.ndarray
    group: np.ndarray
    rollout: np.ndarray

    def rows(self, index: Any) -> "View":
        """The same view, restricted to some rows of the batch."""
        return View(*(part[index] for part in self))


@dataclass(frozen=True)
class Batch:
    """One test batch for metrics: log-probs by policy, bool mask, advantages and token versions, `[B, T]`.
    Also the trained version, and the group and rollout of each row `[B]`; a rollout that was cut has several rows.
    """

    name: str
    logs: Mapping[str, np.ndarray]
    mask: np.ndarray
    advantages: np.ndarray
    versions: np.ndarray
    trained: int
    group: np.ndarray
    rollout: np.ndarray

    def view(self, pair: tuple[str, str] | None) -> View:
        """Log ratio of the first policy of a pair to the second, or staleness without a pair, with groups and mask."""
        x = (self.trained - self.versions).astype(float) if pair is None else self.logs[pair[0]] - self.logs[pair[1]]
        return View(x, self.mask, np.sign(self.advantages[:, 0]), self.group, self.rollout)

    def but(self, name: str, **changes: Any) -> "Batch":
        """The same test batch with some of its parts replaced."""
        return replace(self, name=name, **changes)

    def moved(self, name: str, step: np.ndarray | float, **shares: float) -> "Batch":
        """The same batch with log-probs of some policies shifted by a fraction of `step`."""
        logs = {policy: x + shares.get(policy, 0.0) * step for policy, x in self.logs.items()}
        return self.but(name, logs=logs)

    def part(self, rows: slice) -> "Batch":
        """The same batch, restricted to some rows."""
        logs = {policy: x[rows] for policy, x in self.logs.items()}
        names = ("mask", "advantages", "versions", "group", "rollout")
        return replace(self, logs=logs, **{name: getattr(self, name)[rows] for name in names})


def ordinary(seed: int, masked: bool = True) -> list[Batch]:
    """Batches that every metric should handle; masked tokens have other numbers; without `masked`, none is masked."""
    return [_drawn(np.random.default_rng([seed, index]), masked, *row) for index, row in enumerate(ORDINARY)]


def _drawn(
    rng: np.random.Generator, masked: bool, name: str, rows: int, tokens: int, size: int, deviation: float
) -> Batch:
    shape = (rows, tokens)
    mask = np.arange(tokens) < rng.integers(1, tokens + 1, rows)[:, None]
    mask[0], mask[1, -1], mask[-1, 1:] = True, False, False
    if name.startswith("holes"):
        mask[2], mask[3] = True, True
        mask[2, 0] = mask[3, 2] = False
    if name == "far policies":
        mask[:-1] = True
    if name == "equal weights":
        # Two tokens would have a ratio of 0.8, where clips end.
        mask[:, 2] |= mask[:, 1]
    mask |= not masked
    batch = _batch(rng, name, mask, size, deviation)
    heavy = 2.0 * (np.arange(rows * tokens) == 3 * tokens).reshape(shape)
    step = {"one heavy weight": heavy, "equal weights": _EQUAL, "far policies": _FAR}
    batch = batch.moved(name, step.get(name, 0.0), **_SHARES)
    # What stands behind the mask belongs to nobody.
    hidden = np.where(mask, 0.0, rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape))
    return batch.moved(name, hidden, **_SHARES)


def _batch(rng: np.random.Generator, name: str, mask: np.ndarray, size: int, deviation: float) -> Batch:
    rows, shape = len(mask), mask.shape
    steps = [deviation * rng.standard_normal(shape) for _ in range(3)]
    behavior = -9.0 - 2.0 * rng.random(shape)
    proximal = behavior + 0.7 * steps[0]
    logs = {
        "behavior_log_prob": behavior,
        "proximal_log_prob": proximal,
        "log_prob": proximal + 0.7 * steps[1],
        "reference": behavior + steps[2],
    }
    level = rng.uniform(0.3, 2.0, rows) * np.where(np.arange(rows) % 2 == 0, 1.0, -1.0)
    level[2] = 0.0
    # Versions rise along a row, but where servers differ.
    versions = 2 + rng.integers(0, 5, rows)[:, None] + np.cumsum(rng.integers(0, 2, shape), axis=1)
    versions[0] = np.roll(versions[0], 1) + (np.arange(shape[1]) == 2)
    versions = np.where(mask, versions, rng.integers(0, 3, shape))
    cut = 4 if deviation == 0.0 else 2 if rows == 8 else 0
    rollout = np.arange(rows) - np.minimum((np.arange(rows) + 1) // 2, cut)
    advantages = np.repeat(level[:, None], shape[1], axis=1)
    return Batch(name, logs, mask, advantages, versions, 12 + shape[1], np.arange(rows) // size, rollout)


def around(seed: int, masked: bool, size: float, pair: tuple[str, str]) -> list[Batch]:
    """Batches whose tokens and rows lie on both sides of bounds of this size, in nats."""
    drawn = []
    for index, spread in enumerate((0.5, 1.0, 2.0, 2.0, 3.0)):
        rng = np.random.default_rng([seed, 40 + index])
        mask = (np.arange(5) < rng.integers(1, 6, 24)[:, None]) | (not masked)
        mask[0] = True
        batch = _batch(rng, "around the bounds of a clip", mask, 3, 0.1)
        steps = size * (rng.uniform(-1.5, 1.5, (24, 1)) + spread * rng.standard_normal((24, 5)))
        drawn.append(batch.but(batch.name, logs={**batch.logs, pair[0]: batch.logs[pair[1]] + steps}))
    return drawn


def flat(x: np.ndarray | float, sign: float = 1.0, newer: str = "log_prob") -> Batch:
    """Rows of one token with given log ratios of one policy to all others; four equal rows for a scalar."""
    step = np.broadcast_to(np.asarray(x, float), (4,) if np.ndim(x) == 0 else np.shape(x)).reshape(-1, 1)
    zero, rows = np.full_like(step, -30.0), np.arange(len(step))
    logs = dict.fromkeys(("behavior_log_prob", "proximal_log_prob", "log_prob", "reference"), zero)
    logs[newer] = zero + step
    ages = np.full(step.shape, 3)
    return Batch("rows of one token", logs, np.ones(step.shape, bool), 0 * step + sign, ages, 5, 0 * rows, rows)


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
    "k1": lambda x: -x, "k2": lambda x: 0.5 * x**2, "k3": lambda x: np.expm1(x) - x,
    "reverse": lambda x: x * np.exp(x), "reverse_k3": lambda x: x * np.exp(x) - np.expm1(x), "weight": np.exp,
    "chi_square": lambda x: np.expm1(2.0 * x), "size": np.abs,
}  # fmt: skip
"""Numbers of a log ratio x of another policy to the sampled one, that are averaged."""

AGES = ("first", "head", "newest", "mean", "span", "last", "row_mean", "largest", "smallest")
POOLS = ("sequence", "token", "geometric", "broadcast", "within", "frames")
LEVELS = ("sequence", "token", "geometric", "sum", "row_mean")
MIXED = ("mixed", "mixed_geometric")
"""k3 of a token's log ratio and its row's ratio (or geometric mean): a mistake of its own."""


def pools(view: View, of: str) -> list[np.ndarray]:
    """Groups of log weights that enter one ESS each; several ESS are averaged."""
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


def mean_total(view: View, value: Callable[..., np.ndarray], of: str) -> Total:
    """Sum of a value over tokens or rows, and their number; the value may depend on the advantage's sign."""
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
    """Sum of a form of staleness, such as its row maximum, over rows or tokens, and their number."""
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
    "": lambda x: x, "reversed": lambda x: -x, "absolute log ratios": np.abs,
    "powers of 2": lambda x: x * math.log(2.0), "powers of 10": lambda x: x * math.log(10.0),
    "logarithms to base 2": lambda x: x / math.log(2.0), "logarithms to base 10": lambda x: x / math.log(10.0),
}  # fmt: skip
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
    """One metric of the catalogue: a form in a family ("ess", "mean", "age", "clip"), its units, and its mistakes."""

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
        """Names of the known mistakes that this entry makes."""
        divisor = () if self.divisor in PLAIN else (self.divisor,)
        return (*divisor, *(each for each in (self.mask, self.span, self.change) if each))

    def value(self, view: View) -> float:
        """Value of the catalogue metric on a batch."""
        return self.divided(self.parts(view))

    def parts(self, view: View) -> list[tuple[float, float, View]]:
        """Total, count and rows of every part of a batch, before the divisor."""
        change = _EVERY[self.change]
        parts = [part._replace(x=change(part.x)) if self.change else part for part in SPANS[self.span](view)]
        found = [(*self._total(MASKS[self.mask](part)), part) for part in parts]
        return [(x, int(p.mask.sum()) if self.mask == _UNMASKED else n, p) for x, n, p in found]

    def divided(self, parts: list[tuple[float, float, View]]) -> float:
        """Mean over the parts of a batch of each part's total, divided by its divisor."""
        divisors = [DIVISORS[self.divisor](count, part) for _, count, part in parts]
        if 0 in divisors:
            return math.nan
        return sum(total / divisor for (total, _, _), divisor in zip(parts, divisors, strict=True)) / len(parts)

    def _total(self, view: View) -> Total:
        low, high = self.clamp or (-math.inf, math.inf)
        if self.family == "ess":
            # The effective number of units and their number; inside rows or positions, of shares and rows or positions.
            lines = [np.clip(line, low, high) for line in pools(view, self.of)]
            if self.of in ("within", "frames"):
                return sum(ESS[self.form](line) / len(line) for line in lines), len(lines)
            return ESS[self.form](lines[0]) if len(lines[0]) else math.nan, len(lines[0])
        if self.family == "age":
            return age_total(view, self.form)
        if self.family == "clip":
            return mean_total(view, self.rule, self.of)
        return mean_total(view, lambda x, sign: MEANS[self.form](np.clip(x, low, high)), self.of)


def _forms(family: str, rule: Any = None, form: str = "") -> Iterator[Entry]:
    """Entries of a family without mistakes, in all their normalizations."""
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


def _wrong(entry: Entry, masked: bool, many: int) -> Iterator[Entry]:
    """Variants of the entry with `many` mistakes."""
    tokens, plain = entry.of in ("token", "broadcast"), not entry.divisor
    # Which divisors may be wrong, and whether a mean over tokens may have a sum that misses the mask.
    divisors = []
    if masked and (entry.form == "mean" if entry.family == "age" or entry.divisor else tokens):
        divisors.append("padded tokens in the denominator")
    if entry.family == "ess" and plain:
        if masked and tokens:
            divisors += ["means over different denominators", "first moment over padded tokens"]
        divisors += [*(["divided by rows"] if tokens else []), "divided by rollouts", "divided by groups"]
    sums = entry.of == "token" and entry.family in ("mean", "clip") and plain and many < 2
    moves = {"age": SHIFTS, "clip": {}}.get(entry.family, CHANGES)
    axes = {
        "divisor": divisors,
        "mask": [each for each in MASKS if each and (each != _UNMASKED or sums)] if masked else [],
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
    """All entries of the given families with exactly `many` mistakes."""
    plain = [entry for family in families for entry in _forms(family)]
    return tuple(wrong for entry in plain for wrong in _wrong(entry, masked, many))


def clamped(low: float, high: float, masked: bool, many: int) -> tuple[Entry, ...]:
    """Entries for the ESS and the mean of weights whose logs are clamped to [low, high]."""
    means = (entry for entry in _forms("mean") if entry.form == "weight")
    plain = [replace(entry, clamp=(low, high)) for entry in (*_forms("ess"), *means)]
    return tuple(wrong for entry in plain for wrong in _wrong(entry, masked, many))


def clipped(rule: Any, form: str, masked: bool, many: int) -> tuple[Entry, ...]:
    """Entries for the fractions of tokens or rows that a clip rule counts."""
    return tuple(wrong for entry in _forms("clip", rule, form) for wrong in _wrong(entry, masked, many))
