"""How far long work has come, where no terminal shows a bar; and when compiling is what it waits for."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

import asyncsim as sim
from asyncsim.app import streams
from asyncsim.base import progress
from tests.cli.test_cli import call
from tests.core import runs


def spec() -> sim.Spec:
    return runs.spec(system=sim.schedules.fixed(0), update=sim.chain(), block=2, samples_per_group=2)


def test_a_long_run_says_every_so_often_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 10**6, 6))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.Progress("updates", 20) as shown:
        for _ in range(20):
            shown.add()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "asyncsim: 25% of the updates after 36 s, about 108 s more" and 3 <= len(lines) <= 4


def test_a_short_run_says_nothing_and_nobody_hears_what_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sim.run(spec())
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    sim.run(spec(), progress=False)
    assert capsys.readouterr().err == ""
    sim.run(spec())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 16 and lines[-1].startswith("asyncsim: 100% of the updates")


def test_a_comparison_says_what_is_under_way_before_its_first_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A round of a language model takes minutes, in which no replicate is done."""
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    monkeypatch.setattr(progress, "SOON", 0.0)
    arms = [spec().replace(system=sim.schedules.fixed(age), block=None) for age in (0, 1)]
    sim.compare(*arms, smallest=0.5, metric="batch_return", tune=None, max_replicates=64, workers=1)
    lines = capsys.readouterr().err.splitlines()
    said = [line.split(",")[0] for line in lines if "updates under way" in line]
    assert said[0] == "asyncsim: pilot" and said[-1] == "asyncsim: comparing"
    assert any(line.startswith("asyncsim: 0% of the replicates") and "shorten it" in line for line in lines)
    assert len(said) == 4 * spec().updates, "one for every update of every training"
    sim.compare(*arms, smallest=0.5, metric="batch_return", tune=None, max_replicates=64, workers=1, progress=False)
    assert capsys.readouterr().err == ""


def kernel(name: str) -> object:
    """A function to compile that says it stands in the given module."""
    import numba

    module = ModuleType(name)
    exec("def double(x):\n    return 2 * x", vars(module))
    function = vars(module)["double"]
    function.__module__ = name
    return numba.njit(function)


def test_compiling_is_said_when_the_kernel_compiles_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    function = kernel(streams.KERNEL)
    streams._compiling.cache_clear()
    with streams.announced(), streams.announced():  # a command inside a command says it once
        assert function(2) == 4 and function(2.0) == 4.0  # type: ignore[operator]
        assert capsys.readouterr().err == f"asyncsim: {streams.LINE}\n"
        assert function(3) == 6  # type: ignore[operator]
    with streams.announced():
        assert function(4) == 8 and kernel("somewhere.else")(2) == 4  # type: ignore[operator]
    assert capsys.readouterr().err == ""


def test_the_name_of_the_kernel_is_right() -> None:
    from asyncsim.systems import _kernel

    assert _kernel.advance_plain_at.py_func.__module__ == _kernel.advance_at.py_func.__module__ == streams.KERNEL


def test_a_kernel_at_hand_is_not_announced_however_slow_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    from asyncsim.systems._system import System

    plain = System.summary

    def slowly(self: System, *given: object, **named: object) -> object:
        time.sleep(2.2)
        return plain(self, *given, **named)  # type: ignore[arg-type]

    call("timeline", "synchronous", "--updates", "4")  # compiles here, if that has not been done
    monkeypatch.setattr(System, "summary", slowly)
    assert call("timeline", "synchronous", "--updates", "4").stderr == ""


@pytest.mark.long
def test_an_empty_cache_is_announced_by_the_installed_command(tmp_path: Path) -> None:
    script = Path(sys.executable).parent / "asyncsim"
    words = [str(script), "timeline", "synchronous", "--updates", "4"]
    said = []
    for _ in range(2):
        variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(words, capture_output=True, text=True, env=variables, timeout=600, check=True)
        said.append(done.stderr)
    assert said == [f"asyncsim: {streams.LINE}\n", ""]


def test_a_terminal_is_told_that_libraries_load_and_nobody_else_is() -> None:
    """On a terminal the line comes first and is emptied behind the import; a pipe sees nothing, and loads nothing."""
    code = (
        "import sys; from asyncsim.app import streams; streams.load(); print('torch' in sys.modules, file=sys.stderr)"
    )
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert piped.stderr == "False\n"
    inside, outside = os.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stderr=outside) as process:
        os.close(outside)
        shown = b""
        with suppress(OSError):  # the end of a terminal
            while part := os.read(inside, 1024):
                shown += part
    os.close(inside)
    assert process.returncode == 0
    assert shown == b"loading torch and numba ...\r\x1b[KTrue\r\n"
