"""A step in micro-batches is the same step: gradients, metrics and whole runs, uneven remainders included."""

import weakref

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.methods._method import evaluate
from asyncsim.policies._policy import Forward
from tests.contracts.laboratory import NOTHING, make, names, trial_of

METHODS = [name for name in names("methods") if "log_prob" in make("methods", name).outputs]


@pytest.mark.parametrize("name", METHODS)
def test_the_split_does_not_change_the_gradient(name):
    """Cut between groups where there are enough, else between samples; 3 groups in 2 parts leave a remainder."""
    method = make("methods", name)
    for groups, splits in ((4, (2,)), (3, (2, 3)), (1, (2, 5))):
        trial = trial_of(method, G=groups, N=5, drift=0.5)
        weights = trial.policy.prepare(trial.new)
        given = method, NOTHING, trial.policy, weights, trial.batch
        whole, *cut = (evaluate(*given, micro_batches=n).gradient for n in (1, *splits))
        assert whole.abs().max() > 1e-6
        for parts, gradient in zip(splits, cut, strict=True):
            assert (whole - gradient).abs().max() < 1e-12 * max(1.0, float(whole.abs().max())), (groups, parts)


@pytest.mark.parametrize("parts", [2, 3])
def test_a_run_in_micro_batches_is_the_same_run(parts):
    """Mixed versions, ends and every default metric; cut along a mixed-version axis as well."""
    task, system = (
        sim.tasks.token_bandit(actions=3, horizon=4, dependence="markov", ends=True),
        sim.schedules.random([0.3, 0.3, 0.4], per="trajectory", groups_per_batch=3),
    )
    sizes = {"samples_per_group": 4, "updates": 12, "replicates": 3}
    spec = sim.Spec(task, system, sim.methods.grpo(), sim.chain(sim.updates.sgd(1.0)), **sizes)
    whole, cut = sim.run(spec, seed=3), sim.run(spec.replace(micro_batches=parts), seed=3)
    np.testing.assert_allclose(cut.parameters, whole.parameters, rtol=0, atol=1e-12)
    for name, values in whole.metrics.items():
        np.testing.assert_allclose(cut.metrics[name], values, rtol=1e-9, atol=1e-12, err_msg=name)


def test_networks_with_critics_too():
    options = {"samples_per_group": 4, "updates": 4, "replicates": 2, "dtype": "float64"}
    spec = sim.Spec(
        make("tasks", "gym", trajectory="segment"),
        sim.schedules.fixed(1),
        sim.methods.a2c(),
        sim.chain(sim.updates.sgd(0.1)),
        policy=make("policies", "mlp", observation=4, actions=2, normalize=True),
        **options,
    )
    whole, cut = sim.run(spec, seed=3), sim.run(spec.replace(micro_batches=3), seed=3)
    np.testing.assert_allclose(cut.parameters, whole.parameters, rtol=0, atol=1e-11)


class Held:
    """What a pass keeps for its pullback."""


class Watched:
    """A policy that counts how many passes are held at one time."""

    def __init__(self, inner):
        self.inner, self.held, self.most = inner, weakref.WeakSet(), 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def forward(self, view, batch, names):
        passed, mine = self.inner.forward(view, batch, names), Held()
        self.held.add(mine)
        self.most = max(self.most, len(self.held))
        return Forward(passed.outputs, lambda cotangents: (mine, passed.pullback(cotangents))[1])


@pytest.mark.parametrize("parts", [2, 3])
def test_a_split_holds_one_part(parts):
    """Planted: all passes kept until the pullback, which saves no memory."""
    trial = trial_of(sim.methods.grpo(), G=4, N=5)
    policy = Watched(trial.policy)
    weights = trial.policy.prepare(trial.new)
    evaluate(sim.methods.grpo(), NOTHING, policy, weights, trial.batch, micro_batches=parts)
    assert policy.most == 1
    kept = [policy.forward(trial.batch.view, trial.batch, ("log_prob",)) for _ in range(parts)]
    assert policy.most == parts == len(kept)


@pytest.mark.parametrize("split", [{}, {"micro_batches": 4}, {"micro_batch": 3}])
def test_a_language_model_holds_one_graph(split, monkeypatch):
    """Whoever asks for the split: the run (`micro_batches`) or the policy (`micro_batch`)."""
    from asyncsim.policies._language_scoring import Scoring

    rows, alive, most, plain = [], weakref.WeakSet(), [0], Scoring.graph

    def graph(self, network, leaves, piece):
        made = plain(self, network, leaves, piece)
        if torch.is_grad_enabled():
            rows.append(len(piece.rows))
            alive.add(made)
            most[0] = max(most[0], len(alive))
        return made

    monkeypatch.setattr(Scoring, "graph", graph)
    own = {name: value for name, value in split.items() if name == "micro_batch"}
    policy = make("policies", "causal_lm", **own)
    task, sizes = make("tasks", "arithmetic", horizon=4), {"samples_per_group": 3, "replicates": 1, "updates": 2}
    method = sim.methods.reinforce(sim.advantages.offset(1.0))
    parts = split.get("micro_batches", 1)
    system = sim.schedules.fixed(0, groups_per_batch=4)
    spec = sim.Spec(task, system, method, sim.chain(sim.updates.sgd(0.1)), policy, micro_batches=parts, **sizes)
    trace = sim.run(spec, seed=0)
    assert most == [1] and set(rows) == ({3} if split else {12})
    monkeypatch.undo()
    whole = sim.run(spec.replace(policy=make("policies", "causal_lm"), micro_batches=1), seed=0)
    np.testing.assert_allclose(trace.parameters, whole.parameters, rtol=0, atol=1e-5)


def test_more_parts_than_samples_are_refused():
    trial = trial_of(sim.methods.reinforce(), G=2, N=3)
    with pytest.raises(InputError, match=r"micro_batches = 4: must be at most the groups \(2\) or the samples"):
        evaluate(
            sim.methods.reinforce(),
            NOTHING,
            trial.policy,
            trial.policy.prepare(trial.new),
            trial.batch,
            micro_batches=4,
        )
