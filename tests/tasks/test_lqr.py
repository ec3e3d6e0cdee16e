"""Scalar linear-quadratic control: its closed form against listed actions, sampling and completed squares."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from tests.refusals import refused


def places(task, *gains):
    return torch.tensor([[task.best_gain + gain] for gain in gains], dtype=torch.float64)


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("changes", [{}, {"drift": -1.2, "control": 0.8, "width": 0.3, "begins": -0.7}])
def test_every_sequence_of_actions_gives_the_closed_form(horizon, changes):
    """Return and gradient; a normal law on the grid is exact to rounding."""
    task = sim.tasks.lqr(horizon=horizon, **changes)
    theta = places(task, 0.0, 0.3, -0.2)
    value, gradient = task.exact(task.policy(), theta)
    method = sim.methods.reinforce(sim.advantages.returns_to_go())
    step = sim.oracle.population_step(task, method, theta.numpy())
    np.testing.assert_allclose(step.gradient, gradient, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose((step.batch.mass * step.batch.reward).sum((1, 2)), value, rtol=0.0, atol=1e-9)
    assert abs(gradient[0, 0].item()) < 1e-12 < gradient[1:].abs().min().item()


def test_a_policy_off_the_grid_has_no_gradient_and_stops():
    task = sim.tasks.lqr()
    method = sim.methods.reinforce(sim.advantages.returns_to_go())
    found = sim.oracle.limit(task, method, [[0.5], [60.0]])
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()


def test_a_policy_that_runs_away_stops_its_replicate_alone():
    method, chain = sim.methods.reinforce(sim.advantages.returns_to_go()), sim.chain(sim.updates.sgd((0.001, 50.0)))
    spec = sim.Spec(sim.tasks.lqr(), sim.schedules.fixed(1), method, chain, updates=40, replicates=2)
    trace = sim.run(spec, seed=1, progress=False)
    assert trace.diverged[0] == -1 and trace.diverged[1] > 0 and np.isfinite(trace.parameters).all()


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_squares_are_completed(noise):
    """J(K*) - J(K) = (r + b^2 P) (K - K*)^2 sum_t m_t(K) for any K, and J(K*) = -P x^2 - T (...)."""
    task = sim.tasks.lqr(drift=1.1, control=0.7, state_cost=0.6, action_cost=0.8, noise=noise, horizon=5, begins=1.3)
    theta = places(task, 0.0, 0.5, -1.0)
    value = task.exact(task.policy(), theta)[0].numpy()
    weight = 0.8 + 0.7**2 * task.closing
    assert value[0] == pytest.approx(-task.closing * 1.3**2 - 5 * (weight * 0.25 + task.closing * noise**2), abs=1e-12)
    for k, gain in ((1, 0.5), (2, -1.0)):
        moment, total = 1.3**2, 0.0
        for _ in range(5):
            total += moment
            moment = (1.1 - 0.7 * (task.best_gain + gain)) ** 2 * moment + (0.7 * 0.5) ** 2 + noise**2
        assert value[0] - value[k] == pytest.approx(weight * gain**2 * total, rel=1e-12)


def test_drawn_returns_have_the_exact_mean():
    """z below 5 for 40,000 episodes: a right program fails for one seed in 10^6; noise left out would give z > 20."""
    task = sim.tasks.lqr(noise=0.4, horizon=3)
    settings = {"updates": 2, "replicates": 1, "samples_per_group": 20_000, "diagnostics": ["batch_return"]}
    method, still = sim.methods.reinforce(sim.advantages.returns_to_go()), sim.chain(sim.updates.sgd(0.0))
    spec = sim.Spec(task, sim.schedules.fixed(0), method, still, initial=(0.4,), **settings)
    found = sim.run(spec, seed=2, progress=False)["batch_return"].mean()
    expected, without = (
        each.exact(each.policy(), torch.tensor([[0.4]], dtype=torch.float64))[0].item()
        for each in (task, sim.tasks.lqr(horizon=3))
    )
    # Standard deviation of one return, measured at 2.44.
    error = 2.5 / np.sqrt(40_000)
    assert abs(found - expected) < 5.0 * error
    assert abs(found - without) > 20.0 * error


def test_other_policies_and_long_lists_are_refused():
    refused(r"feedback of width 0\.5", lambda: sim.tasks.lqr().fit(sim.policies.feedback(width=0.4)))
    refused(r"feedback of width 0\.5", lambda: sim.tasks.lqr().fit(sim.policies.gaussian()))
    prompt = torch.zeros(1, dtype=torch.int64)
    refused(r"noise = 0\.1", lambda: sim.tasks.lqr(noise=0.1).outcomes(prompt))
    refused("control = 0.0", sim.tasks.lqr, control=0.0)
    refused(r"grid \*\* horizon", lambda: sim.tasks.lqr(horizon=5).outcomes(prompt))
