"""What a verdict says when it is printed, and the defaults with which a reader judges a number of their own."""

import math

import numpy as np
import pytest

import asyncsim as sim
from asyncsim import validation
from asyncsim.base import records
from asyncsim.base.checks import InputError
from asyncsim.base.records import Claim, Estimate

CLAIM = Claim("toy/claim", "a statement", "expectation", "exact", lambda p: None, lambda p: {}, lambda p: {}, "derived")


def printed(points, values, error=0.001):
    """Lines of the verdict of measurements of 2 at points."""
    estimates = [{"mean": Estimate(value, error)} for value in values]
    verdict = validation.join(CLAIM, points, estimates, [{"mean": 2.0}] * len(points), 0.05)
    return str(verdict).splitlines()


def test_one_comparison_is_two_lines():
    assert printed([{"tickets": 8}], [2.001]) == ["held: toy/claim", "  mean predicted 2, measured 2.0010 ± 0.0033"]


def test_what_changes_names_the_points_and_what_is_not_held_says_so():
    lines = printed([{"tickets": k, "law": "same"} for k in (8, 9)], [2.0, 3.0])
    assert lines[0] == "violated: toy/claim"
    assert lines[1].startswith("  at tickets = 8: mean predicted 2")
    assert lines[2].startswith("  at tickets = 9: violated: mean predicted 2, measured 3.0")


def test_inconclusive_says_what_is_missing():
    line = printed([{"tickets": 8}], [2.0], error=0.5)[1]
    assert "error 0.5 hides the effect 0.1, which needs an error below 0.0203, about 609 times as many" in line
    assert printed([{"tickets": 8}], [2.0], error=0.5 / math.sqrt(609))[0].startswith("held")
    assert printed([{"tickets": 8}], [2.0], error=0.5 / math.sqrt(600))[0].startswith("inconclusive")


def test_many_comparisons_show_those_with_least_margin_in_their_order():
    lines = printed([{"k": k} for k in range(20)], [2.0 + 1e-4 * k for k in range(20)])
    assert len(lines) == 1 + records.SHOWN + 1
    assert [line.split(":")[0] for line in lines[1:-1]] == [f"  at k = {k}" for k in range(20 - records.SHOWN, 20)]
    assert lines[-1] == f"  and {20 - records.SHOWN} comparisons of more margin"


def test_a_long_point_is_cut():
    lines = printed([{"logits": (0.123456789,) * 12}, {"logits": (0.5,)}], [2.0, 2.0])
    place = lines[1].partition("at ")[2].partition(": mean")[0]
    assert len(place) == records.LONGEST and place.endswith("...")


def test_a_number_of_your_own_is_judged_by_five_percent_of_the_prediction():
    assert sim.judge is validation.judge
    error = 0.05 * 4.0 / (3.2905 + 1.6449)  # the largest at which 5 percent of 4 is found
    assert sim.judge(Estimate(4.0, 0.99 * error), 4.0).verdict == "held"
    assert sim.judge(Estimate(4.0, 1.01 * error), 4.0).verdict == "inconclusive"
    assert sim.judge(Estimate(-4.0, 0.99 * error), -4.0).verdict == "held"
    assert sim.judge(Estimate(4.2, 0.01), 4.0).verdict == "violated"


@pytest.mark.parametrize("predicted", [0.0, 1e-300])
def test_a_prediction_of_nothing_needs_a_scale(predicted):
    assert sim.judge(Estimate(0.0, 0.1), predicted).verdict == "inconclusive"
    assert sim.judge(Estimate(0.0, 0.001), predicted, scale=1.0).verdict == "held"


def test_without_a_number_to_compare_with_a_measurement_is_outside():
    row = sim.judge(Estimate(4.0, 0.01), None, quantity="mean", point={"tickets": 8})
    assert row.verdict == "outside" and math.isnan(row.predicted) and math.isnan(row.false_fail)
    assert str(row) == "outside: mean predicted —, measured 4.000 ± 0.033 (no formula: no prediction was given)"
    alone = sim.judge(Estimate(4.0, math.inf, independent=False), None)
    assert alone.verdict == "outside" and "measured 4 (no formula" in str(alone)


def test_a_prediction_is_judged_by_its_mean_or_says_why_it_has_none():
    system = sim.systems.areal(2, 4, 12, length=1.0, train_time=1.0)
    law = sim.claims.predicted_staleness(system.describe_at(1), 1)
    assert sim.judge(Estimate(2.0, 0.01), law) == sim.judge(Estimate(2.0, 0.01), 2.0)
    assert str(law).startswith("mean staleness 2, by systems/cap-binds: 12 group permits")
    free = sim.systems.tba(groups_per_batch=2, length="exponential:1", train_time=1)
    none = sim.claims.predicted_staleness(free.describe_at(1), 1)
    row = sim.judge(Estimate(2.0, 0.01), none)
    assert none.mean is None and row.verdict == "outside" and f"(no formula: {none.reason})" in str(row)
    assert str(none) == f"no formula: {none.reason}"


@pytest.mark.parametrize("number", [np.float32(4.0), np.int64(4), np.float64(4.0), 4])
def test_numbers_of_every_kind_are_judged(number):
    assert sim.judge(Estimate(4.0, 0.01), number).verdict == "held"


@pytest.mark.parametrize("nonsense", ["four", [4.0], math.nan, math.inf, object()])
def test_what_is_no_number_is_refused(nonsense):
    with pytest.raises(InputError, match="prediction"):
        sim.judge(Estimate(4.0, 0.01), nonsense)


def test_a_prediction_without_a_point_is_answered_by_one():
    claim = sim.claims.claim("ess/finite-sample")
    for call in (lambda: claim.predict(samples=16), lambda: claim.predict(), lambda: claim.cross_check(samples=16)):
        with pytest.raises(InputError, match="must be one mapping") as refused:
            call()
        point = eval(refused.value.remedy.partition("predict(")[2].partition("), with")[0])
        assert claim.predict(point)
    with pytest.raises(InputError, match="did you mean error"):
        Estimate(1.0, err=0.1)
    with pytest.raises(InputError, match=r"write Estimate\(value=1.0\)"):
        Estimate()
