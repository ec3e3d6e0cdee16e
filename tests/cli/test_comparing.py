"""`asyncsim compare`: arms as words, answers printed, drawn and written, statuses."""

import json

import pytest

from tests.cli.test_cli import call, told

COMMON = [
    *("--set", "task.arms=5", "--set", "updates=20", "--set", "sgd.lr=0.5"),
    *("--tune", "none", "--max-replicates", "64"),
]
WITHIN = ["--smallest", "0.05"]


def test_words_make_arms_and_the_answer_goes_everywhere(tmp_path):
    text, row = told(
        *(tmp_path, "compare", "staleness=8", "fresh: staleness=0", "method=ppo-clip method.low=0.3 staleness=8"),
        *(*COMMON[:-1], "512", "--smallest", "0.01", "--also", "task.arms=20", "--plot", tmp_path / "a.png"),
    )
    names = [arm["name"] for arm in row["tasks"][0]["arms"]]
    assert names == ["staleness=8", "fresh", "method=ppo-clip method.low=0.3 staleness=8"]
    assert [pair["word"] for pair in row["tasks"][0]["pairs"]] == ["equal", "worse"]
    assert [on["task"]["actions"] for on in row["tasks"]] == [5, 20]
    assert "fresh equals staleness=8 within " in text
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_arms_without_names_are_called_by_what_differs():
    result = call("compare", "method=reinforce", "method=ppo-clip", *COMMON, "--smallest", "0.05")
    assert "ppo_clip" in result.output and "best" in result.output and "method=" not in result.output


def test_the_screen_says_what_each_arm_trains_how_it_ends_and_how_stale_it_is(tmp_path):
    result = call("compare", "a: advantage=none", "b: method=grpo", *COMMON, *WITHIN)
    assert "\na trains reinforce, b trains grpo\n" in result.output and "  end  " in result.output
    assert "no method was named, so arm a trains reinforce; write --method NAME" in result.stderr
    clock = ["--system", "one-step-off", "--over", "seconds", "--json", tmp_path / "a.json"]
    result = call("compare", "a: method=grpo", "b: method=grpo samples=8", *COMMON, *WITHIN, *clock)
    arms = json.loads((tmp_path / "a.json").read_text())["tasks"][0]["arms"]
    assert "matters 0.05 in trained_return" in result.output and "staleness (p99)" in result.output
    assert [arm["method"] for arm in arms] == ["grpo", "grpo"] and arms[0]["staleness_p99"] >= arms[0]["staleness_mean"]


def test_undecided_is_status_3():
    words = ["compare", "samples=16", "samples=17", *COMMON, "--set", "staleness=4"]
    result = call(*words, "--statistic", "improvement", "--smallest", "0.01")
    assert result.output.startswith("samples=17, samples=16: undecided")
    assert result.exit_code == 3


@pytest.mark.parametrize(
    ("arms", "options", "message"),
    [
        (["method=grpo"], [], "two or more"),
        (["method=grpo", "method=grpo"], [], "named once"),
        (["method=grpo", "x: method=grpo"], [], "different from every other arm"),
        (["method=grpo", "methd=ppo-clip"], [], "methd"),
        (["method=grpo", "method"], [], "KEY=VALUE"),
        (["method=grpo", "method='ppo-clip"], [], "words as in a shell (No closing quotation); close the quotation"),
        (["method=grpo", "method=ppo-clip"], ["--also", "task.arms='5"], '--also = "task.arms=\'5": must be words as'),
        (["staleness=0", "staleness=1"], ["--smallest", "0"], "smallest"),
        (["staleness=0", "staleness=1"], ["--metric", "nothing"], "metric"),
        (["staleness=0", "task.arms=3"], [], "task"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arms, options, message):
    smallest = [] if "--smallest" in options else ["--smallest", "0.01"]
    result = call("compare", *arms, "--set", "updates=5", *smallest, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
