"""`power`: what it plans is what a comparison then takes."""

import math

import numpy as np
import pytest
from scipy import special, stats

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.comparing import deciding, intervals
from tests.comparing.test_deciding import bandit


def test_a_planned_number_finds_the_effect_as_often_as_it_says():
    """400 comparisons of normal numbers at the planned number: 90 percent find it, within a band of 1 in 1,000."""
    level, effect, spread = 0.05, 0.1, 0.5
    # Three times the largest deviation of a thousand numbers.
    count = deciding._enough(spread, 9.7 * spread, effect, 0.9, level)
    looks = int(math.log2(count / deciding.FIRST)) + 1
    rng = np.random.default_rng(4)
    found = 0
    for _ in range(400):
        low, _ = intervals.planned(rng.normal(effect, spread, count), looks, level)
        found += low > 0.0
    assert found >= stats.binom.ppf(1e-3, 400, 0.9)
    # Half as many find it too rarely: the number is not needlessly large.
    few = sum(intervals.planned(rng.normal(effect, spread, count // 2), looks, level).low > 0.0 for _ in range(400))
    assert few < stats.binom.ppf(1e-3, 400, 0.9)


def test_the_spread_that_is_counted_with_is_rarely_too_small():
    rng = np.random.default_rng(5)
    pilots = rng.normal(size=(4000, 64)).std(axis=1, ddof=1) * math.sqrt(63 / special.chdtri(63, deciding.SURE))
    assert (pilots < 1.0).mean() == pytest.approx(0.05, abs=0.015)


def test_a_plan_scales_with_the_effect_and_is_printed():
    a = bandit()
    b = a.replace(method=sim.methods.ppo_clip())
    # Replicates that a spread takes grow with the square of 1/effect, those that rare events take with 1/effect.
    assert deciding._enough(1.0, 0.0, 0.1, 0.9, 0.05) >= 8 * deciding._enough(1.0, 0.0, 0.4, 0.9, 0.05)
    small, large = (sim.power(a, b, effect=effect, metric="batch_return") for effect in (0.0002, 0.0008))
    assert small.replicates >= 4 * large.replicates
    # A loss of half of the range, as rare as the planned replicates may miss, stays below the effect.
    assert 0.5 * math.log(20.0) / small.replicates < 0.0002
    assert small.spread == large.spread < small.unpaired
    assert f"{small.replicates} replicates" in str(small)


@pytest.mark.parametrize(
    ("options", "message"), [({"effect": 0.0}, "effect"), ({"effect": 1.0, "power": 1.0}, "power")]
)
def test_bad_input_is_named(options, message):
    a = bandit()
    with pytest.raises(InputError, match=message):
        sim.power(a, a.replace(system=sim.schedules.fixed(0)), **options)
