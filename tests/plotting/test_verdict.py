"""Verdicts: quantity against the parameter that varies, or deviations in units of the effect."""

import math

import numpy as np
import pytest

from asyncsim import validation
from asyncsim.base.checks import InputError
from asyncsim.base.records import Claim, Estimate, Verdict
from asyncsim.plotting import _style, _verdict, plot

EFFECT = 0.1


def read(point):
    """A point of the toy claim: one that says why is outside."""
    if "why" in point:
        raise InputError("point", point, "inside", point["why"])


CLAIM = Claim("toy/claim", "a statement", "expectation", "exact", read, lambda p: {}, lambda p: {}, "derived")


def judged(points, estimates, kind="expectation", predicted=2.0):
    """The verdict of measurements {quantity: Estimate} at points, every quantity predicted alike."""
    claim = Claim(**{**vars(CLAIM), "kind": kind})
    numbers = [dict.fromkeys(row, predicted) for row in estimates]
    return validation.join(claim, points, estimates, numbers, EFFECT)


def along(values, estimates=None, key="staleness"):
    estimates = estimates or [{"step": Estimate(2.0, 0.01)}] * len(values)
    return judged([{key: value, "fixed": "law"} for value in values], estimates)


def bars(ax):
    """Of each errorbar: middles, ends of the intervals, color."""
    return [(box[0].get_xydata(), box[2][0].get_segments(), box[0].get_color()) for box in ax.containers]


def test_three_values_of_one_number_are_drawn_against_it():
    estimates = [{"step": Estimate(2.0 + 0.01 * k, 0.01)} for k in range(4)]
    verdict = along([8, 0, 2, 4], estimates)
    (ax,) = plot(verdict).axes
    assert ax.get_xlabel() == "staleness $s$ (versions)" and ax.get_ylabel() == "step"
    (found,) = bars(ax)
    assert found[2] == _style.COLORS["measured"]
    np.testing.assert_array_equal(found[0], [[0, 2.01], [2, 2.02], [4, 2.03], [8, 2.0]])
    ends = sorted((row.point["staleness"], row.low, row.high) for row in verdict.points)
    np.testing.assert_allclose([(s[0, 0], *s[:, 1]) for s in found[1]], ends, rtol=1e-12)
    predicted = ax.lines[0]
    assert predicted.is_dashed()
    np.testing.assert_array_equal(predicted.get_xydata(), [[0, 2], [2, 2], [4, 2], [8, 2]])


def test_every_quantity_has_its_panel():
    estimates = [{"a": Estimate(2.0, 0.01), "b": Estimate(2.0, 0.01)}] * 3
    assert [ax.get_ylabel() for ax in plot(along([1, 2, 3], estimates)).axes] == ["a", "b"]


@pytest.mark.parametrize(
    "points",
    [
        [{"staleness": 1}, {"staleness": 2}],
        [{"staleness": 1, "law": "a"}, {"staleness": 2, "law": "b"}, {"staleness": 3, "law": "c"}],
        [{"law": "a"}, {"law": "b"}, {"law": "c"}],
        [{"flag": True}, {"flag": False}, {"flag": None}],
        [{"curvatures": (1.0,)}, {"curvatures": (2.0,)}, {"curvatures": (3.0,)}],
        [{}],
    ],
)
def test_other_points_are_drawn_as_deviations(points):
    verdict = judged(points, [{"step": Estimate(2.0, 0.01)}] * len(points))
    (ax,) = plot(verdict).axes
    assert "measured − predicted" in ax.get_xlabel() and len(ax.get_yticklabels()) == len(points)


def test_deviations_are_in_units_of_the_effect_with_their_intervals():
    verdict = judged([{}], [{"a": Estimate(2.02, 0.01), "b": Estimate(1.9, 0.01)}])
    (ax,) = plot(verdict).axes
    found = bars(ax)
    unit = EFFECT * 2.0
    np.testing.assert_allclose([box[0][0, 0] for box in found], [0.02 / unit, -0.1 / unit], rtol=1e-9)
    ends = [((row.low - 2.0) / unit, (row.high - 2.0) / unit) for row in verdict.points]
    np.testing.assert_allclose([box[1][0][:, 0] for box in found], ends, rtol=1e-9)
    (shaded,) = ax.patches
    assert (shaded.get_x(), shaded.get_x() + shaded.get_width()) == (-1.0, 1.0)
    assert [box[2] for box in found] == [_style.COLORS["measured"], _style.COLORS["violated"]]


def test_a_bound_is_scaled_as_a_bound():
    verdict = judged([{}], [{"a": Estimate(1.9, 0.01)}], kind="bound")
    middle, _ = _verdict.scaled(verdict.points[0], "bound")
    assert middle == pytest.approx(-0.1 / (EFFECT * 2.0), rel=1e-9)


def test_what_lies_far_off_is_marked_at_the_edge_with_its_number():
    verdict = judged([{}], [{"far": Estimate(8.0, 0.01), "below": Estimate(-4.0, 0.01), "gone": Estimate(math.nan)}])
    (ax,) = plot(verdict).axes
    assert [text.get_text() for text in ax.texts] == ["30", "-30", "diverged"]
    assert [line.get_marker() for line in ax.lines if line.get_marker() in ("<", ">")] == [">", "<", ">"]
    assert not ax.containers


def test_an_interval_that_leaves_the_axis_ends_in_arrows():
    verdict = judged([{}], [{"wide": Estimate(2.0, 0.5), "right": Estimate(2.5, 0.2), "fits": Estimate(2.0, 0.01)}])
    (ax,) = plot(verdict).axes
    arrows = [(line.get_marker(), line.get_ydata()[0]) for line in ax.lines if line.get_marker() in ("<", ">")]
    assert arrows == [("<", 0), (">", 0), (">", 1)]


def test_a_number_predicted_zero_is_drawn_in_units_of_its_interval_and_says_so():
    verdict = judged([{}], [{"zero": Estimate(0.5e-6, 0.0, tolerance=1e-6)}], predicted=0.0)
    assert _verdict.scaled(verdict.points[0], "expectation") == pytest.approx((0.5, 1.0))
    (ax,) = plot(verdict).axes
    assert ax.get_yticklabels()[0].get_text() == "zero †" and "†" in ax.texts[0].get_text()


def test_violated_inconclusive_and_diverged_points_are_told_apart():
    found = (Estimate(2.0, 0.01), Estimate(3.0, 0.01), Estimate(2.0, 0.5), Estimate(math.inf))
    (ax,) = plot(along([1, 2, 3, 4], [{"step": estimate} for estimate in found])).axes
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["predicted", "diverged", "measured", "violated", "inconclusive"]
    assert [box[2] for box in bars(ax)] == [_style.COLORS[name] for name in ("measured", "violated", "inconclusive")]


def test_the_title_has_the_color_of_the_verdict():
    figure = plot(along([1, 2, 3], [{"step": Estimate(2.0, 0.01)}] * 2 + [{"step": Estimate(3.0, 0.01)}]))
    assert figure.get_suptitle() == "a statement\ntoy/claim: violated"
    assert figure._suptitle.get_color() == _style.COLORS["violated"]


def test_the_closest_rows_are_kept_where_there_are_too_many():
    estimates = {f"q[{k}]": Estimate(2.0 + 0.001 * k, 0.001) for k in range(60)}
    figure = plot(judged([{}], [estimates]))
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == [f"q[{k}]" for k in range(60 - _verdict.ROWS, 60)]
    assert f"the {_verdict.ROWS} of 60" in figure.get_suptitle()


def test_points_outside_the_domain_are_left_out():
    verdict = judged([{"x": 1}, {"x": 2, "why": "no law"}], [{"a": Estimate(2.0, 0.01)}, {}])
    assert verdict.verdict == "outside" and len(plot(verdict).axes[0].get_yticklabels()) == 1
    nothing = judged([{"why": "no law"}], [{}])
    assert isinstance(nothing, Verdict) and "outside the domain" in plot(nothing).axes[0].texts[0].get_text()


def test_rows_are_named_by_what_tells_them_apart():
    rows = judged([{"x": 1, "y": "b"}, {"x": 2, "y": "b"}], [{"a_b": Estimate(2.0, 0.01)}] * 2).points
    assert _verdict.labels(rows, rows) == ["a b  (x 1)", "a b  (x 2)"]
    long = [{"x": tuple(range(30))}, {"x": tuple(range(31))}]
    rows = judged(long, [{"a": Estimate(2.0, 0.01)}] * 2).points
    assert _verdict.labels(rows, rows) == ["a  (x (0, …, 29))", "a  (x (0, …, 30))"]
    assert _verdict.labels(rows[1:], rows) == ["a  (x (0, …, 30))"]


def test_names_take_as_many_parameters_as_fit():
    long = [{"x": "y" * 50, "n": 1}, {"x": "z" * 50, "n": 2, "cap": 0.5}]
    assert _verdict.name_points(long) == ["n 1", "n 2, cap 0.5"]
    assert _verdict.name_points([{"x": "y" * 50}, {"x": "z" * 50}]) == [f"x {'y' * 50}", f"x {'z' * 50}"]
    middle = [{"x": (0.0, *[k] * 9, 2.0), "n": 3} for k in (1.0, 5.0)]
    assert _verdict.name_points(middle) == [f"x {each['x']}" for each in middle]


def test_rows_end_with_their_numbers():
    verdict = judged([{}], [{"a": Estimate(2.02, 0.01), "far": Estimate(8.0, 0.01), "gone": Estimate(math.nan)}])
    (ax,) = plot(verdict).axes
    (right,) = ax.child_axes
    texts = [text.get_text().split() for text in right.get_yticklabels()]
    half = f"{(verdict.points[0].high - verdict.points[0].low) / 2:.2g}"
    assert texts == [["predicted", "measured"], ["2", "2.020", "±", half], ["2", "8.000", "±", half], ["2", "diverged"]]
    colors = [text.get_color() for text in right.get_yticklabels()[1:]]
    assert colors == [_style.INK, _style.COLORS["violated"], _style.COLORS["violated"]]
    assert right.get_yticks().tolist() == [-1, 0, 1, 2]
