"""What a store says of itself: its sweeps, files that are not as they were written, files that nobody needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import asyncsim as sim
from asyncsim.base import store as storing
from asyncsim.base.checks import InputError
from asyncsim.base.store import Store
from asyncsim.sweeping import keeping, plans, units
from tests.sweeping.laboratory import bandit


@pytest.fixture
def store(tmp_path):
    sim.sweep(bandit(), {"staleness": [0, 4], "lr": [0.1, 0.2]}, replicates=8, store=str(tmp_path), workers=1)
    sim.sweep(bandit(), {"staleness": [0, 6]}, replicates=8, store=str(tmp_path), workers=1)
    return Store(tmp_path)


def first(store):
    return next(iter(store.names("units")))


def test_sweeps_are_listed_with_how_far_they_are(store):
    listed = keeping.sweeps(store)
    assert sorted((each.there, len(each.plan.keys), each.failed) for each in listed) == [(2, 2, 0), (2, 2, 0)]
    store.remove(first(store))
    assert sorted(each.there for each in keeping.sweeps(store)) == [1, 2]
    assert json.loads(json.dumps(listed[0].row()))["units"] == 2 and listed[0].plan.id in str(listed[0])


def test_a_sweep_is_read_by_another_process_as_it_was_answered(store):
    answer = sim.sweep(bandit(), {"staleness": [0, 6]}, replicates=8, store=store.where, workers=1)
    plan = keeping.chosen(store, answer.id[:6])
    again = plans.answered(store, plan, 0, 0.0)
    assert again.summary == answer.summary and again.values == answer.values and str(plan.words) == answer.reading
    with pytest.raises(InputError, match="fits 2"):
        keeping.chosen(store, "")
    with pytest.raises(InputError, match="fits 0"):
        keeping.chosen(store, "zz")


def test_sound_units_are_verified_and_come_out_again(store):
    assert keeping.verified(store, again=4) == (4, [])


def rewritten(store, name, change):
    """A unit's file with other contents."""
    table, about = storing.unpack(store.read(name), name)
    columns = {key: table.column(key).to_numpy(zero_copy_only=False).copy() for key in table.column_names}
    change(columns, about)
    store.write(name, storing.pack(columns, about))


def rise(columns, about):
    columns["trained_return"][0] += 1e-12


def rise_with_digest(columns, about):
    import pyarrow as pa

    rise(columns, about)
    about["rows"] = storing.content(pa.table(columns))


def other_seed(columns, about):
    about["told"]["seed"] += 1


@pytest.mark.parametrize(
    ("change", "again", "what"),
    [(rise, 0, "altered"), (other_seed, 0, "its name says"), (rise_with_digest, 4, "other rows now")],
)
def test_a_unit_that_is_not_as_written_is_named(store, change, again, what):
    name = first(store)
    rewritten(store, name, change)
    (fault,) = keeping.verified(store, again)[1]
    assert fault.name == name and what in fault.what


def test_a_damaged_file_is_named_and_made_again_once_it_is_gone(store):
    name = first(store)
    data = store.read(name)
    Path(store.where, name).write_bytes(data[:-9])
    assert [(f.name, f.what) for f in keeping.verified(store)[1]] == [(name, "damaged")]
    store.remove(name)
    for grid in ({"staleness": [0, 4], "lr": [0.1, 0.2]}, {"staleness": [0, 6]}):
        sim.sweep(bandit(), grid, replicates=8, store=store.where, workers=1)
    assert keeping.verified(store) == (4, [])


def test_only_what_no_sweep_needs_is_unneeded(store):
    assert keeping.unneeded(store) == []
    lost = next(iter(store.names("sweeps")))
    keys = plans.loaded(store, lost.removeprefix("sweeps/").removesuffix(".parquet"))[0].keys
    done = units.failure_of(keys[0])
    store.write(done, b"{}")
    store.write(units.failure_of("0" * 32), b"{}")
    assert sorted(keeping.unneeded(store)) == sorted([done, units.failure_of("0" * 32)])
    store.remove(lost)
    assert set(keeping.unneeded(store)) >= {units.name_of(key) for key in keys}
