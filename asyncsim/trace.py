"""The trace of a run: named metrics, accumulated arrays, final parameters, and what is needed to judge them."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim import checks, files, records, uncertainty

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Trace:
    """What a run leaves behind.

    `metrics`: name to float64 `[U/every, R]`, NaN where missing; `updates`: int `[U/every]`; `accumulated`: name to
    `[..., R]`; `parameters`: final, `[R, P]`; `diverged`: int `[R]`, update at which a replicate left the finite
    range, or -1; `realization`: int `[R]`, which realization of the schedule a replicate ran on; `schedule`: the
    realized schedule; `header`: the spec in words, seed, versions, hardware.
    """

    metrics: dict[str, np.ndarray]
    updates: np.ndarray
    accumulated: dict[str, np.ndarray]
    parameters: np.ndarray
    diverged: np.ndarray
    realization: np.ndarray
    schedule: records.Schedule
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def replicates(self) -> int:
        """R."""
        return len(self.realization)

    def __getitem__(self, name: str) -> np.ndarray:
        """A metric `[U/every, R]` by name."""
        checks.one_of("metric", name, self.metrics, "record it with Spec(diagnostics=[...])")
        return self.metrics[name]

    def estimate(self, values: np.ndarray) -> records.Estimate:
        """Mean of one number per replicate `[R]` with its error between realizations (or replicates)."""
        return uncertainty.between(values, self.realization, self.schedule.random)

    def final(self, name: str, last: float = 0.1) -> records.Estimate:
        """Estimate of a metric over the last fraction of the recorded updates; frozen replicates are left out."""
        remedy = "give the fraction of the recorded updates that is averaged"
        last = checks.real("last", last, remedy, 0.0, 1.0, open_low=True)
        rows = max(1, round(last * len(self.updates)))
        window = np.where(self.diverged >= 0, np.nan, self[name][-rows:])
        # A missing number inside the window (a cosine to a zero gradient, say) takes nothing from the others.
        count = np.isfinite(window).sum(axis=0)
        found = self._mean(np.where(count > 0, np.nansum(window, axis=0) / np.maximum(count, 1), np.nan))
        checks.require(found is not None, "metric", name, "finite in some replicate at the end", "all diverged")
        assert found is not None
        return found

    def _mean(self, values: np.ndarray) -> records.Estimate | None:
        """Mean of the finite numbers among `[R]`; with a single one its error is unknown (infinite); None without."""
        kept = np.isfinite(values)
        if kept.sum() < 2:
            alone = values[kept]
            return records.Estimate(float(alone[0]), error=math.inf, independent=False) if len(alone) else None
        return uncertainty.between(values[kept], self.realization[kept], self.schedule.random)

    def staleness(self) -> np.ndarray:
        """Share of trajectories at each head staleness 0, 1, ... versions, over all batches and realizations."""
        heads = self.schedule.staleness()[..., 0]
        return np.bincount(heads[np.isfinite(heads)].astype(int)) / max(1, np.isfinite(heads).sum())

    def seconds(self) -> np.ndarray:
        """Simulated seconds at which each recorded update's batch starts to train, `[U/every, R]`.

        Raises `InputError` where the schedule has no clock (an imposed one).
        """
        clock = self.schedule.seconds
        checks.require(clock is not None, "schedule.seconds", None, "known", "train on an event system")
        assert clock is not None
        return clock[self.realization][:, self.updates // self.schedule.updates_per_batch].T

    def table(self) -> pd.DataFrame:
        """Tidy table: one row per metric and recorded update.

        Columns: update, metric, mean, standard_error, low, high (95 percent), replicates (that have not diverged),
        independent (False where replicates share one random schedule, so that the error is too small).
        """
        import pandas as pd

        rows = []
        for name, values in self.metrics.items():
            for update, row in zip(self.updates, values, strict=True):
                found = self._mean(row)
                if found is not None:
                    half = found.error
                    if math.isfinite(half):
                        half *= uncertainty.critical(0.05, found.freedom)
                    bounds = (found.value - half, found.value + half)
                    kept = int(np.isfinite(row).sum())
                    rows.append((int(update), name, found.value, found.error, *bounds, kept, found.independent))
        columns = ["update", "metric", "mean", "standard_error", "low", "high", "replicates", "independent"]
        return pd.DataFrame(rows, columns=columns)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to one compressed file, atomically."""
        arrays = {
            "updates": self.updates,
            "parameters": self.parameters,
            "diverged": self.diverged,
            "realization": self.realization,
        }
        arrays |= {f"metrics/{k}": v for k, v in self.metrics.items()}
        arrays |= {f"accumulated/{k}": v for k, v in self.accumulated.items()}
        schedule, described = self.schedule.packed()
        arrays |= {f"schedule/{k}": v for k, v in schedule.items()}
        scalars = {"schedule": described, "header": self.header}
        files.save_arrays(path, "trace", arrays, records.plain(scalars))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace; a file damaged, too big, of another kind or of another format version is refused by name."""
        arrays, scalars = files.load_arrays(path, "trace")
        with files.well_formed(path, "trace"):
            return cls._read(arrays, scalars)

    @classmethod
    def _read(cls, arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> Trace:
        groups: dict[str, dict[str, np.ndarray]] = {"metrics": {}, "accumulated": {}, "schedule": {}}
        plain = {}
        for name, value in arrays.items():
            group, _, rest = name.partition("/")
            if rest:
                groups[group][rest] = value
            else:
                plain[name] = value
        found = cls(
            groups["metrics"],
            plain["updates"],
            groups["accumulated"],
            plain["parameters"],
            plain["diverged"],
            plain["realization"],
            records.Schedule.unpacked(groups["schedule"], scalars["schedule"]),
            scalars["header"],
        )
        found._check()
        return found

    def _check(self) -> None:
        """Refuse arrays of other shapes or types than a run leaves behind."""
        checks.require(isinstance(self.header, dict), "trace.header", self.header, "a mapping", "run it again")
        R, U = self.realization.size, self.updates.size
        expected: dict[str, tuple[int, ...]] = {"updates": (U,), "diverged": (R,), "realization": (R,)}
        for name, shape in expected.items():
            array = getattr(self, name)
            right = array.shape == shape and np.issubdtype(array.dtype, np.integer)
            checks.require(right, f"trace.{name}", f"{array.dtype} {array.shape}", f"integers {shape}", "run it again")
        real: dict[str, tuple[np.ndarray, tuple[int, ...]]] = {
            f"metrics/{name}": (array, (U, R)) for name, array in self.metrics.items()
        }
        real["parameters"] = (self.parameters, (R, *self.parameters.shape[1:2]))
        for name, (array, shape) in real.items():
            right = array.shape == shape and array.ndim == 2 and np.issubdtype(array.dtype, np.floating)
            checks.require(right, f"trace.{name}", f"{array.dtype} {array.shape}", f"numbers {shape}", "run it again")
        total = self.schedule.batches * self.schedule.updates_per_batch
        rising = bool((self.updates[1:] > self.updates[:-1]).all())
        rising &= U == 0 or (int(self.updates[0]) >= 0 and int(self.updates[-1]) < total)
        checks.require(rising, "trace.updates", self.updates.tolist(), f"ascending in [0, {total})", "run it again")
        left = bool(((self.diverged >= -1) & (self.diverged < total)).all())
        checks.require(left, "trace.diverged", self.diverged.tolist(), f"in [-1, {total})", "run it again")
        highest = self.schedule.realizations
        known = bool(((self.realization >= 0) & (self.realization < highest)).all())
        checks.require(known, "trace.realization", self.realization.tolist(), f"in [0, {highest})", "run it again")
