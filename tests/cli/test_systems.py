"""Systems on the command line: words of limits and laws, headers, runs that are refused or too short."""

import json
import re
import sys
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import checks, laws
from tests import forked
from tests.cli.test_cli import SMALL, call
from tests.core import runs

AREAL = ("timeline", "areal", "--set", "max_head_offpolicyness=1", "--set", "consumer_batch_size=4", "--updates", 12)
TIMED = (*AREAL, "--set", "length=1.0", "--set", "load=1")


def setting(result, name: str) -> str | None:
    """A setting as the header prints it; None where it is as it is unless set."""
    return (re.findall(rf"(?<!\w){name}=([^,\s]+)", result.output) or [None])[0]


@pytest.mark.parametrize("word", ["none", "None", "NONE", "null", "inf", "INF", "Infinity"])
@pytest.mark.parametrize("name", ["lead", "capacity", "window"])
def test_words_for_no_limit(name: str, word: str) -> None:
    result = call(*TIMED, "--model", f"{name}={word}")
    assert result.exit_code == 0, result.stderr
    assert setting(result, name) is None


def test_a_knob_without_a_limit_takes_the_words_too() -> None:
    forge = ("timeline", "torchforge", "--set", "batch_size=2", "--set", "length=1.0", "--set", "load=1")
    usual, bounded = (call(*forge, "--updates", 8, *more) for more in ((), ("--set", "max_buffer_size=3")))
    assert usual.exit_code == 0 and usual.output != bounded.output
    for word in ("none", "inf", "null"):
        assert call(*forge, "--updates", 8, "--set", f"max_buffer_size={word}") == usual


def test_a_text_that_a_part_understands_stays_a_text() -> None:
    words = ("run", "--advantage", "opob", "--set", "advantage.robust=none", *SMALL)
    assert call(*words).exit_code == 0


REFUSED = {
    "length=lengths": (("--set", "length=lengths", "--set", "load=1"), r"lognormal:MEAN:SIGMA .*@lengths.csv:column"),
    "length=lengths.csv": (("--set", "length=lengths.csv", "--set", "load=1"), r"length.*lengths.csv.*exist"),
    "rat=30": (("--set", "length=1.0", "--set", "load=1", "--model", "rat=30"), "did you mean rate?"),
    "capacity=soon": (("--set", "length=1.0", "--set", "load=1", "--model", "capacity=soon"), "or give None"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_shows_a_way_out(case: str) -> None:
    words, way = REFUSED[case]
    result = call(*AREAL, *words)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert all(part in result.stderr for part in way.split(".*"))


def test_one_rate_is_that_of_all_places() -> None:
    words = (*AREAL, "--set", "length=60.0", "--set", "load=1", "--model")
    fast, slow = call(*words, "rate=30"), call(*words, "rates=1")
    assert call(*words, "rates=30").output == fast.output
    assert "tokens (each sample decodes 30 per second)" in fast.output and "units of work" in slow.output
    assert fast.exit_code == 0 and setting(fast, "rates") == "30"
    assert float(setting(slow, "train_time") or 0) == 30 * float(setting(fast, "train_time") or 0)


def test_lengths_that_may_be_tokens_ask_for_their_speed_in_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "lengths.txt").write_text("1658\n1349\n")
    words = (*AREAL, "--set", "load=1", "--set")
    with pytest.warns(checks.RunWarning, match="^length = 1658 is read as seconds.* add --set model.rate=30, "):
        assert call(*words, f"length=@{tmp_path}/lengths.txt").exit_code == 0
    with pytest.warns(checks.RunWarning, match="^length = 600 is read as seconds"):
        assert call(*AREAL, "--set", "train_time=30", "--set", "length=lognormal:600:0.8").exit_code == 0
    # Not where a speed is given, and not of lengths that are seconds.
    with warnings.catch_warnings():
        warnings.simplefilter("error", checks.RunWarning)
        for more in ((f"length=@{tmp_path}/lengths.txt", "--model", "rate=30"), ("length=empirical:165.5:90",)):
            assert call(*words, *more).exit_code == 0


def test_headers_round_what_arithmetic_leaves(tmp_path: Path) -> None:
    words = (*AREAL, "--set", "length=1.0", "--set", "load=0.36", "--json", tmp_path / "one.json")
    result = call(*words)
    assert setting(result, "train_time") == "0.36"
    # The file keeps the number that was used.
    assert json.loads((tmp_path / "one.json").read_text())["system"]["train_time"] == pytest.approx(0.36, rel=1e-15)
    awkward = call(*AREAL, "--set", "length=1.0", "--set", "load=0.27", "--set", "max_concurrent_rollouts=3")
    assert setting(awkward, "train_time") == "0.36"


def test_a_long_law_is_not_printed_whole() -> None:
    law = str(laws.empirical(np.linspace(1.0, 2.0, 500)))
    result = call(*AREAL, "--set", f"length={law}", "--set", "load=1")
    assert result.exit_code == 0 and max(map(len, result.output.splitlines())) < 1200


def test_a_run_without_an_end_is_one_line_at_once() -> None:
    begin = perf_counter()
    result = call("timeline tba --set groups_per_batch=4 --set length=1e-9 --set train_time=3 --updates 4")
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert "expected events = 12000000000" in result.stderr and "lower updates" in result.stderr
    assert perf_counter() - begin < 20.0


def test_a_staleness_that_is_not_reached_is_one_line() -> None:
    # In a process of its own: pytest keeps warnings to itself.
    words = ["run", "--updates", "5", "--replicates", "2", "--staleness"]
    short, enough = (
        forked.run([sys.executable, "-c", f"from asyncsim.app.cli import main; main({[*words, lag]})"])
        for lag in ("100", "4")
    )
    assert (short.returncode, short.stderr.splitlines()) == (
        0,
        ["asyncsim: fixed: staleness 100 is not reached, the run ends at 4; train on at least 101 batches"],
    )
    assert (enough.returncode, enough.stderr) == (0, "")


def test_a_run_too_short_for_its_schedule_warns() -> None:
    def run(schedule: object, updates: int) -> None:
        sim.run(runs.spec(system=schedule, updates=updates, replicates=2), progress=False)

    fixed, random = sim.schedules.fixed(3, batches_per_publish=2), sim.schedules.random("uniform:1:2")
    with pytest.warns(checks.ShortRunWarning, match="3 is not reached, the run ends at 2; train on at least 7"):
        run(fixed, 6)
    with pytest.warns(checks.ShortRunWarning, match="random: staleness 2"):
        run(random, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", checks.ShortRunWarning)
        run(fixed, 7)
        run(random, 3)
        run(sim.schedules.frozen(), 1)


def test_rewards_are_late_from_the_command_line() -> None:
    words = ("run", "--updates", 12, "--samples", 4, "--rewards", "late", "--set", "rewards.share=[0.6,0.2]")
    printed = json.loads(call(*words, "--set", "rewards.then=reinject", "--set", "rewards.by=3", "--print-spec").output)
    assert printed["rewards"] == {"rewards.late": {"share": [0.6, 0.2], "then": "reinject", "by": 3}}
    assert "lost_share" in call(*words, "--diagnostics", "late_share,lost_share").output
    for more, reason in ((words, "rewards.by = 12"), (("run",), "--rewards")):
        refused = call(*more, "--set", "rewards.then=reinject", "--set", "rewards.by=12")
        assert refused.exit_code == 2 and reason in refused.stderr


def test_a_run_has_the_minibatches_that_its_system_recommends() -> None:
    m2po = ("--set", "system.train_batch_size=2", "--set", "system.stale_iteration=1", "--set", "system.length=1")
    words = ("run", "--system", "m2po", *m2po, "--set", "system.load=1", "--updates", 8, "--replicates", 2)
    assert "minibatches=4, cut=samples" in " ".join(call(*words, "-v").output.split())
    assert "minibatches" not in call(*words, "--minibatches", 1).output
    other = call(*words, "--minibatches", 2, "--cut", "parts", "-v").output
    assert "minibatches=2, cut=parts" in " ".join(other.split())
    for name in ("m2po", "miles"):
        assert "minibatches" in call("list", "systems", name).output


def test_groups_have_the_samples_of_the_preset_unless_others_are_given() -> None:
    trl = ("timeline", "trl", "--set", "samples_per_step=16", "--set", "length=1", "--set", "load=1", "--updates", 12)
    run = ("run", "--replicates", "2", "--system", "trl")
    for words, size in {"": 8, "--set num_generations=4": 4}.items():
        typed = " ".join(map(str, trl[2:])) + f" {words}"
        for command, part in ((trl[:2], ""), (run, "system.")):
            own = (*command, *typed.replace("--set ", f"--set {part}").split())
            assert f"{size} samples per group" in call(*own).output == call(*own, "--samples", size).output
            refused = call(*own, "--samples", "2").stderr
            assert f"= {size} of trl; write --set {part}num_generations=2 for both" in refused
    swept = (*trl, "--sweep", "max_staleness=1,2", "--realizations", 2)
    assert call(*swept).output.partition("units")[0] == call(*swept, "--samples", 8).output.partition("units")[0]


LAW = "lognormal:600:0.8:1638"
FILE = {"trainer": "areal", "machines": [2, 4], "slots_per_machine": 16, "tokens_per_second": {"1": 60, "16": 30}}
FILE |= {
    "prompts_per_batch": 4,
    "samples_per_prompt": 4,
    "train_seconds": 9,
    "sync_seconds": 1,
    "response_lengths": LAW,
}
READ = {
    "timeline s.yaml --set max_head_offpolicyness=3 --samples 8": "8 samples per group, seed 0",
    "compare system=s.yaml system=synchronous": 'write "system=s.yaml system.staleness_limit=3"; asyncsim advise',
    "timeline s.yaml --set staleness_limit=3": "each sample decodes 30 to 60 per second",
    "timeline s.yaml --sweep staleness_limit=0,3": "max_head_offpolicyness",
    "run --system s.yaml --set staleness_limit=3": "train_time=constant:9.0",
    "compare grpo reinforce --system s.yaml --along system.staleness_limit=0,3": "system.max_head_offpolicyness = 3",
    "sweep --system s.yaml --grid system.staleness_limit=0,3": "2 units: 2 made",
    "timeline s.yaml": "add --set staleness_limit=3; asyncsim advise s.yaml compares limits",
    "run --system s.yaml --staleness 3": "--set system.staleness_limit=3",
    "advise s.yaml --set model.reward=0.5 --set prompts_at_once=none": "Set max_head_offpolicyness to",
}


@pytest.mark.parametrize("words", READ)
def test_one_reader_takes_a_system_from_the_file_of_advise(words: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(json.dumps(FILE).replace('"1":', "1:").replace('"16":', "16:"))
    small = {"compare": "--smallest 0.2 --tune none --max-replicates 64", "timeline": "", "advise": "--realizations 2"}
    result = call(*words.split(), "--updates", 12, *small.get(words.split()[0], "--replicates 2").split())
    assert READ[words] in result.output + result.stderr and result.exit_code in (0, 2, 3)


def test_a_described_system_is_that_of_its_options(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.json").write_text(json.dumps({**FILE, "tokens_per_second": 30}))
    own = f"max_head_offpolicyness=3 consumer_batch_size=4 length={LAW} train_time=9 sync_time=1 model.rate=30"
    sets = [word for pair in f"{own} model.slots=32 max_concurrent_rollouts=32".split() for word in ("--set", pair)]
    call("timeline", "areal", *sets, "--samples", 4, "--updates", 40, "--json", "a.json")
    call("timeline", "s.json", "--set", "staleness_limit=3", "--updates", 40, "--json", "b.json")
    theirs, mine = (json.loads(Path(name).read_text()) for name in ("a.json", "b.json"))
    assert theirs["staleness"] == mine["staleness"] and theirs["throughput"] == mine["throughput"]
