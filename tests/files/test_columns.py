"""Columns of saved timelines and schedules: real ones are read, forged ones are refused by name."""

from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base import columns, files
from asyncsim.base.checks import InputError
from asyncsim.base.records import Schedule, Timeline, plain
from asyncsim.systems._system import StalledError
from tests.systems.settings import CORNERS, FEATURES, corners, systems


def checked(system, batches, samples, seed):
    with suppress(StalledError):
        timeline = system.timeline(batches, samples, seed=seed)
        columns.check_timeline({name: getattr(timeline, name) for name in Timeline.TABLES}, timeline.header)


SIZE = {"batches": st.integers(1, 14), "samples": st.integers(1, 3), "seed": st.integers(0, 99)}


@settings(max_examples=150)
@given(data=st.data(), feature=st.sampled_from(list(FEATURES)), exact=st.booleans(), **SIZE)
def test_every_record_keeps_the_rules(data, feature, exact, batches, samples, seed):
    checked(data.draw(systems(exact=exact, must=(feature,))), batches, samples, seed)


@pytest.mark.parametrize("name", CORNERS)
@settings(max_examples=15)
@given(data=st.data(), **SIZE)
def test_records_of_corners_keep_the_rules(name, data, batches, samples, seed):
    checked(data.draw(corners(name)), batches, samples, seed)


def system():
    """Groups that are dropped and rejected, samples that fail, two servers with slots, a buffer that blocks."""
    model = {"servers": 2, "slots": 3, "accept": 0.8, "reward": sim.exponential(0.3), "failure_rate": 0.1}
    return sim.systems.areal(2, 4, 12, length=sim.lognormal(1.0, 0.8), load=2.0, sync_time=0.1).replace(
        max_age=1, difficulty=sim.empirical([0.5, 1.0, 2.0]), **model
    )


@cache
def record():
    """Made by a test, not with this module: it compiles the kernel, for which the other workers would wait."""
    return system().timeline(8, 2, seed=3)


DECLARED = (columns.INTEGERS, columns.NUMBERS, columns.WORDS, {"publishes": "clock_0 clock_1"})
COLUMNS = [(table, name) for table in Timeline.TABLES for kind in DECLARED for name in kind.get(table, "").split()]


def test_every_column_of_a_record_is_declared():
    assert set(COLUMNS) == {(table, name) for table in Timeline.TABLES for name in getattr(record(), table)}


def other(values):
    return values.astype(float) + 0.5 if values.dtype.kind == "i" else np.arange(len(values))


def filled(value):
    def forge(values):
        forged = values.astype("U40") if values.dtype.kind == "U" else values.copy()
        if isinstance(value, float) and values.dtype.kind == "i":
            forged = values.astype(float)
        forged[len(forged) // 2 :] = value
        return forged

    return forge


FORGED = {
    "of another type": other,
    "words": lambda values: np.full(len(values), "word"),
    "objects of two axes": lambda values: values[:, None],
    "shorter": lambda values: values[:-1],
    "longer": lambda values: np.append(values, values[-1:]),
    "missing": filled(np.nan),
    "infinite": filled(np.inf),
    "negative": filled(-7),
    "huge": filled(2**31 - 9),
    "reversed": lambda values: values[::-1],
    "rolled": lambda values: np.roll(values, 1),
    "one more": lambda values: values + 1 if values.dtype.kind != "U" else values[::-1],
    "doubled": lambda values: 2 * values if values.dtype.kind != "U" else np.roll(values, 1),
}
PLAUSIBLE = {
    *(("samples", column) for column in ("attempt", "rate", "wasted", "clock", "t_scored")),
    *(("groups", column) for column in ("target", "factor", "t_free")),
    *(("publishes", "clock_0"), ("publishes", "clock_1"), ("resources", "syncing")),
    *(("stretches", "version"), ("stretches", "clock")),
}
"""Columns of which some other number can pass: nothing else in the record says it. None of another type can."""
CRUDE = {"of another type", "words", "objects of two axes", "shorter", "longer", "infinite", "negative"}


def saved(path, arrays, header):
    files.save_arrays(path, "timeline", arrays, plain({"header": header}))
    return path


def parts():
    return {f"{table}/{name}": getattr(record(), table)[name] for table, name in COLUMNS}


def test_forged_columns_are_refused_by_name(monkeypatch):
    passed, tried = [], 0
    for table, name in COLUMNS:
        values = getattr(record(), table)[name]
        for kind, forge in FORGED.items():
            forged = forge(values)
            if forged.dtype == values.dtype and np.array_equal(forged, values, equal_nan=values.dtype.kind == "f"):
                continue
            tried += 1
            # What stands in the file; packing it a thousand times would take a minute.
            content = (parts() | {f"{table}/{name}": forged}, plain({"header": record().header}))
            monkeypatch.setattr(files, "load_arrays", lambda path, kind, content=content: content)
            try:
                Timeline.load("forged.npz")
            except InputError as error:
                assert error.field.startswith("timeline.") and "\n" not in str(error), (table, name, kind)
            else:
                passed.append((table, name, kind))
    assert tried > 800 and len(passed) < 0.05 * tried, (tried, len(passed))
    assert {(table, name) for table, name, _ in passed} <= PLAUSIBLE
    assert not [one for one in passed if one[2] in CRUDE and one[1] != "clock"]


@pytest.mark.parametrize(("table", "name"), COLUMNS)
def test_a_column_that_is_gone_is_named(tmp_path, table, name):
    left = {key: values for key, values in parts().items() if key != f"{table}/{name}"}
    # One clock less is a server less.
    with pytest.raises(InputError, match=f"timeline.{table}.*{name}" if name != "clock_1" else "modulo 1"):
        Timeline.load(saved(tmp_path / "less.npz", left, record().header))


@pytest.mark.parametrize("header", [None, [], {}, {"seconds": "long"}, {"seconds": float("nan")}, {"seconds": -1.0}])
def test_a_header_without_its_seconds_is_refused(tmp_path, header):
    with pytest.raises(InputError):
        Timeline.load(saved(tmp_path / "header.npz", parts(), header))


def test_more_columns_are_refused_and_the_record_itself_is_read(tmp_path):
    with pytest.raises(InputError, match="color"):
        Timeline.load(saved(tmp_path / "more.npz", parts() | {"groups/color": np.zeros(3)}, record().header))
    found = Timeline.load(saved(tmp_path / "same.npz", parts(), record().header))
    for table, name in COLUMNS:
        np.testing.assert_array_equal(getattr(found, table)[name], getattr(record(), table)[name])


IDS = np.arange(24).reshape(1, 3, 2, 4)
VERSIONS = np.zeros((1, 3, 2, 4, 1), dtype=np.int32)


def refused(field, **changes):
    with pytest.raises(InputError) as caught:
        Schedule(**{"version": VERSIONS, "trajectory": IDS, **changes})
    assert caught.value.field == field and "\n" not in str(caught.value)
    return str(caught.value)


def test_ids_stand_once_and_ascend_inside_a_batch():
    assert "different trajectories" in refused("schedule.trajectory", trajectory=np.full_like(IDS, 5))
    twice = IDS.copy()
    twice[0, 1, 1, 0] = twice[0, 1, 0, 0]
    assert "batch 1" in refused("schedule.trajectory", trajectory=twice)
    assert "inside a group" in refused("schedule.trajectory", trajectory=IDS[..., ::-1])
    assert "from group to group" in refused("schedule.trajectory", trajectory=IDS[:, :, ::-1])
    # Groups whose samples were asked in turn, and a batch that trains a group again.
    for good in (IDS.reshape(1, 3, 4, 2).swapaxes(2, 3), np.concatenate([IDS[:, :2], IDS[:, :1]], axis=1)):
        assert Schedule(VERSIONS, good).batches == 3


@pytest.mark.parametrize("axis", range(5))
def test_no_axis_is_empty(axis):
    shape = [1, 3, 2, 4, 1]
    shape[axis] = 0
    field = "schedule.trajectory" if axis < 4 else "schedule.version"
    refused(field, version=np.zeros(shape, dtype=np.int32), trajectory=np.zeros(shape[:4], dtype=np.int64))


ONES = np.ones(IDS.shape)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("work", [1]),
        ("work", ONES.tolist()),
        ("work", ONES[0]),
        ("work", 0.0 * ONES),
        ("work", -ONES),
        ("work", np.nan * ONES),
        ("work", np.inf * ONES),
        ("work", ONES.astype(str)),
        ("work", ONES.astype(object)),
        ("seconds", [1.0]),
        ("seconds", np.ones((1, 2))),
        ("seconds", np.array([[0.0, 2.0, 1.0]])),
        ("seconds", np.array([[0.0, np.nan, 1.0]])),
        ("seconds", np.array([[0.0, 1.0, np.inf]])),
        ("header", None),
        ("header", [1]),
    ],
)
def test_works_seconds_and_headers_that_no_run_can_use(field, value):
    refused(f"schedule.{field}", **{field: value})


def test_versions_below_the_unknown_one():
    refused("schedule.version", version=VERSIONS - 2)
    assert np.isnan(Schedule(VERSIONS - 1, IDS).staleness()).all()


def test_what_a_run_can_use_is_taken():
    found = Schedule(VERSIONS, IDS, work=0.5 * ONES, seconds=np.array([[0.0, 0.0, 2.0]]))
    assert found.work.sum() == 12.0
    many = Schedule(*(np.broadcast_to(each, (10**5, *each.shape[1:])) for each in (VERSIONS, IDS)))
    assert many.realizations == 10**5


def test_a_draw_of_no_work_is_refused_by_name():
    with pytest.raises(InputError, match="positive in every draw"):
        sim.systems.synchronous(64, length=sim.gamma(1.0, 1e-3)).summary(4)
