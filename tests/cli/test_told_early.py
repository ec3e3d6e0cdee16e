"""Grids, files and memory are refused before the first update, each in one line of field, value, bound and remedy."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from asyncsim.app.cli import app
from asyncsim.running import running

SMALL = "--updates 3 --replicates 4"
NO, PATH, STORE = "/proc/nobody", "choose another path", "choose another store"
REFUSED = {
    "third setting": (
        "sweep --grid staleness=0,4,-1 --set updates=3",
        "staleness at staleness=-1 = -1: must be an integer >= 0",
        "give a number of versions",
    ),
    "last knob": ("sweep --grid lr=0.1,0.2,-1 --set updates=3", "lr = -1.0: must be", "non-negative learning rate"),
    "misspelt part": (
        "sweep --grid method=grpo,reinforce,nobody --set updates=3",
        "method at method=nobody = 'nobody': must be one of",
        "list methods",
    ),
    "memory of the last setting": (
        "sweep --grid staleness=0,4 --grid updates=10,1000000 --replicates 1000",
        "bytes of metrics [U/every, R] at staleness=0, updates=1000000",
        "lower updates = 1000000",
    ),
    "store": (f"sweep --grid staleness=0 --set updates=3 --store {NO}", f"store = '{NO}'", STORE),
    "memory": (f"run {SMALL} --updates 100000000", "bytes of metrics [U/every, R] = ", "lower updates = 100000000"),
    "trace": (f"run {SMALL} --save {NO}.npz", f"--save = '{NO}.npz'", PATH),
    "json": (f"run {SMALL} --json {NO}/r.json", f"--json = '{NO}/r.json'", PATH),
    "no folder": (f"run {SMALL} --json plain/r.json", "--json = 'plain/r.json'", "another folder"),
    "ending": (f"run {SMALL} --plot a.gif", "path = 'a.gif': must be a path ending", "choose one"),
    "live log": (f"run {SMALL} --log tensorboard:{NO}", f"folder = '{NO}/events'", PATH),
    "results there": (f"run {SMALL} --checkpoint plain", "checkpoint = 'plain': must be a new file", "--resume plain"),
    "lengths": (
        f"run {SMALL} --system areal --set system.max_head_offpolicyness=2 --set system.consumer_batch_size=4 "
        "--set system.load=1 --set system.length=@nobody.csv:tokens",
        "nobody.csv",
        "",
    ),
}  # fmt: skip


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that nobody may write to")
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_before_the_first_update(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    def train(*arguments: Any) -> None:
        raise AssertionError("an update was made")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASYNCSIM_MEMORY", "1GiB")
    Path("plain").write_text("not ours")
    monkeypatch.setattr(running.Training, "run", train)
    command, line, remedy = REFUSED[name]
    done = CliRunner().invoke(app, shlex.split(command))
    assert done.exit_code == 2 and line in done.stderr and remedy in done.stderr, done.output
    assert Path("plain").read_text() == "not ours" and "Traceback" not in done.output


def test_what_fits_is_trained(tmp_path: Path, monkeypatch: Any) -> None:
    """The planted defect of the others: a check that refuses everything."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, shlex.split(f"run {SMALL} --json new/r.json --save new/t.npz"))
    assert done.exit_code == 0 and sorted(path.name for path in Path("new").iterdir()) == ["r.json", "t.npz"]
