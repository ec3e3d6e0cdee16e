"""A comparison with a store: stopped anywhere it goes on to the answer of an unbroken one, and trains the rest only."""

import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import calls, knobs, plugins, stopping
from asyncsim.base.checks import InputError
from asyncsim.base.store import opened
from asyncsim.comparing import keeping
from asyncsim.comparing.tuning import set_knob
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.sweeping import plans as stores
from tests.cli.test_cli import call
from tests.sweeping.laboratory import bandit as plain

SMALLEST = 0.01


def bandit(**changes):
    return plain().replace(**changes)


def arms():
    """Two arms that are tuned in two runs each and compared in two looks: eight trainings."""
    spec = bandit(task=sim.tasks.softmax_bandit(rewards="gaussian"), updates=12)
    return {"new": spec, "old": spec.replace(method=sim.methods.truncated_is("token"))}


def compared(store=None, **options):
    own = {"smallest": SMALLEST, "max_replicates": 128, "workers": 1, "tune": {"lr": [1.0, 8.0, 1000.0]}, **options}
    return sim.compare(own.pop("arms", None) or arms(), store=store, **own)


def numbers(answer):
    """All numbers of an answer, to the bit, without its seconds."""
    curves = [arm.curve.tobytes() for on in answer.tasks for arm in on.arms]
    return repr({**answer.row(), "seconds": 0.0}), curves, [on.updates.tolist() for on in answer.tasks]


@pytest.fixture(scope="module")
def whole():
    return numbers(compared())


@pytest.fixture
def trained(monkeypatch):
    """Specs that are really trained, in their order."""
    every = []
    once = running.together

    def watched(runs, site):
        every.extend(runs)
        return once(runs, site)

    monkeypatch.setattr(running, "together", watched)
    return every


def files(store):
    return {path: path.read_bytes() for path in Path(store).glob("trainings/*/*.parquet")}


@pytest.mark.parametrize("workers", [1, None, pytest.param(2, marks=pytest.mark.long)])
def test_what_is_kept_is_read_and_the_answer_is_that_of_an_unbroken_one(whole, trained, tmp_path, workers):
    assert numbers(compared(str(tmp_path), workers=workers)) == whole
    count, before = len(trained), files(tmp_path)
    assert len(before) == count == 10
    assert numbers(compared(str(tmp_path))) == whole
    assert len(trained) == count and files(tmp_path) == before


@pytest.mark.parametrize("behind", [1, 4, 7])
def test_a_comparison_that_is_stopped_goes_on_behind_its_last_training(whole, trained, tmp_path, monkeypatch, behind):
    once = keeping.Kept.write

    def stop(self, told, trace):
        once(self, told, trace)
        if self.there == behind:
            raise stopping.Terminated(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(keeping.Kept, "write", stop)
        with pytest.raises(stopping.Kept, match=f"by SIGTERM: {behind} trainings are kept in .*; the same command"):
            compared(str(tmp_path))
    before = files(tmp_path)
    assert len(before) == behind == len(trained)
    assert numbers(compared(str(tmp_path))) == whole
    assert before.items() < files(tmp_path).items()
    assert len(trained) == len(files(tmp_path))  # none of them twice


@pytest.mark.long
def test_a_comparison_that_is_killed_goes_on(whole, trained, tmp_path):
    script = (
        "import os, signal\nfrom asyncsim.comparing import keeping\nfrom tests.comparing.test_keeping import compared\n"
        "once = keeping.Kept.write\n"
        "def kill(self, told, trace):\n"
        "    once(self, told, trace)\n"
        "    self.there == 5 and os.kill(os.getpid(), signal.SIGKILL)\n"
        f"keeping.Kept.write = kill\ncompared({str(tmp_path)!r})\n"
    )
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    assert subprocess.run([sys.executable, "-c", script], env=path, check=False).returncode == -signal.SIGKILL
    before = files(tmp_path)
    assert len(before) == 5
    assert numbers(compared(str(tmp_path))) == whole
    assert before.items() < files(tmp_path).items() and len(trained) == len(files(tmp_path)) - 5


def test_without_a_store_nothing_is_promised(monkeypatch):
    def stop(runs, site):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "together", stop)
    with pytest.raises(KeyboardInterrupt) as error:
        compared()
    assert not isinstance(error.value, stopping.Kept)


def test_a_command_says_how_to_go_on(tmp_path, monkeypatch):
    def stop(self, told, trace):
        raise stopping.Terminated(signal.SIGHUP)

    monkeypatch.setattr(keeping.Kept, "write", stop)
    store = str(tmp_path / "s")
    done = call("compare", "staleness=4", "staleness=0", "--smallest", "0.1", "--set", "updates=4", "--store", store)
    assert done.exit_code == 128 + signal.SIGHUP
    assert f"stopped by SIGHUP: 0 trainings are kept in {store}; the same command goes on" in done.stderr


LOSS = "def mine(log_prob, advantage):\n    return -{factor} * log_prob * advantage\n"


def test_trainings_of_other_code_stay_and_are_not_mixed(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def answer(factor, store):
        Path("mine.py").write_text(LOSS.format(factor=factor), encoding="utf-8")
        own = {"new": bandit(method=sim.methods.from_loss("mine.py:mine")), "old": bandit()}
        return numbers(compared(store, arms=own, tune=None, max_replicates=64))

    first = answer(1.0, "s")
    before, count = files("s"), len(trained)
    second = answer(3.0, "s")
    # The arm whose code is as it was is read: its pilot, and its one look.
    assert count == 4 and len(trained) - count == 2
    assert second == answer(3.0, None) != first
    assert before.items() < files("s").items() and len(files("s")) == 6
    assert capsys.readouterr().err.count("made by other code") == 2
    assert answer(1.0, "s") == first


@pytest.mark.parametrize(
    "harm", [lambda data: data[:100], lambda data: data[:-300] + bytes([data[-300] ^ 1]) + data[-299:]]
)
def test_a_damaged_training_is_made_again_and_kept_aside(whole, trained, tmp_path, harm, capsys):
    compared(str(tmp_path))
    path, data = min(files(tmp_path).items())
    path.write_bytes(harm(data))
    trained.clear()
    assert numbers(compared(str(tmp_path))) == whole
    assert len(trained) == 1 and path.exists() and len(list(tmp_path.glob("trash/*/trainings/*/*.parquet"))) == 1
    assert "recomputed" in capsys.readouterr().err


def test_a_store_counts_checks_and_keeps_trainings(tmp_path):
    compared(str(tmp_path), tune=None, max_replicates=64)
    sim.sweep(bandit(), {"staleness": [0]}, replicates=4, store=str(tmp_path), workers=1)
    store = opened(str(tmp_path))
    assert stores.verified(store, again=5) == (5, [])
    assert stores.unneeded(store) == []
    (first, data), *_ = files(tmp_path).items()
    first.with_name("0" * 32 + ".parquet").write_bytes(data)
    assert [fault.what for fault in stores.verified(store)[1]] == ["not the unit that its name says"]


def test_what_no_file_can_hold_is_refused_before_anything_trains(trained, tmp_path):
    own = {"a": bandit(), "b": bandit(method=sim.methods.from_loss(lambda log_prob, advantage: -log_prob * advantage))}
    with pytest.raises(InputError, match="the place of a function"):
        compared(str(tmp_path), arms=own, tune=None)
    assert not trained


def parts():
    """Every method and link that takes no argument, as the only one of a spec, with its knobs that are arguments."""
    for kind in ("methods", "updates"):
        for name in plugins.summaries(f"asyncsim.{kind}"):
            make = plugins.function(f"{kind}.{name}")
            try:
                part = make()
                spec = (
                    bandit(method=part) if kind == "methods" else bandit(update=sim.chain(part, sim.updates.sgd(0.1)))
                )
            except (InputError, TypeError):  # it takes arguments, or outputs that the policy lacks
                continue
            own = "method" if kind == "methods" else next(iter(knobs.numbered([part])))
            labels = {**knobs.values(spec.method, "method"), **knobs.values(spec.update, "update")}
            for label, value in labels.items():
                if label.rpartition(".")[0] == own and label.rpartition(".")[2] in inspect.signature(make).parameters:
                    yield kind, name, label, value, spec, part


def test_a_spec_whose_knob_was_set_is_that_of_the_call_and_can_be_written():
    count = 0
    for kind, name, label, value, spec, part in parts():
        argument = label.rpartition(".")[2]
        for number in (value, (value, value)):
            tried = set_knob(spec, label, number, 2)
            made = plugins.function(f"{kind}.{name}")(**{**calls.of(part).arguments, argument: number})
            assert (tried.method if kind == "methods" else tried.update.links[0]) == made, (name, label)
            again = Spec.from_dict(json.loads(json.dumps(tried.to_dict())))
            assert again.method == tried.method and again.update == tried.update, (name, label)
            count += 1
    assert count > 100


def test_a_knob_is_the_argument_of_its_name_wherever_the_part_uses_it():
    """beta of oapl is the temperature of its baseline too: set, it gave a loss that no beta has."""
    set_, made = (
        set_knob(bandit(method=sim.methods.oapl()), "method.beta", 0.5, 8),
        bandit(method=sim.methods.oapl(0.5)),
    )
    assert set_.method == made.method
    one, two = (sim.run(spec.replace(replicates=8), seed=1, progress=False) for spec in (set_, made))
    np.testing.assert_array_equal(one.parameters, two.parameters)
