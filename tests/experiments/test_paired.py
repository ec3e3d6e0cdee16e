"""Differences of arms that share seeds: at the best rates of their experiments, and of the same runs."""

import pytest

from experiments import _store, paired
from paper_figures import _bapo, _m2po_steps, _vcpo_steps, bapo_entropy

BEST = {
    "vcpo_steps": lambda rows, task, arm: _vcpo_steps.best(rows, arm).rate,
    "m2po_steps": lambda rows, task, arm: _m2po_steps.best(rows, task, arm, "end").rate,
    "bapo": lambda rows, task, arm: _bapo.best(rows, **bapo_entropy.place(rows, task, arm)),
}


@pytest.mark.committed
def test_rates_are_the_best_of_the_experiments():
    for each in paired.SETTINGS:
        rows, own = _store.read(each["of"]), {arm: rates[-1] for arm, rates in each["rates"].items()}
        assert own == pytest.approx({arm: BEST[each["of"]](rows, each["task"], arm) for arm in own})


def test_a_pair_is_the_difference_of_its_replicates():
    setting = {**next(each for each in paired.QUICK if each["of"] == "bapo"), "updates": 60, "replicates": 8}
    none, fresh = (paired.read(setting, arm)[0] for arm in ("none", "fresh"))
    row = next(row for row in paired.run(setting) if (row["arm"], row["base"]) == ("none", "fresh"))
    assert row["value"] == pytest.approx((none - fresh).mean()) and row["high"] - row["low"] < 4 * (none - fresh).std()
