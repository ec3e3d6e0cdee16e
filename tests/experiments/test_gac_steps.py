"""Returns, falls and cosines in training under alignment control, against exact and planted cases."""

import numpy as np
import pytest

from asyncsim.diagnosing import alarms as measures
from experiments import gac_steps as steps
from paper_figures import _gac_steps as shared


def place(arm, value, reach, staleness=16, quantity="mean", rate=0.2):
    ends = {"low_end": value - reach, "high_end": value + reach}
    found = {"part": "steps", "task": "chain", "staleness": staleness, "arm": arm, "rate": rate, "quantity": quantity}
    return {**found, "value": value, **ends}


def test_falls_and_returns_are_those_of_each_group_of_runs():
    time = np.arange(320)[:, None]
    good = np.where(time < 50, 0.05, 0.8) * np.ones((1, 4))
    bad = np.where(time > 150, 0.05, good)
    rows = steps.summed(np.concatenate([good, bad], axis=1), "chain", [0.2, 0.8])
    found = {(row["rate"], row["quantity"]): row["value"] for row in rows}
    assert (found[0.2, "fell"], found[0.8, "fell"]) == (0.0, 1.0)
    np.testing.assert_allclose([found[0.2, "end"], found[0.8, "end"]], [0.8, 0.05])
    np.testing.assert_allclose(found[0.8, "mean"], (220 * 0.05 + 100 * 0.8 - 0.0) / 320, atol=0.02)
    # Planted: groups taken in turn instead of one after the other would share their falls.
    mixed = steps.summed(np.stack([good, bad], axis=2).reshape(320, 8), "chain", [0.2, 0.8])
    assert {row["value"] for row in mixed if row["quantity"] == "fell"} == {0.5}


def test_cosines_before_a_fall_stand_beside_others_at_the_same_updates():
    """Falling runs reach 1 in the last ten updates; planted: read after the fall they are as low as the others."""
    scores = np.zeros((200, 12))
    scores[140:150, :6] = 1.0
    both = dict.fromkeys(steps.SCORES, scores)
    times = np.full((measures.DRAWS, 6), 150)
    pairs = measures.Matched(np.arange(6), np.full(6, 150), np.arange(6, 12), times)
    found = {(row["lead"], row["quantity"]): row["value"] for row in steps.ahead(both, ["cosine"], pairs)}
    assert found[5, "area"] == 1.0 and found[15, "area"] == 0.5
    assert np.isclose(found[0, "falling"], 1.0) and found[0, "healthy"] == 0.0
    late = pairs._replace(case_times=pairs.case_times + 20, control_times=times + 20)
    assert steps.ahead(both, ["cosine"], late)[0]["value"] == 0.5


def test_control_removes_what_is_aligned_and_nothing_without_a_threshold():
    rates = np.full(4, 0.2)
    runs = {
        low: steps.spec("chain", 8, "GAC", rates, (steps.sim.updates.align(low=low),), 12) for low in (0.0, 1.0)
    } | {None: steps.spec("chain", 8, "GRPO", rates, (), 12)}
    traces = {low: steps.sim.run(spec, seed=0, progress=False) for low, spec in runs.items()}
    np.testing.assert_array_equal(traces[1.0]["policy_return"], traces[None]["policy_return"])
    assert traces[1.0]["align_projected"].sum() == 0 < traces[0.0]["align_projected"].sum()


@pytest.mark.parametrize(("reach", "record"), [(0.01, (1, 0, 0)), (0.06, (0, 1, 0))])
def test_a_win_lies_beyond_both_intervals(reach, record):
    import pandas as pd

    fresh = place("GRPO", 0.7, 0.01, staleness=0)
    rows = pd.DataFrame([fresh, place("GAC", 0.6, reach), place("GRPO", 0.5, reach)])
    assert shared.record(rows, "GAC", "GRPO", 1.0) == record
    assert shared.record(rows, "GRPO", "GAC", 1.0) == record[::-1]
