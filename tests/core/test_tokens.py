"""Rewards, ends and redraws of single tokens: what reviews of the first version found wrong, each against the truth."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.step import ratios
from tests.core.runs import identical
from tests.refusals import refused

ENDING = {"actions": 3, "horizon": 24, "ends": True, "logits": [[0.0, 0.0, -2.0]]}
"""Many tokens, any of which may end the sequence."""


def coupled_run(seed, **changes):
    task, system, method = (
        sim.tasks.token_bandit(**ENDING),
        sim.schedules.coupled(sim.systems.areal(6, 1, 6, length=sim.constant(1.0), train_time=2.0)),
        sim.methods.reinforce(sim.advantages.none()),
    )
    options = {"samples_per_group": 4, "updates": 12, "replicates": 2, "diagnostics": "default"}
    spec = sim.Spec(task, system, method, sim.chain(sim.updates.sgd(3.0)), **options, **changes)
    return sim.run(spec, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_redraw_that_ends_earlier_forgets_what_stood_behind(seed):
    """Weights that are installed under a trajectory in flight may end it sooner than it would have."""
    late, early = coupled_run(seed), coupled_run(seed, drawing="early")
    versions = late.schedule.version
    assert (versions[..., 0] != versions[..., -1]).any(), "nothing was drawn anew"
    identical(late, early)


def population_gradient(task, advantage, theta):
    method = sim.methods.reinforce(advantage)
    return sim.oracle.limit(task, method, theta)


@pytest.mark.parametrize("at", ["behavior", "current"])
def test_the_penalty_reaches_every_token(at):
    """The return to go, penalty included, gives the exact gradient; without it the direction is another one."""
    task = sim.tasks.token_bandit(actions=3, horizon=3, kl_coef=1.0, reference=[[2.0, 0.0, 0.0]], kl_at=at)
    theta = np.array([0.3, -0.2, 0.1])
    exact = sim.oracle.exact(task, theta)[1]
    np.testing.assert_allclose(population_gradient(task, sim.advantages.returns_to_go(), theta), exact, atol=1e-12)
    bare = sim.tasks.token_bandit(actions=3, horizon=3)
    wrong = population_gradient(bare, sim.advantages.returns_to_go(), theta)
    assert np.abs(wrong - exact).max() > 0.1


@pytest.mark.parametrize("discount", [1.0, 0.5])
@pytest.mark.parametrize("name", ["none", "returns_to_go"])
def test_token_rewards_of_a_table_give_the_exact_gradient(name, discount):
    """By enumeration of all sequences, with the discount of the task inside its rewards."""
    task = sim.tasks.frozen_lake(desc=["SF", "FG"], slippery=False, horizon=4, discount=discount)
    theta = np.random.default_rng(0).normal(size=task.policy().size)
    found = population_gradient(task, getattr(sim.advantages, name)(), theta)
    exact = sim.oracle.exact(task, theta)[1]
    assert np.abs(exact).max() > 1e-3
    np.testing.assert_allclose(found, exact, atol=1e-12)


def test_the_return_of_a_population_is_weighed_by_its_masses():
    task = sim.tasks.token_bandit(actions=2, horizon=2, success=1.0, logits=[[3.0, 0.0]])
    options = {
        "updates": 1,
        "replicates": 2,
        "sampling": "enumerate",
        "diagnostics": ["episode_return", "exact_return"],
    }
    spec = sim.Spec(task, sim.schedules.fixed(0), sim.methods.reinforce(sim.advantages.none()), sim.chain(), **options)
    trace = sim.run(spec)
    np.testing.assert_allclose(trace["episode_return"], trace["exact_return"], rtol=1e-12)
    assert abs(trace["episode_return"][0, 0] - 0.25) > 0.5, "the plain mean over outcomes"


def test_a_critic_is_not_told_of_the_next_episode():
    """Targets of any advantage stop where an episode ends."""
    task = sim.tasks.gym("CartPole-v1", trajectory="segment", steps=64)
    seen = []

    def watch(step):
        batch = step.batch
        seen.append((batch.ended.clone(), step.targets.clone()))
        return batch.reward[:, 0, 0]

    metric = sim.diagnostics.batch_return
    watcher = dataclasses.replace(metric(), name="watcher", measure=watch)
    method = sim.methods.reinforce(sim.advantages.none(), critic=0.5)
    options = {"samples_per_group": 2, "updates": 1, "replicates": 1, "diagnostics": [watcher]}
    spec = sim.Spec(task, sim.schedules.fixed(0), method, sim.chain(), **options)
    sim.run(spec)
    ended, targets = seen[0]
    assert ended.any()
    for n in range(2):
        left = 0
        for t in reversed(range(64)):
            left = 1 if ended[0, 0, n, t] else left + 1
            assert targets[0, 0, n, t] == left


def test_a_stopped_replicate_keeps_its_normalizer():
    task = sim.tasks.gym("CartPole-v1", trajectory="segment", steps=8)
    policy = sim.policies.mlp(4, 2, normalize=True)
    rates = np.array([0.0, 1e30])
    options = {"policy": policy, "samples_per_group": 2, "updates": 4, "replicates": 2, "diagnostics": "none"}
    spec = sim.Spec(task, sim.schedules.fixed(0), sim.methods.a2c(), sim.chain(sim.updates.sgd(rates)), **options)
    short, long = sim.run(spec.replace(updates=1)), sim.run(spec)
    assert long.diverged.tolist() == [-1, 0]
    np.testing.assert_array_equal(short.parameters[1], long.parameters[1])
    assert (short.parameters[0] != long.parameters[0]).any()


def test_segments_that_would_overlap_in_time_are_refused():
    """A capped pipeline begins a segment under older weights than the one before it ended with."""
    task = sim.tasks.gym("CartPole-v1", trajectory="segment", steps=8)
    system = sim.systems.areal(4, 1, 5, length=sim.constant(1.0), train_time=0.15)
    spec = sim.Spec(task, system, sim.methods.a2c(), sim.chain(), samples_per_group=1, updates=10, replicates=1)
    refused("out of order", sim.run, spec)


def test_versions_that_go_back_are_drawn_late_or_not_at_all():
    saved = sim.schedules.fixed(1).schedule(3, 2, 4, 1, 0)
    version = np.repeat(saved.version, 4 if saved.version.shape[-1] == 1 else 1, axis=-1).copy()
    version[:, 2, ..., :2], version[:, 2, ..., 2:] = 1, 0
    task, system = sim.tasks.token_bandit(actions=2, horizon=4), dataclasses.replace(saved, version=version)
    spec = sim.Spec(task, system, sim.methods.reinforce(), sim.chain(), samples_per_group=2, updates=3, replicates=1)
    sim.run(spec)
    refused("versions of a trajectory go back", lambda: sim.run(spec.replace(drawing="early")))


def test_adam_without_eps_takes_no_step_where_the_gradient_is_always_zero():
    task, system = sim.tasks.frozen_lake(horizon=10), sim.schedules.fixed(0)
    sizes = {"samples_per_group": 8, "updates": 3, "replicates": 2}
    spec = sim.Spec(task, system, sim.methods.reinforce(), sim.chain(sim.updates.adam(0.1, eps=0.0)), **sizes)
    assert (sim.run(spec).diverged == -1).all()


def test_tokens_that_neither_policy_can_draw_say_nothing():
    never, mask = torch.tensor([[[[-math.inf, -1.0]]]]), torch.ones(1, 1, 1, 2)
    assert ratios.log_ratio(never, never, mask).tolist() == [[[[0.0, 0.0]]]]
    gone = torch.full((1, 3), -math.inf)
    mass = torch.full((1, 3), 1 / 3, dtype=torch.float64)
    assert ratios.mean_weight(gone, mass).item() == 0.0


def test_a_signal_does_not_outlive_its_update():
    """Cycles of references would keep batches until a collection: a quarter of a bandit's time went to fresh memory."""
    import gc
    import weakref

    from asyncsim.diagnostics._diagnostic import Metric

    known = []

    def watch(step):
        assert step.advantages is not None
        known.append(weakref.ref(step))
        return torch.zeros(2, dtype=torch.float64)

    task, system, method = sim.tasks.softmax_bandit(), sim.schedules.fixed(1), sim.methods.full_is()
    sizes = {"updates": 5, "replicates": 2}
    spec = sim.Spec(
        task, system, method, sim.chain(sim.updates.sgd(0.1)), diagnostics=[Metric("watch", watch)], **sizes
    )
    gc.collect()
    gc.disable()
    try:
        sim.run(spec)
        assert len(known) == 5 and all(reference() is None for reference in known)
    finally:
        gc.enable()
