"""`judge_runs`: what it reads of logs, what it refuses, and what it says."""

import itertools
import json
import math
import re
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

import asyncsim as sim
from asyncsim.app.cli import app
from asyncsim.comparing import judging
from asyncsim.diagnosing import judging as judged
from docs import _finished
from tests import refusals
from tests.diagnosing import exports


def run(seed=0, level=0.6, steps=100, stride=1, **more):
    """Columns of a run at a level, with noise."""
    noise = np.random.default_rng(seed).normal(size=steps)
    return {"step": np.arange(1, steps + 1) * stride, "reward": level + 0.02 * noise, **more}


def text_of(columns):
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows), ""])


@pytest.fixture
def logs(tmp_path):
    for name, text in _finished.logs().items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.committed
def test_the_logs_of_the_page_are_those_of_its_script():
    assert {path.name: path.read_text() for path in _finished.HERE.glob("*.csv")} == _finished.logs()


def test_a_number_is_the_area_below_the_curve_whatever_is_logged_how_often():
    x = np.array([0.0, 1.0, 2.0, 5.0, 10.0])
    line = judged.Curve("", "", "", "", x, x, 3.0 * x + 1.0, None)
    np.testing.assert_allclose(line.windows(2.0, 10.0, 4), [10.0, 16.0, 22.0, 28.0])
    kinked = line._replace(y=np.abs(x - 5.0))
    np.testing.assert_allclose(kinked.windows(0.0, 10.0, 1), [2.5])
    dense = np.linspace(0.0, 10.0, 41)
    again = judged.Curve("", "", "", "", dense, dense, np.interp(dense, x, kinked.y), None)
    np.testing.assert_allclose(again.windows(0.3, 9.1, 7), kinked.windows(0.3, 9.1, 7))


def test_the_interval_is_between_runs_and_the_noise_that_of_the_pair():
    a, b = [run(k) for k in range(3)], [run(10 + k, 0.65) for k in range(3)]
    found = sim.judge_runs(a, b)
    value, half, _ = judging.between_runs(*(arm.numbers for arm in found.arms))
    assert (found.difference, found.half) == (value, half) and found.word == "better" and found.inside is None
    assert found.interval == (value - half, value + half)
    assert sim.judge_runs(b, a).word == sim.judge_runs(a, b, better="lower").word == "worse"
    assert sim.judge_runs(a, b, within=1.0).word == "equal"
    pair = sim.judge_runs(run(0, steps=400), run(1, 0.62, steps=400))
    assert pair.word == "cannot tell" and math.isnan(pair.half) and 0.0 < pair.inside < abs(pair.difference)
    assert "differ beyond their own noise" in pair.text(999) and "nothing about other seeds" in pair.text(999)
    # At the spread that overturns a difference its interval ends at 0.
    at_most = sim.judge_runs(run(0, steps=400), run(1, 0.62, steps=400), seed_spread=pair.overturned)
    assert at_most.half == pytest.approx(abs(at_most.difference))


def test_a_pilot_tells_the_spread():
    pilot = [run(20 + k, 0.6 + 0.01 * k) for k in range(4)]
    found = sim.judge_runs(run(0), run(1, 0.7), pilot=pilot)
    numbers = [sim.judge_runs(each, run(99)).arms[0].numbers[0] for each in pilot]
    assert found.spread == pytest.approx(np.std(numbers, ddof=1)) and found.freedom == 3.0
    assert found.half == pytest.approx(3.182446 * found.spread * math.sqrt(2.0))
    refusals.refused("pilot", sim.judge_runs, run(0), run(1), pilot=pilot[:1])
    refusals.refused("seed_spread", sim.judge_runs, run(0), run(1), pilot=pilot, seed_spread=0.1)


def test_a_plan_counts_seeds_and_the_hours_of_those_that_are_missing(logs):
    found = sim.judge_runs(str(logs / "grpo-*.csv"), str(logs / "gspo-*.csv"), within=0.02)
    (seeds, spread, hours), (most, wide, _) = found.plan
    assert judged.findable(seeds, 0.05, 0.9) <= 0.02 / spread < judged.findable(seeds - 1, 0.05, 0.9)
    assert most > seeds and wide > spread == found.spread
    assert hours == pytest.approx((seeds - 3) * sum(arm.seconds for arm in found.arms) / 3600.0)
    assert found.arms[0].seconds == pytest.approx(200 * 95, rel=0.02)
    sure = sim.judge_runs(str(logs / "grpo-*.csv"), str(logs / "gspo-*.csv"), within=0.02, seed_spread=0.03)
    assert len(sure.plan) == 1
    less = sim.judge_runs(run(0), run(1), within=0.02, seed_spread=0.03, power=0.8)
    assert judged.findable(less.plan[0][0], 0.05, 0.8) <= 0.02 / 0.03 and "with probability 0.8:" in less.text(999)
    alone = sim.judge_runs(run(0), run(1))
    assert [row[0] for row in alone.plan] == list(judged.SEEDS) and "Hours are not known" in alone.text(999)
    for n, spread, _ in alone.plan:
        assert spread * judged.findable(n, 0.05, 0.9) == pytest.approx(alone.effect)


def test_runs_are_read_on_their_common_range_of_steps_seconds_or_tokens():
    a, b = run(0, steps=100), run(1, steps=80)
    found = sim.judge_runs(a, b, last=0.5)
    assert (found.start, found.stop) == (40.5, 80.0) and any("80 and 100" in note for note in found.notes)
    short = sim.judge_runs(a, b, at=60, last=0.5)
    assert short.stop == 60.0 and not short.notes
    refusals.refused("at = 90", sim.judge_runs, a, b, at=90)
    # B takes twice the seconds: at equal seconds its half as many steps are read.
    a, b = (run(k, **{"timing_s/step": np.full(100, 10.0 * (k + 1))}) for k in (0, 1))
    found = sim.judge_runs(a, b, over="seconds", last=1.0)
    assert (found.start, found.stop) == (20.0, 1000.0)
    steps = judged.Curve("", "", "", "", b["step"], b["step"], b["reward"], None)
    assert found.arms[1].numbers[0] == pytest.approx(steps.windows(1.0, 50.0, 1)[0])
    assert any("2.00 times" in note for note in sim.judge_runs(a, b).notes)
    # The same clock in milliseconds, as its name says.
    b = {name: each for name, each in b.items() if name != "timing_s/step"} | {"timing_s/step_ms": np.full(100, 2e4)}
    assert str(sim.judge_runs(a, b, over="seconds", last=1.0)) == str(found)
    clocks = run(0, _runtime=np.arange(100) * 10.0), run(1, _timestamp=1.7e9 + np.arange(100) * 20.0)
    assert sim.judge_runs(*clocks, over="seconds").stop == 990.0
    tokens = [each | {"tokens": np.arange(100) * 1e6 * (k + 1)} for k, each in enumerate((a, b))]
    assert sim.judge_runs(*tokens, over="tokens").stop == 99e6
    # One quantity under the names of two trainers; a log of samples may also have a column global_step.
    for step in ("training/global_step", "global_step"):
        found = sim.judge_runs(run(0), {step: b["step"], "critic/rewards/mean": b["reward"]})
    assert any("reward in a[0] and critic/rewards/mean in b[0]" in note for note in found.notes)
    # Evaluations are rare: steps between them have an empty cell.
    rare = [run(k) | {"val/acc": [0.5 + k + s / 1e3 if s % 10 == 0 else None for s in range(100)]} for k in (0, 1)]
    found = sim.judge_runs(*rare, metric="val/acc")
    assert found.difference == pytest.approx(1.0) and found.inside is None and found.metric == "val/acc"
    # Nobody knows by its name whether more of a metric is better.
    norms = [run(k) | {"grad_norm": np.random.default_rng(k).normal(1.0, 0.1, 100)} for k in (0, 1)]
    guess = ["guess" in str(sim.judge_runs(*norms, metric="grad_norm", better=each).notes) for each in (None, "lower")]
    assert guess == [True, False] and "guess" not in str(found.notes)


def test_runs_of_a_chart_are_chosen_by_name_or_pattern(tmp_path):
    path, table = tmp_path / "chart.csv", exports.columns()
    names = [f"{name}-s{k}" for name, k in itertools.product(("sync", "async"), (1, 2))]
    heads, cells = ["Step"], [table["Step"]]
    for k, name in enumerate(names):
        heads.append(f"{name} - critic/rewards/mean")
        cells.append(table["critic/rewards/mean"] + 0.01 * np.random.default_rng(k).normal(size=120))
    path.write_text(text_of(dict(zip(heads, cells, strict=True))))
    found = sim.judge_runs(path, run=("sync*", "async*"))
    assert [arm.names for arm in found.arms] == [
        tuple(f"chart.csv: {name}" for name in names[:2]),
        tuple(f"chart.csv: {name}" for name in names[2:]),
    ]
    assert len(sim.judge_runs(path, run=("sync-s1", "async-s1")).arms[0].names) == 1
    refusals.refused("run = None.*sync-s1", sim.judge_runs, path, path)
    refusals.refused("run = 'other'", sim.judge_runs, path, run=("other", "async*"))
    refusals.refused("b = None", sim.judge_runs, path, run="sync*")
    # The same run in both arms.
    refusals.refused("all numbers are the same", sim.judge_runs, path, run=("*-s1", "sync*"))
    # A chart over time merges the rows of its runs, so a row number is no step of any of them.
    for clock, columns in (("Relative Time (Process)", None), ("Created", "clock=Created")):
        merged = {clock: np.arange(480.0)}
        for k, head in enumerate(heads[1:]):
            merged[head] = [cells[k + 1][row // 4] if row % 4 == k else None for row in range(480)]
        words = "steps of a.*'row numbers'.*export it with Step as x axis, or write over='seconds'"
        refusals.refused(words, sim.judge_runs, merged, run=("sync*", "async*"))
        found = sim.judge_runs(merged, run=("sync*", "async*"), over="seconds", columns=columns)
        assert found.start == pytest.approx(381.4) and found.stop == 476.0
    refusals.refused("write .*clock=THEIRS", sim.judge_runs, merged, run=("sync*", "async*"), over="seconds")


def changed(**columns):
    return run(1) | columns


BACK = np.r_[1:61, 41:81]
BAD = {
    "a restart": (changed(step=BACK), "step, row 61 of b.*above the row before"),
    "a clock that goes back": (changed(_runtime=np.r_[0.0:60.0, 0.0:40.0]), "_runtime, row 61 of b.*not below"),
    "not a number": (changed(reward=["nan", *run(1)["reward"][1:]]), "reward, row 1.*finite"),
    "a constant column": (changed(reward=np.ones(100)), "not the same in every row"),
    "the same run": (run(0), "all numbers are the same"),
    "a part of the same run": (run(0, steps=100) | {k: x[:60] for k, x in run(0).items()}, "numbers are the same"),
    "steps of another unit": (run(1, stride=16), "steps of b.*16 between rows"),
    "counts of calls": ({"_step": run(1)["step"], "reward": run(1)["reward"]}, "steps of b.*_step"),
    "another metric": ({"step": run(1)["step"], "critic/score/mean": run(1)["reward"]}, "metric of b.*penalties"),
    "no such metric": ({"step": run(1)["step"], "ess": run(1)["reward"]}, "metric of b.*= 'reward'"),
    "no common range": (changed(step=np.arange(200, 300)), "shared by all runs"),
    "one value": ({"step": [1, 2], "reward": [0.5, None]}, "column reward of b.*= 1"),
    "tokens": ({name: [1, 2] for name in ("step", "reward", "sampler_log_prob", "trainer_log_prob")}, "row a step"),
    "no log": (3, "columns or a path"),
    "no runs": ([], "1 runs or more"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_second_run_of_the_metric_is_refused_by_name(name):
    b, words = BAD[name]
    refusals.refused(words, sim.judge_runs, run(0), b)
    assert sim.judge_runs(run(0), run(1)).word == "cannot tell"


def test_arguments_out_of_range_are_refused():
    for name, values in {"last": (0.0, 1.5), "error": (0.0, 1.0), "within": (0.0,), "seed_spread": (-1.0,)}.items():
        for value in values:
            refusals.refused(name, sim.judge_runs, run(0), run(1), **{name: value})
    refusals.refused("write 0.101, the share of the last 10 steps", sim.judge_runs, run(0), run(1), last=10)
    lost = run(1) | {"reward": [*run(1)["reward"][:60], *[None] * 40], "entropy": np.ones(100)}
    assert any("no reward after step" in note for note in sim.judge_runs(run(0), lost).notes)
    refusals.refused("better", sim.judge_runs, run(0), run(1), better="more")
    refusals.refused("over of a.*clocks", sim.judge_runs, run(0), run(1), over="seconds")
    refusals.refused("over of a.*'tokens'", sim.judge_runs, run(0), run(1), over="tokens")
    refusals.refused("run", sim.judge_runs, run(0), run(1), run=("a", "b", "c"))
    refusals.refused("a column of one of the runs", sim.judge_runs, run(0), run(1), columns="reward=rewards")
    refusals.refused("b = None", sim.judge_runs, run(0), seed_spread=0.05, within=0.02)
    assert judged.seeds_for(0.02, 0.05).startswith("133 seeds per arm find a difference of 0.02 with probability 0.9")


def test_a_unit_that_is_said_to_be_the_same_is_believed_and_a_fork_is_mentioned():
    assert sim.judge_runs(run(0), run(1, steps=60, stride=2), at=90).stop == 90.0
    forked = run(1)
    forked["reward"][:30] = run(0)["reward"][:30]
    assert any("share their first 30 values" in note for note in sim.judge_runs(run(0), forked).notes)
    lost = [run(k, 0.6 - 0.4 * (k == 3)) for k in range(5)]
    assert any("one run of A" in note for note in sim.judge_runs(lost, [run(9 + k) for k in range(5)]).notes)
    # Of 100 pairs of five equal runs, 2 have a note on average, and more than 7 with probability 0.001.
    rng = np.random.default_rng(3)
    pairs = [[[run(9 * k + j, 0.6 + 0.02 * rng.normal()) for j in range(5)] for _ in "AB"] for k in range(100)]
    assert sum(any("one run of" in note for note in sim.judge_runs(*pair).notes) for pair in pairs) <= 7


def test_numbers_that_are_all_the_same_tell_no_spread():
    runs = [{"step": np.arange(50), "reward": np.minimum(1.0, np.arange(50) / (20.0 + k))} for k in range(4)]
    assert sim.judge_runs(runs[:2], runs[2:]).word == "cannot tell"
    assert "Equal scores" in str(sim.judge_runs(runs[:2], runs[2:]))


def test_the_command_writes_what_it_prints(logs, monkeypatch):
    monkeypatch.chdir(logs)
    words = ["judge", "grpo-*.csv", "gspo-*.csv", "--json", "o.json", "--plot", "p.svg"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 3 and "cannot tell whether B is better than A" in done.output
    row = json.loads((logs / "o.json").read_text())
    assert row["word"] == "cannot tell" and row["low"] < 0.0 < row["high"] and len(row["arms"][0]["numbers"]) == 3
    assert "fresh seeds" in (logs / "p.svg").read_text() or (logs / "p.svg").stat().st_size > 5_000
    again = CliRunner().invoke(
        app, ["judge", "--a", "grpo-1.csv", "--a", "grpo-2.csv", "--b", "gspo-*.csv", "--within", "1"]
    )
    assert again.exit_code == 0 and "B equals A within 1" in again.output
    assert CliRunner().invoke(app, ["judge", "grpo-1.csv", "grpo-2.csv", "gspo-1.csv"]).exit_code == 2


@pytest.mark.parametrize("arms", [1, 3])
def test_a_picture_shades_what_was_read_and_ends_intervals_where_the_answer_does(arms):
    found = sim.judge_runs([run(k) for k in range(arms)], [run(9 + k, 0.65) for k in range(arms)], within=0.01)
    left, right = sim.plot(found).axes
    (span,) = left.patches
    assert (span.get_x(), span.get_x() + span.get_width()) == pytest.approx((found.start, found.stop))
    (bars,) = right.containers
    half = found.half if arms > 1 else found.inside
    ends = [path.vertices[:, 1] for path in bars.lines[2][0].get_paths() if len(path.vertices)]
    shown = [each for each in ends if np.isfinite(each).all()]
    assert sorted(shown[-1]) == pytest.approx([found.difference - half, found.difference + half])
    texts = [each.get_text() for each in (*left.get_legend().get_texts(), *right.get_xticklabels())]
    assert all(f"{arm.letter}: {arm.names[0]}" in text for arm, text in zip(found.arms, texts, strict=False))
    assert all("95 % interval" in text or "cannot tell" in text for text in texts[2:]) and "95 %" in texts[-1]


PAGE = _finished.HERE.with_suffix(".md")
SHOWN = PAGE.read_text(encoding="utf-8").replace("\\\n", "")
COMMANDS = re.findall(r"^```console\n\$ asyncsim (.*)\n([\s\S]*?)^```", SHOWN, re.M)


@pytest.mark.committed
@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=["by steps", "by seconds", "three runs", "one run"])
def test_the_page_shows_what_its_commands_print(command, shown, monkeypatch, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "judge").mkdir()
    for name, text in _finished.logs().items():
        (tmp_path / "docs" / "judge" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, shlex.split(command)).output == shown
    assert CliRunner().invoke(app, [*shlex.split(command), "--last", "0.5"]).output != shown
