"""Stores: whole files or none, the same in a folder and in a bucket; rows that changed have another digest."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim.base import store as storing
from asyncsim.base.store import Store
from tests.refusals import refused


@pytest.fixture(scope="module")
def bucket():
    """The address of a folder in a bucket of a local S3 server."""
    server = pytest.importorskip("moto.server")
    pytest.importorskip("flask_cors")
    from pyarrow import fs

    names = {"AWS_ACCESS_KEY_ID": "t", "AWS_SECRET_ACCESS_KEY": "t", "AWS_EC2_METADATA_DISABLED": "true"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    place = f"endpoint_override={host}:{port}&scheme=http"
    made, _ = fs.FileSystem.from_uri(f"s3://bucket?{place}&allow_bucket_creation=true")
    made.create_dir("bucket")
    yield lambda folder: f"s3://bucket/{folder}?{place}"
    running.stop()
    for name, value in before.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value


@pytest.fixture(params=["folder", "file://", "bucket"])
def store(request, tmp_path):
    if request.param == "bucket":
        return Store(request.getfixturevalue("bucket")(f"of-{os.getpid()}-{request.node.name[:20]}"))
    return Store(tmp_path / "s" if request.param == "folder" else f"file://{tmp_path}/s")


def test_what_is_written_is_read_listed_replaced_and_set_aside(store):
    assert list(store.names()) == [] and not store.has("a/b.json")
    store.write("a/b.json", b"1")
    store.write("a/c/d.json", b"22")
    store.write("e.json", b"333")
    assert list(store.names()) == ["a/b.json", "a/c/d.json", "e.json"]
    assert list(store.names("a")) == ["a/b.json", "a/c/d.json"]
    assert list(store.names("nothing")) == []
    store.write("a/b.json", b"4444")
    assert store.read("a/b.json") == b"4444" and store.size("a/b.json") == 4 and store.has("a/b.json")
    aside = store.set_aside(["a/b.json"])
    assert not store.has("a/b.json") and store.read(f"{aside}/a/b.json") == b"4444"
    with pytest.raises(FileNotFoundError):
        store.read("a/b.json")


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("", "a folder or an address"),
        ("foo://x/y", "Unrecognized filesystem"),
        ("s3://", "a bucket and a folder"),
        ("/proc/nothing/here", "reachable and writable"),
    ],
)
def test_a_place_where_nothing_can_be_is_refused_in_one_line(where, reason):
    caught = refused("store = ", lambda: Store(where).write("a", b"1"))
    assert reason in str(caught) and "\n" not in str(caught)


def test_a_file_is_whole_whenever_its_writer_is_killed(tmp_path):
    script = (
        "import sys, itertools; from asyncsim.base.store import Store\n"
        f"store = Store({str(tmp_path)!r}); print('on', flush=True)\n"
        "for k in itertools.count(): store.write('units/a', bytes([k % 251]) * 200_000)\n"
    )
    for wait in (0.01, 0.05, 0.11):
        writer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(wait)
        writer.kill()
        writer.wait()
        store = Store(tmp_path)
        for name in store.names():
            data = store.read(name)
            assert len(data) == 200_000 and len(set(data)) == 1


cells = st.one_of(st.floats(allow_nan=True, width=64), st.just(-0.0))


@given(st.lists(cells, min_size=1, max_size=6), st.data())
def test_the_digest_of_rows_is_that_of_their_bits(values, data):
    table = pa.table({"a": np.array(values), "name": ["x"] * len(values)})
    back = storing.unpack(storing.pack({"a": np.array(values), "name": ["x"] * len(values)}, {}), "t")[0]
    assert storing.content(back) == storing.content(table)
    changed = np.array(values)
    k = data.draw(st.integers(0, len(values) - 1))
    changed.view(np.uint64)[k] ^= np.uint64(1 << data.draw(st.integers(0, 63)))
    assert storing.content(pa.table({"a": changed, "name": ["x"] * len(values)})) != storing.content(table)
    assert storing.content(pa.table({"b": np.array(values), "name": ["x"] * len(values)})) != storing.content(table)
    assert storing.content(pa.table({"a": np.array(values), "name": ["y"] * len(values)})) != storing.content(table)


def test_a_damaged_file_is_refused_by_name():
    data = storing.pack({"a": [1.0, 2.0]}, {"format": 1})
    for broken in (b"", data[:-5], data[: len(data) // 2], b"PAR1" + data[10:]):
        refused("part-0 ", storing.unpack, broken, "part-0 ")
    assert storing.unpack(data, "part-0")[1] == {"format": 1}


def test_a_file_that_declares_more_than_memory_is_refused(monkeypatch):
    monkeypatch.setenv("ASYNCSIM_READ_LIMIT", "10KiB")
    refused("ASYNCSIM_READ_LIMIT", lambda: storing.unpack(storing.pack({"a": np.zeros(100_000)}), "part"))
