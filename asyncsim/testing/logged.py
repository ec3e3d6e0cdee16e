"""Rows of a trainer's log, right or with a planted contradiction."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from asyncsim.base import checks
from asyncsim.base.records import Schedule
from asyncsim.testing.versions import schedules

Row = dict[str, Any]

CONTRADICTIONS: Mapping[str, tuple[str, Callable[[Row], Row]]] = {
    "ends under an older version than it started": (
        "end_version",
        lambda row: {"start_version": row["train_version"] + 1, "end_version": row["train_version"]},
    ),
    "trained before its last token": ("train_version", lambda row: {"end_version": row["train_version"] + 1}),
    "started after it was trained": (
        "staleness",
        lambda row: {"start_version": row["train_version"] + 1, "end_version": None},
    ),
    "a start that is missing": ("start_version", lambda row: {"start_version": None}),
    "versions of no token": ("versions", lambda row: {"versions": []}),
    "no tokens": ("tokens", lambda row: {"tokens": 0}),
    "a fate that nobody knows": ("fate", lambda row: {"fate": "eaten"}),
    "a sample without a name": ("sample_id", lambda row: {"sample_id": None}),
    "times that run backwards": ("t_end", lambda row: {"t_end": row["t_start"] - 1.0}),
}
"""What may be wrong with one row: the field by which `schedules.replay` refuses it, and the cells that change."""


@dataclass(frozen=True, eq=False)
class LogRows:
    """Rows of a log under this package's names, one for each sample, and the truth beside them.

    `schedule`, what was logged: staleness `[1, B, G, N, T or 1]` is `schedule.staleness()`; `contradiction`, what is
    wrong with one row ("": nothing), and `refused`, the field by which `schedules.replay` refuses it.
    """

    rows: tuple[Row, ...]
    schedule: Schedule
    contradiction: str = ""

    @property
    def refused(self) -> str:
        """The field that an importer should name; "" where nothing is wrong."""
        return CONTRADICTIONS[self.contradiction][0] if self.contradiction else ""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """The file, one line of JSON for each row; raises `InputError` for a name that does not end in .jsonl."""
        path = Path(path)
        checks.require(path.suffix == ".jsonl", "path", str(path), "a file .jsonl", "name it log.jsonl")
        path.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf-8")
        return path


def logs(
    *kinds: str, batches: int = 8, samples: int = 3, tokens: int = 4, contradictions: bool = False
) -> st.SearchStrategy[LogRows]:
    """Logs of the `schedules` of these kinds, as an importer of a trainer's log takes them.

    Each sample has sample_id, group_id, train_version, batch, tokens, t_start, t_end, fate, and its versions as a list
    (one for each token), as start_version and end_version where they are all the same, or both. Versions count
    publishes: `sim.schedules.replay(log.save(path), unit="publishes")` gives the schedule back.

    Arguments: `kinds` as in `sources`; the largest `batches` B, `samples` N and `tokens` T; `contradictions`, whether
    one row of each log contradicts itself. Raises `InputError`. Source: this package.

    >>> from hypothesis import find
    >>> find(logs("fixed"), lambda log: log.schedule.staleness().max() == 1).rows[1]["train_version"]
    1
    """
    checks.boolean("contradictions", contradictions, "say whether one row contradicts itself")
    drawn = schedules(*kinds, batches=batches, samples=samples, tokens=tokens, realizations=1)
    return _logs(drawn, contradictions)


@st.composite
def _logs(draw: Any, schedules: st.SearchStrategy[Schedule], contradictions: bool) -> LogRows:
    schedule = draw(schedules)
    stamps = draw(st.sampled_from(("both", "versions", "ends")))
    rows = _rows(schedule, stamps)
    if not contradictions:
        return LogRows(tuple(rows), schedule)
    name = draw(st.sampled_from(list(CONTRADICTIONS)))
    row = rows[draw(st.integers(0, len(rows) - 1))]
    # A row of ends alone: its list would contradict the planted ones as well.
    row.pop("versions", None)
    row |= {"start_version": row["train_version"], "end_version": row["train_version"]}
    row |= CONTRADICTIONS[name][1](row)
    return LogRows(tuple(rows), schedule, name)


def _rows(schedule: Schedule, stamps: str) -> list[Row]:
    """One row for each sample, in the order of batches, groups and samples."""
    version, (batches, groups, samples) = schedule.version[0], schedule.trajectory.shape[1:]
    rows = []
    for b, g, n in np.ndindex(batches, groups, samples):
        versions = version[b, g, n].tolist()
        row = {
            "sample_id": int(schedule.trajectory[0, b, g, n]),
            "group_id": b * groups + g,
            "train_version": b // schedule.batches_per_publish,
            "batch": b,
            "tokens": len(versions),
            "t_start": float(b),
            "t_end": b + 0.5,
            "fate": "trained",
        }
        # Ends alone say nothing of the tokens between two versions.
        if stamps != "ends" or len(set(versions)) > 1:
            row["versions"] = versions
        if stamps != "versions" or len(set(versions)) == 1:
            row |= {"start_version": versions[0], "end_version": versions[-1]}
        rows.append(row)
    return rows
