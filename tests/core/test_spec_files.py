"""A run is a file: every part writes how it was made, and what is read is what was written."""

import inspect
import json

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import calls, plugins
from asyncsim.base.checks import InputError
from tests.cli.test_cli import call
from tests.refusals import refused


def spec(**changes):
    parts = {
        "task": sim.tasks.softmax_bandit(arms=3),
        "system": sim.schedules.fixed(2),
        "method": sim.methods.grpo(advantage=sim.advantages.leave_one_out()),
        "update": sim.chain(sim.updates.clip_norm(1.0), sim.updates.sgd(0.1)),
    }
    return sim.Spec(**(parts | {"updates": 4, "replicates": 3} | changes))


def again(one):
    """Written, through the text of JSON, and read."""
    return sim.Spec.from_dict(json.loads(json.dumps(one.to_dict())))


VARIANTS = {
    "plain": {},
    "a system with a law": {
        "system": sim.systems.areal(
            max_head_offpolicyness=2,
            consumer_batch_size=2,
            max_concurrent_rollouts=8,
            length=sim.lognormal(1.0, 0.8),
            load=1.5,
        )
    },
    "a coupled system": {
        "task": sim.tasks.token_bandit(actions=3, horizon=4, ends=True),
        "system": sim.schedules.coupled(sim.systems.one_step_off(groups_per_batch=2, length=1.0)),
    },
    "rewards": {"rewards": sim.rewards.late((0.5, 0.1), "reinject", by=2, reinjected=0.5)},
    "diagnostics": {"diagnostics": ("ess", sim.diagnostics.ratio_above(2.0))},
    "arrays": {"initial": np.zeros(3), "update": sim.chain(sim.updates.sgd((0.1, 0.2, 0.3)))},
    "means": {"task": sim.tasks.softmax_bandit(arms=2, means=np.array([0.25, 0.75]))},
    "a policy": {"task": sim.tasks.gym("CartPole-v1", steps=5), "policy": sim.policies.mlp(4, 2, hidden=(8,))},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_read_gives_the_same_bits(name):
    one = spec(**VARIANTS[name])
    other = again(one)
    assert other.to_dict() == one.to_dict()
    assert sim.run(one, seed=3, progress=False) == sim.run(other, seed=3, progress=False)


@pytest.mark.parametrize("kind", ["methods", "advantages", "updates", "schedules", "tasks", "policies", "systems"])
def test_every_part_that_needs_no_argument_writes_itself(kind):
    made = 0
    for name in plugins.summaries(f"asyncsim.{kind}"):
        make = getattr(getattr(sim, kind), name)
        if any(
            p.default is p.empty and p.kind is not p.VAR_KEYWORD for p in inspect.signature(make).parameters.values()
        ):
            continue
        try:
            part = make()
        except (InputError, TypeError):
            continue  # arguments that only look optional, or packages that are not here
        assert calls.written("part", part) == {f"{kind}.{name}": {}}
        assert calls.read("part", {f"{kind}.{name}": {}}, plugins.function) == part
        made += 1
    assert made >= 1


def test_files_are_json_or_yaml(tmp_path):
    one = spec(method=sim.methods.truncated_is("token"))
    one.save(tmp_path / "run.json")
    assert sim.Spec.load(tmp_path / "run.json").to_dict() == one.to_dict()
    (tmp_path / "run.yaml").write_text(
        "format: 1\n"
        "task: {tasks.softmax_bandit: {arms: 3}}\n"
        "system: {schedules.fixed: {staleness: 2}}\n"
        "method: {methods.truncated_is: {level: token}}\n"
        "update: [{updates.clip_norm: {limit: 1}}, {updates.sgd: {lr: 1e-1}}]\n"
        "updates: 4\nreplicates: 3\n",
        encoding="utf-8",
    )
    assert sim.run(sim.Spec.load(tmp_path / "run.yaml"), seed=1) == sim.run(one, seed=1)


def test_a_copy_with_changes_does_not_claim_to_be_the_original():
    changed = spec(method=sim.methods.grpo().replace(aggregator="token_mean"))
    refused("method", changed.to_dict)


def test_a_users_function_is_refused_by_name():
    def loss(log_prob, advantage):
        return -advantage * log_prob

    refused("method", lambda: spec(method=sim.methods.from_loss(loss)).to_dict())


def test_memories_go_with_their_parts():
    before = len(calls._MADE)
    for _ in range(50):
        sim.updates.sgd(0.1)
    assert len(calls._MADE) <= before + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "spec format"),
        ({"tasks": 1}, "spec field"),
        ({"task": {"tasks.softmax_bandi": {}}}, "softmax_bandi"),
        ({"task": {"jobs.softmax_bandit": {}}}, "kind of part"),
        ({"task": {"tasks.softmax_bandit": {"arm": 3}}}, "arm"),
        ({"task": {"tasks.softmax_bandit": [3]}}, "arguments by name"),
        ({"update": [{"updates.sgd": {}}]}, "lr"),
        ({"updates": "many"}, "updates"),
        ({"task": 3}, "task"),
        ({"update": 3}, "update"),
    ],
)
def test_bad_files_are_refused_in_one_line(change, message):
    caught = refused(message, lambda: sim.Spec.from_dict(spec().to_dict() | change))
    assert "\n" not in str(caught)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "whole spec file"),
        ("a.json", "[]", "a mapping"),
        ("a.yaml", "a: &x [1]\nb: *x\n", "alias"),
        ("a.yaml", "a: !!python/object:os.system {}\n", "whole spec file"),
        ("absent.json", None, "existing file"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    caught = refused(message, sim.Spec.load, tmp_path / name)
    assert "\n" not in str(caught)


def test_the_command_prints_checks_and_runs_specs(tmp_path):
    words = ("run", "--task", "token-bandit", "--updates", "4", "--replicates", "2")
    printed = call(*words, "--print-spec")
    (tmp_path / "s.json").write_text(printed.output, encoding="utf-8")
    assert json.loads(printed.output)["task"] == {"tasks.token_bandit": {}}
    dry = call("run", tmp_path / "s.json", "--dry-run")
    assert dry.exit_code == 0 and dry.output.startswith("token_bandit (tabular) with reinforce")
    given = ("--link", "adam", "--set", "adam.lr=0.1", "--set", "adam.beta2=0.8")
    assert "beta2=0.8" in call("run", *given, "--dry-run").output
    assert "last tenth" not in dry.output
    by_file = call("run", tmp_path / "s.json", "--seed", "4", "--json", tmp_path / "a.json")
    by_words = call(*words, "--seed", "4", "--json", tmp_path / "b.json")
    assert by_file.exit_code == by_words.exit_code == 0
    first, second = (json.loads((tmp_path / name).read_text(encoding="utf-8")) for name in ("a.json", "b.json"))
    assert first["final"] == second["final"]
    answer = call("run", tmp_path / "s.json", "--method", "grpo")
    assert answer.exit_code == 2
    assert "left out beside" in answer.stderr


def test_a_run_does_not_hold_its_parts():
    """What a run has used can go: nothing but the user refers to it."""
    one = spec()
    sim.run(one, seed=0, progress=False)
    key = id(one.method)
    assert key in calls._MADE
    del one
    assert key not in calls._MADE
