"""What small changes of the code had left unnoticed; each test is named after what it holds."""

from __future__ import annotations

import dataclasses
import inspect
import math

import pytest
import torch

import asyncsim as sim
from asyncsim import plugins
from asyncsim.checks import InputError
from asyncsim.methods._surrogates import DualClip
from asyncsim.penalties._divergence import k3_value
from asyncsim.updates._link import Record, Stateless, advance
from asyncsim.updates._moments import remembered
from tests.contracts.laboratory import acting, case, likelihoods, make, names, permuted, trial_of

R = 3


def given(*rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=dtype)


# Updates.


@pytest.mark.parametrize("name", ["beta1", "beta2"])
def test_a_decay_of_one_is_no_average(name):
    with pytest.raises(InputError, match=name):
        sim.updates.adam(0.1, **{name: 1.0})
    assert getattr(sim.updates.adam(0.1, **{name: 1.0 - 1e-9}), name) == 1.0 - 1e-9


def test_a_link_has_both_of_its_functions():
    """Half a link would fail in the middle of a run."""

    class Applied:
        def apply(self, record, state):
            return record, state

    for half in (Applied(), Stateless()):
        with pytest.raises(InputError, match="link"):
            sim.chain(half)


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
        record, state = link.apply(Record(direction, torch.zeros(R, dtype=torch.bool), signal, 1, 0), state)
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
        with pytest.raises(InputError, match=bad):
            method.weigh(**tensors, advantages=advantages)
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
        assert signal.likelihoods.plain == (tokens == 1 and signal.batch.full)


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


@pytest.mark.parametrize("name", [name for name in names("methods") if make("methods", name).scored])
def test_weights_of_equal_policies_are_those_of_a_unit_advantage(name):
    """What a method says it applies is its score weight, where no clip can tell the two apart."""
    method = make("methods", name)
    trial = trial_of(method, drift=0.0)
    seen = trial.evaluate(method)[0].likelihoods
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
    now = trial.evaluate(method.replace(advantage=sim.advantages.none()))[0].outputs["log_prob"]
    batch = trial.batch
    return method, method.weigh(now, batch.behavior["log_prob"], rewards=batch.reward, mask=batch.mask)


@pytest.mark.parametrize("name", of_rewards())
def test_given_tensors_have_the_advantages_of_a_run(name):
    """Those that read weights of samples included: the mean of the tokens' weights."""
    trial = case(G=3, N=4, T=4, drift=0.8)
    method, found = weighed(make("advantages", name), trial)
    signal, _ = trial.evaluate(method)
    expected = signal.advantages if signal.advantages.ndim == 4 else signal.advantages.unsqueeze(-1)
    kept = trial.batch.mask > 0
    assert (trial.batch.mask == 0).any() and found.advantage[kept].abs().max() > 0.1
    torch.testing.assert_close(found.advantage[kept], expected.expand(kept.shape)[kept], rtol=0, atol=1e-13)
    torch.testing.assert_close(found.cotangent, signal.cotangents["log_prob"], rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", [name for name in of_rewards() if name != "mean"])
def test_a_group_that_is_dropped_breaks_nothing(name):
    """It has no mass left: no division by 0 reaches the others, which are what they are without it.

    The mean of the whole step is not a group's own.
    """
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


# Bounds.


@pytest.mark.parametrize(("dual", "weight"), [(1.0, -1.0), (0.99, 0.0)])
def test_a_ratio_on_the_dual_bound_is_inside(dual, weight):
    seen, bad = likelihoods(torch.zeros(1, 1, 1, 1).double()), torch.full((1, 1, 1, 1), -1.0).double()
    assert DualClip(0.2, 0.2, dual).score_weight(seen, bad).item() == weight


@pytest.mark.parametrize(("cap", "weight"), [(1.0, 1.0), (0.99, 0.0)])
def test_a_behavior_weight_on_the_cap_is_kept(cap, weight):
    """Where all policies agree h is 1."""
    weighing = dataclasses.replace(sim.methods.decoupled_ppo(beyond="drop").weight, cap=cap)
    seen = likelihoods(torch.zeros(1, 1, 1, 1).double())
    assert weighing.score_weight(seen, torch.ones(1, 1, 1, 1).double()).item() == weight


@pytest.mark.parametrize("name", ["bapo_code", "bapo_paper", "sat", "m2po_mask", "m2po_waterfill", "m2po_areal", "p3o"])
def test_statistics_of_equal_parts_are_those_of_one(name):
    """A step of a group and its copy, each a part of its own."""
    trial = case(seed=1, G=1, N=6, T=4, drift=0.8)
    both = permuted(trial.batch, 1, torch.tensor([0, 0]))
    one, two = (make("methods", name, scope="micro_batch", micro_batches=parts) for parts in (1, 2))
    found, expected = trial.evaluate(two, **both)[0], trial.evaluate(one)[0]
    assert expected.cotangents["log_prob"].abs().max() > 1e-3 and found.cotangents
    assert found.statistics.keys() == expected.statistics.keys() and found.statistics
    for key, value in expected.statistics.items():
        if not key.endswith("nonfinite"):
            torch.testing.assert_close(found.statistics[key], value, rtol=1e-12, atol=1e-12, msg=key)


def test_a_part_without_tokens_has_no_gate():
    """It is not broken either."""
    method = sim.methods.sat(scope="micro_batch", micro_batches=2)
    now, then = given([[-1.0, -2.0]] * 2, [[-1.0, -1.0]] * 2), torch.full((2, 2, 2), -1.5, dtype=torch.float64)
    mask = given([[1.0, 1.0]] * 2, [[0.0, 0.0]] * 2)
    found = method.weigh(now, then, rewards=given([1.0, 0.0], [0.0, 0.0]), mask=mask)
    assert found.statistics["sat_nonfinite"].item() == 0.0 and torch.isfinite(found.cotangent).all()


@pytest.mark.parametrize("name", names("advantages"))
def test_advantages_of_masked_tokens_are_zero(name):
    """Where they differ from token to token."""
    method = sim.methods.reinforce(make("advantages", name))
    trial = trial_of(method, T=4)
    signal, _ = trial.evaluate(method)
    empty = trial.batch.mask == 0
    assert empty.any() and (signal.advantages != 0.0).any()
    if signal.advantages.shape == empty.shape:
        assert (signal.advantages[empty] == 0.0).all()


def test_the_divergence_of_what_cannot_be_is_infinite():
    """In either direction; and 0 for equal probabilities."""
    assert k3_value(given(math.inf, -math.inf, 0.0)).tolist() == [math.inf, math.inf, 0.0]


def test_a_reference_direction_is_finite_in_every_part():
    directions = given([1.0, 2.0], [math.nan, 1.0], [1.0, math.inf], [math.nan, math.nan])
    assert remembered(directions).tolist() == [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_random_scale_counts_updates_of_each_replicate():
    link = sim.updates.random_scale(seed=2**63 - 1)
    assert link.init(torch.zeros(R, 4))["count"].tolist() == [[0]] * R
    with pytest.raises(InputError, match="seed"):
        sim.updates.random_scale(seed=2**63)


# Numbers that are taken by default.

KINDS = ("methods", "advantages", "factors", "penalties", "updates")


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_has_the_defaults_of_its_factory(kind):
    """Where both have a number or a flag."""
    seen = 0
    for name in names(kind):
        factory = plugins.load(f"asyncsim.{kind}", name, kind)
        arguments = inspect.signature(factory).parameters
        classes = [x for x in vars(inspect.getmodule(factory)).values() if dataclasses.is_dataclass(x)]
        for f in (f for each in classes if each.__module__ == factory.__module__ for f in dataclasses.fields(each)):
            default = arguments[f.name].default if f.name in arguments else None
            if isinstance(f.default, (int, float)) and isinstance(default, (int, float)):
                assert f.default == default, (name, f.name)
                seen += 1
    assert seen or kind not in ("advantages", "factors")


DEFAULTS = {
    "methods": {
        "ppo_clip": (0.2, 0.2), "grpo": (0.2, 0.2), "dapo": (0.2, 0.28), "decoupled_ppo": (0.2, 0.2, 5.0),
        "a3po": (0.2, 0.2), "gspo": (3e-4, 4e-4), "gmpo": (0.4, 0.4), "cispo": (1.0, 4.0), "icepop": (0.5, 2.0),
        "sequence_mis": (0.5, 2.0), "geometric_rs": (0.999, 1.001), "vcpo": (8.0,), "three_policy_tis": (2.0, 0.2, 0.2),
        "vespo": (2.0, 3.0, 3.0, 2.0), "sapo": (1.0, 1.05), "gipo": (1.0, 5.0, 0.0067, 148.0),
        "topr_roll": (1.0, 1.0), "asymre": (-0.1,), "opmd": (1.0,), "kimi": (0.1,), "dro": (0.1,), "tba": (0.014,),
        "dppo_tv": (0.2, 0.2, 10.0), "dppo_kl": (0.05, 0.05, 10.0), "ipo_mask": (0.1, 1e-3), "vtrace": (1.0, 0.5, 0.0),
        "acer": (10.0, 0.5, 0.0), "a2c": (0.5, 0.0), "score_centering": (2.0,),
    },
    "advantages": {
        "gae": (0.99, 0.95), "group_std": (1e-6,), "n_step": (5, 0.99), "vtrace": (0.99, 1.0, 1.0, 1.0),
        "retrace": (0.99, 1.0), "returns_to_go": (1.0,),
    },
    "factors": {
        "geometric_mask": (0.999, 1.001), "token_mask": (0.5, 2.0), "sequence_mask": (0.5, 2.0), "k3_mask": (0.01,),
        "token_veto": (1e-4,), "opsm": (1e-4,), "staleness_weight": (0.5, 1.0, 0.5, 0.0),
    },
    "penalties": {"k1": (0.04,), "k2": (0.04,), "k3": (0.04,), "exact": (0.04,)},
    "updates": {
        "adam": (0.9, 0.999, 1e-8), "clip_norm": (1.0,), "ess_step": (1.0, 0.1, 1.0), "align": (0.05, 0.3, 1.0),
        "random_scale": (0.5, 0.25, 0),
    },
}  # fmt: skip
"""Numbers of a signature, in its order: the published ones, which each docstring names the source of."""


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in DEFAULTS for name in DEFAULTS[kind]])
def test_defaults_are_the_published_numbers(kind, name):
    arguments = inspect.signature(plugins.load(f"asyncsim.{kind}", name, kind)).parameters.values()
    numbers = tuple(p.default for p in arguments if type(p.default) in (int, float))
    assert numbers[: len(DEFAULTS[kind][name])] == DEFAULTS[kind][name]
