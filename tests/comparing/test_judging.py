"""`judge_runs` on 400 simulated pairs a case: how often its words are wrong, and that mistakes of others would show.

Each rate is held to the error of 0.05 by a bound that a correct method exceeds with probability 0.001; seeds are fixed.
"""

import itertools

import numpy as np
import pytest
from scipy import signal, stats

from asyncsim.comparing import judging
from asyncsim.diagnosing import judging as judged
from tests import refusals

PAIRS, ERROR, STEPS = 400, 0.05, 201
MOST = stats.binom.ppf(0.999, PAIRS, ERROR) / PAIRS
"""Largest rate that is accepted."""
STRETCH = slice(int(0.8 * STEPS), STEPS)
FILTERS = {"white": 0.0, "phi 0.5": 0.5, "phi 0.9": 0.9, "phi 0.98": 0.98, "random walk": 1.0}


def curves(noise, shape, seed):
    """Noise of curves `[..., U]`; "t3" has heavy tails, in "collapses" a tenth of the runs fall."""
    random = np.random.default_rng([seed, *noise.encode()])
    drawn = random.standard_t(3, size=shape) if noise == "t3" else random.normal(size=shape)
    made = signal.lfilter([1.0], [1.0, -FILTERS.get(noise, 0.0)], 0.02 * drawn, axis=-1)
    if noise == "collapses":
        lost = (random.random((*shape[:-1], 1)) < 0.1) * random.random((*shape[:-1], 1))
        made -= lost * (np.arange(shape[-1]) > shape[-1] * random.random((*shape[:-1], 1)))
    return made


def windows(series, count):
    """Means of windows of the last fifth, as a run of the product has them: they are linear in the curve."""
    steps = np.arange(float(STEPS))
    unit = [judged.Curve("", "", "", "", steps, steps, row, None) for row in np.eye(STEPS)]
    return series @ np.array([each.windows(160.0, 200.0, count) for each in unit])


def rates(noise, counts, gap=0.0, within=None, seed=0, spread=0.02, read=lambda numbers, steps: numbers, **known):
    """Share of pairs with each word; arms of so many runs, whose level varies between seeds."""
    words = []
    arms = [curves(noise, (PAIRS, n, STEPS), [seed, k][k > 0] + 10 * k) for k, n in enumerate(counts)]
    level = np.random.default_rng(seed + 99).normal(size=(PAIRS, sum(counts), 1)) * spread
    parts = np.split(level, np.cumsum(counts)[:-1], axis=1)
    arms = [arm + part + gap * (k == 1) for k, (arm, part) in enumerate(zip(arms, parts, strict=True))]
    numbers = [read(windows(arm, 16).mean(-1), arm[..., STRETCH]) for arm in arms]
    pilot = numbers[2] if len(counts) > 2 else np.empty((PAIRS, 0))
    for pair in zip(*numbers[:2], pilot, strict=True):
        found = judged._between(list(pair), known.get("seed_spread"), ERROR)
        words.append(judged._word(found, within, "higher"))
    return {word: words.count(word) / PAIRS for word in ("better", "worse", "equal", "cannot tell")}


@pytest.mark.parametrize("noise", [*FILTERS, "t3", "collapses"])
@pytest.mark.parametrize("counts", [(2, 2), (3, 3), (5, 5), (2, 5)])
def test_arms_that_do_not_differ_are_rarely_called_better_or_worse(noise, counts):
    found = rates(noise, counts)
    assert found["better"] + found["worse"] <= MOST
    # One run more or less decides nothing: the interval is not so wide that it is never wrong.
    assert found["cannot tell"] < 1.0 or noise == "collapses" or counts == (2, 5)


@pytest.mark.parametrize("counts", [(2, 2), (3, 3), (5, 5)])
def test_arms_that_differ_by_what_matters_are_rarely_called_equal(counts):
    worst = max(rates("white", counts, gap=x, within=x)["equal"] for x in (0.01, 0.04, 0.12))
    assert worst <= MOST
    assert rates("white", counts, gap=0.0, within=0.5)["equal"] > 0.6


@pytest.mark.parametrize("power", [0.8, 0.9])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_planned_number_of_seeds_finds_the_effect(seeds, power):
    # Of a run's number: the spread of its level and that of its noise, a mean of 40 steps.
    spread = float(np.hypot(0.02, 0.02 / np.sqrt(40.0)))
    found = rates("white", (seeds, seeds), gap=judged.findable(seeds, ERROR, power) * spread)
    assert found["better"] >= stats.binom.ppf(0.001, PAIRS, power) / PAIRS and found["worse"] == 0.0
    fewer = rates("white", (seeds, seeds), gap=0.5 * judged.findable(seeds, ERROR, power) * spread)
    assert fewer["better"] < 0.6


def test_one_seed_decides_only_with_a_spread_that_is_given():
    assert rates("white", (1, 1), gap=1.0)["cannot tell"] == rates("white", (1, 3), gap=1.0)["cannot tell"] == 1.0
    spread = float(np.hypot(0.02, 0.02 / np.sqrt(40.0)))
    for counts, known in (((1, 1), {"seed_spread": spread}), ((1, 1, 3), {}), ((2, 1, 5), {})):
        found = rates("white", counts, **known)
        assert 0.0 < found["better"] + found["worse"] <= MOST
    assert rates("white", (1, 1), seed_spread=spread, gap=4.6 * spread)["better"] > 0.8
    # A spread that is half of the true one is caught as a defect.
    assert sum(rates("white", (1, 1), seed_spread=spread / 2.0)[word] for word in ("better", "worse")) > 2.0 * MOST


def test_a_method_that_takes_steps_for_seeds_is_caught():
    found = rates("phi 0.9", (3, 3), read=lambda numbers, steps: steps.reshape(PAIRS, -1))
    assert found["better"] + found["worse"] > 5.0 * MOST


def inside(noise, seed=0, gap=0.0, length=STEPS, count=16):
    """Difference of each pair over half of its interval; 0 where the noise outlasts the stretch."""
    one, two = (curves(noise, (PAIRS, length), seed + k) for k in (1, 2))
    apart = two - one
    value, half, _ = judging.inside_runs(windows(apart, count) + gap)
    return np.where(np.isfinite(half), np.abs(value) / half, 0.0), apart[:, STRETCH]


@pytest.mark.parametrize("noise", [*FILTERS, "t3"])
def test_two_runs_of_one_level_rarely_differ_beyond_their_noise(noise):
    assert (inside(noise)[0] > 1.0).mean() <= MOST


def test_two_runs_that_differ_are_told_where_noise_forgets_and_an_interval_of_steps_is_caught():
    # Ten standard errors; where noise seems to outlast the stretch, by chance in one pair of six, nothing is told.
    assert (inside("white", gap=10.0 * 0.02 * np.sqrt(2.0 / 40.0))[0] > 1.0).mean() > 0.6
    for noise in ("phi 0.5", "phi 0.9", "random walk"):
        steps = inside(noise)[1]
        t = steps.mean(-1) / (steps.std(-1) / np.sqrt(steps.shape[-1]))
        assert (np.abs(t) > 1.96).mean() > 2.0 * MOST
    # Nor would the cosines do without the look at their slope.
    mean, slow, _ = judging.cosines(windows(curves("random walk", (PAIRS, STEPS), 3), 16))
    assert (np.abs(mean) > judging.BOUNDS[16] * np.sqrt(slow)).mean() > 5.0 * MOST


@pytest.mark.parametrize("count", judging.BOUNDS)
def test_the_bound_holds_for_noise_of_every_memory_and_is_no_larger_than_that(count):
    # Memories in stretches; the level before the first window has had ten stretches to spread.
    random, draws, seen = np.random.default_rng(0), 20_000, []
    for memory in (0.0, 1.0, 4.0, 12.0, 24.0, np.inf):
        noise = random.normal(size=(count + 1, draws))
        if np.isfinite(memory):
            kept = np.exp(-memory / count)
            step, before = (-np.expm1(-2 * memory * t) / (2 * memory) if memory else t for t in (1 / count, 10.0))
            noise[0] *= np.sqrt(before)
            for k in range(1, count + 1):
                noise[k] = kept * noise[k - 1] + np.sqrt(step) * noise[k]
        value, half, _ = judging.inside_runs(noise[1:].T)
        seen.append(float((np.abs(value) > half).mean()))
    assert max(seen) < 0.05 + 3.1 * np.sqrt(0.05 * 0.95 / draws)
    assert max(seen) > 0.045


def test_welch_is_that_of_scipy_and_its_freedom_is_bounded_by_the_arm_that_spreads():
    random = np.random.default_rng(0)
    for n, m in itertools.product((3, 4, 7), repeat=2):
        a, b = random.normal(size=n), random.normal(size=m)
        value, half, freedom = judging.between_runs(a, b)
        theirs = stats.ttest_ind(b, a, equal_var=False)
        wide = (a.var(ddof=1) / n >= b.var(ddof=1) / m) if n < m else (b.var(ddof=1) / m >= a.var(ddof=1) / n)
        free = min(theirs.df, min(n, m) - 1) if n != m and wide else theirs.df
        assert freedom == pytest.approx(free)
        ends = theirs.confidence_interval(0.95)
        if free == theirs.df:
            assert (value - half, value + half) == pytest.approx((ends.low, ends.high))


def test_windows_of_another_number_are_refused():
    refusals.refused("windows = 20", judging.inside_runs, np.zeros(20))
