"""Tensors that a caller hands over: what is no number is refused by name and place where it counts, and only there."""

import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from tests.refusals import refused

M = sim.methods
METHODS = {n: getattr(M, n) for n in ("reinforce", "ppo_clip", "truncated_is", "full_is", "kimi", "cispo", "sat")}
METHODS |= {"decoupled_ppo": M.decoupled_ppo, "tba": lambda: M.tba(1.0), "m2po": M.m2po_mask}
NAMES = ("log_prob", "behavior_log_prob", "proximal_log_prob", "reference_log_prob")
AXES = ("replicate", "group", "sample", "token")


def tensors(shape=(2, 3, 4)):
    random = np.random.default_rng(5)
    given = {name: torch.from_numpy(np.log(random.uniform(0.1, 0.9, shape))) for name in NAMES}
    mask = torch.ones(shape)
    mask[..., -1] = 0.0
    rewards = torch.from_numpy(random.normal(size=shape[:-1]))
    return {**given, "mask": mask, "rewards": rewards, "staleness": torch.ones(shape)}


def loss(make, given):
    return make().loss(**given)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_number_is_refused_with_its_place(method, name, categorical, bad):
    given = tensors() | {"categorical": categorical}
    place = (1, 2, 1)
    given[name][place] = bad
    for ask in (loss, lambda make, given: make().weigh(**given)):
        with pytest.raises(InputError) as caught:
            ask(METHODS[method], given)
        assert caught.value.field == f"{name}[group 1, sample 2, token 1]"
        assert math.isnan(caught.value.value) == math.isnan(bad) and "\n" not in str(caught.value)


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_the_place_has_the_axes_that_were_given(axes):
    shape = (2, 3, 4, 5)[4 - axes :]
    given = tensors(shape)
    place = tuple(size - 2 for size in shape)
    given["log_prob"][place] = math.nan
    named = ", ".join(f"{axis} {k}" for axis, k in zip(AXES[4 - axes :], place, strict=True))
    caught = refused("", lambda: M.reinforce(sim.advantages.group_mean()).loss(**given))
    assert caught.field == f"log_prob[{named}]"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("method", METHODS)
def test_what_stands_on_masked_tokens_does_not_matter(method, bad):
    clean, given = tensors(), tensors()
    for name in NAMES:
        given[name][..., -1] = bad
    for each in (clean, given):
        each["log_prob"].requires_grad_()
        loss(METHODS[method], each).backward()
    assert torch.equal(clean["log_prob"].grad, given["log_prob"].grad)
    assert torch.isfinite(given["log_prob"].grad).all()


@pytest.mark.parametrize("method", ["reinforce", "truncated_is", "ppo_clip"])
def test_an_impossible_token_keeps_its_meaning(method):
    given = tensors()
    given["log_prob"][0, 1, 2] = -math.inf
    given["log_prob"].requires_grad_()
    loss(METHODS[method], given).backward()
    assert given["log_prob"].grad[0, 1, 2] == 0.0 and torch.isfinite(given["log_prob"].grad).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1), (2, 3, 4)])
def test_advantages_are_numbers_where_they_count(shape, bad):
    given = {name: value for name, value in tensors().items() if name != "rewards"}
    advantages = torch.ones(shape).double()
    advantages[1, 2] = bad
    caught = refused("", lambda: M.reinforce().loss(**given, advantages=advantages))
    assert caught.field == "advantages[group 1, sample 2, token 0]"
    if shape == (2, 3, 4):
        advantages[1, 2] = 1.0
        advantages[1, 2, -1] = bad
        assert torch.isfinite(M.reinforce().loss(**given, advantages=advantages))
    given["mask"][1, 2] = 0.0
    assert torch.isfinite(M.reinforce().weigh(**given, advantages=advantages).cotangent).all()


def test_what_weigh_does_not_take_is_refused_by_name():
    """Values of a critic beside A2C ended in a TypeError from inside."""
    logs = torch.full((2, 3), -1.0)
    for ask in (sim.methods.a2c().weigh, sim.methods.a2c().loss):
        with pytest.raises(InputError, match=r"argument of weigh = 'values'.*hand over advantages"):
            ask(logs, logs, rewards=torch.ones(2), values=logs)
