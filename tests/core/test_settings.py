"""Replicates of different settings are never averaged: not by `final`, not in the table, not on the command line."""

import json
import math

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import knobs, uncertainty
from tests.cli.test_cli import call
from tests.refusals import refused

STEPS = (0.05, 0.1, 0.15, 0.2)


def run(update, method=None, replicates=4, **changes):
    task = sim.tasks.quadratic((1.0,), noise=1.0)
    sizes = {"updates": 20, "replicates": replicates}
    spec = sim.Spec(task, sim.schedules.fixed(2), method or sim.methods.gradient(), update, **sizes, **changes)
    return sim.run(spec, seed=1)


@pytest.fixture(scope="module")
def four():
    return run(sim.chain(sim.updates.sgd(STEPS)))


@pytest.fixture(scope="module")
def mixed():
    """Three settings of 3, 2 and 1 replicates, in no order."""
    return run(sim.chain(sim.updates.sgd((0.2, 0.1, 0.2, 0.3, 0.1, 0.2))), replicates=6)


def test_a_trace_knows_its_settings(four, tmp_path):
    assert four.settings.keys() == {"sgd.lr"} and four.settings["sgd.lr"].tolist() == list(STEPS)
    assert list(four.split()) == [f"sgd.lr={step:g}" for step in STEPS]
    four.save(tmp_path / "t.npz")
    assert list(sim.Trace.load(tmp_path / "t.npz").split()) == list(four.split())


@pytest.mark.parametrize("step", [0.1, (0.1,) * 4])
def test_one_setting_is_one_part_however_it_is_given(step):
    trace = run(sim.chain(sim.updates.sgd(step)))
    assert trace.settings == {} and trace.split() == {"": trace}
    assert trace.final("gradient_norm").samples == 4
    assert "sgd.lr" not in trace.table()


def test_a_part_has_the_replicates_of_its_setting(mixed):
    parts = mixed.split()
    assert {name: part.replicates for name, part in parts.items()} == {
        "sgd.lr=0.1": 2,
        "sgd.lr=0.2": 3,
        "sgd.lr=0.3": 1,
    }
    part = parts["sgd.lr=0.2"]
    np.testing.assert_array_equal(part["gradient_norm"], mixed["gradient_norm"][:, [0, 2, 5]])
    np.testing.assert_array_equal(part.parameters, mixed.parameters[[0, 2, 5]])
    assert part.header["setting"] == {"sgd.lr": 0.2} and part.split() == {"": part}


def test_an_estimate_of_several_settings_is_refused_and_that_of_each_is_right(mixed):
    refused(r"settings = 'sgd.lr'.*trace\.split\(\)", mixed.final, "gradient_norm")
    found = mixed.split()["sgd.lr=0.2"].final("gradient_norm")
    assert found == uncertainty.between(mixed["gradient_norm"][-2:, [0, 2, 5]].mean(axis=0))
    assert math.isinf(mixed.split()["sgd.lr=0.3"].final("gradient_norm").error)


def test_the_table_has_a_row_and_a_column_for_each_setting(mixed):
    table = mixed.table()
    norms = table[(table["metric"] == "gradient_norm") & (table["update"] == 19)]
    assert norms["sgd.lr"].tolist() == [0.1, 0.2, 0.3] and norms["replicates"].tolist() == [2, 3, 1]
    np.testing.assert_allclose(norms["mean"].iloc[1], mixed["gradient_norm"][19, [0, 2, 5]].mean())


def test_realizations_of_a_part_are_those_its_replicates_ran_on():
    system = sim.schedules.random([0.5, 0.5], per="trajectory")
    task = sim.tasks.softmax_bandit()
    sizes = {"updates": 8, "replicates": 4, "samples_per_group": 2}
    spec = sim.Spec(task, system, sim.methods.reinforce(), sim.chain(sim.updates.sgd((0.1, 0.1, 0.2, 0.2))), **sizes)
    trace = sim.run(spec)
    part = trace.split()["sgd.lr=0.2"]
    np.testing.assert_array_equal(part.schedule.version, trace.schedule.version[2:])
    assert part.realization.tolist() == [0, 1] and part.final("staleness").freedom == 1
    part._check()


def test_every_place_of_a_knob_has_its_own_name():
    method = sim.methods.truncated_is(cap=(2.0, 4.0), advantage=sim.advantages.offset((0.1, 0.2)))
    method = method.replace(factors=(sim.factors.drop_stale((3.0, 4.0)),))
    update = sim.chain(sim.updates.scale((0.5, 1.0)), sim.updates.sgd((0.1, 0.2)), sim.updates.scale((1.0, 2.0)))
    assert knobs.arrays(method, "method") | knobs.arrays(update, "update") == {
        "method.cap": (2.0, 4.0),
        "advantage.v": (0.1, 0.2),
        "drop_stale.limit": (3.0, 4.0),
        "scale.factor": (0.5, 1.0),
        "sgd.lr": (0.1, 0.2),
        "scale2.factor": (1.0, 2.0),
    }


def test_settings_that_look_alike_are_kept_apart():
    near = (0.1, 0.1 + 1e-9, 0.2, 0.2)
    parts = run(sim.chain(sim.updates.sgd(near))).split()
    assert len(parts) == 3 and list(parts)[:2] == ["sgd.lr=0.1", f"sgd.lr={near[1]!r}"]


def test_settings_of_another_length_are_refused(four, tmp_path):
    header = {**four.header, "settings": {"sgd.lr": [1.0, 2.0]}}
    broken = sim.Trace(**{**{name: getattr(four, name) for name in four.__dataclass_fields__}, "header": header})
    broken.save(tmp_path / "t.npz")
    refused(r"settings sgd\.lr", sim.Trace.load, tmp_path / "t.npz")


def test_the_command_line_says_which_setting_ended_where(tmp_path):
    words = ["--replicates", "4", "--updates", "10", "--set", f"sgd.lr={list(STEPS)}", "--diagnostics", "gradient_norm"]
    result = call("run", *words, "--json", tmp_path / "run.json", "--save", tmp_path / "t.npz")
    assert result.exit_code == 0, result.stderr
    parts = sim.Trace.load(tmp_path / "t.npz").split()
    found = json.loads((tmp_path / "run.json").read_text())
    assert found["final"] is None and [row["setting"]["sgd.lr"] for row in found["settings"]] == list(STEPS)
    for row, (name, part) in zip(found["settings"], parts.items(), strict=True):
        assert f"over 1 replicate of {name}:" in result.output
        assert row["final"]["gradient_norm"]["value"] == part.final("gradient_norm").value
        assert row["replicates"] == 1 and row["final"]["gradient_norm"]["low"] is None
    assert result.output.count("no interval") == 4 and "[-inf" not in result.output


def test_of_many_settings_some_are_printed_and_all_are_written(tmp_path):
    steps = [round(0.01 * k, 2) for k in range(1, 16)]
    words = ["--replicates", "15", "--updates", "4", "--set", f"sgd.lr={steps}", "--diagnostics", "gradient_norm"]
    result = call("run", *words, "--json", tmp_path / "run.json")
    assert result.output.count("last tenth") == 10 and "5 more settings" in result.output
    assert len(json.loads((tmp_path / "run.json").read_text())["settings"]) == 15
