"""Score weights against autograd of the losses as the papers print them, and the denominators of aggregators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.checks import InputError
from asyncsim.methods._method import AGGREGATORS
from tests.contracts.laboratory import case, defined, make, names, trial_of


class Paper:
    """Differentiable quantities of a case, with a live log-probability."""

    def __init__(self, trial, anchor=None):
        self.batch = trial.batch
        R, G, N, T = trial.batch.action.shape
        self.theta = trial.new.clone().requires_grad_()
        S, A = trial.policy.rows, trial.policy.actions
        self.log_pi = torch.log_softmax(self.theta.reshape(R, 1, 1, 1, S, A), -1)
        state = trial.batch.state.reshape(R, G, N, T, 1, 1).expand(-1, -1, -1, -1, 1, A)
        self.rows = self.log_pi.expand(R, G, N, T, S, A).gather(4, state).squeeze(4)
        self.live = self.rows.gather(-1, trial.batch.action.unsqueeze(-1)).squeeze(-1)
        self.mask = trial.batch.mask
        self.logged = trial.batch.behavior["log_prob"] if anchor is None else anchor
        # Masked inputs of exp, as well as outputs: see the bug of multiplicative masks.
        self.ratio = torch.where(self.mask > 0, self.live - self.logged, 0.0).exp()
        self.sequence = torch.where(self.mask > 0, self.live - self.logged, 0.0).sum(-1).exp()

    def rewards(self):
        return self.batch.reward

    def centered(self):
        return (self.batch.reward - self.batch.reward.mean(-1, keepdim=True)).unsqueeze(-1)

    def left_out(self):
        N = self.batch.reward.shape[-1]
        return self.centered() * N / (N - 1)

    def actor(self):
        """Discounted rest of the return minus what the critic said, for rewards at the end: 0.99 per token."""
        rest = self.mask.flip(-1).cumsum(-1).flip(-1) - 1.0
        return 0.99**rest * self.batch.reward.unsqueeze(-1) - self.batch.behavior["value"]

    def standardized(self):
        return self.centered() / (self.batch.reward.std(-1, unbiased=False, keepdim=True).unsqueeze(-1) + 1e-6)

    def clipped(self, advantage, low, high):
        return torch.min(self.ratio * advantage, self.ratio.clamp(1 - low, 1 + high) * advantage)

    def token_mean(self, objective):
        return (objective * self.mask).sum((1, 2, 3)) / self.mask.sum((1, 2, 3))

    def sequence_mean(self, objective):
        return ((objective * self.mask).sum(-1) / self.mask.sum(-1)).mean((1, 2))

    def sequence_sum(self, objective):
        return (objective * self.mask).sum(-1).mean((1, 2))

    def gradient(self, objective):
        (found,) = torch.autograd.grad(objective.sum(), self.theta)
        return found


PAPERS = {
    "reinforce": lambda p: p.sequence_sum(p.left_out() * p.live),
    "full_is": lambda p: (p.sequence * p.left_out()[..., 0]).mean((1, 2)),
    "full_is token": lambda p: p.sequence_sum(p.ratio * p.left_out()),
    "truncated_is": lambda p: p.sequence_mean(p.sequence.detach().clamp(max=1.2).unsqueeze(-1) * p.centered() * p.live),
    "truncated_is token": lambda p: p.token_mean(p.ratio.detach().clamp(max=1.2) * p.centered() * p.live),
    "ppo_clip": lambda p: p.token_mean(p.clipped(p.centered(), 0.2, 0.1)),
    "grpo": lambda p: p.sequence_mean(p.clipped(p.standardized(), 0.2, 0.2)),
    "a2c": lambda p: p.token_mean(p.actor() * p.live),
}
"""Objectives with live ratios and clips, or detached weights, as printed."""

OURS = {
    "reinforce": lambda: sim.methods.reinforce(),
    "full_is": lambda: sim.methods.full_is(),
    "full_is token": lambda: sim.methods.full_is("token"),
    "truncated_is": lambda: sim.methods.truncated_is(cap=1.2),
    "truncated_is token": lambda: sim.methods.truncated_is("token", cap=1.2),
    "ppo_clip": lambda: sim.methods.ppo_clip(0.2, 0.1),
    "grpo": lambda: sim.methods.grpo(),
    "a2c": lambda: sim.methods.a2c(critic=0.0),
}


def test_every_scored_method_has_its_paper():
    assert {name.partition(" ")[0] for name in PAPERS} == set(names("methods")) - {"gradient"}
    assert PAPERS.keys() == OURS.keys()
    # A table has no critic; the loss of one is differentiated there.
    assert defined("tests/core/test_actor_critic.py", "test_gradient_is_autograds_of_the_loss")


@pytest.mark.parametrize("name", PAPERS)
@given(
    seed=st.integers(0, 10**6),
    samples=st.sampled_from([2, 3, 5]),
    tokens=st.sampled_from([1, 2, 4]),
    groups=st.integers(1, 3),
    drift=st.sampled_from([0.0, 0.1, 0.5, 2.0]),
)
def test_gradient_is_that_of_the_printed_loss(name, seed, samples, tokens, groups, drift):
    trial = case(seed, N=samples, T=tokens, G=groups, drift=drift)
    values = np.random.default_rng(seed).standard_normal(trial.batch.mask.shape)
    trial.batch.behavior["value"] = torch.from_numpy(values)
    paper = Paper(trial)
    # On a kink (ratio exactly at a bound) autograd takes one side; a drift of 0 stays inside the bounds.
    expected = paper.gradient(PAPERS[name](paper))
    assert (trial.gradient(OURS[name]()) - expected).abs().max() < 1e-12


@pytest.mark.parametrize("name", ["ppo_clip", "grpo"])
def test_proximal_anchor_is_the_start_of_the_batch(name):
    """The proximal ratio refers to the given snapshot, and is 1 where the snapshot is the current policy."""
    from asyncsim.methods._signal import evaluate
    from tests.contracts.laboratory import NOTHING

    trial, method = case(drift=0.6), OURS[name]().replace(anchor="proximal")
    weights = trial.policy.prepare(trial.new)
    middle = trial.policy.prepare(0.5 * (trial.new + trial.old))
    opening = evaluate(method, NOTHING, trial.policy, middle, trial.batch)[0]
    signal, found = evaluate(method, NOTHING, trial.policy, weights, trial.batch, opening)
    paper = Paper(trial, opening.outputs["log_prob"])
    assert (found - paper.gradient(PAPERS[name](paper))).abs().max() < 1e-12
    first, _ = evaluate(method, NOTHING, trial.policy, weights, trial.batch)
    assert (first.applied == 1.0).all()
    assert (signal.applied != 1.0).any() and (trial.evaluate(OURS[name]())[0].applied != 1.0).any()


def test_clips_and_caps_do_bind_in_these_cases():
    trial = case(0, N=5, T=4, G=3, drift=0.5)
    for method, loose in (
        (OURS["ppo_clip"](), sim.methods.ppo_clip(1.0, 1e9)),
        (OURS["truncated_is"](), sim.methods.truncated_is(cap=1e6)),
    ):
        assert (trial.gradient(method) - trial.gradient(loose)).abs().max() > 1e-3


def test_tokens_above_a_cap_keep_their_gradient():
    """A truncated ratio that is left differentiable drops them: weight 0 instead of the cap."""
    method = sim.methods.truncated_is("token", cap=2.0)
    weight = method.weight.score_weight(
        method.weight.ratio(torch.full((1, 1, 1, 1), 3.0)), torch.full((1, 1, 1, 1), -1.5)
    )
    assert weight.item() == -3.0


def test_clip_keeps_the_way_back_open():
    """Outside the band only the outward move is stopped."""
    weight = sim.methods.ppo_clip(0.2, 0.2).weight
    ratio = torch.tensor([0.5, 1.0, 2.0]).reshape(1, 1, 3, 1).double()
    up, down = (
        weight.score_weight(ratio, torch.full((1, 1, 3, 1), a, dtype=torch.float64)).flatten().tolist()
        for a in (1.0, -1.0)
    )
    assert up == [0.5, 1.0, 0.0] and down == [0.0, -1.0, -2.0]


@pytest.mark.parametrize("name", names("methods"))
def test_unchanged_policy_gives_the_plain_gradient(name):
    """With behavior = current every weight is 1: the methods differ in advantage and aggregator alone."""
    method = make("methods", name)
    if not method.scored:
        return
    trial = trial_of(method, drift=0.0)
    plain = sim.methods.reinforce(method.advantage, method.aggregator, critic=method.critic)
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
    paper = Paper(trial)
    entropy = -(paper.rows.exp() * paper.rows).sum(-1)
    expected = paper.gradient(paper.sequence_sum(paper.left_out() * paper.live + 0.3 * entropy))
    assert (trial.gradient(sim.methods.reinforce(entropy=0.3)) - expected).abs().max() < 1e-12


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
