"""The command line: what it prints, writes and answers to bad input."""

import io
import json
import os
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from asyncsim import claims
from asyncsim.app import cli, wording
from asyncsim.app.cli import KINDS, main
from asyncsim.app.options import SECTIONS
from asyncsim.base import checks

SMALL = ["--updates", "6", "--replicates", "4"]


@dataclass
class Result:
    exit_code: object
    output: str
    stderr: str


def call(words: object = "", *arguments: object) -> Result:
    """The command as the shell runs it, the first words split at spaces: through the entry point, up to its status."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
        main([*str(words).split(), *(str(a) for a in arguments)])
    return Result(end.value.code, out.getvalue(), err.getvalue())


def refusal(words: str, *more: object) -> str:
    """What the command line says to a mistake."""
    result = call(*shlex.split(words), *more)
    assert result.exit_code == 2, result.output
    return result.stderr


def told(folder: Path, words: object, *arguments: object) -> tuple[str, Any]:
    """What a command that succeeds prints, and what it writes as JSON."""
    result = call(words, *arguments, "--json", folder / "told.json")
    assert result.exit_code == 0, result.stderr
    return result.output, json.loads((folder / "told.json").read_text())


def test_what_a_run_does_not_keep_is_told_with_how_to_keep_it(tmp_path: Path) -> None:
    words = "run --task token-bandit --staleness 1 --updates 3 --replicates 2 --diagnostics default,texts"
    lost = "texts of this run will not be kept: add --save run.npz, in Python read sim.Trace.load('run.npz').texts()"
    assert lost in call(words).stderr and lost not in call(words, "--save", tmp_path / "run.npz").stderr


def test_the_example_of_help_works(tmp_path: Path) -> None:
    text = call("--help").output
    example = " ".join(text.split("stale data:")[1].split("Options")[0].split())
    words = example.split()[1 : example.split().index("out.png") + 1]
    assert words[:3] == ["run", "--method", "grpo"]
    words[words.index("out.png")] = str(tmp_path / "out.png")
    result = call(*words, *SMALL)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out.png").stat().st_size > 10_000


@pytest.mark.parametrize("kind", KINDS)
def test_list_names_everything_with_a_summary(kind: str, tmp_path: Path) -> None:
    text, rows = told(tmp_path, "list", kind)
    assert rows and all(row["name"] in text and len(row["summary"]) > 10 for row in rows)


@pytest.mark.parametrize("kind", ["methods", "systems", "exports", "claims"])
def test_a_long_list_on_a_terminal_has_headings_and_a_line_for_each_name(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = call("list", kind).output.splitlines()
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("list", kind).output.splitlines()
    assert max(map(len, lines)) <= 80 and lines[-1] == f"asyncsim list {kind} NAME describes one of these {len(flat)}."
    assert sorted(line.split()[0] for line in lines if line[:2] == "  " != line[1:3]) == sorted(
        line.split()[0] for line in flat
    )
    assert 3 < len([line for line in lines[:-1] if line[:1].strip()]) < len(flat) / 3


def test_list_prints_json_where_no_path_is_given() -> None:
    rows = json.loads(call("list", "methods", "--json").output)
    grpo = next(row for row in rows if row["name"] == "grpo")
    assert {grpo[key] for key in ("level", "anchor", "aggregator")} == {"token", "behavior", "sequence_mean"}
    assert grpo["on_policy"] == "policy gradient" and grpo["reference"].startswith("2402.03300")
    assert json.loads(call("list", "metrics", "ess", "--json").output)["name"] == "ess"


def test_sentences_of_papers_have_their_claims() -> None:
    rows = {row["name"]: row for row in json.loads(call("list", "papers", "--json").output)}
    found = rows["2604.22407/inflation"]
    assert found["status"] == "conditional" and found["claims"] == ["alignment/adam-inflation"] and found["when"]
    assert "asyncsim verify alignment/adam-inflation" in call("list", "papers", "2604.22407/inflation").output


def test_run_writes_json_and_a_trace_that_loads(tmp_path: Path) -> None:
    import asyncsim as sim

    words = (
        "run --task token-bandit --method truncated_is --set method.cap=4 --link clip_norm --link adam "
        "--set adam.lr=0.01 --schedule random --set schedule.law=[0.5,0.5]"
    )
    _, found = told(tmp_path, words, *SMALL, "--save", tmp_path / "trace.npz")
    trace = sim.Trace.load(tmp_path / "trace.npz")
    assert found["final"]["ess"]["value"] == pytest.approx(trace.final("ess").value)
    assert set(found["final"]) == set(trace.metrics) and "norm_before_clip" in found["final"]
    assert found["spec"]["task"] == "token_bandit" and found["spec"]["advantage"] == "group_mean"
    assert found["spec"]["cap"] == 4.0 and found["manifest"]["seed"] == 0


def test_verify_writes_table_json_and_report(tmp_path: Path) -> None:
    report = tmp_path / "deep" / "report.html"
    text, found = told(tmp_path, "verify estimator/truncation-bias ess/clamp-floor --defects --report", report)
    for row in found["claims"]:
        wanted = "id statement kind verdict predicted measured low high false_fail false_pass seconds defects"
        assert {*wanted.split()} <= set(row) and row["verdict"] == "held"
        assert row["defects"] and all(d["verdict"] == "violated" for d in row["defects"])
        assert row["id"] in text and row["id"] in report.read_text()
    assert found["manifest"]["seed"] == 0


def test_verify_answers_at_another_point(tmp_path: Path) -> None:
    where = ["--report", tmp_path / "r.html"]
    assert call("verify", "ess/clamp-floor", "--at", "clamp=3.5", *where).exit_code == 0
    assert call("verify", "ess/clamp-floor", "--at", "clamp=0.5", *where).exit_code == 2


def test_an_arxiv_id_stands_for_the_claims_of_a_paper(tmp_path):
    """A paper without statements, and a paper's name, are refused with the command that lists the papers."""
    assert call("verify", "2604.22407", "--json", str(tmp_path / "v.json")).exit_code == 0
    found = json.loads((tmp_path / "v.json").read_text())["claims"]
    assert [each["id"] for each in found] == ["alignment/adam-inflation"]
    for unknown in ("2604.99999", "VCPO", "vcpo"):
        with pytest.raises(checks.InputError, match="asyncsim list papers"):
            claims.claim(unknown)


def test_timeline_prints_the_law_and_writes_json(tmp_path: Path) -> None:
    words = (
        "timeline areal --set max_head_offpolicyness=4 --set consumer_batch_size=8 --set max_concurrent_rollouts=40 "
        "--set length=lognormal:1.0:0.8 --set load=1.5"
    )
    text, found = told(tmp_path, words, "--plot", tmp_path / "t.png", "--save", tmp_path / "t.npz")
    assert found["staleness"]["mean"] == pytest.approx(4.0, abs=0.2)
    assert sum(found["staleness"]["pmf"]) == pytest.approx(1.0)
    assert (tmp_path / "t.png").exists() and "max_head_offpolicyness" in text


def test_a_policy_by_name_and_a_device() -> None:
    result = call(
        "run --task gym --set task.steps=8 --method reinforce --advantage returns-to-go "
        "--samples 2 --updates 2 --replicates 2 --device cpu "
        "--policy mlp --set policy.observation=4 --set policy.actions=2 --set policy.hidden=[8]"
    )
    assert result.exit_code == 0 and "hidden=[8]" in result.output, result.output


BAD = {
    "a GPU for tables": ["run", "--device", "cuda"],
    "a policy that does not fit": ["run", "--policy", "gaussian"],
    "an unknown environment": ["run", "--task", "gym", "--set", "task.id=CartPol-v1"],
    "unknown kind": ["list", "nope"],
    "unknown claim": ["verify", "staleness/nope"],
    "unknown argument": ["run", "--set", "task.nope=1"],
    "unknown part": ["run", "--set", "nope.x=1"],
    "two sources of staleness": ["run", "--staleness", "1", "--schedule", "frozen"],
    "outside the domain": ["verify", "staleness/stability-boundary", "--at", "staleness=-3"],
    "one random realization asked for a verdict": ["verify", "nope/nope", "--size", "huge"],
    "unwritable plot": ["run", *SMALL, "--plot", f"{__file__}/out.png"],
    "unwritable trace": ["run", *SMALL, "--save", f"{__file__}/out.npz"],
    "a name too long": ["run", *SMALL, "--save", 300 * "x"],
    "a folder as list": ["list", "methods", "--json", "."],
    "nothing as list": ["list", "methods", "--json", ""],
    "a folder as report": ["verify", "ess/limit", "--report", "."],
    "a folder as trace": ["run", *SMALL, "--save", "."],
    "a folder as timeline": ["timeline", "synchronous", "--save", "."],
    "entropy in words": ["run", "--set", "method.entropy=abc"],
    "staleness beyond int32": ["run", *SMALL, "--staleness", "1000000000000000000000"],
    "events beyond memory": ["timeline", "one-step-off", "--updates", "1000000000000"],
    "places beyond memory": ["timeline", "synchronous", "--set", "groups_per_batch=1000000000000"],
    "an option without value": ["run", "--updates"],
    "a flag with a value": ["verify", "--defects=3"],
    "staleness given twice": ["run", "--staleness", "5", "--set", "schedule.staleness=3"],
    "a setting given twice": ["run", "--set", "task.arms=5", "--set", "task.arms=6"],
    "epochs of a system": ["timeline", "synchronous", "--set", "updates_per_batch=3"],
    "epochs of a model": ["timeline", "synchronous", "--model", "updates_per_batch=3"],
    "text at a number of the claim": ["verify", "ess/clamp-floor", "--at", "clamp=foo"],
    "coupled without a system": ["run", "--coupled"],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_what_names_mean_and_status_two(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*BAD[name])
    said = [line for line in result.stderr.splitlines() if line.startswith("asyncsim: ")]
    assert result.exit_code == 2, result.output
    assert all(line.startswith("  ") for line in result.stderr.splitlines()[1:])
    assert len(said) == 1 and " = " in said[0] and ": must be " in said[0] and "; " in said[0]
    assert "Traceback" not in result.output and list(tmp_path.iterdir()) == []


def test_a_claim_that_is_not_held_gives_status_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsim.app import verdicts, verifying

    claim = claims.claim("estimator/truncation-bias")
    wrong = lambda point: {k: 1.1 * v for k, v in claim.predict(point).items()}  # noqa: E731
    monkeypatch.setattr(verifying.claims, "claim", lambda name: type(claim)(**{**vars(claim), "predict": wrong}))
    _, status = verdicts.verify(verdicts.Request(["estimator/truncation-bias"]), tmp_path / "r.html")
    assert status == 1


SAYS = {
    "the option of a link": (["run", "--link", "nosuch"], "link = 'nosuch'", "asyncsim list updates"),
    "the option of a task": (["run", "--task", "nosuch"], "task = 'nosuch'", "asyncsim list tasks"),
    "what to add": (["run", "--link", "adam"], "adam needs lr, which must be given", "run --link adam --set adam.lr="),
    "what to add to a timeline": (
        ["timeline", "update-on-arrival"],
        "update-on-arrival needs workers, which must be given",
        "try asyncsim timeline update-on-arrival --set workers=8",
    ),
    "--at": (["verify", "ess/clamp-floor", "--at", "foo"], "--at = 'foo'", "KEY=VALUE"),
    "no arguments": (
        ["run", "--advantage", "mean", "--set", "advantage.shift=3"],
        "mean argument = 'shift'",
        "takes no arguments",
    ),
    "one of two": (
        [
            *["timeline", "areal", "--set", "max_head_offpolicyness=1", "--set", "consumer_batch_size=2"],
            *["--set", "length=1.0"],
        ],
        "load, train_time = 'neither'",
        "give one: ",
    ),
    "the sampling": (
        ["run", "--task", "gaussian-bandit", "--sampling", "enumerate"],
        "sampling = 'enumerate'",
        "use --sampling monte_carlo",
    ),
    "how to couple": (["run", "--schedule", "coupled"], "--schedule = 'coupled'", "--system NAME --coupled"),
    "how to use a part": (["run", "--set", "system.load=3"], "--set part = 'system'", "add --system NAME"),
    "a near option": (["run", "--updtes", "3"], "option = '--updtes'", "write --updates 3"),
    "a number with _": (["run", "--workers", "1_0"], "--workers = '1_0'", "a number without _"),
    "a share with _": (["compare", "a", "b", "--smallest", "0_1"], "--smallest = '0_1'", "a number without _"),
    "a setting with _": (["run", "--set", "task.arms=1_0"], "arms = '1_0'", "integer"),
    "the value of an option": (["run", "--updates=abc"], "--updates = 'abc'", "a valid integer"),
    "what fills the memory": (["run", "--samples", "100000000000"], "bytes of schedule versions", " GiB, "),
    "a near command": (["runn"], "no command runn; ", "did you mean run?"),
    "an empty word": (["list", "methods", "grpo", ""], "arguments = ''", "asyncsim list --help"),
    "where environments are": (["run", "--task", "CartPole-v1"], "task = ", "--task gym --set task.id=CartPole-v1"),
    "the root folder": (["timeline", "synchronous", "--trace", "/"], "--trace = '/'", "a file, not a folder"),
    "the suffix before all else": (["run", "--plot", "/dev/null/out.xyz"], "path = ", ".png"),
}


@pytest.mark.parametrize("name", SAYS)
def test_a_message_names(name: str) -> None:
    words, field, rest = SAYS[name]
    result = call(*words)
    said = result.stderr
    assert result.exit_code == 2 and said.startswith(f"asyncsim: {field}") and rest in said, said


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["list", "--help"]])
def test_help_is_no_error(words: list[str]) -> None:
    result = call(*words)
    assert result.exit_code == 0 and "Usage: asyncsim" in result.output and not result.stderr
    assert not any(line.endswith("...") or len(line) > 80 for line in result.output.splitlines()[2:])


def test_help_of_an_option_and_of_a_command_is_short() -> None:
    group = typer.main.get_command(cli.app)
    commands = [*group.commands.values(), *group.commands["results"].commands.values()]
    texts = [each.help.partition("\n")[0] for each in commands] + [p.help or "" for c in commands for p in c.params]
    assert len(texts) > 150 and [text for text in texts if len(text) > 55] == []


def test_the_help_has_each_command_once_and_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    named = [name for names in SECTIONS.values() for name in names.split()]
    assert sorted(named) == sorted(typer.main.get_command(cli.app).commands)
    monkeypatch.setenv("COLUMNS", "100")
    assert 80 < max(map(len, call("run", "--help").output.splitlines())) <= 100


def test_the_example_of_a_timeline_is_worth_a_look(tmp_path: Path) -> None:
    example = call("timeline", "--help").output.split("Example:")[1].split("Arguments")[0].replace("\\\n", " ")
    _, found = told(tmp_path, " ".join(example.split()[1:]))
    assert found["staleness"]["std"] > 2.0 and found["predicted"]["mean"] == 4.0


def test_no_command_shows_the_help() -> None:
    result = call()
    assert result.exit_code == 2 and "Usage: asyncsim" in result.stderr


def test_nothing_is_run_before_its_outputs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsim.app import verifying
    from asyncsim.running import running
    from asyncsim.systems._system import System

    worked = []
    for owner, name in ((running, "run"), (verifying, "verify_many"), (System, "timeline")):
        monkeypatch.setattr(owner, name, lambda *given, **named: worked.append(given))
    for words in (["run"], ["verify", "ess/limit"], ["timeline", "synchronous"]):
        for option in ("--json", "--report" if words[0] == "verify" else "--save"):
            assert call(*words, option, f"{__file__}/file").exit_code == 2
    assert call("run", "--plot", "out.xyz").exit_code == 2 and not worked


def test_folders_are_made_for_every_output(tmp_path: Path) -> None:
    paths = {
        option: tmp_path / option / "deep" / f"file.{ending}"
        for option, ending in {"plot": "png", "save": "npz", "json": "json"}.items()
    }
    words = [word for option, path in paths.items() for word in (f"--{option}", path)]
    for command in (["run", *SMALL], ["timeline", "synchronous", "--updates", "4"]):
        assert call(*command, *words).exit_code == 0
        for path in paths.values():
            path.unlink()
            path.parent.rmdir()


def test_one_plug_in_is_described_in_full(tmp_path: Path) -> None:
    text, found = told(tmp_path, "list methods truncated-is")
    assert "truncated_is(\n    level: str = 'sequence',\n    cap: Any = None" in text
    assert "Source: 2602.17616" in text and found["doc"] in text
    assert found["arguments"][0] == {"name": "level", "required": False, "default": "sequence"}
    assert [a["required"] for a in told(tmp_path, "list updates sgd")[1]["arguments"]] == [True]


def test_a_paper_is_listed_and_verified_by_its_arxiv_id_with_the_status_of_its_sentences(tmp_path: Path) -> None:
    """Formulas that hold do not say that the paper's sentence does."""
    for paper in ("2510.01161", "M2PO", "https://arxiv.org/abs/2510.01161v2"):
        assert [row["name"] for row in told(tmp_path, f"list papers {paper}")[1]] == ["2510.01161/second-moment"]
    said = call("verify", "2510.01161").output
    assert "2510.01161/second-moment is conditional" in said and "2 of 2 formulas held" in said
    assert said.rstrip().endswith("of the claims of the paper above: 1 conditional")


@pytest.mark.parametrize("kind", KINDS)
def test_everything_can_be_described(kind: str, tmp_path: Path) -> None:
    for row in told(tmp_path, "list", kind)[1]:
        result = call("list", kind, row["name"])
        assert result.exit_code == 0 and len(result.output) > len(row["name"]) + 40, row
    assert call("list", kind, "no-such-thing").exit_code == 2


def test_sgd_has_its_default_in_any_chain() -> None:
    alone = call("run", *SMALL, "--link", "momentum", "--set", "momentum.beta=0.5", "--link", "sgd")
    assert alone.exit_code == 0 and "sgd lr=0.1" in alone.output


def test_coupled_takes_its_lengths_from_the_policy(tmp_path: Path) -> None:
    import asyncsim as sim

    words = "run --system one-step-off --coupled --task token-bandit --set task.ends=true"
    _, found = told(tmp_path, words, *SMALL, "--save", tmp_path / "trace.npz")
    assert found["spec"]["system"]["length"] == "from the policy"
    work = sim.Trace.load(tmp_path / "trace.npz").schedule.work
    assert work is not None and set(np.unique(work)) <= {1.0, 2.0, 3.0, 4.0} and len(np.unique(work)) > 1


def test_json_holds_what_was_accumulated(tmp_path: Path) -> None:
    import asyncsim as sim

    words = "run --updates 20 --replicates 4 --diagnostics autocorrelogram,ess --save"
    _, found = told(tmp_path, words, tmp_path / "trace.npz")
    gathered = sim.Trace.load(tmp_path / "trace.npz").accumulated["autocorrelogram"]
    np.testing.assert_array_equal(found["accumulated"]["autocorrelogram"], gathered)


def test_a_law_of_integers_is_a_setting(tmp_path: Path) -> None:
    _, found = told(tmp_path, "run --schedule random --set schedule.law=uniform:0:4", *SMALL)
    assert found["spec"]["system"]["knobs"]["law"] == [0.2] * 5


def test_list_without_a_kind_lists_kinds(tmp_path: Path) -> None:
    text, rows = told(tmp_path, "list")
    assert [row["name"] for row in rows] == list(KINDS)
    assert all(row["name"] in text and len(row["summary"]) > 20 for row in rows)
    assert json.loads(call("list", "--json").output) == rows


@pytest.mark.parametrize("words", [["-m", "asyncsim"], ["-m", "asyncsim.app.cli"]])
def test_python_runs_the_command_line(words: list[str]) -> None:
    done = subprocess.run([sys.executable, *words, "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == f"asyncsim {metadata.version('asyncsim')}\n" and not done.stderr
    bare = subprocess.run([sys.executable, *words, "nope"], capture_output=True, text=True, timeout=60)
    assert bare.returncode == 2 and bare.stderr.startswith("asyncsim: command = 'nope'")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run --method gr", "grpo"),
        ("run --link clip", "clip_norm"),
        ("verify ess/cl", "ess/clamp-floor"),
        ("list me", "methods"),
        ("list metrics ess_st", "ess_staleness"),
        ("timeline one", "one_step_off"),
        ("ver", "verify"),
    ],
)
def test_a_shell_completes_names(words: str, expected: str) -> None:
    variables = {
        "_ASYNCSIM_COMPLETE": "complete_bash",
        "COMP_WORDS": f"asyncsim {words}",
        "COMP_CWORD": str(len(words.split())),
    }
    script = Path(sys.executable).parent / "asyncsim"
    done = subprocess.run([script], capture_output=True, text=True, timeout=60, env={**os.environ, **variables})
    assert expected in done.stdout.split(), (done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("word", "value"), [("none", None), ("None", None), ("null", None), ("inf", float("inf")), ("-Inf", float("-inf"))]
)
def test_words_for_nothing_and_infinity_are_understood(word: str, value: float | None) -> None:
    assert wording.understood(word, None) == wording.understood(word, 3) == value
    assert wording.understood(word, "median") == word and wording.understood([word], None) == [word]


def test_none_lifts_a_limit_on_the_command_line(tmp_path: Path) -> None:
    words = "timeline update-on-arrival --set workers=2 --model lead=none --model max_age=None --updates 8"
    assert told(tmp_path, words)[1]["system"]["lead"] is None
    words = "run --method truncated-is --set method.cap=none --advantage opob --set advantage.robust=none"
    told(tmp_path, words, *SMALL)


SIZES = {
    "run": ["--replicates", "--samples", "--updates", "--every"],
    "timeline synchronous": ["--samples", "--updates"],
}


@pytest.mark.parametrize(("command", "option"), [(c, option) for c, options in SIZES.items() for option in options])
@pytest.mark.parametrize("size", ["0", "-1"])
def test_no_size_below_one_is_taken_for_the_default(command: str, option: str, size: str) -> None:
    result = call(*command.split(), option, size)
    assert result.exit_code == 2 and f"= {size}: must be" in result.stderr
    assert result.stderr.startswith(f"asyncsim: {option.strip('-')}")


@pytest.mark.parametrize("command", [["run"], ["verify", "ess/limit"], ["timeline", "synchronous"]])
def test_a_negative_seed_is_refused(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*command, "--seed", "-1")
    assert result.exit_code == 2 and result.stderr.startswith("asyncsim: seed = -1") and not list(tmp_path.iterdir())


def test_header_and_help_say_what_a_comparison_needs() -> None:
    text = call("run", *SMALL, "--method", "grpo", "--verbose").output
    assert "note: " not in text and "aggregator=sequence_mean" in text
    helped = " ".join(call("run", "--help").output.split())
    assert "Gradients of methods differ in scale" in helped and "Runs with the same --seed share" in helped
