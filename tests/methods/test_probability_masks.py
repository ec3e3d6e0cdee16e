"""Masks in probabilities by hand: which moves they stop, in which direction a divergence is taken, what pulls back."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base import knobs
from asyncsim.methods._weights import bernoulli_kl
from asyncsim.step.step import given as step_given
from tests.contracts.laboratory import case
from tests.methods.by_hand import moved

M = sim.methods


def test_dppo_masks_outward_moves_only():
    for method in (M.dppo_tv(), M.dppo_kl(), M.dppo_prime(kl=0.0)):
        assert moved(method, 0.9, 0.5, 1.0) == 0.0 and moved(method, 0.9, 0.5, -1.0) == pytest.approx(-1.8)
        assert moved(method, 0.5, 0.9, -1.0) == 0.0 and moved(method, 0.5, 0.9, 1.0) == pytest.approx(5.0 / 9.0)
    for method in (M.ipo_mask(kl=0.0), M.kpop(kl=0.0)):
        assert [moved(method, *pair, a) for pair in ((0.9, 0.5), (0.5, 0.9)) for a in (1.0, -1.0)] == [0.0] * 4
        assert moved(method, 0.55, 0.5, -1.0) == pytest.approx(-1.1)


def test_probabilities_are_not_ratios():
    """A ratio of 5 among rare tokens is nothing, one of 1.3 among likely ones is too much."""
    assert moved(M.dppo_tv(), 0.005, 0.001, 1.0) == pytest.approx(5.0)
    assert moved(M.dppo_tv(), 0.91, 0.70, 1.0) == 0.0
    assert moved(M.ppo_clip(), 0.005, 0.001, 1.0) == 0.0


def test_bounds_belong_to_the_sign_of_the_advantage():
    tv, kl = M.dppo_tv(0.1, 0.3), M.dppo_kl(0.01, 0.2)
    assert [moved(tv, 0.7, 0.5, 1.0), moved(tv, 0.3, 0.5, -1.0)] == pytest.approx([1.4, 0.0])
    # KL of a fair coin to one of 0.7 or 0.3 is 0.0872 nats.
    assert [moved(kl, 0.7, 0.5, 1.0), moved(kl, 0.3, 0.5, -1.0)] == pytest.approx([1.4, 0.0])


def test_only_stable_rl_caps_the_ratio():
    """The way back from 0.01 to 0.5 is open for A < 0, with a ratio of 50."""
    assert moved(M.dppo_tv(), 0.5, 0.01, -1.0) == pytest.approx(-10.0)
    assert moved(M.dppo_kl(), 0.5, 0.01, -1.0) == pytest.approx(-10.0)
    assert moved(M.dppo_tv(cap=None), 0.5, 0.01, -1.0) == pytest.approx(-50.0)
    assert moved(M.dppo_prime(kl=0.0), 0.5, 0.01, -1.0) == pytest.approx(-50.0)


@pytest.mark.parametrize("name", ["dppo_prime", "ipo_mask", "kpop"])
def test_masked_tokens_are_still_pulled_back(name):
    """-2 kl l: the gradient of kl l^2, without 1/2, on tokens that the mask has stopped as on others."""
    method = getattr(M, name)(kl=0.01)
    assert moved(method, 0.9, 0.5, 1.0) == pytest.approx(-0.02 * math.log(1.8))
    assert moved(method, 0.525, 0.5, 1.0) == pytest.approx(1.05 - 0.02 * math.log(1.05))
    assert moved(method, 0.9, 0.5, 0.0) == pytest.approx(-0.02 * math.log(1.8))


@pytest.mark.parametrize("name", ["dppo_prime", "ipo_mask", "kpop"])
def test_a_pull_per_replicate(name):
    trial = case(2, R=2, drift=0.5)
    both = trial.gradient(knobs.bind(getattr(M, name)(kl=np.array([0.0, 0.3])), np.arange(2)))
    alone = [trial.gradient(getattr(M, name)(kl=kl)) for kl in (0.0, 0.3)]
    assert (alone[0] - alone[1]).abs().max() > 1e-3
    assert torch.equal(both[0], alone[0][0]) and torch.equal(both[1], alone[1][1])


def test_binary_divergence():
    def kl(p, q):
        there, back = bernoulli_kl(*(torch.tensor(x).double().log() for x in (p, q)), 1e-6)
        swapped = bernoulli_kl(*(torch.tensor(x).double().log() for x in (q, p)), 1e-6)
        assert swapped[1].item() == pytest.approx(there.item(), abs=1e-12)
        assert swapped[0].item() == pytest.approx(back.item(), abs=1e-12)
        return there.item()

    assert kl(0.5, 0.9) == pytest.approx(0.5 * math.log(25.0 / 9.0)) and kl(0.3, 0.3) == 0.0
    assert kl(0.9, 0.5) == pytest.approx(0.9 * math.log(1.8) + 0.1 * math.log(0.2))
    # Certain and impossible tokens: finite, and as large as the edge allows.
    assert kl(1.0, 0.0) == pytest.approx(math.log(1e6), rel=1e-4) and kl(1.0, 1.0) == 0.0 == kl(0.0, 0.0)


@given(p=st.floats(0.0, 1.0), q=st.floats(0.0, 1.0))
def test_binary_divergence_is_one(p, q):
    there, back = (x.item() for x in bernoulli_kl(*(torch.tensor(x).double().log() for x in (p, q)), 1e-6))
    apart = abs(min(max(p, 1e-6), 1 - 1e-6) - min(max(q, 1e-6), 1 - 1e-6))
    # Pinsker's inequality, in nats.
    assert all(math.isfinite(x) and x >= 2.0 * apart**2 - 1e-12 for x in (there, back))


def test_kpop_asks_both_directions():
    """KL(0.02, 0.001) = 0.041 and KL(0.001, 0.02) = 0.016: the larger one decides, whichever policy is which."""
    between = M.kpop(0.03, kl=0.0)
    assert moved(between, 0.02, 0.001, 1.0) == moved(between, 0.001, 0.02, 1.0) == 0.0
    wide = M.kpop(0.045, kl=0.0)
    assert moved(wide, 0.02, 0.001, 1.0) == pytest.approx(20.0) and moved(wide, 0.001, 0.02, 1.0) == pytest.approx(0.05)


@pytest.mark.parametrize("name", ["dppo_tv", "dppo_kl", "dppo_prime", "ipo_mask", "kpop"])
@pytest.mark.parametrize("pair", [(0.0, -800.0), (-800.0, 0.0), (0.0, 0.0), (-800.0, -800.0), (0.0, -math.inf)])
def test_certain_and_impossible_tokens_are_finite(name, pair):
    now, then = (torch.full((1, 1), x).double() for x in pair)
    for advantage in (1.0, -1.0):
        found = getattr(M, name)().weigh(now, then, advantages=torch.tensor([advantage]).double())
        assert torch.isfinite(found.cotangent).all()


def test_dppo_takes_the_divergence_from_behavior():
    """KL(mu, pi): 0.016 nats from 0.001 up to 0.02, 0.041 back down; the other way round both would be swapped."""
    method = M.dppo_kl(0.03, 0.03)
    assert moved(method, 0.02, 0.001, 1.0) == pytest.approx(10.0) and moved(method, 0.001, 0.02, -1.0) == 0.0


def test_the_applied_weight_knows_of_a_mask_that_needs_no_sign():
    """One-sided masks depend on A and are no part of a sample's weight; two-sided ones are."""
    now, then = (torch.tensor([[[[p]]]]).double().log() for p in (0.5, 0.01))
    for name, expected in (
        ("dppo_tv", 10.0),
        ("dppo_kl", 10.0),
        ("dppo_prime", 50.0),
        ("ipo_mask", 0.0),
        ("kpop", 0.0),
    ):
        seen = step_given(sim.methods.reinforce(), {"log_prob": now}, {"log_prob": then}, torch.ones_like(now))
        assert getattr(M, name)().weight.applied(seen).item() == pytest.approx(expected)
