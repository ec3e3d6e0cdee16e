"""Regressions and methods without ratios: where every weight vanishes, which optimum they have, what they leave out."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim import claims
from asyncsim.methods import _given
from tests.contracts.laboratory import case, step_with

M = sim.methods
MEANS = [0.2, 1.0, 0.5, 0.0]


def bandit(means=MEANS):
    return sim.tasks.softmax_bandit(arms=len(means), means=means, rewards="fixed")


def logits(seed, arms=4):
    return np.random.default_rng(seed).normal(size=arms)


def softmax(theta):
    heavy = np.exp(theta - theta.max())
    return heavy / heavy.sum()


def weights(method, now, then, policy=None):
    """c of every arm `[A]` on the population of `then`."""
    signal = sim.oracle.population_step(bandit(), method, now, behavior=then, policy=policy)
    share = signal.cotangents["log_prob"].flatten()
    return (share / signal.batch.mass.flatten()).numpy()


# The optimum.


@given(seed=st.integers(0, 10**6), beta=st.sampled_from([0.1, 0.5, 2.0]))
def test_oapl_has_nothing_left_at_its_optimum(seed, beta):
    """pi = mu exp(r/beta)/Z with the exact V*: every weight is 0, not only their mean. Elsewhere they are not."""
    then = logits(seed)
    best = then + np.array(MEANS) / beta
    assert np.abs(weights(M.oapl(beta), best, then)).max() < 1e-12
    assert np.abs(weights(M.oapl(beta), best + 0.1 * np.eye(4)[0], then)).max() > 1e-3
    # The regression on V* itself: c = 2 beta (r - V* - beta L).
    value = beta * math.log(softmax(then) @ np.exp(np.array(MEANS) / beta))
    now = logits(seed + 1)
    gap = np.log(softmax(now)) - np.log(softmax(then))
    expected = 2 * beta * (np.array(MEANS) - value - beta * gap)
    np.testing.assert_allclose(weights(M.oapl(beta), now, then), expected, rtol=1e-10, atol=1e-12)


def test_a_group_has_its_own_soft_value():
    """From three samples V* is another number: at the optimum single weights are left."""
    then, best = torch.full((3, 1), -1.0).double(), torch.tensor([[-1.0], [-0.9], [-1.1]]).double()
    found = M.oapl(0.5).weigh(best, then, rewards=torch.tensor([0.0, 0.05, -0.05]).double())
    assert 1e-6 < found.score_weight.abs().max() < 1e-2


@given(seed=st.integers(0, 10**6), beta=st.sampled_from([0.05, 0.5, 2.0]))
def test_the_optimum_of_trajectory_balance_knows_no_behavior(seed, beta):
    """pi = pi_ref exp(r/beta)/Z: every weight is 0 whoever drew the samples."""
    reference, policy = logits(seed + 7), None
    policy = sim.policies.tabular(rows=1, actions=4, reference=reference[None])
    best = reference + np.array(MEANS) / beta
    for drawn in range(3):
        then = logits(seed + drawn)
        assert np.abs(weights(M.tba(beta), best, then, policy)).max() < 1e-10 / beta
        assert np.abs(weights(M.tba(beta), best + 0.3 * np.eye(4)[0], then, policy)).max() > 1e-2


def test_trajectory_balance_of_few_samples_vanishes_there_too():
    """Four samples of any sequence lengths: the normalizer is the group's own."""
    random = np.random.default_rng(0)
    reference = torch.from_numpy(-random.uniform(0.5, 2.0, (2, 4, 3)))
    rewards = torch.from_numpy(random.normal(size=(2, 4)))
    mask = torch.tensor([[1.0, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]]).double().expand(2, 4, 3)
    shift = (rewards / 0.3 - 9.0).unsqueeze(-1) * mask / mask.sum(-1, keepdim=True)
    found = M.tba(0.3).weigh(
        reference + shift, torch.zeros(2, 4, 3).double(), reference_log_prob=reference, rewards=rewards, mask=mask
    )
    assert found.score_weight.abs().max() < 1e-11


# AsymRE.


def test_asymre_rests_where_the_claim_says():
    """Inside the simplex the end of the flow is a point of no gradient."""
    then = np.array([0.5, 0.1, -0.3, 0.2])
    point = {"behavior_logits": tuple(then), "rewards": tuple(MEANS), "offset": float(softmax(then) @ MEANS) - 0.8}
    predicted = claims.claim("optimum/asymre-projection").predict(point)
    end = np.array([predicted[f"pi[{k}]"] for k in range(4)])
    assert end.min() > 0
    found = sim.oracle.limit(bandit(), M.asymre(-0.8), np.log(end), behavior=then)
    assert np.abs(found).max() < 1e-12
    assert np.abs(sim.oracle.limit(bandit(), M.asymre(-0.7), np.log(end), behavior=then)).max() > 1e-3


# Kimi and DRO.


def test_tokens_leave_out_the_cross_terms():
    """l = .3, .5 of one sequence: L^2/2 pulls each token with .8, squares of tokens with their own."""
    log_ratio, advantage = torch.tensor([0.3, 0.5]).double().reshape(1, 1, 1, 2), torch.ones(1, 1, 1, 1).double()

    def c(method):
        weight = method.weight.score_weight(step_with(log_ratio), advantage).expand(1, 1, 1, 2)
        return weight.flatten().tolist()

    assert c(M.kimi(0.1, anchor="behavior")) == pytest.approx([0.92, 0.92], abs=1e-7)
    assert c(M.kimi(0.1, half=False, anchor="behavior")) == pytest.approx([0.84, 0.84], abs=1e-7)
    assert c(M.dro(0.1)) == pytest.approx([0.97, 0.95], abs=1e-7)


def test_the_default_anchor_of_kimi_cannot_see_staleness():
    """Nothing has moved in the first update on a batch; in the second one tau matters."""

    def run(epochs, **settings):
        data, step = sim.schedules.fixed(2), sim.chain(sim.updates.sgd(2.0))
        spec = sim.Spec(bandit(), data, M.kimi(**settings), step, updates=6, epochs=epochs)
        return sim.run(spec, seed=0)

    for count, same in ((1, True), (2, False)):
        one, two = (run(count, tau=tau).parameters for tau in (0.1, 1.0))
        assert np.array_equal(one, two) is same
    one, two = (run(1, tau=tau, anchor="behavior").parameters for tau in (0.1, 1.0))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(
    ("make", "closed"),
    [
        (lambda: M.kimi(anchor="behavior"), [True, True, False, False]),
        (lambda: M.oapl(), [True, True, False, False]),
        (lambda: M.dro(), [True, False, False, False]),
    ],
)
def test_a_residual_that_is_no_number_is_left_out(make, closed, bad, monkeypatch):
    """Its sample (or token) has weight 0 and is counted; long ratios that are finite pull with all they have."""
    # In a run there is nobody to refuse it.
    monkeypatch.setattr(_given, "_refuse", lambda *_: None)
    behavior, now = torch.full((2, 2), -1.0).double(), torch.full((2, 2), -1.5).double()
    given = {"advantages": torch.tensor([0.5, -0.5]).double(), "categorical": False}
    clean = make().weigh(now, behavior, **given)
    broken = behavior.clone()
    broken[0, 0] = bad
    found = make().weigh(now, broken, **given)
    assert (found.score_weight.flatten() == 0).tolist() == closed
    assert torch.equal(found.score_weight[1], clean.score_weight[1])
    assert found.statistics["residual_nonfinite"].item() == 1.0 and clean.statistics["residual_nonfinite"].item() == 0.0
    broken[0, 0] = 499.5
    assert make().weigh(now, broken, **given).score_weight[0, 0] > 40.0


def test_an_infinite_gap_closes_its_group():
    """The group's normalizer has no value; other groups go on."""
    now = torch.full((2, 3, 1), -1.0).double()
    reference = now - 0.1
    reference[0, 1] = -math.inf
    given = {"rewards": torch.tensor([[1.0, 0.0, 0.5]] * 2).double(), "reference_log_prob": reference}
    found = M.tba(1.0).weigh(now, now, **given)
    assert (found.score_weight[0] == 0).all() and (found.score_weight[1] != 0).any()
    assert found.statistics["residual_nonfinite"].item() == 3.0


# The soft value.


def test_large_rewards_do_not_overflow():
    given = {"rewards": torch.tensor([1e6, -1e6, 0.0]).double()}
    log_prob = torch.full((3, 1), -1.0).double()
    found = M.reinforce(sim.advantages.soft_value(1e-3)).weigh(log_prob, log_prob, **given).advantage.flatten()
    np.testing.assert_allclose(found, [1e-3 * math.log(3), -2e6, -1e6], rtol=1e-8)


@pytest.mark.parametrize("name", ["opmd", "oapl", "tba"])
def test_on_policy_they_are_what_they_say(name):
    """A multiple of REINFORCE with their own advantage where pi = mu = pi_ref."""
    factor, method = {"opmd": (1 / 1.5, M.opmd(0.5)), "oapl": (0.6, M.oapl(0.3)), "tba": (2 / 0.3, M.tba(0.3))}[name]
    trial = case(drift=0.0, spread=0.0)
    plain = M.reinforce(method.advantage, method.aggregator)
    assert method.on_policy != "policy gradient"
    assert (trial.gradient(method) - factor * trial.gradient(plain)).abs().max() < 1e-13
    assert trial.gradient(plain).abs().max() > 1e-3
