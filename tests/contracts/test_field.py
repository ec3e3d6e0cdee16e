"""What trainers have shipped wrong, held for every scored method at once."""

import dataclasses

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.methods._method import AGGREGATORS
from tests.contracts.laboratory import case, make, names
from tests.refusals import refused

PLAIN = {"log_prob", "reference"}
SCORED = [n for n in names("methods") if make("methods", n).scored and set(make("methods", n).outputs) <= PLAIN]
"""Methods that need nothing but log-probs of tokens."""
ANCHORED = [n for n in SCORED if make("methods", n).weight.anchored]


def tensors(seed=0, N=6, T=5, drift=0.4):
    """Log-probs of three policies, a reference, advantages of both signs, rewards, unequal lengths; `[N, T]`."""
    random = np.random.default_rng(seed)
    behavior = torch.from_numpy(np.log(random.uniform(0.05, 0.95, (N, T))))
    now, middle, reference = (
        (behavior + scale * torch.from_numpy(random.standard_normal((N, T)))).clamp(max=0.0)
        for scale in (drift, 0.5 * drift, 0.3)
    )
    lengths = random.integers(1, T + 1, N)
    lengths[0] = T
    return {
        "log_prob": now,
        "behavior_log_prob": behavior,
        "proximal_log_prob": middle,
        "reference_log_prob": reference,
        "mask": torch.from_numpy((np.arange(T) < lengths[:, None]).astype(np.float64)),
        "advantages": torch.from_numpy(random.standard_normal(N)),
        "rewards": torch.from_numpy(random.integers(0, 2, N).astype(np.float64)),
        "staleness": torch.full((N, T), 3.0, dtype=torch.float64),
    }


def weighed(name, given, **changes):
    return make("methods", name).weigh(**{**given, **changes})


@pytest.mark.parametrize("name", SCORED)
def test_the_loss_has_the_cotangents_as_its_gradient(name):
    """Through autograd, with infinities on masked tokens; and its value is minus the sum of a m c."""
    given = tensors()
    found = weighed(name, given)
    live = torch.where(given["mask"] > 0, given["log_prob"], -torch.inf).requires_grad_()
    loss = make("methods", name).loss(**{**given, "log_prob": live})
    loss.backward()
    assert torch.isfinite(loss) and abs(loss.item() + found.cotangent.sum().item()) < 1e-12
    torch.testing.assert_close(live.grad, -found.cotangent, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", SCORED)
@pytest.mark.parametrize("garbage", [np.inf, -np.inf, np.nan, 1e300])
def test_masked_tokens_of_given_tensors_cannot_matter(name, garbage):
    """Garbage on masked tokens of every tensor: the same cotangents to the bit, and 0 there."""
    given = tensors()
    empty = given["mask"] == 0
    dirty = {
        key: torch.where(empty, garbage, value) if key.endswith("log_prob") else value for key, value in given.items()
    }
    clean, found = weighed(name, given), weighed(name, dirty)
    assert torch.equal(clean.cotangent, found.cotangent)
    assert (found.cotangent[empty] == 0).all() and empty.any()


@pytest.mark.parametrize("name", SCORED)
def test_half_precision_of_the_lab(name):
    """float32 gives the weights of float64 to rounding (exponents of log ratios below 2 lose 1e-6)."""
    given = tensors(drift=0.3)
    exact = weighed(name, given)
    found = weighed(name, {key: value.float() for key, value in given.items()})
    assert found.cotangent.dtype == torch.float32
    torch.testing.assert_close(found.cotangent.double(), exact.cotangent, rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize("name", ANCHORED)
def test_a_declared_anchor_is_the_anchor(name):
    """With the same policy as anchor nothing clips; with another one the weights are those of its ratio."""
    given = tensors(drift=0.8)
    by = {anchor: make("methods", name).replace(anchor=anchor).weigh(**given) for anchor in ("behavior", "proximal")}
    assert not torch.equal(by["behavior"].score_weight, by["proximal"].score_weight)
    swapped = {**given, "behavior_log_prob": given["proximal_log_prob"]}
    same = make("methods", name).replace(anchor="behavior").weigh(**swapped)
    if not make("methods", name).weight.proximal and not make("methods", name).factors:
        torch.testing.assert_close(by["proximal"].score_weight, same.score_weight, rtol=1e-12, atol=0)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_a_sequence_without_tokens_is_a_sequence(aggregator):
    """It is counted in B, has no share of its own, and adds no tokens: what a padded micro-batch contains."""
    batch = case(R=1, G=2, N=3, T=4).batch
    mask = batch.mask.clone()
    mask[0, 1, 2] = 0.0
    share = AGGREGATORS[aggregator](dataclasses.replace(batch, mask=mask)) * mask
    lengths = mask.sum(-1)
    count = {"sequence_sum": 6.0, "sequence_mean": 6.0 * lengths, "token_mean": lengths.sum(), "constant": 24.0}
    denominator = torch.as_tensor(count[aggregator], dtype=torch.float64).expand(1, 2, 3).unsqueeze(-1)
    expected = torch.where(mask > 0, 1.0 / denominator, 0.0)
    torch.testing.assert_close(share.expand(mask.shape), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_rejected_tokens_stay_in_the_denominator(aggregator):
    """A clip that closes on some tokens leaves the others as they are with an open one, to the bit."""
    trial = case(drift=0.4, T=4, ragged=False)
    method = sim.methods.ppo_clip(0.05, 0.05, advantage=sim.advantages.offset(0.5), aggregator=aggregator)
    closed, open_ = (trial.evaluate(m)[0].cotangents["log_prob"] for m in (method, method.replace(weight=OPEN)))
    kept = closed != 0
    assert 0.1 < kept.double().mean() < 0.9 and torch.equal(closed[kept], open_[kept])


def test_masks_leave_penalties_alone():
    """A penalty belongs to every token: what it adds is the same with and without a mask that drops some."""
    trial, penalty = case(drift=0.6, T=4), (sim.penalties.k2(0.3),)
    plain = sim.methods.full_is("token")
    masked = plain.replace(factors=(sim.factors.token_mask(0.9, 1.1),))
    added = [trial.gradient(m.replace(penalties=penalty)) - trial.gradient(m) for m in (plain, masked)]
    assert added[0].abs().max() > 1e-3 and (added[0] - added[1]).abs().max() < 1e-12
    assert (trial.gradient(plain) - trial.gradient(masked)).abs().max() > 1e-3


def test_factors_multiply():
    """Two of them, three of them, in any order; the term on the whole distribution is masked token by token."""
    trial, plain = case(drift=0.6, T=4, N=6), sim.methods.score_centering()
    parts = (sim.factors.token_mask(0.8, 1.3), sim.factors.staleness_weight(exponent=0.5), sim.factors.k2_mask(0.1))
    whole = trial.evaluate(plain)[0]
    each = [part.factor(whole, whole.advantages.unsqueeze(-1)) for part in parts]
    for chosen in ((0, 1), (1, 0), (1, 2), (2, 1, 0)):
        found = trial.evaluate(plain.replace(factors=tuple(parts[k] for k in chosen)))[0].cotangents
        product = torch.ones_like(trial.batch.mask)
        for k in chosen:
            product = product * each[k]
        assert 0.0 < (product == 0).double().mean() < 0.95
        for name, wide in (("log_prob", product), ("log_probs", product.unsqueeze(-1))):
            torch.testing.assert_close(found[name], whole.cotangents[name] * wide, rtol=1e-12, atol=0)


def test_rewards_of_absent_samples_do_not_make_a_group_unequal():
    """A cell of mass 0 is not there, whatever its reward: with equal rewards around it the group is dropped."""
    mass = torch.tensor([[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]]).double()
    for absent in (-9.0, 0.0, 9.0):
        reward = torch.tensor([[[-1.0, -1.0, absent], [-1.0, 1.0, absent]]]).double()
        assert sim.methods.dapo().counted(mass, reward).tolist() == [[[0.0], [1.0]]]


OPEN = sim.methods.full_is("token").weight


def test_the_unchanged_policy_has_ratio_one_and_a_moved_one_has_not():
    for drift, one in ((0.0, True), (0.5, False)):
        signal, _ = case(drift=drift).evaluate(sim.methods.ppo_clip())
        assert bool((signal.applied - 1.0).abs().max() < 1e-12) is one


BAD = {
    "another shape": ({"behavior_log_prob": torch.zeros(6, 4)}, r"behavior_log_prob = \(6, 4\): must be shaped"),
    "no proximal": ({"proximal_log_prob": None}, "proximal_log_prob = None: must be given for ppo_clip"),
    "nothing generated": ({"mask": torch.zeros(6, 5).double()}, "mask = 'all zero in replicate 0'"),
    "a mask of weights": ({"mask": torch.full((6, 5), 0.5).double()}, "mask = 0.5: must be 0 or 1"),
    "above zero": ({"log_prob": torch.full((6, 5), 0.1).double()}, "log_prob = 0.1.*: must be at most 0"),
    "one row": ({"log_prob": torch.zeros(5)}, r"log_prob = \(5,\): must be a tensor \[N, T\]"),
    "advantages of nobody": ({"advantages": torch.zeros(5).double()}, r"advantages = \(5,\): must be one for each"),
    "no advantage at all": ({"advantages": None, "rewards": None}, "rewards = None: must be given, or advantages"),
    "a broken reward": ({"rewards": torch.tensor([1.0] * 5 + [torch.nan]).double()}, "rewards = nan: must be finite"),
    "rewards of nobody": ({"rewards": torch.zeros(6, 5).double()}, r"rewards = \(6, 5\): must be one for each"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tensors_are_named(name):
    changes, message = BAD[name]
    method = sim.methods.ppo_clip(anchor="proximal")
    refused(message, lambda: method.weigh(**{**tensors(), **changes}))


def test_a_group_of_one_is_refused():
    given = {key: value[:1] for key, value in tensors().items()}
    given["advantages"] = None
    refused("samples_per_group = 1: must be at least 2", lambda: sim.methods.grpo().weigh(**given))


def test_densities_may_exceed_one():
    one, method = torch.ones(2, 1), sim.methods.ppo_clip()
    found = method.weigh(one, one, advantages=torch.ones(2), categorical=False)
    assert (found.score_weight == 1.0).all()
