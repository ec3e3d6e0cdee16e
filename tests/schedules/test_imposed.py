"""Imposed schedules, and the feed that hands any schedule out batch by batch."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim import schedules
from asyncsim import testing as drawn
from asyncsim.base import laws, records
from asyncsim.base.feeds import EagerFeed
from tests.refusals import refused
from tests.statistics import assert_rate

COUNTS = {"groups_per_batch": st.integers(1, 3), "batches_per_publish": st.integers(1, 3)}


@given(
    staleness=st.integers(0, 9),
    batches=st.integers(1, 20),
    samples=st.integers(1, 3),
    counts=st.fixed_dictionaries(COUNTS),
)
def test_fixed_is_the_smaller_of_version_and_lag(staleness, batches, samples, counts):
    schedule = schedules.fixed(staleness, **counts).schedule(batches, samples, 5, 2, 0)
    expected = np.minimum(np.arange(batches) // counts["batches_per_publish"], staleness)
    assert schedule.version.shape == (2, batches, counts["groups_per_batch"], samples, 1)
    assert (schedule.staleness() == expected[None, :, None, None, None]).all()
    assert np.array_equal(np.sort(schedule.trajectory[0].ravel()), np.arange(schedule.trajectory[0].size))


def test_sawtooth_and_frozen():
    law = schedules.sawtooth(3)
    assert law.batches_per_publish == 3
    assert (law.schedule(7, 1, 1, 1, 0).staleness() == 0).all()
    assert schedules.frozen().schedule(4, 1, 1, 1, 0).staleness().ravel().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("per", ["update", "group", "trajectory"])
def test_random_staleness_has_its_law_and_its_sharing(per):
    # Bands of false alarm 1e-6; 4000 independent draws miss a law that is 0.05 off with probability < 1e-6.
    law = [0.2, 0.0, 0.5, 0.3]
    schedule = schedules.random(law, per, groups_per_batch=2).schedule(10, 3, 1, 4000, 1)
    staleness = schedule.staleness()[..., 0]
    late = staleness[:, 9, 0, 0]
    for value, rate in enumerate(law):
        assert_rate(int((late == value).sum()), 4000, rate)
    with pytest.raises(AssertionError):
        assert_rate(int((late == 0).sum()), 4000, law[0] + 0.05)
    # Cut at the current version: all draws above it land on it.
    assert (staleness[:, 0] == 0).all()
    assert_rate(int((staleness[:, 2, 0, 0] == 2).sum()), 4000, 0.8)
    # Independent between realizations and between units, equal inside a unit.
    alike = staleness[:, 9]
    equal = sum(p * p for p in law)
    assert_rate(int((late[::2] == late[1::2]).sum()), 2000, equal)
    pairs = {"samples": alike[:, 0, 0] == alike[:, 0, 1], "groups": alike[:, 0, 0] == alike[:, 1, 0]}
    shared = {"update": {"samples", "groups"}, "group": {"samples"}, "trajectory": set()}[per]
    for name, same in pairs.items():
        if name in shared:
            assert same.all()
        else:
            assert_rate(int(same.sum()), 4000, equal)


def test_realizations_describe_and_travel():
    law = schedules.random(laws.uniform(0, 4), "group", groups_per_batch=2)
    assert (law.random, law.realizations(300), schedules.fixed(2).realizations(300)) == (True, 300, 1)
    assert law.describe()["knobs"] == {"law": [0.2] * 5, "per": "group"}
    again = pickle.loads(pickle.dumps(law))
    assert np.array_equal(again.schedule(5, 1, 1, 3, 0).version, law.schedule(5, 1, 1, 3, 0).version)
    assert not np.array_equal(law.schedule(30, 1, 1, 3, 1).version, law.schedule(30, 1, 1, 3, 0).version)


@given(schedule=drawn.schedules(samples=2, tokens=2, realizations=3))
def test_the_feed_retires_each_version_once_and_never_early(schedule):
    batches, publish = schedule.trajectory.shape[1], schedule.batches_per_publish
    feed, gone = EagerFeed(schedule), []
    for batch in range(batches):
        version, trajectory = feed.take(batch)
        assert np.array_equal(version, schedule.version[:, batch])
        assert np.array_equal(trajectory, schedule.trajectory[:, batch])
        assert not set(gone) & set(version.ravel().tolist())
        retired = feed.retired(batch)
        assert all(v <= batch // publish for v in retired)
        gone += retired
        later = set(schedule.version[:, batch + 1 :].ravel().tolist())
        assert set(range(batch // publish + 1)) - set(gone) <= later
    assert sorted(gone) == list(range((batches - 1) // publish + 1))


def test_unknown_versions_are_no_version():
    version = np.array([-1, 0, -1, 1], dtype=np.int32).reshape(1, 4, 1, 1, 1)
    feed = EagerFeed(records.Schedule(version, np.arange(4).reshape(1, 4, 1, 1)))
    assert [feed.retired(batch) for batch in range(4)] == [[], [0], [2], [1, 3]]


def test_a_saved_schedule_is_replayed(tmp_path):
    schedule = schedules.random([0.5, 0.5], "group", groups_per_batch=2).schedule(6, 2, 1, 3, 0)
    schedule.save(tmp_path / "file")
    feed = EagerFeed(records.Schedule.load(tmp_path / "file"))
    for batch in range(4):
        feed.take(batch)
    assert np.array_equal(feed.record().version, schedule.version[:, :4])
    assert feed.record().header == schedule.header
    refused("batch = 6", feed.take, 6)


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("staleness", lambda: schedules.fixed(-1)),
        ("staleness", lambda: schedules.fixed(1.5)),
        ("batches", lambda: schedules.sawtooth(0)),
        ("batches", lambda: schedules.sawtooth(1.5)),
        ("law", lambda: schedules.random([0.5, 0.6])),
        ("law", lambda: schedules.random([1.5, -0.5])),
        ("law", lambda: schedules.random([])),
        ("law", lambda: schedules.random([float("nan"), 1.0])),
        ("per", lambda: schedules.random([1.0], per="token")),
        ("groups_per_batch", lambda: schedules.frozen(groups_per_batch=0)),
        ("batches", lambda: schedules.frozen().schedule(0, 1, 1, 1, 0)),
        ("samples_per_group", lambda: schedules.frozen().schedule(1, 0, 1, 1, 0)),
        ("tokens", lambda: schedules.frozen().schedule(1, 1, 0, 1, 0)),
        ("realizations", lambda: schedules.frozen().schedule(1, 1, 1, 0, 0)),
        ("seed", lambda: schedules.random([1.0]).schedule(1, 1, 1, 1, -1)),
    ],
)
def test_bad_input_is_refused_by_name(field, make):
    caught = refused("", make)
    assert caught.field == field
