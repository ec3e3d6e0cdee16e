"""Parts that do not fit together are refused, and what is reported belongs to the policy that it names."""

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base import checks
from tests.core import runs
from tests.refusals import refused

BANDIT = sim.tasks.softmax_bandit(arms=3, means=[0.0, 0.5, 1.0], rewards="fixed")


STEP = sim.chain(sim.updates.sgd(1.0))
spec = partial(runs.spec, task=BANDIT, system=sim.schedules.fixed(3), update=STEP, samples_per_group=16)


@pytest.mark.parametrize(
    ("task", "policy"),
    [
        (sim.tasks.token_bandit(dependence="markov"), sim.policies.tabular(rows=1, actions=3)),
        (BANDIT, sim.policies.tabular(rows=1, actions=4)),
        (BANDIT, sim.policies.gaussian()),
        (sim.tasks.gaussian_bandit(), sim.policies.gaussian(dimension=2)),
        (sim.tasks.gaussian_bandit(), sim.policies.tabular()),
    ],
)
def test_a_policy_that_does_not_fit_the_task_is_refused(task, policy) -> None:
    refused("policy", spec, task=task, policy=policy)


def test_a_quadratic_of_another_spectrum_is_refused() -> None:
    with pytest.raises(checks.InputError, match="curvatures"):
        spec(task=sim.tasks.quadratic((1.0, 2.0)), policy=sim.policies.quadratic((1.0,)), method=sim.methods.gradient())


def test_the_oracle_refuses_it_too() -> None:
    with pytest.raises(checks.InputError, match="policy table"):
        sim.oracle.limit(BANDIT, sim.methods.reinforce(), [0.0] * 4, policy=sim.policies.tabular(actions=4))


def test_exact_return_of_a_gaussian_bandit_has_the_policys_width() -> None:
    value, _ = sim.oracle.exact(sim.tasks.gaussian_bandit(), [0.0], sim.policies.gaussian(width=3.0))
    assert value == pytest.approx(-4.5)


def test_ratios_under_gradients_at_behavior_are_those_of_the_current_policy() -> None:
    trace = sim.run(spec(method=sim.methods.reinforce(at="behavior"), diagnostics=["ess", "kl", "entropy"]))
    now = sim.run(spec(method=sim.methods.reinforce(at="current"), diagnostics=["ess", "kl", "entropy"]))
    assert (trace["ess"][-1] < 1.0).all() and (trace["kl"][-1] > 0.0).all()
    # Group baselines make both gradients equal, so both runs are at the same parameters throughout.
    np.testing.assert_allclose(trace.parameters, now.parameters, rtol=1e-12)
    for name in trace.metrics:
        np.testing.assert_allclose(trace[name], now[name], rtol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: sim.chain(3),
        lambda: sim.methods.reinforce(sim.advantages.none),
        lambda: sim.run(spec(diagnostics=[3])),
        lambda: sim.run(spec(initial="x")),
        lambda: sim.run(spec(diagnostics=["nope"])),
    ],
)
def test_things_of_the_wrong_kind_are_named(make) -> None:
    refused("", make)


def test_counts_and_samples_agree_on_the_largest_share() -> None:
    names = ["max_weight_share", "tail_index"]
    sampled = sim.run(spec(diagnostics=names, samples_per_group=32))
    counted = sim.run(spec(diagnostics=names, samples_per_group=32, sampling="counts"))
    np.testing.assert_allclose(sampled["max_weight_share"], counted["max_weight_share"], rtol=1e-9)
    assert np.isfinite(sampled["tail_index"][-1]).any() and np.isnan(counted["tail_index"]).all()


def test_the_bias_of_later_updates_around_the_proximal_policy_is_missing() -> None:
    task = sim.tasks.token_bandit(actions=2, horizon=2)
    around = {
        "task": task,
        "system": sim.schedules.fixed(1),
        "epochs": 2,
        "sampling": "enumerate",
        "diagnostics": ["bias"],
    }
    proximal = sim.run(spec(method=sim.methods.ppo_clip(anchor="proximal"), **around))["bias"]
    behavior = sim.run(spec(method=sim.methods.ppo_clip(anchor="behavior"), **around))["bias"]
    assert np.isfinite(proximal[::2]).all() and np.isnan(proximal[1::2]).all() and np.isfinite(behavior).all()


def test_variance_refuses_a_knob_for_each_replicate() -> None:
    method = sim.methods.truncated_is(cap=[1.0, 2.0, 3.0, 4.0])
    refused("single numbers", lambda: sim.run(spec(method=method, diagnostics=["variance"], samples_per_group=2)))


def test_a_cosine_to_a_vanishing_gradient_is_missing() -> None:
    from asyncsim.step import ratios

    tiny = torch.full((1, 2), 1e-200, dtype=torch.float64)
    assert torch.isnan(ratios.cosine(tiny, torch.ones(1, 2, dtype=torch.float64) * 1e-200)).all()


def test_replaced_parts_are_checked_again() -> None:
    refused("", lambda: dataclasses.replace(spec(), policy=sim.policies.tabular(actions=7)))


def test_realizations_belong_to_saved_and_coupled_schedules_themselves() -> None:
    coupled = sim.schedules.coupled(sim.systems.one_step_off())
    task = sim.tasks.token_bandit(ends=True)
    saved = sim.schedules.random([0.5, 0.5]).schedule(8, 16, 1, 4, 0)
    for changes in ({"system": coupled, "task": task}, {"system": saved}):
        assert sim.run(spec(**changes)).replicates == 4
        refused("realizations", sim.run, spec(**changes, realizations=2))
