"""Advantages that remember: runs against sums over all earlier batches, written out; deterministic."""

import dataclasses

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.advantages.baselines import RunningMean
from asyncsim.diagnostics._diagnostic import Metric
from tests.core.runs import identical, markov

BATCHES = 7


def spec_of(advantage, epochs=1, minibatches=1, **changes):
    settings = {"samples_per_group": 4, "updates": BATCHES * epochs * minibatches, "replicates": 3, **changes}
    task, system = markov(), sim.schedules.fixed(1, groups_per_batch=2)
    options = {"epochs": epochs, "minibatches": minibatches, "cut": "samples"}
    return sim.Spec(
        task, system, sim.methods.ppo_clip(advantage=advantage), sim.chain(sim.updates.sgd(0.8)), **options, **settings
    )


def seen(spec):
    """Rewards and advantages of every update, each `[U, R, n]`."""
    rewards, advantages = [], []

    def look(step):
        rewards.append(step.drawn.reward.flatten(1).clone())
        advantages.append((step.advantages - step.batch.reward).flatten(1).clone())
        return torch.zeros(len(rewards[-1]), dtype=torch.float64)

    sim.run(spec.replace(diagnostics=[Metric("look", look)]), seed=2, progress=False)
    return torch.stack(rewards).numpy(), torch.stack(advantages).numpy()


@pytest.mark.parametrize(("epochs", "minibatches"), [(1, 1), (3, 1), (1, 2), (2, 4)])
@pytest.mark.parametrize("decay", [0.0, 0.6, 1.0])
def test_the_baseline_is_the_mean_of_the_batches_before(decay, epochs, minibatches):
    each = epochs * minibatches
    rewards, baseline = seen(spec_of(sim.advantages.running_mean(decay), epochs, minibatches))
    means = rewards[::each].mean(-1)
    for update, found in enumerate(-baseline):
        batch = update // each
        weights = decay ** np.arange(batch)[::-1]
        expected = weights @ means[:batch] / weights.sum() if batch else np.zeros(3)
        np.testing.assert_allclose(found, np.broadcast_to(expected[:, None], found.shape), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("epochs", "minibatches"), [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("batches", [1, 3, 20])
def test_rewards_are_whitened_over_the_window(batches, epochs, minibatches):
    spec = spec_of(sim.advantages.window_std(batches), epochs, minibatches)
    found = []

    def look(step):
        found.append([step.drawn.reward.flatten(1).clone(), step.batch.reward.flatten(1), step.advantages.flatten(1)])
        return torch.zeros(3, dtype=torch.float64)

    sim.run(spec.replace(diagnostics=[Metric("look", look)]), seed=2, progress=False)
    each = epochs * minibatches
    drawn = np.stack([rewards.numpy() for rewards, _, _ in found[::each]])
    for update, (_, reward, advantage) in enumerate(found):
        batch = update // each
        window = drawn[max(0, batch + 1 - batches) : batch + 1]
        mean, deviation = window.mean((0, 2))[:, None], window.std((0, 2))[:, None]
        np.testing.assert_allclose(advantage.numpy(), (reward.numpy() - mean) / (deviation + 1e-6), rtol=0, atol=1e-8)


def test_a_baseline_that_has_seen_the_batch_is_another(monkeypatch):
    """The planted defect: the batch's own mean joins the sum before the baseline is taken."""
    right = RunningMean.apply
    monkeypatch.setattr(RunningMean, "apply", lambda self, step, state: right(self, step, right(self, step, state)[1]))
    with pytest.raises(AssertionError):
        test_the_baseline_is_the_mean_of_the_batches_before(0.6, 1, 1)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("advantage", [sim.advantages.running_mean((0.2, 0.5, 0.9)), sim.advantages.window_std(3)])
@pytest.mark.parametrize("minibatches", [1, 2])
def test_memory_is_kept_in_checkpoints_and_cut_with_blocks(advantage, compiled, minibatches, tmp_path):
    spec = spec_of(advantage, 2, minibatches, compiled=compiled)
    whole = sim.run(spec, seed=1, progress=False)
    path = tmp_path / "run.ckpt"
    sim.run(spec, seed=1, progress=False, checkpoint=path, checkpoint_every="4 updates")
    identical(sim.run(resume=path, progress=False), whole)
    if not compiled:
        identical(sim.run(spec.replace(block=2), seed=1, progress=False), whole)
    other = sim.run(spec.replace(compiled=not compiled), seed=1, progress=False)
    np.testing.assert_allclose(whole.parameters, other.parameters, rtol=0, atol=1e-12)


def test_memory_costs_no_bias_on_policy():
    """Exact on-policy gradient against the mean over 40,000 replicates: 5 errors, false alarms below 1 in 10^5."""
    task = sim.tasks.softmax_bandit(arms=3, means=[0.2, 0.5, 0.9])
    found = []

    def look(step):
        found.append(step.gradient.clone())
        return torch.zeros(len(step.gradient), dtype=torch.float64)

    spec = sim.Spec(
        task, sim.schedules.fixed(0), sim.methods.reinforce(sim.advantages.running_mean()),
        sim.chain(sim.updates.sgd(1e-30)), samples_per_group=2, updates=4, replicates=40_000,
        diagnostics=[Metric("look", look)], compiled=False,
    )  # fmt: skip
    sim.run(spec, seed=4, progress=False, workers=1)
    means = torch.tensor([0.2, 0.5, 0.9], dtype=torch.float64)
    exact = (means - means.mean()) / 3
    for gradient in found:
        error = gradient.std(0) / len(gradient) ** 0.5
        assert ((gradient.mean(0) - exact).abs() < 5 * error).all()
    # The batch's own mean in the baseline, as in a plain mean, has 1 - 1/N of the gradient: 2 samples show it.
    own = found[-1] * 0.5
    assert ((own.mean(0) - exact).abs() > 5 * own.std(0) / len(own) ** 0.5).any()


def test_a_step_alone_remembers_nothing():
    advantage = sim.advantages.running_mean()
    assert advantage.memory is None and "memory" not in advantage.describe()
    assert dataclasses.replace(advantage, memory={}) == advantage
