"""The command line: what it prints, writes and answers to bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from asyncsim.cli import KINDS, app

RUNNER = CliRunner()
SMALL = ["--updates", "6", "--replicates", "4"]


def call(*arguments: object):
    return RUNNER.invoke(app, [str(a) for a in arguments])


def test_the_example_of_help_works(tmp_path: Path) -> None:
    text = call("--help").output
    example = " ".join(text.split("Example:")[1].split("Options")[0].split())
    words = example.split()[1 : example.split().index("out.png") + 1]
    assert words[:5] == ["run", "--task", "softmax-bandit", "--method", "grpo"]
    words[words.index("out.png")] = str(tmp_path / "out.png")
    result = call(*words, *SMALL)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out.png").stat().st_size > 10_000


@pytest.mark.parametrize("kind", KINDS)
def test_list_names_everything_with_a_summary(kind: str, tmp_path: Path) -> None:
    result = call("list", kind, "--json", tmp_path / "names.json")
    rows = json.loads((tmp_path / "names.json").read_text())
    assert result.exit_code == 0 and rows
    assert all(row["name"] in result.output and len(row["summary"]) > 10 for row in rows)


def test_run_writes_json_and_a_trace_that_loads(tmp_path: Path) -> None:
    import asyncsim as sim

    result = call(
        "run",
        "--task",
        "token-bandit",
        "--method",
        "truncated_is",
        "--set",
        "method.cap=4",
        "--link",
        "clip_norm",
        "--link",
        "adam",
        "--set",
        "adam.lr=0.01",
        "--schedule",
        "random",
        "--set",
        "schedule.law=[0.5, 0.5]",
        *SMALL,
        "--json",
        tmp_path / "run.json",
        "--save",
        tmp_path / "trace.npz",
    )
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "run.json").read_text())
    trace = sim.Trace.load(tmp_path / "trace.npz")
    assert found["final"]["ess"]["value"] == pytest.approx(trace.final("ess").value)
    assert found["spec"]["cap"] == 4.0 and found["manifest"]["seed"] == 0


def test_verify_writes_table_json_and_report(tmp_path: Path) -> None:
    report = tmp_path / "deep" / "report.html"
    result = call(
        "verify", "estimator/full-is", "ess/clamp-floor", "--defects", "--report", report, "--json", tmp_path / "v.json"
    )
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "v.json").read_text())
    for row in found["claims"]:
        wanted = {
            "id",
            "statement",
            "kind",
            "verdict",
            "predicted",
            "measured",
            "low",
            "high",
            "false_fail",
            "false_pass",
            "seconds",
            "defects",
        }
        assert wanted <= set(row) and row["verdict"] == "held"
        assert row["defects"] and all(d["verdict"] == "violated" for d in row["defects"])
        assert row["id"] in result.output and row["id"] in report.read_text()
    assert found["manifest"]["seed"] == 0


def test_verify_answers_at_another_point(tmp_path: Path) -> None:
    where = ["--report", tmp_path / "r.html"]
    assert call("verify", "ess/clamp-floor", "--at", "clamp=3.5", *where).exit_code == 0
    assert call("verify", "ess/clamp-floor", "--at", "clamp=0.5", *where).exit_code == 2


def test_timeline_prints_the_law_and_writes_json(tmp_path: Path) -> None:
    knobs = [
        "max_head_offpolicyness=4",
        "consumer_batch_size=8",
        "max_concurrent_rollouts=40",
        "length=lognormal:1.0:0.8",
        "load=1.5",
    ]
    result = call(
        "timeline",
        "areal",
        *(w for k in knobs for w in ("--set", k)),
        "--json",
        tmp_path / "t.json",
        "--plot",
        tmp_path / "t.png",
        "--save",
        tmp_path / "t.npz",
    )
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "t.json").read_text())
    assert found["staleness"]["mean"] == pytest.approx(4.0, abs=0.2)
    assert sum(found["staleness"]["pmf"]) == pytest.approx(1.0)
    assert (tmp_path / "t.png").exists() and "max_head_offpolicyness" in result.output


BAD = {
    "unknown task": ["run", "--task", "nope"],
    "unknown kind": ["list", "nope"],
    "unknown claim": ["verify", "staleness/nope"],
    "unknown argument": ["run", "--set", "task.nope=1"],
    "unknown part": ["run", "--set", "nope.x=1"],
    "not a setting": ["run", "--set", "task.arms"],
    "negative staleness": ["run", "--staleness", "-1"],
    "cap below one": ["run", "--method", "truncated-is", "--set", "method.cap=0.5"],
    "one sample, leave-one-out": ["run", "--samples", "1"],
    "gaussian rewards counted": ["run", "--set", "task.rewards=gaussian", "--sampling", "counts"],
    "gaussian rewards enumerated": ["run", "--set", "task.rewards=gaussian", "--sampling", "enumerate"],
    "two sources of staleness": ["run", "--staleness", "1", "--schedule", "frozen"],
    "outside the domain": ["verify", "staleness/stability-boundary", "--at", "staleness=-3"],
    "NaN reward": ["run", "--set", "task.means=[0.1, NaN]", "--set", "task.arms=2"],
    "missing knob": ["timeline", "areal"],
    "one random realization asked for a verdict": ["verify", "nope/nope", "--size", "huge"],
    "unwritable plot": ["run", *SMALL, "--plot", "/nonexistent/out.png"],
    "unknown suffix": ["run", *SMALL, "--plot", "out.xyz"],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_status_two(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*BAD[name])
    said = [line for line in result.stderr.splitlines() if line.startswith("asyncsim: ")]
    assert result.exit_code == 2, (result.output, result.exception)
    assert len(said) == 1 and " = " in said[0] and ": must be " in said[0] and "; " in said[0]
    assert "Traceback" not in result.output and list(tmp_path.iterdir()) == []


def test_a_claim_that_is_not_held_gives_status_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsim import commands, theory, verifying

    claim = theory.claim("estimator/full-is")
    wrong = lambda point: {k: 1.1 * v for k, v in claim.predict(point).items()}  # noqa: E731
    monkeypatch.setattr(verifying.theory, "claim", lambda name: type(claim)(**{**vars(claim), "predict": wrong}))
    _, status = commands.verify(["estimator/full-is"], "quick", False, 0, None, tmp_path / "r.html")
    assert status == 1
