"""Advantages: invariances, edges, and formulas computed another way."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import asyncsim as sim
from asyncsim.base.checks import InputError
from tests.contracts.families import gathered
from tests.contracts.families.rewards import GREEDY
from tests.contracts.laboratory import case, make, names, step_of, trial_of
from tests.core import formulas

TOKENWISE = {"gae", "returns_to_go"} | set(gathered("TOKENWISE"))
"""Advantages of single tokens. Their sums over several tokens are compared with loops in tests/core/test_gae.py."""
RELATIVE = sorted(set(names("advantages")) - {"none", "offset", *gathered("ALONE")} - (TOKENWISE - {"otb"}))
GROUPED = sorted(set(RELATIVE) - {"mean"})
STEPWISE, UNSHIFTED = gathered("STEPWISE"), set(gathered("UNSHIFTED"))
VALUE = 0.7
"""What the critic says of every sample here."""
FORMULAS = {
    **formulas.ADVANTAGES,
    "gae": formulas.offset(VALUE),
    "returns_to_go": formulas.none,
    **gathered("ADVANTAGES"),
}
"""Of one-token trajectories."""
ADV = sim.advantages
OPTIONS = {
    "opob step": lambda: ADV.opob("step"),
    "opob median": lambda: ADV.opob(robust="median"),
    "opob winsorized": lambda: ADV.opob(robust="winsorized"),
    "opob standardized": lambda: ADV.opob(standardize=True),
    "opob left out": lambda: ADV.opob(leave_one_out=True),
    "opob step left out": lambda: ADV.opob("step", leave_one_out=True),
    "self_normalized left out": lambda: ADV.self_normalized(leave_one_out=True),
    "opo left out": lambda: ADV.opo(leave_one_out=True),
    "group_std unbiased": lambda: ADV.group_std(unbiased=True),
}
"""Advantages with other settings than their own; their numbers are those of tests/methods/test_baselines.py."""


def samples(rewards, weights=None, norms=None, mass=None, size=None):
    """Rewarded trajectories of one token."""
    rewards = torch.as_tensor(np.asarray(rewards, dtype=np.float64))
    ones = torch.ones_like(rewards)
    R, G, N = rewards.shape
    mass = torch.full_like(rewards, 1.0 / N) if mass is None else torch.as_tensor(mass)
    size = N if size is None else size
    whole = case(R=R, G=G, N=N, T=1, ragged=False).batch
    value = {"value": torch.full_like(whole.mask, VALUE)}
    every = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).expand(*whole.mask.shape, 3)
    acted = {"log_probs": (every / 8.0).log(), "action_values": VALUE + every.flip(-1) - 14.0 / 8.0}
    current = {"log_prob": torch.zeros_like(whole.mask), **value, **acted}
    current["action_value"] = torch.full_like(whole.mask, 0.3)
    weights, norms = (ones if x is None else torch.as_tensor(x) for x in (weights, norms))
    batch = dataclasses.replace(whole, reward=rewards, mass=mass, size=size, behavior=value)
    return step_of(
        batch,
        current,
        log_ratio=torch.zeros_like(whole.mask),
        sample_weight=weights,
        score_norm=norms,
        row_norms=norms.unsqueeze(-1),
        applied=weights.unsqueeze(-1),
        greedy_reward=torch.full_like(rewards, GREEDY),
    )


def given_to(name, *arguments, **settings):
    """The advantage `[R, G, N]` of one-token trajectories, whether it is one of samples or of tokens."""
    found = (OPTIONS[name]() if name in OPTIONS else make("advantages", name))(samples(*arguments, **settings))
    assert found.ndim == (4 if name in TOKENWISE else 3)
    return found[..., 0] if name in TOKENWISE else found


numbers = st.floats(-10, 10, allow_subnormal=False)


@st.composite
def drawn(draw, least=2):
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(least, 6)))
    rewards = draw(hnp.arrays(np.float64, shape, elements=st.one_of(numbers, st.sampled_from([0.0, 1.0]))))
    weights, norms = (draw(hnp.arrays(np.float64, shape, elements=st.floats(0.015625, 8.0))) for _ in range(2))
    return rewards, weights, norms


@pytest.mark.parametrize("name", names("advantages"))
@given(data=drawn())
def test_formula(name, data):
    rewards, weights, norms = data
    found = given_to(name, rewards, weights, norms).numpy()
    for r, replicate in enumerate(rewards):
        if name in STEPWISE:
            np.testing.assert_allclose(found[r], STEPWISE[name](replicate), rtol=1e-6, atol=1e-7)
            continue
        for g, group in enumerate(replicate):
            expected = FORMULAS[name](group, weights[r, g], norms[r, g], replicate.mean())
            # Standardized rewards of near-equal size amplify rounding by 1/eps.
            slack = 1e-8 if name == "group_std" else 1e-11
            np.testing.assert_allclose(found[r, g], expected, rtol=1e-9, atol=slack)


def test_every_advantage_has_its_formula():
    assert set(FORMULAS) | set(STEPWISE) == set(names("advantages")) and not set(FORMULAS) & set(STEPWISE)
    assert not TOKENWISE & set(formulas.ADVANTAGES)


def test_tokenwise_advantages_are_marked():
    """Of trajectories with several tokens, an advantage has either one number or one for each token."""
    for name in names("advantages"):
        method = sim.methods.reinforce(make("advantages", name))
        trial = trial_of(method)
        batch, found = trial.batch, trial.evaluate(method)[0].advantages
        assert found.shape == (batch.mask.shape if name in TOKENWISE else batch.reward.shape), name
        if name in TOKENWISE:
            assert (found[batch.mask == 0] == 0).all() and (found[batch.mask > 0] != 0).any()


@pytest.mark.parametrize("name", [name for name in RELATIVE if name not in UNSHIFTED])
@given(data=drawn(), shift=st.sampled_from([-3.0, 0.5, 100.0]))
def test_a_constant_in_all_rewards_does_not_matter(name, data, shift):
    rewards, weights, norms = data
    advantage = make("advantages", name)
    one, two = (advantage(samples(r, weights, norms)) for r in (rewards, rewards + shift))
    torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-6 if name == "group_std" else 1e-9)


@pytest.mark.parametrize("name", [*GROUPED, *OPTIONS])
@given(value=numbers, count=st.integers(2, 40), level=st.floats(0.1, 10.0))
def test_equal_rewards_are_worth_nothing(name, value, count, level):
    """Zero variance: no advantage, for any group size (1/N is rarely exact)."""
    equal = np.full((1, 2, count), value)
    weights = np.broadcast_to(np.linspace(level, 2 * level, count), equal.shape).copy()
    found = given_to(name, equal, weights, weights)
    assert found.abs().max() <= 1e-13 * max(1.0, abs(value))


@pytest.mark.parametrize("name", sorted({*GROUPED, *TOKENWISE} - set(STEPWISE)))
def test_groups_do_not_touch_each_other(name):
    random = np.random.default_rng(0)
    rewards, weights = random.random((1, 3, 4)), random.random((1, 3, 4))
    other = rewards.copy()
    other[0, 1] += 5.0
    one, two = (given_to(name, r, weights, weights) for r in (rewards, other))
    assert torch.equal(one[0, [0, 2]], two[0, [0, 2]])


@pytest.mark.parametrize("name", [*names("advantages"), *OPTIONS])
@given(seed=st.integers(0, 10**6))
def test_counted_samples_are_the_samples(name, seed):
    """Equal samples as one cell with their joint mass have the same advantage; cells of mass 0 change nothing."""
    random = np.random.default_rng(seed)
    count = random.multinomial(8, [0.4, 0.3, 0.3, 0.0])
    values, weights, norms = random.random(4), random.uniform(0.5, 2.0, 4), random.uniform(0.5, 2.0, 4)
    each = np.repeat(np.arange(4), count)
    alone = given_to(name, *(x[each][None, None] for x in (values, weights, norms)))
    cells = given_to(name, *(x[None, None] for x in (values, weights, norms)), mass=(count / 8)[None, None], size=8)
    torch.testing.assert_close(alone[0, 0], cells[0, 0][each], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", names("advantages"))
def test_groups_of_one(name):
    advantage = make("advantages", name)
    if name in GROUPED:
        with pytest.raises(InputError, match=r"samples_per_group = 1: must be at least 2 .*; write samples_per"):
            advantage.check(1)
    else:
        advantage.check(1)
        assert torch.isfinite(given_to(name, [[[0.7], [0.1]]])).all()
    advantage.check(2)
    advantage.check(math.inf)


def test_vanishing_weights_fall_back_on_the_mean():
    """All applied weights 0 (log ratios of -inf) leave no weighted mean; the plain one is used, not 0/0."""
    for name in ("opob", "self_normalized"):
        found = make("advantages", name)(samples([[[1.0, 0.0]]], np.zeros((1, 1, 2)), np.zeros((1, 1, 2))))
        assert found.flatten().tolist() == [0.5, -0.5]


@pytest.mark.parametrize("method", ["reinforce", "truncated_is", "full_is"])
@pytest.mark.parametrize("aggregator", ["sequence_sum", "sequence_mean"])
def test_opob_minimizes_the_second_moment(method, aggregator):
    """Against a brute-force search over baselines, unequal lengths included (no w^4, no forgotten 1/T_i)."""
    from scipy import optimize

    trial = case(R=1, G=1, N=6, T=4, drift=0.5)
    value = make("methods", method, advantage=sim.advantages.opob(), aggregator=aggregator)
    signal, _ = trial.evaluate(value)
    baseline = (trial.batch.reward - signal.advantages)[0, 0]
    assert (baseline - baseline[0]).abs().max() < 1e-12
    batch, rewards, vectors = trial.batch, trial.batch.reward[0, 0].numpy(), []
    for i in range(6):
        tokens = slice(0, int(batch.mask[0, 0, i].sum()))
        theta = trial.new.reshape(-1, 3).clone().requires_grad_()
        live = torch.log_softmax(theta, -1)[batch.state[0, 0, i, tokens], batch.action[0, 0, i, tokens]].sum()
        weight = float((live.detach() - batch.behavior["log_prob"][0, 0, i, tokens].sum()).exp())
        weight = {"reinforce": 1.0, "truncated_is": min(weight, 8.0), "full_is": weight}[method]
        (score,) = torch.autograd.grad(live, theta)
        vectors.append(weight * score.numpy() / (tokens.stop if aggregator == "sequence_mean" else 1))

    def second_moment(b):
        return sum(((r - b) ** 2 * (v**2).sum() for r, v in zip(rewards, vectors, strict=True)))

    best = optimize.minimize_scalar(second_moment, bracket=(-1.0, 2.0), tol=1e-12).x
    assert abs(best - float(baseline[0])) < 1e-6
