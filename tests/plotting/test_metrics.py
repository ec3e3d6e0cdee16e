"""Panels of traces and schedules: lines are means, bands are intervals between realizations, bars are shares."""

import numpy as np
import pytest

from asyncsim.base import uncertainty
from asyncsim.base.records import Schedule
from asyncsim.base.trace import Trace
from asyncsim.plotting import _metrics, _style, plot

U, R, M = 12, 6, 3


def schedule(random=True, realizations=M, batches=U, spread=4):
    rng = np.random.default_rng(0)
    train = np.arange(batches)[None, :, None, None, None]
    gap = rng.integers(0, spread, (realizations, batches, 2, 2, 1))
    version = np.maximum(train - gap, 0).astype(np.int32)
    ids = np.broadcast_to(np.arange(batches * 4).reshape(1, batches, 2, 2), (realizations, batches, 2, 2))
    return Schedule(version, ids, random=random)


def trace(metrics, random=True, realizations=M, diverged=None, accumulated=None, header=None):
    any_metric = next(iter(metrics.values()))
    replicates = any_metric.shape[1]
    return Trace(
        metrics=metrics,
        updates=10 * np.arange(len(any_metric)),
        accumulated=accumulated or {},
        header=header or {},
        parameters=np.zeros((replicates, 1)),
        diverged=np.full(replicates, -1) if diverged is None else diverged,
        realization=np.arange(replicates) % realizations,
        schedule=schedule(random, realizations),
    )


def noise(shape=(U, R), seed=1):
    return np.random.default_rng(seed).normal(3.0, 1.0, shape)


def panel(figure, name):
    return next(ax for ax in figure.axes if ax.get_ylabel() == _style.label(name))


def band(ax):
    """Lower and upper edge of the band of a panel at every x."""
    (collection,) = ax.collections
    corners = collection.get_paths()[0].vertices
    edges = {x: corners[corners[:, 0] == x, 1] for x in np.unique(corners[:, 0])}
    return np.array([(y.min(), y.max()) for y in edges.values()])


@pytest.mark.parametrize("random", [True, False])
def test_a_metric_is_its_mean_with_the_interval_between_independent_units(random):
    values = noise()
    made = trace({"entropy": values}, random)
    ax = panel(plot(made), "entropy")
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), made.updates)
    np.testing.assert_allclose(line.get_ydata(), values.mean(axis=1), rtol=1e-12)
    found = [made.estimate(row) for row in values]
    half = np.array([uncertainty.critical(0.05, e.freedom) * e.error for e in found])
    assert found[0].freedom == (M - 1 if random else R - 1)
    np.testing.assert_allclose(band(ax), np.c_[values.mean(axis=1) - half, values.mean(axis=1) + half], rtol=1e-12)
    assert ax.get_xlabel() == "update $u$" and ax.get_ylabel() == "entropy $H$ (nats)"


def test_one_shared_random_schedule_gets_no_interval_and_says_so():
    ax = panel(plot(trace({"entropy": noise()}, realizations=1)), "entropy")
    assert "no interval" in ax.texts[0].get_text()
    assert not [path for collection in ax.collections for path in collection.get_paths()]


def test_a_single_replicate_gets_no_interval():
    ax = panel(plot(trace({"entropy": noise((U, 1))}, random=False, realizations=1)), "entropy")
    assert "no interval" in ax.texts[0].get_text() and np.isfinite(ax.lines[0].get_ydata()).all()


def test_diverged_replicates_are_left_out_and_counted():
    values = noise()
    values[5:, 0] = np.nan
    figure = plot(trace({"entropy": values}, random=False, diverged=np.array([50, -1, -1, -1, -1, -1])))
    assert "6 replicates, 1 diverged" in figure.get_suptitle()
    np.testing.assert_allclose(panel(figure, "entropy").lines[0].get_ydata(), np.nanmean(values, axis=1), rtol=1e-12)


def test_all_replicates_missing_leaves_a_gap():
    values = noise()
    values[3] = np.nan
    drawn = panel(plot(trace({"entropy": values})), "entropy").lines[0].get_ydata()
    assert np.isnan(drawn[3]) and np.isfinite(np.delete(drawn, 3)).all()


@pytest.mark.parametrize(("span", "scale"), [(1e4, "log"), (1e2, "linear")])
def test_many_decades_are_drawn_on_a_logarithmic_axis(span, scale):
    values = np.geomspace(1.0, span, U)[:, None] * (1 + 0.01 * noise())
    assert panel(plot(trace({"gradient_norm": values})), "gradient_norm").get_yscale() == scale


@pytest.mark.parametrize(("count", "columns"), [(1, 2), (2, 3), (7, 3)])
def test_panels_stand_in_at_most_three_columns(count, columns):
    figure = plot(trace({f"metric_{k}": noise(seed=k) for k in range(count)}))
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert len(shown) == count + 1
    assert figure.axes[0].get_subplotspec().get_gridspec().ncols == columns


def test_bars_are_the_shares_of_the_trace_with_intervals():
    made = trace({"entropy": noise()})
    ax = plot(made).axes[1]
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], made.staleness(), rtol=1e-12)
    middles = [segment[:, 1].mean() for segment in ax.collections[0].get_segments()]
    assert len(middles) == len(ax.patches)
    assert ax.get_xlabel() == "head staleness $s$ (versions)"


def test_deterministic_bars_have_no_intervals():
    ax = _style.picture(3, 2).subplots()
    _metrics.histogram(ax, schedule(random=False))
    assert not ax.collections


def test_a_long_tail_is_gathered_in_bars_that_keep_all_the_weight():
    made = schedule(batches=300, spread=250)
    ax = _style.picture(3, 2).subplots()
    _metrics.histogram(ax, made)
    assert 2 <= len(ax.patches) <= _metrics.BARS
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1.0, abs=1e-12)


def test_unknown_versions_are_left_out():
    made = schedule(random=False, realizations=1)
    made.version[0, :, 0] = -1
    heads = made.staleness()[..., 0]
    assert np.isnan(heads[0, :, 0]).all()
    figure = plot(made)
    np.testing.assert_allclose(figure.axes[0].lines[-1].get_ydata(), np.nanmean(heads, axis=(0, 2, 3)))
    assert sum(bar.get_height() for bar in figure.axes[1].patches) == pytest.approx(1.0, abs=1e-12)


def test_staleness_of_batches_is_mean_and_largest():
    made = schedule()
    left = plot(made).axes[0]
    largest, mean = (line.get_ydata() for line in left.lines)
    heads = made.staleness()[..., 0]
    np.testing.assert_allclose(mean, heads.mean(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_array_equal(largest, heads.max(axis=(0, 2, 3)))
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels == ["largest", "mean and range of 3 realizations"]
    means = heads.mean(axis=(2, 3))
    np.testing.assert_array_equal(band(left), np.c_[means.min(axis=0), means.max(axis=0)])


def test_many_realizations_get_an_interval_that_is_cut_at_0():
    made = schedule(realizations=5, spread=2)
    left = plot(made).axes[0]
    assert left.get_legend().get_texts()[1].get_text() == "mean and 95 % interval"
    means = made.staleness()[..., 0].mean(axis=(2, 3))
    found = [uncertainty.between(column, np.arange(5), True) for column in means.T]
    half = np.array([uncertainty.critical(0.05, 4) * e.error for e in found])
    middle = means.mean(axis=0)
    assert (middle < half).any()
    np.testing.assert_allclose(band(left), np.c_[np.maximum(middle - half, 0.0), middle + half], atol=1e-12)


def test_the_number_of_the_mean_stands_at_its_marker():
    for spread in (2, 9):
        made = schedule(spread=spread)
        ax = plot(made).axes[1]
        (marker,) = [line for line in ax.lines if line.get_marker() == "v"]
        (text,) = ax.texts
        assert text.xy == (marker.get_xdata()[0], marker.get_ydata()[0]) and marker.get_ydata()[0] > 1.0
        assert marker.get_xdata()[0] == pytest.approx(made.staleness().mean(), rel=1e-12)
        assert text.get_text() == f"mean {made.staleness().mean():.3g}" and abs(text.xyann[0]) <= 6


@pytest.mark.parametrize("count", [1, _metrics.MARKED])
def test_few_updates_are_marked_with_their_intervals(count):
    values = noise((count, R))
    ax = panel(plot(trace({"entropy": values}, random=False)), "entropy")
    ((line, _, (bars,)),) = ax.containers
    assert line.get_marker() == "o"
    np.testing.assert_allclose(line.get_ydata(), values.mean(axis=1), rtol=1e-12)
    low, high = np.array([segment[:, 1] for segment in bars.get_segments()]).T
    half = [uncertainty.critical(0.05, R - 1) * uncertainty.between(row).error for row in values]
    np.testing.assert_allclose((high - low) / 2, half, rtol=1e-9)


def test_whole_numbers_have_whole_ticks_and_nothing_finite_says_so():
    made = trace({"staleness": np.zeros((1, R)), "kl": np.full((1, R), np.nan)})
    figure = plot(made)
    ax = panel(figure, "staleness")
    low, high = ax.get_ylim()
    assert [tick for tick in ax.get_yticks() if low <= tick <= high] == [0.0]
    assert panel(figure, "kl").texts[0].get_text() == "no finite value" and "KL" in _style.label("kl")
    for ax in figure.axes[:2]:
        assert all(tick == round(tick) for tick in ax.get_xticks())


def test_the_title_says_what_was_run():
    spec = {"task": "Quadratic", "method": "gradient", "system": {"name": "fixed", "knobs": {"staleness": 4}}}
    title = plot(trace({"entropy": noise()}, header={"spec": spec})).get_suptitle().replace("\n", " ")
    assert title.startswith("Quadratic, method gradient, system fixed (staleness 4), mean staleness ")
    assert title.endswith("6 replicates, none diverged; mean and 95 % interval")


@pytest.mark.parametrize("random", [True, False])
def test_the_autocorrelogram_is_the_ratio_of_means_with_its_interval(random):
    products = np.array([4.0, 1.0, -2.0])[:, None] + 0.1 * noise((3, R), seed=5)
    products[:, 2] = np.nan
    diverged = np.array([-1, -1, 7, -1, -1, -1])
    figure = plot(trace({"kl": noise()}, random, diverged=diverged, accumulated={"autocorrelogram": products}))
    assert len([ax for ax in figure.axes if ax.get_visible()]) == 3
    ax = figure.axes[1]
    assert "C_k/C_0" in ax.get_ylabel() and any(np.all(np.asarray(line.get_ydata()) == 0) for line in ax.lines)
    ((points, _, (bars,)),) = ax.containers
    kept = np.delete(products, 2, axis=1)
    np.testing.assert_allclose(points.get_ydata(), kept.mean(axis=1) / kept[0].mean(), rtol=1e-12)
    units = np.delete(np.arange(R) % M, 2)
    for row, segment in zip(kept, bars.get_segments(), strict=True):
        found = uncertainty.ratio(row, kept[0], units, random)
        half = uncertainty.critical(0.05, found.freedom) * found.error
        assert found.freedom == (M - 1 if random else R - 2)
        np.testing.assert_allclose(segment[:, 1], [found.value - half, found.value + half], rtol=1e-9, atol=1e-12)


def test_an_autocorrelogram_of_one_replicate_has_points_but_no_interval():
    figure = plot(trace({"kl": noise((U, 1))}, False, 1, accumulated={"autocorrelogram": np.array([[2.0], [-1.0]])}))
    ax = figure.axes[1]
    assert "no interval" in ax.texts[0].get_text()
    np.testing.assert_array_equal(ax.containers[0][0].get_ydata(), [1.0, -0.5])


def test_long_runs_are_thinned_between_their_ends():
    shown = _metrics.thinned(100_000)
    assert len(shown) == _metrics.POINTS and shown[0] == 0 and shown[-1] == 99_999
    assert _metrics.thinned(3).tolist() == [0, 1, 2]
