"""Score weights against autograd of the losses as the papers print them, and the denominators of aggregators."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.methods._method import AGGREGATORS
from tests.contracts.families import gathered
from tests.contracts.families._paper import compared
from tests.contracts.laboratory import case, defined, make, names, step_with, trial_of

PAPERS, CRITIC = gathered("PAPERS"), gathered("CRITIC")


def test_every_scored_method_has_its_paper():
    """Its loss with live ratios, clips and detached factors as printed, or, with a critic, a test of its own."""
    printed, methods = {name.partition(" ")[0] for name in PAPERS} | set(CRITIC), set(names("methods")) - {"gradient"}
    remedy = "give each its printed loss in PAPERS of a file of tests/contracts/families/"
    assert printed == methods, f"without a loss {methods - printed}, without a method {printed - methods}; {remedy}"
    assert not {name.partition(" ")[0] for name in PAPERS} & set(CRITIC)
    # A table has no critic; the loss of one is differentiated there.
    assert defined("tests/core/test_actor_critic.py", "test_gradient_is_autograds_of_the_loss")


SHAPES = [
    (samples, (1, 2, 4)[(k + d) % 3], (1, 2, 3)[(k + 2 * d) % 3], drift)
    for k, samples in enumerate((2, 3, 5))
    for d, drift in enumerate((0.0, 0.1, 0.5, 2.0))
]
"""Samples, tokens, groups and drifts: every pair of values occurs."""


@pytest.mark.parametrize("name", PAPERS)
@settings(max_examples=2)
@given(seed=st.integers(0, 10**6))
def test_score_weights_are_those_of_the_printed_loss(name, seed):
    """Token by token, in the logits, at the first and at a later update of a batch.

    On a kink (ratio exactly at a bound) autograd takes one side; a drift of 0 stays inside the bounds.
    """
    method, objective = PAPERS[name]
    for shape in SHAPES[seed == 0 :: 2]:  # the first of two draws is 0
        assert compared(method(), objective, seed, *shape) < 1e-12, shape


@pytest.mark.parametrize("name", PAPERS)
def test_the_printed_loss_is_not_that_of_its_neighbor(name):
    """The comparison can fail: doubled advantages are seen."""
    method, objective = PAPERS[name]
    assert compared(method(), lambda p: 2.0 * objective(p), 1, 5, 4, 3, 0.5) > 1e-4


def test_clips_and_caps_do_bind_in_these_cases():
    trial = case(0, N=5, T=4, G=3, drift=0.5)
    for method, loose in (
        (sim.methods.ppo_clip(0.2, 0.1), sim.methods.ppo_clip(1.0, 1e9)),
        (sim.methods.truncated_is(cap=1.2), sim.methods.truncated_is(cap=1e6)),
    ):
        assert (trial.gradient(method) - trial.gradient(loose)).abs().max() > 1e-3


def test_tokens_above_a_cap_keep_their_gradient():
    """A truncated ratio that is left differentiable drops them: weight 0 instead of the cap."""
    method = sim.methods.truncated_is("token", cap=2.0)
    weight = method.weight.score_weight(step_with(torch.full((1, 1, 1, 1), 3.0)), torch.full((1, 1, 1, 1), -1.5))
    assert weight.item() == -3.0


def test_clip_keeps_the_way_back_open():
    """Outside the band only the outward move is stopped."""
    weight = sim.methods.ppo_clip(0.2, 0.2).weight
    seen = step_with(torch.tensor([0.5, 1.0, 2.0]).double().log().reshape(1, 1, 3, 1))
    up, down = (
        weight.score_weight(seen, torch.full((1, 1, 3, 1), a, dtype=torch.float64)).flatten().tolist()
        for a in (1.0, -1.0)
    )
    assert up == [0.5, 1.0, 0.0] and down == [0.0, -1.0, -2.0]


@pytest.mark.parametrize("name", names("methods"))
def test_unchanged_policy_gives_the_plain_gradient(name):
    """With behavior = current every weight is 1: the methods differ in advantage and aggregator alone."""
    method = make("methods", name)
    if not method.scored or method.on_policy != "policy gradient":
        return
    trial = trial_of(method, drift=0.0)
    plain = sim.methods.reinforce(method.advantage, method.aggregator, critic=method.critic)
    plain = plain.replace(critic_output=method.critic_output)
    assert (trial.gradient(method) - trial.gradient(plain)).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("task", "method", "message"),
    [
        ("softmax_bandit", sim.methods.a2c(), "it reads value; use a policy with a critic"),
        ("softmax_bandit", sim.methods.grpo(critic=0.5), "it reads value; use a policy with a critic"),
        ("softmax_bandit", sim.methods.reinforce(sim.advantages.gae()), "it reads value; use a policy with a critic"),
        ("softmax_bandit", sim.methods.gradient(), r"it reads loss; the quadratic goes with methods.gradient\(\)"),
        ("quadratic", sim.methods.grpo(), r"it reads log_prob; the quadratic goes with methods.gradient\(\)"),
    ],
)
def test_what_a_policy_lacks_is_named(task, method, message):
    with pytest.raises(InputError, match=message):
        sim.Spec(make("tasks", task), sim.schedules.fixed(0), method, sim.chain())


def test_entropy_bonus_is_its_gradient():
    trial = case()
    theta = trial.new.clone().requires_grad_()
    rows = torch.log_softmax(theta.reshape(*theta.shape[:1], -1, 3), -1)
    R = theta.shape[0]
    entropy = -(rows.exp() * rows).sum(-1)[torch.arange(R).reshape(-1, 1, 1, 1), trial.batch.state]
    (expected,) = torch.autograd.grad((entropy * trial.batch.mask).sum(-1).mean((1, 2)).sum(), theta)
    plain, with_bonus = (trial.gradient(sim.methods.reinforce(entropy=e)) for e in (0.0, 0.3))
    assert (with_bonus - plain - 0.3 * expected).abs().max() < 1e-12


# Aggregators.


@pytest.mark.parametrize(
    ("name", "denominator"),
    [
        ("sequence_sum", lambda lengths, T: np.full(lengths.shape, lengths.size)),
        ("sequence_mean", lambda lengths, T: lengths.size * lengths),
        ("token_mean", lambda lengths, T: np.full(lengths.shape, lengths.sum())),
        ("constant", lambda lengths, T: np.full(lengths.shape, lengths.size * T)),
    ],
)
@given(seed=st.integers(0, 10**6), groups=st.integers(1, 3), samples=st.integers(1, 4), tokens=st.integers(1, 5))
def test_denominators(name, denominator, seed, groups, samples, tokens):
    batch = case(seed, R=1, G=groups, N=samples, T=tokens).batch
    lengths = batch.mask[0].sum(-1).numpy()
    share = AGGREGATORS[name](batch)[0, ..., 0].numpy()
    np.testing.assert_allclose(share, 1.0 / denominator(lengths, tokens), rtol=1e-13)


def test_every_aggregator_has_its_denominator():
    assert set(AGGREGATORS) == {"sequence_sum", "sequence_mean", "token_mean", "constant"}


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_a_closed_clip_leaves_the_denominator_alone(aggregator):
    """Tokens that the clip stops are counted as before: other tokens keep their gradient to the bit."""
    trial = case(drift=0.4, T=4, ragged=False)
    method = sim.methods.ppo_clip(0.05, 0.05, advantage=sim.advantages.offset(0.5), aggregator=aggregator)
    signal, _ = trial.evaluate(method)
    free, _ = trial.evaluate(method.replace(weight=sim.methods.full_is("token").weight))
    stopped = signal.cotangents["log_prob"] == 0.0
    assert 0.1 < stopped.double().mean() < 0.9
    assert torch.equal(signal.cotangents["log_prob"][~stopped], free.cotangents["log_prob"][~stopped])
