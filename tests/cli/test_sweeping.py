"""`asyncsim sweep`, `results` and `timeline --sweep`: words make grids and tables; statuses say what failed."""

import json
import re

import pytest

from asyncsim.app import sweeping
from tests.cli.test_cli import call, told

SMALL = ["--set", "updates=8", "--replicates", "4", "--workers", "1"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_sweep_is_printed_drawn_written_and_found_again(tmp_path):
    words = ["--grid", "staleness=0,4", "--grid", "method=grpo,reinforce", "--grid", "lr=0.1:0.4:3", *SMALL]
    text, row = told(tmp_path, "sweep", *words, "--plot", "a.png", "--csv", "a.csv")
    assert "4 units: 4 made" in text and "reinforce  0.2" in text
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert row["names"] == ["staleness", "method", "lr"] and len(row["summary"]) == 12
    assert len((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()) == 13
    listed = call("results", "ls", "--json", "l.json")
    assert "4 of 4 units" in listed.output and row["id"] in listed.output
    shown = call("results", "show", row["id"][:5], "--plot", "b.png")
    assert "0 made, 4 were there" in shown.output and (tmp_path / "b.png").exists()
    assert "4 units read, 2 of them done again: none" in call("results", "verify", "--again", "2").output
    assert "0 files, 0.0 KiB, moved to asyncsim-results/trash" in call("results", "gc").output
    again = call("sweep", *words)
    assert "0 made, 4 were there" in again.output


def test_a_failed_unit_is_status_1_and_named(tmp_path):
    (tmp_path / "my.py").write_text(
        "def bad(log_prob, advantage):\n    assert log_prob.shape[-2] <= 4, 'no'\n    return -log_prob * advantage\n",
        encoding="utf-8",
    )
    result = call("sweep", "--grid", "method=my.py:bad,reinforce", *SMALL)
    assert result.exit_code == 1
    assert re.search(r"failed at method=my\.py:bad: .*\(AssertionError: no\); fix line 2 of my\.py", result.output)


def test_a_fault_of_a_store_is_status_1(tmp_path):
    call("sweep", "--grid", "staleness=0,1", *SMALL)
    damaged = next((tmp_path / "asyncsim-results" / "units").rglob("*.parquet"))
    damaged.write_bytes(b"x")
    result = call("results", "verify", "--json", "v.json")
    assert result.exit_code == 1 and ": damaged" in result.output and "makes them again" in result.output
    assert len(json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))["faults"]) == 1


def test_a_claim_draws_its_line(tmp_path):
    words = ["task=quadratic", "method=gradient", "samples=1", "updates=40", "task.curvatures=[1.0]"]
    common = [each for word in words for each in ("--set", word)]
    _, found = told(
        tmp_path, "sweep", *common, "--grid", "staleness=0,4", "--grid", "lr=0.05:2:4", "--metric", "exact_return",
        "--claim", "staleness/stability-boundary", "--at", "curvatures=[1.0]", "--replicates", "2", "--workers", "1",
        "--plot", "q.png",
    )  # fmt: skip
    assert [round(line["predicted"], 3) for line in found["lines"]] == [2.0, 0.347]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--grid", "staleness"], "NAME=V1,V2"),
        (["--grid", "staleness=0,0"], "different values"),
        (["--grid", "staleness=0", "--grid", "staleness=1"], "only values"),
        (["--grid", "lr=1:0.1:4"], "--grid"),
        (["--grid", "lr=0.1:1:1"], "--grid"),
        (["--grid", "lr=x"], "numbers"),
        (["--grid", "nothing=1"], "nothing"),
        (["--grid", "method=grpo,nothing"], "nothing"),
        (["--grid", "staleness=0", "--backend", "threads"], "backend"),
        (["--grid", "staleness=0", "--store", "foo://x"], "an address"),
        (["--grid", "staleness=0", "--claim", "staleness/stability-boundary"], "one knob"),
        (["--grid", "staleness=0", "--at", "x=1", "--claim", "nothing"], "claim"),
    ],
)
def test_bad_words_are_refused_in_one_line_and_leave_nothing(tmp_path, words, reason):
    result = call("sweep", *words, "--replicates", "2")
    assert result.exit_code == 2 and reason in result.stderr and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_values_keep_commas_inside_brackets_and_laws_keep_colons():
    values = sweeping.values_of(["task.means=[0.1,0.9],[0.5,0.6]", "system.length=pareto:0.4:1.5,1.0"], "--grid")
    assert list(values["task.means"].values()) == ["[0.1,0.9]", "[0.5,0.6]"] == list(values["task.means"])
    assert list(values["system.length"].values()) == ["pareto:0.4:1.5", "1.0"]


def test_a_swept_system_prints_its_knee(tmp_path):
    knobs = ["consumer_batch_size=4", "max_concurrent_rollouts=32", "length=exponential:1", "load=1.5"]
    common = [each for knob in knobs for each in ("--set", knob)]
    more = ["--realizations", "4", "--updates", "60", "--plot", "k.png"]
    text, _ = told(tmp_path, "timeline areal", *common, "--sweep", "max_head_offpolicyness=1,2,8", *more)
    assert "knee: max_head_offpolicyness=" in text and "from load 1.5 at max_head_offpolicyness=1" in text
    assert (tmp_path / "k.png").exists() and "note: staleness_p99 is a mean over short runs" in text
    for option, path in (("--save", "x.npz"), ("--trace", "x.json")):
        refused = call("timeline", "areal", *common, "--sweep", "max_head_offpolicyness=1", option, path)
        assert refused.exit_code == 2 and "left out beside --sweep" in refused.stderr


def test_the_knee_of_a_time_is_the_longest_and_groups_of_another_size_are_named(tmp_path):
    """A synchronous step takes length + training: 101, 104 and 140 s, and 104 s are within 5 percent of the best."""
    more = ["--realizations", "2", "--updates", "40"]
    knobs = ["--set", "groups_per_batch=4", "--set", "length=100"]
    text, _ = told(tmp_path, "timeline synchronous", *knobs, "--sweep", "train_time=1,4,40", *more)
    assert "knee: train_time=4 is the longest value with 95 % of the maximum groups per hour" in text
    knobs = ["--set", "samples_per_step=8", "--set", "length=10", "--set", "train_time=8"]
    alone = call("timeline", "trl", *knobs, "--sweep", "max_staleness=1,2", *more, "--samples", "1")
    assert "must be num_generations = 8 of trl; write --set num_generations=1 for both" in alone.stderr


def test_a_stopped_sweep_says_what_is_kept(monkeypatch, tmp_path):
    from asyncsim.sweeping import sweeps

    once = sweeps.carry_out

    def stopped(units, pool, where):
        yield next(once(units, pool, where))
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps, "carry_out", stopped)
    result = call("sweep", "--grid", "staleness=0,1,2", *SMALL)
    assert result.exit_code == 130
    assert "stopped by Ctrl-C: 1 of 3 units are kept in asyncsim-results; the same command" in result.stderr
    monkeypatch.setattr(sweeps, "carry_out", once)
    assert "2 made, 1 were there" in call("sweep", "--grid", "staleness=0,1,2", *SMALL).output


def test_a_dry_run_counts_writes_its_plan_and_nothing_else(tmp_path):
    result = call("sweep", "--grid", "staleness=0,1", "--grid", "lr=0.1,0.2", "--dry-run", "--replicates", "200")
    assert result.exit_code == 0 and "4 settings, 200 replicates each, in 8 units" in result.output
    assert list(tmp_path.iterdir()) == []
    assert told(tmp_path, "sweep --dry-run --grid staleness=0,4", *SMALL)[1]["units"] == 2
    refused = call("sweep", "--grid", "staleness=0,4", "--dry-run", "--plot", "p.png")
    assert refused.exit_code == 2 and "left out beside --dry-run" in refused.stderr


def test_a_rate_that_varies_need_not_be_given_beside_the_grid():
    words = "sweep --grid lr=0.1,0.4 --link adam --set updates=2 --replicates 2"
    assert "made" in call(*words.split()).output


def test_a_picture_along_categories_is_drawn(tmp_path):
    picture = tmp_path / "a.png"
    words = ("--grid", "method=grpo,reinforce", "--set", "updates=4", "--set", "replicates=4", "--plot", picture)
    done = call("sweep", *words, "--store", tmp_path / "store")
    assert done.exit_code == 0 and picture.stat().st_size > 1000
    system = ("--set", "ppo_mini_batch_size=8", "--set", "length=lognormal:1.0:0.8", "--set", "load=0.5")
    words = (*system, "--sweep", "partial_rollout=true,false", "--realizations", "2", "--plot", picture)
    picture.unlink()
    assert call("timeline", "verl_fully_async", *words).exit_code == 0 and picture.stat().st_size > 1000


def test_a_store_of_trainings_is_not_called_empty(tmp_path):
    store = tmp_path / "kept"
    words = ("--smallest", "0.5", "--set", "updates=4", "--max-replicates", "64", "--store", store)
    call("compare", "grpo", "reinforce", *words)
    assert "trainings of `asyncsim compare`, which" in call("results", "ls", "--store", store).output
