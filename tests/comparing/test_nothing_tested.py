"""Runs and comparisons that cannot show what they were made for say so: one weight for all tokens, no event in any arm.

Planted: weights that vary, and events that happen in one arm.
"""

import math
import re
from types import SimpleNamespace

import pytest
import torch

import asyncsim as sim
from asyncsim.base import checks
from asyncsim.comparing import arms as pairing
from asyncsim.comparing.readings import Reading
from asyncsim.running import running

TASK = sim.tasks.token_bandit(actions=3, horizon=2)
UPDATE = sim.chain(sim.updates.adam(0.05))


def decay(log_prob, advantage, staleness):
    return -torch.exp(-0.1 * staleness) * advantage * log_prob


def plain(log_prob, advantage):
    return -advantage * log_prob


def ratio(log_prob, behavior_log_prob, advantage):
    return -(log_prob - behavior_log_prob).exp() * advantage


def one_sided(log_prob, advantage, staleness):
    return -torch.exp(-0.1 * staleness) * advantage.clamp(min=0.0) * log_prob


def spec(method, system=None, **changes):
    method = method if hasattr(method, "weight") else sim.methods.from_loss(method)
    sizes = {"updates": 40, "replicates": 2, "samples_per_group": 8} | changes
    return sim.Spec(TASK, system or sim.schedules.fixed(4), method, UPDATE, **sizes)


UNIFORM = sim.schedules.random("uniform:2:6")
WITHIN = sim.methods.added(sim.methods.reinforce(), factors=[sim.factors.drop_stale(8)])
WEIGHTS = {
    # A run, and what is said of its weights where they are one constant.
    "staleness alone": (spec(decay), "0.67, as staleness is always 4; to vary it write --schedule random"),
    "a mask of staleness that drops nothing": (spec(WITHIN), "constant, 1, as staleness is always 4"),
    "neither": (spec(plain), "it uses neither the ratio nor the staleness"),
    "no staleness": (
        spec(ratio, sim.schedules.fixed(0)),
        "all ratios are 1 at staleness 0; for stale data write --staleness 4",
    ),
    "start of the batch": (spec(sim.methods.grpo(anchor="proximal")), "write --epochs 2"),
    "several values of staleness": (spec(decay, UNIFORM), None),
    "ratios of stale data": (spec(ratio), None),
    "a sign of the advantage": (spec(one_sided), None),
    "several updates on a batch": (spec(ratio, sim.schedules.fixed(0), epochs=2), None),
    "a sampler that differs": (spec(ratio, sim.schedules.fixed(0), policy=TASK.policy(noise=0.1)), None),
    "a clip": (spec(sim.methods.grpo()), None),
    "no weight is declared": (spec(sim.methods.reinforce()), None),
    "no staleness was asked for": (spec(sim.methods.grpo(), sim.schedules.fixed(0)), None),
    "a staleness that is not reached for long": (spec(decay, sim.schedules.fixed(38)), None),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_are_one_constant_are_told_and_others_are_not(name, recwarn):
    own, text = WEIGHTS[name]
    sim.run(own, progress=False)
    told = [str(each.message) for each in recwarn if issubclass(each.category, checks.RunWarning)]
    told = [each for each in told if "the weights of this run are one constant" in each]
    assert bool(told) == bool(text) and all(text in each for each in told)


def test_a_comparison_notes_the_constant_of_each_setting():
    arms = {"mine": spec(decay), "grpo": spec(sim.methods.grpo())}
    answer = sim.compare(arms, smallest=0.2, tune=None, max_replicates=64, along={"staleness": [2, 4]}, workers=1)
    told = [note for note in answer.notes if "one constant" in note]
    assert ["one constant, 0.819" in told[0], "one constant, 0.67" in told[1], len(told)] == [True, True, 2]
    assert all(note.startswith("arm mine, ") for note in told)


ARMS = spec(sim.methods.grpo()), spec(sim.methods.cispo())
COMPARED = {"smallest": 0.3, "tune": None, "max_replicates": 64, "workers": 1}
EVENTS = {
    "no collapse": ({"over": "collapse"}, "no run of any arm collapses", "more staleness, more updates"),
    "no success": ({"over": "reached", "target": 0.999}, "no run of any arm reaches", "a lower target"),
    "only successes": ({"over": "reached", "target": 0.55}, "every run of every arm reaches", "a higher"),
    "tuned": (
        {"over": "collapse", "tune": {"lr": [0.01, 0.02, 0.04]}},
        "no run of any arm collapses",
        "remedy: --tune none, as tuning prefers rates that spare runs",
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_shares_that_are_all_0_or_1_test_nothing(name):
    over, why, remedy = EVENTS[name]
    answer = sim.compare(*ARMS, **COMPARED | over)
    assert answer.tasks[0].blind == f"{answer.tasks[0].idle[0]}, so nothing was tested"
    assert answer.tasks[0].idle[0].startswith(why)
    text = str(answer)
    assert remedy in text
    assert answer.word == "not distinguishable on this task"
    assert "the same on this task" not in text


M = sim.methods
CHAIN, TWO, FRESH = {"task": sim.tasks.bit_chain(horizon=16)}, {"staleness": [0, 4]}, {"system": sim.schedules.fixed(0)}
ONE = {"task": sim.tasks.softmax_bandit(), **FRESH}, {"method": [M.grpo(), M.gspo()]}, {}
SETTINGS = {
    "parts": ({}, {"method": [M.grpo(), M.reinforce()]}, {}, "settings also differ in method.advantage: grpo"),
    "ratios of one token": (*ONE, "note: gspo: the ratio of a sequence equals"),
    "older policies": ({}, TWO, {"metric": "batch_return"}, "batch_return: the settings differ in system"),
    "no event": ({}, TWO, {"over": "collapse"}, "no run of any setting collapses; try more staleness"),
    "nothing learns": (CHAIN, {"lr": [0.1, 0.2]}, {}, "no setting gains .* task.fraction=0.75"),
    "all is learned": ({"updates": 400}, {"lr": [0.2, 0.21]}, {}, "all settings end at the optimum 1; try a larger"),
    "nothing of this": ({}, {"lr": [0.02, 0.05]}, {}, None),
    "another number of samples": ({}, {"samples_per_group": [4, 8]}, {}, None),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_sweep_says_what_a_comparison_of_its_settings_would(name):
    changes, grid, options, said = SETTINGS[name]
    found = sim.sweep(spec(M.grpo()).replace(**changes), grid, replicates=8, workers=1, progress=False, **options)
    assert [bool(re.search(said, str(found)))] == [True] if said else found.notes == ()
    assert all(f"note: {note}" in str(found) for note in found.notes)


def test_an_advantage_whose_critic_nothing_trains_is_told():
    gae, rest = sim.advantages.gae(), (sim.tasks.gym("CartPole-v1"), sim.schedules.fixed(4))
    with pytest.warns(checks.RunWarning, match="its advantage reads a critic, which nothing trains; write --set"):
        arms = {f"critic {c:g}": sim.Spec(*rest, M.ppo_clip(advantage=gae, critic=c), UPDATE) for c in (0.0, 0.5)}
    one = "critic 0.5: with a critic, critic 0: without; for one write advantage=gae method.critic=0.5"
    assert pairing.notes(Reading(), arms, 0) == (one,)
    with pytest.warns(checks.RunWarning, match="dapo: it leaves the given critic unused; write --advantage"):
        sim.Spec(*rest, M.dapo(), UPDATE, policy=rest[0].policy(critic=True))


def test_an_event_in_one_arm_is_compared():
    slow = ARMS[0].replace(update=sim.chain(sim.updates.adam(1e-4)))
    answer = sim.compare(ARMS[0], slow, **COMPARED, over="reached", target=0.55)
    assert [arm.mean for arm in answer.tasks[0].arms] == [1.0, 0.0]
    assert answer.tasks[0].blind == "" and answer.word == "worse" and math.isfinite(answer.difference)


@pytest.mark.parametrize(("weights", "named"), [(10**8, False), (10**8, True), (10**6, False)])
def test_a_large_model_that_nobody_named_is_named(weights, named):
    class Model:
        def describe(self):
            return {"policy": "causal_lm", "model": "big", "model_parameters": weights}

    own = SimpleNamespace(policy=Model() if named else None, trained_policy=Model())
    told = running.unnamed_model(own)
    assert bool(told) == (weights == 10**8 and not named)
    assert not told or "big is trained, 100,000,000 weights" in told
