"""What small changes of the code had left unnoticed; each test is named after what it holds."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.methods._weights import times
from asyncsim.updates._link import Record, Stateless, advance
from tests.contracts.laboratory import acting, case, make, names, permuted, step_with, trial_of
from tests.refusals import refused

R = 3


def given(*rows):
    return torch.tensor(rows, dtype=torch.float64)


# Updates.


@pytest.mark.parametrize("name", ["beta1", "beta2"])
def test_a_decay_of_one_is_no_average(name):
    refused(name, lambda: sim.updates.adam(0.1, **{name: 1.0}))
    assert getattr(sim.updates.adam(0.1, **{name: 1.0 - 1e-9}), name) == 1.0 - 1e-9


def test_a_link_has_both_of_its_functions():
    """Half a link would fail in the middle of a run."""

    class Applied:
        def apply(self, record, state):
            return record, state

    for half in (Applied(), Stateless()):
        refused("link", sim.chain, half)


def test_who_has_stopped_stays_and_who_stops_is_dated():
    """Stopped at update 0, stopped later, going on, leaving now, broken now, on the limit now."""
    before = torch.ones(6, 2, dtype=torch.float64)
    step = given([1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [9.0, 9.0], [1.0, 1.0], [2.0, 3.0])
    diverged = torch.tensor([0, 3, -1, -1, -1, -1])
    broken = torch.tensor([False, False, False, False, True, False])
    moved, since = advance(before, step, diverged, 7, 5.0, broken)
    assert since.tolist() == [0, 3, -1, 7, 7, 7]
    assert (moved == 1.0).all(-1).tolist() == [True, True, False, True, True, True]
    assert moved[2].tolist() == [2.0, 2.0]


def test_a_cosine_stays_between_its_ends():
    """Opposite gradients of any length, whose quotient rounding may carry below -1."""
    random = torch.Generator().manual_seed(0)
    link = sim.updates.align(-1.0, 1.0)
    signal, _ = case(R=R, G=1, N=4, T=1, drift=0.0).evaluate(sim.methods.reinforce())
    state, found = link.init(torch.zeros(R, 4, dtype=torch.float64)), []
    for turn in range(200):
        length = (-1.0) ** turn * 10.0 * torch.rand(R, 1, generator=random, dtype=torch.float64)
        direction = length * given([0.1, 0.7, -0.3, 0.9])
        record, state = link.apply(Record(direction, torch.zeros(R, dtype=torch.bool), signal), state)
        found.append(record.statistics["align_cosine"])
    found = torch.stack(found[1:])
    assert (found >= -1.0).all() and (found < -1.0 + 1e-12).all()


# Tensors that a caller has.


def test_rounding_may_lift_a_log_prob_above_zero_but_not_far():
    """Of tokens that were generated: what stands on masked ones does not matter."""
    method, one = sim.methods.reinforce(), given([-1.0, -1.0], [-1.0, -1.0])
    advantages = given(1.0, -1.0)
    for highest in (0.0, 1e-5):
        method.weigh(one.clamp(max=-1.0) * 0 + highest, one, advantages=advantages)
    for bad in ("log_prob", "behavior_log_prob"):
        high = one.clone()
        high[1, 1] = 1.1e-5
        tensors = {"log_prob": one, "behavior_log_prob": one, bad: high}
        refused(bad, method.weigh, **tensors, advantages=advantages)
        method.weigh(**tensors, advantages=advantages, categorical=False)
        method.weigh(**tensors, advantages=advantages, mask=given([1.0, 1.0], [1.0, 0.0]))


def test_advantages_of_tokens_stand_where_they_were_given():
    """Those of masked tokens may be anything; those of a sequence stand on all of its tokens."""
    method, one = sim.methods.reinforce(aggregator="sequence_sum"), given([-1.0, -1.0], [-1.0, -1.0])
    mask = given([1.0, 1.0], [1.0, 0.0])
    found = method.weigh(one, one, advantages=given([3.0, -2.0], [5.0, math.nan]), mask=mask)
    assert found.advantage.tolist() == [[3.0, -2.0], [5.0, 0.0]]
    assert found.cotangent.tolist() == [[1.5, -1.0], [2.5, 0.0]]
    assert found.score_weight.tolist() == [[3.0, -2.0], [5.0, 0.0]]
    for shaped in (given(3.0, 5.0), given([3.0], [5.0])):
        assert method.weigh(one, one, advantages=shaped, mask=mask).advantage.tolist() == [[3.0, 3.0], [5.0, 5.0]]


# What a method sees.


def test_one_token_for_each_sample_is_plain():
    """Several tokens are not, in one group either, nor is one token that may be masked."""
    method = sim.methods.reinforce()
    for groups, tokens in ((1, 1), (3, 1), (1, 3), (3, 3)):
        signal, _ = case(G=groups, N=2, T=tokens, ragged=False).evaluate(method)
        gap = signal._between(signal.mask, signal.mask)
        assert signal.batch.full and (gap == 0).all(), (groups, tokens)


def test_tokens_share_the_step_however_few_they_are():
    """One token in eight sequences has all of it; where every group was dropped nothing is shared."""
    mask = torch.zeros(2, 2, 4, 3, dtype=torch.float64)
    mask[0, 1, 2, 0] = 1.0
    mask[1] = 1.0
    share = step_with(torch.zeros_like(mask), mask=mask).share
    assert share[0, 1, 2, 0] == 1.0 and share[0].sum() == 1.0
    torch.testing.assert_close(share[1], torch.full((2, 4, 3), 1 / 24, dtype=torch.float64))
    nothing = step_with(torch.zeros_like(mask))
    nothing.mass = torch.zeros_like(nothing.mass)
    assert (nothing.share == 0.0).all() and (nothing.token_mean(mask) == 0.0).all()
    for masked in (7.0, math.inf, math.nan):
        values = torch.where(mask > 0, 3.0, masked)
        assert step_with(torch.zeros_like(mask), mask=mask).token_mean(values).tolist() == [3.0, 3.0]


def test_the_deviation_of_a_single_token_is_zero():
    """Its unbiased variance has no degree of freedom left: no division by 0."""
    trial = acting(R=2, G=1, N=1, T=1)
    signal, gradient = trial.evaluate(sim.methods.a2c(advantage=sim.advantages.gae(normalize=True)))
    assert (signal.advantages == 0.0).all() and torch.isfinite(gradient).all()


class Listed:
    """A factor with given numbers."""

    proximal = False

    def __init__(self, *rows):
        self.numbers = given(*rows)

    def factor(self, seen, advantage):
        return self.numbers.reshape(1, 1, *self.numbers.shape)

    def describe(self):
        return {}


def test_a_sequence_is_kept_where_a_generated_token_is():
    """Factors of masked tokens keep nothing."""
    method = sim.methods.reinforce().replace(factors=(Listed([0.0, 1.0], [1.0, 0.0], [0.0, 1.0]),))
    one = torch.full((3, 2), -1.0, dtype=torch.float64)
    mask = given([1.0, 0.0], [1.0, 0.0], [1.0, 1.0])
    found = method.weigh(one, one, advantages=given(1.0, 1.0, 1.0), mask=mask).statistics
    assert found["kept_sequences"].item() == pytest.approx(2 / 3) and found["kept_tokens"].item() == 0.5


class Signed(Listed):
    """A factor that is the advantage."""

    def factor(self, seen, advantage):
        return advantage


def test_factors_of_an_applied_weight_see_a_unit_advantage():
    trial = case(drift=0.5)
    plain = sim.methods.full_is("token")
    signed = plain.replace(factors=(Signed(),))
    found, expected = (trial.evaluate(method)[0].applied for method in (signed, plain))
    kept = trial.batch.mask > 0
    assert torch.equal(found[kept], expected[kept]) and (found[kept] != 1.0).any()


@pytest.mark.parametrize("own", [torch.float32, torch.float64])
@pytest.mark.parametrize("other", [torch.float32, torch.float64])
@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((2, 3), (2, 1)), ((2, 1), (2, 3))])
def test_a_product_in_place_is_the_product(own, other, shapes):
    """Of any two types and shapes; in the memory of the first one only where it fits."""
    first, second = (
        torch.rand(shape, dtype=dtype, generator=torch.Generator().manual_seed(1))
        for shape, dtype in zip(shapes, (own, other), strict=True)
    )
    expected, memory = first * second, first.data_ptr()
    found = times(first, second)
    assert torch.equal(found, expected) and found.dtype == expected.dtype
    assert (found.data_ptr() == memory) == (expected.dtype == own and expected.shape == first.shape)


@pytest.mark.parametrize("name", [name for name in names("methods") if make("methods", name).scored])
def test_weights_of_equal_policies_are_those_of_a_unit_advantage(name):
    """What a method says it applies is its score weight, where no clip can tell the two apart."""
    method = make("methods", name)
    trial = trial_of(method, drift=0.0)
    seen = trial.evaluate(method)[0]
    one = torch.ones_like(seen.mask[..., :1])
    kept = seen.mask > 0
    both = method.weight.applied(seen), method.weight.score_weight(seen, one)
    applied, weight = (x.expand(kept.shape)[kept] for x in both)
    assert (applied > 0).all()
    if method.on_policy == "policy gradient":
        torch.testing.assert_close(applied, weight, rtol=0, atol=1e-12)


def of_rewards():
    """Advantages that need nothing but what a caller has."""
    found = []
    for name in names("advantages"):
        try:
            weighed(make("advantages", name), case(T=2))
        except InputError:
            continue
        found.append(name)
    return found


def weighed(advantage, trial, **changes):
    method = sim.methods.truncated_is("token", cap=1.3, advantage=advantage).replace(**changes)
    now = trial.evaluate(method.replace(advantage=sim.advantages.none()))[0].current["log_prob"]
    batch = trial.batch
    return method, method.weigh(now, batch.behavior["log_prob"], rewards=batch.reward, mask=batch.mask)


@pytest.mark.parametrize("name", of_rewards())
@pytest.mark.parametrize("tokens", [2, 4])
def test_given_tensors_have_the_advantages_of_a_run(name, tokens):
    """Those that read weights of samples included: the mean of the tokens' weights."""
    trial = case(G=3, N=4, T=tokens, drift=0.8)
    method, found = weighed(make("advantages", name), trial)
    signal, _ = trial.evaluate(method)
    expected = signal.advantages if signal.advantages.ndim == 4 else signal.advantages.unsqueeze(-1)
    kept = trial.batch.mask > 0
    assert (trial.batch.mask == 0).any() and found.advantage[kept].abs().max() > 0.1
    torch.testing.assert_close(found.advantage[kept], expected.expand(kept.shape)[kept], rtol=0, atol=1e-13)
    torch.testing.assert_close(found.cotangent, signal.cotangents["log_prob"], rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", of_rewards())
def test_a_group_that_is_dropped_breaks_nothing(name):
    """It has no mass left: no division by 0 reaches the others, which are what they are without it."""
    trial = case(seed=3, G=2, N=4, T=3)
    trial.batch.reward = given([1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]).repeat(2, 1, 1)
    _, found = weighed(make("advantages", name), trial, drop_equal=True)
    alone = {key: value[:, :1] for key, value in trial.batch.behavior.items()}
    first = dataclasses.replace(
        trial.batch, index=None, behavior=alone, trajectory=trial.batch.trajectory[:, :1],
        **{key: getattr(trial.batch, key)[:, :1] for key in ("action", "state", "mask", "reward", "mass")},
    )  # fmt: skip
    _, expected = weighed(make("advantages", name), dataclasses.replace(trial, batch=first), drop_equal=True)
    assert (found.cotangent[:, 1] == 0.0).all() and expected.cotangent.abs().max() > 1e-3
    torch.testing.assert_close(found.cotangent[:, :1], expected.cotangent, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", [name for name in names("methods") if make("methods", name).scored])
def test_a_sample_of_twice_the_mass_is_two_samples(name):
    """Thresholds, bounds and statistics of a step count masses, not entries."""
    method = make("methods", name)
    for seed in range(4):
        trial = trial_of(method, seed=seed, G=2, N=3, T=4, drift=1.2)
        copied = permuted(trial.batch, 2, torch.tensor([0, 0, 1, 2]))
        even, heavy = torch.full((1, 2, 4), 0.25, dtype=torch.float64), given(0.5, 0.25, 0.25).expand(1, 2, 3)
        (two, expected), (one, found) = (
            trial.evaluate(method, **changes, size=4) for changes in ({**copied, "mass": even}, {"mass": heavy})
        )
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        assert one.statistics.keys() == two.statistics.keys()
        for key, value in two.statistics.items():
            if not key.endswith("nonfinite"):
                torch.testing.assert_close(one.statistics[key], value, rtol=1e-9, atol=1e-12, msg=key)


def test_a_sample_without_mass_does_not_close_its_group():
    """An infinite divergence from the reference closes the group of a sample that counts, and no other."""
    method = sim.methods.tba(beta=0.5)
    mask = torch.ones(1, 2, 3, 1, dtype=torch.float64)
    for mass, closed in ((given(0.5, 0.5, 0.0), False), (given(0.25, 0.25, 0.5), True)):
        seen = step_with(torch.zeros_like(mask))
        seen.current["reference"] = torch.zeros_like(mask)
        seen.current["reference"][0, 1, 2] = -math.inf
        seen.mass = mass.expand(1, 2, 3)
        weight = method.weight.score_weight(seen, torch.ones_like(mask))
        assert (weight[0, 0] == 4.0).all() and torch.isfinite(weight).all()
        assert (weight[0, 1, :2] == (0.0 if closed else 4.0)).all()


def test_a_knob_with_a_number_for_each_replicate_needs_replicates():
    """Of given tensors: those of a replicate are weighed as with its number alone."""
    trial = case(R=2, G=2, N=3, T=3, drift=0.8)
    now = trial.evaluate(sim.methods.reinforce())[0].current["log_prob"]
    tensors = {"log_prob": now, "behavior_log_prob": trial.batch.behavior["log_prob"], "rewards": trial.batch.reward}
    both = sim.methods.truncated_is("token", cap=np.array([1.1, 1.6])).weigh(**tensors).cotangent
    for r, cap in enumerate((1.1, 1.6)):
        one = {key: value[r] for key, value in tensors.items()}
        assert torch.equal(both[r], sim.methods.truncated_is("token", cap=cap).weigh(**one).cotangent)
        refused("replicates", sim.methods.truncated_is("token", cap=np.array([1.1, 1.6])).weigh, **one)


def test_rewards_are_asked_for_where_they_are_read():
    """Also beside advantages: by a method that drops groups, and by one whose weight looks at rewards."""
    one = torch.full((2, 3), -1.0, dtype=torch.float64)
    tensors = {"log_prob": one, "behavior_log_prob": one, "advantages": given(1.0, -1.0)}
    readers = [name for name in names("methods") if make("methods", name).weight.rewarded]
    assert readers
    for name in ("dapo", *readers):
        method = make("methods", name)
        assert method.drop_equal != method.weight.rewarded
        with pytest.raises(InputError, match="rewards"):
            method.weigh(**tensors, **({"reference_log_prob": one} if "reference" in method.outputs else {}))


TOKENS = [
    name
    for name in names("methods")
    if make("methods", name).scored and set(make("methods", name).outputs) <= {"log_prob", "reference"}
]


@pytest.mark.parametrize("name", TOKENS)
def test_who_reads_the_proximal_policy_says_so(name):
    """Other log-probs of it give other weights where it is declared, and the same ones where it is not."""
    method = make("methods", name)
    trial = case(R=1, G=2, N=5, T=3, drift=0.8)
    now = trial.evaluate(sim.methods.reinforce())[0].current["log_prob"]
    behavior = trial.batch.behavior["log_prob"]
    tensors = {
        "log_prob": now, "behavior_log_prob": behavior, "rewards": trial.batch.reward, "mask": trial.batch.mask,
        "reference_log_prob": 0.5 * now, "staleness": torch.full_like(now, 2.0),
        "advantages": given(1.0, -2.0, 0.5, -0.25, 3.0).expand(1, 2, 5),
    }  # fmt: skip
    one, two = (method.weigh(**tensors, proximal_log_prob=x).cotangent for x in (behavior, 3.0 * now))
    assert torch.equal(one, two) != method.proximal
    if method.proximal:
        refused("proximal_log_prob", lambda: method.weigh(**tensors))


def test_staleness_weights_stand_at_every_group():
    """However many there are."""
    age = torch.arange(6, dtype=torch.float64).reshape(1, 3, 2, 1)
    seen = step_with(torch.zeros(1, 3, 2, 2).double(), age=age)
    found = sim.factors.staleness_weight(average=1.0).factor(seen, torch.ones(1, 1, 1, 1).double())
    torch.testing.assert_close(found.expand(1, 3, 2, 2)[..., 0], ((1.0 + age) / 2.0)[..., 0] ** -0.5)
