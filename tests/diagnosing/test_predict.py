"""`sim.predict` on runs whose answer is known, with what must not pass; bad input is refused by name."""

import itertools
import json
import math
import re

import numpy as np
import pytest
from scipy import stats

import asyncsim as sim
from asyncsim.base import plugins
from asyncsim.diagnosing import Signal, alarms, predicting
from experiments import alarms as gallery
from tests.core import runs as small
from tests.refusals import refused

# Standard errors of a two-sided test that a true value fails once in 5e8 fresh runs; the seeds are fixed besides.
ERRORS = 6.0
LENGTH, RUNS, WINDOW = 120, 240, 5


def made(seed=0, length=LENGTH, runs=RUNS):
    """Runs that learn at once; those of the first half fall at times of their own. Noise that knows nothing."""
    random = np.random.default_rng(seed)
    falls = np.where(np.arange(runs) < runs // 2, random.integers(40, 90, runs), length)
    steps = np.arange(length)[:, None]
    returns = np.where((steps > 0) & (steps < falls), 1.0, 0.0)
    return {"batch_return": returns, "noise": random.normal(size=(length, runs))}, falls


def asked(columns, signal="noise", **changes):
    return sim.predict(
        columns, signal, **{"event": "collapse", "lead": (0, 10), "watch": None, "window": WINDOW, **changes}
    )


def test_times_and_counts_are_those_that_were_planted():
    columns, falls = made()
    found = asked(columns)
    # Three of five returns have to be low.
    np.testing.assert_array_equal(found.course.collapsed[: RUNS // 2], falls[: RUNS // 2] + 2)
    assert found.runs == {"collapsed": RUNS // 2, "recovered": 0, "healthy": RUNS // 2, "never learned": 0}


def test_noise_has_an_area_of_one_half():
    columns, _ = made(seed=1, runs=2000)
    area = asked(columns).alarms["noise"].unequal[0]
    assert abs(area.value - 0.5) < ERRORS * area.error


def test_a_signal_that_rises_twenty_updates_ahead_is_seen_there_and_not_before():
    columns, falls = made()
    columns["noise"] += 100.0 * (np.arange(LENGTH)[:, None] >= falls - 20) * (falls < LENGTH)
    alarm = asked(columns, Signal("noise", window=1), lead=(0, 15, 30)).alarms["noise"]
    assert alarm.unequal[0].value == alarm.unequal[15].value == 1.0 and alarm.unequal[30].value < 0.7
    assert alarm.detections.value == 1.0 and abs(alarm.false_alarms.value - 0.1) < ERRORS * alarm.false_alarms.error


def test_misses_and_updates_ahead_are_printed_as_they_were_planted():
    """Of 20 collapses 15 are told, five each 10, 20 and 30 updates before the fall, which is noticed two later.

    Clopper and Pearson's ends solve P(K >= 5) = 0.025 and P(K <= 5) = 0.025 for K of 20. Planted: misses among the
    median, and the standard error's interval, which passes for exact where few are missed.
    """
    columns, falls = made(runs=40)
    ahead = np.resize([10, 20, 30, 0], 40)
    columns["noise"] += 100.0 * ((np.arange(LENGTH)[:, None] >= falls - ahead) & (falls < LENGTH) & (ahead > 0))
    found = asked(columns, Signal("noise", window=1), lead=(0,))
    alarm = found.alarms["noise"]
    share, low, high = alarm.missed
    # The level is that of noise, which now and then exceeds it earlier.
    quiet = asked(columns, Signal("noise", window=1), lead=(0,), rate=1e-9).alarms["noise"]
    assert (quiet.missed[0], quiet.ahead) == (0.25, 22.0) and share == 1.0 - alarm.detections.value
    few = stats.binom(20, np.array(quiet.missed[1:]))
    assert few.sf(4)[0] == pytest.approx(0.025) and few.cdf(5)[1] == pytest.approx(0.025)
    line = (
        f"noise above {alarm.level:.4g} (mean of 1 update) announces {1 - share:.2f} [{1 - high:.2f}, {1 - low:.2f}] "
    )
    line += f"of collapses at least 0 updates ahead (median {alarm.ahead:g}); false alarms in "
    assert f"{line}{alarm.false_alarms.value:.2f} of healthy runs in a whole history\n" in str(found)
    none = asked({**columns, "noise": np.arange(LENGTH)[:, None] % 2 + 0.0 * falls}, Signal("noise", window=1))
    assert math.isnan(none.alarms["noise"].ahead) and "nan" not in str(none)


@pytest.mark.parametrize(("watch", "said"), [(None, "the whole history before"), (30, "the last 30 updates before")])
def test_the_history_that_is_scored_is_named(watch, said):
    """One bump in all collapses, 40 updates ahead: a word for the whole history, none for the last 30 updates."""
    columns, falls = made()
    columns["noise"] += 100.0 * (np.arange(LENGTH)[:, None] == np.where(falls < LENGTH, falls - 35, -1))
    found = asked(columns, Signal("noise", window=1), watch=watch)
    assert (found.alarms["noise"].word == "better than chance") == (watch is None)
    assert f"; scored: {said})" in str(found) and f"scored: {said};" in sim.plot(found).get_suptitle()


def test_scores_that_cannot_differ_tell_nothing_and_say_why():
    """All runs begin with the largest number there is, as entropy does. Planted: an area of 0.5 +- 0.001."""
    columns, _ = made(runs=1200)
    columns["noise"][0] = 1e3
    found = asked(columns, Signal("noise", window=1))
    said = "noise: cannot tell whether high noise predicts a collapse: all runs have the same most alarming value"
    assert found.alarms["noise"].word == "cannot tell" and said in str(found) and "announces" not in str(found)
    assert len(sim.plot(found).axes[0].lines) == 1
    # A return is lowest where a run begins: its collapse is seen in the updates just before only.
    low = {"batch_return": columns["batch_return"] + 1e-3 * np.random.default_rng(0).normal(size=(LENGTH, 1200))}
    start = asked(low, "batch_return", lead=(0,))
    assert "of the scored runs the most alarming value comes before the run learned; give watch=5," in str(start)
    assert asked(low, "batch_return", lead=(0,), watch=5).alarms["batch_return"].word == "better than chance"
    # A shorter watch, or the other direction, sees past it.
    for changes in ({"watch": 20}, {"signal": Signal("noise", low=True, window=1)}):
        assert asked(columns, **{"signal": Signal("noise", window=1), **changes}).alarms["noise"].why == ""
    missing = str(asked({**columns, "noise": np.full((LENGTH, 1200), np.nan)}))
    assert "the same most alarming value, or none" in missing
    assert "nan" not in missing and "inf" not in missing.replace("finite", "")


def test_time_alone_moves_an_area_and_not_the_one_at_equal_times():
    """A trend that all runs share, and healthy runs of which half learn late: these are cut late."""
    columns, _ = made(seed=3, runs=800)
    columns["batch_return"][:60, 600:] = 0.0
    columns["noise"] += 0.1 * np.arange(LENGTH)[:, None]
    alarm = asked(columns).alarms["noise"]
    assert abs(alarm.area[0] - 0.5) < 0.05 and alarm.word != "worse than chance"
    assert alarm.unequal[0].value < 0.5 - ERRORS * alarm.unequal[0].error


@pytest.mark.parametrize(
    ("runs", "gain", "said"),
    [
        (240, 100.0, "high noise predicts a collapse better than chance"),
        (240, -100.0, "high noise predicts a collapse worse than chance (high noise goes with survival)"),
        (1200, 0.0, "high noise predicts a collapse no better than chance"),
        (40, 0.0, "cannot tell whether high noise predicts a collapse"),
    ],
)
def test_a_word_says_what_was_planted(runs, gain, said):
    columns, falls = made(runs=runs)
    near = (np.arange(LENGTH)[:, None] >= falls - 20) & (falls < LENGTH)
    columns["noise"] += gain * near if gain >= 0.0 else gain * (falls < LENGTH)
    found = asked(columns)
    more = found.alarms["noise"].more
    assert str(found.alarms["noise"]) == said and f"noise: {said}{more} (area" in str(found)
    assert bool(more) == said.startswith("cannot tell")
    if more:
        # As many more runs tell, where the area is the same.
        times, copies = int(more.split()[2]), {}
        for name, values in columns.items():
            copies[name] = np.tile(values, times)
        assert asked(copies).alarms["noise"].word != "cannot tell"


@pytest.mark.parametrize(("n", "m"), [(8, 8), (23, 51), (60, 12)])
def test_a_word_is_wrong_as_seldom_as_stated(n, m):
    """Exact for the widest law: all scores of the larger side are alike, so that the area is a share of the other side.
    Planted: pairs counted as runs."""
    pairs = alarms.Matched(np.arange(n), np.full(n, 5), n + np.arange(m), np.full((20, m), 5))
    area, reach = alarms.at_equal_times(np.arange(n) * 1.0, np.zeros((20, m)), pairs)
    k = min(n, m)
    assert area == pytest.approx(1.0 - 0.5 / n) and reach == pytest.approx(alarms.band(k))

    def wrong(within):
        shares = np.arange(k + 1) / k
        return stats.binom(k, 0.5).pmf(np.arange(k + 1))[np.abs(shares - 0.5) > within].sum()

    assert wrong(reach) <= 0.05 < wrong(alarms.band(n * m))
    # One healthy run that stands beside every collapse is no more than one.
    pairs = pairs._replace(controls=np.arange(1), control_times=np.full((20, 1), 5))
    assert alarms.at_equal_times(np.zeros(n), np.zeros((20, 1)), pairs)[1] == pytest.approx(alarms.band(1))


def test_the_runs_that_an_area_rests_on_are_counted():
    """A third of the collapses comes too soon after learning; the area must not be said to rest on them."""
    columns, _ = made(runs=60)
    columns["batch_return"][:, :10] = np.where(np.arange(LENGTH)[:, None] == 0, 0.0, (np.arange(LENGTH) < 9)[:, None])
    found = asked(columns)
    assert found.runs["collapsed"] == 30 and found.scored == {"collapsed": 20, "healthy": 30}
    assert "scored: 20 of 30 collapsed, 30 of 30 healthy (the others learned less than 16 updates" in str(found)
    assert found.alarms["noise"].unequal[0].freedom == 19.0
    few = asked({name: values[:, 3:] for name, values in made(runs=20)[0].items()})
    assert few.scored["collapsed"] == 7 and "scored: 7 of 7" in str(few)
    # A fourth of the gain is too little to have learned, and enough to collapse elsewhere.
    columns["batch_return"][:, :5] *= 0.25
    assert (found.runs["never learned"], asked(columns).runs["never learned"]) == (0, 5)
    assert "learned or not: 30 here\nscored" in str(asked(columns))
    assert "and 7 of 7 collapsed are; take about 3 times as many runs" in few.reason
    assert "at least 8 of each" in sim.plot(few).axes[0].get_title("left")


def test_the_picture_has_the_alarm_rates_of_every_level():
    columns, _ = made()
    found = asked({**columns, "other": -columns["noise"]}, ["noise", "other"])
    figure = sim.plot(found)
    chance, *lines = figure.axes[0].lines
    for line, (name, alarm) in zip(lines, found.alarms.items(), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), alarm.roc)
        assert str(line.get_label()).startswith(f"{name}: area") and str(alarm) in figure.get_suptitle()
    assert chance.get_label() == "chance" and "120 collapses and 120 healthy runs" in figure.get_suptitle()


def test_what_happens_from_the_collapse_on_is_never_read():
    columns, _ = made()
    before = asked(columns)
    columns["noise"][before.course.collapsed[0] :, 0] = 1e6
    np.testing.assert_array_equal(asked(columns).alarms["noise"].roc, before.alarms["noise"].roc)


def test_the_area_under_the_points_is_the_area():
    columns, _ = made()
    alarm = asked(columns).alarms["noise"]
    assert np.trapezoid(alarm.roc[:, 1], alarm.roc[:, 0]) == pytest.approx(alarm.unequal[0].value, abs=1e-12)
    assert alarm.roc[0].tolist() == [0.0, 0.0] and alarm.roc[-1].tolist() == [1.0, 1.0]


def test_a_watch_of_its_own_is_a_maximum_over_so_many_updates():
    random = np.random.default_rng(2)
    values, runs, times = random.normal(size=(50, 8)), np.arange(8), np.full(8, 40)
    np.testing.assert_array_equal(alarms.worst(values, runs, times, None, 3), values[:37].max(axis=0))
    np.testing.assert_array_equal(alarms.worst(values, runs, times, 20, 3), values[20:37].max(axis=0))
    for watch in (None, 40):
        np.testing.assert_array_equal(
            alarms.announced(values, runs, times, watch, 1.5), alarms.announced(values, runs, times, 40, 1.5)
        )


@pytest.mark.parametrize("controls", [3, 6, 7])
def test_an_area_without_a_misplaced_score_keeps_an_error(controls):
    """1/6 added six times is not 1: rounding must not pass for an error."""
    found = alarms.auc(np.arange(10.0, 14.0), np.arange(float(controls)))
    assert found.value == 1.0 and found.error > 0.01
    assert alarms.auc(np.zeros(5), np.zeros(controls)).value == 0.5


@pytest.mark.parametrize("metric", ["noise", "batch_return"])
def test_a_signal_of_k_in_a_row_is_their_smallest_and_a_change_forgets_the_level(metric):
    columns, _ = made()
    values, row = columns[metric], Signal(metric, over="smallest", window=3)(columns)
    np.testing.assert_array_equal(row[2:], np.minimum(np.minimum(values[2:], values[1:-1]), values[:-2]))
    assert (row[:2] == -np.inf).all()
    change = Signal(metric, window=2, past=4)
    np.testing.assert_allclose(change({metric: values + 7.0})[6:], change(columns)[6:], atol=1e-12)


def test_what_is_feared_low_is_a_metric_that_falls_where_a_policy_collapses():
    """Planted: the wrong side for a policy that falls onto one answer, as its entropy and its ESS do."""
    assert set(alarms.LOW.split()) <= set(plugins.listed("asyncsim.diagnostics"))
    sides = {"ess": (True, True), "ess_token": (True, True), "exact_return": (True, False), "entropy": (True, False)}
    for name, side in {**sides, "kl": (False, False), "gradient_norm": (False, True), "scores": (True, False)}.items():
        read = alarms.signal_of(name)
        assert (read.low, read.log) == side
    columns, falls = made()
    columns["entropy"] = np.where(np.arange(LENGTH)[:, None] >= falls - 20, 0.1, 1.0) + 0.01 * columns["noise"]
    found = asked(columns, ["entropy", Signal("entropy")])
    assert [each.word for each in found.alarms.values()] == ["better than chance", "cannot tell"]
    assert "low entropy predicts a collapse better than chance" in str(found)


def test_missing_numbers_raise_no_alarm():
    gap = {"x": np.array([[1.0], [np.nan], [3.0], [np.nan]])}
    assert Signal("x", window=1)(gap)[:, 0].tolist() == [1.0, -np.inf, 3.0, -np.inf]
    assert Signal("x", window=2, over="smallest")(gap)[:, 0].tolist() == [-np.inf] * 4
    assert Signal("x", window=1, over="largest", low=True)(gap)[1, 0] == -np.inf


def test_a_run_that_diverged_has_fallen():
    columns, _ = made()
    columns["batch_return"][60:, -1] = np.nan
    found = asked(columns)
    assert found.course.collapsed[-1] == 62 and found.runs["collapsed"] == RUNS // 2 + 1
    # A return that is missing for some updates only is none.
    columns["batch_return"][60:70, -2] = np.nan
    assert asked(columns).course.collapsed[-2] == -1


def test_logs_are_read_as_columns_are(tmp_path):
    columns, _ = made(runs=40)
    paths = []
    for run in range(40):
        rows = [{name: float(values[u, run]) for name, values in columns.items()} for u in range(LENGTH)]
        if run % 2:
            paths.append(tmp_path / f"{run}.jsonl")
            paths[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            paths.append(tmp_path / f"{run}.csv")
            lines = [",".join(rows[0]), *(",".join(map(repr, row.values())) for row in rows)]
            paths[-1].write_text("\n".join(lines) + "\n")
    read, given = asked(paths), asked(columns)
    assert str(read) == str(given) and len(read.alarms) == 1


def test_a_trace_and_two_of_its_kind():
    method, update = sim.methods.truncated_is("sequence", cap=8.0), (sim.updates.clip_norm(1.0), sim.updates.adam(0.3))
    parts = {"system": sim.schedules.fixed(64, groups_per_batch=2), "method": method, "update": sim.chain(*update)}
    sizes = {"updates": 40, "replicates": 6, "diagnostics": ["batch_return", "ess"]}
    spec = small.spec(task=sim.tasks.token_bandit(4, 32), **parts, **sizes)
    first, second = (sim.run(spec, seed=seed, progress=False) for seed in (0, 1))
    found = sim.predict([first, second], "ess", start=0.25, best=1.0)
    assert sum(found.runs.values()) == 12 and "at least 8 of each" in found.reason and not found.alarms
    assert found.course.learned.tolist()[:6] == sim.predict(first, "ess", start=0.25, best=1.0).course.learned.tolist()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"signal": "nois"}, "metric = 'nois'"),
        ({"signal": 3}, "signal = 3"),
        ({"signal": []}, "signal = []"),
        ({"signal": "-noise"}, "a metric's name without a sign; Signal('noise', low=True) fears small values"),
        ({"returns": "income"}, "metric = 'income'"),
        ({"lead": (-1,)}, "lead = -1"),
        ({"lead": ()}, "lead = []"),
        ({"watch": 5}, "watch = 5"),
        ({"window": 0}, "window = 0"),
        ({"rate": 1.0}, "rate = 1.0"),
        ({"best": -1.0}, "best = -1.0"),
    ],
)
def test_bad_input_is_refused_by_name(changes, said):
    columns, _ = made(runs=20)
    refused(re.escape(said), asked, columns, **changes)


def test_bad_runs_are_refused_by_name(tmp_path):
    columns, _ = made(runs=20)
    short = {name: values[:50] for name, values in columns.items()}
    refused("recorded updates", asked, [columns, short])
    refused("noise of runs", asked, {**columns, "noise": ["a"] * LENGTH})
    for runs in (3, [], {"batch_return": []}):
        refused(r"runs|metric|batch_return", asked, runs)
    refused("path", asked, tmp_path / "none.csv")


@pytest.mark.parametrize(("runs", "error"), [(0, 0.1), (8, 1.0), (8, "much")])
def test_a_band_refuses_what_is_no_share(runs, error):
    refused("", alarms.band, runs, error)


@pytest.mark.parametrize(("runs", "error"), [(8, 0.2), (12, 0.2), (40, 0.05)])
def test_a_curve_leaves_its_band_as_seldom_as_stated(runs, error):
    """Exact, by Kolmogorov's law, and never above Massart's bound. Planted: two evaluations of a run counted as two."""
    leaves = stats.kstwo(runs).sf
    assert 0.7 * error < leaves(alarms.band(runs, error)) <= error < 2.0 * error < leaves(alarms.band(2 * runs, error))


def area_over_orders(auc, area, cases, controls):
    """Mean and variance of the area, and the mean square of its error, over every order of exponential scores.

    Those of controls are `odds` times smaller. Of those left the next smallest is a case or not by their rates.
    """
    odds, runs, found = area / (1.0 - area), np.arange(cases + controls), []
    for places in itertools.combinations(runs, cases):
        is_case = np.isin(runs, places)
        left, others = cases - (np.cumsum(is_case) - is_case), controls - (np.cumsum(~is_case) - ~is_case)
        one = auc(runs[is_case], runs[~is_case])
        found.append((np.prod(np.where(is_case, left, odds * others) / (left + odds * others)), one.value, one.error))
    chance, value, error = np.array(found).T
    return [chance @ value, chance @ (value - chance @ value) ** 2, chance @ error**2]


@pytest.mark.parametrize(("area", "n", "m"), [(0.8, 3, 5), (0.9, 6, 3), (0.5, 3, 2)])
def test_areas_spread_as_hanley_and_mcneil_say_and_their_error_knows(area, n, m):
    """Var = (A (1 - A) + (n - 1)(Q_1 - A^2) + (m - 1)(Q_2 - A^2))/(n m), Q_1 = A/(2 - A) the chance that two collapses
    both score above one other run, Q_2 = 2 A^2/(1 + A) that one does above two. Placements make the squared error too
    large by (A + A^2 - Q_1 - Q_2)/(n m); where no score is out of place, e (1 - e)/min(n, m) stands in, e = 1/(2 n m).
    Planted: steps counted as runs, and the least alarming collapse left out.
    """
    first, second, odds, least = area / (2.0 - area), 2.0 * area**2 / (1.0 + area), area / (1.0 - area), 0.5 / (n * m)
    spread = (area - area**2 + (n - 1) * (first - area**2) + (m - 1) * (second - area**2)) / (n * m)
    apart = math.prod(odds * k / (odds * k + n) for k in range(1, m + 1))
    apart += math.prod(k / (k + odds * m) for k in range(1, n + 1))
    square = spread + (area + area**2 - first - second) / (n * m) + apart * least * (1.0 - least) / min(n, m)
    expected = pytest.approx([area, spread, square], rel=1e-9)
    assert area_over_orders(alarms.auc, area, n, m) == expected
    steps = area_over_orders(lambda x, y: alarms.auc(np.repeat(x, 5), np.repeat(y, 5)), area, n, m)
    fewer = area_over_orders(lambda x, y: alarms.auc(np.sort(x)[1:], y), area, n, m)
    assert steps[:2] == pytest.approx([area, spread], rel=1e-9) and steps[2] < 0.9 * square and fewer[0] > area + 0.01


@pytest.mark.parametrize(("rate", "row"), [(0.04, 1), (0.25, 2), (0.4, 3)])
def test_k_exceedances_in_a_row_wake_a_run_as_often_as_their_chain_says(rate, row, steps=12):
    """Exact, over all patterns of steps. Planted: the mean of the window, and one exceedance more."""
    chain = np.diag(np.full(row, rate), 1) + np.eye(row + 1) * (np.arange(row + 1) == row)
    chain[:-1, 0] = 1.0 - rate
    values = (np.arange(2**steps) >> np.arange(steps)[:, None] & 1).astype(float)
    chance = np.prod(np.where(values == 1.0, rate, 1.0 - rate), axis=0)

    def woken(**changes):
        signal = Signal("x", **{"over": "smallest", "window": row, **changes})
        runs = np.arange(values.shape[1])
        return chance @ (alarms.worst(signal({"x": values}), runs, np.full(len(runs), steps), None) > 0.5)

    expected = np.linalg.matrix_power(chain, steps)[0, -1]
    assert woken() == pytest.approx(expected, rel=1e-12)
    assert woken(window=row + 1) < 0.9 * expected and (row == 1 or woken(over="mean") > 1.1 * expected)


@pytest.mark.parametrize(("fall", "window", "left"), [(12, 5, 0.15), (12, 10, 0.3), (10, 4, 0.3)])
def test_a_fall_counts_once_the_mean_is_below_half(fall, window, left):
    """k of w returns are low: (w - k + k f)/w < 1/2, so k > w/(2 (1 - f)). Planted: no mean at all."""
    returns = np.where(np.arange(200) < fall, 1.0, left)[:, None]
    behind = math.floor(window / (2.0 * (1.0 - left)))
    assert alarms.course(returns, 0.0, 1.0, window).collapsed[0] == fall + behind
    assert alarms.course(returns, 0.0, 1.0, 1).collapsed[0] == fall


def test_a_level_is_judged_by_other_runs_than_those_that_set_it():
    """Of the healthy runs every second one scores 1, the others 0: a level set on these wakes at all of those."""
    values = np.concatenate([np.full(20, 0.5), np.arange(20) % 2.0]) * np.ones((5, 1))
    runs, times = np.arange(20), np.full(20, 5)
    pairs = alarms.Matched(runs, times, 20 + runs, times[None])
    assert predicting._alarm(None, values, pairs, [0], None, 0.1, np.zeros(40), "fall").false_alarms.value == 1.0


def test_half_way_is_counted_from_the_start():
    """From 0.5 to 1, half way is 0.75."""
    returns = np.array([[0.7, 0.8]]) * np.ones((10, 1))
    assert alarms.course(returns, 0.5, 1.0, 1).learned.tolist() == [-1, 0]


def test_alarms_and_falls_are_those_of_the_gallery():
    """Planted: collapses in place of falls, and a level set on other stretches than those that are watched."""
    columns, falls = made()
    steps, returns = np.arange(LENGTH)[:, None], columns["batch_return"]
    returns[:, :60] = np.where(steps > falls[:60] + 15, 1.0, returns[:, :60])
    columns["noise"] += 0.3 * (steps > falls - 20)
    found = sim.predict(columns, "noise", lead=[10], rate=gallery.FALSE)
    shown = gallery.fallen(returns, 0.0, 1.0)
    np.testing.assert_array_equal(found.course.collapsed, shown.collapsed)
    pairs = alarms.matched(shown, alarms.healthy(shown), LENGTH, gallery.WATCH, 0, 0)
    alarm, score = found.alarms["noise"], Signal("noise")(columns)
    level = alarms.threshold(alarms.worst(score, pairs.controls, pairs.control_times, 30)[:, ::2], gallery.FALSE)
    first = alarms.announced(score, pairs.cases, pairs.case_times, 30, level)
    assert (alarm.level, alarm.detections.value) == (level, (first > 10).mean())


@pytest.mark.parametrize(("rate", "half"), [(0.05, True), (0.0005, False)])
def test_too_few_falls_end_in_a_command_that_finds_a_setting(rate, half):
    method, update = sim.methods.truncated_is("sequence", cap=10.0), sim.chain(sim.updates.adam(rate))
    sizes = {"samples_per_group": 8, "updates": 150, "replicates": 16}
    spec = sim.Spec(sim.tasks.token_bandit(8, 16), sim.schedules.fixed(16), method, update, **sizes)
    command = sim.predict(sim.run(spec, seed=0, progress=False)).reason.partition("print(")[2]
    note = str(eval(command[:-1], {"sim": sim, "spec": spec})).splitlines()[-2]
    assert ("nearest to half: staleness=" if half else "about half fall on token_bandit(8, 16)") in note
