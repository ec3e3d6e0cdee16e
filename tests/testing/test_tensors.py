"""Drawn batches and losses: what the product accepts, with every edge, small where small will do, sharp on a defect."""

import pytest
import torch
from hypothesis import Phase, find, given, settings

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.conformance import check_loss
from asyncsim.conformance._loss_methods import families
from asyncsim.testing import DrawnLoss, batches, losses

KNOWN = {family.name: family for family in families()[0]}


def examples(strategy, count):
    """What a strategy draws first, the same at every run."""
    found = []

    @settings(max_examples=count, phases=[Phase.generate])
    @given(strategy)
    def collect(one):
        found.append(one)

    collect()
    return found


@pytest.fixture(scope="module")
def drawn():
    return examples(batches(), 250)


def far_from(one, other, batch):
    return (getattr(batch, one) - getattr(batch, other)).abs().max()


NOW, THEN, START = "log_prob", "behavior_log_prob", "proximal_log_prob"
EDGES = {
    "one sample": lambda b: b.mask.shape[0] == 1,
    "several samples": lambda b: b.mask.shape[0] > 4,
    "one token": lambda b: b.mask.shape[1] == 1,
    "many tokens": lambda b: b.mask.shape[1] > 6,
    "a sample without tokens": lambda b: bool((b.mask.sum(-1) == 0).any()),
    "holes in the mask": lambda b: bool((b.mask.diff(dim=-1) > 0).any()),
    "no padding": lambda b: bool(b.mask.all()),
    "equal policies": lambda b: far_from(NOW, THEN, b) == 0 == far_from(NOW, START, b),
    "first update": lambda b: far_from(NOW, START, b) == 0 < far_from(NOW, THEN, b),
    "three policies": lambda b: min(far_from(NOW, START, b), far_from(NOW, THEN, b), far_from(START, THEN, b)) > 0,
    "extreme ratio up": lambda b: bool((b.log_prob - b.behavior_log_prob >= 20.0 - 1e-9).any()),
    "extreme ratio down": lambda b: bool((b.behavior_log_prob - b.log_prob >= 20.0 - 1e-9).any()),
    "certain tokens": lambda b: bool((b.log_prob == 0).any()),
    "equal rewards": lambda b: b.rewards.numel() > 1 and b.rewards.std() == 0,
    "right and wrong": lambda b: set(b.rewards.unique().tolist()) == {0.0, 1.0},
    "both signs": lambda b: bool((b.advantages > 0).any() and (b.advantages < 0).any()),
}


@pytest.mark.parametrize("edge", EDGES)
def test_edges_are_reached(drawn, edge):
    assert sum(map(EDGES[edge], drawn)) >= 5


@given(batch=batches("RGNT", samples=4, tokens=5), loss=losses())
def test_every_batch_is_accepted_and_a_loss_descends_along_its_method(batch, loss):
    now, then, start, advantages, mask = batch.arguments
    assert now.shape == mask.shape == advantages.shape and batch.rewards.shape == now.shape[:-1]
    assert max(now.max(), then.max(), start.max()) <= 0 and set(mask.unique().tolist()) <= {0.0, 1.0}
    rewards = {"advantages": advantages, "rewards": advantages[..., 0]}
    weighed = loss.method.weigh(now, then, start, mask=mask, **rewards)
    assert torch.equal(batch.gradient(loss), -weighed.cotangent)
    assert torch.isfinite(weighed.cotangent).all()


@given(batch=batches("NT", far=2.0, advantages_per="token", empty=True, samples=3))
def test_settings_bound_what_is_drawn(batch):
    assert len(batch.mask) <= 3 and batch.mask.shape[1] <= 8
    assert max(far_from(NOW, THEN, batch), far_from(NOW, START, batch), far_from(START, THEN, batch)) <= 2.0 + 1e-12


def test_what_is_asked_for_is_reached(drawn):
    assert any(not b.mask.any() for b in examples(batches(empty=True), 100))
    assert all(b.mask.any() for b in drawn)
    apart = [b for b in examples(batches(advantages_per="token"), 50) if (b.advantages.diff(dim=-1) != 0).any()]
    assert len(apart) > 10 and not any((b.advantages.diff(dim=-1) != 0).any() for b in drawn)


def test_batches_shrink():
    far = find(batches(), EDGES["extreme ratio up"])
    assert far.mask.shape == (1, 1) and far.log_prob.item() == 0 and far.behavior_log_prob.item() == -20
    empty = find(batches(), EDGES["a sample without tokens"])
    assert len(empty.mask) == 2 and empty.rewards.abs().max() == 0 and far_from(NOW, THEN, empty) == 0


def mine(log_prob, behavior_log_prob, advantages, mask):
    weight = ((log_prob - behavior_log_prob) * mask).exp().clamp(max=2.0).detach()
    return -(weight * advantages * log_prob * mask).sum() / mask.sum()


def live(log_prob, behavior_log_prob, advantages, mask):
    weight = ((log_prob - behavior_log_prob) * mask).exp().clamp(max=2.0)
    return -(weight * advantages * log_prob * mask).sum() / mask.sum()


def over_all_places(log_prob, behavior_log_prob, advantages, mask):
    return mine(log_prob, behavior_log_prob, advantages, mask) * mask.sum() / mask.numel()


def property_of(loss):
    """Whether a loss is token TIS, as a property over drawn batches."""
    oracle = DrawnLoss(sim.methods.truncated_is("token"), "truncated_is('token')")

    @settings(max_examples=100, phases=[Phase.generate])
    @given(batches())
    def holds(batch):
        torch.testing.assert_close(batch.gradient(loss), batch.gradient(oracle), rtol=1e-9, atol=1e-12)

    return holds


def test_a_property_over_batches_passes_the_right_loss_and_catches_planted_ones():
    property_of(mine)()
    for wrong in (live, over_all_places):
        with pytest.raises(AssertionError):
            property_of(wrong)()


def test_every_method_and_other_settings_are_drawn():
    found = examples(losses(), 400)
    assert {loss.method.name for loss in found} == {family.method({}).name for family in KNOWN.values()}
    assert sum(loss.label.endswith("()") for loss in found) > 40 < sum("=" in loss.label for loss in found)
    assert find(losses("grpo", "dapo"), lambda loss: "high" in loss.label).label in (
        "grpo(high=0.1)",
        "dapo(high=0.14)",
    )


@pytest.mark.parametrize("name", ["m2po_mask", "topr_roll", "geometric_rs"])
def test_a_drawn_loss_is_its_method(name):
    loss = examples(losses(name), 4)[-1]
    report = check_loss(loss, like=loss.method, bias=False)
    assert report.conforms, str(report)


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("axes", lambda: batches("TN")),
        ("replicates", lambda: batches(replicates=0)),
        ("groups", lambda: batches(groups=1.5)),
        ("samples", lambda: batches(samples=0)),
        ("tokens", lambda: batches(tokens=2000)),
        ("far", lambda: batches(far=-1.0)),
        ("far", lambda: batches(far=float("nan"))),
        ("far", lambda: batches(far=800.0)),
        ("advantages_per", lambda: batches(advantages_per="group")),
        ("empty", lambda: batches(empty=1)),
        ("names", lambda: losses("pp0")),
        ("names", lambda: losses("tba")),
    ],
)
def test_bad_input_is_refused_by_name(field, make):
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.field == field and caught.value.remedy and "\n" not in str(caught.value)
