"""Advantages of tokens against double loops: ends, cuts, segments, masks with holes, and what is outside an episode."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base import knobs
from asyncsim.step import versions
from tests.contracts.laboratory import plain_batch, step_of
from tests.refusals import refused

R, G, N = 2, 2, 3


def data(seed, T=7, masked=True, paid="token", holes=False):
    """Random episodes: some end and begin anew inside a trajectory, some are cut; masked tokens hold nonsense.

    With `holes` some tokens between are masked as well, such as what a tool has said; an episode may end there.
    """
    random = np.random.default_rng(seed)
    shape = (R, G, N, T)
    lengths = random.integers(1, T + 1, shape[:3]) if masked else np.full(shape[:3], T)
    mask = inside = np.arange(T) < lengths[..., None]
    last = np.arange(T) == lengths[..., None] - 1
    if holes:
        mask = inside & ((random.random(shape) < 0.6) | (np.arange(T) == 0))
        last = mask & (np.flip(np.cumsum(np.flip(mask, -1), -1), -1) == 1)
    ended = (random.random(shape) < 0.25) & inside
    cut = (ended | last) & (random.random(shape) < 0.5)
    reward, value, beyond = random.normal(size=(3, *shape))
    nonsense = np.where(mask, 0.0, np.nan)
    behavior = {
        "value": torch.from_numpy(value + nonsense).float().double(),
        "successor_value": torch.from_numpy(np.where(cut, beyond, 0.0)),
    }
    fields = {"behavior": behavior, "mask": torch.from_numpy(mask.astype(np.float64))}
    fields["reward"] = torch.from_numpy(random.normal(size=shape[:3]))
    fields["view"] = versions.View({}, np.zeros((1, 1, 1, 1), dtype=np.int64), np.zeros(R, dtype=np.int64))
    nothing = torch.zeros(shape, dtype=torch.int64)
    batch = plain_batch(nothing, nothing, **fields)
    if paid == "token":
        batch.token_reward, batch.ended = torch.from_numpy(reward + nonsense), torch.from_numpy(ended)
    return batch


def samples(batch):
    return step_of(batch)


def looped(batch, discount, trace, valued=True):
    """Sums written out: for every token, over the later ones of its episode."""
    T = batch.mask.shape[-1]
    out = np.zeros(batch.mask.shape)
    rewards, mask = batch.rewards.numpy(), batch.mask.numpy() > 0
    ended = np.zeros(mask.shape, dtype=bool) if batch.ended is None else batch.ended.numpy()
    value = batch.behavior["value"].numpy() if valued else np.zeros(mask.shape)
    beyond = batch.behavior["successor_value"].numpy() if valued else np.zeros(mask.shape)
    for i in np.ndindex(mask.shape[:3]):
        spoken = np.flatnonzero(mask[i])
        for start, t in enumerate(spoken):
            for steps, k in enumerate(spoken[start:]):
                following = spoken[start + steps + 1] if start + steps + 1 < len(spoken) else T
                final = following == T or ended[i][k:following].any()
                after = beyond[i][k] if final else value[i][following]
                out[i][t] += (discount * trace) ** steps * (rewards[i][k] + discount * after - value[i][k])
                if final:
                    break
    return torch.from_numpy(out)


rates = st.sampled_from([0.0, 0.3, 0.95, 1.0])


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("paid", ["token", "end"])
@given(seed=st.integers(0, 10**6), discount=rates, trace=rates, T=st.sampled_from([1, 2, 7]))
def test_gae_is_a_double_loop(paid, holes, seed, discount, trace, T):
    batch = data(seed, T, paid=paid, holes=holes)
    found = sim.advantages.gae(discount, trace)(samples(batch))
    torch.testing.assert_close(found, looped(batch, discount, trace), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("paid", ["token", "end"])
@given(seed=st.integers(0, 10**6), discount=rates, T=st.sampled_from([1, 2, 7]))
def test_returns_to_go_are_a_double_loop(paid, holes, seed, discount, T):
    batch = data(seed, T, paid=paid, holes=holes)
    advantage = sim.advantages.returns_to_go(discount)
    expected = looped(batch, discount, 1.0, valued=False)
    for found in (advantage(samples(batch)), advantage.targets(samples(batch))):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def single(reward, value, ended=None, beyond=None, mask=None):
    """One trajectory."""
    batch = data(0, len(reward), masked=False)

    def one(x):
        return torch.tensor(x).reshape(1, 1, 1, -1)

    return dataclasses.replace(
        batch,
        mask=one(mask or [1.0] * len(reward)).double(),
        mass=torch.ones(1, 1, 1, dtype=torch.float64),
        token_reward=one(reward).double(),
        ended=None if ended is None else one(ended),
        behavior={"value": one(value).double(), "successor_value": one(beyond or [0.0] * len(reward)).double()},
    )


def found(batch, **settings):
    return sim.advantages.gae(**settings)(samples(batch)).flatten().tolist()


def test_one_token():
    assert found(single([2.0], [0.5], [True])) == [1.5]
    assert found(single([2.0], [0.5], [True], [4.0]), discount=0.5) == [3.5], "cut off: 2 + 0.5 * 4 - 0.5"


def test_terminated_truncated_and_the_end_of_a_segment():
    """Planted: an end that is treated as one that goes on, and a cut without bootstrap, give other numbers."""
    reward, value, settings = [1.0, 1.0, 1.0], [0.5, 0.25, 2.0], {"discount": 0.5, "trace": 1.0}
    assert found(single(reward, value, [False, True, False], [0.0, 0.0, 8.0]), **settings) == [1.0, 0.75, 3.0]
    assert found(single(reward, value, [False, True, False], [0.0, 8.0, 8.0]), **settings) == [3.0, 4.75, 3.0]
    whole = [1 + 0.5 * (1 + 0.5 * (1 + 0.5 * 8)) - 0.5, 1 + 0.5 * (1 + 0.5 * 8) - 0.25, 3.0]
    assert found(single(reward, value, [False] * 3, [0.0, 0.0, 8.0]), **settings) == whole
    assert found(single(reward, value, [False] * 3), **settings)[2] == -1.0


def test_trace_zero_is_the_error_of_one_step_and_one_is_the_return():
    batch = single([1.0, 2.0, 3.0], [0.5, 0.25, 2.0], [False, False, True])
    assert found(batch, discount=1.0, trace=0.0) == [0.75, 3.75, 1.0]
    assert found(batch, discount=1.0, trace=1.0) == [5.5, 4.75, 1.0]
    toward = sim.advantages.returns_to_go()(samples(batch)).flatten().tolist()
    assert toward == [6.0, 5.0, 3.0]


def test_masked_tokens_say_nothing():
    short = single([1.0, 2.0], [0.5, 0.25], [False, True])
    long = single([1.0, 2.0, 99.0], [0.5, 0.25, float("nan")], [False, True, False], mask=[1.0, 1.0, 0.0])
    assert found(long) == [*found(short), 0.0]
    unflagged = single([1.0, 2.0, 99.0], [0.5, 0.25, float("nan")], None, mask=[1.0, 1.0, 0.0])
    assert found(unflagged) == found(long), "a trajectory also ends where its mask does"


@given(seed=st.integers(0, 10**6))
def test_targets_are_advantage_plus_value_whether_normalized_or_not(seed):
    batch = data(seed)
    plain = sim.advantages.gae(0.9, 0.8)
    value = torch.where(batch.mask > 0, batch.behavior["value"], 0.0)
    for advantage in (plain, sim.advantages.gae(0.9, 0.8, normalize=True)):
        torch.testing.assert_close(advantage.targets(samples(batch)), plain(samples(batch)) + value)


@given(seed=st.integers(0, 10**6))
def test_normalized_advantages(seed):
    batch = data(seed)
    plain = sim.advantages.gae(0.9, 0.8)(samples(batch))
    normal = sim.advantages.gae(0.9, 0.8, normalize=True)(samples(batch))
    for r in range(R):
        each = plain[r][batch.mask[r] > 0]
        torch.testing.assert_close(normal[r][batch.mask[r] > 0], (each - each.mean()) / (each.std() + 1e-8))
        assert (normal[r][batch.mask[r] == 0] == 0).all()


def test_normalizing_one_token_or_equal_ones_gives_no_infinity():
    assert found(single([2.0], [0.5], [True]), normalize=True) == [0.0]
    assert found(single([2.0, 2.0], [0.5, 0.5], [True, True]), normalize=True) == [0.0, 0.0]


@given(seed=st.integers(0, 10**6))
def test_the_mean_return_of_the_step_as_baseline(seed):
    batch = data(seed)
    plain = sim.advantages.returns_to_go(0.9)(samples(batch))
    centered = sim.advantages.returns_to_go(0.9, baseline="batch")(samples(batch))
    for r in range(R):
        each = plain[r][batch.mask[r] > 0]
        torch.testing.assert_close(centered[r][batch.mask[r] > 0], each - each.mean())
        assert (centered[r][batch.mask[r] == 0] == 0).all()


def test_discount_and_trace_may_differ_between_replicates():
    batch = data(1)
    both = sim.advantages.gae([0.9, 0.5], (0.3, 1.0))
    bound = knobs.bind(both, np.array([1, 0]))(samples(batch))
    for r, (discount, trace) in enumerate([(0.5, 1.0), (0.9, 0.3)]):
        alone = sim.advantages.gae(discount, trace)(samples(batch))
        torch.testing.assert_close(bound[r], alone[r], rtol=1e-14, atol=1e-14)
    bound = knobs.bind(sim.advantages.returns_to_go([0.9, 0.5]), np.array([1, 0]))(samples(batch))
    torch.testing.assert_close(bound[0], sim.advantages.returns_to_go(0.5)(samples(batch))[0])


def test_bad_settings_are_refused():
    refused(r"discount = 1.5: must be a finite number in \[0, 1\]", sim.advantages.gae, 1.5)
    refused(r"trace = -0.1: must be a finite number in \[0, 1\]", sim.advantages.gae, trace=-0.1)
    refused("normalize = 1: must be True or False", sim.advantages.gae, normalize=1)
    refused("baseline = 'value': must be one of none, batch", sim.advantages.returns_to_go, baseline="value")
    batch = data(0)
    batch.behavior = {}
    refused(r"returns_to_go\(\)", lambda: sim.advantages.gae()(samples(batch)))
