"""`asyncsim run` with checkpoints and logs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import asyncsim as sim
from tests.cli.test_cli import call
from tests.forked import Forked

WORDS = "run --task token-bandit --method grpo --link adam --set adam.lr=0.05 --staleness 2 --replicates 4"


def test_a_killed_command_goes_on_from_its_checkpoint_alone(tmp_path: Path) -> None:
    checkpoint, words = tmp_path / "c.npz", [*WORDS.split(), "--updates", "2000", "--seed", "5"]
    command = [sys.executable, "-m", "asyncsim", *words, "--checkpoint", str(checkpoint), "--checkpoint-every", "0.2"]
    process = Forked(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end, first = time.monotonic() + 120, None
        while time.monotonic() < end and process.poll() is None:
            if checkpoint.exists():
                first = first or checkpoint.stat().st_mtime_ns
                if checkpoint.stat().st_mtime_ns != first:
                    break
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL, "it was over before it could be killed"
    resumed = call("run", "--resume", checkpoint, "--save", tmp_path / "resumed.npz")
    assert resumed.exit_code == 0, resumed.stderr
    again = call("run", "--resume", checkpoint, *words[1:], "--save", tmp_path / "again.npz")
    whole = call(*words, "--save", tmp_path / "whole.npz")
    assert whole.exit_code == again.exit_code == 0
    texts = [each.output.partition("\ntrace: ")[0] for each in (resumed, whole, again)]
    assert texts[0] == texts[1] == texts[2]
    traces = [sim.Trace.load(tmp_path / f"{name}.npz") for name in ("whole", "resumed", "again")]
    assert traces[0] == traces[1] == traces[2]


def test_a_checkpoint_of_something_else_is_refused_in_one_line(tmp_path: Path) -> None:
    checkpoint = tmp_path / "c.npz"
    assert call(WORDS, "--updates", "4", "--checkpoint", checkpoint).exit_code == 0
    for words, said in (
        ([WORDS, "--updates", "8", "--resume", checkpoint], "spec.updates = 8: must be 4"),
        (
            ["run", "--updates", "8", "--resume", checkpoint],
            f"spec.updates = 8: must be 4, as in {checkpoint}; a run ends",
        ),
        ([WORDS, "--set", "task.actions=9", "--resume", checkpoint], "spec.updates = 200: must be 4"),
        (["run", "--method", "cispo", "--resume", checkpoint], "(other values too: method, "),
        (["run", "--seed", "1", "--resume", checkpoint], "seed = 1: must be 0"),
        ([WORDS, "--checkpoint", checkpoint], "must be a new file"),
        (["run", "--resume", tmp_path / "absent.npz"], "must be an existing file"),
    ):
        result = call(*words)
        assert result.exit_code == 2 and said in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    checkpoint = tmp_path / "c.npz"
    command = [sys.executable, "-m", "asyncsim", *WORDS.split(), "--updates", "100000", "--checkpoint", str(checkpoint)]
    process = Forked(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130 and f"go on with asyncsim run --resume {checkpoint}; " in said
    from asyncsim.running.checkpoint import read

    assert read(checkpoint).standing["batch"] > 0  # type: ignore[index]


def test_a_log_is_written_beside(tmp_path: Path) -> None:
    result = call(WORDS, "--updates", "4", "--log", "live:ess")
    assert result.exit_code == 0 and "asyncsim: update 4 of 4, ess " in result.stderr
    assert call(WORDS, "--updates", "4").output == result.output
    refused = call(WORDS, "--updates", "4", "--log", "somewhere")
    assert refused.exit_code == 2 and "tensorboard:FOLDER" in refused.stderr
