"""Arms at equal seconds or slot-hours, along a grid, and what an answer says of arms that are not alike."""

import json
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base.answers import UNTOLD
from asyncsim.comparing import intervals
from asyncsim.comparing.readings import Reading
from tests.cli.test_cli import call
from tests.comparing.test_keeping import numbers
from tests.refusals import refused

ROOT = Path(__file__).parents[2]


def arm(pace=1.0, limit=1, slots=4, **changes):
    """A deterministic system that does all things `pace` times as fast, so that only its clock differs."""
    model = {"rate": pace}
    system = sim.systems.areal(limit, 4, slots, length=4.0, train_time=2.0 / pace, model=model)
    task = sim.tasks.token_bandit(actions=4, horizon=4)
    sizes = {"updates": 40, "samples_per_group": 8, **changes}
    return sim.Spec(task, system, sim.methods.grpo(), sim.chain(sim.updates.adam(0.1)), **sizes)


def compared(arms, **options):
    own = {"smallest": 1.0, "max_replicates": 64, "tune": None, "progress": False, "workers": 1, **options}
    return sim.compare(arms, **own)


def trace():
    """Two replicates at seconds 0, 10, 20 and 0, 5, 40; the second never reaches 0.5 before 30."""
    clock = np.array([[0.0, 0.0], [10.0, 5.0], [20.0, 40.0]])
    curve = np.array([[0.0, 0.0], [0.6, 0.25], [0.8, 0.75]])
    header = {"clock": clock, "spec": {"updates": 3}}
    none = np.array([-1, -1])
    return SimpleNamespace(metrics={"r": curve}, updates=np.arange(3), header=header, diverged=none)


def test_a_clock_says_when_a_target_is_reached_and_counts_the_horizon_where_it_is_not():
    until = Reading("r", "seconds", 0.5, horizon=30.0)
    assert until.numbers(trace()).tolist() == [10.0, 30.0]
    assert until.bounds(trace(), None) == (0.0, 30.0)
    assert until.orientation == -1.0 and Reading("r", "seconds", horizon=30.0).orientation == 1.0
    assert Reading("kl").orientation == -1.0 == -Reading("kl", better="higher").orientation
    # The defect that this axis mends: in updates the second arm is only one update behind.
    assert Reading("r", "time", 0.5).numbers(trace()).tolist() == [1.0, 2.0]
    cost = Reading("r", "slot-hours", 0.5, horizon=100.0, slots=3600.0)
    assert cost.numbers(trace()).tolist() == [10.0, 40.0]


def test_values_at_equal_seconds_lie_on_the_line_between_updates_and_stay_behind_the_last():
    x, curve = Reading("r", "seconds", horizon=40.0).drawn(trace().metrics["r"], trace())
    at = {float(second): row.tolist() for second, row in zip(x, curve, strict=True)}
    assert at[5.0] == pytest.approx([0.3, 0.25]) and at[40.0] == [0.8, 0.75]
    assert at[22.0][1] == pytest.approx(0.25 + 0.5 * 17 / 35)


def test_an_arm_that_is_twice_as_fast_takes_half_of_the_seconds():
    arms = {"slow": arm(), "fast": arm(2.0)}
    answer = compared(arms, over="seconds", target=0.7)
    (pair,) = answer.pairs
    assert answer.word == "better" and answer.better == "lower" and answer.unit == "seconds"
    slow, fast = answer.tasks[0].arms
    # No arm is cut off here, or the ratio of restricted means would not be that of the clocks.
    assert (slow.never, fast.never) == (0, 0)
    assert pair.ratio[0] == pytest.approx(0.5, rel=1e-12) and pair.ratio[1] < 0.5 < pair.ratio[2] < 1.0
    assert fast.mean == pytest.approx(slow.mean / 2.0)
    over_updates = compared(arms, smallest=0.01)
    assert over_updates.difference == 0.0
    (note,) = over_updates.notes
    assert "slow 4" in note and "fast 2" in note and "over='seconds'" in note


def test_a_replicate_that_does_not_reach_the_target_is_counted_and_said():
    answer = compared({"slow": arm(), "fast": arm(2.0)}, over="seconds", target=0.7, horizon=20.0)
    slow = answer.tasks[0].arms[0]
    assert slow.never == 64 and slow.mean == 20.0
    assert "64 of 64 never reach the target within 20 seconds and count as that" in str(answer)
    bounded = compared({"slow": arm(), "fast": arm(2.0)}, over="seconds", target=0.7, horizon=30.0)
    never = "most replicates of slow never reach the target"
    assert bounded.pairs[0].notes == (f"{never}, so the difference is a bound: the true one is below it",)
    assert bounded.word == "better" and never in str(bounded)


@pytest.mark.parametrize("over", ["seconds", "time"])
def test_no_word_is_given_where_no_replicate_reaches_the_target(over):
    """All numbers are the end of the axis then, and so alike."""
    answer = compared({"a": arm(updates=12), "b": arm(limit=3, updates=12)}, over=over, target=0.99, smallest=40.0)
    assert answer.word == UNTOLD and answer.pairs[0].ratio is None and len(answer.pairs[0].looks) == 1
    assert re.search(
        r"no replicate of either arm reaches 0\.99 within [\d.]+ (seconds|updates); give more", str(answer)
    )


def test_arms_that_are_mostly_cut_off_are_not_called_equal():
    arms = {"a": arm(limit=3), "b": arm(limit=3).replace(method=sim.methods.grpo(low=0.21))}
    words = {}
    for horizon in (150.0, 47.0):
        answer = compared(arms, over="seconds", target=0.7, smallest=80.0, horizon=horizon)
        words[answer.word] = [each.never for each in answer.tasks[0].arms], answer.pairs[0].why
    never, why = words[UNTOLD]
    assert words["equal"] == ([0, 0], "") and all(32 < each < 64 for each in never)
    assert "most replicates of b and of a never reach 0.7 within 47 seconds; give more" in why


def test_an_end_that_says_the_reverse_is_said():
    """Large steps that stop early learn first and end lower; beside them an arm that is behind all along."""
    early = sim.chain(sim.updates.adam(0.8), sim.updates.lr_schedule(decay="linear", updates=8))
    arms = {"slow": arm(), "hasty": arm().replace(update=early)}
    reverse = "at the end the order is reversed: slow 0.991, hasty 0.988; {} compares the ends"
    for over, remedy in (("seconds", "a comparison without the target"), ("mean", "over='end'")):
        options = {"target": 0.5} if over == "seconds" else {"smallest": 0.01}
        answer = compared(arms, over=over, **options)
        assert answer.word == "better" and answer.pairs[0].notes == (reverse.format(remedy),)
        assert reverse.format(remedy) in str(answer) and answer.row()["tasks"][0]["pairs"][0]["notes"]
    worse = compared({"a": arm(), "b": arm().replace(update=sim.chain(sim.updates.adam(0.05)))}, smallest=0.01)
    assert worse.word == "worse" and worse.pairs[0].notes == ()


def test_cost_counts_the_slots_that_a_system_names_and_those_of_the_trainer():
    wide = arm(slots=8)
    few, many = (Reading("r", "slot-hours", horizon=1.0).of_arm(each).slots for each in (arm(), wide))
    assert (few, many) == (4 * 8, 8 * 8)
    answer = compared({"4": arm(), "8": wide}, over="slot-hours", target=0.7, trainer_slots=32, smallest=0.01)
    assert "4 64, 8 96" in answer.notes[0] and answer.tasks[0].axis == "slot-hours"
    assert wide.system.summary(50, 8)["sample_slots"]["named"] == many


@pytest.mark.parametrize("kind", ["planned", "betting"])
def test_a_ratio_leaves_out_one_where_the_difference_leaves_out_zero(kind):
    generator = np.random.default_rng(0)
    words = set()
    for shift in (0.0, 0.02, 0.05, 0.1, 0.3):
        a, b = generator.beta(5.0 + 20.0 * shift, 5.0, (2, 256)) * [[1.0], [1.0 - shift]]
        _, apart, *_ = intervals.difference("mean", kind, a, b, (0.0, 1.0), 4, 0.05)
        value, low, high = intervals.ratio(kind, a, b, (0.0, 1.0), 4, 0.05)
        assert low < value == a.mean() / b.mean() < high
        assert (low <= 1.0 <= high) == (apart.low <= 0.0 <= apart.high)
        words.add(low <= 1.0 <= high)
    assert words == {True, False}


def test_a_ratio_holds_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(1)
    held = sum(
        low <= 2.0 <= high
        for _ in range(200)
        for a in [generator.gamma(16.0, 2.0 / 16.0, 64)]
        for b in [generator.gamma(16.0, 1.0 / 16.0, 64)]
        for _, low, high in [intervals.ratio("planned", a, b, (0.0, 4.0), 1, 0.05)]
    )
    assert held >= 185  # 190 are expected at least; fewer in 3 of 100 suites if it were exactly 95 percent
    a, b = generator.gamma(16.0, 2.0 / 16.0, 4096), generator.gamma(16.0, 1.0 / 16.0, 4096)
    assert intervals.ratio("planned", a, b, (0.0, 4.0), 1, 0.05)[1] > 1.8  # and it can leave out a wrong one


def test_arms_on_a_clock_may_make_different_numbers_of_updates():
    arms = {"slow": arm(updates=20), "fast": arm(2.0)}
    answer = compared(arms, over="seconds", smallest=0.05)
    assert [each.short for each in answer.tasks[0].arms] == [0, 0]
    assert 78.0 < answer.tasks[0].updates[-1] < 80.0  # 20 slow updates, 40 fast ones
    refused("updates, every of arm fast", compared, arms)


def test_samples_of_an_update_that_differ_are_said():
    arms = {"a": arm(), "b": arm(samples_per_group=64)}
    assert compared(arms).notes == ("arms train on different numbers of samples per update: a 32, b 256",)


def test_advantages_that_differ_beside_the_method_are_said():
    arms = {"a": arm(), "b": arm().replace(method=sim.methods.reinforce())}
    assert compared(arms).notes == (
        "arms also differ in method.advantage: a group_std, b leave_one_out; method.advantage=NAME gives all arms one",
        "arms also differ in method.aggregator: a sequence_mean, b sequence_sum; "
        "method.aggregator=NAME gives all arms one",
    )
    sequence = compared(
        arms | {"b": arm().replace(method=sim.methods.truncated_is(advantage=sim.advantages.group_std()))}
    )
    differs = "arms also differ in the level of the ratio (method.level, where it can be set): a token, b sequence"
    assert sequence.notes == (differs,)
    # What the words name is not said again, nor what is the same.
    assert (
        compared(arms | {"b": arm().replace(method=sim.methods.grpo(advantage=sim.advantages.group_mean()))}).notes
        == ()
    )
    for high, band in ((0.2, ()), (0.3, ("arms also differ in method.high: a 0.2, b 0.3",))):
        own = sim.methods.ppo_clip(advantage=sim.advantages.group_std(), aggregator="sequence_mean", high=high)
        assert compared(arms | {"b": arm().replace(method=own)}).notes == band


def lognormal(limit):
    return sim.systems.areal(limit, 4, 4, length="lognormal:4:2", train_time=2.0)


REFUSED = {
    "imposed": ({"b": arm().replace(system=sim.schedules.fixed(2))}, {}, "system of arm b.*imposed schedule"),
    "nothing trained": (
        {k: arm(updates=2).replace(system=lognormal(n)) for k, n in (("a", 1), ("b", 2))},
        {},
        "updates of arm a = 2: .*may end before its first update trains; give more updates",
    ),
    "behind the end": ({}, {"horizon": 1e6}, r"horizon.*the run of arm b ends there"),
    "coupled": (
        {k: arm(limit=n).replace(system=sim.schedules.coupled(arm(limit=n).system)) for k, n in (("a", 1), ("b", 2))},
        {},
        "horizon = None.*lengths come from the policy",
    ),
    "no clock": ({}, {"over": "mean", "horizon": 3.0}, "horizon.*left out"),
    "two settings": ({}, {"along": {"samples_per_group": [4, 8], "updates": [5]}}, "along.*one setting"),
    "tuned": ({}, {"along": {"adam.lr": [0.1, 0.2]}, "tune": "lr"}, "along.*not tuned"),
    "unknown": ({}, {"along": {"stalenes": [1]}}, "along = 'stalenes'"),
    "alike": ({"b": arm(limit=2)}, {"along": {"system.max_head_offpolicyness": [3]}}, "arm b = 'as a'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    own, options, message = REFUSED[name]
    refused(message, compared, {"a": arm(), "b": arm(2.0), **own}, **{"over": "seconds", **options})


def test_a_sweep_says_where_seconds_are_compared():
    refused("axes of compare", sim.sweep, arm(), {"updates": [4, 5]}, over="seconds")


def test_a_store_keeps_seconds_and_gives_the_same_answer(tmp_path):
    arms = {"a": arm(updates=12), "b": arm(2.0, updates=12)}
    options = {"over": "seconds", "target": 0.4, "smallest": 1.0}
    first = compared(arms, store=str(tmp_path / "s"), **options)
    assert numbers(compared(arms, store=str(tmp_path / "s"), **options)) == numbers(first)
    assert numbers(compared(arms, **options)) == numbers(first)
    # Trainings without seconds are others.
    compared(arms, store=str(tmp_path / "s"), smallest=0.1)


def staleness_arms(**changes):
    spec = arm(updates=12, **changes).replace(system=sim.schedules.fixed(1))
    return {"grpo": spec, "is": spec.replace(method=sim.methods.truncated_is("token"))}


def test_each_setting_of_a_grid_has_the_answer_of_a_comparison_of_its_own(tmp_path):
    tuned = {"tune": {"lr": [0.05, 0.2, 0.8, 3.2, 12.8]}, "smallest": 0.05}
    answer = compared(staleness_arms(), along={"staleness": [1, 4]}, **tuned)
    alone = compared({k: s.replace(system=sim.schedules.fixed(4)) for k, s in staleness_arms().items()}, **tuned)
    assert [on.setting for on in answer.tasks] == [{"staleness": 1}, {"staleness": 4}]
    assert answer.tasks[1].pairs == alone.pairs
    assert answer.tasks[0].pairs != alone.pairs
    table = answer.table()
    assert table["staleness"].tolist() == [1, 1, 4, 4] and table["word"].isna().tolist() == [True, False] * 2
    assert (table["low"] < table["mean"]).all() and (table["mean"] < table["high"]).all()
    assert str(answer).splitlines()[0].split() == ["staleness", "arm", "mean", "best", "difference"]
    left, right = sim.plot(answer, tmp_path / "a.png").axes
    drawn = [bars.lines[0].get_xydata().tolist() for bars in left.containers]
    means = [[[n, float(m)] for n, m in zip((1, 4), table["mean"][k::2], strict=True)] for k in (0, 1)]
    assert drawn == means and left.get_xlabel() == "staleness (versions)"
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["grpo", "is"]
    assert right.get_legend() is None and right.get_ylabel() == "difference from grpo"
    # The differences and both ends of their intervals are those of the rows, however lopsided.
    (bars,) = right.containers
    rows = table.iloc[1::2]
    assert bars.lines[0].get_ydata().tolist() == rows["difference"].tolist()
    ends = np.array([segment[:, 1] for segment in bars.lines[2][0].get_segments()])
    assert ends == pytest.approx(rows[["difference_low", "difference_high"]].to_numpy())
    assert (abs(ends.mean(1) - rows["difference"]) > 1e-4).any()


@pytest.mark.committed
@pytest.mark.rows  # a whole verdict along a grid: `make test-older` runs it
def test_the_page_shows_what_its_command_prints(tmp_path):
    text = (ROOT / "docs/compare.md").read_text(encoding="utf-8")
    command, *lines = text.split("```console\n")[1].split("```")[0].replace("\\\n", "").rstrip().splitlines()
    words = shlex.split(command.removeprefix("$ asyncsim "))
    at = words.index("--plot")
    picture, words[at + 1] = words[at + 1], str(tmp_path / "picture.png")
    run = [sys.executable, "-m", "asyncsim", *words, "--json", str(tmp_path / "answer.json")]
    done = subprocess.run(run, cwd=ROOT, env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True)
    assert done.returncode == 0 and (ROOT / picture).exists() and (tmp_path / "picture.png").exists()
    assert f"]({picture.removeprefix('docs/')})" in text
    assert [line.rstrip() for line in done.stdout.splitlines()[: len(lines)]] == lines
    # What the page says of the lead.
    tasks = json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))["tasks"]
    leads = [-on["pairs"][0]["looks"][-1]["difference"] for on in tasks]
    assert leads == sorted(leads) and f"grows from {leads[0]:.2f} to {leads[-1]:.2f}" in text


def test_a_grid_on_a_clock_has_one_horizon():
    answer = compared({"a": arm(), "b": arm(limit=3)}, over="seconds", along={"updates": [10, 30]}, smallest=0.1)
    one, other = (on.updates[-1] for on in answer.tasks)
    assert one == other < 40.0


def test_the_command_line_asks_along_a_grid():
    words = ("--set", "updates=8", "--set", "samples=4", "--smallest", "0.3", "--max-replicates", "64")
    result = call("compare", "method=grpo", "method=reinforce", *words, "--along", "staleness=0,2", "--tune", "none")
    assert result.exit_code in (0, 3), result.output
    assert "staleness = 0" in result.output and "staleness = 2" in result.output


def test_several_traces_share_the_axes_and_bands_are_those_of_each_alone():
    a, b = (sim.run(arm(pace, limit, updates=9, replicates=8), progress=False) for pace, limit in ((1.0, 1), (2.0, 3)))
    figure = sim.plot({"slow": a, "fast": b}, over="seconds")
    ax = next(ax for ax in figure.axes if ax.get_ylabel().startswith("return of the trained policy"))
    ends = [line.get_xdata()[-1] for line in ax.lines]
    assert ends == [a.seconds()[-1].min(), b.seconds()[-1].min()] and ax.get_xlabel() == "simulated seconds"
    for line, each in zip(ax.lines, (a, b), strict=True):
        assert line.get_ydata()[-1] == pytest.approx(each["trained_return"][-1].mean())
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["slow", "fast"]
    assert len(sim.plot([a]).axes) == len(sim.plot(a).axes)
    names = [text.get_text() for text in sim.plot([a, b]).legends[0].get_texts()]
    assert names == ["max_head_offpolicyness=1", "max_head_offpolicyness=3"]


def test_traces_without_a_common_metric_or_clock_are_refused():
    a = sim.run(arm(updates=3, replicates=2, diagnostics=("entropy",)), progress=False)
    b = sim.run(arm(updates=3, replicates=2, diagnostics=("ess",)), progress=False)
    refused("all traces have", sim.plot, [a, b])
    imposed = sim.run(arm(updates=3, replicates=2).replace(system=sim.schedules.fixed(1)), progress=False)
    refused("event system", sim.plot, imposed, over="seconds")
    refused("no trace", sim.plot, a.schedule, over="seconds")


def test_a_picture_names_the_target_and_the_optimum_and_is_cut_to_what_decides():
    arms = {"slow": arm(updates=60), "fast": arm(2.0, updates=120)}
    answer = compared(arms, over="seconds", target=0.7)
    left = sim.plot(answer).axes[0]
    lines = {line.get_label(): line.get_ydata()[0] for line in left.lines}
    assert lines["target 0.7"] == 0.7 and lines["optimum 1"] == 1.0
    assert {"target 0.7", "optimum 1"} <= {text.get_text() for text in left.get_legend().get_texts()}
    on = answer.tasks[0]
    assert max(each.mean for each in on.arms) < on.latest < on.updates[-1] / 1.2
    assert left.get_xlim() == (0.0, 1.2 * on.latest) and f"of {on.updates[-1]:g}; all reach" in left.get_xlabel()
    assert left.get_title(loc="left").replace("\n", " ") == on.title
    # Where some never reach it, all of the axis decides.
    whole = sim.plot(compared(arms, over="seconds", target=0.7, horizon=0.99 * on.latest)).axes[0]
    assert whole.get_xlabel() == "simulated seconds" and whole.get_xlim()[1] >= 0.99 * on.latest


def test_means_are_printed_with_their_intervals():
    answer = compared({"a": arm(), "b": arm(limit=3)}, over="seconds", target=0.7)
    for each in answer.tasks[0].arms:
        # The half-width leaves two uncertain digits.
        assert re.search(rf"{each.name} +{each.mean:.1f}\d* ± {each.high - each.mean:.2g} ", str(answer))


def test_curves_of_an_answer_have_bands():
    on = compared({"a": arm(), "b": arm(2.0)}, over="seconds", smallest=0.1).tasks[0]
    for each in on.arms:
        low, high = each.band
        assert (low <= each.curve).all() and (each.curve <= high).all() and (low < high).any()
        assert math.isclose(each.mean, each.end)


def test_one_token_has_no_level_of_its_ratio():
    one = arm().replace(task=sim.tasks.token_bandit(actions=4, horizon=1))
    method = sim.methods.truncated_is(advantage=sim.advantages.group_std())
    equal = "the ratio of a sequence equals that of its token, as sequences have one"
    several = "for several tokens write sim.tasks.token_bandit(horizon=32)"
    assert compared({"a": one, "b": one.replace(method=method)}).notes == (f"b: {equal}; {several}",)
