"""Panels of a report: which parameter, which curves, and marks at the places of their numbers."""

import dataclasses
import itertools
import math
import re
from pathlib import Path

import pytest

from asyncsim import validation
from asyncsim.app import reporting
from asyncsim.base.checks import InputError
from asyncsim.base.records import Claim, Estimate
from asyncsim.plotting import _curves


def square(point):
    """x squared times the factor, from x = 1 on."""
    if point["x"] < 1:
        raise InputError("x", point["x"], "at least 1", "ask inside the domain")
    return {"q": point.get("factor", 1.0) * float(point["x"]) ** 2}


def of(points, estimates=None, kind="expectation", predict=square):
    claim = Claim("toy/claim", "a statement", kind, "exact", lambda p: None, predict, predict, "derived")
    numbers = [predict(point) for point in points]
    estimates = estimates or [{name: Estimate(v, 0.01 * abs(v)) for name, v in row.items()} for row in numbers]
    return validation.join(claim, points, estimates, numbers, 0.1)


def test_a_curve_is_the_prediction_between_the_measured_points():
    verdict = of([{"x": 2.0, "law": "a"}, {"x": 8.0, "law": "a"}])
    (panel,) = _curves.panels(verdict, square)
    (line,) = panel.lines
    assert (panel.across, panel.upward) == ("x", "q") and len(line) == _curves.PLACES
    assert line[0][:2] == (2.0, 4.0) and line[-1][:2] == (8.0, 64.0)
    assert all(y == pytest.approx(x * x) for x, y, _ in line)
    # The smallest effect is 10 % of either measured value.
    assert (line[0][2], line[-1][2]) == pytest.approx((0.4, 6.4))
    # A wrong formula leaves the measured points off its curve.
    (wrong,) = _curves.panels(verdict, lambda point: {"q": float(point["x"]) ** 3})
    assert any(y != pytest.approx(x * x) for x, y, _ in wrong.lines[0])


def test_without_the_formula_predicted_points_are_joined():
    (panel,) = _curves.panels(of([{"x": 8}, {"x": 2}, {"x": 4}]))
    assert [place[:2] for place in panel.lines[0]] == [(2, 4.0), (4, 16.0), (8, 64.0)]
    assert [x for x, _ in panel.rows] == [2, 4, 8]


def test_points_that_differ_in_something_else_have_curves_of_their_own():
    points = [{"x": 1, "factor": 1.0}, {"x": 4, "factor": 1.0}, {"x": 2, "factor": 3.0}]
    (panel,) = _curves.panels(of(points), square)
    assert sorted(line[-1][:2] for line in panel.lines) == [(4, 16.0), (4, 48.0)]
    assert panel.names == ("factor 1", "factor 3")
    assert all(x in (1, 2, 3, 4) for line in panel.lines for x, _, _ in line)


def test_a_curve_stops_where_its_claim_does():
    claim = of([{"x": 1, "factor": 1.0}, {"x": 9, "factor": 1.0}])

    def gap(point):
        return {} if 3 < point["x"] < 6 else square(point)

    def alone(point):
        raise InputError("x", point["x"], "another", "none")

    (panel,) = _curves.panels(claim, gap)
    assert [[x for x, _, _ in line] for line in panel.lines] == [[1, 2, 3], [6, 7, 8, 9]]
    assert _curves.panels(claim, alone) == []


def test_the_parameter_is_the_one_that_most_points_share():
    points = [{"x": 1, "factor": f, "flag": True, "cells": c} for f, c in ((1.0, 1), (2.0, 2), (3.0, 2))]
    (panel,) = _curves.panels(of([*points, {"x": 2, "factor": 1.0, "flag": False, "cells": 9}]), square)
    assert panel.across == "factor"
    assert _curves.panels(of([{"x": 1}]), square) == []
    assert _curves.panels(of([{"x": 1, "law": "a"}, {"x": 1, "law": "b"}]), square) == []


def test_indexed_quantities_are_drawn_against_their_index():
    def tail(point):
        return {f"p[{k}]": 0.5 ** (k + 1) for k in range(4)} | {f"grad[{k}]": 1.0 for k in range(4)}

    (panel,) = _curves.panels(of([{"law": "a"}], predict=tail), tail)
    assert panel.across == "staleness (versions)" and panel.upward == "p"
    assert [place[:2] for place in panel.lines[0]] == [(0.0, 0.5), (1.0, 0.25), (2.0, 0.125), (3.0, 0.0625)]


def test_panels_and_curves_are_few():
    def many(point):
        return {f"q{k}": point["x"] * (1.0 + k) * point["factor"] for k in range(9)}

    points = [{"x": x, "factor": f} for f in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0) for x in (1, 2)]
    panels = _curves.panels(of(points, predict=many), many)
    assert len(panels) == _curves.PANELS
    assert all(len(panel.lines) <= _curves.LINES for panel in panels)


@pytest.mark.parametrize(("low", "high", "log"), [(1, 31, True), (1, 30, False), (0, 100, False), (-2, 100, False)])
def test_an_axis_is_logarithmic_where_it_is_long(low, high, log):
    assert _curves.logarithmic(low, high) == log
    places = _curves.between(low, high, False)
    assert places[0] == low and places[-1] == pytest.approx(high) and len(places) == _curves.PLACES
    whole = _curves.between(low, high, True)
    assert all(isinstance(x, int) for x in whole) and (whole[0], whole[-1]) == (low, high)


def drawn(verdict, predict=square):
    (panel,) = _curves.panels(verdict, predict)
    return _curves.panel(panel)


def marks(text):
    """Class, x and y of every measured mark."""
    pattern = r'<g class="([\w ]+)"><path d="[^"]+"/><circle cx="([\d.]+)" cy="([\d.]+)"'
    return [(name, float(x), float(y)) for name, x, y in re.findall(pattern, text)]


def test_marks_lie_on_the_line_and_in_the_chart():
    points = [{"x": x} for x in (1, 5, 9)]
    text = drawn(of(points))
    line = re.search(r'class="p" d="M([^"]+)"', text)[1].split("L")
    assert len(line) == 9
    places = {tuple(map(float, each.split())) for each in line}
    found = marks(text)
    assert [name for name, _, _ in found] == ["m"] * 3 and {(x, y) for _, x, y in found} <= places
    assert all(_curves.LEFT <= x <= _curves.WIDTH - _curves.RIGHT for _, x, _ in found)
    assert 'role="img"' in text and "q against x" in text and "nan" not in text.lower()


def test_a_mark_has_the_color_of_its_verdict_and_a_cross_where_it_diverged():
    estimates = [Estimate(1.0, 0.001), Estimate(8.0, 0.001), Estimate(9.0, 3.0), Estimate(math.nan)]
    text = drawn(of([{"x": x} for x in (1, 2, 3, 4)], [{"q": each} for each in estimates]))
    assert [name for name, _, _ in marks(text)] == ["m", "violated", "inconclusive"]
    assert text.count("×") == 1


def test_several_curves_have_names_that_do_not_overlap():
    one = drawn(of([{"x": 1}, {"x": 2}]))
    points = [{"x": x, "factor": f, "kind": "quite a long name"} for f in (1.0, 1.001, 1.002) for x in range(1, 6)]
    several = drawn(of(points))
    found = [re.findall(r'y="([\d.]+)" class="s k\d">(factor [\d.]+)<', text) for text in (one, several)]
    assert found[0] == [] and sorted(name for _, name in found[1]) == ["factor 1", "factor 1.001", "factor 1.002"]
    heights = sorted(float(y) for y, _ in found[1])
    assert all(b - a >= _curves.LINE for a, b in itertools.pairwise(heights))
    assert heights[-1] <= _curves.HEIGHT


def test_the_band_is_the_smallest_effect_either_side():
    text = drawn(of([{"x": 1}, {"x": 2}, {"x": 3}]))
    (band,) = re.findall(r'class="b" d="M([^"]+)Z"', text)
    (line,) = re.findall(r'class="p" d="M([^"]+)"', text)
    heights = [[float(place.split()[1]) for place in each.split("L")] for each in (band, line)]
    low, high = heights[0][:3], heights[0][:2:-1]
    # 10 % of 1, 4 and 9 are in the ratio of the values; the vertical axis points down.
    above = [middle - y for middle, y in zip(heights[1], high, strict=True)]
    below = [y - middle for middle, y in zip(heights[1], low, strict=True)]
    assert above == pytest.approx(below, abs=1.0) and above[2] / above[1] == pytest.approx(9 / 4, rel=0.1)


@pytest.mark.parametrize("values", [(1e-9, 1.0), (1.0, 1.0 + 1e-12), (0.0, 0.0), (-3.0, 7.0), (0.5, 900.0)])
def test_an_axis_has_few_round_ticks_that_differ(values):
    axis = _curves._Axis(*_curves._range(list(values), 0.08), 0.0, 100.0)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 6 and len({text for _, text in ticks}) == len(ticks)
    assert all(-1e-6 <= axis(value) <= 100.0 + 1e-6 for value, _ in ticks)


def test_a_deviation_is_drawn_in_units_of_the_effect():
    row = of([{"x": 2}], [{"q": Estimate(4.2, 0.01)}]).points[0]
    middle, reach = _curves.scaled(row, "expectation")
    text = _curves.deviation(row, "expectation")
    assert middle == pytest.approx(0.5) and f"--x:{_curves.EFFECT * middle:.3g}" in text
    assert f"--h:{_curves.EFFECT * reach:.3g}" in text
    style = (Path(reporting.__file__).with_name(reporting.TEMPLATE)).read_text(encoding="utf-8")
    assert "width: 80px" in style and "40px + (var(--x) - var(--h)) * 1px" in style
    assert _curves.REACH * _curves.EFFECT == 40 and text.endswith("></i> 0.50")


def test_what_lies_far_off_is_a_number_with_an_arrow():
    rows = of([{"x": 1}] * 1, [{"q": Estimate(9.0, 0.01)}]).points
    assert _curves.deviation(rows[0], "expectation") == "80 →"
    low = dataclasses.replace(rows[0], measured=-7.0, low=-7.02, high=-6.98, margin=math.inf)
    assert _curves.deviation(low, "expectation").startswith("← −") and _curves.deviation(low, "bound") == "← below"
    gone = of([{"x": 1}], [{"q": Estimate(math.nan)}]).points[0]
    assert _curves.deviation(gone, "expectation") == "diverged →"
    assert _curves.deviation(dataclasses.replace(gone, verdict="outside"), "expectation") == ""
