"""Step limits: what a collapse is, limits read from a grid, exact returns; committed rows against the rule."""

import itertools
import math

import numpy as np
import pytest
import torch

from experiments import step_limits
from paper_figures import step_limits as figure
from tests.experiments._lab import rows_of


def test_a_collapse_is_half_of_the_largest_gain_lost():
    """Planted: a fall by less than half, a fall without a gain, and a replicate that left the range of numbers."""
    curves = np.array([[0.0, 1.0, 0.4, 0.9], [0.0, 1.0, 0.6, 0.6], [0.0, 0.05, -3.0, -3.0], [0.0, 0.5, np.nan, np.nan]])
    assert step_limits.collapsed(curves.T).tolist() == [2.0, math.inf, math.inf, 2.0]


def test_a_limit_lies_between_neighbors_of_the_grid_and_its_interval_counts_replicates():
    """With 24 replicates 11 of 24 is not a half yet; an interval as wide as a step would not hold 0.1 to 0.8."""
    rates = [0.1, 0.2, 0.4, 0.8]
    times = np.full((4, 24), math.inf)
    times[1, :11], times[2, :12], times[3] = 5, 5, 5
    found = step_limits.limit(rates, times, 6)
    assert found["value"] == pytest.approx(math.sqrt(0.08)) and (found["low"], found["high"]) == (0.1, 0.8)
    assert step_limits.limit(rates, times, 5) == {"horizon": 5, "value": None, "low": None, "high": None}


def test_the_truth_does_not_pay_the_shortcut():
    """Against all sequences, one half of the positions useful; planted: the proxy pays it."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn((8, 4), generator=draw, dtype=torch.float64)
    chance = torch.softmax(logits, -1)[:, 0]
    truth = proxy = 0.0
    for right in itertools.product((0, 1), repeat=8):
        flags = torch.tensor(right, dtype=torch.float64)
        mass = (flags * chance + (1 - flags) * (1 - chance)).prod()
        truth, proxy = truth + mass * (flags[:4].mean() - flags[4:].mean()), proxy + mass * flags.mean()
    found = step_limits.true_return("tokens", logits.reshape(1, -1))[0]
    torch.testing.assert_close(found, truth)
    assert abs(found - proxy) > 0.05


rows = rows_of("step_limits")


@pytest.mark.committed
def test_no_limit_stands_at_an_edge_of_its_grid(rows):
    for arm, rates in step_limits.RATES.items():
        own = rows[(rows.quantity == "limit") & (rows.arm == arm)].value.dropna()
        assert own.between(rates[0] * 1.01, rates[-1]).all()


@pytest.mark.committed
def test_linear_limits_follow_the_rule_and_not_one_of_its_constraints(rows):
    own = rows[(rows.quantity == "limit") & (rows.task == "linear")]
    hits, n = figure.inside(own, lambda row: float(figure.rule(row.staleness, int(row.horizon))))
    assert hits >= 0.8 * n
    drift, stale = figure.drift_constant(), figure.stale_constant()
    for alone in (lambda row: drift / row.horizon, lambda row: stale / (row.staleness + 0.5)):
        assert figure.inside(own, alone)[0] < 0.7 * n


@pytest.mark.committed
def test_staleness_raises_the_limit_of_over_optimized_policies(rows):
    for task in ("tokens", "bandit"):
        own = figure.limits(rows, task, "grpo", 512).set_index("staleness")
        assert own.low[64] > own.high[0]
