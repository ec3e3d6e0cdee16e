"""Hours to a return: the measurement on curves whose answer is known, laws on its rows, and the figure."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from asyncsim import claims, tasks
from experiments import _vcpo_hours as racing
from experiments import vcpo_hours
from paper_figures import vcpo_hours as figure
from paper_figures._vcpo_hours import pick, step_of
from tests.experiments._lab import rows_of

# Standard errors of a two-sided test that a true value fails once in 5e8 fresh runs; the seeds are fixed besides.
ERRORS = 6.0
MAIN = figure.machine(*vcpo_hours.MAIN)

rows = rows_of("vcpo_hours", quick=True)


def test_the_largest_return_is_that_of_the_task_and_nothing_near_it_is_larger():
    bits, needed, penalty = vcpo_hours.BITS, vcpo_hours.NEEDED, vcpo_hours.PENALTY
    best = racing.largest_return(bits, needed, penalty)
    task = tasks.bit_chain(bits, needed / bits, kl_coef=penalty, kl_at="current")
    chance = torch.linspace(0.5, 0.999, 400, dtype=torch.float64)
    table = torch.stack([torch.log(chance), torch.log1p(-chance)], dim=-1)
    found = task.exact(task.policy(), table.repeat(1, bits))[0]
    assert float(found.max()) == pytest.approx(best, abs=1e-4) and float(found.max()) <= best + 1e-9


def test_a_target_counts_as_reached_when_it_is_never_left_again():
    steps = np.arange(100)
    curves = np.stack([
        np.where(steps < 30, 0.0, 1.0),
        np.where((steps < 30) | (steps >= 80), 0.0, 1.0),
        np.where((steps < 30) | (steps == 60), 0.0, 1.0),
        np.ones(100),
    ], axis=1)  # fmt: skip
    # The update of the step itself: neither ten updates later nor one of those before, whose mean is already there.
    assert racing.reached(curves, 0.85).tolist() == [30, -1, 30, 0]
    assert racing.reached(curves, 0.95).tolist() == [30, -1, 61, 0]
    clock = np.tile(np.arange(100) * 0.5, (4, 1))
    np.testing.assert_array_equal(racing.timed(racing.reached(curves, 0.95), clock), [15.0, np.nan, 30.5, 0.0])


def test_a_lag_common_to_all_arms_would_pull_speed_ups_together():
    """Twice as many updates on the same clock are half of the speed; with nine more updates each they would not be."""
    slow, fast = (np.clip(np.arange(200)[:, None] / until * np.ones((1, 40)), 0.0, 1.0) for until in (40.0, 20.0))
    clock = np.tile(np.arange(200.0), (40, 1))
    hours = [racing.timed(racing.reached(one, 1.0), clock) for one in (slow, fast)]
    assert racing.speed_up(*hours, draws=10).value == pytest.approx(math.log(2.0))
    assert racing.speed_up(*(own + 9 for own in hours), draws=10).value == pytest.approx(math.log(49 / 29))


def test_a_policy_exists_when_the_training_before_it_ends():
    clock = racing.known_at(np.array([[1.0, 4.0, 7.0]]), 2.0)
    np.testing.assert_array_equal(clock, [[0.0, 3.0, 6.0]])
    train = vcpo_hours.MAIN[1] * vcpo_hours.LENGTH
    for ahead in (0, 2):
        system = vcpo_hours.system_of(*vcpo_hours.MAIN, ahead)
        batches = system.timeline(6, vcpo_hours.SAMPLES).batches
        start, end = np.asarray(batches["t_start"])[None], np.asarray(batches["t_end"])
        np.testing.assert_array_equal(system.schedule(6, vcpo_hours.SAMPLES, 1, 1, 0).seconds, start)
        np.testing.assert_allclose(racing.known_at(start, train)[0, 1:], end[:-1])
        # From there the next synchronous batch still has to be written.
        assert ahead or (start[0, 1:] > end[:-1]).all()


def test_a_run_that_never_arrives_counts_in_the_median_and_is_not_dropped():
    assert racing.arrived(np.array([1.0, np.nan, 3.0])) == 3.0
    assert math.isnan(racing.arrived(np.array([1.0, np.nan, np.nan])))
    assert racing.arrived(np.arange(8.0), 0.75) == 5.0
    base = np.linspace(9.0, 11.0, 40)
    assert racing.speed_up(base, np.where(np.arange(40) % 3 == 0, np.nan, base)) is None


def test_the_edge_of_the_grid_is_never_the_best_step():
    steps = np.array([0.1, 0.2, 0.4])
    assert racing.chosen(steps, np.array([3.0, 2.0, 2.0])) == (0.2, "")
    for medians in ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [np.nan, np.nan, 1.0], [np.nan] * 3):
        step, reason = racing.chosen(steps, np.array(medians))
        assert math.isnan(step) and reason


def test_a_speed_up_is_the_ratio_of_medians_with_an_interval_that_covers_it():
    random = np.random.default_rng(0)
    inside, trials = 0, 60
    for _ in range(trials):
        shared = random.normal(size=64)
        base = np.exp(1.0 + 0.2 * shared + 0.1 * random.normal(size=64))
        own = np.exp(0.2 * shared + 0.1 * random.normal(size=64))
        found = racing.speed_up(base, own, draws=200)
        inside += abs(found.value - 1.0) < 2.0 * found.error
    assert inside / trials > 0.95 - ERRORS * math.sqrt(0.95 * 0.05 / trials)
    assert racing.speed_up(2.0 * own, own, draws=50).value == pytest.approx(math.log(2.0))


def test_seconds_of_a_synchronous_update_are_the_longest_response_and_training(rows):
    claim = claims.claim("systems/synchronous-throughput")
    for row in pick(rows, "step_seconds", staleness=0, **MAIN).itertuples():
        point = {
            "groups_per_batch": vcpo_hours.GROUPS, "samples_per_group": vcpo_hours.SAMPLES, "rate": 1.0,
            "length": f"lognormal:{vcpo_hours.LENGTH}:{row.sigma}", "train_time": row.train * vcpo_hours.LENGTH,
            "sync_time": 0.0,
        }  # fmt: skip
        error = (row.high - row.low) / 2.0 / 2.1
        assert abs(row.value - claim.predict(point)["step_seconds"]) < ERRORS * error
        for wrong in claim.formula_defects.values():
            assert abs(row.value - wrong(point)["step_seconds"]) > ERRORS * error


def test_far_ahead_the_ratio_of_throughputs_is_the_predicted_one(rows):
    most = int(rows.staleness.max())
    value, low, high = figure.throughput(rows, *vcpo_hours.MAIN, most)
    assert abs(math.log(value / figure.predicted(*vcpo_hours.MAIN))) < ERRORS * math.log(high / low) / 4.2
    # Equal lengths: generating and training in turn or at once, nothing sampled.
    assert figure.throughput(rows, 0.0, 2.0, 2)[0] == pytest.approx(1.5, rel=1e-6)
    assert math.isnan(figure.predicted(0.0, 1.0)), "at the knee the law says nothing"


def test_the_lag_is_what_was_allowed_where_the_trainer_is_the_limit(rows):
    lag = pick(rows, "lag", **MAIN)
    for row in lag.itertuples():
        assert row.value == pytest.approx(row.staleness, abs=0.1)


def test_learning_does_not_depend_on_the_clock_of_synchronous_training(rows):
    """One run is read by every clock: updates agree to the digit, hours are those of a run on that machine."""
    own = pick(rows, "updates", staleness=0, **MAIN).value.to_numpy()
    other = pick(rows, "updates", staleness=0, **figure.machine(0.0, 2.0)).value.to_numpy()
    np.testing.assert_array_equal(own, other)
    setting = {**vcpo_hours.QUICK[0], "sigma": 0.0, "clocks": [(0.0, 2.0)]}
    again = pd.DataFrame(vcpo_hours.run(setting))
    place = {"staleness": 0, **figure.machine(0.0, 2.0)}
    np.testing.assert_array_equal(
        pick(again, "hours", **place).value.to_numpy(dtype=float), pick(rows, "hours", **place).value
    )


def test_who_chooses_is_not_reported(rows):
    setting = vcpo_hours.QUICK[0]
    own = pick(rows, "hours", staleness=0, **MAIN)
    assert own.replicate.nunique() == setting["realizations"] // 2
    chosen = step_of(rows, {**MAIN, "staleness": 0, "method": "tis"})
    best = pick(rows, "selection", staleness=0, **MAIN).set_index("step").value
    assert chosen == best.idxmin() and chosen not in (min(setting["steps"]), max(setting["steps"]))


def test_asynchrony_saves_hours_at_little_staleness_and_costs_updates(rows):
    place = {**MAIN, "staleness": 2, "method": "tis"}
    value, low, _ = figure.gain(rows, place)
    assert low > 1.3 and value < 1.1 * figure.predicted(*vcpo_hours.MAIN)
    far = {**MAIN, "staleness": 16, "method": "tis"}
    own, base = (pick(rows, "updates", step=0.085, **{**far, "staleness": s}).value for s in (16, 0))
    assert racing.arrived(own) > racing.arrived(base) + 8


def test_missing_hours_have_a_reason(rows):
    missing = rows[rows.value.isna()]
    assert len(missing) and missing.reason.notna().all() and rows[rows.value.notna()].reason.isna().all()


def test_the_figure_draws_the_rows_with_intervals_and_predictions_dashed(rows):
    (levels,) = figure.draw(rows).axes
    at = [figure.gain(rows, {**MAIN, "staleness": s, "method": "tis"}) for s in (2, 16)]
    np.testing.assert_allclose(levels.containers[1].lines[0].get_ydata(), [one[0] for one in at if one])
    dashed = [line for line in levels.lines if line.get_linestyle() == "--"]
    assert [set(line.get_ydata()) for line in dashed] == [{figure.predicted(*vcpo_hours.MAIN)}]
    value = figure.throughput(rows, *vcpo_hours.MAIN, 16)[0]
    assert value == pytest.approx(levels.containers[0].lines[0].get_ydata()[-1])
    assert levels.get_xlabel() and all(bars.has_yerr for bars in levels.containers)


def test_numbers_are_those_of_the_rows(rows):
    said = figure.numbers(rows)
    assert said["limit"] == f"{figure.predicted(*vcpo_hours.MAIN):.2f}"
