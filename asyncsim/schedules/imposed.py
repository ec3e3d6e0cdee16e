"""Imposed schedules, without events: staleness is fixed, drawn, recorded, that of a sawtooth or a frozen generator."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from asyncsim.base import calls, checks, laws, measured, records, rng
from asyncsim.base.feeds import Source
from asyncsim.schedules._delay_report import Report

_PER = ("update", "group", "trajectory")


class Request(NamedTuple):
    """Request to an imposed schedule for versions of its batches; `train_version` is int64 `[B]`."""

    train_version: np.ndarray
    realizations: int
    groups: int
    samples: int
    seed: int


@dataclass(frozen=True, repr=False)
class Imposed(Source, calls.Told):
    """Rule that sets the generating version of every trajectory, with the interface of a system.

    `versions(request)` returns integers that broadcast to `[M, B, G, N]`. From version `reached` on the law is not cut
    at the first version; a schedule that ends before warns (`ShortRunWarning`).
    """

    name: str
    knobs: Mapping[str, Any]
    versions: Callable[[Request], np.ndarray]
    groups_per_batch: int = 1
    batches_per_publish: int = 1
    reached: int = 0
    random: bool = False

    recommended: ClassVar[Mapping[str, Any]] = {}
    """A law recommends nothing to a learner."""

    def __post_init__(self) -> None:
        for name in ("groups_per_batch", "batches_per_publish"):
            checks.integer(name, getattr(self, name), 1, "count from one", checks.LARGEST)

    def __repr__(self) -> str:
        """Name, knobs and counts, in at most 400 characters."""
        counts = {k: v for k, v in self.describe().items() if k not in ("name", "knobs") and v != 1}
        parts = [repr(self.name), *(f"{k}={checks.shown(v)}" for k, v in {**self.knobs, **counts}.items())]
        return checks.clipped(f"Imposed({', '.join(parts)})", 400)

    def realizations(self, replicates: int) -> int:
        """Number of realizations M: one if the rule is deterministic, else one per replicate."""
        return replicates if self.random else 1

    def schedule(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int
    ) -> records.Schedule:
        """Schedule by the rule, with versions `[M, B, G, N, 1]` as read-only views of constant axes."""
        checks.integer("tokens", tokens, 1, "give the length of the longest trajectory")
        shape = (
            checks.integer("realizations", realizations, 1, "ask for at least one realization"),
            checks.integer("batches", batches, 1, "ask for at least one batch"),
            self.groups_per_batch,
            checks.integer("samples_per_group", samples_per_group, 1, "a group has at least one sample"),
        )
        train_version = np.arange(batches) // self.batches_per_publish
        last = int(train_version[-1])
        if last < self.reached:
            enough = self.reached * self.batches_per_publish + 1
            text = f"{self.name}: staleness {self.reached} is not reached, the run ends at {last}"
            warnings.warn(checks.ShortRunWarning(f"{text}; train on at least {enough} batches"), stacklevel=2)
        request = Request(train_version, realizations, self.groups_per_batch, samples_per_group, seed)
        version = np.asarray(self.versions(request), dtype=np.int32)
        fits = all(mine in (1, all_of) for mine, all_of in zip(version.shape[::-1], shape[::-1], strict=False))
        remedy = f"let {self.name} return those of batches as [B, 1, 1], as request.train_version[:, None, None]"
        checks.require(fits, "shape of versions", list(version.shape), f"[M, B, G, N] = {list(shape)}", remedy)
        trajectory = np.arange(np.prod(shape[1:], dtype=np.int64)).reshape(shape[1:])
        return records.Schedule(
            np.broadcast_to(version, shape)[..., None],
            np.broadcast_to(trajectory, shape),
            self.batches_per_publish,
            self.random,
            header={**self.describe(), "seed": seed},
        )


def fixed(staleness: int, *, groups_per_batch: int = 1, batches_per_publish: int = 1) -> Imposed:
    """Fixed staleness min(version, L) of every token: the first L versions train on data of version 0.

    A run that ends before version L warns (`checks.ShortRunWarning`).

    Arguments: `staleness` L in versions, an integer >= 0; `groups_per_batch` and `batches_per_publish`, counts >= 1.
    Returns an imposed schedule, versions `[M, B, G, N, 1]`. Raises `InputError` for integers outside these ranges.
    Assumes that a batch is generated under one version. Source: textbook (constant delay).

    >>> fixed(2).schedule(5, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0]
    """
    remedy = "give a number of versions (of several sim.sweep(spec, {'staleness': [0, 4]}))"
    if not checks.is_number(staleness):
        remedy = f"{remedy}; for staleness that varies within a run write {laws.varied(staleness)}"
    staleness = checks.integer("staleness", staleness, 0, remedy, checks.LARGEST)
    knobs, versions = {"staleness": staleness}, partial(_behind, staleness)
    return Imposed("fixed", knobs, versions, groups_per_batch, batches_per_publish, staleness)


def sawtooth(batches: int, *, groups_per_batch: int = 1) -> Imposed:
    """Staleness 0 in versions; update staleness 0, 1, ..., n - 1 in the n one-update batches between two publishes.

    Arguments: `batches` n between publishes; `groups_per_batch`, a count >= 1. Returns an imposed schedule, versions
    `[M, B, G, N, 1]`. Raises `InputError` for counts below one. Source: OAPL (2602.19362), buffer cleared at every
    synchronization.

    >>> law = sawtooth(4)
    >>> law.batches_per_publish, float(law.schedule(8, 1, 1, 1, seed=0).staleness().max())
    (4, 0.0)
    """
    every = checks.integer("batches", batches, 1, "count the batches between two publishes", checks.LARGEST)
    return Imposed("sawtooth", {"batches": every}, partial(_behind, 0), groups_per_batch, batches_per_publish=every)


def frozen(*, groups_per_batch: int = 1, batches_per_publish: int = 1) -> Imposed:
    """Frozen data: all samples come from version 0, so staleness grows by one with every publish.

    Arguments: `groups_per_batch` and `batches_per_publish`, counts >= 1. Returns an imposed schedule, versions `[M, B,
    G, N, 1]`. Raises `InputError` for counts below one. Source: textbook (a fixed behavior policy, as in 2506.20520).

    >>> frozen().schedule(3, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0]
    """
    return Imposed("frozen", {}, _first, groups_per_batch, batches_per_publish)


def random(
    law: Sequence[float] | np.ndarray | str,
    per: str = "update",
    *,
    groups_per_batch: int = 1,
    batches_per_publish: int = 1,
) -> Imposed:
    """Random staleness min(version, s), with s drawn independently from P(s = k) = p_k per batch, group or trajectory.

    A run that ends before the version of the largest s warns (`checks.ShortRunWarning`).

    Arguments: `law`, probabilities p_0, p_1, ... of the integers, in versions (`asyncsim.base.laws.uniform(0, 4)`, or
    the text "uniform:0:4", for equal ones), or the text "@staleness.csv:column" for the shares in a column of observed
    integers, one for each trajectory; `per`, what shares a draw: "update" (all of a batch), "group" or "trajectory";
    `groups_per_batch` and `batches_per_publish`, counts >= 1. Returns an imposed schedule, versions `[M, B, G, N, 1]`,
    whose realizations are independent. Raises `InputError` for a law that is not one of probabilities, an unknown
    `per`, or counts below one. Source: textbook (independent random delays).

    >>> random([0.0, 0.5, 0.5]).schedule(6, 1, 1, 1, seed=3).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    """
    weights = laws.as_probabilities("law", law)
    checks.one_of("per", per, _PER, "say what shares a draw")
    knobs, versions = {"law": weights.tolist(), "per": per}, partial(_drawn, tuple(weights), per)
    reached = int(np.flatnonzero(weights)[-1])
    return Imposed("random", knobs, versions, groups_per_batch, batches_per_publish, reached, random=True)


def delays(
    record: str | os.PathLike[str] | Sequence[float],
    unit: str = "versions",
    per: str = "update",
    start: str = "random",
    *,
    groups_per_batch: int = 1,
    batches_per_publish: int = 1,
) -> Delays:
    """Recorded delays, replayed in order from another row in each realization, which keeps their autocorrelation.

    Staleness min(version, s_{j+k}) of the k-th update, s the record and j its start; the first follows the last.
    Autocorrelation is that of the record. `report()` has its correlation time, and what independent draws would change.
    In `seconds` it is no schedule but a duration of the event model, `model={"reward": delays(...)}`: sample k has the
    k-th number behind the start. A run that ends before the version of the largest s warns
    (`checks.ShortRunWarning`). A run longer than the record repeats it, so realizations differ less than runs would.

    Arguments: `record`, numbers or the column of a file, `delays.csv:column*factor` (CSV, JSON lines or Parquet);
    `unit` of its numbers: "versions" (publishes), "batches" (batch b has the version of batch b - s) or "seconds";
    `per`, what has a number of its own, in order: "update" (all of a batch), "group" or "trajectory"; `start`, "random"
    (another place for each realization) or "first" (the first row, one realization); `groups_per_batch` and
    `batches_per_publish`, counts >= 1. Returns an imposed schedule, versions `[M, B, G, N, 1]`, with `report()` and
    `law`. Raises `InputError` for numbers that are missing, negative or (but for seconds) not whole. Assumes that the
    record is stationary: a warm-up in it is replayed anywhere. Source: textbook (circular replay of a series).

    >>> delays([0, 1, 2, 3], start="first").schedule(6, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 3.0, 0.0, 1.0]
    """
    checks.one_of("unit", unit, ("versions", "batches", "seconds"), "say what they count; a column is FILE.csv:COLUMN")
    checks.one_of("per", per, _PER, "say what has a number of its own")
    checks.one_of("start", start, ("random", "first"), "say where a realization starts")
    source, numbers = _read(record)
    whole = (numbers >= 0.0) & (numbers <= laws.LONGEST) & (numbers == np.floor(numbers))
    bound = "a number >= 0" if unit == "seconds" else f"an integer in [0, {laws.LONGEST}]"
    remedy = f"drop rows without a delay of whole {unit}" + ("" if unit == "seconds" else ", or give unit=seconds")
    measured.refuse_rows("record", source, numbers, numbers >= 0.0 if unit == "seconds" else whole, bound, remedy)
    publish = checks.integer("batches_per_publish", batches_per_publish, 1, "count from one", checks.LARGEST)
    parts = publish if unit == "batches" else 1
    digest = hashlib.sha256(numbers.tobytes()).hexdigest()
    knobs = {"source": source, "sha256": digest, "delays": len(numbers), "unit": unit, "per": per, "start": start}
    versions = partial(_replayed, numbers.astype(np.int64), per, start, parts)
    chance, reached = start == "random" and bool(np.ptp(numbers) > 0.0), -(-int(numbers.max()) // parts)
    return Delays("delays", knobs, versions, groups_per_batch, publish, reached, random=chance, numbers=numbers)


@dataclass(frozen=True, repr=False, eq=False)
class Delays(Imposed):
    """Recorded delays, as a schedule or as a duration of the event model; `numbers` float64 `[n]`, in order."""

    numbers: np.ndarray = field(kw_only=True)

    @property
    def law(self) -> laws.Law:
        """Recorded delays as a duration; raises `InputError` for units other than seconds, and for delays of 0."""
        remedy = "give unit='seconds', with a factor behind the column where it has another unit"
        checks.require(self.knobs["unit"] == "seconds", "unit", self.knobs["unit"], "seconds for a duration", remedy)
        source, remedy = self.knobs["source"], "write a delay of zero as the smallest that was resolved"
        measured.refuse_rows("record", source, self.numbers, self.numbers > 0.0, "a positive number", remedy)
        return laws.recorded(self.numbers)

    def report(self) -> Report:
        """Report on recorded delays: `str(report)` is a page of text, `report.row()` a JSON object."""
        return Report.of(self.knobs["source"], self.knobs["unit"], self.numbers)

    def schedule(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int
    ) -> records.Schedule:
        """Schedule with the recorded delays as staleness: versions `[M, B, G, N, 1]`."""
        remedy = "give it as a duration of a system, model={'reward': delays(...)}, or count it in versions"
        checks.require(self.knobs["unit"] != "seconds", "unit", "seconds", "versions or batches", remedy)
        return super().schedule(batches, samples_per_group, tokens, realizations, seed)


def _read(record: Any) -> tuple[str, np.ndarray]:
    """Name and numbers of a recording, float64 `[n]`."""
    if isinstance(record, (str, os.PathLike)):
        place = os.fspath(record).removeprefix("@")
        _, numbers = measured.column("record", place)
        return os.path.basename(place), numbers
    try:
        numbers = np.asarray(record, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty((0, 0))
    remedy = "give delays in their order, or the column of a file, delays.csv:column"
    checks.require(numbers.ndim == 1, "record", record, "numbers, one for each update or sample", remedy)
    return "numbers", numbers


def _first(request: Request) -> np.ndarray:
    return np.zeros_like(request.train_version)[:, None, None]


def _behind(staleness: int, request: Request) -> np.ndarray:
    return np.maximum(request.train_version - staleness, 0)[:, None, None]


def _per(per: str, request: Request, version_of: Callable[[int, int, np.ndarray], np.ndarray]) -> np.ndarray:
    """Versions `[M, B, G or 1, N or 1]`, at least 0, from `version_of(batch, trained version, unit numbers)`."""
    groups = 1 if per == "update" else request.groups
    samples = request.samples if per == "trajectory" else 1
    unit = np.arange(groups * samples).reshape(groups, samples)
    version = np.empty((request.realizations, request.train_version.size, groups, samples), dtype=np.int32)
    for batch, current in enumerate(request.train_version):
        version[:, batch] = np.maximum(version_of(batch, current, batch * unit.size + unit), 0)
    return version


def _drawn(law: tuple[float, ...], per: str, request: Request) -> np.ndarray:
    # Rounding may leave the last sum below one, or a uniform above it: the last possible value takes the rest.
    support = np.flatnonzero(law)
    cumulative = np.cumsum(np.take(law, support))[:-1]
    stream = rng.Stream(request.seed, f"staleness per {per}")
    realization = np.arange(request.realizations)[:, None, None]

    def version_of(batch: int, current: int, unit: np.ndarray) -> np.ndarray:
        return current - support[np.searchsorted(cumulative, stream.uniform(realization, unit), side="right")]

    return _per(per, request, version_of)


def _replayed(record: np.ndarray, per: str, start: str, parts: int, request: Request) -> np.ndarray:
    """Versions from replayed delays; `parts` is batches per publish if delays count batches, else 1."""
    first = np.zeros(request.realizations, dtype=np.int64)
    if start == "random":
        draw = rng.Stream(request.seed, "start of the delays").uniform(np.arange(request.realizations), 0)
        first = (draw * len(record)).astype(np.int64)

    def version_of(batch: int, current: int, unit: np.ndarray) -> np.ndarray:
        delay = record[(first[:, None, None] + unit) % len(record)]
        return current - delay if parts == 1 else (batch - delay) // parts

    return _per(per, request, version_of)
