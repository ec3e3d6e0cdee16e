"""Edges of a judgment, and the joining of points."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim.base.checks import InputError
from asyncsim.base.records import KINDS, Claim, Estimate
from asyncsim.base.uncertainty import critical
from asyncsim.validation import join, judge
from tests.refusals import refused

REAL = st.floats(-1e6, 1e6)


def _read(point):
    if point.get("outside"):
        raise InputError("point", "out", "inside", point["outside"])


def claim(kind="expectation", relative_to="value"):
    """A claim whose points carry their own reason to be outside."""
    return Claim(
        "family/name",
        "a statement",
        kind,
        "exact",
        _read,
        lambda point: {},
        lambda point: {},
        "derived",
        relative_to=relative_to,
    )


@given(REAL, st.sampled_from(KINDS))
def test_without_sampling_equality_is_equality(value, kind):
    row = judge(Estimate(value), value, kind, abs(value), 0.02)
    assert (row.verdict, row.false_fail, row.false_pass) == ("held", 0.0, 0.0)
    assert row.low == row.high == value
    above = judge(Estimate(math.nextafter(value, math.inf)), value, kind, abs(value), 0.02)
    assert above.verdict == "violated" and above.margin < 0


@given(
    REAL, REAL, st.floats(0, 1e3), st.sampled_from([1.0, 2.0, 30.0, math.inf]), st.floats(0, 10), st.sampled_from(KINDS)
)
def test_every_judgment_follows_its_rule(value, predicted, error, freedom, tolerance, kind):
    row = judge(Estimate(value, error, freedom, tolerance), predicted, kind, abs(predicted), 0.05, 1e-3, 0.05, 3)
    one_sided = kind in ("bound", "ordering")
    excess = (value - predicted if one_sided else abs(value - predicted)) - tolerance
    limit = critical(1e-3 / 3, freedom, 1 if one_sided else 2) * error
    if abs(excess - limit) > 1e-9 * (1 + abs(excess)):
        assert (row.verdict == "violated") == (excess > limit)
        assert (row.margin < 0) == (row.verdict == "violated")
    assert 0.0 <= row.false_pass <= 1.0
    assert row.low <= row.measured <= row.high
    if row.verdict == "held" and kind != "bound":
        assert row.false_pass <= 0.05
    if row.verdict == "inconclusive":
        assert row.false_pass > 0.05 and row.reason


@given(st.floats(0.1, 100), st.floats(1e-4, 0.1), st.floats(0, 0.45))
def test_the_effect_at_its_boundary(scale, effect, used):
    # Normal errors: held exactly down to an effect of two tolerances + (crit + 1.645) errors.
    tolerance = used * effect * scale
    error = (effect * scale - 2 * tolerance) / (critical(1e-3) + critical(0.05, sides=1))

    def verdict(factor):
        return judge(Estimate(1.0, error * factor, tolerance=tolerance), 1.0, "identity", scale, effect).verdict

    assert (verdict(1 - 1e-9), verdict(1 + 1e-9)) == ("held", "inconclusive")


def test_a_systematic_error_may_hide_as_much_as_it_widens():
    """A truth 2 percent off, measured 1.5 percent low: such an allowance leaves nothing to be held."""
    assert judge(Estimate(1.005, 0.0, tolerance=0.015), 1.0, "expectation", 1.0, 0.02).verdict == "inconclusive"
    assert judge(Estimate(1.0, 0.0, tolerance=0.009), 1.0, "expectation", 1.0, 0.02).verdict == "held"


def test_a_tolerance_uses_up_the_effect():
    assert judge(Estimate(1.009, tolerance=0.01), 1.0, "threshold", 1.0, 0.05).verdict == "held"
    assert judge(Estimate(1.011, tolerance=0.01), 1.0, "threshold", 1.0, 0.05).verdict == "violated"
    row = judge(Estimate(1.0, tolerance=0.06), 1.0, "threshold", 1.0, 0.05)
    assert row.verdict == "inconclusive" and "tolerance" in row.reason


def test_divergence_is_a_violation_with_its_reason():
    for value in (math.nan, math.inf):
        row = judge(Estimate(value, math.nan), 1.0, "identity", 1.0, 0.02)
        assert (row.verdict, row.reason, row.margin) == ("violated", "diverged", -math.inf)


@pytest.mark.parametrize("kind", ["bound", "ordering"])
def test_only_an_excess_contradicts_an_upper_bound(kind):
    below = judge(Estimate(0.5, 0.001), 1.0, kind, 1.0, 0.05)
    assert below.verdict == ("holds, not tight" if kind == "bound" else "held")
    assert below.false_pass == (1.0 if kind == "bound" else 0.0)
    assert judge(Estimate(1.1, 0.001), 1.0, kind, 1.0, 0.05).verdict == "violated"
    assert judge(Estimate(1.01, 0.1), 1.0, kind, 1.0, 0.05).verdict == "inconclusive"


def test_a_false_error_bar_is_refused():
    error = refused("", judge, Estimate(1.0, 0.1, independent=False), 1.0, "identity", 1.0, 0.02)
    assert str(error).startswith("realizations = 1:")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"predicted": math.nan}, "prediction"),
        ({"kind": "guess"}, "kind"),
        ({"scale": -1.0}, "scale"),
        ({"effect": 0.0}, "effect"),
        ({"false_fail": 0.0}, "false_fail"),
        ({"false_pass": 1.0}, "false_pass"),
        ({"comparisons": 0}, "comparisons"),
        ({"estimate": Estimate(1.0, -0.1)}, "estimate.error"),
        ({"estimate": Estimate(1.0, math.nan)}, "estimate.error"),
        ({"estimate": Estimate(1.0, 0.1, tolerance=math.inf)}, "estimate.tolerance"),
        ({"estimate": Estimate(1.0, 0.1, freedom=0.0)}, "freedom"),
    ],
)
def test_a_judgment_refuses_by_name(change, field):
    arguments = {"estimate": Estimate(1.0, 0.1), "predicted": 1.0, "kind": "identity", "scale": 1.0, "effect": 0.02}
    assert refused("", judge, **{**arguments, **change}).field == field


def test_scalar_fields_are_those_of_the_least_margin():
    verdict = join(
        claim(),
        [{"a": 1}, {"a": 2}],
        [{"x": Estimate(1.0, 1e-3)}, {"x": Estimate(2.001, 5e-4), "unused": Estimate(0.0)}],
        [{"x": 1.0}, {"x": 2.0}],
        effect=0.02,
        false_fail=1e-3,
        seconds=1.5,
    )
    assert (verdict.verdict, verdict.measured, verdict.predicted, verdict.seconds) == ("held", 2.001, 2.0, 1.5)
    assert verdict.false_fail == pytest.approx(1e-3)
    assert [row.false_fail for row in verdict.points] == [5e-4, 5e-4]
    assert verdict.false_pass == max(row.false_pass for row in verdict.points) <= 0.05


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([(1.0, 0.001), (1.0, 0.001)], "held"),
        ([(1.0, 0.001), (1.0, 0.1)], "inconclusive"),
        ([(1.5, 0.001), (1.0, 0.1)], "violated"),
        ([(math.nan, 0.0), (1.0, 0.1)], "violated"),
    ],
)
def test_the_worst_point_decides(values, outcome):
    verdict = join(claim(), [{}, {}], [{"x": Estimate(*v)} for v in values], [{"x": 1.0}] * 2, effect=0.02)
    assert verdict.verdict == outcome
    decisive = values[0][0] if outcome == "violated" else 1.0
    assert verdict.measured == pytest.approx(decisive, nan_ok=True)


def test_outside_the_domain_is_outside_with_the_reason():
    verdict = join(claim(), [{"outside": "tau = -1: must be >= 0"}], [{}], [{}], effect=0.02)
    assert (verdict.verdict, verdict.reason) == ("outside", "point = 'out': must be inside; tau = -1: must be >= 0")
    assert verdict.row()["measured"] is None
    mixed = join(claim(), [{"outside": "no"}, {}], [{}, {"x": Estimate(1.0)}], [{}, {"x": 1.0}], effect=0.02)
    assert mixed.verdict == "outside" and mixed.points[1].verdict == "held"
    broken = join(claim(), [{"outside": "no"}, {}], [{}, {"x": Estimate(3.0)}], [{}, {"x": 1.0}], effect=0.02)
    assert broken.verdict == "violated"


def test_an_effect_on_a_vector_refers_to_its_norm():
    measured = {"v[0]": Estimate(3.0, 0.01), "v[1]": Estimate(0.0, 0.01), "w[0]": Estimate(0.001, 0.0)}
    predicted = {"v[0]": 3.0, "v[1]": 0.0, "w[0]": 0.001}
    assert join(claim(relative_to="norm"), [{}], [measured], [predicted], effect=0.02).verdict == "held"
    assert join(claim(relative_to="value"), [{}], [measured], [predicted], effect=0.02).verdict == "inconclusive"
    # The small vector keeps its own scale: it does not hide behind the large one.
    measured["w[0]"] = Estimate(0.001, 0.001)
    assert join(claim(relative_to="norm"), [{}], [measured], [predicted], effect=0.02).verdict == "inconclusive"


def test_a_bound_is_tested_only_where_it_is_tight():
    loose = [{"x": Estimate(0.5, 1e-3)}, {"x": Estimate(0.2, 1e-3)}]
    verdict = join(claim("bound"), [{}, {}], loose, [{"x": 1.0}] * 2, effect=0.05)
    assert verdict.verdict == "holds, not tight" and "reaches 50 % of the bound" in verdict.reason
    assert verdict.false_pass == 1.0 and verdict.measured == 0.5
    tight = [{"x": Estimate(0.99, 1e-3)}, {"x": Estimate(0.2, 1e-3)}]
    verdict = join(claim("bound"), [{}, {}], tight, [{"x": 1.0}] * 2, effect=0.05)
    assert verdict.verdict == "held" and verdict.measured == 0.99 and verdict.false_pass <= 0.05
    assert verdict.points[0].reason == "measured/bound = 0.99"
    noisy = [{"x": Estimate(0.99, 0.02)}, {"x": Estimate(0.2, 1e-3)}]
    assert join(claim("bound"), [{}, {}], noisy, [{"x": 1.0}] * 2, effect=0.05).verdict == "inconclusive"
    # Below 0.97 it is not tight, however sharp; above, what the measurement lies below the bound costs sharpness.
    for value, error, outcome in (
        (0.96, 1e-5, "holds, not tight"),
        (0.96, 0.01, "inconclusive"),
        (0.975, 0.008, "inconclusive"),
        (0.975, 0.004, "held"),
    ):
        assert join(claim("bound"), [{}], [{"x": Estimate(value, error)}], [{"x": 1.0}], effect=0.05).verdict == outcome
    # Lowered by the effect, the bound fails at the tight point.
    assert join(claim("bound"), [{}, {}], tight, [{"x": 0.95}] * 2, effect=0.05).verdict == "violated"


def test_what_cannot_be_joined_is_refused():
    refused("points, measured, predicted", join, claim(), [], [], [], effect=0.02)
    refused("points, measured, predicted", join, claim(), [{}], [], [{}], effect=0.02)
    refused("to include y", join, claim(), [{}], [{"x": Estimate(1.0)}], [{"x": 1.0, "y": 1.0}], effect=0.02)
    refused("to include any", join, claim(), [{}], [{"x": Estimate(1.0)}], [{}], effect=0.02)


def test_a_verdict_is_a_json_row():
    verdict = join(claim(), [{"a": (1, 2)}], [{"x": Estimate(1.0)}], [{"x": 1.0}], effect=0.02)
    row = replace(verdict, defects=({"name": "off-by-one", "verdict": "violated"},)).row()
    assert row["points"][0]["point"] == {"a": [1, 2]} and row["defects"][0]["name"] == "off-by-one"
