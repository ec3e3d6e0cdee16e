"""What a store says of itself: its sweeps, files that are not as they were written, files that nobody needs."""

import json
import shutil
import time
from pathlib import Path

import pytest

import asyncsim as sim
from asyncsim.base import store as storing
from asyncsim.base.checks import InputError
from asyncsim.base.store import Store
from asyncsim.sweeping import plans, units
from tests.cli.test_cli import call
from tests.refusals import refused
from tests.sweeping.laboratory import bandit


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    sim.sweep(bandit(), {"staleness": [0, 4], "lr": [0.1, 0.2]}, replicates=8, store=str(folder), workers=1)
    sim.sweep(bandit(), {"staleness": [0, 6]}, replicates=8, store=str(folder), workers=1)
    return folder


@pytest.fixture
def store(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return Store(tmp_path)


def first(store):
    return next(iter(store.names("units")))


def test_sweeps_are_listed_with_how_far_they_are(store):
    listed = plans.sweeps(store)
    assert sorted((each.there, len(each.plan.keys), each.failed) for each in listed) == [(2, 2, 0), (2, 2, 0)]
    Path(store.where, first(store)).unlink()
    assert sorted(each.there for each in plans.sweeps(store)) == [1, 2]
    assert json.loads(json.dumps(listed[0].row()))["units"] == 2 and listed[0].plan.id in str(listed[0])


def test_a_sweep_is_read_by_another_process_as_it_was_answered(store):
    answer = sim.sweep(bandit(), {"staleness": [0, 6]}, replicates=8, store=store.where, workers=1)
    plan = plans.chosen(store, answer.id[:6])
    again = plans.answered(store, plan, 0, 0.0)
    assert again.summary == answer.summary and again.values == answer.values and str(plan.words) == answer.reading
    refused("fits 2", plans.chosen, store, "")
    refused("fits 0", plans.chosen, store, "zz")


def test_sound_units_are_verified_and_come_out_again(store):
    assert plans.verified(store, again=4) == (4, [])


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
    (fault,) = plans.verified(store, again)[1]
    assert fault.name == name and what in fault.what


def test_a_damaged_file_is_named_and_made_again_once_it_is_gone(store):
    name = first(store)
    data = store.read(name)
    Path(store.where, name).write_bytes(data[:-9])
    assert [(f.name, f.what) for f in plans.verified(store)[1]] == [(name, "damaged")]
    Path(store.where, name).unlink()
    for grid in ({"staleness": [0, 4], "lr": [0.1, 0.2]}, {"staleness": [0, 6]}):
        sim.sweep(bandit(), grid, replicates=8, store=store.where, workers=1)
    assert plans.verified(store) == (4, [])


def test_only_what_no_sweep_needs_is_unneeded(store):
    assert plans.unneeded(store) == []
    lost = next(iter(store.names("sweeps")))
    keys = plans.loaded(store, lost.removeprefix("sweeps/").removesuffix(".parquet"))[0].keys
    done = units.failure_of(keys[0])
    store.write(done, b"{}")
    store.write(units.failure_of("0" * 32), b"{}")
    assert sorted(plans.unneeded(store)) == sorted([done, units.failure_of("0" * 32)])
    Path(store.where, lost).unlink()
    assert set(plans.unneeded(store)) >= {units.name_of(key) for key in keys}


def collected(store, *words):
    return call("results", "gc", "--store", store.where, *words)


def test_what_is_collected_can_be_put_back(store):
    lost = next(iter(store.names("sweeps")))
    before = {name: store.read(name) for name in store.names()}
    Path(store.where, lost).unlink()
    dry = collected(store, "--dry-run")
    assert dry.exit_code == 0 and "would be moved to" in dry.output and not list(store.names("trash"))
    done = collected(store)
    assert done.exit_code == 0 and "2 files" in done.output and "remove that folder to free them" in done.output
    (folder,) = Path(store.where, "trash").iterdir()
    assert str(folder) in done.output
    for path in folder.rglob("*.parquet"):
        assert before[str(path.relative_to(folder))] == path.read_bytes()
        path.replace(Path(store.where, path.relative_to(folder)))
    assert plans.verified(store) == (4, []) and len(list(store.names("units"))) == 4
    assert sim.sweep(bandit(), {"staleness": [0, 6]}, replicates=8, store=store.where, workers=1).made == 0


def flip(path):
    """One bit in the column of keys."""
    data = bytearray(path.read_bytes())
    data[data.index(plans.loaded(Store(path.parent.parent), path.stem)[0].keys[0].encode()) + 3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (flip, "changed since it was written"),
        (lambda path: path.rename(path.with_stem(path.stem + " (copy)")), "named as a sweep names it"),
        (lambda path: path.rename(path.with_stem("0" * 12)), "a plan that a sweep wrote"),
        (lambda path: [each.unlink() for each in path.parent.iterdir()], "there beside 4 units"),
        (lambda path: path.write_bytes(b""), "Parquet file"),
    ],
)
def test_nothing_is_collected_where_plans_are_not_known(store, harm, said):
    before = sorted(store.names("units"))
    harm(next(Path(store.where, "sweeps").iterdir()))
    for words in ([], ["--dry-run"]):
        done = collected(store, *words)
        assert done.exit_code == 2 and said in done.stderr and done.stderr.count("\n") == 1
    assert sorted(store.names("units")) == before and not list(store.names("trash"))


def test_nothing_is_collected_while_a_sweep_is_under_way_and_none_begins_meanwhile(store):
    with store.held(), store.held():  # sweeps do not shut each other out
        done = collected(store)
        assert done.exit_code == 2 and "in use by one command at a time" in done.stderr
    with store.held(alone=True), pytest.raises(InputError, match="in use by one command at a time"):
        sim.sweep(bandit(), {"staleness": [0]}, replicates=8, store=store.where, workers=1)
    assert collected(store).exit_code == 0


@pytest.mark.parametrize(
    "harm", [lambda data: data[:-9], lambda data: data.replace(b"PAR1", b"PAR2"), lambda data: b""]
)
def test_a_damaged_unit_is_made_again_and_kept_aside(store, harm, capsys):
    name = first(store)
    data = store.read(name)
    store.write(name, harm(data))
    sweeps = [{"staleness": [0, 4], "lr": [0.1, 0.2]}, {"staleness": [0, 6]}]
    made = [sim.sweep(bandit(), grid, replicates=8, store=store.where, workers=1).made for grid in sweeps]
    assert sorted(made) == [0, 1] and plans.verified(store) == (4, [])
    (aside,) = store.names("trash")
    assert store.read(aside) == harm(data) and "1 damaged units were moved to" in capsys.readouterr().err
    # A store that only shows its rows does not mend them.
    store.write(name, harm(data))
    failed = [call("results", "show", sweep.plan.id, "--store", store.where) for sweep in plans.sweeps(store)]
    assert sorted(each.exit_code for each in failed) == [0, 2] and any(
        "makes the unit anew" in e.stderr for e in failed
    )


@pytest.mark.parametrize(
    ("link", "target"), [("units/loop", "."), ("units/self", "self"), ("loop", ".."), ("units/up", "..")]
)
def test_links_that_lead_back_do_not_hang_a_store(store, link, target):
    names = set(store.names())
    Path(store.where, link).symlink_to(target)
    begun = time.monotonic()
    assert set(store.names()) - {link} == names and time.monotonic() - begun < 5
    assert plans.verified(store) == (4, []) and collected(store).exit_code == 0


def test_a_folder_behind_a_link_belongs_to_the_store(store, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("disk")
    folder = next(Path(store.where, "units").iterdir())
    folder.rename(elsewhere / "moved")
    folder.symlink_to(elsewhere / "moved")
    assert plans.verified(store) == (4, [])
    # Two folders that lead to each other end as well.
    (elsewhere / "moved" / "back").symlink_to(Path(store.where, "units"))
    assert len([name for name in store.names("units") if name.endswith(".parquet")]) >= 4
