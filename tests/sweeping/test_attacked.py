"""What an attack on sweeps found: settings that were shown and not run, keys that missed a file, workers that hung."""

import sys
import types
from pathlib import Path

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import spec_code, workers
from asyncsim.base import store as storing
from asyncsim.base.checks import InputError
from asyncsim.base.store import Store, opened
from asyncsim.comparing import settings
from asyncsim.sweeping import grids, plans, units
from tests.refusals import refused
from tests.sweeping.laboratory import bandit

LOSS = "{first}\ndef mine(log_prob, advantage):\n    {body}\n    return -log_prob * advantage\n"
ONCE_TRIED = "if log_prob.shape[-2] > 4: "
"""Losses are tried on a small batch before anything runs."""


@pytest.fixture
def loss(tmp_path, monkeypatch):
    """Writes a file with a loss and gives its place; modules beside it can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(body="pass", first="", path="mine.py"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(LOSS.format(first=first, body=body), encoding="utf-8")
        return f"{path}:mine"

    return write


def swept(grid, spec=None, **changes):
    return sim.sweep(spec or bandit(), grid, **{"replicates": 4, "workers": 1, **changes})


# Settings that were shown and not run.


def test_a_whole_part_does_not_undo_the_argument_beside_it():
    tasks = {"one": sim.tasks.softmax_bandit(deviation=0.5)}
    first = list(grids.grid_of(bandit(), {"task.arms": [2, 3], "task": tasks}).cells())
    assert [cell.subject.task.describe()["actions"] for cell in first] == [2, 3]
    assert list(first[0].setting) == ["task.arms", "task"]
    system = grids.grid_of(bandit(), {"staleness": [0, 7], "system": [sim.schedules.fixed(1)]})
    assert [cell.subject.to_dict()["system"]["schedules.fixed"]["staleness"] for cell in system.cells()] == [0, 7]


def test_knobs_with_a_number_per_replicate_are_refused():
    spec = bandit(replicates=64).replace(update=sim.chain(sim.updates.sgd(tuple(np.linspace(0.1, 1, 64)))))
    refused("knob of the spec = 'one number for each of 64 replicates'", swept, {"staleness": [1]}, spec, replicates=64)


def test_replicates_of_a_last_block_go_on_counting():
    found = swept({"lr": [0.1, 0.2]}, replicates=70)
    assert [sorted(set(rows["replicate"])) for rows in found.rows()] == [list(range(64)), list(range(64, 70))]


def test_a_setting_with_the_name_of_a_number_keeps_its_column():
    found = swept({"staleness": [1, 2]}, metric="staleness")
    assert [set(rows["staleness (set)"]) for rows in found.rows()] == [{1}, {2}]
    assert [row["staleness"] for row in found.summary] == [1, 2]


# Numbers of NumPy, and what is not a number.


def test_numbers_of_numpy_are_numbers():
    grid = {"staleness": list(np.arange(2)), "lr": list(np.array([0.25, 0.5], dtype=np.float32))}
    found = swept(grid, seed=np.int64(3), replicates=np.int64(4), over="reached", target=np.float32(0.75))
    same = swept({"staleness": [0, 1], "lr": [0.25, 0.5]}, seed=3, over="reached", target=0.75)
    assert found.id == same.id and found.summary == same.summary


@pytest.mark.parametrize(
    ("grid", "options", "reason"),
    [
        ({"lr": [10**400]}, {}, "grid lr"),
        ({"staleness": [1]}, {"metric": []}, "at least one name"),
        ({"staleness": [1]}, {"metric": ["batch_return"] * 2}, "each once"),
        ({"staleness": [1]}, {"metric": ""}, "a name"),
        # One argument has one name in a grid.
        ({"lr": [0.1, 0.2], "sgd.lr": [0.3, 0.4]}, {}, "another setting than lr"),
        ({"staleness": [0], "system.staleness": [4]}, {}, "another setting than staleness"),
        ({"staleness": [0], "schedule.staleness": [4]}, {}, "another setting than staleness"),
        ({"method": {1: sim.methods.grpo(), "1": sim.methods.reinforce()}}, {}, "different labels"),
        *(({name: [1, 2]}, {}, f"grid = '{name}': must be a setting that the sweep") for name in settings.OWN),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(grid, options, reason):
    refused(reason, swept, grid, **options)


def test_a_knob_that_a_structure_lacks_is_a_matter_of_the_grid():
    one, two = sim.chain(sim.updates.sgd(0.1)), sim.chain(sim.updates.sgd(0.1), sim.updates.adam(0.1))
    with pytest.raises(InputError, match=r"^grid at update=two = 'lr': must be one knob of .*\(fits 2\).*sgd.lr$"):
        swept({"update": {"one": one, "two": two}, "lr": [0.1]})
    with pytest.raises(InputError, match=r"= 'lr': must be one knob of the spec \(fits 2\); name one of"):
        swept({"sampling": ["counts"], "lr": [0.1]}, bandit().replace(update=two))
    refused(r"^knob = 'foo': must be one knob of the spec", sim.boundary, bandit(), "foo", low=0.1, high=1.0)


# What a key depends on.


def files_of(place):
    return set(spec_code.code_of({"methods.from_loss": {"loss": place}})["files"])


def test_a_key_knows_the_file_whatever_its_name(loss, monkeypatch):
    assert files_of(loss(path="my öwn file.py")) == {"my öwn file.py"}
    loss(path="one/deep.py")
    Path("one/__init__.py").touch()
    assert files_of("one.deep:mine") == {"one.deep", "one"}
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    assert files_of("__main__:mine") == set() and files_of("exponential:1") == set()


def test_a_key_knows_what_a_file_imports(loss):
    Path("helper.py").write_text("import further\n", encoding="utf-8")
    Path("further.py").write_text("import numpy, json\nscale = 1\n", encoding="utf-8")
    place = loss(first="import asyncsim\nfrom helper import further")
    assert files_of(place) == {"mine.py", "helper", "further"}
    loss(path="pkg/deep.py", first="from . import beside\nfrom .sub.more import x")
    for name in ("pkg/__init__.py", "pkg/beside.py", "pkg/sub/__init__.py"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    Path("pkg/sub/more.py").write_text("x = 1\nfrom .. import far\n", encoding="utf-8")
    Path("pkg/far.py").touch()
    assert files_of("pkg.deep:mine") == {"pkg.deep", "pkg", "pkg.beside", "pkg.sub", "pkg.sub.more", "pkg.far"}


def test_a_changed_helper_is_another_unit(loss):
    Path("helper.py").write_text("scale = 1\n", encoding="utf-8")
    grid = {"method": {"own": sim.methods.from_loss(loss(first="import helper"))}}
    first = swept(grid, store="s")
    Path("helper.py").write_text("scale = 22\n", encoding="utf-8")
    assert swept(grid, store="s").id != first.id


def test_a_part_of_another_package_is_known_by_its_file(loss, monkeypatch):
    loss()
    monkeypatch.setattr(spec_code.outside, "registered", lambda package: {"theirs": "mine:mine"})
    assert set(spec_code.code_of({"methods.theirs": {}})["files"]) == {"mine"}


def test_a_unit_whose_file_changed_since_it_was_planned_is_refused(loss, tmp_path):
    spec = bandit().replace(method=sim.methods.from_loss(loss()))
    question = plans.Question(grids.grid_of(spec, {"staleness": [0]}), plans.reading_of(["batch_return"], "mean", None,
                              "higher"), 4, 0)  # fmt: skip
    (unit,) = question.units()
    loss(body="advantage = 2 * advantage")
    ended = units.perform("s", unit.content)
    assert ended["final"] and "code = 'mine.py': must be as it was when the sweep was planned" in ended["failed"]
    assert not list(Store("s").names())


# What a part of a user's does.


@pytest.mark.parametrize(("body", "workers"), [("sys.exit(0)", 2), ("input()", 1)])
@pytest.mark.usefixtures("forked_workers")
def test_a_loss_that_exits_or_asks_fails_its_unit_alone(loss, body, workers, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda: (_ for _ in ()).throw(EOFError()))
    bad = sim.methods.from_loss(loss(ONCE_TRIED + body, "import sys"))
    found = swept({"method": {"bad": bad, "good": sim.methods.reinforce()}}, store="s", workers=workers)
    assert [row["method"] for row in found.summary] == ["good"]
    assert {"sys.exit(0)": "SystemExit", "input()": "EOFError"}[body] in found.failed[0]["reason"]


def test_a_file_named_like_a_module_of_python_does_not_stop_workers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    Path("signal.py").write_text("raise RuntimeError('mine')\n", encoding="utf-8")
    pool = workers.Crew(1)
    try:
        told = {"format": 2, "kind": "run", "code": {"asyncsim": None, "code": "", "files": {}}, "subject": {}}
        assert "was planned" in pool.submit("asyncsim.sweeping.units:perform", "s", told).result(60)["failed"]
    finally:
        pool.close()


# What lies in a store.


@pytest.fixture
def filled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    where = str(tmp_path / "s")
    swept({"staleness": [0, 4], "lr": [0.1, 0.2]}, store=where)
    return opened(where)


def test_files_of_others_are_left_alone(filled):
    for name in ("units/thesis.tex", "failed/notes.txt", "sweeps/notes.txt"):
        filled.write(name, b"x")
    assert plans.unneeded(filled) == [] and len(plans.sweeps(filled)) == 1
    assert plans.verified(filled) == (2, []) and plans.chosen(filled, None)


def test_units_of_a_sweep_that_begins_while_files_are_collected_stay(filled, monkeypatch):
    names, begun = Store.names, []

    def interrupted(self, folder=""):
        there = list(names(self, folder))
        if not begun:  # between the first listing and the next one
            begun.append(folder)
            swept({"staleness": [0, 4]}, store=filled.where, seed=5)
        return iter(there)

    monkeypatch.setattr(Store, "names", interrupted)
    assert plans.unneeded(filled) == [] and begun


def test_a_damaged_reason_and_a_foreign_unit_do_not_hide_the_answer(filled):
    plan = plans.chosen(filled, None)
    Path(filled.where, units.name_of(plan.keys[0])).unlink()
    filled.write(units.failure_of(plan.keys[0]), b"{")
    assert "is damaged" in str(plans.answered(filled, plan, 0, 0.0))
    filled.write(units.name_of(plan.keys[1]), storing.pack({"a": [1, 2]}, {}))
    refused(r"the unit that its name says; .*anew", plans.answered, filled, plan, 0, 0.0)
    filled.write(plans.plan_of("0" * 12), storing.pack({"a": [1]}, {}))
    refused("a plan that a sweep wrote", plans.sweeps, filled)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"seed": -1}, "seed"), ({"error": 1.0}, "error"), ({"low": 1e-300, "high": 1e300}, "trained_return")],
)
def test_bad_options_of_a_boundary_are_refused_in_one_line(options, reason):
    refused(reason, sim.boundary, bandit(), "lr", **{"low": 0.1, "high": 1.0, **options})


def test_a_place_that_cannot_be_read_is_refused_in_one_line(filled, monkeypatch):
    def denied(*arguments):
        raise PermissionError(13, "Permission denied")

    refused("store", filled.read, "units")
    for owner, name in ((storing.os, "scandir"), (Path, "is_file")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, denied)
            with pytest.raises(InputError, match="Permission denied"):
                list(filled.names()) if name == "scandir" else filled.has("store.json")
    Path("plain").write_text("x", encoding="utf-8")
    refused("a file where a folder is needed", Store("plain").write, "a", b"")
