"""`points`: measured numbers with their intervals on predicted lines."""

import math

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import uncertainty
from asyncsim.base.records import Estimate
from asyncsim.plotting import _metrics, _style
from tests.refusals import refused


def bars(ax):
    """Of each series: middles, ends of intervals (None without), color and marker."""
    return [
        (box[0].get_xydata(), box[2][0].get_segments() if box[2] else None, box[0].get_color(), box[0].get_marker())
        for box in ax.containers
    ]


def test_points_are_the_estimates_and_intervals_are_theirs():
    given = [Estimate(2.0, 0.5, freedom=4.0), Estimate(3.0, 0.0, tolerance=0.25)]
    (ax,) = sim.points([1, 5], given, xlabel="lag (versions)").axes
    ((middles, ends, color, _),) = bars(ax)
    assert np.allclose(middles, [[1, 2], [5, 3]]) and color == _style.COLORS["measured"]
    reach = [uncertainty.critical(0.05, 4.0) * 0.5, 0.25]
    for (x, y), half, end in zip(middles, reach, ends, strict=True):
        assert np.allclose(end, [[x, y - half], [x, y + half]])
    assert ax.get_xlabel() == "lag (versions)" and not any(line.get_linestyle() == "--" for line in ax.get_lines())


def test_plain_numbers_have_no_interval():
    (ax,) = sim.points([1, 2], [0.5, 0.75]).axes
    assert bars(ax)[0][1] is None


def test_predictions_are_dashed_and_stand_at_their_own_places():
    (ax,) = sim.points([1, 2], [1.0, 2.0], [0.5, 1.5, 2.5], at=[0, 1, 2]).axes
    line = next(line for line in ax.get_lines() if line.get_linestyle() == "--")
    assert np.allclose(line.get_xydata(), [[0, 0.5], [1, 1.5], [2, 2.5]])
    assert "dashed" in ax.figure._supxlabel.get_text()


def test_series_differ_in_color_and_marker_and_are_named():
    found = {f"law {k}": [1.0 * k, 2.0 * k] for k in range(5)}
    (ax,) = sim.points([1, 2], found, {"law 0": [0.0, 0.0]}).axes
    seen = bars(ax)
    assert len({color for _, _, color, _ in seen}) == len({marker for *_, marker in seen}) == 5
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(found)


def test_a_joined_path_is_a_line():
    (ax,) = sim.points(range(3), [1.0, 2.0, 4.0], joined=True).axes
    assert ax.containers[0][0].get_linestyle() == "-"


@pytest.mark.parametrize(("high", "plain"), [(5.0, True), (1e6, False)])
def test_narrow_logarithmic_axes_have_plain_figures(high, plain):
    figure = sim.points([1, 2], [1.0, high], yscale="log")
    figure.canvas.draw()
    texts = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert any(text == "2" for text in texts) is plain


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (([1, 2], [1.0]), "measured"),
        (([1, 2], [1.0, 2.0], [1.0]), "predicted"),
        (([1, 2], {}), "measured"),
        (([1], {str(k): [1.0] for k in range(6)}), "measured"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, field):
    refused(field, sim.points, *arguments)


@pytest.mark.parametrize("given", [{"x": None}, {"measured": None}, {"measured": ["a", "b"]}, {"predicted": "ab"}])
def test_what_cannot_be_drawn_is_named_with_what_can(given):
    refused(r"number|sequence", sim.points, **{"x": [1, 2], "measured": [1.0, 2.0], **given})
    refused(r"yscale.*linear", sim.points, [1], [1.0], yscale="loglog")


def test_a_notebook_shows_it_and_the_package_offers_it():
    assert sim.points is _metrics.points
    assert sim.points([1], [math.pi])._repr_png_().startswith(b"\x89PNG")
