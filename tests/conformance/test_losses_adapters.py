"""Losses in the styles of trainers, and those of the installed ones: what they are found to be."""

import importlib
import inspect
import itertools
import math
import textwrap
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import asyncsim as sim
from asyncsim.conformance import adapters
from tests.conformance import trainers
from tests.conformance.trainers import checked
from tests.refusals import refused


def verl_style(old_log_prob, log_prob, advantages, response_mask, cliprange=0.2, rollout_is_weights=None):
    ratio = trainers.log_ratio(log_prob, old_log_prob, response_mask).exp()
    losses = torch.max(-ratio * advantages, -ratio.clamp(1 - cliprange, 1 + cliprange) * advantages)
    losses = losses if rollout_is_weights is None else losses * rollout_is_weights
    clipped = (ratio > 1 + cliprange).double().mean()
    return trainers.mean_of(losses, response_mask, "token_mean"), clipped, torch.zeros(())


def areal_style(
    logprobs,
    proximal_logprobs,
    old_logprobs,
    advantages,
    eps_clip,
    loss_mask,
    eps_clip_higher=None,
    behav_imp_weight_cap=None,
):
    assert loss_mask.dtype == torch.bool
    mask = loss_mask.double()
    ratio = trainers.log_ratio(logprobs, proximal_logprobs, mask).exp()
    high = eps_clip if eps_clip_higher is None else eps_clip_higher
    weight = trainers.log_ratio(proximal_logprobs, old_logprobs, mask).exp()
    values = trainers.surrogate(ratio, advantages, eps_clip, high)
    if behav_imp_weight_cap is not None:
        values = values * weight.clamp(max=behav_imp_weight_cap).detach()
    return -trainers.mean_of(values, mask, "token_mean"), {"importance_weight": ratio.detach()}


def roll_style(log_probs, old_log_probs, advantages, response_mask, infer_log_probs=None, pg_clip=0.2):
    assert response_mask.dtype == torch.int64
    mask = response_mask.double()
    values = trainers.surrogate(trainers.log_ratio(log_probs, old_log_probs, mask).exp(), advantages, pg_clip, pg_clip)
    if infer_log_probs is not None:
        # Clamped to [0, 1], as the trainer's own correction is.
        values = values * trainers.log_ratio(old_log_probs, infer_log_probs, mask).exp().clamp(max=1.0).detach()
    return {"loss": -trainers.mean_of(values, mask, "sequence_mean")}


class PolicyLoss(torch.nn.Module):
    """In the style of OpenRLHF."""

    def __init__(self, low=0.2, high=0.28, corrected=False):
        super().__init__()
        self.low, self.high, self.corrected = low, high, corrected

    def forward(self, log_probs, old_log_probs, advantages, action_mask=None, rollout_log_probs=None):
        ratio = trainers.log_ratio(log_probs, old_log_probs, action_mask).exp()
        values = trainers.surrogate(ratio, advantages, self.low, self.high)
        if self.corrected:
            weight = trainers.log_ratio(old_log_probs, rollout_log_probs, action_mask).exp()
            values = values * weight.clamp(max=2.0).detach()
        return -trainers.mean_of(values, action_mask, "token_mean"), ratio.detach().mean()


def tis(cap):
    return sim.methods.three_policy_tis(cap=cap)


STYLES = {
    "verl": (adapters.verl(verl_style), sim.methods.ppo_clip(anchor="proximal")),
    "verl, bypass": (adapters.verl(verl_style, old="behavior", cliprange=0.1), sim.methods.ppo_clip(0.1, 0.1)),
    "verl, corrected": (adapters.verl(verl_style, cap=2.0), tis(2.0)),
    "areal, not decoupled": (adapters.areal(areal_style), sim.methods.ppo_clip(anchor="proximal")),
    "areal": (
        adapters.areal(areal_style, eps_clip=0.3, eps_clip_higher=0.4, behav_imp_weight_cap=5.0),
        sim.methods.decoupled_ppo(low=0.3, high=0.4, cap=5.0),
    ),
    "roll": (adapters.roll(roll_style), tis(1.0).replace(aggregator="sequence_mean")),
    "openrlhf": (adapters.openrlhf(PolicyLoss()), sim.methods.dapo(anchor="proximal")),
    "openrlhf, bypass": (adapters.openrlhf(PolicyLoss(), old="behavior"), sim.methods.dapo()),
    "openrlhf, corrected": (adapters.openrlhf(PolicyLoss(0.2, 0.2, True)), tis(2.0)),
}


@pytest.mark.parametrize("name", STYLES)
def test_a_style_is_spoken(name):
    loss, like = STYLES[name]
    report = checked(loss, like)
    assert report.conforms and report.bugs == () and report.scale == pytest.approx(1.0), report
    assert report.match.method == like.name


def test_a_correction_that_is_configured_and_left_out_is_found():
    report = checked(adapters.areal(areal_style), "decoupled_ppo")
    assert report.bugs == ("behavior weight not applied",) and report.name == "ppo_clip(anchor='proximal')", report


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: adapters.verl(3), "loss"),
        (lambda: adapters.verl(verl_style, old="reference"), "old"),
        (lambda: adapters.roll(roll_style, old="mu"), "old"),
        (lambda: checked(adapters.verl(areal_style)), "loss"),
        (lambda: checked(verl_style), "loss"),
        (lambda: adapters.verl(verl_style, clip=0.3), "adapter verl"),
        (lambda: adapters.areal(areal_style, logprobs=0.3), "adapter areal"),
        (lambda: adapters.openrlhf(PolicyLoss(), low=0.3), "adapter openrlhf"),
    ],
)
def test_a_wrong_call_is_named(make, field):
    caught = refused("", make)
    assert caught.field == field


@pytest.mark.parametrize(
    ("style", "fn"),
    [
        ("verl", verl_style),
        ("areal", areal_style),
        ("roll", roll_style),
        ("openrlhf", PolicyLoss()),
        ("openrlhf", PolicyLoss),
    ],
)
def test_a_style_without_its_adapter_is_refused(style, fn):
    refused(rf"adapters\.{style}\(", checked, fn)


def test_a_wrong_setting_is_told_the_right_ones():
    refused("settings of verl are old, cap; those of the loss cliprange", adapters.verl, verl_style, clip=0.3)
    anything = adapters.verl(lambda old_log_prob, **others: verl_style(old_log_prob, **others), cliprange=0.1)
    assert checked(anything, sim.methods.ppo_clip(0.1, 0.1, anchor="proximal")).conforms


@pytest.mark.parametrize("name", ["verl", "openrlhf", "roll"])
def test_the_plain_question_is_answered_at_the_adapter_s_anchor(name):
    make, fn, like = {
        "verl": (adapters.verl, verl_style, "ppo_clip"),
        "openrlhf": (adapters.openrlhf, PolicyLoss(), "dapo"),
        "roll": (
            adapters.roll,
            lambda log_probs, old_log_probs, advantages, response_mask: roll_style(
                log_probs, old_log_probs, advantages, response_mask
            ),
            "grpo",
        ),
    }[name]
    for old in ("proximal", "behavior"):
        report = checked(make(fn, old=old), like)
        assert report.conforms and report.bugs == () and report.anchor == old, report


def test_where_neither_anchor_explains_it_the_adapter_decides():
    report = checked(adapters.verl(verl_style, cap=2.0), "ppo_clip")
    assert not report.conforms and "the old log-probs of the adapter" in report.compared
    assert "(anchor='proximal')" in report.like


@pytest.fixture(scope="module")
def trl():
    pytest.importorskip("trl")
    return adapters.trl


TRL = {
    # name: (settings, method among those with the same gradient, its other arguments)
    "grpo": ({"loss_type": "grpo"}, "grpo", {"anchor": "proximal"}),
    "dapo": ({"loss_type": "dapo", "epsilon_high": 0.28}, "dapo", {"anchor": "proximal"}),
    "dr_grpo": ({"loss_type": "dr_grpo"}, "ppo_clip", {"anchor": "proximal", "aggregator": "constant"}),
    "bnpo": ({"loss_type": "bnpo"}, "ppo_clip", {"anchor": "proximal"}),
    "cispo": ({"loss_type": "cispo", "epsilon_high": 4.0}, "cispo", {"anchor": "proximal", "high": 3.0}),
    "luspo": (
        {"loss_type": "luspo", "importance_sampling_level": "sequence"},
        "gspo",
        {"anchor": "proximal", "low": 0.2, "high": 0.2, "aggregator": "sequence_sum"},
    ),
    "gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
        "gspo",
        {"anchor": "proximal"},
    ),
    "two-sided": (
        {"loss_type": "grpo", "delta": 3.0},
        "ppo_clip",
        {"anchor": "proximal", "dual": 3.0, "aggregator": "sequence_mean"},
    ),
    "corrected": (
        {
            "loss_type": "dapo",
            "use_vllm": True,
            "vllm_importance_sampling_mode": "token_truncate",
            "vllm_importance_sampling_clip_max": 2.0,
        },
        "three_policy_tis",
        {"cap": 2.0},
    ),
    "token mask": (
        {"loss_type": "dapo", "use_vllm": True, "vllm_importance_sampling_mode": "token_mask"},
        "decoupled_ppo",
        {"cap": 3.0, "beyond": "drop"},
    ),
    "sapo": ({"loss_type": "sapo"}, "sapo", {"anchor": "proximal"}),
    "vespo": ({"loss_type": "vespo", "old": "behavior"}, "vespo", {}),
}


@pytest.mark.parametrize("name", TRL)
def test_losses_of_trl_are_those_of_their_papers(trl, name):
    settings, method, arguments = TRL[name]
    # One sigmoid near 1 leaves ten digits.
    report = checked(trl(**settings), getattr(sim.methods, method)(**arguments), tolerance=1e-5)
    assert report.conforms and report.bugs == (), report
    assert report.match.method == method and report.scale == pytest.approx(1.0)


def test_a_loss_of_trl_is_found_without_a_hint(trl):
    assert checked(trl("grpo"), "grpo").conforms
    report = checked(trl("grpo"))
    assert report.name == "grpo(anchor='proximal')" and report.anchor == "proximal"
    assert not report.shows("inputs changed in place")


def test_a_loss_of_trl_around_the_snapshot_is_told(trl):
    report = checked(trl("vespo"), tolerance=1e-5)
    assert report.conforms and report.bugs == () and report.shows("staleness is invisible")
    assert report.name == "vespo() with pi_prox in the place of mu"
    # Who makes the method says that its ratios are those to mu.
    assert checked(trl("vespo"), sim.methods.vespo(), tolerance=1e-5).bugs == (
        "ratio to the snapshot in place of behavior",
    )


CORRECTIONS = {
    # mode: weights of two tokens with ratios 5 and 0.5, and of two with ratios 1.5 and 1.2, at the default bound 3
    "sequence_mask": ([2.5, 2.5], [1.8, 1.8]),
    "sequence_truncate": ([2.5, 2.5], [1.8, 1.8]),
    "token_mask": ([0.0, 0.5], [1.5, 1.2]),
    "token_truncate": ([3.0, 0.5], [1.5, 1.2]),
}


@pytest.mark.parametrize("mode", CORRECTIONS)
def test_trl_corrects_by_its_own_mode(trl, mode):
    def weights(ratios: list[list[float]], **settings: Any) -> list[list[float]]:
        fn = trl("dapo", use_vllm=True, vllm_importance_sampling_mode=mode, **settings)
        behavior = -torch.tensor(ratios, dtype=torch.float64).log() - 1.0
        proximal, mask = -torch.ones_like(behavior), torch.ones_like(behavior)
        log_prob = proximal.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(fn(log_prob, behavior, proximal, mask, mask), log_prob)
        return (-gradient * mask.sum()).tolist()

    assert weights([[5.0, 0.5], [1.5, 1.2]]) == [pytest.approx(each) for each in CORRECTIONS[mode]]
    # Products 10 and 0.1: beyond the upper bound, and below a lower one.
    cut = {"sequence_mask": 0.0, "sequence_truncate": 3.0, "token_mask": 0.0, "token_truncate": 3.0}[mode]
    raised = 0.0 if mode.endswith("mask") else 0.2
    low = weights([[10.0, 1.0], [0.1, 1.0]], vllm_importance_sampling_clip_min=0.2)
    assert low[0][0] == pytest.approx(cut) and low[1][0] == pytest.approx(raised)


def test_the_correction_of_trl_is_that_of_its_source(trl):
    """The lines of the installed trainer that make the ratio, run on the same tensors."""
    source = inspect.getsource(importlib.import_module("trl.trainer.grpo_trainer"))
    start, end = (
        source.index("                sequence_level_is = self"),
        source.index(
            '                else:\n                    raise ValueError(\n                        f"Unknown vLLM'
        ),
    )
    draw = torch.Generator().manual_seed(0)
    above, below = (-3.0 * torch.rand(64, 5, generator=draw, dtype=torch.float64) for _ in range(2))
    mask = (torch.rand(64, 5, generator=draw) < 0.8).double()
    for mode, low, high in itertools.product(CORRECTIONS, (None, 0.5), (3.0, 1.1)):
        own = SimpleNamespace(vllm_importance_sampling_mode=mode)
        vars(own).update(vllm_importance_sampling_clip_min=low, vllm_importance_sampling_clip_max=high)
        scope = {"self": own, "torch": torch, "math": math, "per_token_logps_diff": (above - below) * mask}
        exec(textwrap.dedent(source[start:end]), scope)
        expected = scope["vllm_importance_sampling_ratio"]
        found = adapters._corrected(above, below, mask, mode, low, high)
        assert torch.equal(found, expected), (mode, low, high)
        assert ((expected == 0).any(), (expected > 3).any()) == (mode.endswith("mask"), False)


def test_a_correction_that_trl_would_not_read_is_refused(trl):
    refused("add use_vllm=True", trl, "dapo", vllm_importance_sampling_mode="token_mask")
    refused("sequence_truncate", trl, "dapo", use_vllm=True, vllm_importance_sampling_mode="token")


def test_settings_of_trl_that_need_a_model_are_refused(trl):
    for settings in ({"beta": 0.1}, {"no_such_setting": 1}):
        refused("trl", trl, "grpo", **settings)
    refused("old", trl, "grpo", old="reference")


@pytest.mark.parametrize(
    ("settings", "like"),
    [
        ({"clip_epsilon": 0.2}, sim.methods.ppo_clip()),
        ({"clip_epsilon": (0.1, 0.3), "old": "proximal"}, sim.methods.ppo_clip(0.1, 0.3, anchor="proximal")),
    ],
)
def test_the_loss_of_torchrl_is_ppo(settings, like):
    pytest.importorskip("torchrl")
    report = checked(adapters.torchrl(**settings), like)
    assert report.conforms and report.bugs == () and report.aggregator == "token_mean", report


def test_settings_of_torchrl_are_checked():
    pytest.importorskip("torchrl")
    refused("ClipPPOLoss", adapters.torchrl, no_such_setting=1)
