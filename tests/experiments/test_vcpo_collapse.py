"""Alarms before collapse: the protocol on runs whose answer is known, with what would not pass, and the figure."""

import numpy as np
import pandas as pd
import pytest

from asyncsim.base import uncertainty
from asyncsim.diagnosing import alarms as measures
from experiments import _vcpo_collapse as alarms
from experiments import vcpo_collapse
from paper_figures import vcpo_collapse as figure
from tests.experiments._lab import rows_of

# Standard errors of a two-sided test that a true value fails once in 5e8 fresh runs; the seeds are fixed besides.
ERRORS = 6.0

rows = rows_of("vcpo_collapse", quick=True)


def pick(rows, **place):
    for name, value in place.items():
        rows = rows[rows[name] == value]
    return rows


def test_the_course_of_a_run_is_read_from_its_trailing_mean():
    steps = np.arange(200)
    up = np.where(steps < 50, 0.0, 1.0)
    curves = {
        "stays": up,
        "falls at 120": np.where(steps < 120, up, 0.1),
        "comes back": np.where((steps > 120) & (steps < 160), 0.1, up),
        "never learns": 0.3 * up,
        "falls to just above half": np.where(steps < 120, up, 0.55),
    }
    found = measures.course(np.stack(list(curves.values()), axis=1), 0.0, 1.0)
    # Ten updates are averaged: five of them have to be up, or more than half of them down.
    assert found.learned.tolist() == [54, 54, 54, -1, 54]
    assert found.collapsed.tolist() == [-1, 125, -1, -1, -1]
    assert found.recovered.tolist() == [False, False, True, False, False]


def test_trailing_means_forget_what_is_old_and_count_what_is_known():
    values = np.array([[1e300], [1.0], [np.nan], [3.0], [5.0]])
    np.testing.assert_array_equal(measures.trailing(values, 2)[:, 0], [1e300, 5e299, 1.0, 3.0, 4.0])
    np.testing.assert_array_equal(measures.largest(values, 2)[:, 0], [1e300, 1e300, 1.0, 3.0, 5.0])


def noise(replicates, updates, seed):
    """A statistic that knows nothing, and made-up fates: half of the runs collapse at times of their own."""
    random = np.random.default_rng(seed)
    fell = np.arange(replicates) % 2 == 0
    times = np.where(fell, random.integers(150, updates - 100, replicates), -1)
    found = measures.Course(np.full(replicates, 20), times, np.zeros(replicates, dtype=bool))
    return random.normal(size=(updates, replicates)), found


def errors_from(value, cases, controls):
    found = measures.auc(cases, controls)
    return (found.value - value) / found.error


def test_matching_by_time_takes_away_what_time_alone_predicts():
    """A statistic that only grows with time is worth nothing at matched times, and much at the end of the run."""
    scores, found = noise(2000, 800, seed=2)
    scores = scores + 0.02 * np.arange(800)[:, None]
    pairs = measures.matched(found, measures.healthy(found), 800, 100, 50, seed=2)
    cases = alarms.at(scores, pairs.cases, pairs.case_times, 10)
    assert abs(errors_from(0.5, cases, alarms.at(scores, pairs.controls, pairs.control_times, 10))) < ERRORS
    late = alarms.at(scores, pairs.controls, np.full(len(pairs.controls), 800), 10)
    assert abs(errors_from(0.5, cases, late)) > ERRORS


def test_healthy_runs_get_times_of_collapses_that_they_were_watched_for():
    learned = np.array([20, 20, 20, 400, -1, 20])
    collapsed = np.array([200, 300, -1, -1, -1, 30])
    found = measures.Course(learned, collapsed, np.zeros(6, dtype=bool))
    pairs = measures.matched(found, measures.healthy(found), 800, 100, 50, seed=0)
    # The last run collapsed before it was watched; the fourth learned after every collapse.
    assert pairs.cases.tolist() == [0, 1] and pairs.controls.tolist() == [2]
    assert pairs.control_times.shape == (measures.DRAWS, 1) and set(pairs.control_times[:, 0]) == {200, 300}
    assert measures.matched(found, measures.healthy(found), 340, 100, 50, seed=0).cases.tolist() == [0]


def test_an_alarm_does_not_read_the_future():
    random = np.random.default_rng(3)
    metrics = {name: random.uniform(0.1, 1.0, (60, 4)) for name in vcpo_collapse.RECORDED}
    before = alarms.statistics(metrics, metrics["ess"])
    for values in metrics.values():
        values[40:] = 5.0
    after = alarms.statistics(metrics, metrics["ess"])
    for name in before:
        np.testing.assert_array_equal(before[name][:40], after[name][:40])
        assert (before[name][40:] != after[name][40:]).any()


def test_levels_wake_a_tenth_of_healthy_runs_and_alarms_come_when_they_are_crossed():
    random = np.random.default_rng(5)
    values = random.exponential(size=(300, 4000))
    runs, times = np.arange(4000), np.full(4000, 200)
    level = measures.threshold(measures.worst(values, runs[::2], times[::2], 50), 0.1)
    first = measures.announced(values, runs[1::2], times[1::2], 50, level)
    woken = uncertainty.proportion(int((first >= 0).sum()), 2000)
    # The level is itself a quantile of 2000 runs, which doubles the variance.
    assert abs(woken.value - 0.1) < ERRORS * np.sqrt(2.0) * woken.error
    values[:] = 0.0
    values[170, 7] = 100.0
    assert measures.announced(values, np.array([7, 8]), np.array([200, 200]), 50, 1.0).tolist() == [30, -1]


def test_several_draws_of_controls_give_the_mean_area_and_a_smaller_error_where_draws_are_noise():
    random = np.random.default_rng(7)
    cases, drawn = random.normal(1.0, 1.0, 40), random.normal(0.0, 1.0, (8, 60))
    found, single = measures.auc(cases, drawn), [measures.auc(cases, one) for one in drawn]
    assert found.value == pytest.approx(np.mean([one.value for one in single]))
    assert found.error < min(one.error for one in single)
    # The same controls again are no new ones.
    again = measures.auc(cases, np.tile(drawn[0], (8, 1)))
    assert again.error == pytest.approx(single[0].error) and again.samples == 100


def test_who_learned_early_is_told_apart_by_that_alone_and_not_among_those_who_learned_at_once():
    """Early learners collapse, nothing else matters: the time of learning has a large area, within a stratum 1/2."""
    random = np.random.default_rng(8)
    learned = random.integers(20, 140, 2000)
    fell = random.random(2000) < np.where(learned < 64, 0.6, 0.2)
    times = np.where(fell, random.integers(300, 700, 2000), -1)
    found = measures.Course(learned, times, np.zeros(2000, dtype=bool))
    scores = np.tile(-learned.astype(float), (800, 1))

    def area(among):
        one = alarms.only(found, among)
        pairs = measures.matched(one, measures.healthy(one), 800, 100, 50, seed=0)
        ends = [(pairs.cases, pairs.case_times), (pairs.controls, pairs.control_times)]
        got = measures.auc(*(alarms.at(scores, *end, 10) for end in ends))
        return (got.value - 0.5) / got.error

    assert area(learned > 0) > ERRORS and abs(area(learned < 64)) < ERRORS


def test_the_interval_of_a_median_covers_it_as_often_as_it_says():
    random = np.random.default_rng(6)
    found = [alarms.median(random.exponential(size=25)) for _ in range(2000)]
    hits = sum(low <= np.log(2.0) <= high for _, low, high in found)
    assert hits / 2000 > 0.95 - ERRORS * np.sqrt(0.95 * 0.05 / 2000)
    assert alarms.median(np.array([1.0, 2.0, np.inf]))[0] == 2.0


def test_stale_training_collapses_where_synchronous_training_does_not(rows):
    for regime in vcpo_collapse.REGIMES:
        share = pick(rows, regime=regime, quantity="share").set_index("statistic")
        assert share.low["collapsed"] > share.high["synchronous collapsed"]
        assert 0.15 < share.value["collapsed"] < 0.8


def test_before_collapse_ess_and_divergence_tell_who_falls_in_the_chain(rows):
    # Seeds are fixed; of fresh runs this small about one in a hundred would fail here.
    area = pick(rows, regime="chain", quantity="auc", group="healthy", lead=10).set_index("statistic")
    assert area.low["ess"] > 0.5 and area.low["kl"] > 0.5
    assert pick(rows, quantity="auc", group="healthy", statistic="return", lead=0).value.min() > 0.95


def test_the_best_return_is_the_one_that_is_written_down():
    from experiments import _vcpo_hours

    best = _vcpo_hours.largest_return(32, 24, 0.01)
    assert vcpo_collapse.LARGEST["chain"] == pytest.approx(best, abs=1e-4)


def test_too_few_collapses_are_a_reason_and_not_a_number():
    setting = {**vcpo_collapse.QUICK[1], "replicates": 6, "updates": 60, "watch": 20}
    found = pd.DataFrame(vcpo_collapse.run(setting))
    assert "to be told from" in found.reason.dropna().iloc[0]
    assert pick(found, quantity="auc").value.isna().all()


def test_the_figure_draws_the_rows_with_intervals_and_chance_dotted(rows):
    drawn = figure.draw(rows)
    for ax, regime in zip(drawn.axes, vcpo_collapse.REGIMES, strict=True):
        assert len(ax.containers) == len(figure.SCORES) and all(bars.has_yerr for bars in ax.containers)
        assert [set(line.get_ydata()) for line in ax.lines if line.get_linestyle() == ":"] == [{0.5}]
        own = pick(rows, regime=regime, quantity="auc", group="healthy", statistic="ess").sort_values("lead")
        drawn_ess = ax.containers[list(figure.SCORES).index("ess")].lines[0]
        np.testing.assert_allclose(drawn_ess.get_ydata().astype(float), own.value)
    assert all(ax.get_xlabel() for ax in drawn.axes)


def test_numbers_are_those_of_the_rows(rows):
    said = figure.numbers(rows)
    share = pick(rows, regime="tokens", quantity="share", statistic="collapsed").value.iloc[0]
    assert said["tokens_collapsed"] == f"{100 * share:.0f} %"
    far = pick(rows, regime="chain", quantity="auc", group="healthy", statistic="ess", lead=40).value.iloc[0]
    assert said["chain_ess_far"].startswith(f"{far:.2f} (")


def test_synchronous_runs_that_never_learn_are_not_counted_as_collapsed():
    up = np.ones(200)
    fate = [measures.course(np.stack([one * up, up], axis=1), 0.0, 1.0) for one in (0.0, 1.0)]
    rows = vcpo_collapse.shares(fate[1], fate[0], fate[1].learned >= 0)
    share = {row["statistic"]: row["value"] for row in rows if row["quantity"] == "share"}
    assert share["synchronous collapsed"] == 0.0 and share["synchronous never learned"] == 0.5
    assert "collapsed, learned later" not in share
