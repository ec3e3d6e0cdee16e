"""Exported losses and links: inside stubs of trainers' calls, beside the method itself, and with planted defects."""

import ast
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.conformance import ConformanceError, adapters, check_loss
from asyncsim.exporting import checking, exports
from asyncsim.exporting.exports import Filled, export_link, export_loss, exportable, made
from asyncsim.updates._link import Chain, Record
from tests.exporting import trainers
from tests.refusals import refused

TOKENS = {"aggregator": "token_mean"}
ASKED = {
    "tis": {},
    "ppo_clip": {"low": 0.1, "high": 0.3},
    "grpo": {},
    "dr_grpo": {},
    "dapo": {},
    "gspo": {"low": 0.05, "high": 0.05},
    "cispo": {"high": 0.5},
    "decoupled_ppo": {"cap": 1.2},
    "m2po_mask": {},
    "dppo_tv": {"low": 0.02, "high": 0.02},
    "icepop": {"low": 0.8, "high": 1.25},
    "kimi": {"anchor": "behavior"},
    "vespo": {},
    "three_policy_tis": {},
}
"""What users ask for first, with settings that bind on the batch below."""


def filled(name, trainer, **settings):
    """The formula for a trainer, averaged over tokens where its hook knows no other average; None: not exportable."""
    if made(name).aggregator not in exports.TRAINERS[trainer]["aggregators"]:
        settings = settings | TOKENS
    try:
        return Filled.of(made(name, **settings), trainer)
    except sim.InputError:
        return None


PAIRS = [(name, trainer) for name in ASKED for trainer in exports.TRAINERS if filled(name, trainer)]


def function_of(form, name="my"):
    return checking.function(form.text(name, "test"), f"{name}_loss")


def batch(dtype):
    log_prob, behavior, proximal, advantages, mask = list(checking.batches(True))[2]
    tensors = {"log_prob": log_prob, "behavior": behavior, "proximal": proximal}
    b = SimpleNamespace(**{name: x.nan_to_num(-1.0).to(dtype) for name, x in tensors.items()})
    b.advantages, b.mask = advantages.to(dtype), mask
    b.log_prob.requires_grad_()
    return b


def test_ten_methods_have_each_trainer_and_all_ask():
    for trainer in exports.TRAINERS:
        assert sum(at == trainer for _, at in PAIRS) >= 10, trainer


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(("name", "trainer"), PAIRS)
def test_inside_the_call_of_a_trainer_the_gradient_is_the_method_s(name, trainer, dtype):
    form, b = filled(name, trainer, **ASKED[name]), batch(dtype)
    parts = [slice(0, 8)] if form.pooled else [slice(0, 4), slice(4, 8)]
    getattr(trainers, trainer)(function_of(form), b, parts, form.method, form.old, form.carries)
    now = b.log_prob.detach().double().requires_grad_()
    others = (b.behavior.double(), b.proximal.double())
    form.method.loss(now, *others, advantages=b.advantages.double(), mask=b.mask, categorical=False).backward()
    assert b.log_prob.grad.dtype == dtype and bool(now.grad.any())
    torch.testing.assert_close(
        b.log_prob.grad.double(), now.grad, rtol=1e-5 if dtype == torch.float32 else 8e-3, atol=1e-9
    )


@pytest.mark.parametrize(("name", "trainer"), PAIRS)
def test_the_gradient_of_a_token_agrees_to_a_millionth(name, trainer):
    form = filled(name, trainer, **ASKED[name])
    loss = checking.called(function_of(form), form.method, trainer, form.old, form.carries)
    for tensors in checking.batches(trainer == "trl"):
        assert checking.difference(loss, form.method, *tensors) < 1e-6


@pytest.mark.parametrize(("name", "trainer"), [("dapo", "verl"), ("cispo", "areal"), ("decoupled_ppo", "skyrl")])
def test_a_loss_is_named_as_its_method(name, trainer):
    method = made(name)
    found = export_loss(name, trainer)
    assert found.report.conforms and found.report.match.method == method.name and found.deviation < 1e-6


@pytest.mark.rows
@pytest.mark.parametrize(("name", "trainer"), PAIRS)
def test_every_loss_is_named_as_its_method_without_being_told(name, trainer):
    form = filled(name, trainer)
    loss = checking.called(function_of(form), form.method, trainer, form.old, form.carries)
    report = check_loss(loss, bias=False)
    assert any(label.startswith(form.method.name) for label in (report.name, *report.same))


@pytest.mark.rows
def test_every_default_is_exported_where_nothing_is_in_the_way():
    for name, reasons in exportable().items():
        for trainer in (at for at, why in reasons.items() if not why and at != "torch"):
            assert export_loss(name, trainer).deviation < 1e-6


@pytest.mark.parametrize("trainer", exports.TRAINERS)
def test_a_text_needs_torch_alone_and_fits_a_page(trainer):
    for name in sorted({*exportable()} - {"gac", "ess_scaling"}):
        if form := filled(name, trainer):
            text = form.text(name, "asyncsim export")
            tree = ast.parse(text)
            used = {node.names[0].name for node in ast.walk(tree) if isinstance(node, ast.Import)}
            used |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
            assert used <= {"torch", "math", "types"} and max(map(len, text.splitlines())) <= 120
            (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
            assert 20 <= function.end_lineno - function.lineno <= 60


DEFECTS = {
    "dropped mask": ("verl", "dapo", "mask = response_mask > 0", "mask = response_mask >= 0"),
    "wrong anchor": ("areal", "dapo", "= old_logprobs.to", "= proximal_logprobs.to"),
    "mean over samples": ("verl", "dapo", "losses.sum() / (", "(losses.sum(-1) / mask.sum(-1)).mean() / (1 or "),
    "bounds swapped": ("skyrl", "dapo", "low, high = 0.2, 0.28", "low, high = 0.28, 0.2"),
    "clip of one sign": ("prime_rl", "dapo", "(A < 0) & (ratio < 1 - low)", "(ratio < 1 - low)"),
    "ratio of a token": ("trl", "gspo", "log_ratio.sum(-1, keepdim=True) / ", "log_ratio / "),
    "live weight": (
        "verl",
        "cispo",
        "with torch.no_grad():\n        now = log_prob.detach()",
        "if 1:\n        now = log_prob",
    ),
    "capped product": ("areal", "three_policy_tis", "staleness * ratio", "(staleness * ratio).clamp(max=cap)"),
    "every cap lost": ("areal", "tis", "ratio.clamp(max=cap)", "ratio"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_an_export_that_is_not_its_method_is_refused(defect, monkeypatch):
    trainer, name, right, wrong = DEFECTS[defect]
    whole = Filled.text
    assert right in whole(filled(name, trainer), name, "")
    monkeypatch.setattr(Filled, "text", lambda *arguments: whole(*arguments).replace(right, wrong))
    with pytest.raises(ConformanceError):
        export_loss(made(name), trainer)


@pytest.mark.parametrize(
    ("name", "settings", "trainer", "says"),
    [
        ("decoupled_ppo", {}, "prime_rl", "log-probs of the proximal policy"),
        ("kimi", TOKENS, "prime_rl", "set method.anchor=behavior"),
        ("m2po_areal", {}, "verl", "log-probs of both"),
        ("gspo", {}, "areal", "set method.aggregator=token_mean"),
        ("m2po_mask", {}, "prime_rl", "statistic of the batch"),
        ("dro", {}, "skyrl", "proportional to the advantages"),
        ("prefix_is", TOKENS, "areal", "packed sequences"),
        ("decoupled_ppo", {"beyond": "drop"}, "verl", "rollout weight"),
        ("decoupled_ppo", {"cap": None}, "verl", "rollout weight"),
        ("tba", {}, "verl", "reads reference"),
        ("topr_roll", {}, "trl", "reads rewards"),
        ("gmc_grpo", {}, "trl", "others of its group"),
        ("a3po", {}, "areal", "reads staleness"),
        ("vtrace", {}, "verl", "reads value"),
        ("kl_cov", {}, "verl", "has a formula for exports"),
        ("grpo", {"kl": 0.04}, "verl", "without a KL penalty"),
        ("dapo", {"high": [0.2, 0.3]}, "verl", "single numbers"),
        ("m2po_mask", {"scope": "micro_batch", "micro_batches": 2}, "verl", "a call is a micro-batch"),
    ],
)
def test_what_a_hook_lacks_is_named(name, settings, trainer, says):
    refused(says, export_loss, made(name, **settings), trainer)


def test_a_name_of_trainers_is_told_only_with_its_settings():
    assert "Dr. GRPO: " in filled("dr_grpo", "verl").text("dr_grpo", "")
    assert "Dr. GRPO: " not in filled("dr_grpo", "areal").text("dr_grpo", "")


def test_factors_of_other_kinds_are_refused():
    refused("without opsm", export_loss, sim.methods.grpo().replace(factors=(sim.factors.opsm(),)), "verl")


def test_a_method_of_one_s_own_name_and_settings_of_numpy_are_written():
    method = sim.methods.dapo(high=np.float64(0.25)).replace(name="mine")
    text = export_loss(method, "verl").text
    assert "low, high = 0.2, 0.25" in text and "def mine_loss(" in text


@pytest.mark.rows
@pytest.mark.parametrize(("kind", "name", "settings"), [("dapo", "dapo", {}), ("grpo", "grpo", {"high": 0.28})])
def test_in_the_installed_trainer_the_gradient_is_that_of_its_own_loss(kind, name, settings):
    grpo_trainer = pytest.importorskip("trl.trainer.grpo_trainer")
    form = Filled.of(made(name, anchor="proximal", **settings), "trl")
    trainer = type("Trainer", (grpo_trainer.GRPOTrainer,), {"_compute_loss": function_of(form)})
    theirs = adapters.trl(kind, epsilon_high=0.28)
    config = trl_config(kind)
    for tensors in checking.batches(True):
        log_prob, behavior, proximal, advantages, mask = (x.nan_to_num(-1.0) for x in tensors)
        now = log_prob.clamp(min=-8.0).requires_grad_()
        then = proximal.clamp(min=-8.0)
        ids = torch.zeros(mask.shape, dtype=torch.long)
        inputs = {"prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1] + 1, "completion_ids": ids}
        inputs |= {"completion_mask": mask, "advantages": advantages[:, 0], "old_per_token_logps": then}
        inputs["num_items_in_batch"] = mask.sum()
        made_by = adapters._trainer(trainer, config, now, False)
        (ours,) = torch.autograd.grad(made_by._compute_loss(made_by.model, inputs), now)
        (right,) = torch.autograd.grad(theirs(now, behavior, then, advantages, mask), now)
        torch.testing.assert_close(ours, right, rtol=1e-9, atol=1e-12)


def trl_config(kind):
    from trl import GRPOConfig

    return GRPOConfig(output_dir="unused", report_to="none", bf16=False, use_cpu=True, loss_type=kind)


LINES = [("gspo", "verl", {}), ("dr_grpo", "verl", {}), ("decoupled_ppo", "verl", {"cap": 1.2}), ("tis", "areal", {}),
         ("ppo_clip", "areal", {"high": 0.3, "anchor": "proximal"}), ("gspo", "trl", {}), ("gspo", "skyrl", {}),
         ("tis", "prime_rl", {})]  # fmt: skip


@pytest.mark.parametrize(("name", "trainer", "settings"), LINES)
def test_the_docstring_has_the_line_that_checks_the_file(name, trainer, settings, tmp_path, capsys):
    """It conforms as it is written; planted: with another sign it does not."""
    import re

    from typer.testing import CliRunner

    from asyncsim.app.cli import app

    made_by = export_loss(made(name, **settings), trainer, name=name)
    for text, right in ((made_by.text, True), (made_by.text.replace("-weight *", "weight *"), False)):
        words = re.search(r"\n +asyncsim (conformance FILE.*)", text.replace("\\\n", ""))
        if words is None:
            (lines,) = re.findall(r"\n( +from asyncsim import methods\n.*?)\n    \"\"\"", text, re.DOTALL)
            scope = {f"{name}_loss": checking.function(text, f"{name}_loss")}
            run = lambda lines=lines, scope=scope: exec("\n".join(x.strip() for x in lines.splitlines()), scope)  # noqa: E731
            if right:
                run()
                assert "is " + made(name).name in capsys.readouterr().out
            else:
                with pytest.raises(ConformanceError):
                    run()
            continue
        (tmp_path / "FILE.py").write_text(text)
        done = CliRunner().invoke(app, words[1].replace("FILE", str(tmp_path / "FILE")).split())
        assert done.exit_code == int(not right) and done.output.startswith("conforms like" if right else "deviates")


def test_an_export_of_gspo_s_narrow_clip_says_what_a_floor_of_engines_does():
    says = "asyncsim forecast SYSTEM --method gspo"
    narrow, wide, recomputed = (export_loss(made("gspo", **s), "verl", name="gspo").text
                                for s in ({}, {"low": 0.1, "high": 0.1}, {"anchor": "proximal"}))  # fmt: skip
    assert says in " ".join(narrow.split()) and says not in wide and says not in recomputed


GUARDS = {
    "verl": ("loss_agg_mode", lambda fn, b: fn(b, b, b, b, loss_agg_mode="seq-mean-token-sum")),
    "trl": ("beta", lambda fn, b: fn(SimpleNamespace(beta=0.1), None, {})),
    "areal": ("rejection_sampling", lambda fn, b: fn(b, b, b, b, 0.2, b, rejection_sampling=object())),
    "skyrl": ("loss_reduction", lambda fn, b: fn(b, b, b, SimpleNamespace(loss_reduction="prompt_mean"))),
}


@pytest.mark.parametrize("trainer", GUARDS)
def test_a_setting_of_the_trainer_that_would_change_the_loss_is_refused(trainer):
    says, call = GUARDS[trainer]
    with pytest.raises(ValueError, match=says):
        call(function_of(filled("tis", trainer)), torch.zeros(2, 2))


LINKS = {
    "vcpo": sim.updates.ess_step(),
    "band": sim.updates.ess_step("linear", deadband=3.0, on_broken="skip"),
    "gac": sim.updates.align(),
    "skips": sim.updates.align(0.1, 0.6, max_skips=1),
    "applied": sim.updates.align(0.1, 0.6, reference="applied"),
    "shrinks": sim.updates.align(0.1, 0.9, refresh=False, removal="shrink"),
    "strength": sim.updates.align(0.0, 0.9, 0.5),
}


@pytest.mark.parametrize("name", LINKS)
def test_a_step_around_an_optimizer_is_the_link_s(name):
    assert export_link(LINKS[name], name=name).deviation < 1e-6


def test_the_ess_step_behind_adam_is_torch_s_adam_at_a_scaled_learning_rate():
    step = checking.function(export_link("ess_scaling").text, "ess_scaling_step")
    weight = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    optimizer, chain = torch.optim.Adam([weight], lr=0.1), Chain((sim.updates.adam(0.1), sim.updates.ess_step()))
    states, start = chain.init(torch.zeros(1, 4, dtype=torch.float64)), torch.zeros(1, 4).double()
    draw = torch.Generator().manual_seed(1)
    for _ in range(5):
        gradient, logs = (torch.randn(n, generator=draw, dtype=torch.float64) for n in (4, 8))
        seen = SimpleNamespace(sequence_log_ratio=logs.reshape(1, 1, 8), step_mass=torch.full((1, 1, 8), 0.125))
        record, states = chain.apply(Record(-gradient.reshape(1, 4), torch.zeros(1, dtype=torch.bool), seen), states)
        start, weight.grad = start + record.direction, gradient
        assert 0.0 < step(optimizer, logs) < 1.0 and optimizer.param_groups[0]["lr"] == 0.1
        torch.testing.assert_close(weight.detach(), start[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("link", "right", "wrong"),
    [
        ("ess_scaling", "** power", ""),
        ("ess_scaling", "w.square().sum()", "w.sum()"),
        ("gac", "p.grad.sub_(", "p.grad.add_("),
        ("gac", "gradient if math", "before if math"),
    ],
)
def test_a_step_that_is_not_its_link_is_refused(link, right, wrong, monkeypatch):
    whole = exports._filled
    assert right in export_link(link).text
    monkeypatch.setattr(exports, "_filled", lambda *a, **k: whole(*a, **k).replace(right, wrong))
    with pytest.raises(ConformanceError):
        export_link(link)


def test_other_links_are_refused():
    refused("ess_step, align", export_link, sim.updates.clip_norm(1.0))


def test_the_command_writes_a_file_that_says_how_it_was_made(tmp_path):
    from typer.testing import CliRunner

    from asyncsim.app.cli import app

    path = tmp_path / "my_loss.py"
    words = ["export", "reinforce", "--for", "verl", "--set", "method.aggregator=token_mean", "--out", str(path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and done.output.startswith("reinforce_loss: ")
    assert " ".join(words[:6]) in " ".join(path.read_text().split())
    assert callable(checking.function(path.read_text(), "reinforce_loss"))
    listed = CliRunner().invoke(app, ["list", "exports", "gspo"])
    assert "areal: must be averaged by token_mean" in listed.output
    for wrong, says in ((["gac", "--for", "verl"], "torch"), (["dapo", "--for", "slime"], "prime_rl")):
        refused = CliRunner().invoke(app, ["export", *wrong])
        assert refused.exit_code == 2 and says in refused.output + refused.stderr
