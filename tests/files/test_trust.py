"""Files hold no code: only parts of the package and trusted places run, whatever a file names."""

import json
import sys

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import files, outside
from asyncsim.base import store as storing
from asyncsim.base.checks import InputError
from asyncsim.running import checkpoint
from asyncsim.sweeping import grids, plans, units
from tests.cli.test_cli import call
from tests.refusals import refused
from tests.sweeping.laboratory import bandit

EVIL = '''"""Leaves a mark when it is imported, and another when it is called."""
import pathlib
pathlib.Path("imported").touch()
def run(*arguments, **named):
    pathlib.Path("called").touch()
def loss(log_prob, advantage):
    pathlib.Path("called").touch()
    return -log_prob * advantage
'''
PLACES = [
    *("evil:run", "evil.py:run", "./evil.py:run", "pkg.evil:run", "pkg.evil:run.__call__", "evil:run.__globals__"),
    *("os:system", "subprocess:getoutput", "builtins:exec", "builtins:__import__", "pickle:loads", "runpy:run_path"),
    *("importlib:import_module", "asyncsim.base.outside:loaded", "asyncsim.base.workers:named", "ctypes:CDLL"),
]
"""Code by place; the first six leave marks, the others are Python's and ours."""
NAMES = [
    *(
        "tasks._tabular",
        "tasks.__builtins__",
        "tasks.softmax_bandit.__globals__",
        "sweeping.sweep",
        "base.outside.loaded",
    ),
    *("app.cli", "running.spec.Spec", "methods.theirs", "os.system", "tasks.gym.__code__"),
]
"""Parts by names that the package does not offer."""
ARGUMENTS = [
    {"method": {"methods.from_loss": {"loss": "evil.py:loss"}}},
    {"method": {"methods.from_loss": {"loss": "pkg.evil:loss"}}},
    {"method": {"methods.grpo": {"advantage": {"evil:run": {}}}}},
    {"method": {"methods.from_loss": {"loss": {"evil:run": {}}}}},
    {"policy": {"policies.module": {"make": {"evil:run": {}}, "observation": 1, "actions": 2}}},
    {"policy": {"policies.module": {"make": "evil:run", "observation": 1, "actions": 2}}},
    {"task": {"tasks.gym": {"id": "evil:CartPole-v1"}}},
    {"task": {"tasks.gym": {"id": "CartPole-v1", "settings": {"env_id": "evil:CartPole-v1"}}}},
    {"diagnostics": ["evil:run"]},
    {"diagnostics": ["evil.py:run", "ess"]},
    {"diagnostics": [{"evil:run": {}}]},
    {"update": [{"updates.sgd": {"lr": {"evil:run": {}}}}]},
    {"update": [{"evil:run": {}}]},
    {"system": {"schedules.coupled": {"system": {"evil.py:run": {}}}}},
    {"rewards": {"evil:run": {}}},
    {"initial": {"evil:run": {}}},
    {"replicates": {"os:getpid": {}}},
]
"""Code as an argument of a part, or as a field."""
FORGED = [
    *({"task": {place: {"cmd": "touch called", "command": "touch called"}}} for place in PLACES),
    *({"task": {name: {}}} for name in NAMES),
    *ARGUMENTS,
]


@pytest.fixture
def traps(tmp_path, monkeypatch):
    """A working directory with modules that leave marks, and with a record of an entry point that nobody installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    (tmp_path / "pkg").mkdir()
    for name in ("evil.py", "pkg/evil.py", "pkg/__init__.py"):
        (tmp_path / name).write_text(EVIL, encoding="utf-8")
    record = tmp_path / "theirs-1.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n", encoding="utf-8")
    (record / "entry_points.txt").write_text("[asyncsim.methods]\ntheirs = evil:run\n", encoding="utf-8")
    yield tmp_path
    for name in ("evil", "pkg", "pkg.evil", "outside_evil"):
        sys.modules.pop(name, None)


def marks(folder):
    """What ran, and what was imported."""
    loaded = [name for name in ("evil", "pkg", "pkg.evil", "outside_evil") if name in sys.modules]
    return [*sorted(path.name for path in folder.glob("*") if path.name in ("imported", "called")), *loaded]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Rows of a spec, and the bytes of a checkpoint and of a unit of it."""
    folder = tmp_path_factory.mktemp("whole")
    sim.run(bandit(), checkpoint=folder / "c.npz")
    sim.sweep(bandit(), {"staleness": [0]}, replicates=2, store=str(folder / "s"), workers=1)
    (unit,) = Store(folder / "s").names("units")
    return bandit().to_dict(), folder / "c.npz", Store(folder / "s"), unit


Store = storing.Store


def from_rows(rows, whole):
    sim.Spec.from_dict(rows)


def from_json(rows, whole):
    with open("spec.json", "w", encoding="utf-8") as file:
        json.dump(rows, file)
    sim.Spec.load("spec.json")


def from_yaml(rows, whole):
    with open("spec.yaml", "w", encoding="utf-8") as file:
        json.dump(rows, file)  # JSON is YAML
    sim.Spec.load("spec.yaml")


def from_checkpoint(rows, whole):
    arrays, scalars = files.load_arrays(whole[1], "checkpoint")
    files.save_arrays("c.npz", "checkpoint", arrays, {**scalars, "spec": rows, "identity": rows})
    sim.run(resume="c.npz")


def from_unit(rows, whole):
    """A store whose only unit is forged under its right name and seal; done again, it is a fault."""
    table, about = storing.unpack(whole[2].read(whole[3]), whole[3])
    told = {**about["told"], "subject": rows}
    about |= {"told": told, "key": storing.keys_of(told)[1]}
    store = storing.opened("store")
    columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
    store.write(units.name_of(about["key"]), storing.pack(columns, about))
    (fault,) = plans.verified(store, again=1)[1]
    raise InputError("unit", fault.name, fault.what, "")


@pytest.mark.parametrize("read", [from_rows, from_json, from_yaml, from_checkpoint, from_unit])
def test_no_forged_file_runs_or_imports_anything(read, traps, whole):
    assert len(FORGED) >= 40
    for number, forged in enumerate(FORGED):
        with pytest.raises(InputError) as caught:
            read({**whole[0], **forged}, whole)
        assert marks(traps) == [], forged
        assert "\n" not in str(caught.value)
        if number < len(PLACES):
            assert "as a file names it" in str(caught.value) and "trust" in str(caught.value), forged
        (traps / "store").exists() and __import__("shutil").rmtree(traps / "store")


def test_the_traps_spring(traps, whole):
    """Where the user names the places, they do run: these tests would see it."""
    for place in PLACES[:4]:
        outside.loaded(place)()
        assert {"imported", "called"} <= set(marks(traps)), place
        for name in ("imported", "called"):
            (traps / name).unlink()
        for name in ("evil", "pkg", "pkg.evil", "outside_evil"):
            sys.modules.pop(name, None)
    assert outside.registered("asyncsim.methods")["theirs"] == "evil:run"
    refused("a registered environment", sim.tasks.gym, "evil:Nothing-v1")
    assert "imported" in marks(traps)


@pytest.mark.parametrize("words", [["--dry-run"], ["--print-spec"], []])
def test_no_command_runs_what_a_file_names(traps, whole, words):
    for place in ("evil.py:run", "os:system"):
        from_json_text = json.dumps({**whole[0], "task": {place: {"command": "touch called"}}})
        (traps / "s.json").write_text(from_json_text, encoding="utf-8")
        result = call("run", traps / "s.json", *words)
        assert result.exit_code == 2 and f"add --trust {place}" in result.stderr and marks(traps) == []
    arrays, scalars = files.load_arrays(whole[1], "checkpoint")
    files.save_arrays("c.npz", "checkpoint", arrays, {**scalars, "spec": json.loads(from_json_text)})
    result = call("run", "--resume", "c.npz", *words)
    assert result.exit_code == 2 and "--trust os:system" in result.stderr and marks(traps) == []


MINE = "import asyncsim as sim\ndef power(cap=2.0):\n    return sim.methods.truncated_is('token', cap=cap)\n" \
       "def other():\n    raise RuntimeError('called')\n"  # fmt: skip


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(MINE, encoding="utf-8")
    return {**bandit().to_dict(), "method": {"my.py:power": {"cap": 3.0}}}


def test_a_place_runs_where_the_user_trusts_it_and_no_other_of_its_file(mine, tmp_path):
    for place in ("my.py:power", "./my.py:power", str(tmp_path / "my.py:power")):
        made = sim.Spec.from_dict(mine, trust=[place])
        assert made.to_dict()["method"] == mine["method"]
    for trust in ((), ["my.py:other"], ["your.py:power"], ["my:power"], ["my.py"]):
        refused(r"part = 'my\.py:power': must be trusted, as a file names it", sim.Spec.from_dict, mine, trust=trust)
    refused("trust", sim.Spec.from_dict, mine, trust="my.py:power")
    # A file that is read does not change what programs may load afterwards.
    assert outside.loaded("my.py:power") is not None


def test_trust_goes_with_every_reader(mine, tmp_path):
    spec = sim.Spec.from_dict(mine, trust=["my.py:power"])
    spec.save("s.json")
    assert sim.Spec.load("s.json", trust=["my.py:power"]).to_dict() == spec.to_dict()
    assert call("run", "s.json", "--trust", "my.py:power", "--dry-run").exit_code == 0
    trace = sim.run(spec, seed=5, checkpoint="c.npz")
    refused("trust", sim.run, resume="c.npz")
    assert sim.run(resume="c.npz", trust=["my.py:power"]) == trace == sim.run(spec, resume="c.npz")
    assert call("run", "--resume", "c.npz", "--trust", "my.py:power").exit_code == 0
    # Workers get what their owner has in memory.
    found = sim.sweep(spec, {"staleness": [0]}, replicates=2, store="s", workers=1)
    assert not found.failed and plans.verified(Store("s"), again=1, trust=["my.py:power"])[1] == []
    assert call("results", "verify", "--store", "s", "--again", "1").exit_code == 1
    assert call("results", "verify", "--store", "s", "--again", "1", "--trust", "my.py:power").exit_code == 0


def test_a_method_of_the_command_is_trusted(mine):
    """What stands in the command is the user's own, also in the units of a sweep."""
    assert call("run", "--method", "my.py:power", "--updates", "2", "--replicates", "2").exit_code == 0
    words = ["--set", "updates=2", "--replicates", "2", "--store", "s"]
    swept = call("sweep", "--grid", "staleness=0", "--set", "method=my.py:power", *words, "--workers", "1")
    assert swept.exit_code == 0, swept.stderr


def test_digests_of_what_a_file_names_import_nothing(traps):
    from asyncsim.base import spec_code

    for text in (*PLACES, *NAMES, "@evil.py:run", "pkg.evil.deeper:run"):
        spec_code.code_of({"task": {text: {"loss": text}}}, "asyncsim.running.running")
    assert marks(traps) == []


def test_a_store_with_forged_plans_and_units_is_only_read(traps, whole):
    """A sweep that meets forged files in its store counts none of them, and does none of them."""
    spec = bandit().replace(method=sim.methods.grpo())
    question = plans.Question(grids.grid_of(spec, {"staleness": [0]}), plans.reading_of(["batch_return"], "mean", None,
                              "higher"), 2, 0)  # fmt: skip
    (unit,) = question.units()
    told = {**unit.content, "subject": {**whole[0], "task": {"evil:run": {}}}}
    store = storing.opened("store")
    columns = {"batch_return": np.zeros(2), "diverged": np.full(2, -1)}
    store.write(units.name_of(unit.key), storing.pack(columns, {"key": storing.keys_of(told)[1], "told": told}))
    found = sim.sweep(spec, {"staleness": [0]}, metric="batch_return", replicates=2, store="store", workers=1)
    assert found.made == 1 and found.summary[0]["mean"] != 0.0 and marks(traps) == []
    assert [name for name in store.names("trash") if name.endswith(".parquet")]


def test_what_a_checkpoint_holds_besides_its_spec_is_plain(whole, tmp_path):
    """Skeletons of trees that name classes, and arrays of objects, build nothing."""
    arrays, scalars = files.load_arrays(whole[1], "checkpoint")
    for tree in ({"os.system": "touch called"}, {"dict": [["parts", {"evil:run": []}]]}, {"object": "evil:run"}):
        files.save_arrays(tmp_path / "c.npz", "checkpoint", arrays, {**scalars, "tree": tree})
        refused("checkpoint file", checkpoint.read, tmp_path / "c.npz")
    np.savez(tmp_path / "o.npz", __header__=np.array([print], dtype=object))
    for read in (checkpoint.read, sim.Trace.load, sim.Schedule.load, sim.Timeline.load):
        refused("", read, tmp_path / "o.npz")
