"""Which metrics of the catalogue give the numbers of a function on every batch, and what is measured for that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from asyncsim.conformance import _metric_catalogue as catalogue
from asyncsim.conformance._metric_catalogue import Entry
from asyncsim.conformance._metric_probes import Batch, around, flat, ordinary
from asyncsim.conformance._metric_subject import Subject, quietly, same

Pair = tuple[str, str] | None
_WIDEST, _FARTHEST = 8.0, 12.0
"""Largest log of a clamp that is looked for; where the number must have settled."""
_GRID = np.array([0.003, 0.01, 0.03, 0.07, 0.12, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 4.0, 8.0, 15.0, 19.0, 21.0, 25.0])
"""Log ratios of single tokens: on either side of 20 nats, where trainers limit them."""


class Fit(NamedTuple):
    """An entry that gives every number, and the policies whose ratio it reads."""

    entry: Entry
    pair: Pair


@cache
def batches(seed: int, masked: bool) -> tuple[Batch, ...]:
    """The ordinary batches."""
    return tuple(ordinary(seed, masked))


def numbers(entry: Entry, pair: Pair, probes: Sequence[Batch]) -> list[float]:
    """The numbers of an entry on batches."""
    with np.errstate(all="ignore"):
        return [entry.value(probe.view(pair)) for probe in probes]


@cache
def _first(seed: int, masked: bool, pair: Pair, families: tuple[str, ...], many: int) -> np.ndarray:
    """Numbers on the first batch, of all entries with so many mistakes: most functions are told by it alone."""
    view, parts, values = batches(seed, masked)[0].view(pair), {}, []
    with np.errstate(all="ignore"):
        for entry in catalogue.entries(families, masked, many):
            # Entries that differ in the divisor share their sums.
            shared = replace(entry, divisor="")
            if shared not in parts:
                parts[shared] = shared.parts(view)
            values.append(entry.divided(parts[shared]))
    return np.array(values)


def fits(subject: Subject, values: Sequence[float], seed: int, tolerance: float) -> list[Fit]:
    """Entries that give all the numbers, with as few mistakes as any; of equals the plainer one first."""
    probes = batches(seed, subject.masked)
    families = subject.families
    measured = {pair: _measured(subject, pair[0]) if pair else [] for pair in subject.pairs}
    for many in range(3):
        found = []
        for pair in subject.pairs:
            known = _first(seed, subject.masked, pair, families, many)
            close = np.abs(known - values[0]) <= tolerance * np.maximum(np.abs(known), abs(values[0])) + tolerance
            entries = catalogue.entries(families, subject.masked, many)
            # What was measured comes first: a clamp may be far from all that the batches hold.
            candidates = [each for more in measured[pair] for each in more(many)]
            candidates += [entries[i] for i in np.flatnonzero(close)]
            fitting = [Fit(entry, pair) for entry in candidates if _gives(entry, pair, values, probes, tolerance)]
            found += [fit for fit in fitting if fit.entry.family != "clip" or _bounded(subject, fit, seed, tolerance)]
        if found:
            return found
    return []


def _gives(entry: Entry, pair: Pair, values: Sequence[float], probes: Sequence[Batch], tolerance: float) -> bool:
    return all(same(numbers(entry, pair, [b])[0], v, tolerance) for b, v in zip(probes, values, strict=True))


def _bounded(subject: Subject, fit: Fit, seed: int, tolerance: float) -> bool:
    """Whether a share of a clip is right on batches around its own bounds too: others may lie far from them."""
    entry, pair = fit
    bounds = [abs(end) for ends in entry.rule.bounds.values() for end in ends if not math.isinf(end)]
    return pair is not None and all(
        _gives(entry, pair, [quietly(subject, probe)], [probe], tolerance)
        for size in {min(bounds), max(bounds)}
        for probe in around(seed, subject.masked, size, pair)
    )


@cache
def _table(seed: int, masked: bool, pair: Pair, families: tuple[str, ...]) -> np.ndarray:
    """Numbers of all entries without mistakes, `[entries, batches]`."""
    return np.array([numbers(entry, pair, batches(seed, masked)) for entry in catalogue.entries(families, masked, 0)])


def nearest(subject: Subject, values: Sequence[float], seed: int, asked: Callable[[Entry], bool]) -> Fit | None:
    """The entry without mistakes, among those asked for, whose numbers are nearest."""
    best: tuple[float, Fit | None] = (math.inf, None)
    for pair in subject.pairs:
        table, found = _table(seed, subject.masked, pair, subject.families), np.array(values)
        size = np.maximum(np.maximum(np.abs(table), np.abs(found)), 1e-300)
        apart = np.nan_to_num(np.abs(table - found) / size, nan=1.0).mean(-1)
        entries = catalogue.entries(subject.families, subject.masked, 0)
        close = [(apart[i], Fit(entry, pair)) for i, entry in enumerate(entries) if asked(entry)]
        best = min([best, *close], key=lambda each: each[0])
    return best[1]


def _measured(subject: Subject, newer: str) -> list[Callable[[int], tuple[Entry, ...]]]:
    """Entries with constants that the function itself shows: a clamp, or bounds of a clip."""
    masked, more = subject.masked, []
    if band := clamp(subject, newer):
        more.append(lambda many: catalogue.clamped(*band, masked, many))
    if rule := clip(subject, newer):
        more.append(lambda many: catalogue.clipped(rule, rule.form, masked, many))
    return more


def _bisected(inside: Callable[[float], bool], low: float, high: float) -> float:
    """Where a rule stops to hold between two points."""
    for _ in range(42):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside(middle) else (low, middle)
    return 0.5 * (low + high)


def clamp(subject: Subject, newer: str) -> tuple[float, float] | None:
    """Bounds of log weights between which they are clamped; None where nothing is.

    Three rows at x beside one at 0 change the number until they stand at the bound.
    """

    def bound(side: float) -> float:
        def moves(x: float) -> bool:
            return not same(quietly(subject, flat(side * np.array([0.0, x, x, x]), 1.0, newer)), last, 1e-8)

        last = quietly(subject, flat(side * np.array([0.0, *[_FARTHEST] * 3]), 1.0, newer))
        # A number that moves until the end, or nearly, is not clamped but a function of x.
        return side * (_bisected(moves, 0.0, _WIDEST) if moves(0.0) and not moves(_WIDEST) else math.inf)

    bounds = bound(-1.0), bound(1.0)
    return None if all(map(math.isinf, bounds)) else bounds


@dataclass(frozen=True)
class Rule:
    """Which log ratios count for a sign of the advantage: those below the first and above the second bound."""

    form: str
    bounds: dict[float, tuple[float, float]]

    def __call__(self, x: np.ndarray, sign: np.ndarray) -> np.ndarray:
        """1 where it counts, else 0."""
        counts = [((x < low) | (x > high)) & (sign == each) for each, (low, high) in self.bounds.items()]
        return np.logical_or.reduce(counts).astype(float)

    @property
    def words(self) -> str:
        """The ratios that count."""
        texts = []
        for sign, condition in ((1.0, "A > 0"), (-1.0, "A < 0")):
            low, high = self.bounds[sign]
            ends = ((f"below {math.exp(low):.4g}", low), (f"above {math.exp(high):.4g}", high))
            sides = " or ".join(text for text, end in ends if not math.isinf(end))
            texts += [f"{sides} where {condition}"] if sides else []
        if self.bounds[1.0] == self.bounds[-1.0]:
            return texts[0].partition(" where")[0]
        return "; ".join(texts)


def clip(subject: Subject, newer: str) -> Rule | None:
    """The rule of a share of clipped tokens, by single tokens; None for a number with other values than two."""
    grid = np.concatenate([-_GRID[::-1], [0.0], _GRID])
    table = {sign: [quietly(subject, flat(x, sign, newer)) for x in grid] for sign in (1.0, -1.0, 0.0)}
    levels = {value for line in table.values() for value in line}
    if len(levels) != 2 or 0.0 not in levels or any(line[len(_GRID)] for line in table.values()):
        return None
    bounds = {}
    for sign, line in table.items():
        edges = [i for i in range(len(grid) - 1) if line[i] != line[i + 1]]
        low, high = [i for i in edges if grid[i] < 0.0], [i for i in edges if grid[i] >= 0.0]
        if len(low) > 1 or len(high) > 1:
            return None
        ends = [-math.inf, math.inf]
        for place, side in ((0, low), (1, high)):
            for i in side:
                ends[place] = _bisected(lambda x: subject.ask(flat(x, sign, newer)) == line[i], grid[i], grid[i + 1])  # noqa: B023
        bounds[sign] = (ends[0], ends[1])
    return Rule(_form(bounds), bounds)


def _form(bounds: dict[float, tuple[float, float]]) -> str:
    """The name of a rule: which sides count for which sign."""
    (low, high), (below, above) = ([abs(x) < math.inf for x in bounds[sign]] for sign in (1.0, -1.0))
    if bounds[1.0] == bounds[-1.0]:
        return {(True, True): "outside", (False, True): "above", (True, False): "below"}[low, high]
    known = {
        (False, True, True, False): "active",
        (False, True, True, True): "active",
        (False, True, False, False): "high",
        (False, False, True, False): "low",
        (True, False, False, True): "reversed",
        (True, False, False, False): "reversed",
    }
    far = bounds[-1.0][1] > math.log(2.0)
    return known.get((low, high, below, above), "dual" if far and not (low or high or below) else "other")
