"""Decision processes from tables of one's own: the same as an environment with those tables, and linear algebra."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError

ENDLESS = {"transition": [[[0.3, 0.7], [1.0, 0.0]], [[0.5, 0.5], [0.1, 0.9]]], "rewards": [[0.0, 1.0], [0.4, -0.2]]}


def tables(task):
    """P(s'|s, a) where it goes on, r(s, a), and the start of a process, from its outcomes."""
    law = task.law
    onward = np.zeros((task.rows, task.actions, task.rows))
    for s, a, k in np.ndindex(*law.probability.shape):
        onward[s, a, law.following[s, a, k]] += law.probability[s, a, k] * ~law.terminal[s, a, k]
    return onward, (law.probability * law.reward).sum(-1).numpy(), law.start.numpy()


@pytest.mark.parametrize("slippery", [False, True])
def test_tables_of_a_lake_are_that_lake(slippery):
    lake = sim.tasks.frozen_lake(desc=("SFS", "FHF", "FFG"), slippery=slippery, horizon=12, discount=0.9)
    onward, rewards, start = tables(lake)
    own = sim.tasks.mdp(onward, rewards, start, horizon=12, discount=0.9)
    theta = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 36)))
    for one, other in zip(lake.exact(lake.policy(), theta), own.exact(own.policy(), theta), strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=1e-12)
    for one, other in zip(tables(own), (onward, rewards, start), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-12)
    # A lake that is entered at two places is random, slippery or not.
    assert not own.enumerable and not lake.enumerable


def test_long_episodes_have_the_discounted_value():
    task = sim.tasks.mdp(**ENDLESS, start=[0.25, 0.75], horizon=300, discount=0.8)
    theta = torch.tensor([[0.3, -0.2, 0.9, 0.1]], dtype=torch.float64)
    pi = torch.softmax(theta.reshape(2, 2), -1).numpy()
    led = np.einsum("sa,sat->st", pi, ENDLESS["transition"])
    value = np.linalg.solve(np.eye(2) - 0.8 * led, (pi * ENDLESS["rewards"]).sum(1))
    assert task.exact(task.policy(), theta)[0].item() == pytest.approx(0.25 * value[0] + 0.75 * value[1], abs=1e-12)


def test_only_actions_are_random_where_tables_say_so():
    certain = [[[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
    task = sim.tasks.mdp(certain, ENDLESS["rewards"], horizon=3)
    assert task.enumerable and not task.slippery and task.law.probability.shape[-1] == 1
    assert not sim.tasks.mdp(**ENDLESS).enumerable
    # In state 1 action 0 ends the episode, and a sequence that has ended is listed once.
    outcomes = task.outcomes(torch.zeros(1, dtype=torch.int64))
    assert sorted(outcomes.mask.sum(-1)[0].tolist()) == [2.0] + [3.0] * 6


REFUSED = [
    ({"transition": [[[0.5, 0.6]] * 2] * 2}, "transition = .* add up to at most 1"),
    ({"transition": [[[1.5, -0.5]] * 2] * 2}, "transition = .* add up to at most 1"),
    ({"transition": [[[1.0]] * 2] * 2}, r"transition = .*shape \[2, 2, 2\]"),
    ({"rewards": [1.0, 2.0]}, "rewards = .*shape"),
    ({"rewards": [[1.0], [2.0]]}, "two actions at least"),
    ({"start": [0.5, 0.4]}, "start = .* add up to 1"),
    ({"horizon": 0}, "horizon = 0"),
    ({"discount": 1.1}, "discount = 1.1"),
    ({"logits": [[0.0, 0.0]]}, r"logits = .*shape \[2, 2\]"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_is_no_process_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        sim.tasks.mdp(**{**ENDLESS, **changes})
