"""Masks in probabilities by hand: which moves they stop, in which direction a divergence is taken, what pulls back."""

import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base import knobs
from asyncsim.step.step import given as step_given
from tests.contracts.laboratory import case
from tests.methods.by_hand import moved

M = sim.methods


def test_bounds_belong_to_the_sign_of_the_advantage():
    tv, kl = M.dppo_tv(0.1, 0.3), M.dppo_kl(0.01, 0.2)
    assert [moved(tv, 0.7, 0.5, 1.0), moved(tv, 0.3, 0.5, -1.0)] == pytest.approx([1.4, 0.0])
    # KL of a fair coin to one of 0.7 or 0.3 is 0.0872 nats.
    assert [moved(kl, 0.7, 0.5, 1.0), moved(kl, 0.3, 0.5, -1.0)] == pytest.approx([1.4, 0.0])


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


def test_kpop_asks_both_directions():
    """KL(0.02, 0.001) = 0.041 and KL(0.001, 0.02) = 0.016: the larger one decides, whichever policy is which."""
    between = M.kpop(0.03, kl=0.0)
    assert moved(between, 0.02, 0.001, 1.0) == moved(between, 0.001, 0.02, 1.0) == 0.0
    wide = M.kpop(0.045, kl=0.0)
    assert moved(wide, 0.02, 0.001, 1.0) == pytest.approx(20.0) and moved(wide, 0.001, 0.02, 1.0) == pytest.approx(0.05)
