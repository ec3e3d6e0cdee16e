"""Arguments of a loss: told by name in any order, refused where a name says nothing, left alone with a default."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim.base.arguments import DOCUMENTED, bind, role_of
from asyncsim.conformance import check_loss
from tests.conformance import trainers
from tests.refusals import refused

NAMES = {
    "log_prob": "log_prob log_probs logp logprobs new_log_probs curr_logp per_token_logps log_pi current_logprobs",
    "behavior_log_prob": "behavior behavior_log_prob mu rollout_log_probs sampling_logps inference_logprobs behav_logp",
    "proximal_log_prob": "proximal proximal_log_prob prox_logp snapshot pi_prox_logp",
    "advantages": "advantages adv advs token_advantages A",
    "mask": "mask response_mask loss_mask completion_mask action_masks",
    "old": "old old_logp old_log_probs old_per_token_logps prev_logp log_pi_old",
    None: "ref_log_prob rewards eps logits log_ratio attention_mask returns x target_logprobs",
}


@pytest.mark.parametrize("role", NAMES)
def test_a_name_says_which_tensor_it_is(role):
    for name in NAMES[role].split():
        assert role_of(name) == role, name


def made(names, extra=""):
    """A function that returns what it was given, by argument."""
    space = {}
    exec(f"def f({', '.join(names)}{extra}): return dict(locals())", space)
    return space["f"]


TENSORS = dict(zip(DOCUMENTED, "nbpam", strict=True))


@settings(max_examples=60)
@given(
    picks=st.tuples(*(st.sampled_from(NAMES[role].split()) for role in DOCUMENTED)),
    order=st.permutations(range(5)),
    defaulted=st.sampled_from(("", ", eps=0.2", ", *, rewards=None, clip=3")),
)
def test_every_order_of_known_names_is_understood(picks, order, defaulted):
    names = [picks[i] for i in order]
    found = bind(made(names, defaulted))(*TENSORS.values())
    assert [found[name] for name in picks] == list(TENSORS.values())
    assert all(value in (0.2, None, 3) for name, value in found.items() if name not in picks)


OLD = {
    # the arguments beside log_prob, advantages and mask: which policy the old log-probs are
    ("old_logp",): "b",
    ("old_logp", "proximal"): "b",
    ("old_logp", "rollout_log_probs"): "p",
}


@pytest.mark.parametrize("others", OLD)
def test_old_log_probs_are_those_of_the_policy_that_nobody_else_names(others):
    for order in itertools.permutations(("logp", *others, "advantages", "mask")):
        assert bind(made(order))(*TENSORS.values())["old_logp"] == OLD[others]


def test_a_tensor_that_is_not_asked_for_is_not_given_and_defaults_stay():
    binding = bind(made(["logp", "old_logp", "advantages", "mask"], ", eps=0.2, old_kl=None"))
    assert binding(*TENSORS.values()) == {
        "logp": "n",
        "old_logp": "b",
        "advantages": "a",
        "mask": "m",
        "eps": 0.2,
        "old_kl": None,
    }
    assert "it takes no proximal_log_prob" in binding.notes[0] and "old_logp is behavior_log_prob" in binding.notes[0]
    assert binding.notes[1] == "left at their defaults: eps=0.2, old_kl=None"


BY_POSITION = {
    "no name says anything": made(list("vwxyz")),
    "some names say nothing": made(["now", "then", "before", "advantages", "mask"]),
    "any number": lambda *tensors: tensors,
    "the first, and any number": lambda log_prob, *others: (log_prob, *others),
    "a default behind": made(list("vwxyz"), ", u=1"),
}


@pytest.mark.parametrize("name", BY_POSITION)
def test_by_position_only_where_the_order_is_the_documented_one(name):
    found = bind(BY_POSITION[name])(*TENSORS.values())
    assert [*(found.values() if isinstance(found, dict) else found)][:5] == list(TENSORS.values())


def test_what_was_bound_by_position_is_told():
    (line,) = bind(BY_POSITION["some names say nothing"]).notes
    assert line == "by position, for the names say nothing: then is behavior_log_prob, before is proximal_log_prob"
    assert bind(trainers.ppo()).notes == ()


REFUSED = {
    "an unknown name": (["logp", "x", "advantages", "mask"], "argument 'x'"),
    "a known name elsewhere": (["v", "w", "advantages", "log_prob", "mask"], "argument 'v'"),
    "four unknown names": (list("vwxy"), "argument 'v'"),
    "six unknown names": (list("uvwxyz"), "argument 'u'"),
    "a required extra": (["log_prob", "mu", "advantages", "mask", "rewards"], "argument 'rewards'"),
    "rewards in the place of advantages": (["logp", "old_logp", "ref_logp", "rewards", "mask"], "--kind advantage"),
    "a reference": (["logp", "mu", "ref_logp", "adv", "mask"], "return f.logp, mu, logp.detach"),
    "a name of something else": (["logp", "mu", "prox", "adv", "returns"], "argument 'returns'"),
    "no mask": (["log_prob", "mu", "advantages"], "an argument for mask"),
    "no advantages": (["log_prob", "mask"], "an argument for advantages"),
    "two current policies": (["log_prob", "logp", "mu", "advantages", "mask"], "a single one for log_prob"),
    "two old policies": (["logp", "old_logp", "prev_logp", "advantages", "mask"], "argument 'prev_logp'"),
    "old beside both": (["logp", "old_logp", "mu", "prox", "advantages", "mask"], "argument 'old_logp'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_ambiguous_is_refused_by_name(name):
    names, words = REFUSED[name]
    caught = refused(words, lambda: check_loss(made(names)))
    assert caught.field == "loss" and caught.remedy


def test_what_was_guessed_is_no_bug():
    def turned(a, b, c, d, e):
        return -trainers.ppo()(a, b, c, d, e)

    report = check_loss(turned, bias=False)
    assert not report.conforms and not report.bugs and report.shows("sign turned around")
    assert report.heading()[0].startswith("undecided: the names of its") and "d is advantages" in report.heading()[1]


def test_of_two_arguments_for_one_tensor_the_needed_one_is_given():
    found = bind(made(["logp", "mu", "proximal", "advantages", "response_mask"], ", mask=None"))(*TENSORS.values())
    assert found["response_mask"] == "m" and found["mask"] is None
    found = bind(made(["logp", "mu", "proximal", "advantages", "mask"], ", old_logp=None"))(*TENSORS.values())
    assert found["old_logp"] is None


def test_positional_and_keyword_only_arguments_and_modules():
    space = {}
    exec("def f(mu, logp, /, advantages, *, mask): return (mu, logp, advantages, mask)", space)
    assert bind(space["f"])(*TENSORS.values()) == ("b", "n", "a", "m")

    class Loss(torch.nn.Module):
        def forward(self, advantages, mask, logp, old_logp):
            return trainers.ppo()(logp, old_logp, None, advantages, mask)

    report = check_loss(Loss(), bias=False)
    assert report.conforms and report.name == "ppo_clip()"
    refused("not a class", check_loss, Loss)


def test_the_order_of_the_arguments_changes_nothing():
    def reordered(mask, advantages, snapshot, log_prob, behavior):
        return trainers.decoupled()(log_prob, behavior, snapshot, advantages, mask)

    one, two = (check_loss(loss, "decoupled_ppo", bias=False) for loss in (trainers.decoupled(), reordered))
    assert one.conforms and two.conforms and one.arguments == ()
    assert two.arguments == ("by name: snapshot is proximal_log_prob, behavior is behavior_log_prob",)
    assert (one.name, one.findings, one.kinks) == (two.name, two.findings, two.kinks)
    assert "arguments by name" in str(two)


@pytest.mark.parametrize(
    ("like", "words"), [("k3", "penalties"), ("ess", "check_metric"), ("group-std", "check_advantage")]
)
def test_a_name_of_another_kind_is_no_method(like, words):
    error = refused(words, check_loss, made(["log_prob", "advantages", "mask"]), like=like)
    assert error.field == "like"
