"""A user's metric: roles of its arguments, its value on a batch, and the metrics that give the same values."""

import inspect
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from asyncsim.base import checks, outside
from asyncsim.base.arguments import role_of, words_of
from asyncsim.conformance import _metric_catalogue as catalogue
from asyncsim.conformance._metric_catalogue import Batch, Entry, around, flat, ordinary

Pair = tuple[str, str] | None
"""Two policies whose ratio a metric is of; None for staleness."""
POLICIES = ("log_prob", "proximal_log_prob", "behavior_log_prob", "reference")
"""Whose log-probs an argument may hold, newest first."""

_BY_NAME = {name: role for role, names in checks.NAMES["metric"].items() for name in names}
_VERSION = words_of("version versions steps")
_PLACES = {
    "first": words_of("start first head min oldest scheduled submit submitted begin"),
    "last": words_of("end last max newest finish finished"),
    "trained": words_of("train trained trainer training current now learner global new"),
}
_REFERENCE = words_of("ref reference base initial sft")
RATIOS = ("log_ratio", "ratio", "sequence_log_ratio", "sequence_ratio")
_ROLES = f"log_prob, old_log_prob, rollout_log_prob, ref_log_prob, {', '.join(RATIOS)}, mask, advantages, versions, "
_ROLES += "trained_version, staleness, group_ids, rollout_ids"


def meaning(name: str) -> str | None:
    """Role of a metric's argument from its name; "old" if it may be either of two policies, None if unknown.

    >>> meaning("rollout_log_probs"), meaning("loss_masks"), meaning("weight_versions"), meaning("trained_version")
    ('behavior_log_prob', 'mask', 'versions', 'trained')
    """
    if name.lower() in _BY_NAME:
        return _BY_NAME[name.lower()]
    words = [word for word in re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_") if word]
    if _VERSION & set(words):
        return next((role for role, known in _PLACES.items() if known & set(words)), "versions")
    if _REFERENCE & set(words):
        return "reference" if role_of("_".join(w for w in words if w not in _REFERENCE)) == "log_prob" else None
    return role_of("_".join("trainer" if word == "train" else word for word in words))


@dataclass
class Subject:
    """A caller's metric: `roles` by argument, candidate `pairs` of policies for its ratio, and how it is called."""

    fn: Callable[..., Any]
    key: str | int | None = None
    micro_batch: int | None = None
    per: str = "token"
    """Whether a ratio that is given is that of every token, `[B, T]`, or of every row, `[B]` (the product)."""
    roles: dict[str, str] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    way: tuple[str, str, str] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        remedy = "give a function (log_prob, old_log_prob, mask, ...) -> number"
        plain = callable(self.fn) and not inspect.isclass(self.fn)
        checks.require(plain, "metric", getattr(self.fn, "__name__", self.fn), "a function or an instance", remedy)
        try:
            parameters = inspect.signature(getattr(self.fn, "forward", self.fn)).parameters
        except (TypeError, ValueError) as error:
            raise checks.InputError("metric", self.fn, "a function whose arguments have names", remedy) from error
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        self.named = {p.name: p for p in parameters.values() if p.kind not in kinds}
        self._bind()
        self.pairs = self._pairs()
        shapes = {each: " of rows, [B]" if each in RATIOS[2:] else " of tokens, [B, T]" for each in RATIOS}
        told = {name: role + shapes.get(role, "") for name, role in self.roles.items()}
        renamed = ", ".join(f"{name} is {words}" for name, words in told.items() if name != words)
        defaults = [f"{p.name}={checks.shown(p.default)}" for name, p in self.named.items() if name not in self.roles]
        lines = [f"by name: {renamed}"] if renamed else []
        self.notes = (*lines, *([f"left at their defaults: {', '.join(defaults)}"] if defaults else []))

    @property
    def masked(self) -> bool:
        """Whether the metric takes a mask."""
        return "mask" in self.roles.values()

    @property
    def families(self) -> tuple[str, ...]:
        """Families of the metric catalogue that the function's arguments allow."""
        return ("age",) if self.pairs == (None,) else ("ess", "mean")

    def _bind(self) -> None:
        """Roles of the arguments; raise `InputError` for unknown names and for two arguments with one role."""
        roles = {name: meaning(name) for name in self.named}
        wrap = "rename it, give it a default, or wrap the metric in a lambda"
        for name, parameter in self.named.items():
            told = roles[name] is not None or parameter.default is not parameter.empty
            checks.require(told, "metric", f"argument {name!r}", f"a name that says what it is ({_ROLES})", wrap)
        taken = set(roles.values())
        for name, role in roles.items():
            if role == "old":
                # Beside log-probs of behavior, the old ones are those that the trainer has computed.
                roles[name] = "proximal_log_prob" if "behavior_log_prob" in taken else "behavior_log_prob"
        for role in dict.fromkeys(each for each in roles.values() if each):
            same = [name for name in roles if roles[name] == role]
            needed = [name for name in same if self.named[name].default is inspect.Parameter.empty] or same[:1]
            also = f"arguments {', '.join(map(repr, needed))}"
            checks.require(len(needed) == 1, "metric", also, f"a single one for {role}", wrap)
            # What only has a default is a setting, unless it is the mask or a policy.
            default = self.named[needed[0]].default is not inspect.Parameter.empty
            if not default or role in ("mask", *POLICIES):
                rows = self.per == "row" and role in RATIOS[:2]
                self.roles[needed[0]] = f"sequence_{role}" if rows else role

    def _pairs(self) -> tuple[Pair, ...]:
        """Candidate ordered pairs of policies; None stands for staleness."""
        roles = set(self.roles.values())
        if roles & {*RATIOS}:
            return (("log_prob", "behavior_log_prob"),)
        policies = [policy for policy in POLICIES if policy in roles]
        ages = bool(roles & {"staleness", "versions", "first", "last"})
        bound = "a function of two policies' log-probs, of log ratios, of versions and trained_version, or of staleness"
        needs = len(policies) >= 2 or "staleness" in roles or (ages and "trained" in roles)
        checks.require(needs, "metric", f"arguments {', '.join(self.named)}", bound, f"name them {_ROLES}")
        if len(policies) < 2:
            return (None,)
        # The reference policy is compared with the policy that sampled; others with the older one, which sampled.
        pairs = [p for p in itertools.combinations(policies, 2) if p[1] != "reference"]
        pairs += [("reference", policy) for policy in policies[:1] if "reference" in policies]
        return tuple(pairs)

    def arguments(self, batch: Batch, way: tuple[str, str, str]) -> dict[str, Any]:
        """Arguments of a call of the metric on a batch, in a given library, layout and mask type."""
        pair = self.pairs[0] or ("log_prob", "behavior_log_prob")
        x = batch.logs[pair[0]] - batch.logs[pair[1]]
        place = batch.mask.argmax(1), batch.mask.shape[1] - 1 - batch.mask[:, ::-1].argmax(1)
        rows = np.arange(len(x))
        known: dict[str, Any] = {
            **batch.logs, "log_ratio": x, "ratio": np.exp(x), "sequence_log_ratio": (total := (x * batch.mask).sum(1)),
            "sequence_ratio": np.exp(total),
            "mask": batch.mask if way[2] == "bool" else batch.mask.astype(x.dtype), "advantages": batch.advantages,
            "versions": batch.versions, "first": batch.versions[rows, place[0]],
            "last": batch.versions[rows, place[1]], "staleness": batch.trained - batch.versions, "group": batch.group,
            "rollout": batch.rollout,
        }  # fmt: skip
        counts = {
            "trained": batch.trained,
            "groups": len(np.unique(batch.group)),
            "rollouts": len(np.unique(batch.rollout)),
            "size": int((batch.group == batch.group[0]).sum()),
        }
        return {name: counts[role] if role in counts else _in(known[role], way) for name, role in self.roles.items()}

    def ask(self, batch: Batch) -> float:
        """Value of the metric on a batch; raise `InputError` if it cannot be evaluated."""
        if self.micro_batch is None:
            return self._one(batch)
        starts = range(0, len(batch.mask), self.micro_batch)
        parts = [self._one(batch.part(slice(start, start + self.micro_batch))) for start in starts]
        return sum(parts) / len(parts)

    def _one(self, batch: Batch) -> float:
        ways = [self.way] if self.way else self._ways()
        errors: dict[str, Exception] = {}
        for way in ways:
            try:
                number = self._number(self._call(self.arguments(batch, way)))
            except checks.InputError:
                raise
            except Exception as error:
                errors.setdefault(way[1], error)
                continue
            self.way = way
            return number
        names = ", ".join(self.roles)
        texts = {f"{type(error).__name__}: {error}": way for way, error in errors.items()}
        failed = "; ".join(text if len(texts) == 1 else f"as {way} {text}" for text, way in texts.items())
        cause = next(iter(errors.values()))
        called = f"it is called with ({names}), tokens as [B, T] or as a list of rows"
        remedy = "; ".join(filter(None, (outside.fix(cause), called)))
        raise checks.InputError("metric", failed, f"a metric that runs on the batch '{batch.name}'", remedy) from cause

    def _call(self, arguments: Mapping[str, Any]) -> Any:
        only = inspect.Parameter.POSITIONAL_ONLY
        first = [arguments[name] for name, p in self.named.items() if p.kind is only and name in arguments]
        named = {name: x for name, x in arguments.items() if self.named[name].kind is not only}
        with np.errstate(all="ignore"):
            return self.fn(*first, **named)

    def _ways(self) -> list[tuple[str, str, str]]:
        """Combinations of library, layout and mask type, most likely first."""
        function = getattr(self.fn, "forward", self.fn)
        function = function if inspect.isroutine(function) else type(function).__call__
        names = getattr(getattr(function, "__code__", None), "co_names", ())
        space = getattr(function, "__globals__", {})
        used = {getattr(space.get(name), "__name__", "").partition(".")[0] for name in names}
        tensors = "torch" in used or any(name in ("float", "masked_fill", "clamp", "item", "detach") for name in names)
        libraries = ("torch", "numpy") if tensors and "numpy" not in used else ("numpy", "torch")
        return list(itertools.product(libraries, ("rows and columns", "list of rows"), ("float", "bool")))

    def _number(self, value: Any) -> float:
        if isinstance(value, (tuple, list)) and self.key is not None:
            value = dict(enumerate(value))
        if isinstance(value, Mapping):
            remedy = f"name one of {', '.join(map(str, value))} by key="
            checks.require(self.key in value, "key", self.key, "a number that the metric returns", remedy)
            value = value[self.key]
        value = value.detach().cpu().numpy() if torch.is_tensor(value) else value
        array = np.asarray(value)
        fits = array.size == 1 and (array.dtype.kind in "fiub")
        form = f"{type(value).__name__} of shape {array.shape}" if array.dtype.kind in "fiub" else type(value).__name__
        checks.require(fits, "metric", form, "a function that returns one number", "reduce it, or name a key")
        number = float(array.reshape(()))
        return number if not math.isinf(number) else math.nan


def _in(x: np.ndarray, way: tuple[str, str, str]) -> Any:
    """Copy an array into a library and a layout."""
    array: Any = torch.from_numpy(x.copy()) if way[0] == "torch" else x.copy()
    return list(array) if way[1].startswith("list") and x.ndim == 2 else array


def quietly(subject: Subject, batch: Batch) -> float:
    """Value of a metric on a batch that it may reject; NaN if the metric raises an error."""
    try:
        return subject.ask(batch)
    except checks.InputError:
        return math.nan


def same(a: float, b: float, tolerance: float) -> bool:
    """Whether two values of a metric agree; NaN agrees with NaN."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return abs(a - b) <= tolerance * max(abs(a), abs(b)) + 0.01 * tolerance


_WIDEST, _FARTHEST = 8.0, 12.0
"""Largest log of a clamp that is looked for; where the number must have settled."""
_GRID = np.array([0.003, 0.01, 0.03, 0.07, 0.12, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 4.0, 8.0, 15.0, 19.0, 21.0, 25.0])
"""Log ratios of single tokens: on either side of 20 nats, where trainers limit them."""


class Fit(NamedTuple):
    """A catalogue entry that reproduces every value of a metric, and the two policies of its ratio."""

    entry: Entry
    pair: Pair


@cache
def batches(seed: int, masked: bool) -> tuple[Batch, ...]:
    """The ordinary test batches for metrics."""
    return tuple(ordinary(seed, masked))


def numbers(entry: Entry, pair: Pair, probes: Sequence[Batch]) -> list[float]:
    """Values of a catalogue entry on batches."""
    with np.errstate(all="ignore"):
        return [entry.value(probe.view(pair)) for probe in probes]


@cache
def _first(seed: int, masked: bool, pair: Pair, families: tuple[str, ...], many: int) -> np.ndarray:
    """Values on the first batch for all entries with `many` mistakes, which already identify most functions."""
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
    """Catalogue entries that reproduce all values of a metric with the fewest mistakes, simplest first."""
    probes = batches(seed, subject.masked)
    families = subject.families
    # Constants that the function itself shows: a clamp, or bounds of a clip.
    measured = {pair: (clamp(subject, pair[0]), clip(subject, pair[0])) if pair else None for pair in subject.pairs}
    for many in range(3):
        found = []
        for pair in subject.pairs:
            known = _first(seed, subject.masked, pair, families, many)
            close = np.abs(known - values[0]) <= tolerance * np.maximum(np.abs(known), abs(values[0])) + tolerance
            entries = catalogue.entries(families, subject.masked, many)
            # What was measured comes first: a clamp may be far from all that the batches hold.
            band, rule = measured[pair] or (None, None)
            candidates = [*(catalogue.clamped(*band, subject.masked, many) if band else ())]
            candidates += catalogue.clipped(rule, rule.form, subject.masked, many) if rule else ()
            candidates += [entries[i] for i in np.flatnonzero(close)]
            fitting = [Fit(entry, pair) for entry in candidates if _gives(entry, pair, values, probes, tolerance)]
            found += [fit for fit in fitting if fit.entry.family != "clip" or _bounded(subject, fit, seed, tolerance)]
        if found:
            return found
    return []


def _gives(entry: Entry, pair: Pair, values: Sequence[float], probes: Sequence[Batch], tolerance: float) -> bool:
    return all(same(numbers(entry, pair, [b])[0], v, tolerance) for b, v in zip(probes, values, strict=True))


def _bounded(subject: Subject, fit: Fit, seed: int, tolerance: float) -> bool:
    """Whether a clip fraction is also right on batches around its own bounds, far from which entries may agree."""
    entry, pair = fit
    bounds = [abs(end) for ends in entry.rule.bounds.values() for end in ends if not math.isinf(end)]
    return pair is not None and all(
        _gives(entry, pair, [quietly(subject, probe)], [probe], tolerance)
        for size in {min(bounds), max(bounds)}
        for probe in around(seed, subject.masked, size, pair)
    )


@cache
def _table(seed: int, masked: bool, pair: Pair, families: tuple[str, ...]) -> np.ndarray:
    """Values of all entries without mistakes, `[entries, batches]`."""
    return np.array([numbers(entry, pair, batches(seed, masked)) for entry in catalogue.entries(families, masked, 0)])


def nearest(subject: Subject, values: Sequence[float], seed: int, asked: Callable[[Entry], bool]) -> Fit | None:
    """The requested entry without mistakes whose values are nearest to those of a metric."""
    best: tuple[float, Fit | None] = (math.inf, None)
    for pair in subject.pairs:
        table, found = _table(seed, subject.masked, pair, subject.families), np.array(values)
        size = np.maximum(np.maximum(np.abs(table), np.abs(found)), 1e-300)
        apart = np.nan_to_num(np.abs(table - found) / size, nan=1.0).mean(-1)
        entries = catalogue.entries(subject.families, subject.masked, 0)
        close = [(apart[i], Fit(entry, pair)) for i, entry in enumerate(entries) if asked(entry)]
        best = min([best, *close], key=lambda each: each[0])
    return best[1]


def _bisected(inside: Callable[[float], bool], low: float, high: float) -> float:
    """Point between two others at which a condition stops to hold."""
    for _ in range(42):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside(middle) else (low, middle)
    return 0.5 * (low + high)


def clamp(subject: Subject, newer: str) -> tuple[float, float] | None:
    """Bounds at which a metric clamps log weights; None if it has no clamp.

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
    """Log ratios that a clip fraction counts, by the sign of A: below the first or above the second bound."""

    form: str
    bounds: dict[float, tuple[float, float]]

    def __call__(self, x: np.ndarray, sign: np.ndarray) -> np.ndarray:
        """1 for each counted token, else 0."""
        counts = [((x < low) | (x > high)) & (sign == each) for each, (low, high) in self.bounds.items()]
        return np.logical_or.reduce(counts).astype(float)

    @property
    def words(self) -> str:
        """Description of the ratios that a clip fraction counts."""
        texts = []
        for sign, condition in ((1.0, "A > 0"), (-1.0, "A < 0")):
            low, high = self.bounds[sign]
            ends = ((f"below {math.exp(low):.4g}", low), (f"above {math.exp(high):.4g}", high))
            sides = " or ".join(text for text, end in ends if not math.isinf(end))
            texts += [f"{sides} where {condition}"] if sides else []
        return texts[0].partition(" where")[0] if self.bounds[1.0] == self.bounds[-1.0] else "; ".join(texts)


def clip(subject: Subject, newer: str) -> Rule | None:
    """Clip rule that a metric counts, from single tokens; None for a metric with more than two values."""
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
    """Name of a rule, by the sides that count for each sign."""
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
