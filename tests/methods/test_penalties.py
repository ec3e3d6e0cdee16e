"""Mean gradients of KL penalties by enumeration, on a bandit and on a chain of two tokens; edges and bad input."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base.checks import InputError
from tests.contracts.laboratory import case, step_with
from tests.methods.enumerated import Chain

BETA = 0.7
SAMPLED = ("k1", "k2", "k3", "straight_through", "reward")
seeds = given(seed=st.integers(0, 10**6), tokens=st.sampled_from([1, 2]), drift=st.sampled_from([0.0, 0.5, 1.5]))


def mean(chain, name, **settings):
    """Mean ascent direction of the penalty alone, per unit of its coefficient."""
    penalty = getattr(sim.penalties, name)(BETA, **settings)
    method = sim.methods.reinforce(sim.advantages.none()).replace(penalties=(penalty,))
    return chain.mean(method) / BETA


def per_state(chain, divergence, by="new"):
    """Descent on a divergence of rows, summed over tokens, states visited as the policy `by` does and held fixed."""
    chance = chain.chance(getattr(chain, by))
    return -chain.slope(lambda table: (chance.unsqueeze(-1) * divergence(chain.rows(table))).sum())


def forward(other):
    return lambda rows: (rows.exp() * (rows - other)).sum(-1)


def backward(other):
    return lambda rows: (other.exp() * (other - rows)).sum(-1)


def whole(chain, other):
    """Descent on the divergence of whole sequences."""

    def divergence(table):
        found = chain.taken(table).sum(-1)
        return (found.exp() * (found - chain.taken(other).sum(-1))).sum()

    return -chain.slope(divergence)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@seeds
def test_k1_has_no_expected_gradient(seed, tokens, drift):
    """Its value has one; whoever differentiates it regularizes nothing."""
    chain = Chain(seed, T=tokens, drift=drift)
    close(mean(chain, "k1", ratio="sequence"), torch.zeros_like(chain.new))
    assert mean(chain, "k2", ratio="sequence").abs().max() > 1e-3


@seeds
def test_which_divergence_descends(seed, tokens, drift):
    """With the ratio of the sequence, states are visited as pi does, under any data."""
    chain = Chain(seed, T=tokens, drift=drift)
    reference = chain.rows(chain.reference)
    for name in ("k2", "straight_through", "exact"):
        close(mean(chain, name, ratio="sequence"), per_state(chain, forward(reference)))
    close(mean(chain, "k3", ratio="sequence"), per_state(chain, backward(reference)))
    close(mean(chain, "exact", ratio="sequence", reverse=True), per_state(chain, backward(reference)))
    sequence = whole(chain, chain.reference)
    close(mean(chain, "reward", ratio="sequence"), sequence)
    close(mean(chain, "k2", ratio="sequence", level="sequence"), sequence)
    if tokens == 1:
        close(sequence, per_state(chain, forward(reference)))


def test_the_directions_differ():
    """What the test above tells apart: KL(pi || ref), KL(ref || pi), and the KL divergence of sequences."""
    chain = Chain(0)
    reference = chain.rows(chain.reference)
    one, two, three = (
        per_state(chain, forward(reference)),
        per_state(chain, backward(reference)),
        whole(chain, chain.reference),
    )
    assert min((one - two).abs().max(), (one - three).abs().max(), (two - three).abs().max()) > 0.01


@pytest.mark.parametrize("name", ["k2", "k3", "straight_through"])
def test_without_a_ratio_old_data_gives_another_gradient(name):
    chain = Chain(1, drift=1.0)
    assert (mean(chain, name) - mean(chain, name, ratio="sequence")).abs().max() > 0.01
    fresh = Chain(1, drift=0.0)
    close(mean(fresh, name), mean(fresh, name, ratio="sequence"))


@pytest.mark.parametrize("name", [*SAMPLED, "exact"])
def test_a_policy_at_its_anchor_is_left_alone(name):
    """To behavior, before anything moved: only k1 pushes, and in no direction on average."""
    chain = Chain(2, drift=0.0)
    for to in ("behavior", "proximal"):
        assert mean(chain, name, to=to).abs().max() < 1e-15


def test_to_behavior_and_to_the_proximal_policy():
    """The behavior policy is the one that generated; the proximal one is pi itself at the first update."""
    chain = Chain(3)
    close(mean(chain, "k2", to="behavior", ratio="token"), per_state(chain, forward(chain.rows(chain.old)), by="old"))
    close(mean(chain, "exact", to="behavior"), per_state(chain, forward(chain.rows(chain.old)), by="old"))
    assert mean(chain, "k2", to="proximal").abs().max() == 0.0
    assert mean(chain, "exact", to="behavior").abs().max() > 0.01


@given(gap=st.floats(-12.0, 12.0))
def test_values_and_slopes_by_hand(gap):
    seen = step_with(torch.full((1, 1, 1, 1), gap, dtype=torch.float64))
    expected = {
        "k1": (gap, 1.0),
        "k2": (0.5 * gap**2, gap),
        "k3": (math.expm1(-gap) + gap, -math.expm1(-gap)),
        "straight_through": (math.expm1(-gap) + gap, gap),
        "reward": (gap, gap),
    }
    for name, (value, slope) in expected.items():
        weight = getattr(sim.penalties, name)(2.0, to="behavior").score_weight(seen)
        assert weight.item() == pytest.approx(-2.0 * slope, rel=1e-12, abs=1e-12)
        assert seen.statistics[f"{name}_penalty"].item() == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_three_tokens_by_hand():
    gap = torch.tensor([0.5, -1.0, 2.0, 9.0]).double().reshape(1, 1, 1, 4)
    seen = step_with(gap, mask=torch.tensor([1.0, 1.0, 1.0, 0.0]).reshape(1, 1, 1, 4))

    def weights(penalty):
        return penalty.score_weight(seen).flatten()[:3].tolist()

    assert weights(sim.penalties.reward(1.0, to="behavior")) == [-1.5, -1.0, -2.0]
    assert weights(sim.penalties.k2(1.0, to="behavior", level="sequence")) == [-1.5] * 3
    assert seen.statistics["k2_penalty"].item() == pytest.approx(0.5 * 1.5**2 / 3)
    ratio = np.exp([0.5, -1.0, 2.0])
    found = weights(sim.penalties.k2(1.0, to="behavior", ratio="token"))
    np.testing.assert_allclose(found, -ratio * np.array([0.5, -1.0, 2.0]))
    assert seen.statistics["k2_penalty"].item() == pytest.approx((ratio * np.array([0.125, 0.5, 2.0])).mean())


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("gap", [15.0, 1000.0, math.inf])
def test_what_is_far_away_is_not_let_go(name, gap):
    """A clamped value would have slope 0 there; of k3, whose slope ends at beta above, the side below is meant."""
    for sign in (1.0, -1.0):
        seen = step_with(torch.full((1, 1, 1, 1), sign * gap, dtype=torch.float64))
        weight = getattr(sim.penalties, name)(1.0, to="behavior").score_weight(seen).item()
        assert math.isfinite(weight) and abs(weight) > 0.99
        assert name == "k1" or weight * sign < 0


def test_impossible_actions_of_a_reference_push_hard_and_stay_finite():
    rows = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]], dtype=torch.float64).log()
    for other in (torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 0.5, 0.5])):
        seen = step_with(torch.zeros(1, 1, 2, 1, dtype=torch.float64))
        seen.current["log_probs"] = rows.reshape(1, 1, 2, 1, 3)
        seen.current["reference_log_probs"] = other.double().log().expand(1, 1, 2, 1, 3)
        for reverse in (False, True):
            found = sim.penalties.exact(1.0, reverse=reverse).spread(seen)
            assert torch.isfinite(found).all()
            pulled = found - rows.exp().reshape(found.shape) * found.sum(-1, keepdim=True)
            assert pulled[..., other == 0].min() < -0.1, "what the reference never does is made rarer"
            assert pulled.sum(-1).abs().max() < 1e-12


def test_penalties_add_up_and_factors_do_not_touch_them():
    trial = case(0, drift=0.5)
    plain = sim.methods.reinforce()
    parts = [sim.penalties.k2(0.2), sim.penalties.exact(0.3, to="behavior"), sim.penalties.reward(0.1)]
    alone = [trial.gradient(plain.replace(penalties=(part,))) - trial.gradient(plain) for part in parts]
    together = trial.gradient(plain.replace(penalties=tuple(parts))) - trial.gradient(plain)
    assert (together - sum(alone)).abs().max() < 1e-12 and min(a.abs().max() for a in alone) > 1e-3


def test_the_trace_has_the_divergence():
    task, system, method = (
        sim.tasks.token_bandit(actions=3, horizon=2),
        sim.schedules.fixed(1),
        sim.methods.reinforce().replace(penalties=(sim.penalties.straight_through(0.1),)),
    )
    spec = sim.Spec(task, system, method, sim.chain(sim.updates.sgd(2.0)), samples_per_group=8, updates=20)
    found = sim.run(spec)["straight_through_penalty"]
    assert found[0].max() == 0.0 and (found[-1] > 1e-3).all(), "the reference is the uniform policy of the start"


@pytest.mark.parametrize(("at", "log_prob"), [("behavior", -1.0), ("current", -2.0)])
def test_a_priced_reward_reads_the_log_probs_that_it_names(at, log_prob):
    """Two tokens, each 0.5 times its log-prob less that of the uniform reference, -log 3."""
    task = sim.tasks.token_bandit(actions=3, horizon=2, kl_coef=0.5, kl_at=at)
    batch = case(G=1, N=2, T=2, ragged=False).batch
    behavior, current = ({"log_prob": torch.full_like(batch.mask, x)} for x in (-1.0, -2.0))
    batch = dataclasses.replace(batch, state=torch.zeros_like(batch.state), behavior=behavior)
    close(batch.reward - task.reward(batch, current), torch.full_like(batch.reward, log_prob + math.log(3.0)))


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="ratio = 'token': must be one of none, sequence; weigh the divergence"):
        sim.penalties.k2(0.1, ratio="token", level="sequence")
    with pytest.raises(InputError, match="it reads reference"):
        sim.Spec(
            sim.tasks.gaussian_bandit(),
            sim.schedules.fixed(0),
            sim.methods.reinforce().replace(penalties=(sim.penalties.k2(),)),
            sim.chain(),
        )
