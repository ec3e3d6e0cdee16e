"""Long logs are read in blocks and as arrays: the same rows as line by line, and the same refusals."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import csv

from asyncsim.base import files
from asyncsim.schedules import _log_cells, _log_files, _log_table
from asyncsim.schedules._log_cells import MISSING, codes, empty, integers, listed, of_arrow, ranked, seconds
from asyncsim.schedules._log_files import read
from asyncsim.schedules._log_places import Place, digest, found
from tests.refusals import refused

WANTED = {"id", "v", "run.policy", "lost"}


def _told(cell: Any) -> str:
    return "" if _log_cells.absent(cell) else str(cell)


def test_a_long_log_is_packed_as_it_is_read_and_stays_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[Any] = [3, None, 2.5, "x", "", True, 1 << 60, float("nan"), [1, 2]]
    rows = [{"id": f"s{i}", "v": i, "run": {"policy": i / 2}, "lost": kinds[i // 5]} for i in range(45)]
    rows[7].pop("v")
    path, tables = tmp_path / "log.jsonl", []
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for block in (1 << 16, 5, 4):
        monkeypatch.setattr(_log_files, "BLOCK", block)
        budget = files.Budget(path)
        table = _log_files._json_lines(path, WANTED, budget)
        tables.append((table.names, table.rows, {n: [_told(x) for x in listed(c)] for n, c in table.cells.items()}))
        assert isinstance(table.cells["v"], list) == (block > 5) and isinstance(table.cells["lost"], list)
        # Planted: room that is given back twice.
        assert budget.left <= budget.most - 45 * (_log_cells.ROW + 4 * _log_cells.NUMBER)
    assert tables[0] == tables[1] == tables[2]


CELL = st.none() | st.integers(-3, 40) | st.sampled_from(["", "7", "-1"])


@settings(max_examples=100)
@given(st.lists(CELL, min_size=1, max_size=12))
@example([None])
@example([-1, 5, 5, 3])
@example(["", "30", "7"])
def test_arrays_and_texts_are_read_as_lists_are(cells: list[Any]) -> None:
    kinds = {type(cell) for cell in cells if cell is not None}
    if len(kinds) > 1:
        return
    found = of_arrow(pa.chunked_array([pa.array(cells)]))
    assert [None if v is None else str(v) for v in listed(found)] == [None if v is None else str(v) for v in cells]
    assert empty(found).tolist() == [_log_cells.absent(cell) for cell in cells]
    assert np.array_equal(integers("x", found), integers("x", list(cells)))
    assert np.array_equal(seconds("x", found), seconds("x", list(cells)), equal_nan=True)
    assert np.array_equal(codes("x", found), codes("x", list(cells)))


@settings(max_examples=60)
@given(st.lists(st.integers(-2, 4), max_size=10))
def test_ranks(values: list[int]) -> None:
    numbers: dict[int, int] = {}
    expected = [numbers.setdefault(value, len(numbers)) for value in values]
    array = np.array(values, dtype=np.int64)
    assert ranked(array).tolist() == expected


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        (np.array([1.0, 2.5]), "row 2 = 2.5"),
        (np.array([1.0, np.inf]), "row 2 = inf"),
        (np.array([1, 1 << 60]), "row 2 = 1152921504606846976"),
        (["3", "x", "x"], "row 2 = 'x'"),
        ([1, True], "row 2 = True"),
    ],
)
def test_a_cell_that_is_no_integer_is_named_by_its_row(cells: Any, value: str) -> None:
    caught = refused("must be an integer", integers, "tokens", cells)
    assert value in str(caught)


def test_missing_numbers_stay_missing() -> None:
    assert integers("x", np.array([MISSING, -1, 3])).tolist() == [MISSING, MISSING, 3]
    assert integers("x", np.array([np.nan, 2.0])).tolist() == [MISSING, 2]
    assert _log_cells.narrow(np.array([1 << 40])).dtype == np.int64
    assert _log_cells.narrow(np.array([5, -1])).dtype == np.int32


BATCHES = {
    "numbers": lambda i: (i, i // 4),
    "floats": lambda i: (i / 2, i // 4),
    "empty cells": lambda i: (i, "" if i % 7 == 3 else i),
    "fractions that come late": lambda i: (i, i + (0.5 if i > 1900 else 0)),
    "words that come late": lambda i: (i, "soon" if i > 1900 else i),
    "words": lambda i: (f"s{i}", i),
    "numbers too large for integers that come late": lambda i: (i, (1 << 70) if i > 1900 else i),
    "not a number": lambda i: (i, "nan" if i == 1000 else i / 2),
    "empty at first": lambda i: (i, "" if i < 1500 else i),
}


@pytest.mark.parametrize("case", BATCHES)
def test_a_long_csv_is_the_same_in_batches(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    rows = [",".join(map(str, BATCHES[case](i))) for i in range(2000)]
    path.write_text("\n".join(["id,v", *rows, ""]))
    tables, batches = [], []
    right = _log_files._by_batches
    monkeypatch.setattr(_log_files, "_by_batches", lambda *a: batches.append(right(*a)) or batches[-1])
    for large in (2000, 1 << 60):
        monkeypatch.setattr(_log_files, "LARGE", large)
        tables.append(_log_files._csv(path, WANTED, files.Budget(path), None))
    assert len(batches) == 1 and (batches[0] is not None) == (
        case in ("numbers", "floats", "empty cells", "not a number")
    ), case
    first, second = tables
    assert (first.names, first.rows, first.cells.keys()) == (second.names, second.rows, second.cells.keys())
    for name, cells in first.cells.items():
        assert type(cells) is type(second.cells[name]) and listed(cells) == listed(second.cells[name]), name


@pytest.mark.long
def test_ten_million_rows_take_less_than_two_gigabytes(tmp_path: Path) -> None:
    path, rows = tmp_path / "log.csv", 512 * 19531
    number = np.arange(rows)
    version = number // 512
    columns = {"sample_id": number, "group_id": number // 8, "start_version": np.maximum(version - number % 5, 0)}
    columns |= {"end_version": np.maximum(version - 1, columns["start_version"]), "train_version": version}
    csv.write_csv(pa.table(columns | {"tokens": 1 + number % 4000}), str(path))
    code = "import resource, sys; from asyncsim.schedules import replay; "
    code += "replay(sys.argv[1], unit='publishes', unknown='keep').log.report(); "
    code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 2e9


def test_a_table_of_many_columns_takes_what_those_that_are_asked_for_take(tmp_path: Path) -> None:
    """A hundred thousand columns in 0.9 MB: 0.13 GB with all that is imported, where it was 1.0."""
    names = ["sample_id", "start_version", "train_version", *(f"c{k}" for k in range(99_997))]
    path = tmp_path / "log.csv"
    path.write_text(",".join(names) + "\n" + ",".join("0" for _ in names) + "\n")
    # Not the largest size of `resource`, which begins with that of the process that started this one.
    code = "import sys; from asyncsim.schedules import replay; replay(sys.argv[1], unit='publishes'); "
    code += "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 4e8


def test_names_of_columns_are_read_as_all_rows_are(tmp_path: Path) -> None:
    """Behind a mark of UTF-8 and empty lines, in quotes, over two lines, with any line end."""
    for end in ("\n", "\r\n", "\r"):
        text = f'\ufeff{end}"sample_id","a ""b"", c","two{end}lines",start_version,train_version{end}7,x,y,0,0{end}'
        path = tmp_path / "log.csv"
        path.write_bytes(text.encode())
        table = read([Place(path, "log.csv")], {"sample_id", 'a "b", c', "start_version"}, files.Budget(path))
        assert table.names[:3] == ["sample_id", 'a "b", c', f"two{end}lines"], end
        assert table.cells["sample_id"].tolist() == [7] and table.cells["start_version"].tolist() == [0]


def test_a_log_whose_files_go_while_it_is_read_is_refused_by_name(tmp_path: Path) -> None:
    places = [Place(tmp_path / "gone.jsonl", "gone.jsonl")]
    refused(r"gone\.jsonl': must be an existing file; read a copy of the log", digest, places)


def test_folders_that_go_while_a_log_is_listed_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gone", "kept"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jsonl").write_text("{}\n")
    listed = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("gone"):
            raise FileNotFoundError(path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert [place.name for place in found(tmp_path, "")] == ["kept/a.jsonl"]


def id_columns(kind: str) -> list[Any]:
    a, b = [3, 3, 1, None, 3, None, 1, 3], [1, 2, 1, 1, 1, 1, 2, 2]
    first = np.array([MISSING if each is None else each for each in a])
    return {"numbers": [first, np.array(b)], "three": [first, np.array(b), first[::-1]]}[kind]


@pytest.mark.parametrize("kind", ["numbers", "three"])
def test_joined_ids_are_numbered_as_tuples_are(kind: str) -> None:
    table = dict(zip("abc", id_columns(kind), strict=False))
    name = "+".join(table)
    number, tuples = _log_table._cells(table, "sample_id", name), _log_table._cells(table, "batch", name)
    assert isinstance(number, np.ndarray) and isinstance(tuples, list)
    assert np.array_equal(codes("sample_id", number), codes("sample_id", tuples))
    # A planted defect: numbers joined without a gap between them fall together.
    fewer = codes("x", number // 2)
    assert not np.array_equal(fewer, codes("x", tuples))
    refused("must be an integer", integers, "batch", tuples)


@pytest.mark.parametrize("late", [None, 1.5, float("nan")])
def test_a_parquet_file_in_batches_gives_what_the_whole_table_gives(
    late: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a NaN that somebody wrote, and an empty cell, in the last batch."""
    from pyarrow import parquet

    monkeypatch.setattr(_log_files, "BATCH", 3)
    path, found = tmp_path / "log.parquet", []
    parquet.write_table(pa.table({"id": [0, 1, 2, 3, 4, 5, 6], "v": [0.5, 1.0, None, 2.0, 3.0, 4.0, late]}), path)
    for large in (0, 1 << 60):
        monkeypatch.setattr(_log_files, "LARGE", large)
        table = _log_files._parquet(path, {"id", "v", "lost"}, files.Budget(path))
        found.append((table.names, table.rows, {n: [_told(x) for x in listed(c)] for n, c in table.cells.items()}))
    assert found[0] == found[1]
