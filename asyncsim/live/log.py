"""The log of a live run: one line of JSON for each sample, whole batches at once, under this package's column names."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.live.actor import Done
from asyncsim.live.admission import Group

UNUSED = "unfinished"
"""Fate of a group that nothing was trained on when the run ended."""


class Writer:
    """Appends the rows of a batch in one write, before anything is generated under the weights that it made.

    `tokens` are those of the response, or, where weights move under it (`moving`), all that it had time for: there a
    replay finds the version of each at its place.
    """

    def __init__(self, path: str | os.PathLike[str] | None, samples: int, redundant: int, moving: bool) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="asyncsim-live-"), "log.jsonl") if path is None else Path(path)
        remedy = "the log is written as lines of JSON"
        checks.require(self.path.suffix == ".jsonl", "log", str(path), "a name that ends in .jsonl", remedy)
        self.samples, self.redundant, self.moving = samples, redundant, moving
        try:
            self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            remedy = "no log is overwritten; give another name"
            raise checks.InputError("log", str(path), f"a new file in a folder ({error.strerror})", remedy) from None

    def batch(self, groups: Iterable[Group], number: int, version: int, t_train: float) -> None:
        """Rows of a trained batch."""
        trained = {"batch": number, "train_version": version, "t_train": t_train, "fate": "trained"}
        self._append(row for group in groups for row in self._rows(group, trained))

    def rest(self, groups: Iterable[Group]) -> None:
        """Rows of groups that were not trained when the run ended."""
        self._append(row for group in groups for row in self._rows(group, {"fate": UNUSED}))

    def close(self) -> None:
        """No more rows."""
        os.close(self.file)

    def _append(self, rows: Iterable[dict[str, Any]]) -> None:
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        while data:
            data = data[os.write(self.file, data) :]

    def _rows(self, group: Group, end: dict[str, Any]) -> Iterable[dict[str, Any]]:
        if group.done is None:
            return self._begun(group, end)
        return self._finished(group, group.done, end)

    def _begun(self, group: Group, end: dict[str, Any]) -> Iterable[dict[str, Any]]:
        """A group in generation: its actor has not said yet when it started."""
        for n in range(self.samples):
            yield {**self._shared(group, n), **end}

    def _shared(self, group: Group, sample: int) -> dict[str, Any]:
        return {
            "sample_id": group.number * (self.samples + self.redundant) + sample,
            "group_id": group.number,
            "submit_version": group.v_submit,
            "t_submit": group.t_submit,
            "server": group.place,
        }

    def _finished(self, group: Group, done: Done, end: dict[str, Any]) -> Iterable[dict[str, Any]]:
        length = done.columns["mask"][0, 0].sum(-1)
        for n in range(self.samples):
            tokens = len(done.version[n]) if self.moving else max(int(length[n]), 1)
            version = done.version[n, :tokens]
            at = np.flatnonzero(np.append(True, version[1:] != version[:-1]))
            row = self._shared(group, n) | {
                "start_version": int(version[0]),
                "end_version": int(version[-1]),
                "tokens": tokens,
                "t_start": done.t_start,
                "t_end": float(done.t_end[n]),
                "t_ready": group.t_ready,
                "reward": float(done.columns["reward"][0, 0, n]),
            }
            if len(at) > 1:
                row["versions"] = [[int(t), int(version[t])] for t in at]
            yield {**row, **end}
