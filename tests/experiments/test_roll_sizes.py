"""Seconds of rollouts against list scheduling by hand, closed forms and planted defects."""

import heapq
import math

import numpy as np
import pandas as pd

from asyncsim.base.laws import Law
from experiments import roll_sizes as sizes
from paper_figures import _roll_sizes as shared

SETTING = {"batches": 40, "realizations": 3, "seed": 1}
LENGTH = Law.parse(f"lognormal:{sizes.MEAN}:0.5")


def scheduled(work, slots):
    """Seconds until the last of these samples ends, each taken by the first slot that is free."""
    ends = [0.0] * slots
    for each in work:
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends)


def test_a_synchronous_queue_is_list_scheduling_and_never_beyond_its_bound():
    system = sizes.together(16, sizes.SOON, LENGTH, slots=sizes.SLOTS)
    made = system.schedule(4, sizes.SAMPLES, 1, 1, 3)
    order = made.trajectory[0].reshape(4, -1).argsort(1)
    work = np.take_along_axis(made.work[0].reshape(4, -1), order, 1)
    seconds = np.diff(made.seconds[0], prepend=-sizes.SOON) - sizes.SOON
    np.testing.assert_allclose(seconds, [scheduled(each, sizes.SLOTS) for each in work], rtol=1e-9)
    bounds = work.sum(1) / sizes.SLOTS + work.max(1)
    assert (seconds <= bounds).all()
    # Planted: three of four slots stand idle.
    assert (np.array([scheduled(each, sizes.SLOTS // 4) for each in work]) > bounds).all()


def test_rounds_take_the_longest_sample_as_often_as_too_few_are_kept():
    """Rounds of 8 prompts of which half are kept: E[rounds] is that of a negative binomial in steps of 8."""
    law, kept = Law.parse(f"lognormal:{sizes.MEAN}:0.5"), np.zeros(9)
    kept[0], rounds = 1.0, 0.0
    for _ in range(200):
        rounds += kept[:8].sum()
        step = np.array([math.comb(8, k) / 2.0**8 for k in range(9)])
        kept = np.array([sum(kept[m] * step[k] for m in range(8) for k in range(9) if m + k == n) for n in range(9)])
    system, samples = sizes.queue(law)[sizes.at("batch", 0)]
    found = sizes.measured(system, samples, {**SETTING, "batches": 200})
    exact = rounds * law.expected_max(64)
    assert found["low"] - 6.0 < exact < found["high"] + 6.0
    # Planted: one round, as if all prompts were kept.
    assert found["low"] > 1.5 * law.expected_max(64)


def test_spare_groups_are_thrown_away_and_a_spare_sample_is_the_ninth():
    alone = sizes.measured(sizes.spare(4, 0, LENGTH), 1, SETTING)["value"]
    more = sizes.measured(sizes.spare(4, 4, LENGTH), 1, {**SETTING, "batches": 400})
    exact = LENGTH.expected_least(4, 8)
    assert abs(more["value"] / exact - 1.0) < 0.05 < alone / exact - 1.0


def test_lockstep_waits_for_the_slowest_environment_of_every_turn():
    turns = sizes.measured(sizes.lockstep(1, 5.0, None, sizes.SOON), 1, {**SETTING, "batches": 400})["value"]
    least = (sizes.TURNS - 1) * Law.parse("gamma:10:4").expected_max(8) + sizes.TURN
    assert least < turns < least + sizes.TURNS * Law.parse("lognormal:2:0.5").expected_max(8)


def test_the_fastest_share_of_a_pool_counts():
    rows = pd.DataFrame(
        [
            {"part": "gpus", "spread": 0.5, "arm": "a", "x": 16, "y": None, "share": s, "value": v}
            for s, v in ((0.1, 9.0), (0.5, 7.0))
        ]
    )
    rows["y"] = rows.y.astype(float)
    assert shared.fastest(rows, "gpus", "a", 0.5).value.tolist() == [7.0]
