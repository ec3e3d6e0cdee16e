"""What the memory guard knows of a machine, its control groups and the wishes of who runs it."""

import resource
import subprocess
import sys

import pytest

import asyncsim as sim
from asyncsim.base import checks, memory
from tests.refusals import refused

GIB = 1 << 30


def machine(folder, available=None, groups="", **tables):
    """A root folder with what Linux says of memory: tables are files of control groups by their path."""
    lines = {"proc/self/cgroup": groups, **tables}
    if available is not None:
        lines["proc/meminfo"] = f"MemTotal: {available >> 9} kB\nMemAvailable:    {available >> 10} kB\nBuffers: 1 kB\n"
    for name, text in lines.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    return folder


TWO, ONE = "sys/fs/cgroup/", "sys/fs/cgroup/memory/"
STAT = "anon 5\ninactive_file 1000\ntotal_inactive_file 3000\n"
CASES = {
    "no group": ({}, 8 * GIB, "machine"),
    "second version": (
        {"groups": "0::/a/b\n", TWO + "a/b/memory.max": 3 * GIB, TWO + "a/b/memory.current": GIB},
        2 * GIB,
        "group",
    ),
    "second version, group above": (
        {
            "groups": "0::/a/b\n",
            TWO + "a/b/memory.max": "max",
            TWO + "a/b/memory.current": GIB,
            TWO + "a/memory.max": 4 * GIB,
            TWO + "a/memory.current": GIB,
        },
        3 * GIB,
        "group",
    ),
    "second version, caches give way": (
        {"groups": "0::/a\n", TWO + "a/memory.max": 2000, TWO + "a/memory.current": 1500, TWO + "a/memory.stat": STAT},
        1500,
        "group",
    ),
    "second version, no limit": (
        {"groups": "0::/a\n", TWO + "a/memory.max": "max", TWO + "a/memory.current": GIB},
        8 * GIB,
        "machine",
    ),
    "inside a container": (
        {"groups": "0::/host/path\n", TWO + "memory.max": GIB, TWO + "memory.current": 0},
        GIB,
        "group",
    ),
    "full": ({"groups": "0::/a\n", TWO + "a/memory.max": 5, TWO + "a/memory.current": 9}, 0, "group"),
    "first version": (
        {
            "groups": "9:cpu:/x\n4:blkio,memory:/a\n",
            ONE + "a/memory.limit_in_bytes": 9000,
            ONE + "a/memory.usage_in_bytes": 5000,
            ONE + "a/memory.stat": STAT,
        },
        7000,
        "group",
    ),
    "first version, no limit": (
        {
            "groups": "4:memory:/a\n",
            ONE + "a/memory.limit_in_bytes": 9223372036854771712,
            ONE + "a/memory.usage_in_bytes": 5000,
        },
        8 * GIB,
        "machine",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_free_is_the_least_of_what_machine_and_groups_leave(tmp_path, case):
    tables, size, whose = CASES[case]
    found = memory.free(machine(tmp_path, 8 * GIB, **tables))
    assert found.size == size and whose in found.whose


def test_a_machine_without_proc_says_how_much_it_has(tmp_path, monkeypatch):
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}
    monkeypatch.setattr(memory.os, "sysconf", pages.__getitem__)
    assert memory.free(tmp_path) == (4096 * 1000, "the memory of this machine")

    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr(memory.os, "sysconf", unknown)
    assert memory.free(tmp_path).size == 16 * GIB and "assumed" in memory.free(tmp_path).whose


def test_the_limit_of_the_process_counts():
    code = "from asyncsim.base import memory; print(*memory.free())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 * GIB, 4 * GIB)),
    )
    size, whose = done.stdout.split(maxsplit=1)
    assert 3 * GIB < int(size) < 4 * GIB and "ulimit -v" in whose


def spec():
    """Some 27 GB of metrics."""
    sizes = {"updates": 10**6, "replicates": 256, "samples_per_group": 2}
    return sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.reinforce(), sim.chain(), **sizes)


def test_a_run_is_refused_by_what_the_machine_has(monkeypatch):
    monkeypatch.delenv("ASYNCSIM_MEMORY", raising=False)
    monkeypatch.setattr(checks, "free", lambda: memory.Free(8 * GIB, "left in this control group"))
    caught = refused("", spec)
    assert caught.field == "bytes of metrics [U/every, R]" and caught.value > 8 * GIB
    assert "8.0 GiB, left in this control group" in caught.bound and "ASYNCSIM_MEMORY" in caught.remedy
    monkeypatch.setattr(checks, "free", lambda: memory.Free(800 * GIB, "free on this machine"))
    assert spec().updates == 10**6


@pytest.mark.parametrize("text", ["900GiB", "900G", "900 gb", str(900 * GIB), "0.9T"])
def test_who_runs_it_may_know_better(monkeypatch, text):
    monkeypatch.setattr(checks, "free", lambda: memory.Free(GIB, "free on this machine"))
    monkeypatch.setenv("ASYNCSIM_MEMORY", text)
    assert spec().updates == 10**6
    monkeypatch.setenv("ASYNCSIM_MEMORY", "1G")
    refused("ASYNCSIM_MEMORY says", spec)


@pytest.mark.parametrize("text", ["much", "-1G", "1e9", "4X", "inf", "G", "٣G"])
def test_a_size_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("ASYNCSIM_MEMORY", text)
    caught = refused("", spec)
    assert caught.field == "ASYNCSIM_MEMORY" and caught.value == text


def test_a_small_run_does_not_look_at_what_is_free_but_obeys_the_variable(monkeypatch):
    def look():
        raise AssertionError("looked")

    monkeypatch.setattr(checks, "free", look)
    monkeypatch.delenv(checks.MEMORY, raising=False)
    checks.memory({"events": (checks.FEW, "batches")})
    with pytest.raises(AssertionError, match="looked"):
        checks.memory({"events": (checks.FEW + 1, "batches")})
    monkeypatch.setenv(checks.MEMORY, "1M")
    refused("bytes of events", checks.memory, {"events": (checks.FEW, "batches")})
