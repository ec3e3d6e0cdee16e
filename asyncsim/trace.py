"""The trace of a run: named metrics, accumulated arrays, final parameters, and what is needed to judge them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim import checks, records, uncertainty

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
        rows = max(1, round(last * len(self.updates)))
        values = self[name][-rows:].mean(axis=0)
        kept = np.isfinite(values)
        checks.require(
            bool(kept.any()), "metric", name, "finite in some replicate at the end", "every replicate diverged"
        )
        return uncertainty.between(values[kept], self.realization[kept], self.schedule.random)

    def staleness(self) -> np.ndarray:
        """Share of trajectories at each head staleness 0, 1, ... versions, over all batches and realizations."""
        heads = self.schedule.staleness()[..., 0]
        return np.bincount(heads[np.isfinite(heads)].astype(int)) / max(1, np.isfinite(heads).sum())

    def table(self) -> pd.DataFrame:
        """Tidy table: one row per metric and recorded update.

        Columns: update, metric, mean, standard_error, low, high (95 percent), replicates (that have not diverged).
        """
        import pandas as pd

        rows = []
        for name, values in self.metrics.items():
            for update, row in zip(self.updates, values, strict=True):
                kept = np.isfinite(row)
                if kept.any():
                    found = uncertainty.between(row[kept], self.realization[kept], self.schedule.random)
                    half = uncertainty.critical(0.05, found.freedom) * found.error
                    rows.append(
                        (
                            int(update),
                            name,
                            found.value,
                            found.error,
                            found.value - half,
                            found.value + half,
                            int(kept.sum()),
                        )
                    )
        return pd.DataFrame(rows, columns=["update", "metric", "mean", "standard_error", "low", "high", "replicates"])

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
        s = self.schedule
        arrays |= {"schedule/version": s.version, "schedule/trajectory": s.trajectory}
        if s.work is not None:
            arrays["schedule/work"] = s.work
        scalars = {
            "batches_per_publish": s.batches_per_publish,
            "updates_per_batch": s.updates_per_batch,
            "random": s.random,
            "schedule_header": s.header,
            "header": self.header,
        }
        records.save_arrays(path, "trace", arrays, scalars)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace; a file truncated, of another kind or of another format version is refused by name."""
        arrays, scalars = records.load_arrays(path, "trace")
        groups: dict[str, dict[str, np.ndarray]] = {"metrics": {}, "accumulated": {}, "schedule": {}}
        plain = {}
        for name, value in arrays.items():
            group, _, rest = name.partition("/")
            if rest:
                groups[group][rest] = value
            else:
                plain[name] = value
        known = groups["schedule"]
        schedule = records.Schedule(
            known["version"],
            known["trajectory"],
            scalars["batches_per_publish"],
            scalars["updates_per_batch"],
            scalars["random"],
            known.get("work"),
            scalars["schedule_header"],
        )
        return cls(
            groups["metrics"],
            plain["updates"],
            groups["accumulated"],
            plain["parameters"],
            plain["diverged"],
            plain["realization"],
            schedule,
            scalars["header"],
        )
