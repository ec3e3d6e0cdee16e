"""Thresholds from the data of a step: scopes, masses, statistics that fail closed; P3O and SAT by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.methods import _given
from tests.contracts.families import adaptive
from tests.contracts.families._paper import opened, ours
from tests.contracts.laboratory import case, step_with
from tests.methods.steps import EVERY, cut, single, tensors
from tests.refusals import refused

M = sim.methods
each = pytest.mark.parametrize("name", EVERY)


@pytest.mark.parametrize("label", adaptive.LOOSE)
def test_every_threshold_of_the_printed_losses_binds(label):
    """Otherwise the comparison with autograd would not see it."""
    bound, loose, apart = adaptive.PAPERS[label][0](), adaptive.LOOSE[label](), 0
    for seed in range(8):
        trial = case(seed, N=5, T=4, G=3, drift=0.5)
        opening = opened(trial, bound)
        apart += bool((ours(trial, bound, opening) - ours(trial, loose, opening)).abs().max() > 1e-3)
    assert apart >= 3


# Scope.


@each
@given(seed=st.integers(0, 10**6), parts=st.integers(1, 7))
def test_a_micro_batch_is_a_step_of_its_own(name, seed, parts):
    """Samples in order, the first parts larger: weights are those of the parts seen alone."""
    given = tensors(seed)
    found = EVERY[name](scope="micro_batch", micro_batches=parts).weigh(**given)
    alone, lowest = [], []
    for rows in np.array_split(np.arange(7), parts):
        part = EVERY[name]().weigh(**cut(given, rows))
        alone.append(part.score_weight)
        lowest.append(part.statistics)
    torch.testing.assert_close(found.score_weight, torch.cat(alone, 2), rtol=1e-12, atol=1e-14)
    for key, value in found.statistics.items():
        of_parts = torch.stack([s[key] for s in lowest])
        if key.endswith("_theta"):
            torch.testing.assert_close(value, of_parts.amin(0), rtol=1e-12, atol=1e-14)
        elif key in ("bapo_low", "bapo_high", "p3o_ess", "sat_gate"):
            torch.testing.assert_close(value, of_parts.mean(0), rtol=1e-12, atol=1e-14)


@each
def test_micro_batches_see_the_order(name):
    """The same samples, cut otherwise: another gradient. The step's own version has none of this."""
    changed, tight = 0, {"low": 0.9, "high": 2.0, "quantile": 0.5} if name == "sat" else {}
    for seed in range(30):
        given, order = tensors(seed, drift=0.3), torch.tensor([6, 0, 5, 1, 4, 2, 3])
        method = EVERY[name](scope="micro_batch", micro_batches=3, **tight)
        straight, moved = (method.weigh(**x).score_weight for x in (given, cut(given, order)))
        changed += not torch.allclose(straight[:, :, order], moved, rtol=1e-9, atol=1e-9)
    assert changed >= 5


@each
def test_scopes_that_contradict_are_refused(name):
    refused("micro_batches = 2: must be 1 with scope='step'", lambda: EVERY[name](micro_batches=2))
    refused("scope = 'rank': must be one of step, micro_batch", lambda: EVERY[name](scope="rank"))
    method = EVERY[name](scope="micro_batch", micro_batches=8)
    refused("micro_batches = 8: must be at most the samples of a step, 7", lambda: method.weigh(**tensors(0)))
    with pytest.raises(InputError, match="micro_batches = 2: must be 1 for a population"):
        task = sim.tasks.softmax_bandit(arms=3, means=[0.0, 0.5, 1.0])
        sim.oracle.limit(task, EVERY[name](scope="micro_batch", micro_batches=2), [0.0, 0.0, 0.0])


NONE = {
    **dict.fromkeys(
        ("m2po_dropped", "sat_gate", *(f"{name}_nonfinite" for name in ("m2po", "bapo", "p3o", "sat"))), 0.0
    ),
    "m2po_theta": math.inf,
    "bapo_low": 0.6,
    "bapo_high": 1.2,
    "bapo_share": 0.5,
    "p3o_ess": 1.0,
}


@each
def test_unchanged_policies_set_no_threshold(name):
    """Balanced advantages at ratio 1: the search of BAPO ends where it starts, rounding or not."""
    for count in range(2, 40):
        advantage = torch.from_numpy(np.random.default_rng(count).normal(size=count))
        log_prob = torch.full((count, 1), -1.0).double()
        found = EVERY[name]().weigh(log_prob, log_prob, log_prob, advantages=advantage - advantage.mean())
        for key, value in found.statistics.items():
            assert value.item() == pytest.approx(NONE[key], abs=1e-12), key


@each
def test_a_log_ratio_that_is_no_number_closes_its_replicate(name, monkeypatch):
    # In a run there is nobody to refuse it.
    monkeypatch.setattr(_given, "_refuse", lambda *_: None)
    given = tensors(2, R=2)
    clean = EVERY[name]().weigh(**given)
    broken = {**given, "behavior_log_prob": given["behavior_log_prob"].clone()}
    broken["behavior_log_prob"][0, 0, 0, 0] = math.nan
    given["advantages"][0, 0, 0] = 1.0
    found = EVERY[name]().weigh(**broken)
    assert (found.score_weight[0] == 0).all() and torch.equal(found.score_weight[1], clean.score_weight[1])
    (counted,) = (value for key, value in found.statistics.items() if key.endswith("_nonfinite"))
    assert counted.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("name", ["bapo_paper", "bapo_code", "p3o"])
def test_an_infinite_ratio_closes_what_sums_it(name):
    """No sum is finite: nothing moves, where the release of P3O goes on as if nothing had happened."""
    given = tensors(2)
    given["advantages"][..., 0] = -1.0
    given["behavior_log_prob"][0, 0, 0, 0] = -math.inf
    found = EVERY[name]().weigh(**given)
    assert (found.score_weight == 0).all()
    assert found.statistics[f"{name.partition('_')[0]}_nonfinite"].item() == 1.0


@pytest.mark.parametrize("name", ["m2po_mask", "m2po_waterfill", "m2po_areal", "sat"])
def test_an_infinite_ratio_is_the_largest_of_all(name):
    """It is dropped, or closed, first; the others are decided as if it were only large."""
    given, large = tensors(2), tensors(2)
    for at, x in ((-math.inf, given), (-500.0, large)):
        x["advantages"][..., 0] = 1.0
        x["mask"][0, 0, 0] = 1.0
        x["behavior_log_prob"][0, 0, 0, 0] = at
        x["proximal_log_prob"][0, 0, 0, 0] = -1.0
    found = EVERY[name]().weigh(**given)
    assert found.score_weight[0, 0, 0, 0] == 0 and (found.score_weight != 0).any()
    assert torch.equal(found.score_weight, EVERY[name]().weigh(**large).score_weight)


# P3O.


def test_p3o_by_hand():
    """r = 3, 1: E = 16/20 = .8 caps both; the term pulls r log r back, and the ordinary token not at all."""
    weight, found = single(M.p3o(), np.log([3.0, 1.0]), [1.0, -1.0])
    assert found["p3o_ess"] == pytest.approx(0.8)
    np.testing.assert_allclose(weight, [0.8 - 0.2 * 3 * math.log(3), -0.8], rtol=1e-13)
    weight, _ = single(M.p3o("code"), np.log([3.0, 1.0]), [1.0, -1.0])
    np.testing.assert_allclose(weight, [0.8 - 0.2 * (1 - 1 / 3), -0.8], rtol=1e-13)


@pytest.mark.parametrize("kl", ["ratio", "code"])
def test_what_the_pull_back_descends(kl):
    """Without rewards only the term is left: on the population, KL(pi||mu), or E_mu[mu/pi] - KL(mu||pi) as coded."""
    task = sim.tasks.softmax_bandit(arms=4, means=[0.5] * 4, rewards="fixed")
    now, then = np.array([0.4, -0.3, 0.1, 0.6]), np.array([0.0, 0.5, -0.2, 0.3])
    theta = torch.from_numpy(now).requires_grad_()
    log_pi, log_mu = torch.log_softmax(theta, 0), torch.log_softmax(torch.from_numpy(then), 0)
    pi, mu = log_pi.exp(), log_mu.exp()
    if kl == "ratio":
        value = (pi * (log_pi - log_mu)).sum()
    else:
        value = (mu * mu / pi).sum() - (mu * (log_mu - log_pi)).sum()
    (slope,) = torch.autograd.grad(value, theta)
    ess = 1 / (pi * pi / mu).sum().item()
    found = sim.oracle.limit(task, M.p3o(kl), now, behavior=then)
    np.testing.assert_allclose(found, -(1 - ess) * slope.numpy(), rtol=1e-11, atol=1e-13)


# SAT.


def surrogate(ratio, advantage, low, high):
    return torch.min(ratio * advantage, torch.maximum(torch.minimum(ratio, high), low) * advantage)


@pytest.mark.parametrize("kernel", ["continuous", "hill"])
@given(
    seed=st.integers(0, 10**6), spread=st.sampled_from([0.0, 0.05, 0.2, 1.0]), quantile=st.sampled_from([0.1, 0.9, 1.0])
)
def test_the_band_lies_inside_that_of_ppo(kernel, seed, spread, quantile):
    """Weights are PPO's or 0; what is on its way back is untouched; the surrogate is never above PPO's."""
    random = np.random.default_rng(seed)
    log_ratio = torch.from_numpy(spread * random.standard_normal((1, 1, 11, 2)))
    advantage = torch.from_numpy(random.standard_normal((1, 1, 11, 1))).expand(log_ratio.shape)
    method = M.sat(quantile=quantile, kernel=kernel)
    seen = step_with(log_ratio)
    ours_, theirs = method.weight.score_weight(seen, advantage), M.ppo_clip().weight.score_weight(seen, advantage)
    back = log_ratio * advantage <= 0
    assert torch.equal(ours_[back], theirs[back])
    assert ((ours_ == 0) | (ours_ == theirs)).all()
    gate = seen.statistics["sat_gate"].reshape(1, 1, 1, 1)
    share = method.weight._kernel(log_ratio, gate)
    assert (share > 0).all() and (share <= 1).all() and (share[log_ratio.abs() <= gate] == 1).all()
    ratio, one = log_ratio.exp(), torch.ones_like(share)
    below = surrogate(ratio, advantage, one - 0.2 * share, one + 0.2 * share)
    assert (below <= surrogate(ratio, advantage, 0.8 * one, 1.2 * one) + 1e-15).all()
    if quantile == 1.0:
        assert torch.equal(ours_, theirs)


def test_the_gate_by_hand():
    """Ten tokens, nine at .1: q = .1, the tenth at .3 keeps 1/5 of its bound (hill: 1/10), its other bound is whole."""
    for kernel, share in (("continuous", 0.2), ("hill", 0.1)):
        weight = M.sat(kernel=kernel).weight
        gate = torch.tensor(0.1, dtype=torch.float64).reshape(1, 1, 1, 1)
        found = weight._kernel(torch.tensor([0.1, -0.1, 0.3, -0.3], dtype=torch.float64).reshape(1, 1, 4, 1), gate)
        np.testing.assert_allclose(found.flatten(), [1.0, 1.0, share, share], rtol=1e-13)
    # x = 2.96 q: the continuous kernel leaves .2 H = .041 of the band, which 1.03 is inside, the other .021.
    size = [0.01] * 9 + [math.log(1.03)]
    weight, found = single(M.sat(), size, [1.0] * 10)
    assert found["sat_gate"] == 0.01 and weight[9].item() == pytest.approx(1.03)
    assert single(M.sat(kernel="hill"), size, [1.0] * 10)[0][9] == 0
    back, _ = single(M.sat(kernel="hill"), size, [1.0] * 9 + [-1.0])
    assert back[9].item() == pytest.approx(-1.03)


def test_without_a_spread_there_is_no_gate():
    """q = 0: most tokens have not moved, and the others meet PPO's own band."""
    log_ratio, advantage = [0.0] * 19 + [0.15], [1.0] * 20
    weight, found = single(M.sat(), log_ratio, advantage)
    assert found["sat_gate"] == 0.0 and weight[19] == pytest.approx(math.exp(0.15))
    assert single(M.sat(high=9.0), [0.0] * 19 + [2.0], advantage)[0][19].item() == pytest.approx(math.exp(2.0))
    weight, found = single(M.sat(), [0.01] * 19 + [0.15], advantage)
    assert found["sat_gate"] == 0.01 and weight[19] == 0.0


# Bad input.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: M.bapo_paper(low=0.8, low_cap=0.7),
            "low_cap = 0.7: must be at least low = 0.8; bounds are only raised",
        ),
        (lambda: M.bapo_code(high=1.5, high_cap=1.2), "high_cap = 1.2: must be at least high = 1.5"),
        (lambda: M.bapo_code(high=[1.1, 1.5], high_cap=1.2), "high_cap = 1.2: must be at least high"),
    ],
)
def test_bounds_that_cross_are_named(make, message):
    refused(message, make)
