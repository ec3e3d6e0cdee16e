"""The league and ROLL Flash: their rows against what must hold exactly, beside what would not pass."""

import numpy as np
import pytest

from experiments import _store, league, league_long, roll_flash
from tests.experiments._lab import rows_of

pytestmark = pytest.mark.committed

RATIOS = ("full IS, sequence", "TOPR", "TIS, token", "TIS, sequence", "MIS, token", "PPO", "decoupled PPO", "A-3PO")
"""Arms that are RLOO's own gradient on fresh data, up to a factor that Adam cancels."""

rows = rows_of("league")


def test_every_arm_has_a_row_at_every_place(rows):
    counts = rows.groupby(["task", "law"]).arm.nunique()
    assert (counts == len(league.METHODS)).all() and len(counts) == len(league.TASKS) * len(league.LAWS)
    assert rows[rows.arm == league.BASE].word.isna().all()


@pytest.mark.parametrize("name", ["areal", "asymre", "delight", "league", "rivals", "token_ratios"])
def test_words_follow_from_intervals_at_rates_inside_their_grids(name):
    rows = _store.read(name)
    judged = rows[rows.word.notna()]
    assert len(judged) and (judged.low <= judged.difference).all() and (judged.difference <= judged.high).all()
    assert (judged[judged.word == "better"].low > 0).all() and (judged[judged.word == "worse"].high < 0).all()
    equal = judged[judged.word == "equal"]
    assert (equal.low > -league.SMALLEST).all() and (equal.high < league.SMALLEST).all()
    assert (rows[rows.rate.notna()].tried >= 11).all()


@pytest.mark.parametrize("task", ["bandit", "sparse"])
def test_ratios_change_nothing_on_fresh_data(rows, task):
    """The planted difference: the same arms on stale data."""
    own = rows[(rows.task == task) & rows.arm.isin(RATIOS)].set_index(["law", "arm"]).difference
    assert (own["fresh"] == 0.0).all() and (own["constant 32"] != 0.0).all()


def test_an_arm_without_a_best_rate_is_named_and_the_others_are_judged(monkeypatch):
    """Planted: an arm that learns nothing, so that every rate is as good, and the least is an edge."""
    from asyncsim.base.checks import InputError

    asked = []

    def compare(arms, **settings):
        asked.append(sorted(arms))
        if "VCPO" in arms:
            raise InputError("best adam.lr of arm VCPO", 1.0, "inside the grid", "widen it")
        return real(arms, **settings)

    real = league.sim.compare
    monkeypatch.setattr(league.sim, "compare", compare)
    setting = {**league.QUICK[0], "arms": [league.BASE, "VCPO", "GAC"], "updates": 8}
    found = {row["arm"]: row for row in league.run(setting)}
    assert asked == [["GAC", "RLOO", "VCPO"], ["GAC", "RLOO"]]
    assert "VCPO" in found["VCPO"]["reason"] and found["VCPO"]["word"] is None and found["GAC"]["word"] is not None


def test_no_pool_beats_the_one_that_never_idles_and_equal_lengths_are_exact():
    rows = _store.read("roll_flash")
    times = rows[rows.quantity == "step_seconds"]
    assert (times.value > roll_flash.IDEAL * (1 - 1e-3)).all()
    even = times[(times.sigma == 0.0) & (times.ratio == 0)].value
    np.testing.assert_allclose(even, roll_flash.IDEAL, rtol=1e-9)
    # Training takes a share of the pool as many times as long: no ratio makes a batch faster than its trainer.
    behind = times[times.ratio > 0]
    assert (behind.value >= roll_flash.TRAINING / behind.share * (1 - 1e-3)).all()
    stale = rows[(rows.quantity == "largest") & (rows.ratio > 0)]
    assert (stale.value <= stale.ratio).all() and (stale.value == stale.ratio).any()


def test_a_recomputed_anchor_is_the_old_one_on_fresh_data_alone(monkeypatch):
    """At staleness 0 PPO and its recomputed form are one method, so the rows are equal; on old data they are not.
    The planted defect reads the law by the wrong name: everything is fresh, and both stay equal."""
    setting = {"tokens": 8, "batch": 16, "law": "old", "updates": 40, "replicates": 2, "rates": [0.4, 0.8], "seed": 0}

    def returns(arm):
        rows = league_long.run({**setting, "arm": arm})
        assert [row["rate"] for row in rows] == [0.4] * 3 + [0.8] * 3
        return [row["value"] for row in rows]

    apart = returns("PPO"), returns("PPO, recomputed")
    assert apart[0] != apart[1]
    monkeypatch.setitem(league_long.STALENESS, "old", 0)
    assert returns("PPO") == returns("PPO, recomputed") != apart[0]
