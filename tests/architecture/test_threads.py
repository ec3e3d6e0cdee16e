"""No reader of pyarrow starts a pool of threads, and none is given a file of Python's.

A thread that reads such a file takes Python's lock. Beside torch it ended 14 of 270 processes with status 134 at their
exit; none of 140 that read bytes or a file of the system's (2 % of them would be missed with probability 0.06).
"""

import ast
import os
import subprocess
import sys

import pytest

from tests.architecture.source import modules

SERIAL = ("ReadOptions", "iter_batches", "to_pandas", "read_table")
"""Calls that take `use_threads`."""
OPTIONS = ("read_csv", "open_csv", "read_json")
"""Readers that take it among their options."""


def faults(source: str) -> list[str]:
    """Readers of a module that may start threads, each with its line."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        inside = list(ast.walk(function))
        names = {node.attr for node in inside if isinstance(node, ast.Attribute)}
        names |= {node.id for node in inside if isinstance(node, ast.Name)}
        # Only in such a function is `.read` that of a Parquet file.
        calls = (*SERIAL, *["read"] * ("ParquetFile" in names))
        for node in inside:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in calls:
                given = {word.arg: word.value for word in node.keywords}.get("use_threads")
                if not (isinstance(given, ast.Constant) and given.value is False):
                    found.append(f"{node.lineno}: {node.func.attr}")
        found += [f"{function.lineno}: {name}" for name in OPTIONS if name in names and "ReadOptions" not in names]
        # Files of Python's, and names that stand for them.
        opened = {
            item.optional_vars.id
            for node in inside
            if isinstance(node, ast.With)
            for item in node.items
            if isinstance(item.optional_vars, ast.Name) and ast.unparse(item.context_expr).startswith(("open(", "io."))
        }
        for node in inside:
            given = ast.unparse(node.args[0]) if isinstance(node, ast.Call) and node.args else ""
            if given in opened or given.startswith("io.BytesIO("):
                name = ast.unparse(node.func).rpartition(".")[2]
                found += [f"{node.lineno}: {name} of Python's file"] * (name in ("ParquetFile", "reader", *OPTIONS))
    return found


def test_readers_have_no_threads():
    texts = {name: path.read_text(encoding="utf-8") for name, path in modules().items()}
    texts = {name: text for name, text in texts.items() if any(word in text for word in (*SERIAL, *OPTIONS, "Parquet"))}
    assert {name: wrong for name, text in texts.items() if (wrong := faults(text))} == {}
    assert sum(text.count("use_threads=False") for text in texts.values()) >= 8


@pytest.mark.parametrize(
    "body",
    [
        "table.to_pandas()",
        "csv.read_csv(path)",
        "csv.open_csv(path, csv.ReadOptions(block_size=9))",
        "json.read_json(path, json.ReadOptions(use_threads=True))",
        "ParquetFile(path).read()",
        "file.iter_batches(9, use_threads=True)",
        "ParquetFile(io.BytesIO(file)).read(use_threads=False)",
        "with open(path) as text:\n        return json.read_json(text, json.ReadOptions(use_threads=False))",
    ],
)
def test_a_planted_reader_with_threads_is_seen(body):
    assert faults(f"def f(table, path, file):\n    {'' if body.startswith('with') else 'return '}{body}\n")


SCRIPT = """
import json, os, pathlib, sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from asyncsim.base import files, measured, store
from asyncsim.schedules import _log_files as logs
from asyncsim.schedules._log_places import Place

pa.set_cpu_count(64)
os.chdir(sys.argv[1])
task = pathlib.Path("/proc/self/task")
threads = lambda: sum("jemalloc" not in (each / "comm").read_text() for each in task.iterdir())
columns = {name: np.arange(20_000) * 1.0 for name in "abcdefghijklmnopqrstuvwxyz"}
pq.write_table(pa.table(columns), "t.parquet", row_group_size=1000)
pathlib.Path("t.csv").write_text("a,b\\n" + "1,2.5\\n" * 300_000)
pathlib.Path("t.jsonl").write_text(json.dumps({"a": 1, "b": 2.5}) + "\\n")
pathlib.Path("long.jsonl").write_text((json.dumps({"a": 1, "b": 2.5}) + "\\n") * 100_000)
before = threads()
store.unpack(store.pack(columns, {}), "unit")[0].to_pandas(use_threads=False)
units = threads() - before
for name in ("t.parquet", "t.csv", "t.jsonl", "long.jsonl"):
    assert measured.column("delays", name + ":b")[1].size > 0
for large in (logs.LARGE, 1):
    logs.LARGE = large
    for name in ("t.parquet", "t.csv", "long.jsonl"):
        assert logs.read([Place(pathlib.Path(name), name)], {"a", "b"}, files.Budget(name)).rows > 0
serial = threads() - before
pq.ParquetFile("t.parquet").read()
print(units, serial, threads() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads of a process are listed on Linux")
def test_all_readers_together_start_no_pool_of_threads(tmp_path):
    """None for the bytes of a unit, a few for files that are read ahead; a pool of 64 is seen."""
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, env=path, check=True
    )
    units, serial, pool = map(int, done.stdout.split())
    assert units == 0 and serial <= 8 < pool, done.stdout
