"""What a reader that goes away, a full disk or a signal leaves of a command: its files, one line, and a status.

Commands are the installed script in processes of their own: streams, signals and exit statuses are those of a shell.
"""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import asyncsim as sim
from asyncsim.app import cli, streams
from asyncsim.base import checks, progress
from tests.cli.test_cli import call

SCRIPT = str(Path(sys.executable).parent / "asyncsim")
SMALL = ["run", "--updates", "6", "--replicates", "4"]
FULL = Path("/dev/full")


def outputs(folder: Path, **endings: str) -> tuple[list[str], list[Path]]:
    """Words that ask for outputs, and their paths."""
    paths = [folder / f"out.{ending}" for ending in endings.values()]
    return [w for name, path in zip(endings, paths, strict=True) for w in (f"--{name}", str(path))], paths


def unread(words: list[str], **variables: str) -> tuple[int, str]:
    """Status and stderr of a command whose stdout is a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [SCRIPT, *words], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=300, env={**os.environ, **variables}
    )
    os.close(writer)
    return done.returncode, done.stderr


def said(text: str) -> list[str]:
    """Lines on stderr but those of progress."""
    return [line for line in text.splitlines() if " of 1: " not in line]


def test_a_pipe_that_nobody_reads_loses_no_verdict(tmp_path: Path) -> None:
    words, (table, report) = outputs(tmp_path, json="json", report="html")
    status, text = unread(["verify", "ess/clamp-floor", *words])
    assert status == streams.READ and said(text) == []
    assert json.loads(table.read_text())["claims"][0]["verdict"] == "held"
    assert "ess/clamp-floor" in report.read_text()


@pytest.mark.long
def test_training_goes_on_where_the_header_finds_no_reader(tmp_path: Path) -> None:
    words, (trace, table) = outputs(tmp_path, save="npz", json="json")
    status, text = unread([*SMALL, *words], PYTHONUNBUFFERED="1")
    assert status == streams.READ and said(text) == []
    assert sim.Trace.load(trace).partial is None and json.loads(table.read_text())["final"]["ess"]["value"] == 1.0


@pytest.mark.parametrize("lines", [0, 1, 3])
def test_training_goes_on_behind_a_line_that_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lines: int
) -> None:
    words, (trace, table) = outputs(tmp_path, save="npz", json="json")
    monkeypatch.setattr(sys, "stdout", Broken(BrokenPipeError(32, "Broken pipe"), after=lines))
    with pytest.raises(SystemExit) as end:
        cli.main([*SMALL, *words])
    assert end.value.code == streams.READ and said(capsys.readouterr().err) == []
    assert sim.Trace.load(trace).partial is None and json.loads(table.read_text())["final"]["ess"]["value"] == 1.0


@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
def test_a_full_stdout_is_one_line() -> None:
    with FULL.open("w") as full:
        done = subprocess.run([SCRIPT, "list", "tasks"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        both = subprocess.run([SCRIPT, "list", "tasks"], stdout=full, stderr=full, timeout=60)
    (line,) = said(done.stderr)
    assert done.returncode == both.returncode == streams.UNREAD and "No space left on device" in line


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_streams_closed_by_the_shell_are_no_files(tmp_path: Path, closed: str) -> None:
    path = tmp_path / "tasks.json"
    command = ["sh", "-c", f'"{SCRIPT}" list tasks --json "{path}" {closed}']
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == streams.UNREAD and not done.stdout
    assert len(said(done.stderr)) == ("2>" not in closed)
    assert json.loads(path.read_text())  # and nothing that was printed stands in it


STOPPING = """
import os, signal, sys, threading, time

def install():
    from asyncsim.base.progress import Progress
    plain = Progress.add
    def add(self, steps=1):
        plain(self, steps)
        if self.done == 20:
            os.kill(os.getpid(), signal.{name})
    Progress.add = add

class Finder:
    # Begins to watch when the command imports what trains: the signal comes in the middle of a run.
    def find_spec(self, name, path=None, target=None):
        if name == "asyncsim.running.loop":
            sys.meta_path.remove(self)
            install()

sys.meta_path.insert(0, Finder())
"""


OTHERS = [("SIGINT", 130, "Ctrl-C"), ("SIGTERM", 143, "SIGTERM")]


@pytest.mark.parametrize(
    ("name", "status", "cause"),
    [("SIGHUP", 129, "SIGHUP"), *(pytest.param(*each, marks=pytest.mark.long) for each in OTHERS)],
)
def test_a_signal_leaves_every_output_and_one_line(tmp_path: Path, name: str, status: int, cause: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(STOPPING.format(name=name))
    words, (trace, table, plot) = outputs(tmp_path, save="npz", json="json", plot="png")
    done = subprocess.run(
        [SCRIPT, "run", "--updates", "5000", "--replicates", "2", "--diagnostics", "ess", *words],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    (line,) = said(done.stderr)
    assert done.returncode == status, done.stderr
    assert line.startswith(f"asyncsim: stopped by {cause} after 20 of 5000 updates") and "start it again" in line
    found = sim.Trace.load(trace)
    assert found.partial is not None and found.partial["updates"] == 20 and found["ess"].shape == (20, 2)
    assert json.loads(table.read_text())["partial"] == found.partial and plot.stat().st_size > 10_000
    assert "last tenth of 20 updates" in done.stdout
    assert {path.name for path in tmp_path.glob("*out*")} == {"out.npz", "out.json", "out.png"}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_amid_training_leaves_every_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int
) -> None:
    add = progress.Progress.add

    def stopping(self: progress.Progress, steps: int = 1) -> None:
        add(self, steps)
        if self.done == 3:
            signal.raise_signal(number)

    monkeypatch.setattr(progress.Progress, "add", stopping)
    words, (trace, table) = outputs(tmp_path, save="npz", json="json")
    before = signal.getsignal(number)
    result = call(*SMALL, *words)
    assert result.exit_code == status and result.stderr.count("\n") == 1 and "after 3 of 6 updates" in result.stderr
    partial = sim.Trace.load(trace).partial
    assert partial is not None and partial == json.loads(table.read_text())["partial"]
    assert signal.getsignal(number) == before


def test_a_signal_before_training_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsim.running import running

    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        monkeypatch.setattr(running, "run", lambda *given, number=number: signal.raise_signal(number))
        result = call(*SMALL)
        assert result.exit_code == status and result.stderr.count("\n") == 1 and "nothing" not in result.output


def test_a_signal_that_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under nohup."""
    from asyncsim.running import running

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        whole = running.run
        monkeypatch.setattr(running, "run", lambda *given, **more: (signal.raise_signal(1), whole(*given, **more))[1])
        assert call(*SMALL).exit_code == 0 and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_claims_that_were_reached_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsim.app import verifying

    whole = verifying.verify_one

    def one(name: str, *given: Any) -> Any:
        if name == "ess/limit":
            raise KeyboardInterrupt
        return whole(name, *given)

    monkeypatch.setattr(verifying, "verify_one", one)
    words, (table, report) = outputs(tmp_path, json="json", report="html")
    result = call("verify", "ess/clamp-floor", "ess/limit", *words)
    assert result.exit_code == 130 and "stopped by Ctrl-C after 1 of 2 claims" in result.stderr
    assert [row["id"] for row in json.loads(table.read_text())["claims"]] == ["ess/clamp-floor"] and report.exists()
    assert "1 of 1 claims held" in result.output


@pytest.mark.parametrize("broken", ["save", "json", "plot"])
def test_an_output_that_fails_loses_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    from asyncsim.base import files

    write = files.write_atomically

    def sometimes(path: Any, fill: Any) -> None:
        if Path(path).name == f"out.{broken}.{endings[broken]}":
            raise checks.InputError("path", str(path), "writable", "choose another path (No space left on device)")
        write(path, fill)

    endings = {"save": "npz", "json": "json", "plot": "png"}
    paths = {name: tmp_path / f"out.{name}.{ending}" for name, ending in endings.items()}
    words = [str(word) for name, path in paths.items() for word in (f"--{name}", path)]
    monkeypatch.setattr(files, "write_atomically", sometimes)
    result = call(*SMALL, *words)
    assert result.exit_code == streams.LOST and "diverged replicates" in result.output
    assert result.stderr.startswith(f"asyncsim: --{broken} = '{paths[broken]}': must be writable; choose another")
    assert result.stderr.count("\n") == 1
    assert {name for name, path in paths.items() if path.exists()} == set(paths) - {broken}


def test_every_reason_of_a_lost_output_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    files = streams.Files({"plot": Path("a.png"), "save": Path("a.npz"), "json": None})
    for error in (OSError(28, "No space left on device"), MemoryError(), ValueError("two\nlines")):

        def fail(path: Path, error: Exception = error) -> None:
            raise error

        assert not files.write("plot", fail)
    assert files.write("save", lambda path: None) and not files.write("json", fail)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(line.startswith("asyncsim: --plot = 'a.png': must be written (") for line in lines)
    assert files.status(1) == streams.LOST and streams.Files({}).status(1) == 1


class Broken(io.StringIO):
    """A stream that fails from a certain write on."""

    def __init__(self, error: Exception, after: int = 0) -> None:
        super().__init__()
        self.error, self.left = error, after

    def write(self, text: str) -> int:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return super().write(text)


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), ValueError("I/O operation on closed file")])
def test_a_stream_remembers_its_first_failure_and_goes_on(error: Exception) -> None:
    broken = Broken(error, after=2)
    stream = streams.Stream(broken)
    print("kept", file=stream)
    print("lost", file=stream)
    broken.error = OSError("later")
    print("lost", file=stream, flush=True)
    assert stream.failure is error and broken.getvalue() == "kept\n" and not stream.isatty()


def test_a_mistake_of_the_program_is_not_swallowed() -> None:
    with pytest.raises(TypeError):
        streams.Stream(io.StringIO()).write(b"bytes")  # type: ignore[arg-type]


def test_a_terminal_without_the_signs_of_a_page_gets_others() -> None:
    binary = io.BytesIO()
    stream = streams.Stream(io.TextIOWrapper(binary, encoding="ascii"))
    print("4 ± 1", file=stream, flush=True)
    assert binary.getvalue() == b"4 ? 1\n" and stream.failure is None


def test_a_verdict_outranks_a_reader_that_went_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for status, expected in ((0, streams.READ), (1, 1), (2, 2), (3, 3), (streams.LOST, streams.LOST)):
        monkeypatch.setattr(cli, "_status", lambda arguments, status=status: print("page") or status)
        monkeypatch.setattr(sys, "stdout", Broken(BrokenPipeError(32, "Broken pipe")))
        with pytest.raises(SystemExit) as end:
            cli.main([])
        assert end.value.code == expected
