"""Compiled code is kept where that is possible; where it is not, a program goes on and says so in one line."""

import ctypes
import os
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asyncsim.base import compiling

ROOT = Path(__file__).resolve().parents[2]
ADDS = """
import numpy as np
from asyncsim.policies._kernels import scatter
table = np.zeros(3)
scatter(np.array([1.0, 2.0]), np.array([0, 2]), table)
print(table.tolist(), sum(scatter.stats.cache_hits.values()))
"""
MADE, READ = "[1.0, 0.0, 2.0] 0\n", "[1.0, 0.0, 2.0] 1\n"
"""What is printed where the code was compiled, and where it was there already."""


def adds(cache=None, code=ADDS, limit=None, source=ROOT, **environment):
    """A program that adds numbers with compiled code; root may not write where permissions forbid it."""

    def prepare():
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # CAP_DAC_OVERRIDE leaves the bounding set, where it can be left
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    variables = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    variables |= {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    if cache:
        variables["NUMBA_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=variables,
        cwd=source,
        preexec_fn=prepare,
    )
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with the kept code of one function."""
    folder = tmp_path_factory.mktemp("kept")
    assert adds(folder) == (MADE, "")
    return folder


def copied(kept, folder):
    """A copy of the kept code, and its index and code files."""
    shutil.copytree(kept, folder)
    return [next(folder.rglob(f"*scatter*-kept*{kind}")) for kind in (".nbi", ".nbc")]


def test_code_is_kept_and_read(kept):
    assert adds(kept) == (READ, "")


AT_ONCE = """
import os, pathlib, time
here = pathlib.Path({!r})
(here / str(os.getpid())).touch()
while len(list(here.iterdir())) < 2:
    time.sleep(0.001)
table ="""


def test_processes_that_start_together_compile_once(tmp_path):
    """Without turns both compile: half a minute of the event kernel on every core."""
    (tmp_path / "here").mkdir()
    code = ADDS.replace("\ntable =", AT_ONCE.format(str(tmp_path / "here")))
    with ThreadPoolExecutor(2) as both:
        found = [each.result() for each in [both.submit(adds, tmp_path / "kept", code) for _ in range(2)]]
    assert sorted(found) == [(MADE, ""), (READ, "")]


def test_who_never_compiles_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", 0.3)
    first, second = (compiling._Turn(tmp_path / "new" / "f.lock") for _ in range(2))
    assert first.take() and not first.take() and not second.take()
    first.give()
    assert second.take()
    assert not compiling._Turn(tmp_path / "new" / "f.lock" / "no folder").take()


def one_line(said, *words):
    assert said.startswith("asyncsim: ") and said.count("\n") == 1 and all(word in said for word in words), said


@pytest.mark.skipif(sys.platform != "linux", reason="root gives up its rights by a call of Linux")
def test_no_folder_can_be_written(tmp_path):
    source, home = tmp_path / "source", tmp_path / "home"
    shutil.copytree(ROOT / "asyncsim", source / "asyncsim", ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()
    folders = [home, *(path for path in source.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    try:
        found, said = adds(source=source, HOME=str(home))
    finally:
        for path in folders:
            path.chmod(0o755)
    assert found == MADE
    one_line(said, "no folder for it is writable", "NUMBA_CACHE_DIR")


def test_the_disk_is_full(tmp_path):
    found, said = adds(tmp_path, limit=4096)
    assert found == MADE
    one_line(said, "is not kept", "File too large", "NUMBA_CACHE_DIR")
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]
    assert adds(tmp_path) == (MADE, "")


def cut(data):
    return data[: len(data) // 2]


def flipped(data):
    return data[:-300] + bytes([data[-300] ^ 4]) + data[-299:]


@pytest.mark.parametrize(("which", "damage"), [(0, cut), (1, cut), (1, flipped)])
def test_a_damaged_file_is_made_anew(kept, tmp_path, which, damage):
    path = copied(kept, tmp_path / "copy")[which]
    path.write_bytes(damage(path.read_bytes()))
    found, said = adds(tmp_path / "copy")
    assert found == MADE
    one_line(said, "damaged", "compiled anew", str(tmp_path / "copy"))
    assert adds(tmp_path / "copy") == (READ, "")


FLIPS = """
import pathlib
import numpy as np
from asyncsim.base import compiling
from asyncsim.policies._kernels import scatter
store = scatter._cache._cache_file
index = pathlib.Path(store._index_path)
code = next(index.parent.glob("*scatter*-kept*.nbc"))
key = next(iter(store._load_index()))
assert store.load(key) is not None
found = changed = 0
for path in (index, code):
    data = path.read_bytes()
    for place in range(0, len(data), 61):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1:])
        changed += 1
        try:
            store.load(key)
        except ValueError as error:
            found += "is damaged" in str(error)
        else:
            print("missed", path, place)
    path.write_bytes(data)
    for other in (b"", data + b"x", b"not a pickle" * 40, data[:-16], data[:3]):
        path.write_bytes(other)
        again = compiling.kept()(scatter.py_func)
        again(np.ones(1), np.array([0]), np.zeros(1))
        found += sum(again.stats.cache_misses.values()) == 1
        changed += 1
    again = compiling.kept()(scatter.py_func)
    again(np.ones(1), np.array([0]), np.zeros(1))
    found += 1000 * sum(again.stats.cache_hits.values())
print(found - changed, changed > 100)
"""


def test_no_flipped_bit_runs(kept, tmp_path):
    """Machine code is not to be run where a bit of it differs; nothing in a pickle would notice."""
    copied(kept, tmp_path / "copy")
    found, said = adds(tmp_path / "copy", FLIPS)
    assert found == "2000 True\n", found
    one_line(said, "damaged")


def test_nobody_keeps_code_in_another_way():
    sources = [path for path in (ROOT / "asyncsim").rglob("*.py") if path.name != "compiling.py"]
    assert len(sources) > 100
    assert not [path.name for path in sources if "cache=True" in path.read_text(encoding="utf-8")]


RUN = """
import asyncsim as sim
sim.systems.synchronous().summary(3)
parts = sim.methods.reinforce(), sim.chain(sim.updates.sgd(0.1))
sim.run(sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(1), *parts, updates=2), progress=False)
print("done")
"""


@pytest.mark.long
@pytest.mark.parametrize("trouble", ["full", "damaged"])
def test_the_event_kernel_and_a_run(tmp_path, trouble):
    """All compiled functions of a run at once say one line together."""
    if trouble == "damaged":
        assert adds(tmp_path, RUN) == ("done\n", "")
        for path in [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]:
            path.write_bytes(path.read_bytes()[:100])
    found, said = adds(tmp_path, RUN, limit=4096 if trouble == "full" else None)
    assert found == "done\n"
    one_line(said, "is not kept" if trouble == "full" else "damaged")
