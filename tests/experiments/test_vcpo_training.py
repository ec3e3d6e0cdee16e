"""VCPO's training curves: exact returns, what counts as a collapse, which arm collapses, and a figure of the rows."""

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib import colors
from scipy import stats

from asyncsim.base import uncertainty
from asyncsim.base.checks import InputError
from asyncsim.base.rng import Stream
from asyncsim.plotting import _style
from experiments import _store, _vcpo, league, vcpo_training
from paper_figures import vcpo_rates
from paper_figures import vcpo_training as figure
from tests.experiments._lab import rows_of

rows = rows_of("vcpo_training", quick=True)


class Here:
    """A step of a run as the return's metric sees it."""

    def __init__(self, task, policy, parameters):
        self.task, self.policy, self.parameters = task, policy, parameters


def logits(task):
    policy = task.policy()
    drawn = Stream(3, "logits").uniform(np.arange(5)[:, None], np.arange(policy.size))
    return policy, torch.from_numpy(3.0 * drawn - 1.5)


@pytest.mark.parametrize("task", [_vcpo.PROBLEMS["graded"], league.TASKS["graded"]], ids=["32 tokens", "16 tokens"])
def test_the_return_of_the_chain_is_that_of_powers_of_its_matrix(task):
    policy, parameters = logits(task)
    found = _vcpo.expected(Here(task, policy, parameters)).numpy()
    table = torch.softmax(parameters.reshape(5, policy.rows, -1), -1).numpy()

    def by_powers(first, following, length=task.horizon):
        law = [first @ np.linalg.matrix_power(following, t) for t in range(length)]
        return np.mean([each[0] for each in law])

    np.testing.assert_allclose(found, [by_powers(p[0], p[1:]) for p in table], rtol=1e-12)
    wrong = np.array([by_powers(p[0], p[:-1]) for p in table])
    assert (np.abs(found - wrong) > 1e-4).all()
    longer = np.array([by_powers(p[0], p[1:], 2 * task.horizon) for p in table])
    assert (np.abs(found - longer) > 1e-4).any()


def test_the_entropy_is_that_of_the_chains_own_tokens():
    task = _vcpo.PROBLEMS["graded"]
    policy, parameters = logits(task)
    found = _vcpo.entropy(Here(task, policy, parameters)).numpy()
    table = torch.softmax(parameters.reshape(5, policy.rows, -1), -1).numpy()
    rows = -(table * np.log(table)).sum(-1)
    law = [[p[0] @ np.linalg.matrix_power(p[1:], t) for t in range(_vcpo.LENGTH - 1)] for p in table]
    right = [(h[0] + sum(each @ h[1:] for each in own)) / _vcpo.LENGTH for h, own in zip(rows, law, strict=True)]
    np.testing.assert_allclose(found, right, rtol=1e-12)
    assert (np.abs(found - rows.mean(axis=1)) > 1e-4).all()
    bits, at = logits(_vcpo.PROBLEMS["exact"])
    uniform = _vcpo.entropy(Here(_vcpo.PROBLEMS["exact"], bits, torch.zeros_like(at))).numpy()
    np.testing.assert_allclose(uniform, np.log(2), rtol=1e-12)


@pytest.mark.parametrize("problem", ["exact", "noisy"])
def test_the_return_of_the_bits_is_the_tail_of_their_count(problem):
    policy, parameters = logits(_vcpo.PROBLEMS[problem])
    found = _vcpo.expected(Here(_vcpo.PROBLEMS[problem], policy, parameters)).numpy()
    right = torch.softmax(parameters.reshape(5, policy.rows, -1), -1)[..., 0].numpy()
    law = [stats.poisson_binom.pmf(np.arange(_vcpo.LENGTH + 1), p) for p in right]
    np.testing.assert_allclose(found, [each[20:].sum() for each in law], rtol=1e-9)
    assert (np.abs(found - [each[19:].sum() for each in law]) > 1e-4).all()


def test_a_collapse_is_a_gain_that_was_lost():
    rise, fall = np.linspace(0.1, 0.89, 50), np.linspace(0.89, 0.1, 50)
    kept = np.concatenate([rise, np.full(50, 0.89)])
    lost = np.concatenate([rise, fall])
    half = np.concatenate([rise, np.linspace(0.89, 0.55, 50)])
    never = 0.1 + 0.05 * np.sin(np.arange(100))
    found = _vcpo.outcome(np.stack([kept, lost, half, never], axis=1))
    assert found.collapsed.tolist() == [False, True, False, False]
    assert found.solved.tolist() == [False] * 4 and found.final[0] == pytest.approx(0.89)
    assert found.onset[0] == 99 and 50 <= found.onset[1] <= 60


def test_a_spike_and_what_follows_are_read_around_the_onset():
    norm = np.full((200, 3), 0.5)
    norm[100, 0], norm[108:, 0] = 20.0, 0.005
    spike, after = vcpo_training.around(norm, np.array([0, 1]), np.array([100, 100]))
    assert spike.tolist() == [40.0, 1.0] and after.tolist() == [0.01, 1.0]
    assert vcpo_training.around(norm, np.array([0]), np.array([60]))[0].tolist() == [1.0]


@pytest.mark.parametrize("n", [5, 16, 31, 256])
def test_the_interval_of_a_median_covers(n):
    found = _vcpo.median(np.arange(n, dtype=float))
    low, high = int(found["low"]), int(found["high"])
    # The median lies between the order statistics low + 1 and high + 1, counted from 1, with the chance that low + 1 to
    # high of n values lie below it. All of five cover 94 percent, and no interval from order statistics can do better.
    chance = stats.binom.cdf(high, n, 0.5) - stats.binom.cdf(low, n, 0.5)
    assert chance >= (0.95 if n > 5 else 0.93)
    assert stats.binom.cdf(high - 1, n, 0.5) - stats.binom.cdf(low + 1, n, 0.5) < 0.95


def test_the_interval_of_a_share_is_wilsons():
    hits = np.array([True] * 3 + [False] * 17)
    found, right = _vcpo.share(hits), stats.binomtest(3, 20).proportion_ci(method="wilson")
    assert (found["low"], found["high"]) == pytest.approx((right.low, right.high), abs=1e-12)
    assert _vcpo.share(np.zeros(9, dtype=bool))["low"] == 0.0


def finals(staleness, baseline, tail):
    links = _vcpo.update("adam", 0.2, *tail)
    found = _vcpo.train("graded", staleness, baseline, links, 300, 96, 5, record=("ess",))
    return _vcpo.outcome(found["policy_return"]), found["ess"]


@pytest.mark.rows
def test_vcpo_ends_higher_at_staleness_32_and_the_same_arm_twice_or_no_staleness_would_not_show_it():
    # A true difference of zero exceeds 6 standard errors in 1e-9 of cases at 95 degrees of freedom; seeds are fixed.
    (stale, low), (vcpo, _) = finals(32, "group mean", ()), finals(32, "opob", (_vcpo.ess_step("adam"),))
    gain = uncertainty.between(vcpo.final - stale.final)
    assert gain.value > 6 * gain.error and not vcpo.collapsed.any()
    (sync, whole), (other, _) = finals(0, "group mean", ()), finals(0, "opob", (_vcpo.ess_step("adam"),))
    none = uncertainty.between(other.final - sync.final)
    assert abs(none.value) < 6 * none.error
    np.testing.assert_allclose(whole, 1.0, atol=1e-9)
    assert low.min() >= 1 / _vcpo.SAMPLES - 1e-12 and low[4:].mean() < 0.5


def test_quick_rows_are_as_declared(rows):
    assert set(rows.part) == {"step", "curve", "end", "anatomy"}
    known = rows[rows.value.notna()]
    assert (known.low <= known.value + 1e-12).all() and (known.value <= known.high + 1e-12).all()
    assert (rows[rows.value.isna()].note != "").all() and (rows[rows.value.isna()].samples == 0).all()
    synchronous = rows[(rows.staleness == 0) & (rows.part == "curve") & (rows.quantity == "ess")]
    np.testing.assert_allclose(synchronous.value, 1.0, atol=1e-9)


def steps_of(rows, case):
    own = rows[(rows.part == "step") & (rows.problem == case[0]) & (rows.optimizer == case[1])]
    return own[own.quantity == "mean_return"].set_index("step").value.sort_index()


@pytest.mark.committed
@pytest.mark.parametrize("case", vcpo_training.CASES, ids=str)
def test_the_step_is_the_one_the_rule_takes_from_the_committed_grid(case):
    try:
        rows = _store.read("vcpo_training")
    except InputError as error:
        pytest.skip(f"no committed rows: {error}")
    found = steps_of(rows, case)
    assert list(found.index) == sorted(vcpo_training.CASES[case][1])
    assert found.idxmax() not in (found.index[0], found.index[-1])
    assert found.idxmax() == vcpo_training.CASES[case][0]


def test_the_step_differs_where_a_bolder_one_is_taken_and_ends_are_read_early_and_late(rows):
    ends = rows[(rows.part == "end") & (rows.quantity == "final")]
    oldest = ends[ends.staleness == _vcpo.OLDEST]
    for case, own in oldest.groupby(["problem", "optimizer"]):
        np.testing.assert_allclose(own.step, own.factor * vcpo_training.CASES[case][0])
    bolder = oldest[oldest.factor != 1.0]
    assert set(bolder.factor) == set(vcpo_training.FACTORS) and set(bolder.problem) == set(_vcpo.PROBLEMS)
    assert (oldest.groupby(["problem", "optimizer", "arm", "factor"]).horizon.nunique() == 2).all()
    assert (ends[ends.staleness < _vcpo.OLDEST].horizon == 60).all()


def test_an_early_end_is_that_of_a_run_that_stops_there():
    setting = {**vcpo_training.QUICK[-1], "factors": [2.0], "horizons": [20, 30]}
    both, short = vcpo_training.run(setting), vcpo_training.run({**setting, "horizons": [20]})
    early = [row for row in both if row["horizon"] == 20]
    assert pd.DataFrame(early).equals(pd.DataFrame(short))
    late = [row["value"] for row in both if row["horizon"] == 30 and row["quantity"] == "final"]
    assert late != [row["value"] for row in early if row["quantity"] == "final"]


def test_multiples_of_a_step_in_one_run_are_the_runs_at_those_steps():
    # The replicates of the first multiple have the numbers, so the draws, of a run with that step alone.
    setting = {**vcpo_training.QUICK[-1], "factors": [2.0, 4.0]}
    both = pd.DataFrame(vcpo_training.run(setting))
    alone = pd.DataFrame(vcpo_training.run({**setting, "factors": [2.0]}))
    assert both[both.factor == 2.0].reset_index(drop=True).equals(alone)
    finals = both[(both.quantity == "final") & (both.horizon == 30)]
    assert finals.value.nunique() == 2


def containers(ax, color):
    """Errorbar points of one color."""
    wanted = colors.to_rgba(_style.COLORS[color])
    return [box for box in ax.containers if colors.to_rgba(box[0].get_color()) == wanted]


def test_the_figure_draws_the_rows(rows):
    curves, collapsed = figure.draw(rows).axes
    ends = rows[(rows.part == "end") & (rows.problem == "graded") & (rows.optimizer == "adam") & (rows.factor == 1.0)]
    assert collapsed.get_ylabel() == "runs that collapse"
    for arm, color in (("truncated", "weights"), ("vcpo", "vcpo")):
        right = ends[(ends.arm == arm) & (ends.quantity == "collapsed")].sort_values("staleness")
        (box,) = containers(collapsed, color)
        np.testing.assert_allclose(box[0].get_ydata().astype(float), right[right.horizon == 60].value, rtol=1e-12)
        assert box.has_yerr
    # A band around every curve, and the rows in it.
    assert len(curves.collections) == 3
    lines = [line for line in curves.lines if line.get_linewidth() > 1 and line.get_marker() != "None"]
    for line, arm in zip(lines, figure.ARMS, strict=True):
        right = figure.arm_rows(rows[rows.part == "curve"], arm)
        right = right[(right.quantity == "return") & (right.replicate < 0)].sort_values("update")
        np.testing.assert_allclose(line.get_ydata(), right.value, rtol=1e-12)


def test_multiples_of_the_step_are_drawn_from_the_last_end_of_each(rows):
    last = {0.5: 30, 1.0: 90, 2.0: 30, 4.0: 30}
    ends = rows[(rows.part == "end") & (rows.quantity == "final") & (rows.optimizer == "adam")]
    ends = ends[(ends.staleness == 128) & (ends.horizon == ends.factor.map(last))].sort_values("factor")
    for ax, problem in zip(vcpo_rates.draw(rows).axes, ("graded", "noisy"), strict=True):
        for arm, color in (("truncated", "weights"), ("vcpo", "vcpo")):
            (box,) = containers(ax, color)
            right = ends[(ends.arm == arm) & (ends.problem == problem)]
            assert list(right.factor) == [0.5, 1.0, 2.0, 4.0] and box.has_yerr
            np.testing.assert_allclose(box[0].get_ydata().astype(float), right.value, rtol=1e-12)


def test_the_run_shown_as_a_collapse_is_one(rows):
    def run(values):
        place = {"problem": "graded", "optimizer": "adam", "staleness": 32, "arm": "truncated", "quantity": "return"}
        return [{**place, "update": 4 * u, "replicate": 0, "value": v} for u, v in enumerate(values)]

    kept, lost = run(np.linspace(0.1, 0.9, 40)), run(np.r_[np.linspace(0.1, 0.9, 20), np.full(20, 0.1)])
    both = pd.DataFrame(kept + [{**row, "replicate": 1} for row in lost])
    assert set(figure.collapsing(both).replicate) == {1}
    assert figure.collapsing(pd.DataFrame(kept)).empty
