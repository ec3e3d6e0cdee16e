"""Files that were damaged or forged: refused by name, before anything is allocated for what they only claim."""

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import asyncsim as sim
from asyncsim.base import files
from asyncsim.base.checks import InputError

SAVED = sim.schedules.fixed(0).schedule(4, 2, 1, 1, 0)
MIB = 1 << 20


def refused(path, load=sim.Schedule.load, words=("path",)):
    with pytest.raises(InputError) as caught:
        load(path)
    text = str(caught.value)
    assert "\n" not in text and len(text) < 500 and all(word in text for word in words), text
    return text


def replay(path):
    return sim.schedules.replay(path, unit="publishes")


# What names no file.

TRACE_SPEC = sim.Spec(
    sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.reinforce(), sim.chain(), updates=1, replicates=2
)
DOORS = {
    "checkpoint": ("checkpoint", lambda path: sim.run(TRACE_SPEC, checkpoint=path)),
    "resume": ("path", lambda path: sim.run(resume=path)),
    "save": ("path", SAVED.save),
    "load": ("path", sim.Schedule.load),
    "spec": ("path", sim.Spec.load),
    "log": ("path", replay),
    "plot": ("path", lambda path: sim.plot(SAVED, path=path)),
    "store": ("store", lambda path: sim.sweep(TRACE_SPEC, {"staleness": [0, 1]}, store=path)),
    "folder": ("folder", sim.callbacks.tensorboard),
}


@pytest.mark.parametrize("path", [1, True, 1.5, b"a.npz", ["a.npz"], {"a": 1}], ids=repr)
@pytest.mark.parametrize("door", DOORS)
def test_what_names_no_file_is_refused_by_name(door, path, tmp_path, monkeypatch):
    """Number 1 would be standard output, which reading a file closes."""
    monkeypatch.chdir(tmp_path)
    field, enter = DOORS[door]
    with pytest.raises(InputError, match=rf"^{field} = .*: must be the name of a file"):
        enter(path)
    os.fstat(1)
    assert os.listdir(tmp_path) == []


# Saved arrays.


def archive(path, entries, kind=zipfile.ZIP_DEFLATED):
    """An archive of raw entries."""
    with zipfile.ZipFile(path, "w", kind) as file:
        for name, data in entries.items():
            file.writestr(f"{name}.npy", data)
    return path


def npy(shape, dtype="<i4", data=b"", header=None):
    """An array file with any header."""
    text = header or repr({"descr": dtype, "fortran_order": False, "shape": shape})
    return np.lib.format.magic(1, 0) + struct.pack("<H", len(text)) + text.encode() + data


HEADER = json.dumps({"kind": "schedule", "format": 1, "scalars": {}}).encode()


def header(text=HEADER):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.frombuffer(text, dtype=np.uint8))
    return file.getvalue()


FORGED = {
    "a shape of 1e12": npy((10**12,)),
    "a shape beyond int64": npy((10**30,)),
    "a negative shape": npy((-4,), data=bytes(16)),
    "a shape of nothing times much": npy((0, 10**30)),
    "fewer bytes than the shape": npy((4,), data=bytes(15)),
    "more bytes than the shape": npy((4,), data=bytes(17)),
    "words of no letters": npy((10**18,), "<U0"),
    "objects": npy((1,), "|O", b"\x80\x04N."),
    "records": npy((1,), [("a", "<i4")], bytes(4)),
    "a long type": npy((1,), [("a", "<i4", (10**9,))]),
    "a header that is no header": npy((), header="{'descr': "),
    "a header of a call": npy((), header="__import__('os').getpid()"),
    "a header of many brackets": npy((), header="(" * 9000),
    "a header of Python 2": npy((), header="{'descr': '<i4', 'fortran_order': False, 'shape': (4L, ''')}"),
    "a version of its own": b"\x93NUMPY\x09\x00" + bytes(64),
    "no array": b"version",
    "nothing": b"",
}


@pytest.mark.parametrize("case", FORGED)
@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_forged_arrays_are_refused_by_name(tmp_path, case, kind):
    path = archive(tmp_path / "forged.npz", {"__header__": header(), "version": FORGED[case]}, kind)
    refused(path, words=(str(path), "whole schedule file"))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[1]",
        b"7",
        b"{}",
        b"\xff\xfe",
        b"[" * 10**5,
        b'{"a":' * 10**5,
        b'{"kind": 1, "format": 1}',
        b'{"kind": "schedule", "format": 1, "scalars": 3}',
        b"9" * 5000,
    ],
)
def test_forged_headers_are_refused_by_name(tmp_path, text):
    refused(archive(tmp_path / "forged.npz", {"__header__": header(text)}), words=("whole schedule file",))


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(tmp_path, kind):
    refused(archive(tmp_path / "other.npz", {"__header__": header()}, kind), words=("compressed in another way",))


def test_no_flipped_bit_of_a_saved_file_gives_a_traceback(tmp_path):
    path = tmp_path / "saved.npz"
    SAVED.save(path)
    data, refusals = path.read_bytes(), 0
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        try:
            found = sim.Schedule.load(path)
        except InputError:
            refusals += 1
        else:
            # Dates and the like: what is read is what was written.
            assert np.array_equal(found.version, SAVED.version) and np.array_equal(found.trajectory, SAVED.trajectory)
    assert refusals > 0.7 * len(data)


def test_what_a_file_declares_is_compared_with_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "big.npz"
    version = np.zeros((1, 1000, 10, 100, 1), dtype=np.int32)
    sim.Schedule(version, np.arange(10**6).reshape(version.shape[:4])).save(path)
    assert path.stat().st_size < 2 * MIB
    monkeypatch.setenv("ASYNCSIM_READ_LIMIT", "20M")
    text = refused(path, words=("ASYNCSIM_READ_LIMIT", "20971520 bytes (0.0195 GiB)"))
    monkeypatch.setenv("ASYNCSIM_READ_LIMIT", "30M")
    assert sim.Schedule.load(path).batches == 1000 and "must be one that takes at most" in text
    monkeypatch.setenv("ASYNCSIM_READ_LIMIT", "much")
    refused(path, words=("ASYNCSIM_READ_LIMIT", "'much'"))


def test_the_usual_limit_is_4_gib_or_what_is_free(monkeypatch):
    monkeypatch.delenv("ASYNCSIM_READ_LIMIT", raising=False)
    for size, limit in ((100 << 30, 4 << 30), (1 << 30, 1 << 30)):
        monkeypatch.setattr(files, "free", lambda size=size: type("Free", (), {"size": size}))
        assert files.limit() == limit


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: os.mkfifo(path)])
def test_a_folder_or_a_pipe_is_no_file(tmp_path, make):
    make(tmp_path / "here.npz")
    refused(tmp_path / "here.npz", words=("folder or a device",))


# Logs.

ROWS = [
    {"sample_id": i, "group_id": i // 2, "start_version": max(0, i // 4 - 1), "train_version": i // 4}
    for i in range(16)
]


def log(path, rows=None, text=None):
    rows = ROWS if rows is None else rows
    if path.name.endswith(".parquet"):
        parquet.write_table(pa.table({name: [row[name] for row in rows] for name in rows[0]}), path)
        return path
    if text is None and ".csv" in path.name:
        text = "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows), ""])
    text = "".join(json.dumps(row) + "\n" for row in rows) if text is None else text
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


KINDS = ("csv", "jsonl", "parquet", "csv.gz", "jsonl.gz")


@pytest.mark.parametrize("kind", KINDS)
def test_no_flipped_bit_of_a_log_gives_a_traceback(tmp_path, kind):
    path = log(tmp_path / f"log.{kind}")
    data = path.read_bytes()
    assert replay(path).log.rows == 16
    refusals = 0
    for place in range(0, len(data), 1 + len(data) // 400):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        try:
            replay(path)
        except InputError as error:
            refusals += "\n" not in str(error)
    assert refusals > 20


@pytest.mark.parametrize(
    "cell",
    [
        "[" * 10**5,
        '{"a":' * 10**5,
        "[" * 500 + "]" * 500,
        "9" * 400,
        "9" * 5000,
        "1e999",
        "-1e999",
        "NaN",
        '"\\ud800"',
        "[[[[1]]]]",
        "{}",
        "true",
        '""',
        "[]",
        "[[]]",
        "[[1]]",
        "[[0, 1], 2]",
        '"[[["',
    ],
)
@pytest.mark.parametrize(
    "column",
    ["sample_id", "group_id", "start_version", "train_version", "t_start", "versions", "fate", "reward", "tokens"],
)
def test_strange_cells_are_read_or_refused_by_name(tmp_path, cell, column):
    lines = []
    for row in ROWS:
        texts = {name: json.dumps(value) for name, value in row.items()}
        texts[column] = cell if row["sample_id"] == 7 else texts.get(column, "null")
        lines.append("{" + ", ".join(f'"{name}": {text}' for name, text in texts.items()) + "}\n")
    try:
        replay(log(tmp_path / "log.jsonl", text="".join(lines)))
    except InputError as error:
        assert "\n" not in str(error) and len(str(error)) < 600


def test_times_are_finite(tmp_path):
    for number in ("1e999", "9" * 400, "-1e999"):
        text = "".join(json.dumps(row)[:-1] + f', "t_start": {number}}}\n' for row in ROWS)
        refused(log(tmp_path / "log.jsonl", text=text), replay, ("t_start, row 1", "number"))


def bombs():
    """Small files of much."""

    def parquet_of(table):
        file = io.BytesIO()
        parquet.write_table(pa.table(table), file)
        return file.getvalue()

    yield "many rows", "parquet", parquet_of({"sample_id": np.zeros(10**6, np.int8)})
    one = {name: np.zeros(150, int) for name in ("sample_id", "start_version", "train_version")}
    yield "long texts", "parquet", parquet_of({**one, "sample_id": ["x" * MIB] * 150})
    yield "long texts in lists", "parquet", parquet_of({**one, "call_versions": [["1" * MIB]] * 150})
    yield "long lists", "parquet", parquet_of({**one, "versions": [np.zeros(2 * 10**4, np.int8)] * 150})
    line = b'{"sample_id": 1, "start_version": 0, "train_version": 0}\n'
    yield "many lines", "jsonl.gz", gzip.compress(line * 5 * 10**5)
    yield "one line", "jsonl.gz", gzip.compress(b" " * (80 * MIB))
    yield "a long list", "jsonl.gz", gzip.compress(b'{"versions": [' + b"0," * 2 * 10**6 + b"0]}\n")
    yield "empty objects", "jsonl.gz", gzip.compress(b'{"fate": [' + b"{}," * 10**6 + b"0]}\n")
    yield "many lines", "csv.gz", gzip.compress(b"sample_id,start_version,train_version\n" + b"1,0,0\n" * 10**6)
    yield "many columns", "csv.gz", gzip.compress((b"a," * 10**5 + b"a\n") + (b"," * 10**5 + b"\n") * 300)
    yield "one cell", "csv.gz", gzip.compress(b'sample_id,versions\n1,"' + b"[" * (40 * MIB) + b'"\n')


def archives():
    """Small archives of much."""
    many = npy((64 * MIB,), "|i1", bytes(64 * MIB))
    yield "zeros", archive(io.BytesIO(), {"__header__": header(), "version": many}).getvalue()
    yield "a long header", archive(io.BytesIO(), {"__header__": header(b"[" + b"{}," * 10**6 + b"0]")}).getvalue()


WATCH = """
import resource, sys
import asyncsim as sim
from asyncsim.base.checks import InputError
import pyarrow.csv, pyarrow.parquet, pyarrow.compute, asyncsim.schedules.replay
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
for path in sys.argv[1:]:
    try:
        sim.Schedule.load(path) if path.endswith(".npz") else sim.schedules.replay(path, unit="publishes")
        print("read", path)
    except InputError as error:
        print("refused" if "ASYNCSIM_READ_LIMIT" in str(error) else f"{path}: {error}")
print((peak() - before) >> 10)
"""


def test_bombs_are_refused_before_they_take_their_memory(tmp_path):
    """Each would take 80 MB to 1 GB; together they take less than the limit of 64 MiB."""
    paths = []
    for name, kind, data in bombs():
        paths.append(tmp_path / f"{name.replace(' ', '-')}.{kind}")
        paths[-1].write_bytes(data)
    for name, data in archives():
        paths.append(tmp_path / f"{name}.npz")
        paths[-1].write_bytes(data)
    assert sum(path.stat().st_size for path in paths) < 3 * MIB
    options = {"capture_output": True, "text": True, "timeout": 120, "check": True}
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *map(str, paths)], env={**os.environ, "ASYNCSIM_READ_LIMIT": "64MiB"}, **options
    )
    *said, peak = done.stdout.splitlines()
    assert said == ["refused"] * len(paths) and int(peak) < 64, done.stdout
