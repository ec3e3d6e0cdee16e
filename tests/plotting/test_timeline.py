"""Timelines: one lane a place, bars cut where weights move under a sample, batches below."""

from __future__ import annotations

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base.records import Timeline
from asyncsim.plotting import _timeline, plot

NAN = np.nan


def timeline(mode="keep", places=2):
    """Two samples on two places and two installs, at 2 s and 5 s; the second sample never ends."""
    samples = {
        "sample": np.array([0, 1]),
        "group": np.array([0, 1]),
        "place": np.array([0, places - 1]),
        "t_start": np.array([1.0, 3.0]),
        "t_end": np.array([6.0, NAN]),
        "v_start": np.array([0, 1]),
    }
    batches = {
        "batch": np.array([0, 1]),
        "version": np.array([0, 1]),
        "t_start": np.array([0.5, 3.0]),
        "t_end": np.array([1.5, 4.5]),
    }
    publishes = {"version": np.array([1, 2]), "t_snapshot": np.array([1.5, 4.5]), "t_install": np.array([2.0, 5.0])}
    return Timeline(samples, {}, batches, publishes, {}, {"name": "toy", "mode": mode, "seconds": 8.0})


def extents(ax):
    corners = np.array([path.vertices[:4] for path in ax.collections[0].get_paths()])
    return sorted((float(c[:, 0].min()), float(c[:, 0].max())) for c in corners)


def test_kept_samples_are_cut_at_installs_and_others_are_not():
    assert _timeline.pieces(timeline(), 0, 6.0) == [(1.0, 2.0, 0), (2.0, 5.0, 1), (5.0, 6.0, 2)]
    assert _timeline.pieces(timeline(), 1, 8.0) == [(3.0, 5.0, 1), (5.0, 8.0, 2)]
    assert _timeline.pieces(timeline("pin"), 0, 6.0) == [(1.0, 6.0, 0)]


def test_bars_are_drawn_for_samples_and_batches():
    upper, lower = plot(timeline()).axes[:2]
    assert extents(upper) == [(1.0, 2.0), (2.0, 5.0), (3.0, 5.0), (5.0, 6.0), (5.0, 8.0)]
    assert extents(lower) == [(0.5, 1.5), (3.0, 4.5)]
    assert lower.get_xlim() == (0.0, 8.0) and lower.get_xlabel() == "simulated time (s)"
    assert [text.get_text() for text in lower.get_yticklabels()] == ["train", "publish"]


def test_a_batch_has_the_color_of_the_samples_of_its_version():
    upper, lower = plot(timeline("pin")).axes[:2]
    generated, trained = (ax.collections[0].get_facecolors()[:, :3] for ax in (upper, lower))
    np.testing.assert_array_equal(generated, trained)
    assert not np.array_equal(generated[0], generated[1])


def test_versions_that_follow_each_other_have_distinct_colors():
    face = np.array([_timeline.colors(17)(k)[:3] for k in range(17)])
    assert len({tuple(color) for color in face}) == 17
    warm = face[:, 0] > face[:, 2]
    assert not warm[::2].any() and warm[1::2].all()


def test_unfinished_samples_are_pale():
    alpha = plot(timeline("pin")).axes[0].collections[0].get_facecolors()[:, 3]
    assert alpha[0] == 1.0 and alpha[1] < 0.5


def test_installs_are_marked_in_both_panels():
    upper, lower = plot(timeline()).axes[:2]
    assert [line.get_xdata()[0] for line in upper.lines] == [2.0, 5.0]
    triangles = [line.get_xdata()[0] for line in lower.lines if line.get_marker() == "^"]
    assert triangles == [2.0, 5.0]


def test_a_large_system_is_cut_to_a_page_that_says_so():
    figure = plot(timeline(places=100))
    assert f"shown: first {_timeline.PLACES} of 100 places" in figure.get_suptitle()
    assert "cut" not in plot(timeline()).get_suptitle()
    assert len(extents(figure.axes[0])) == 3


@pytest.mark.parametrize("samples", [1, 3])
def test_a_real_system_fills_its_lanes(samples):
    system = sim.systems.areal(
        max_head_offpolicyness=2,
        consumer_batch_size=2,
        max_concurrent_rollouts=6,
        length=sim.lognormal(1.0, 0.8),
        load=1.5,
    )
    record = system.timeline(30, samples, seed=0)
    figure = plot(record)
    assert "first 16 of 30 batches" in figure.get_suptitle()
    end = figure.axes[1].get_xlim()[1]
    assert end == record.batches["t_end"][_timeline.BATCHES - 1]
    bars = extents(figure.axes[0])
    assert len(bars) >= np.sum(record.samples["t_start"] < end) and max(right for _, right in bars) <= end
