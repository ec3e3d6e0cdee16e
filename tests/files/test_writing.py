"""Where files go: whole or not at all, through devices, pipes and links, and with nothing left behind."""

import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import files
from tests.refusals import refused

SAVED = sim.schedules.fixed(0).schedule(4, 2, 1, 1, 0)


def put(path, data=b"new"):
    files.write_atomically(path, lambda file: file.write(data))


def run(code, *arguments, **options):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output="stdout" not in options, text=True, timeout=60, **options)


@pytest.fixture
def device(tmp_path):
    """A device that a mistake may destroy: one of our own where we may make it, else one that nobody can replace."""

    def made(name, minor):
        with suppress(PermissionError):
            os.mknod(tmp_path / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
            with suppress(PermissionError), open(tmp_path / name, "wb"):
                return tmp_path / name
        if os.access("/dev", os.W_OK):
            pytest.skip("whoever runs this could replace a device of the machine and can make no other")
        return f"/dev/{name}"

    return made


def test_a_device_stays_a_device(device):
    null = device("null", 3)
    before = os.stat(null)
    SAVED.save(null)
    after = os.stat(null)
    assert stat.S_ISCHR(after.st_mode) and (after.st_ino, after.st_rdev) == (before.st_ino, before.st_rdev)


def test_a_pipe_gets_the_whole_file_and_stays_a_pipe(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    SAVED.save(pipe)
    reader.join(10)
    (tmp_path / "copy.npz").write_bytes(found[0])
    assert np.array_equal(sim.Schedule.load(tmp_path / "copy.npz").version, SAVED.version)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode) and sorted(os.listdir(tmp_path)) == ["copy.npz", "pipe"]


def test_nothing_half_made_goes_into_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    handle = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)

    def fail(file):
        file.write(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        files.write_atomically(pipe, fail)
    with pytest.raises(BlockingIOError):
        os.read(handle, 9)
    os.close(handle)


@pytest.mark.parametrize("target", ["file", "deep/file"])
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path, target, there):
    (tmp_path / "a").mkdir()
    (tmp_path / "b" / target).parent.mkdir(parents=True)
    link, end = tmp_path / "a" / "link", tmp_path / "b" / target
    link.symlink_to(f"../b/{target}")
    if there:
        end.write_bytes(b"old")
    put(link)
    assert link.is_symlink() and os.readlink(link) == f"../b/{target}"
    assert end.read_bytes() == b"new" and not end.is_symlink()
    assert os.listdir(tmp_path / "a") == ["link"] and os.listdir(end.parent) == ["file"]


def test_a_link_to_itself_is_refused_by_name(tmp_path):
    (tmp_path / "link").symlink_to("link")
    refused("link", put, tmp_path / "link")


def test_a_read_only_file_is_refused_by_name(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        refused("writable, not read-only", SAVED.save, tmp_path / name)
    assert path.read_bytes() == b"old" and stat.S_IMODE(path.stat().st_mode) == 0o444


def test_the_permissions_of_a_file_stay_and_new_ones_are_the_usual(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "old").chmod(0o640)
    before = os.umask(0o027)
    try:
        put(tmp_path / "old")
        put(tmp_path / "new")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("old", "new")] == [0o640, 0o640]
    assert (tmp_path / "old").read_bytes() == b"new"


def test_a_name_may_be_as_long_as_the_file_system_lets_it(tmp_path):
    path = tmp_path / (250 * "x")
    put(path)
    assert path.read_bytes() == b"new"


PRINTS = """
import sys
from asyncsim.base import files
print("before")
files.write_atomically(sys.argv[1], lambda file: file.write(b"file\\n"))
print("after")
"""


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_gets_the_file_between_what_is_printed(path):
    assert run(PRINTS, path).stdout == "before\nfile\nafter\n"


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_file_that_standard_output_goes_to_loses_nothing(tmp_path, mode, named):
    path = tmp_path / "out"
    with open(path, mode) as out:
        run(PRINTS, path if named else "/dev/stdout", stdout=out)
    assert path.read_text() == "before\nfile\nafter\n" and os.listdir(tmp_path) == ["out"]


def test_a_full_device_is_one_line(device):
    full = device("full", 7)
    refused("No space left on device", put, full)
    assert stat.S_ISCHR(os.stat(full).st_mode)


WAITS = """
import sys, time
from asyncsim.base import files
if sys.argv[2] == "named":
    files._open_nameless = lambda folder: None
def write(file):
    file.write(b"half")
    print("ready", flush=True)
    time.sleep(60)
files.write_atomically(sys.argv[1], write)
"""


@pytest.mark.parametrize("kind", ["nameless", "named"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_process_that_is_ended_leaves_nothing_behind(tmp_path, number, kind):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    command = [sys.executable, "-c", WAITS, str(path), kind]
    # Nobody can catch the last one: only a file that has no name yet is gone with its process.
    number = signal.SIGKILL if number == signal.SIGHUP and kind == "nameless" else number
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        assert len(os.listdir(tmp_path)) == (2 if kind == "named" else 1)
        process.send_signal(number)
        assert process.wait(20) == -number
    assert os.listdir(tmp_path) == ["file"] and path.read_bytes() == b"old"


CONVERTS = """
import pathlib, sys, time
from asyncsim.base import files
fresh = pathlib.Path(sys.argv[1])
with files.cleared(fresh):
    (fresh / "weights").mkdir(parents=True)
    (fresh / "weights" / "half").write_bytes(b"half")
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_folder_that_is_half_made_goes_with_its_process(tmp_path, number):
    with subprocess.Popen(
        [sys.executable, "-c", CONVERTS, str(tmp_path / "fresh")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(20) == -number
    assert os.listdir(tmp_path) == []


def test_a_handler_of_somebody_else_stays(tmp_path):
    def mine(number, frame):
        raise AssertionError

    seen, before = [], signal.signal(signal.SIGTERM, mine)
    try:
        files.write_atomically(tmp_path / "file", lambda file: seen.append(signal.getsignal(signal.SIGTERM)))
        assert seen == [mine] and signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("nameless", [True, False])
def test_the_default_of_signals_stays(tmp_path, monkeypatch, nameless):
    seen = []
    if not nameless:
        monkeypatch.setattr(files, "_open_nameless", lambda folder: None)
    before = signal.getsignal(signal.SIGTERM)
    assert before is signal.SIG_DFL
    files.write_atomically(tmp_path / "file", lambda file: seen.append(signal.getsignal(signal.SIGTERM)))
    assert signal.getsignal(signal.SIGTERM) is before and seen[0] is not before
    thread = threading.Thread(target=put, args=[tmp_path / "other"])
    thread.start()
    thread.join(10)
    assert (tmp_path / "other").read_bytes() == b"new"


def test_the_root_is_no_file():
    refused("a file, not a folder", files.writable, "--trace", "/")


@pytest.mark.parametrize("name", ["folder", "folder/", "file/below", "nul\0byte", ""])
def test_what_is_no_file_is_refused_by_name(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    for ask in (put, lambda path: files.writable("--json", path)):
        refused("", ask, f"{tmp_path}/{name}")
    assert (tmp_path / "file").read_bytes() == b"old"
