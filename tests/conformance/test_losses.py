"""The check of losses: right ones are named with their constants, each wrong one with its mistake."""

import functools
import json
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.conformance import ConformanceError, _loss_findings, check_loss
from asyncsim.conformance._loss_methods import families
from asyncsim.conformance._loss_parts import Curves
from asyncsim.conformance._loss_probes import on_policy, ordinary
from asyncsim.conformance._loss_subject import Subject
from tests.conformance import trainers
from tests.conformance.trainers import checked

AGGREGATORS = ("token_mean", "sequence_sum", "sequence_mean", "constant")


RIGHT = {
    # name: (loss, the method it is among, aggregator, anchor, coupling)
    "ppo": (trainers.ppo(), "ppo_clip()", "token_mean", "behavior", "token"),
    "ppo at the snapshot": (
        trainers.ppo(proximal=True),
        "ppo_clip(anchor='proximal')",
        "token_mean",
        "proximal",
        "token",
    ),
    "dual clip": (trainers.ppo(dual=3.0), "ppo_clip(dual=3.0)", "token_mean", "behavior", "token"),
    "dapo": (trainers.ppo(0.2, 0.28), "dapo()", "token_mean", "behavior", "token"),
    "gspo": (trainers.gspo(), "gspo(low=0.01, high=0.02)", "sequence_mean", "behavior", "sequence"),
    "cispo": (trainers.cispo(), "cispo(anchor='proximal', high=3.0)", "token_mean", "proximal", "token"),
    "token truncation": (
        trainers.truncated(),
        "truncated_is(level='token', cap=2.5, aggregator='token_mean')",
        "token_mean",
        "behavior",
        "token",
    ),
    "sequence truncation": (
        trainers.truncated(6.0, "sequence", "sequence_mean"),
        "truncated_is(cap=6.0)",
        "sequence_mean",
        "behavior",
        "sequence",
    ),
    "token mask": (trainers.banded(0.4, 3.0), "icepop(low=0.4, high=3.0)", "token_mean", "behavior", "token"),
    "decoupled": (trainers.decoupled(), "decoupled_ppo()", "token_mean", "behavior and proximal", "token"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_loss_is_named_with_its_constants(name):
    loss, method, aggregator, anchor, coupling = RIGHT[name]
    report = checked(loss)
    assert report.conforms and report.bugs == () and report.disagreement is None, report
    assert method in (report.name, *report.same), report
    assert (report.aggregator, report.anchor, report.coupling) == (aggregator, anchor, coupling)
    assert report.scale == pytest.approx(1.0, abs=1e-12) and report.match.largest < 1e-9


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_every_aggregator_is_told(aggregator):
    report = checked(trainers.ppo(how=aggregator), sim.methods.grpo(aggregator=aggregator))
    assert report.conforms and report.aggregator == aggregator
    assert report.match.method == "grpo"


@pytest.mark.parametrize("aggregator", AGGREGATORS[1:])
def test_another_aggregator_deviates(aggregator):
    report = checked(trainers.ppo(), sim.methods.ppo_clip(aggregator=aggregator))
    assert not report.conforms and report.disagreement is not None
    assert report.bugs == () and report.name == "ppo_clip()"


WRONG = {
    # bug: (loss, what it is meant to be)
    "ratio": ("ratio identically 1", trainers.ratio_of_itself, "ppo_clip"),
    "cap": ("tokens above the cap lose their gradient", trainers.live_truncation, None),
    "infinities": ("infinite ratios get weight 0", trainers.infinities_first, None),
    "unused": ("behavior weight not applied", trainers.decoupled(applied=False), "decoupled_ppo"),
    "twice, at the lag": ("ratio applied twice", trainers.corrected_twice, None),
    "twice, at the drift": ("ratio applied twice", trainers.corrected_twice_clipped, None),
    "inverse": (
        "bounds act on the inverse ratio",
        trainers.banded(0.6, 1.6, inverse=True),
        sim.methods.icepop(low=0.6, high=1.6),
    ),
    "broadcast": ("advantages broadcast across sequences", trainers.unsqueezed, None),
    "sum": ("aggregator off by the number of sequences", trainers.summed, None),
    "divided twice": ("aggregator off by the number of sequences", trainers.divided_twice, None),
    "threshold": ("threshold depends on the split", trainers.local_threshold, None),
    "in place": ("inputs changed in place", trainers.mutating, None),
    "standardized": ("advantages standardized again", trainers.standardizing, None),
    "order": ("depends on the order of sequences", trainers.by_position, None),
    "k1": ("KL as a k1 loss", trainers.penalized("k1"), None),
    "no clip": ("clipping silently off", trainers.unclipped, "ppo_clip"),
    "wrong side": ("clip closes on the wrong side", trainers.wrong_side(), None),
    "slope of a weight": ("gradient of the weight in place of log_prob's", trainers.differentiated, None),
    "wrong side, at the snapshot": (
        "clip closes on the wrong side",
        trainers.wrong_side(0.1, 0.3, True),
        sim.methods.ppo_clip(0.1, 0.3, anchor="proximal"),
    ),
    "wrong side, anchor not named": ("clip closes on the wrong side", trainers.wrong_side(proximal=True), "ppo_clip"),
    "turned": ("sign turned around", lambda *given: -trainers.ppo()(*given), "ppo_clip"),
    "turned, not named": ("sign turned around", lambda *given: -trainers.truncated(6.0, "sequence")(*given), None),
    "leak": ("masked tokens matter", trainers.unmasked_sequence_ratio, None),
    "snapshot": (
        "ratio to the snapshot in place of behavior",
        lambda now, mu, prox, advantages, mask: trainers.truncated(6.0, "sequence")(now, prox, mu, advantages, mask),
        sim.methods.truncated_is(cap=6.0, aggregator="token_mean"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_named_and_nothing_else(name):
    bug, loss, like = WRONG[name]
    report = checked(loss, like)
    assert not report.conforms and report.bugs == (bug,), report
    found = next(finding for finding in report.findings if finding.name == bug)
    assert len(found.evidence) > 20 and len(found.remedy) > 10
    assert bug in str(report) and bug in _loss_findings.NAMES


def test_rows_without_tokens_outside_of_the_count_are_a_convention():
    report = checked(trainers.empty_left_out)
    assert report.conforms and report.bugs == () and report.shows("fully masked sequences leave the count")
    assert "x B / (B - M)" in report.aggregator


HAZARDS = {
    "mask": ("not finite with garbage on masked tokens", trainers.multiplied_mask, trainers.ppo()),
    "overflow": ("not finite at extreme log ratios", trainers.overflowing, trainers.ppo()),
    "empty": ("not finite with a fully masked sequence", trainers.empty_not_finite, trainers.ppo(how="sequence_mean")),
}


@pytest.mark.parametrize("name", HAZARDS)
def test_a_hazard_is_told_and_counts_when_strict(name):
    hazard, loss, safe = HAZARDS[name]
    report = checked(loss)
    assert report.conforms and report.shows(hazard), report
    assert not checked(loss, strict=True).conforms
    assert checked(loss, strict=True, allow=[f.name for f in report.findings if f.kind == "hazard"]).conforms
    assert not checked(safe).shows(hazard)


def test_a_std_of_one_token_is_told():
    alone = "not finite with a single token"
    found = next(finding for finding in checked(trainers.standardizing).findings if finding.name == alone)
    assert found.kind == "hazard" and "in a batch of one token" in found.evidence and alone in _loss_findings.NAMES
    assert not checked(functools.partial(trainers.standardizing, correction=0)).shows(alone)


NOTES = {
    "no ratio": trainers.ratio_of_itself,
    "staleness is invisible": trainers.ppo(proximal=True),
    "dual clip": trainers.ppo(dual=3.0),
    "no dual clip": trainers.ppo(),
    "no kink": trainers.unclipped,
    "depends on micro-batches": trainers.ppo(),
    "a penalty": trainers.penalized("k2"),
    "inputs not detached": trainers.ppo(),
}


@pytest.mark.parametrize("note", NOTES)
def test_a_property_is_told(note):
    report = checked(NOTES[note])
    assert report.conforms and report.shows(note), report
    assert note not in _loss_findings.NAMES


def test_notes_are_not_told_of_everything():
    found = {finding.name for finding in checked(trainers.truncated(6.0, "sequence", "sequence_mean")).findings}
    assert not found & NOTES.keys() - {"inputs not detached"}
    assert not checked(trainers.detached).shows("inputs not detached")


def test_strict_means_something():
    assert checked(trainers.ppo(), "ppo_clip", strict=True).conforms


def test_a_name_stands_for_both_anchors():
    report = checked(trainers.ppo(proximal=True), "ppo_clip")
    assert report.conforms and report.like == "ppo_clip(anchor='proximal')" and report.distance < 1e-9
    assert "compared with anchor='proximal', with which it explains every token" in str(report)
    own = checked(trainers.ppo(), "ppo-clip")
    assert own.conforms and own.like == "ppo_clip()" and own.compared == ""
    other = checked(trainers.ppo(0.3, proximal=True), "ppo_clip")
    assert not other.conforms and other.bugs == () and other.like == "ppo_clip(anchor='proximal')"
    assert "the only log-probs that the loss reads" in other.compared


NAMED = {
    # asked: (how it is asked for, loss with the other anchor)
    "behavior": ({"like": "ppo_clip", "anchor": "behavior"}, trainers.ppo(proximal=True)),
    "behavior, a method": ({"like": sim.methods.ppo_clip()}, trainers.ppo(proximal=True)),
    "proximal": ({"like": "ppo_clip", "anchor": "proximal"}, trainers.ppo()),
}


@pytest.mark.parametrize("name", NAMED)
def test_another_anchor_is_no_bug(name):
    keywords, loss = NAMED[name]
    asked = name.partition(",")[0]
    found = "behavior" if asked == "proximal" else "proximal"
    report = checked(loss, **keywords)
    assert not report.conforms and report.bugs == ()
    finding = next(one for one in report.findings if one.name == f"anchor: {found} where {asked} was asked for")
    assert finding.kind == "note" and finding.remedy.startswith(f"compare with anchor='{found}', or hand over {asked}")
    assert not report.shows("staleness is invisible") and f"anchor={asked!r}" in report.like
    assert checked(loss, keywords["like"], anchor="either").conforms


@pytest.mark.parametrize(("sign", "remedy"), [(1, "take the minimum of objectives"), (-1, "turn the sign")])
def test_a_wrong_side_tells_its_cause(sign, remedy):
    # With advantages of the other sign PPO, too, closes on the wrong side.
    def turned(now, mu, proximal, advantages, mask):
        return trainers.ppo()(now, mu, proximal, -advantages, mask)

    report = checked(trainers.wrong_side() if sign > 0 else turned)
    assert report.bugs == ("clip closes on the wrong side",) and report.scale * sign > 0
    found = next(finding for finding in report.findings if finding.name == "clip closes on the wrong side")
    assert found.remedy.startswith(remedy) and "0.8" in found.evidence and "1.2" in found.evidence


def test_kinks_name_their_ratio():
    def kinks(loss):
        return " ".join(checked(loss).kinks)

    assert "jump at pi / mu = 1.2 " in kinks(trainers.ppo()) and "pi_prox" not in kinks(trainers.ppo())
    assert "jump at pi / pi_prox = 1.2 " in kinks(trainers.ppo(proximal=True))
    assert "/ mu" not in kinks(trainers.ppo(proximal=True))
    assert "jump at pi / pi_prox = 1.2 " in kinks(trainers.decoupled())
    assert "bend at pi_prox / mu = 5 " in kinks(trainers.decoupled())


def test_the_distance_to_the_asked_method_is_printed():
    report = checked(trainers.truncated(2.5, "token"), sim.methods.truncated_is("token", cap=2.0))
    assert not report.conforms and report.distance == pytest.approx(0.2)  # (2.5 - 2) / 2.5
    assert f"maximum deviation of a token from {report.like}: 0.2" in str(report)
    assert "maximum deviation of a token from" not in str(checked(trainers.ppo(), "ppo_clip"))


def test_settings_have_four_digits():
    report = checked(trainers.ppo(0.2, 0.123456), sim.methods.ppo_clip(0.2, 0.123456))
    assert report.conforms and "high=0.1235" in report.like and "high=0.1235" in report.name
    assert report.match.settings["high"] == pytest.approx(0.123456)


@pytest.mark.parametrize(("kind", "other"), [("k1", {}), ("k2", {}), ("k3", {"coefficient": 0.3})])
def test_a_penalty_is_measured(kind, other):
    """Those without another coefficient are losses of other tests, which are checked once."""
    report, size = checked(trainers.penalized(kind, **other)), other.get("coefficient", 0.1)
    assert report.match.settings["penalties"] == f"({kind}({size}, to='behavior'),)" and report.match.largest < 1e-9
    assert report.conforms == (kind != "k1")


FAMILIES, _ = families()
UNREAD = {"delight"}
"""Methods that weigh fresh data by more than its advantage: how they average tokens cannot be read off there."""


SEARCHING = {"bapo_code", "bapo_paper", "m2po_areal", "m2po_waterfill", "p3o", "kl_cov"}
"""Methods with a number that is found in the batch, so that each token is asked alone; a method of each kind of search
is asked in every run (m2po_mask, sat, kpop), these by `make test-rows`."""
SETTINGS = {
    "icepop": {"ratio": "h", "low": 0.3, "high": 4.0},
    "geometric_rs": {"low": 0.9, "high": 1.2},
    "dppo_tv": {"low": 0.1, "high": 0.3, "cap": 5.0},
    "gmpo": {"low": 0.3, "high": 0.5},
    "gipo": {"sigma": 0.7},
    "vespo": {"k_positive": 1.5},
    "kimi": {"tau": 0.25},
    "m2po_mask": {"tau": 0.1},
    "truncated_is": {"level": "token", "normalize": "tokens"},
}
"""Methods that are asked with these settings in every run, and with their defaults by `make test-rows`."""
RARELY = SEARCHING | SETTINGS.keys()


@pytest.mark.parametrize(
    "family", [pytest.param(each, id=each.name, marks=[pytest.mark.rows] * (each.name in RARELY)) for each in FAMILIES]
)
def test_the_loss_of_every_method_is_that_method(family):
    method = family.method({})
    report = checked(trainers.loss_of(method), method)
    assert report.conforms, report
    assert report.match.method == family.name
    assert report.aggregator == ("unknown" if family.name in UNREAD else method.aggregator)
    assert report.name.partition("(")[0] == family.name


@pytest.mark.parametrize("pair", [("ppo_clip", "dapo"), ("ppo_clip", "sat"), ("truncated_is", "full_is")])
def test_methods_that_differ_are_told_apart(pair):
    names = {family.name: family for family in FAMILIES}
    if not names.keys() >= set(pair):
        pytest.skip(f"no {' or '.join(pair)}")
    one, other = (names[name].method({}) for name in pair)
    assert not checked(trainers.loss_of(other), one).conforms


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_are_found(name):
    family = next((family for family in FAMILIES if family.name == name), None)
    if family is None:
        pytest.skip(f"no {name}")
    match = checked(trainers.loss_of(family.method(SETTINGS[name]))).match
    assert match.method == name
    # Settings are searched on numbers whose last bits are a processor's.
    found = {key: value for key, value in match.settings.items() if key != "aggregator"}
    assert {
        key: value if isinstance(value, str) else float(f"{value:.9g}") for key, value in found.items()
    } == SETTINGS[name]


def test_methods_that_need_more_are_named():
    _, skipped = families()
    report = checked(trainers.ppo())
    assert "methods not compared: " in str(report)
    assert skipped and all(any(text.startswith(name) for text in report.unchecked) for name in skipped)
    assert skipped["clip_cov"].startswith("stops tokens of fresh data")
    assert skipped["gmc_grpo"].startswith("weighs each row by the others of its group")
    assert "gradient" in skipped and not skipped.keys() & {family.name for family in FAMILIES}


@settings(max_examples=4, deadline=None)
@given(low=st.floats(0.01, 0.9), high=st.floats(0.01, 4.0), seed=st.integers(0, 99))
def test_bounds_are_read_off(low, high, seed):
    report = checked(trainers.ppo(low, high), seed=seed)
    assert report.conforms, report
    by_sign = {"A > 0": 1 + high, "A < 0": 1 - low}
    for sign, bound in by_sign.items():
        text = next(text for text in report.kinks if sign in text)
        assert float(text.split(" = ")[1].split()[0]) == pytest.approx(bound, rel=1e-5)


def test_a_factor_is_reported_apart():
    loss = trainers.ppo()
    report = checked(lambda *tensors: 2.5 * loss(*tensors))
    assert report.conforms and report.scale == pytest.approx(2.5)


def test_the_first_disagreement_is_where_the_band_differs():
    report = checked(trainers.ppo(0.2, 0.2), "dapo")
    where = report.disagreement
    probe = next(probe for probe in ordinary(0) if probe.name == where.probe)
    ratio = math.exp(float(probe.log_prob[where.sequence, where.token] - probe.behavior[where.sequence, where.token]))
    assert 1.2 < ratio <= 1.28 and float(probe.advantages[where.sequence, 0]) > 0
    assert where.found == 0.0
    assert where.expected == pytest.approx(ratio * float(probe.advantages[where.sequence, 0] / probe.mask.sum()))
    assert report.name == "ppo_clip()" and not report.conforms


def test_moments_are_those_of_the_method():
    report = check_loss(trainers.ppo(), advantage=sim.advantages.group_mean())
    assert len(report.bias) == 9 and all(row.same for row in report.bias)
    assert "first update of a batch (pi_prox = pi)" in str(report) and "displacement 0 is not staleness" in str(report)
    row = report.bias[1]
    task = sim.tasks.token_bandit(actions=2, horizon=2, dependence="position", ends=True)
    now = torch.linspace(-0.3, 0.4, 4, dtype=torch.float64).numpy()
    then = now + row.displacement * torch.cos(2.0 * torch.arange(4, dtype=torch.float64)).numpy()
    moments = sim.oracle.moments(task, sim.methods.ppo_clip(), now, then, samples=row.samples)
    norm = float((moments.exact**2).sum()) ** 0.5
    assert row.bias == pytest.approx(float((moments.bias**2).sum()) ** 0.5 / norm)
    assert row.variance == pytest.approx(moments.variance / norm**2)


def test_moments_that_cannot_be_had_are_told():
    def picky(now, then, before, advantages, mask):
        assert now.shape[1] != 2, "two tokens"
        return trainers.ppo()(now, then, before, advantages, mask)

    report = check_loss(picky)
    assert report.conforms and report.bias == () and "two tokens" in report.omitted
    assert "no moments: " in str(report) and not any("two tokens" in text for text in report.unchecked)


def test_moments_of_a_loss_of_its_own():
    def sequence_ratio(now, then, before, advantages, mask):
        ratio = trainers.log_ratio(now, then, mask).sum(-1).exp()
        return -(3.0 * ratio * advantages[:, 0]).mean()

    exact = check_loss(sequence_ratio, "full_is").bias
    assert max(row.bias for row in exact) < 1e-9 and min(row.cosine for row in exact) > 1 - 1e-9
    report = check_loss(trainers.ratio_of_itself, sim.methods.full_is(aggregator="token_mean"))
    stale = report.bias
    assert f"in brackets those of {report.like}:" in str(report) and report.like != report.match.label
    assert all(row.bias > 0.05 for row in stale) and not all(row.same for row in stale)


def test_a_loss_with_float32_inside():
    def loss(*tensors):
        return trainers.ppo()(*(x.float() for x in tensors)).double()

    report = checked(loss, tolerance=1e-5)
    assert report.conforms and report.name == "ppo_clip()" and report.match.largest > 0, report


def test_a_shared_threshold_is_asked_token_by_token():
    assert not Curves(Subject(trainers.local_threshold)).separable
    assert Curves(Subject(trainers.ppo())).separable
    assert Curves(Subject(trainers.standardizing)).pair


def test_smooth_constants_are_fitted():
    def sapo(now, then, before, advantages, mask):
        ratio = trainers.log_ratio(now, then, mask).exp()
        slope = torch.where(advantages > 0, 1.3, 1.6)
        gate = torch.sigmoid(slope * (ratio - 1.0)) * 4.0 / slope
        return -trainers.mean_of(gate * advantages, mask, "sequence_mean")

    report = checked(sapo, tolerance=1e-5)
    assert report.name == "sapo(positive=1.3, negative=1.6)", report


def test_batches_have_what_tells_methods_apart():
    probes = ordinary(0)
    assert {len(p.mask) for p in probes} >= {2, 4, 6, 8} and {p.mask.shape[1] for p in probes} >= {1, 3, 6, 9}
    assert all(float(p.mask[0].sum()) >= p.mask.shape[1] - 1 for p in probes)
    assert all((p.advantages > 0).any() and (p.advantages < 0).any() for p in probes)
    assert all((p.log_prob <= 0).all() and (p.behavior <= 0).all() and (p.proximal <= 0).all() for p in probes)
    assert all(torch.equal(p.log_prob, p.behavior) for p in on_policy(probes))
    same = ordinary(0), ordinary(1)
    assert torch.equal(same[0][3].log_prob, probes[3].log_prob)
    assert not torch.equal(same[1][3].log_prob, probes[3].log_prob)


def test_a_report_is_a_value():
    report = checked(trainers.ratio_of_itself, "ppo_clip")
    assert str(report) == str(checked(trainers.ratio_of_itself, "ppo_clip"))
    record = json.loads(json.dumps(report.record()))
    assert record["conforms"] is False and record["match"]["label"] == report.match.label
    assert record["findings"][0]["name"] == "ratio identically 1"
    with pytest.raises(ConformanceError) as caught:
        report.raise_for_failure()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(report)
    with pytest.raises(ConformanceError, match="ratio identically 1"):
        checked(trainers.ratio_of_itself, "ppo_clip", check=True)
    assert checked(trainers.ppo(), check=True).passed


def test_an_allowed_bug_does_not_count():
    assert checked(trainers.penalized("k1"), allow=("KL as a k1 loss",)).conforms
    # A gradient that is another one is not allowed by any name.
    assert not checked(trainers.corrected_twice, allow=("ratio applied twice",)).conforms


BAD = {
    "not callable": (3, {}, "loss"),
    "a matrix": (lambda now, *_: now, {}, "loss"),
    "a number": (lambda now, *_: 3.0, {}, "loss"),
    "detached": (lambda now, *_: now.detach().sum(), {}, "loss"),
    "of others": (lambda now, then, *_: then.sum(), {}, "loss"),
    "random": (lambda now, *_: (now * torch.rand_like(now)).sum(), {}, "loss"),
    "fails": (lambda now, *_: now[100].sum(), {}, "loss"),
    "other arguments": (lambda now: now.sum(), {}, "loss"),
    "nan": (lambda now, *_: now.sum() * float("nan"), {}, "loss"),
    "unknown method": (trainers.ppo(), {"like": "ppo_clop"}, "like"),
    "no method": (trainers.ppo(), {"like": 3}, "like"),
    "method of more": (trainers.ppo(), {"like": "gradient"}, "like"),
    "unknown anchor": (trainers.ppo(), {"like": "ppo_clip", "anchor": "mu"}, "anchor"),
    "anchor of nothing": (trainers.ppo(), {"anchor": "behavior"}, "anchor"),
    "unknown finding": (trainers.ppo(), {"allow": ("typo",)}, "allow"),
    "tolerance": (trainers.ppo(), {"tolerance": 0.0}, "tolerance"),
    "seed": (trainers.ppo(), {"seed": -1}, "seed"),
    "strict": (trainers.ppo(), {"strict": 1}, "strict"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    loss, keywords, field = BAD[name]
    with pytest.raises(InputError) as caught:
        check_loss(loss, **keywords)
    assert caught.value.field == field and caught.value.remedy


def test_the_package_has_its_names_alone():
    assert "check_loss" in dir(sim.conformance)
    with pytest.raises(AttributeError, match="no_such"):
        sim.conformance.no_such  # noqa: B018


def test_a_sign_is_named_where_the_loss_is_another_method_than_was_said():
    """A token-level loss that is compared with weights of sequences; of the right sign nothing is said."""

    def signed(log_prob, old_log_prob, advantages, mask):
        ratio = (log_prob - old_log_prob).exp()
        return (ratio * advantages * mask).sum() / mask.sum()

    def right(log_prob, old_log_prob, advantages, mask):
        return -signed(log_prob, old_log_prob, advantages, mask)

    for fn, bugs in ((signed, ["sign turned around"]), (right, [])):
        assert list(check_loss(fn, like=sim.methods.full_is()).bugs) == bugs
