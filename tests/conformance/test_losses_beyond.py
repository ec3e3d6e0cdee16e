"""What a loss does beyond short rows of one small advantage: each mistake is named, the method beside it as well."""

import math

import pytest
import torch

import asyncsim as sim
from asyncsim.conformance import _loss_findings, adapters
from asyncsim.conformance._loss_probes import INSIDE, LARGEST, LONG, LONGEST, beyond
from tests.conformance import field, planted_losses, trainers
from tests.conformance.planted_losses import clipped
from tests.conformance.test_losses import WRONG
from tests.conformance.trainers import checked

RIGHT = "ppo_clip(high=0.28, dual=3.0)"


PLANTED = {
    # name: (bug, loss, what of the method is found all the same)
    "first token's advantage": (
        "one token's advantage for the whole row",
        clipped(lambda a, m: a[:, :1].expand_as(a)),
        RIGHT,
    ),
    "last token's advantage": ("one token's advantage for the whole row", clipped(planted_losses.last_of_row), RIGHT),
    "mean advantage": ("advantages averaged over the row", clipped(planted_losses.row_mean), RIGHT),
    "first token's sign": (
        "one token's sign for the whole row",
        clipped(lambda a, m: a.abs() * a[:, :1].sign()),
        RIGHT,
    ),
    "first token's side of the clip": (
        "one token's sign decides for the whole row",
        planted_losses.side_of_the_first,
        RIGHT,
    ),
    "first token's side of the dual clip": (
        "other weights where advantages differ inside a row",
        planted_losses.dual_of_the_first,
        RIGHT,
    ),
    "clamped at 2": ("advantages are clamped", clipped(lambda a, m: a.clamp(-2, 2)), RIGHT),
    "clamped at 5": ("advantages are clamped", clipped(lambda a, m: a.clamp(-5, 5)), RIGHT),
    "clamped above 1/2 alone": ("advantages are clamped", clipped(lambda a, m: a.clamp(max=0.5)), RIGHT),
    "squashed": ("advantages are changed", clipped(lambda a, m: a.tanh()), RIGHT),
    "other clip for large ones": ("other weights for large advantages", planted_losses.narrower_for_large, "dapo()"),
    "live clamp at 8.2": ("log ratio clamped live", clipped(limit=8.2), RIGHT),
    "live clamp at 15": ("log ratio clamped live", clipped(limit=15.0), RIGHT),
    "rows beyond 16": ("tokens far back in a row are left out", clipped(keep=planted_losses.first_sixteen), RIGHT),
    "length of 16": (
        "other weights in long rows",
        planted_losses.length_of_sixteen,
        "ppo_clip(high=0.28, dual=3.0, aggregator='sequence_mean')",
    ),
    "shifted": ("first token left out", planted_losses.shifted, RIGHT),
    "cut short": ("last token left out", planted_losses.without_the_last, RIGHT),
    "first token by the mask": ("first token left out", clipped(keep=planted_losses.behind_the_first), RIGHT),
    "cap below 1": ("cap below 1", field.closed_cispo(0, 0, cap=0.2), "cispo(high=-0.8, anchor='proximal')"),
}

without = planted_losses.without
RARE = {
    # name: (bug, loss), each as right as can be on all other batches
    "rows with a ratio below 1e-4": (
        "other weights beside a far token",
        without(lambda gap, p, a, m: gap.amin(-1, keepdim=True) >= math.log(1e-4)),
    ),
    "rows with a ratio above 100": (
        "other weights beside a far token",
        without(lambda gap, p, a, m: gap.amax(-1, keepdim=True) <= math.log(100.0)),
    ),
    "advantages below .1": ("other weights for small advantages", without(lambda gap, p, a, m: a.abs() >= 0.1)),
    "advantages below .002": ("other weights for small advantages", without(lambda gap, p, a, m: a.abs() >= 0.002)),
    "probabilities above .97": ("other weights for likely tokens", without(lambda gap, p, a, m: p < -0.03)),
    "the longest row": ("other weights in odd batches with padding", planted_losses.longest_row),
    "an odd row": ("other weights in odd batches with padding", without(planted_losses.even_rows)),
    "rows of 17 to 31": (
        "other weights at some lengths",
        without(lambda gap, p, a, m: (m.sum(-1, keepdim=True) - 24).abs() > 7),
    ),
    "large advantages far back": (
        "other weights at some lengths",
        without(lambda gap, p, a, m: ~((torch.arange(m.shape[1]) > 20) & (a.abs() > 3.0))),
    ),
}


@pytest.mark.parametrize("name", RARE)
def test_what_is_wrong_in_rare_batches_alone_is_named_by_them(name):
    bug, loss = RARE[name]
    report = checked(loss, sim.methods.ppo_clip(high=0.28, dual=3.0))
    assert not report.conforms and bug in report.bugs, report


def test_rows_that_are_left_out_are_no_tokens_far_back():
    report = checked(without(lambda gap, p, a, m: m.sum(-1, keepdim=True) <= 16))
    assert not report.conforms and report.bugs == ("other weights in long rows",)


def test_a_loss_without_weights_at_ratio_1_is_unlike_every_method():
    report = checked(planted_losses.bound_as_offset)
    assert not report.conforms and report.name == "unknown"


BOUNDS = {
    "clamped at 5": "above 5 or below -5",
    "live clamp at 8.2": "log ratio of 8.2 ",
    "rows beyond 16": "behind the 16th",
    "cap below 1": "min(ratio, 0.2)",
}
"""What was measured of a mistake."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_is_named_beside_the_method(name):
    bug, loss, method = PLANTED[name]
    report = checked(loss)
    assert not report.conforms and report.bugs == (bug,), report
    assert method in (report.name, *report.same), report
    assert str(report).splitlines()[2] == f"bugs: {bug}" and bug in _loss_findings.NAMES
    assert BOUNDS.get(name, "") in report.findings[0].evidence


def test_the_loss_without_a_mistake_is_right():
    report = checked(clipped())
    assert report.conforms and report.name == RIGHT and report.bugs == () and report.excepted == ()


def test_there_are_many_plants_and_none_is_silent():
    assert len({bug for bug, *_ in (*WRONG.values(), *PLANTED.values())}) >= 30
    assert len(WRONG) + len(PLANTED) >= 40


@pytest.mark.parametrize("name", ["first token's advantage", "clamped at 5", "shifted"])
def test_it_deviates_from_the_asked_method_and_no_name_allows_it(name):
    bug, loss, _ = PLANTED[name]
    like = sim.methods.ppo_clip(high=0.28, dual=3.0)
    report = checked(loss, like, allow=(bug,))
    assert not report.conforms and report.bugs == (bug,)
    assert report.distance > 0.1 or bug == "first token left out"


def test_one_advantage_for_each_row_is_a_way_to_be_asked():
    loss = PLANTED["first token's advantage"][1]
    report = checked(loss, advantages_per="sequence")
    assert report.conforms and report.name == RIGHT
    assert any(INSIDE in text for text in report.unchecked) and f"unchecked: {INSIDE}" in str(report)
    with pytest.raises(sim.InputError, match="advantages_per"):
        checked(loss, advantages_per="row")


def test_a_live_ratio_of_the_row_averages_and_that_is_a_note():
    named = checked(trainers.gspo(), sim.methods.gspo(low=0.01, high=0.02))
    assert named.conforms and named.bugs == () and named.shows("advantages averaged over the row")

    def detached(log_prob, behavior, proximal, advantages, mask):
        mean = trainers.log_ratio(log_prob, behavior, mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)
        ratio = (log_prob - log_prob.detach() + mean.detach()).exp()
        return -trainers.mean_of(trainers.surrogate(ratio, advantages, 0.01, 0.02), mask, "sequence_mean")

    own = checked(detached, sim.methods.gspo(low=0.01, high=0.02))
    assert own.conforms and not own.shows("advantages averaged over the row")


KNOWN = {
    # log ratio and loss: whether a clamp there is one that trainers are known for
    "20": (clipped(), None),
    "20, no dual clip": (trainers.ppo(), "verl, OpenRLHF and SkyRL"),
    "10, of a row": (field.limited_gspo, "verl and SkyRL"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_clamp_that_trainers_have_is_told_as_what_it_is(name):
    loss, said = KNOWN[name]
    report = checked(loss)
    assert report.conforms
    found = [f for f in report.findings if f.name == "log ratio clamped live"]
    # With a dual clip no weight is left at 20.
    assert [f.kind for f in found] == ([] if said is None else ["note"])
    assert all(said in f.evidence and "asyncsim keeps that of e^20" in f.evidence for f in found)


def test_a_clamp_at_ten_is_no_custom_of_token_ratios():
    assert checked(clipped(limit=10.0)).bugs == ("log ratio clamped live",)


def test_a_large_dual_clip_and_a_large_cap_are_no_clamps():
    report = checked(trainers.ppo(dual=4000.0))
    assert report.conforms and report.name == "ppo_clip(dual=4000.0)" and not report.shows("log ratio clamped live")
    report = checked(trainers.truncated(1e5))
    assert report.conforms and "1e+05" in report.name and not report.shows("log ratio clamped live")


def test_what_is_not_probed_is_listed():
    report = checked(trainers.ppo())
    text = " ".join(report.unchecked)
    assert f"advantages larger than {LARGEST:g}" in text and f"more than {LONGEST} tokens" in text and "25" in text
    assert "unchecked: advantages larger than 20" in str(report)


def test_further_batches_have_what_they_are_named_for():
    found = beyond(0)
    mixed = found[INSIDE]
    assert all(float(p.advantages.abs().max()) == LARGEST for p in mixed)
    assert all(bool((p.advantages[:, 0] * p.advantages[:, 1] < 0).all()) for p in mixed)
    assert found[LONG][0].mask.shape[1] == LONGEST and float(found[LONG][0].mask.sum(-1).max()) == LONGEST
    assert INSIDE not in beyond(0, inside=False)
    assert not torch.equal(beyond(1)[INSIDE][0].advantages, mixed[0].advantages)


def test_a_loss_that_fails_in_long_rows_deviates_instead_of_ending_the_check():

    def fails(log_prob, behavior, proximal, advantages, mask):
        assert mask.shape[1] < LONGEST, "too long"
        return trainers.ppo()(log_prob, behavior, proximal, advantages, mask)

    report = checked(fails)
    assert (
        not report.conforms
        and report.bugs == ("other weights in long rows",)
        and report.excepted == (LONG, "rows of other lengths")
    )


def test_losses_of_trl_take_one_advantage_for_each_row():
    pytest.importorskip("trl")
    assert adapters.trl("grpo").advantages_per == "sequence"
