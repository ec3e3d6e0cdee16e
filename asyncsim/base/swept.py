"""What a sweep says: a row for each setting and metric, and where the numbers of all replicates lie."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.base import notation, uncertainty
from asyncsim.base import store as storing
from asyncsim.base.records import plain

if TYPE_CHECKING:
    import pandas as pd

PACE = "groups_per_hour"
"""The metric of a system that has a knee."""
PRINTED = 40
"""Rows that the printed form has."""


@dataclass(frozen=True)
class Sweep:
    """The answer of a sweep.

    `id`, its name in the store; `store`, where that is; `names` of what was varied, with their `values`; `metrics`, the
    numbers that each replicate has; `summary`, a mapping for each setting and metric (see `table`); `units`, how many
    there are, and `made`, how many of them this call made; `failed`, settings that have no numbers, with the reason;
    `replicates` of a setting; `reading`, how a curve became a number, in words; `seconds` of this call; `files` of the
    numbers; `folder`, a temporary one that goes when the answer goes; `lines`, structures with what a claim predicts.
    """

    id: str
    store: str
    names: tuple[str, ...]
    values: dict[str, tuple[Any, ...]]
    metrics: tuple[str, ...]
    summary: tuple[dict[str, Any], ...]
    units: int
    made: int
    failed: tuple[dict[str, Any], ...]
    replicates: int
    reading: str
    seconds: float
    files: tuple[str, ...] = field(default=(), repr=False)
    folder: Any = field(default=None, repr=False, compare=False)
    lines: tuple[dict[str, Any], ...] = ()

    def table(self) -> pd.DataFrame:
        """One row per setting and metric.

        Columns: the setting, `metric`, `mean`, `standard_error`, `low`, `high`, `median`, `diverged`, `replicates`.
        `low` and `high` are the 95 percent interval of the mean between replicates. `diverged` is the share that left
        the finite range. `replicates` counts those with a value.
        """  # fmt: skip
        import pandas as pd

        return pd.DataFrame(list(self.summary))

    def rows(self) -> Iterator[pd.DataFrame]:
        """The numbers of every replicate, a table for each unit in the order of the grid, read when it is asked for."""
        store = storing.Store(self.store)
        for name, data in zip(self.files, store.read_all(self.files), strict=True):
            yield storing.unpack(data, name)[0].to_pandas(use_threads=False)

    def row(self) -> dict[str, Any]:
        """The JSON object."""
        names = ("id", "store", "names", "values", "metrics", "summary", "units", "made", "failed", "replicates")
        return plain({name: getattr(self, name) for name in (*names, "reading", "seconds", "lines")})

    def knee(self, share: float = 0.95) -> tuple[str, Any] | None:
        """The only varied number of a system, and its least value with that share of the most groups an hour.

        None where something else was varied.
        """
        rows = [row for row in self.summary if row["metric"] == PACE]
        if len(self.names) != 1 or not rows or any(isinstance(row[self.names[0]], (str, bool)) for row in rows):
            return None
        name, most = self.names[0], max(row["mean"] for row in rows)
        return name, min(row[name] for row in rows if row["mean"] >= share * most)

    def __str__(self) -> str:
        """A table of means with their intervals, a line about what failed, and one about the work."""
        knee = self.knee()
        word = [f"knee: {knee[0]}={cell(knee[1])} is the least with 95 % of the most groups an hour"] if knee else []
        return "\n".join([*_table(self), *word, *self._failures(), self._work()])

    def _failures(self) -> list[str]:
        return [
            f"failed at {_setting(each['setting'])}: {each['reason']} ({each['units']} units)" for each in self.failed
        ]

    def _work(self) -> str:
        before = self.units - self.made - sum(each["units"] for each in self.failed)
        known = f", {before} were there" if before else ""
        where = f"sweep {self.id} in {self.store}" if self.folder is None else "no store was named, so nothing is kept"
        return f"{self.units} units: {self.made} made{known}; {self.seconds:.1f} s; {where}"


def _setting(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in setting.items()) or "every setting"


def _table(sweep: Sweep) -> list[str]:
    """A line for each setting, a column for each metric."""
    settings: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sweep.summary:
        settings.setdefault(tuple(row[name] for name in sweep.names), {})[row["metric"]] = row
    lines = [[*sweep.names, *sweep.metrics]]
    for values, found in list(settings.items())[:PRINTED]:
        lines.append([*(cell(value) for value in values), *(mean_of(found.get(metric)) for metric in sweep.metrics)])
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    text = ["  ".join(word.rjust(width) for word, width in zip(line, widths, strict=True)) for line in lines]
    head = f"{sweep.reading}; {sweep.replicates} replicates a setting, +- is the 95 percent interval"
    more = len(settings) - PRINTED
    return [head, *text, *([f"{more} settings more; table() has all of them"] if more > 0 else [])]


def cell(value: Any) -> str:
    """A value of a setting in few signs."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def mean_of(row: Mapping[str, Any] | None) -> str:
    """A mean with half its interval, in words; an interval of nothing but rounding is 0."""
    if row is None or row["replicates"] == 0:
        return "failed" if row is None else "no value"
    half = (row["high"] - row["low"]) / 2.0
    half = 0.0 if half <= 1e-12 * abs(row["mean"]) else half
    return notation.number(row["mean"]) + (f" +-{half:.2g}" if math.isfinite(half) else "")


def summarized(values: np.ndarray, diverged: np.ndarray | None) -> dict[str, Any]:
    """Statistics of one number per replicate `[n]`: mean, standard error, 95 percent interval, median, diverged.

    Replicates without a value (NaN) are left out of all but `diverged`; `replicates` counts the others.
    """
    values = values[~np.isnan(values)]
    n = len(values)
    if n == 0:
        names = ("mean", "standard_error", "low", "high", "median")
        share = 0.0 if diverged is None else float((diverged >= 0).mean())
        return {**dict.fromkeys(names, math.nan), "diverged": share, "replicates": 0}
    # Numbers of replicates that left the finite range have squares that overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        error = float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.inf
    half = uncertainty.critical(0.05, n - 1) * error if n > 1 else math.inf
    return {
        "mean": mean,
        "standard_error": error,
        "low": mean - half,
        "high": mean + half,
        "median": float(np.median(values)),
        "diverged": 0.0 if diverged is None else float((diverged >= 0).mean()),
        "replicates": n,
    }


@dataclass(frozen=True)
class Boundary:
    """Brackets of a boundary.

    `knob`; `names` of the structures; `rows`, a mapping for each structure: its setting, low, high, narrow (whether the
    bracket is as narrow as was asked), replicates used, and predicted where a `claim` predicts it; `event`, in words;
    `share` of replicates that have it at the boundary; `error`, probability that a bracket misses its boundary.
    """

    knob: str
    names: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    event: str
    share: float
    error: float
    claim: str = ""

    def table(self) -> pd.DataFrame:
        """One row per structure: its setting, low, high, narrow, replicates, and predicted where a claim is named."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    def row(self) -> dict[str, Any]:
        """The JSON object."""
        names = ("knob", "names", "rows", "event", "share", "error", "claim")
        return plain({name: getattr(self, name) for name in names})

    def __str__(self) -> str:
        """A line for each structure."""
        head = f"{self.knob} at which the {self.event} crosses {self.share:g}; each bracket misses it in {self.error:g}"
        lines = [head]
        for row in self.rows:
            setting = ", ".join(f"{name}={cell(row[name])}" for name in self.names)
            beside = f"; predicted {row['predicted']:.5g}" if "predicted" in row else ""
            wide = "" if row["narrow"] else " (undecided in between: raise max_replicates)"
            lines.append(f"  {setting or 'this spec'}: {row['low']:.5g} to {row['high']:.5g}{beside}{wide}")
        return "\n".join(lines)
