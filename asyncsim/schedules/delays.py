"""A record of delays replayed in its order: each realization starts at another place, and correlation is kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from asyncsim.base import checks, laws, measured, records, rng
from asyncsim.schedules._delay_report import Report
from asyncsim.schedules._imposed import Imposed, Request

_UNITS = ("versions", "batches", "seconds")
_PER = ("update", "group", "trajectory")
_STARTS = ("random", "first")


def delays(
    record: str | os.PathLike[str] | Sequence[float],
    unit: str = "versions",
    per: str = "update",
    start: str = "random",
    *,
    groups_per_batch: int = 1,
    batches_per_publish: int = 1,
) -> Delays:
    """Staleness min(version, s_{j+k}) of the k-th update, s the record and j its start; the first follows the last.

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
    checks.one_of("unit", unit, _UNITS, "say what the numbers count")
    checks.one_of("per", per, _PER, "say what has a number of its own")
    checks.one_of("start", start, _STARTS, "say where a realization starts")
    source, numbers = _read(record)
    whole = (numbers >= 0.0) & (numbers <= laws.LONGEST) & (numbers == np.floor(numbers))
    bound = "a number >= 0" if unit == "seconds" else f"an integer in [0, {laws.LONGEST}]"
    remedy = f"drop rows without a delay of whole {unit}" + ("" if unit == "seconds" else ", or give unit=seconds")
    measured.refuse_rows("record", source, numbers, numbers >= 0.0 if unit == "seconds" else whole, bound, remedy)
    publish = checks.integer("batches_per_publish", batches_per_publish, 1, "count from one", checks.LARGEST)
    parts = publish if unit == "batches" else 1
    digest = hashlib.sha256(numbers.tobytes()).hexdigest()
    knobs = {"source": source, "sha256": digest, "delays": len(numbers), "unit": unit, "per": per, "start": start}
    return Delays(
        "delays",
        knobs,
        partial(_versions, numbers.astype(np.int64), per, start, parts),
        random=start == "random" and bool(np.ptp(numbers) > 0.0),
        groups_per_batch=groups_per_batch,
        batches_per_publish=publish,
        reached=-(-int(numbers.max()) // parts),
        numbers=numbers,
    )


@dataclass(frozen=True, repr=False, eq=False)
class Delays(Imposed):
    """A record of delays, as a schedule or as a duration of the event model; `numbers` float64 `[n]`, in order."""

    numbers: np.ndarray = field(kw_only=True)

    @property
    def law(self) -> laws.Law:
        """The record as a duration; raises `InputError` for a unit other than seconds, and for delays of 0."""
        remedy = "give unit='seconds', with a factor behind the column where it has another unit"
        checks.require(self.knobs["unit"] == "seconds", "unit", self.knobs["unit"], "seconds for a duration", remedy)
        remedy = "write a delay of zero as the smallest that was resolved"
        measured.refuse_rows(
            "record", self.knobs["source"], self.numbers, self.numbers > 0.0, "a positive number", remedy
        )
        return laws.recorded(self.numbers)

    def report(self) -> Report:
        """What the record holds: `str(report)` is its page, `report.row()` its JSON object."""
        return Report.of(self.knobs["source"], self.knobs["unit"], self.numbers)

    def schedule(
        self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int
    ) -> records.Schedule:
        """The schedule value: versions `[M, B, G, N, 1]`."""
        remedy = "give it as a duration of a system, model={'reward': delays(...)}, or count it in versions"
        checks.require(self.knobs["unit"] != "seconds", "unit", "seconds", "versions or batches", remedy)
        return super().schedule(batches, samples_per_group, tokens, realizations, seed)


def _read(record: Any) -> tuple[str, np.ndarray]:
    """Name and numbers of a record, float64 `[n]`."""
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


def _versions(record: np.ndarray, per: str, start: str, parts: int, request: Request) -> np.ndarray:
    """Versions `[M, B, G or 1, N or 1]`; `parts`, batches to a publish where delays count batches, else 1."""
    groups = 1 if per == "update" else request.groups
    samples = request.samples if per == "trajectory" else 1
    unit = np.arange(groups * samples).reshape(groups, samples)
    first = np.zeros(request.realizations, dtype=np.int64)
    if start == "random":
        draw = rng.Stream(request.seed, "start of the delays").uniform(np.arange(request.realizations), 0)
        first = (draw * len(record)).astype(np.int64)
    version = np.empty((request.realizations, request.train_version.size, groups, samples), dtype=np.int32)
    for batch, current in enumerate(request.train_version):
        place = (first[:, None, None] + batch * unit.size + unit) % len(record)
        oldest = current - record[place] if parts == 1 else (batch - record[place]) // parts
        version[:, batch] = np.maximum(oldest, 0)
    return version
