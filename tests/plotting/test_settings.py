"""A picture of several settings has a line for each, and no interval leaves the range of its metric."""

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.plotting import _metrics, _style, plot
from tests.plotting.test_metrics import U, noise, panel, schedule
from tests.plotting.test_metrics import trace as plain


def trace(metrics, settings=None, ranges=None, **changes):
    header = {"settings": {"sgd.lr": settings} if settings else {}, "ranges": ranges or {}}
    return plain(metrics, random=False, header=header, **changes)


def test_four_step_sizes_are_four_lines_without_bands():
    """What averaged them: one curve, a cosine from -2 to 2, a norm below 0."""
    task, update = sim.tasks.quadratic((1.0,), noise=1.0), sim.chain(sim.updates.sgd((0.05, 0.1, 0.15, 0.2)))
    spec = sim.Spec(task, sim.schedules.fixed(8), sim.methods.gradient(), update, updates=30, replicates=4)
    made = sim.run(spec, seed=0)
    figure = plot(made)
    for name in ("gradient_cosine", "gradient_norm"):
        ax = panel(figure, name)
        assert len(ax.lines) == 4 and len({line.get_color() for line in ax.lines}) == 4
        for k, line in enumerate(ax.lines):
            np.testing.assert_array_equal(line.get_ydata(), made[name][:, k])
        bands = [path for collection in ax.collections for path in collection.get_paths() if len(path.vertices)]
        assert not bands and "no intervals" in ax.texts[0].get_text()
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()] == [f"sgd.lr={step}" for step in (0.05, 0.1, 0.15, 0.2)]
    assert panel(figure, "gradient_cosine").get_ylim() == pytest.approx((-1.06, 1.06))
    assert figure.get_suptitle().endswith("4 replicates of 4 settings, none diverged; one run each")


def test_settings_have_their_own_means_and_intervals():
    values = np.concatenate([noise((U, 3), seed=k) + 5 * k for k in range(2)], axis=1)
    made = trace({"kl": values}, settings=[0.1] * 3 + [0.2] * 3)
    figure = plot(made)
    ax = panel(figure, "kl")
    for k, (line, band) in enumerate(zip(ax.lines, ax.collections, strict=True)):
        mine = values[:, 3 * k : 3 * k + 3]
        np.testing.assert_allclose(line.get_ydata(), mine.mean(axis=1), rtol=1e-12)
        corners = band.get_paths()[0].vertices[:, 1]
        reach = [_metrics.interval(row, np.arange(3), False) for row in mine]
        assert corners.min() == pytest.approx(min(low for _, low, _ in reach))
        assert corners.max() == pytest.approx(max(high for _, _, high in reach))
    assert "6 replicates of 2 settings, none diverged; mean and 95 % interval of each" in figure.get_suptitle()
    assert figure.axes[-1].get_ylabel() == "share of trajectories\n(all settings)"


def test_one_replicate_of_a_setting_has_no_band_beside_another_that_has():
    made = trace({"kl": noise((U, 4))}, settings=[0.1, 0.1, 0.1, 0.2])
    first, second = panel(plot(made), "kl").collections
    assert len(first.get_paths()[0].vertices) and not second.get_paths()


def test_of_many_settings_the_ends_are_among_those_drawn():
    steps = [0.01 * k for k in range(1, 31)]
    figure = plot(trace({"kl": noise((U, 30))}, settings=steps))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(labels) == len(panel(figure, "kl").lines) == _metrics.SETTINGS == len(_metrics.SERIES)
    assert labels[0] == "sgd.lr=0.01" and labels[-1] == "sgd.lr=0.3"
    title = figure.get_suptitle().replace("\n", " ")
    assert "30 replicates of 30 settings (8 of them drawn)" in title


def test_no_two_lines_are_told_apart_by_color_alone():
    assert len({color for color, _ in _metrics.SERIES}) == len({mark for _, mark in _metrics.SERIES}) == 8


@pytest.mark.parametrize("count", [U, 4])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (0.0, None)])
def test_intervals_end_at_the_bounds_of_the_metric(low, high, count):
    top = 1.0 if high is None else high
    values = np.array([low, low, low, top])[None, :].repeat(count, axis=0)
    free = [_metrics.interval(row, np.arange(4), False) for row in values]
    assert min(edge for _, edge, _ in free) < low  # without the range it would leave it
    ax = panel(plot(trace({"ess": values}, ranges={"ess": [low, high]})), "ess")
    heights = [y for each in ax.collections for path in each.get_paths() for y in path.vertices[:, 1]]
    assert min(heights) == low and max(heights) == (max(edge for _, _, edge in free) if high is None else high)
    if high is not None:
        reach = high - low
        assert ax.get_ylim() == pytest.approx((low - 0.03 * reach, high + 0.03 * reach))


def test_the_whole_range_is_shown_however_little_the_metric_moves():
    made = trace({"ess": 0.99 + 0.001 * noise((U, 3))}, ranges={"ess": [0.0, 1.0]})
    ax = panel(plot(made), "ess")
    assert ax.get_ylim() == pytest.approx((-0.03, 1.03)) and ax.get_yscale() == "linear"
    many = trace({"ess": np.geomspace(1e-4, 1.0, U)[:, None].repeat(3, axis=1)}, ranges={"ess": [0.0, 1.0]})
    assert panel(plot(many), "ess").get_yscale() == "linear"


def test_the_autocorrelogram_of_settings_is_not_pooled():
    products = np.array([[1.0, 1.0, 1.0, 1.0], [0.5, 0.5, -0.5, -0.5]])
    made = trace({"kl": noise((U, 4))}, settings=[0.1, 0.1, 0.2, 0.2], accumulated={"autocorrelogram": products})
    ax = plot(made).axes[1]
    lines = [each[0].get_ydata().tolist() for each in ax.containers]
    assert lines == [[1.0, 0.5], [1.0, -0.5]]
    assert [each[0].get_color() for each in ax.containers] == [color for color, _ in _metrics.SERIES[:2]]


def test_a_partial_run_says_so_in_its_title():
    made = trace({"kl": noise((U, 3))})
    made.header["partial"] = {"updates": 12, "of": 40}
    assert "stopped after 12 of 40 updates" in plot(made).get_suptitle()


def test_schedules_are_drawn_as_before():
    assert [ax.get_ylabel() for ax in plot(schedule()).axes] == [_style.label("staleness"), "share of trajectories"]
