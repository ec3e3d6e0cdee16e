"""Timelines: a box a sample in its slot, colored by its staleness when trained, and the ages of every batch below."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

import asyncsim as sim
from asyncsim.base.records import Timeline
from asyncsim.plotting import _style, _timeline, plot
from asyncsim.plotting._perfetto import pieces
from asyncsim.sweeping import advising

NAN = np.nan


def timeline(mode="keep", places=3):
    """Three samples on three slots and two installs, at 2 s and 5 s; the second never ends, the third is too old."""
    samples = {
        "sample": np.array([0, 1, 2]),
        "group": np.array([0, 1, 2]),
        "place": np.array([0, 1, places - 1]),
        "t_start": np.array([1.0, 3.0, 0.0]),
        "t_end": np.array([2.5, NAN, 4.0]),
        "v_start": np.array([0, 1, 0]),
        "batch": np.array([1, -1, -1]),
        "fate": np.array(["trained", "unfinished", "dropped_age"]),
    }
    groups = {
        "v_submit": np.array([0, 1, 0]),
        "v_start": np.array([0, 1, 0]),
        "t_left": np.array([3.0, NAN, 4.0]),
        "batch": np.array([1, -1, -1]),
        "fate": np.array(["trained", "unfinished", "dropped_age"]),
    }
    batches = {
        "batch": np.array([0, 1]),
        "version": np.array([0, 1]),
        "t_start": np.array([0.5, 3.0]),
        "t_end": np.array([1.5, 4.5]),
    }
    publishes = {"version": np.array([1, 2]), "t_snapshot": np.array([1.5, 4.5]), "t_install": np.array([2.0, 5.0])}
    uses = {"batch": np.array([1]), "group": np.array([0])}
    header = {"name": "toy", "mode": mode, "seconds": 8.0}
    return Timeline(samples, groups, batches, publishes, {}, header, uses)


def areal(samples, batches=30):
    system = sim.systems.areal(
        max_head_offpolicyness=2,
        consumer_batch_size=2,
        max_concurrent_rollouts=6,
        length=sim.lognormal(1.0, 0.8),
        load=1.5,
    )
    return system.timeline(batches, samples, seed=0)


def boxes(ax):
    return [patch for patch in ax.patches if isinstance(patch, Rectangle)]


def test_kept_samples_are_cut_at_installs_and_others_are_not():
    assert pieces(timeline(), 0, 6.0) == [(1.0, 2.0, 0), (2.0, 5.0, 1), (5.0, 6.0, 2)]
    assert pieces(timeline(), 1, 8.0) == [(3.0, 5.0, 1), (5.0, 8.0, 2)]
    assert pieces(timeline("pin"), 0, 6.0) == [(1.0, 6.0, 0)]


def test_a_box_has_the_color_of_its_staleness_or_says_what_became_of_it():
    upper, _ = plot(timeline()).axes
    trained, unfinished, dropped = boxes(upper)
    page = _timeline.Page(timeline())
    assert page.ages.tolist() == [1, -1, -1]
    assert trained.get_facecolor() == _style.staleness(1.0) == page.color(1)
    assert unfinished.get_linestyle() == ":" and not unfinished.get_hatch()
    assert dropped.get_hatch() and dropped.get_facecolor() == to_rgba("#e9ecef")
    assert [(box.get_x(), box.get_width()) for box in (trained, unfinished, dropped)] == [(1, 1.5), (3, 1.5), (0, 4)]
    words = [text.get_text() for text in upper.get_legend().get_texts()]
    assert words == ["0 versions old", "1", "discarded", "not trained yet"]


def test_a_batch_shows_the_ages_in_it_and_installs_are_lines():
    upper, lower = plot(timeline()).axes
    (box,) = boxes(lower)
    assert (box.get_x(), box.get_width(), box.get_height()) == (3.0, 1.5, 1.0)
    assert [text.get_text() for text in lower.texts] == ["1"]
    assert [line.get_xdata()[0] for line in upper.lines] == [2.0]
    assert lower.get_xlim() == (0.0, 4.5) and lower.get_xlabel().startswith("simulated time (s)")
    assert (
        upper.get_title(loc="left")
        == "toy: trained data is 1.0 versions old on average, at most 1, and 50% of groups are discarded"
    )


@pytest.mark.parametrize("samples", [1, 3])
def test_the_page_begins_behind_the_start_and_says_what_it_leaves_out(samples):
    record = areal(samples)
    page = _timeline.Page(record)
    assert len(page.shown) == _timeline.BATCHES and page.shown.start > 0
    assert not np.any(record.groups["v_submit"][np.isin(record.groups["batch"], page.shown)] == 0)
    upper, lower = plot(record).axes
    assert lower.get_xlim() == (record.batches["t_start"][page.shown.start], page.end)
    assert len(boxes(upper)) == len(page.samples) and "shown: 10 of 30 batches" in lower.get_xlabel()
    drawn = sorted(round(box.get_y() + 0.4) for box in boxes(upper))
    assert drawn[0] >= 0 and drawn[-1] < page.size * len(page.slots) and page.size == samples
    assert (
        ("(a row a sample)" in upper.get_ylabel()) == (f", {samples} rows each" in lower.get_xlabel()) == (samples > 1)
    )


def test_shares_of_a_batch_add_up_and_equal_the_schedule():
    record = areal(1)
    page = _timeline.Page(record)
    _, lower = plot(record).axes
    assert sum(box.get_height() for box in boxes(lower)) == pytest.approx(len(page.shown))
    stale = record.batches["version"][record.uses["batch"]] - record.groups["v_start"][record.uses["group"]]
    behind = stale[np.isin(record.uses["batch"], page.shown)]
    assert sorted(np.concatenate(page.trained)) == sorted(behind.tolist()) and behind.max() > 0


def test_many_slots_are_chosen_at_equal_distances_and_many_ages_share_colors():
    system = sim.systems.update_on_arrival(40)
    record = system.timeline(200, 1, seed=0)
    page = _timeline.Page(record)
    assert len(page.slots) == _timeline.ROWS and page.slots[0] < 4 and page.slots[-1] > 35
    assert 2 < len(page.levels) <= _timeline.LEVELS + 1 and page.levels[0] == 0
    assert page.level(page.levels[:-1]).tolist() == list(range(len(page.levels) - 1))
    assert "16 of 40 slots" in plot(record).axes[1].get_xlabel()
    # 32 slots decode samples of up to 32 groups of eight: a row of each group's sample would be empty most of the time.
    known = {"trainer": "verl", "machines": 4, "slots_per_machine": 8, "tokens_per_second": 40, "train_seconds": 20.0}
    known |= {"response_lengths": "lognormal:400:0.8", "prompts_per_batch": 8, "samples_per_prompt": 8}
    made, _ = advising.system_of(advising.read(known, Path()), 1, 4, True)
    page = _timeline.Page(made.timeline(40, 8, seed=0))
    assert page.packed and page.size == 1 and len(page.slots) == _timeline.ROWS and page.places.max() < 32
    assert float(page._spent.sum()) > 0.5 * 32 * (page.end - page.begin)
    for slot in page.slots:
        rows = np.flatnonzero(page.places == slot)
        rows = rows[np.argsort(page.timeline.samples["t_start"][rows])]
        ends = [_timeline.written_until(page.timeline, n, page.end) for n in rows.tolist()]
        assert np.all(page.timeline.samples["t_start"][rows][1:] >= ends[:-1])


def test_a_record_without_batches_is_still_drawn():
    record = timeline()
    for table in (record.batches, record.uses, record.publishes):
        table.update({name: column[:0] for name, column in table.items()})
    record.samples["batch"][:] = record.groups["batch"][:] = -1
    assert "nothing is trained" in plot(record).axes[0].get_title(loc="left")
