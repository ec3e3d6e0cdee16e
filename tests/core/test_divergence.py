"""A replicate that is frozen says when and why, on tensors, in programs and from a store; nothing is said of others."""

import warnings

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.answers import mean_of, summarized
from asyncsim.base.checks import RunWarning

BANDIT = sim.tasks.token_bandit(actions=3, horizon=4)


def trained(task, method, lr: float, updates: int, **settings):
    link = sim.chain(sim.updates.sgd(lr))
    spec = sim.Spec(task, sim.schedules.fixed(4), method, link, updates=updates, replicates=4, **settings)
    return sim.run(spec, progress=False)


def exploding(**settings):
    quadratic = sim.tasks.quadratic((1.0,), noise=1.0)
    return trained(quadratic, sim.methods.gradient(), 5.0, 1200, samples_per_group=1, **settings)


def rooted(log_prob, behavior_log_prob, advantage):
    """A loss that is NaN: the root of a negative number."""
    return -advantage * log_prob * torch.sqrt(log_prob)


def test_weights_that_grow_are_told_from_a_loss_that_is_not_finite() -> None:
    grown = exploding().why_diverged()
    assert "4 of 4 diverged at updates" in grown and "in 4 their weights grew until they overflowed" in grown
    assert "gradient_norm" in grown and "NaN" not in grown
    broken = trained(BANDIT, sim.methods.from_loss(rooted), 0.1, 3, samples_per_group=4)
    why = broken.why_diverged()
    assert "4 of 4 diverged at update 0; in 4 one update was NaN" in why and "grew" not in why
    with pytest.raises(sim.InputError, match="diverged at update 0; in 4 one update was NaN"):
        broken.final("gradient_norm")
    assert trained(BANDIT, sim.methods.reinforce(), 0.1, 3, samples_per_group=4).why_diverged() == ""


def test_a_program_says_what_tensors_say() -> None:
    program, tensors = exploding(compiled=True), exploding(compiled=False)
    np.testing.assert_array_equal(program.diverged, tensors.diverged)
    assert program.why_diverged() == tensors.why_diverged()


def test_the_update_that_is_named_is_the_first_that_left_the_finite_range() -> None:
    trace = exploding(compiled=False)
    last = int(trace.diverged.max())
    assert f"updates {trace.diverged.min()} to {last};" in trace.why_diverged()
    rows = trace["gradient_norm"][:, trace.diverged.argmax()]
    assert np.isfinite(rows[last - 1]) and np.isnan(rows[last:]).all()


def test_a_cell_of_a_sweep_says_by_when_all_diverged() -> None:
    values, updates = np.array([np.nan, -1e300, np.nan]), np.array([7, 9, 30])
    assert mean_of(summarized(values, updates)) == "all diverged, half by update 9"
    assert "diverged" not in mean_of(summarized(np.array([1.0, 2.0, 3.0]), np.array([7, 9, -1])))


def test_rewards_that_are_all_alike_are_told():
    """A stop that never comes, or a reward that nobody earns, trains nothing and says nothing."""
    spec = sim.Spec(
        sim.tasks.softmax_bandit(2, means=(0.0, 0.0), rewards="fixed"), sim.schedules.fixed(0), sim.methods.grpo(),
        sim.chain(sim.updates.sgd(0.1)), samples_per_group=4, updates=3, diagnostics=["gradient_norm"],
    )  # fmt: skip
    with pytest.warns(RunWarning, match="gradient_norm is 0 in every recorded update, so nothing was learned"):
        sim.run(spec, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.run(spec.replace(task=sim.tasks.softmax_bandit(2, means=(0.0, 1.0), rewards="fixed")), progress=False)
