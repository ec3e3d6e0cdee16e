"""Runs from a trace, from several, or from logs with a row for each update: metrics by name, `[U, R]` each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.base import checks, files
from asyncsim.base.notation import TRAINED
from asyncsim.base.trace import Trace
from asyncsim.schedules import _log_files, _log_places

REMEDY = "give a trace, columns by name, the path of a log, or a list of these"


def metrics_of(runs: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The named metrics `[U, R]`, those of several sources side by side.

    Raises `InputError` for a source without one of them, or sources of different lengths.
    """
    sources = list(runs) if isinstance(runs, (list, tuple)) else [runs]
    checks.require(bool(sources), "runs", runs, "at least one run", REMEDY)
    tables = [_table(source, number, names) for number, source in enumerate(sources)]
    lengths = sorted({len(next(iter(table.values()))) for table in tables})
    remedy = f"cut them to the shortest, {lengths[0]}, or leave short ones out"
    checks.require(len(lengths) == 1, "recorded updates", lengths, "the same for all runs", remedy)
    return {name: np.hstack([table[name] for table in tables]) for name in names}


def returns_of(runs: Any) -> str:
    """The return that collapses unless one is named: the trained policy's, where all have it at every update."""
    sources = runs if isinstance(runs, (list, tuple)) else [runs]
    tables = [source.metrics if isinstance(source, Trace) else source for source in sources]
    there = [isinstance(table, Mapping) and TRAINED in table for table in tables]
    known = all(there) and all(np.isfinite(_column(TRAINED, table[TRAINED])).any(1).all() for table in tables)
    return TRAINED if known else "batch_return"


def _table(source: Any, number: int, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The named metrics of one source."""
    if isinstance(source, Trace):
        return {name: source[name] for name in names}
    if isinstance(source, Mapping):
        columns: Mapping[str, Any] = source
    else:
        checks.require(isinstance(source, (str, Path)), f"runs[{number}]", source, "a run", REMEDY)
        path = Path(source)
        columns = _log_files.read(_log_places.found(path, ""), names, files.Budget(path)).cells
    for name in names:
        checks.one_of("metric", name, columns, f"it must be a column of runs[{number}]")
    return {name: _column(f"{name} of runs[{number}]", columns[name]) for name in names}


def _column(field: str, cells: Any) -> np.ndarray:
    """`[U, R]`, NaN where a cell is empty."""
    try:
        plain = [np.nan if cell is None or (isinstance(cell, str) and not cell) else cell for cell in cells]
        array = np.asarray(plain, dtype=np.float64)
    except (TypeError, ValueError):
        raise checks.InputError(field, cells, "numbers, one a recorded update", "drop rows that have none") from None
    whole = array.ndim in (1, 2) and array.size > 0
    checks.require(whole, field, array.shape, "of shape [U] or [U, R]", "give one number for each recorded update")
    return array.reshape(len(array), -1)


def fallen(returns: np.ndarray, start: float) -> np.ndarray:
    """Returns in which a run that has none any more (it diverged) is back where it began."""
    gone = np.logical_and.accumulate(~np.isfinite(returns)[::-1], axis=0)[::-1]
    return np.where(gone, start, returns)
