"""`asyncsim device` and `python -m experiments --gpu`: on the CPU and on the device in name only."""

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import asyncsim as sim
from asyncsim.app import devices
from asyncsim.app.cli import app
from asyncsim.base.checks import InputError
from asyncsim.policies._language_network import FORMATS
from experiments import _contract, _gpu
from tests.device.configurations import small
from tests.device.tagged import pretended

pytestmark = pytest.mark.rows

ROOT = Path(__file__).parents[2]


# The command.


@pytest.fixture(scope="module")
def report():
    """What is found of the device in name only."""
    with pretended():
        return devices.check(torch.device("cuda"), devices.QUICK)


def test_a_device_agrees_with_the_cpu(report):
    """Its numbers are the CPU's: every deviation is 0."""
    assert report["holds"] and [row["name"] for row in report["agreement"]] == list(devices.BOUNDS)
    assert all(row["deviation"] == 0.0 for row in report["agreement"])
    assert report["accelerator"] == "in name only" and report["libraries"]["torch"]
    assert report["speed"]["peak_bytes"] > 4 * report["weights"]


def test_every_format_is_compared(report):
    assert {row["sampler"] for row in report["formats"]} == set(FORMATS)
    found = {(row["sampler"], row["trainer"]): row["mismatch_variance"] for row in report["formats"]}
    assert found["bfloat16", "float32"] > 1e3 * found["float32", "float32"] and found["int8", "float32"] > 0.0


def test_the_screen_is_narrow(report):
    wide = {**report, "accelerator": 200 * "x", "driver": "580.65.06", "weights": 10**9}
    lines = list(devices.lines(wide))
    assert max(map(len, lines)) <= 80 and sum("holds" in line for line in lines) == len(devices.BOUNDS)


@pytest.mark.parametrize("name", devices.BOUNDS)
def test_a_device_that_differs_is_seen(name, monkeypatch):
    """Planted: each of the comparisons is off on the device."""
    if name == "resumed run":
        monkeypatch.setattr(devices, "resumed", lambda *_: 1e-9)
    elif name == "greedy tokens, share":
        monkeypatch.setattr(devices, "drawn", plant_tokens(devices.drawn))
    else:
        monkeypatch.setattr(devices, "scored", plant_scores(devices.scored, name))
    for part in ("formats", "speed"):
        monkeypatch.setattr(devices, part, lambda *_: {})
    with pretended():
        found = devices.check("cuda", devices.QUICK)
    assert not found["holds"]
    assert [row["name"] for row in found["agreement"] if not row["holds"]] == [name]


def plant_tokens(own):
    """One greedy token is another one on the device."""

    def drawn(policy, size, device):
        state, action, mask = own(policy, size, device)
        if device == "cuda" and policy.top_k == 1:
            action[0, 0, 0, 0] += 1
        return state, action, mask

    return drawn


def plant_scores(own, name):
    """Log-probs, or the gradient, in other numerics on the device."""

    def scored(policy, columns, device):
        made = list(own(policy, columns, device))
        if device == "cuda":
            made[name.startswith("gradient")] = 1.002 * made[name.startswith("gradient")]
        return tuple(made)

    return scored


def test_the_command_writes_json(tmp_path):
    path = tmp_path / "found.json"
    result = CliRunner().invoke(app, ["device", "cpu", "--quick", "--json", str(path)])
    assert result.exit_code == 0, result.output
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["holds"] and found["speed"]["tokens_a_second"] > 0 and found["commit"]
    assert CliRunner().invoke(app, ["device", "tpu"]).exit_code == 2
    assert CliRunner().invoke(app, ["device", "cuda"]).exit_code == 2


def test_the_command_says_what_differs(monkeypatch):
    monkeypatch.setattr(devices, "resumed", lambda *_: 1e-9)
    result = CliRunner().invoke(app, ["device", "cpu", "--quick"])
    assert result.exit_code == 1 and "DIFFERS" in result.output


# Experiments on a card.


def train(setting):
    """Rows of a short run on the setting's device."""
    task = sim.tasks.arithmetic(digits=1, prompts=4, horizon=4)
    changes = {"samples_per_group": 2, "updates": setting["updates"], "replicates": 1, "device": setting["device"]}
    schedule, link = sim.schedules.fixed(0, groups_per_batch=2), sim.chain(sim.updates.sgd(0.1))
    trace = sim.run(sim.Spec(task, schedule, sim.methods.grpo(), link, small(), **changes), seed=1, progress=False)
    return [{"updates": setting["updates"], "value": value} for value in trace.parameters[0, :3].tolist()]


@pytest.fixture
def listed(monkeypatch):
    """Two experiments, one of which fails; every setting is said to take 100 seconds."""
    settings = [{"updates": 3}, {"updates": 1}, {"updates": 2}]
    made = {
        "good": types.SimpleNamespace(QUICK=settings, GPU=settings, COLUMNS=["updates", "value"], run=train),
        "bad": types.SimpleNamespace(QUICK=[{"updates": 1}], GPU=[], COLUMNS=["updates"], run=lambda _: 1 // 0),
    }

    def experiment(name):
        if name == "absent":
            raise ImportError("No module named 'transformers'")
        return made[name]

    monkeypatch.setattr(_contract, "experiment", experiment)
    monkeypatch.setattr(_contract, "code", lambda name: {})
    monkeypatch.setattr(_gpu, "_device", lambda path, device, quick, say: _gpu._write(path, {"device": device}))
    return list(made)


class Clock:
    """Seconds that pass with every look, fifty each."""

    now = 0.0

    def __call__(self):
        self.now += 50.0
        return self.now


def rows(folder):
    found = json.loads((folder / "rows.json").read_text(encoding="utf-8"))
    return [(row["experiment"], row["setting"].get("updates"), row["rows"]) for row in found["settings"]], found


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_run_stopped_by_its_budget_goes_on(listed, tmp_path, device):
    """In pieces the same rows as in one go, small settings first; a failing one costs no other its time."""
    with pretended():
        assert _gpu.carry_out(["good"], tmp_path / "whole", 1e6, device, True, say=lambda _: None) == 0
        whole, about = rows(tmp_path / "whole")
        assert [updates for _, updates, _ in whole] == [1, 2, 3]
        left, said = [3], []
        while left[-1] and len(left) < 9:
            left.append(_gpu.carry_out(["good"], tmp_path / "parts", 300.0, device, True, said.append, Clock()))
        assert len(left) > 2 and sorted(left, reverse=True) == left, "stopped more than once"
        assert rows(tmp_path / "parts")[0] == whole
    assert {row["accelerator"] for row in about["settings"]} == {"in name only" if device == "cuda" else None}
    assert all(row["commit"] for row in about["settings"])
    assert len(list((tmp_path / "parts").iterdir())) <= 8


def test_what_is_missing_is_said(listed, tmp_path):
    said = []
    assert _gpu.carry_out(["bad", "absent"], tmp_path, 1e6, "cpu", True, said.append) == 0
    assert "ZeroDivisionError" in " ".join(said) and "transformers" in " ".join(said)
    assert not rows(tmp_path)[0] and len(rows(tmp_path)[1]["missing"]) == 2


def test_other_code_is_run_again(listed, tmp_path, monkeypatch):
    for code in ({}, {"good": []}):
        monkeypatch.setattr(_contract, "code", lambda name, code=code: code)
        _gpu.carry_out(["good"], tmp_path, 1e6, "cpu", True, lambda _: None)
    assert len(rows(tmp_path)[0]) == 6


def test_time_ends_a_setting_that_goes_on_and_on(listed, tmp_path, monkeypatch):
    """Even inside of it, and what was there before stays."""

    def forever(setting):
        while setting["updates"] == 2:
            pass
        return train(setting)

    monkeypatch.setattr(_contract.experiment("good"), "run", forever)
    said = []
    assert _gpu.carry_out(["good"], tmp_path, 2.0, "cpu", True, said.append) == 2
    assert "stopped by the budget" in " ".join(said) and len(rows(tmp_path)[0]) == 1


def test_a_file_of_somebody_else_is_kept(tmp_path):
    (tmp_path / "rows.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="--gpu"):
        _gpu.carry_out([], tmp_path, 1.0, "cpu")
    assert (tmp_path / "rows.json").read_text(encoding="utf-8") == "[]"


def test_few_packages_are_needed(tmp_path):
    """A machine with a card may have torch and little else."""
    absent = ("pandas", "pyarrow", "matplotlib", "typer", "rich", "gymnasium", "transformers")
    script = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); from experiments.__main__ import main; "
    script += f"sys.exit(main(['language_ess', '--gpu', '--quick', '--device', 'cpu', '--out', {str(tmp_path)!r}]))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(rows(tmp_path)[0]) == 2 and not rows(tmp_path)[1]["missing"]
