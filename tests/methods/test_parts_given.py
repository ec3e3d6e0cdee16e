"""Parts of a method, and tensors for one, that are left out or of the wrong kind: the line says what to hand over."""

import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from tests.refusals import refused

NOW = torch.tensor([[-0.5, -0.7], [-1.5, -0.2]], dtype=torch.float64)
THEN = NOW - 0.1
REWARDS = torch.tensor([1.0, 0.0], dtype=torch.float64)


@pytest.mark.parametrize("method", [sim.methods.tba(), sim.methods.grpo(kl=0.1)], ids=["weight", "penalty"])
def test_a_reference_that_is_left_out_is_asked_for(method):
    refused("reference_log_prob = None: must be given for", method.loss, NOW, THEN, rewards=REWARDS)
    assert torch.isfinite(method.loss(NOW, THEN, rewards=REWARDS, reference_log_prob=THEN))


def test_an_advantage_of_scores_names_the_way_out():
    with pytest.raises(InputError, match="'opob': must be an advantage that needs no score vectors; hand over adv"):
        sim.methods.vcpo().loss(NOW, THEN, rewards=REWARDS)
    assert torch.isfinite(sim.methods.vcpo().loss(NOW, THEN, advantages=REWARDS))


def test_a_mask_shows_the_number_that_is_refused():
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.25]])
    refused(r"mask = 0\.25: must be 0 or 1", lambda: sim.methods.grpo().loss(NOW, THEN, rewards=REWARDS, mask=mask))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"factors": sim.factors.opsm()}, r"factors = .*must be a tuple of factors; write \(factors.NAME"),
        ({"penalties": sim.penalties.k3()}, r"penalties = .*must be a tuple of penalties; write \(penalties.NAME"),
        ({"factors": "opsm"}, "factors = 'opsm': must be a tuple of factors"),
        ({"penalties": (sim.factors.opsm(),)}, "must be a tuple of penalties"),
    ],
)
def test_a_part_alone_is_no_tuple(changes, message):
    refused(message, lambda: sim.methods.grpo().replace(**changes))
    assert len(sim.methods.grpo().replace(factors=(sim.factors.opsm(),)).factors) == 1
