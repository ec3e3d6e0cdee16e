"""A step in micro-batches is the same step: gradients, metrics and whole runs, uneven remainders included."""

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.methods._method import evaluate
from tests.contracts.laboratory import NOTHING, make, names, trial_of

METHODS = [name for name in names("methods") if "log_prob" in make("methods", name).outputs]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("groups", "parts"), [(4, 2), (3, 2), (1, 2), (1, 5), (3, 3)])
def test_the_split_does_not_change_the_gradient(name, groups, parts):
    """Cut between groups where there are enough, else between samples; 3 groups in 2 parts leave a remainder."""
    method = make("methods", name)
    trial = trial_of(method, G=groups, N=5, drift=0.5)
    weights = trial.policy.prepare(trial.new)
    whole, cut = (
        evaluate(method, NOTHING, trial.policy, weights, trial.batch, micro_batches=n).gradient for n in (1, parts)
    )
    assert whole.abs().max() > 1e-6
    assert (whole - cut).abs().max() < 1e-12 * max(1.0, float(whole.abs().max()))


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
