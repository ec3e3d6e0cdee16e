"""Perceptrons on tasks with a table: what they are on one-hot observations, exact gradients, and refusals."""

import dataclasses

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from tests.contracts import test_policies as contracts

TASKS = {
    "bandit": lambda: sim.tasks.softmax_bandit(3, means=[[0.1, 0.9, 0.4], [0.7, 0.2, 0.3]]),
    "tokens": lambda: sim.tasks.token_bandit(3, 4, dependence="position", success=0.75),
    "words": lambda: sim.tasks.token_bandit(3, 4, dependence="markov", ends=True),
    "chain": lambda: sim.tasks.bit_chain(5),
    "process": lambda: sim.tasks.mdp(horizon=6),
    "tool": lambda: sim.tasks.tool_bandit(2, horizon=4),
}
RATE = sim.chain(sim.updates.adam(0.05))


def spec(task, policy=None, **changes):
    sizes = {"updates": 6, "replicates": 3, "samples_per_group": 6, **changes}
    return sim.Spec(task, sim.schedules.fixed(2), sim.methods.reinforce(), RATE, policy=policy, **sizes)


def network(task):
    return sim.policies.mlp(task.rows, task.actions, hidden=(7, 5), critic=False, gain=1.0)


@pytest.mark.parametrize("name", TASKS)
def test_the_exact_gradient_is_the_slope_of_the_exact_return(name):
    task = TASKS[name]()
    policy = spec(task, network(task)).trained_policy
    place = policy.initial(2, torch.float64, seed=1)
    direction = torch.from_numpy(np.random.default_rng(0).standard_normal(place.shape))
    value, gradient = task.exact(policy, place)
    above, below = (task.exact(policy, place + step * direction)[0] for step in (1e-5, -1e-5))
    torch.testing.assert_close((gradient * direction).sum(-1), (above - below) / 2e-5, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(task.expected(policy, place, policy.prepare(place)), value, rtol=1e-12, atol=1e-14)


def test_it_is_the_perceptron_on_one_hot_observations():
    """Outputs, gradients at two versions, and score norms of a network that reads a vector for every token."""
    task = TASKS["words"]()
    plain = network(task)
    policy = plain.on_table(task.rows)
    _, _, batch, weight = contracts.problem("tabular")
    shape, random = batch.mask.shape, np.random.default_rng(2)
    batch = dataclasses.replace(batch, state=torch.from_numpy(random.integers(0, task.rows, shape)))
    observed = dataclasses.replace(batch, state=torch.eye(task.rows, dtype=torch.float64)[batch.state])
    theta = torch.from_numpy(random.standard_normal((2, shape[0], policy.size)))
    slots = random.integers(0, 2, shape)
    names = ("log_prob", "entropy", "log_probs")
    found = []
    for one, data in ((policy, batch), (plain, observed)):
        view = contracts.mixed_view(one, theta, slots)
        data = dataclasses.replace(data, realization=np.arange(shape[0]), index=None)
        forward = one.forward(view, data, names)
        norm = one.score_norm(view, data, weight["log_prob"])
        found.append((*forward.outputs.values(), forward.pullback({name: weight[name] for name in names}), norm))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("compiled", [True, False])
def test_runs_are_the_same_as_programs_and_in_blocks(name, compiled):
    task = TASKS[name]()
    made = spec(task, network(task), diagnostics=["trained_return", "batch_return"])
    trace = sim.run(made, seed=1, progress=False)
    other = sim.run(made.replace(compiled=compiled, block=2), seed=1, progress=False)
    np.testing.assert_allclose(trace.parameters, other.parameters, rtol=1e-9, atol=1e-12)
    assert trace.parameters.shape == (3, network(task).size)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"critic": True}, "critic = True: must be False on a task with a table of 4 states"),
        ({"critic": "action"}, "critic = .action."),
        ({"observation": 3}, "observation = 3: must be 4 on a task"),
        ({"head": "gaussian"}, "head = .gaussian.: must be categorical"),
        ({"normalize": True}, "normalize = True: must be False"),
        ({"sampler": "int8"}, "sampler = .int8.: must be None"),
        ({"actions": 5}, "policy table"),
    ],
)
def test_what_does_not_fit_a_table_is_refused_by_its_field(changes, words):
    policy = sim.policies.mlp(**{"observation": 4, "actions": 3, "critic": False, **changes})
    with pytest.raises(InputError, match=words):
        spec(TASKS["tokens"](), policy)
