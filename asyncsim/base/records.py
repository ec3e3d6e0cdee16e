"""Records exchanged between the parts: estimates, predictions, claims, verdicts, schedules, timelines.

Nothing here computes; predictions, measurements and everything above them exchange these records.
"""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import calls, checks, columns, files, notation, showing

Point = Mapping[str, Any]
"""The parameters at which a claim is tested, by name."""

KINDS = ("identity", "expectation", "distribution", "bound", "exponent", "ordering", "threshold")
STATUSES = ("exact", "asymptotic", "conditional", "paper's claim", "open")
LOOSE = "holds, not tight"
"""Verdict of a bound that no measurement exceeded, but that a smaller bound might satisfy as well."""
UNTESTED = "holds, not tested"
"""Verdict of a user's claim that would be held if its measurement were tested against injected bugs."""
VERDICTS = ("held", LOOSE, UNTESTED, "violated", "inconclusive", "outside")
SHOWN = 6
"""Number of comparisons in a printed verdict."""
LONGEST = 60
"""Maximum number of characters for a point in it."""
ANY = 1e-6
"""Smallest share printed as a number when a bound could be lower."""


class Estimate(NamedTuple):
    """A measured number with its standard error, degrees of freedom and sample size.

    `error`: standard error of `value`, 0 when nothing was sampled. `freedom`: degrees of freedom of `error`.
    `tolerance`: a systematic allowance in the units of `value` (rounding, half of a bracket). `samples`: the number of
    independent units. `independent`: False when the error bar is known to be false (several replicates on one random
    schedule).
    """

    value: float
    error: float = 0.0
    freedom: float = math.inf
    tolerance: float = 0.0
    samples: int = 1
    independent: bool = True

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, form: str) -> str:
        return format(self.value, form) if form else str(self)

    @property
    def _half(self) -> float:
        """Half of the 95 percent interval, NaN where there is none."""
        # Records are read without SciPy; only an interval needs it.
        from asyncsim.base.quantiles import critical

        half = self.tolerance + (critical(0.05, self.freedom) * self.error if self.error else 0.0)
        return half if math.isfinite(half) and self.independent else math.nan

    def __str__(self) -> str:
        """The value with its 95 percent interval."""
        return notation.measurement(self.value, self._half, 0.0)

    def _repr_html_(self) -> str:
        """HTML table for notebooks: the 95 percent interval, and the number of independent samples."""
        none = "no interval: a single run, or one shared random schedule"
        return showing.table([("value", str(self)), ("samples", self.samples)], none * math.isnan(self._half))


for _name in calls.SUMS:
    setattr(Estimate, _name, calls.no_number)
for _name, _own in (("__getattr__", vars(calls.Told)["__getattr__"]), ("__new__", calls.named(Estimate.__new__))):
    setattr(Estimate, _name, _own)  # a tuple has no other base


class Unmeasured(NamedTuple):
    """Why a claim's point has no estimates, in a sentence, and the resulting verdict.

    "outside": the trial or a limit of the package prevents a judgment of the point. "violated": a component failed
    where it had measured before; "inconclusive" if nothing indicates either.
    """

    reason: str
    verdict: str = "outside"


@dataclass(frozen=True)
class Claim(calls.Told):
    """A statement of the theory that a measurement can contradict; backticks mark the formulas in `statement`.

    `point` reads a point, or raises `InputError` outside the domain, and declares its parameters. `predict(point)` and
    `cross_check(point)` are two independent computations of the same named quantities. `formula_defects` are wrong
    versions of `predict`, each a known mistake. The `kind` "bound" is an upper bound, which only larger measurements
    contradict. `relative_to` is what an effect of x percent refers to. That is each
    predicted "value", or, for vectors with small components, a Euclidean "norm". The norm is that of all quantities
    that share a stem, the text before "[". `terms` are the parts of a bound: `terms[name](point, factor)` is the
    prediction with that part multiplied by the factor. A measurement tests a part only where a smaller one would be
    exceeded. So a bound names each part, and each regime with a formula of its own.
    """

    id: str
    statement: str
    kind: str
    status: str
    point: Any
    predict: Callable[[Point], dict[str, float]]
    cross_check: Callable[[Point], dict[str, float]]
    reference: str
    formula_defects: Mapping[str, Callable[[Point], dict[str, float]]] = field(default_factory=dict)
    relative_to: str = "value"
    terms: Mapping[str, Callable[[Point, float], dict[str, float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.one_of("claim kind", self.kind, KINDS, "'bound' is an upper bound")
        checks.one_of("claim status", self.status, STATUSES, "use one of the statuses of `records.STATUSES`")
        checks.one_of("relative_to", self.relative_to, ("value", "norm"), "say what an effect is relative to")

    def domain(self, point: Point) -> str | None:
        """None if a point is inside the claim's domain, else why it is outside."""
        try:
            self.point(point)
        except checks.InputError as refusal:
            return str(refusal)
        return None


@dataclass(frozen=True)
class Comparison(calls.Told):
    """One measured quantity and its prediction, at one point of a claim.

    `low` and `high` bound the interval of the measurement at level 1 - false_fail. `margin` is the distance to a
    violation in units of the effect, negative if violated. `p`: probability that a true claim deviates as much. Fields
    that are not given are unknown, and such a comparison is outside.
    """

    point: dict[str, Any]
    quantity: str
    predicted: float = math.nan
    measured: float = math.nan
    low: float = math.nan
    high: float = math.nan
    verdict: str = "outside"
    false_fail: float = math.nan
    false_pass: float = math.nan
    margin: float = math.inf
    samples: int = 0
    reason: str = ""
    p: float = math.nan

    def __str__(self) -> str:
        """The comparison in one line: verdict, quantity, prediction, measurement with half its interval.

        >>> print(Comparison({}, "mean", 4.0, 3.9978, 3.994, 4.0016, "held", 1e-3, 0.0, 0.02, 22))
        held: mean predicted 4, measured 3.9978 ± 0.0038
        """
        if not self.samples and self.reason:
            return f"{self.verdict}: {self.reason}"
        reason = f" ({self.reason})" if self.reason and self.verdict != "held" else ""
        text = f"{self.quantity} predicted {notation.number(self.predicted)}, measured {self._measured()}"
        return f"{self.verdict}: {text.lstrip()}{reason}"

    def _measured(self) -> str:
        half = (self.high - self.low) / 2.0
        return notation.measurement(self.measured, half, self.predicted)

    def _cells(self) -> tuple[str, ...]:
        """The comparison as a row of the table in notebooks."""
        place = ", ".join(f"{key} = {each}" for key, each in self.point.items())
        return self.quantity, notation.number(self.predicted), self._measured(), self.verdict, place


@dataclass(frozen=True)
class Tightness:
    """How closely one term of a bound was tested, for one quantity, at the point with the sharpest test.

    `ratio` is measured/bound there. `seen` is the smallest share by which a lower term would have been detected at the
    verdict's error rates. It is infinity where even the term's absence would pass. `false_pass` is the rate at which a
    term lower by the effect would be missed. `tight` says whether that rate is small enough.
    """

    quantity: str
    term: str
    tight: bool
    ratio: float
    seen: float
    false_pass: float
    point: dict[str, Any]

    def __str__(self) -> str:
        """The share of the bound reached, and how much lower the term could be.

        >>> print(str(Tightness("bound", "delay", False, 0.944, 0.15, 1.0, {})).partition(". ")[2])
        Its term "delay" could be 15 % smaller without contradicting the measurement
        """
        name = f'"{self.term}"' + f" for {self.quantity}" * (self.quantity not in ("bound", self.term))
        size = f"{self.lowering} smaller" if math.isfinite(self.seen) else "missing"
        reached = f"the measurement reaches {100.0 * self.ratio:.3g} % of the bound"
        return f"{reached}. Its term {name.replace('_', ' ')} could be {size} without contradicting the measurement"

    @property
    def lowering(self) -> str:
        """The smallest detectable reduction of the term, in words."""
        if not math.isfinite(self.seen):
            return "none"
        return f"{100.0 * self.seen:.2g} %" if self.seen >= ANY else "any amount"


@dataclass(frozen=True)
class Verdict(calls.Told):
    """The verdict on one claim, with all its comparisons; the scalar fields describe the decisive comparison.

    The decisive comparison has the smallest margin; for a bound that is not tight, it is the sharpest test of its
    loosest part. `terms` says how closely each part of a bound was tested. `p`: probability that a true claim deviates
    as much at any of its comparisons.
    """

    id: str
    statement: str
    kind: str
    status: str
    verdict: str
    predicted: float
    measured: float
    low: float
    high: float
    false_fail: float
    false_pass: float
    seconds: float
    quantity: str = ""
    points: tuple[Comparison, ...] = ()
    defects: tuple[dict[str, str], ...] = ()
    formula_defects: tuple[dict[str, str], ...] = ()
    reason: str = ""
    terms: tuple[Tightness, ...] = ()
    p: float = math.nan

    def __bool__(self) -> bool:
        raise TypeError("a Verdict is no yes or no; write verdict.verdict == 'held'")

    def __str__(self) -> str:
        """Format the verdict: its id, the comparisons with the smallest margins, and the parts that are not tight."""
        tightest = sorted(self.points, key=lambda row: row.margin)[:SHOWN]
        changing = {k for row in self.points for k, v in row.point.items() if v != tightest[0].point.get(k)}
        lines = [f"{self.verdict}: {self.id}"]
        for row in (row for row in self.points if any(row is each for each in tightest)):
            place = ", ".join(f"{key} = {value}" for key, value in row.point.items() if key in changing)
            place = place if len(place) <= LONGEST else f"{place[: LONGEST - 3]}..."
            lines.append("  " + (f"at {place}: " if place else "") + str(row).removeprefix("held: "))
        remainder = len(self.points) - len(tightest)
        lines += [f"  and {remainder} comparisons of more margin"] if remainder else []
        lines += [f"  {self.reason}"] if self.verdict == UNTESTED else []
        return "\n".join([*lines, *(f"  {part}" for part in self.terms if not part.tight)])

    def _repr_html_(self) -> str:
        """HTML table for notebooks: statement, verdict, and the comparisons with the smallest margins."""
        few = sorted(self.points, key=lambda row: row.margin)[: showing.ROWS]
        heads = ("quantity", "predicted", "measured", "verdict", "point")
        remainder = len(self.points) - len(few)
        more = f"; {remainder} comparisons of more margin are left out" if remainder else ""
        caption = f"{self.verdict}: {self.id}. {self.statement.replace('`', '')}{more}"
        return showing.table([heads, *(row._cells() for row in few)], caption, heading=True)

    def row(self) -> dict[str, Any]:
        """The verdict on the claim as a JSON object."""
        row = {name: plain(value) for name, value in vars(self).items() if name not in ("points", "terms")}
        return row | {name: [plain(vars(part)) for part in getattr(self, name)] for name in ("points", "terms")}


def plain(value: Any) -> Any:
    """Convert a value for JSON: numbers that are not finite become None, arrays become lists."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


@dataclass(frozen=True, repr=False)
class Schedule(calls.Told):
    """The trajectories in each batch, and the version that generated each of their tokens.

    `version`, int32 `[M, B, G, N, T or 1]`: behavior version of every token, -1 where unknown. `trajectory`, int64
    `[M, B, G, N]`: ids, each once in a batch, ascending inside a group and from group to group by their first samples.
    A trajectory's draws are keyed by its id. M realizations, B batches, G groups, N samples, T tokens, none of them 0.
    Batch b is trained at version `b // batches_per_publish`.
    `random` says whether realizations differ by chance (a verdict then needs more than one). `work`, float64
    `[M, B, G, N]`: work of each trajectory in tokens, finite and positive, where the system drew it (else None).
    `seconds`, float64 `[M, B]`: when training on each batch starts on the system's clock, not decreasing, where it has
    one (else None). Raises `InputError` where one of these does not hold.
    """

    version: np.ndarray
    trajectory: np.ndarray
    batches_per_publish: int = 1
    random: bool = False
    work: np.ndarray | None = None
    header: dict[str, Any] = field(default_factory=dict)
    seconds: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("version", "trajectory"):
            array = getattr(self, name)
            kind = getattr(array, "dtype", type(array))
            fits = isinstance(array, np.ndarray) and np.issubdtype(kind, np.integer)
            bound = "an array of integers"
            checks.require(fits, f"schedule.{name}", str(kind), bound, "versions and ids are counted, not measured")
        checks.integer("schedule.batches_per_publish", self.batches_per_publish, 1, "count from one", checks.LARGEST)
        checks.boolean("schedule.random", self.random, "say whether realizations differ by chance")
        fits = self.version.ndim == 5 and self.trajectory.shape == self.version.shape[:4]
        bound = f"[M, B, G, N, T or 1] over trajectories {self.trajectory.shape}"
        checks.require(fits, "schedule.version", self.version.shape, bound, "give every trajectory a row of versions")
        checks.require(self.version.shape[4] > 0, "schedule.version", self.version.shape, "with a token", "give T >= 1")
        checks.require(isinstance(self.header, dict), "schedule.header", self.header, "a mapping", "leave it out")
        columns.check_schedule(self.trajectory, self.work, self.seconds)
        lowest = int(self.version.min())
        checks.require(lowest >= -1, "schedule.version", lowest, "at least -1", "-1 stands for an unknown version")
        late = self.version > self.train_version[None, :, None, None, None]
        bound, remedy = "at most the version that is trained", "a token cannot come from weights that do not exist yet"
        checks.require(not late.any(), "schedule.version", int(self.version.max()), bound, remedy)

    def __repr__(self) -> str:
        """Source, shape and staleness, not the arrays; at most 400 characters."""
        shape = "x".join(map(str, self.version.shape))
        gap = self.staleness()
        stale = "no version known"
        if (gap >= 0).any():
            stale = f"staleness {np.nanmean(gap):.4g} on average, {np.nanmax(gap):g} at most"
        name = checks.shown(self.header.get("name", "imposed"))
        return checks.clipped(f"Schedule({name}, [M, B, G, N, T] = {shape}, {stale})", 400)

    @property
    def realizations(self) -> int:
        """M, the number of realizations."""
        return self.version.shape[0]

    @property
    def batches(self) -> int:
        """B, the number of batches."""
        return self.version.shape[1]

    @property
    def groups_per_batch(self) -> int:
        """G, the number of groups per batch."""
        return self.version.shape[2]

    @property
    def train_version(self) -> np.ndarray:
        """Trainer version at the start of each batch, int `[B]`."""
        return np.arange(self.version.shape[1]) // self.batches_per_publish

    @property
    def recommended(self) -> Mapping[str, Any]:
        """Settings of a `Spec` that the system of this schedule recommends."""
        return dict(self.header.get("recommended") or {})

    @property
    def redundant(self) -> int:
        """Redundant samples per group: the system started and numbered them, but this schedule leaves them out."""
        number = self.header.get("redundant", 0)
        return checks.integer("schedule.header.redundant", number, 0, "make the schedule again", checks.LARGEST)

    def staleness(self) -> np.ndarray:
        """Staleness of every token in versions, float `[M, B, G, N, T or 1]`; NaN where the version is unknown."""
        gap = self.train_version[None, :, None, None, None] - self.version.astype(np.float64)
        return np.where(self.version < 0, np.nan, gap)

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The schedule as arrays and scalars for a file; the inverse of `unpacked`."""
        every = {name: getattr(self, name) for name in ("version", "trajectory", "work", "seconds")}
        arrays = {name: array for name, array in every.items() if array is not None}
        scalars = {"batches_per_publish": self.batches_per_publish, "random": self.random, "header": self.header}
        return arrays, scalars

    @classmethod
    def unpacked(cls, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, Any]) -> "Schedule":
        """The schedule from `packed` arrays and scalars."""
        work, seconds = arrays.get("work"), arrays.get("seconds")
        return cls(arrays["version"], arrays["trajectory"], work=work, seconds=seconds, **scalars)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schedule to one compressed file, atomically."""
        arrays, scalars = self.packed()
        files.save_arrays(path, "schedule", arrays, plain(scalars))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Schedule":
        """Read a schedule; raises `InputError` if it is damaged, too big, or of another kind or format version."""
        arrays, scalars = files.load_arrays(path, "schedule")
        with files.well_formed(path, "schedule"):
            return cls.unpacked(arrays, scalars)


@dataclass(frozen=True, repr=False)
class Timeline(calls.Told):
    """The full record of one realization of a system: which slot generated what, when, and under which versions.

    Each of `samples`, `groups`, `batches`, `publishes`, `resources`, `uses` and `stretches` is a table, a mapping from
    column name to a 1-D array. `uses` has a row for each group of each batch. `stretches` has a row for each time that
    the generation of a sample was resumed. Times are simulated seconds; missing values are NaN or -1, never 0. `header`
    holds all parameters and the seed. `asyncsim.base.columns` lists the columns and the rules between them.
    """

    samples: dict[str, np.ndarray]
    groups: dict[str, np.ndarray]
    batches: dict[str, np.ndarray]
    publishes: dict[str, np.ndarray]
    resources: dict[str, np.ndarray]
    header: dict[str, Any] = field(default_factory=dict)
    uses: dict[str, np.ndarray] = field(default_factory=dict)
    stretches: dict[str, np.ndarray] = field(default_factory=dict)

    TABLES = ("samples", "groups", "batches", "publishes", "resources", "uses", "stretches")

    def __repr__(self) -> str:
        """Source, rows of each table and seconds, not the tables; at most 400 characters."""
        sizes = {name: len(next(iter(getattr(self, name).values()), ())) for name in self.TABLES}
        rows = ", ".join(f"{count} {name}" for name, count in sizes.items() if count)
        seconds = self.header.get("seconds")
        end = f", {seconds:.6g} s" if isinstance(seconds, float) else ""
        return checks.clipped(f"Timeline({checks.shown(self.header.get('name', 'unnamed'))}: {rows}{end})", 400)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline to one compressed file, atomically."""
        arrays = {f"{table}/{name}": column for table in self.TABLES for name, column in getattr(self, table).items()}
        files.save_arrays(path, "timeline", arrays, plain({"header": self.header}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Timeline":
        """Read a timeline; raises `InputError` if the file is damaged, too big, or of another kind or format version.

        Also raises `InputError` if columns break a rule. Rules concern names, types and lengths, and times and versions
        in the order of `systems/MODEL.md`. Ids, counts and shares of time have to add up, and repeated columns to
        agree. A wrong number that breaks no rule (a length, say) cannot be detected.
        """
        arrays, scalars = files.load_arrays(path, "timeline")
        tables: dict[str, dict[str, np.ndarray]] = {table: {} for table in cls.TABLES}
        with files.well_formed(path, "timeline"):
            for name, column in arrays.items():
                table, _, column_name = name.partition("/")
                tables[table][column_name] = column
            timeline = cls(**tables, **scalars)
            columns.check_timeline(tables, timeline.header)
        return timeline
