"""A method made from a printed loss is the method: ten losses, planted mistakes, refusals, replicates apart."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.app.cli import main
from asyncsim.base import plugins
from asyncsim.conformance import check_loss
from asyncsim.conformance.adapters import verl
from asyncsim.methods import _from_loss
from tests.refusals import refused

G, N, T = 2, 4, 5


def tensors(seed=0):
    """Log-probs under three policies, advantages and a mask of ragged ends, `[1, G, N, T]`."""
    rng = np.random.default_rng(seed)
    then = torch.from_numpy(-rng.exponential(1.0, (1, G, N, T)))
    shift = torch.from_numpy(rng.normal(0.0, 0.4, (2, 1, G, N, T)))
    now, proximal = (torch.clamp(then + each, max=-1e-3) for each in shift)
    lengths = rng.integers(1, T + 1, (1, G, N, 1))
    mask = torch.from_numpy((np.arange(T) < lengths).astype(float))
    advantages = torch.from_numpy(rng.normal(size=(1, G, N)))
    return now, then, proximal, advantages, mask


def mean(values, mask):
    """Over the tokens of the batch."""
    return (values * mask).sum() / mask.sum()


def each_mean(values, mask):
    """Over the tokens of a sequence, then over sequences."""
    return ((values * mask).sum(-1) / mask.sum(-1)).mean()


def reinforce(log_prob, advantage, mask):
    return -(advantage * log_prob * mask).sum(-1).mean()


def truncated_token(log_prob, behavior_log_prob, advantage):
    return -(log_prob - behavior_log_prob).exp().detach().clamp(max=2.0) * advantage * log_prob


def truncated_sequence(log_prob, behavior_log_prob, advantage, mask):
    ratio = ((log_prob - behavior_log_prob) * mask).sum(-1, keepdim=True).exp().clamp(max=8.0).detach()
    return each_mean(-ratio * advantage * log_prob, mask)


def ppo(log_prob, behavior_log_prob, advantage):
    ratio = (log_prob - behavior_log_prob).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)


def ppo_proximal(log_prob, proximal_log_prob, advantage):
    ratio = (log_prob - proximal_log_prob).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)


def decoupled(log_prob, behavior_log_prob, proximal_log_prob, advantage):
    ratio = (log_prob - proximal_log_prob).exp()
    weight = (proximal_log_prob - behavior_log_prob).exp().clamp(max=5.0)
    return -weight * torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)


def cispo(log_prob, behavior_log_prob, advantage):
    weight = (log_prob - behavior_log_prob).exp().clamp(0.8, 1.28).detach()
    return -weight * advantage * log_prob


def gspo(log_prob, behavior_log_prob, advantage, mask):
    mean_log = ((log_prob - behavior_log_prob) * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)
    ratio = mean_log.exp()
    value = torch.minimum(ratio * advantage, ratio.clamp(1 - 3e-4, 1 + 4e-4) * advantage)
    return -each_mean(value.expand(log_prob.shape), mask)


def full(log_prob, behavior_log_prob, advantage, mask):
    ratio = ((log_prob - behavior_log_prob) * mask).sum(-1).exp()
    return -(ratio * advantage[:, 0]).mean()


def looped(log_prob, behavior_log_prob, advantage):
    ratio = (log_prob - behavior_log_prob).exp().detach()
    if float(ratio.max()) > 2.0:
        ratio = ratio.clamp(max=2.0)
    return -ratio * advantage * log_prob


PRINTED = {
    "reinforce": (reinforce, lambda: sim.methods.reinforce(aggregator="sequence_sum")),
    "truncated, token": (truncated_token, lambda: sim.methods.truncated_is("token", cap=2.0)),
    "truncated, sequence": (truncated_sequence, lambda: sim.methods.truncated_is("sequence", cap=8.0)),
    "ppo": (ppo, lambda: sim.methods.ppo_clip(low=0.2, high=0.2, aggregator="token_mean")),
    "ppo, proximal": (
        ppo_proximal,
        lambda: sim.methods.ppo_clip(low=0.2, high=0.2, anchor="proximal", aggregator="token_mean"),
    ),
    "decoupled": (decoupled, lambda: sim.methods.decoupled_ppo(low=0.2, high=0.2, cap=5.0)),
    "cispo": (cispo, lambda: sim.methods.cispo(low=0.2, high=0.28)),
    "gspo": (gspo, lambda: sim.methods.gspo(low=3e-4, high=4e-4)),
    "full ratio": (full, lambda: sim.methods.full_is()),
    "not for vmap": (looped, lambda: sim.methods.truncated_is("token", cap=2.0)),
}


def cotangents(method, seed=0):
    now, then, proximal, advantages, mask = tensors(seed)
    extra = {"proximal_log_prob": proximal} if method.proximal else {}
    # Methods that weigh by rewards are not among these.
    return method.weigh(now, then, advantages=advantages, mask=mask, **extra).cotangent


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_loss_is_the_method(name):
    loss, make = PRINTED[name]
    for seed in range(5):
        own, known = cotangents(sim.methods.from_loss(loss), seed), cotangents(make(), seed)
        assert float(known.abs().max()) > 0.0
        torch.testing.assert_close(own, known, rtol=1e-12, atol=1e-14)


def test_a_planted_mistake_is_another_method():
    def forgot_to_detach(log_prob, behavior_log_prob, advantage):
        return -(log_prob - behavior_log_prob).exp().clamp(max=2.0) * advantage * log_prob

    own, known = (
        cotangents(each) for each in (sim.methods.from_loss(forgot_to_detach), PRINTED["truncated, token"][1]())
    )
    assert float((own - known).abs().max()) > 0.01


@pytest.mark.parametrize("name", ["truncated, token", "truncated, sequence", "not for vmap"])
def test_a_run_is_that_of_the_method_and_replicates_do_not_mix(name):
    loss, make = PRINTED[name]
    update = sim.chain(sim.updates.sgd(0.5))
    task = sim.tasks.token_bandit(actions=3, horizon=4, ends=True)
    spec = sim.Spec(task, sim.schedules.fixed(3), make(), update, updates=8, replicates=6, samples_per_group=8)
    own = sim.run(spec.replace(method=sim.methods.from_loss(loss)), seed=3)
    np.testing.assert_allclose(own.parameters, sim.run(spec, seed=3).parameters, rtol=1e-9, atol=1e-12)
    few = sim.run(spec.replace(method=sim.methods.from_loss(loss), block=2), seed=3)
    np.testing.assert_allclose(own.parameters, few.parameters, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (3, "a function"),
        (lambda log_prob, reference: log_prob, "argument 'reference'"),
        (lambda old: old, "an argument for log_prob"),
        (lambda old_log_prob, log_prob, advantages, response_mask: log_prob, "write adapters.verl"),
        (lambda advantage: advantage, "log_prob"),
        (lambda log_prob: 1.0, "must be a tensor"),
        (lambda log_prob: log_prob.sum(-1), "shape of the loss"),
        (lambda log_prob: log_prob.detach(), "without a graph"),
        (lambda log_prob: log_prob @ log_prob, "RuntimeError"),
    ],
)
def test_what_is_no_loss_is_refused_in_one_line(loss, message):
    caught = refused(message, sim.methods.from_loss, loss)
    assert "\n" not in str(caught)


def trl_names(per_token_logps, old_per_token_logps, advantages, completion_mask, epsilon=0.2):
    ratio = (per_token_logps - old_per_token_logps).exp()
    clipped = ratio.clamp(1 - epsilon, 1 + epsilon)
    return -mean(torch.minimum(ratio * advantages, clipped * advantages), completion_mask)


def trl_corrected(logp, rollout_logps, old_logp, adv):
    return decoupled(logp, rollout_logps, old_logp, adv)


OTHER_WORDS = {
    "old log-probs are mu": (trl_names, "ppo"),
    "beside mu they are the snapshot": (trl_corrected, "decoupled"),
    "an adapter's names": (verl(lambda old_log_prob, log_prob, **_: ppo(log_prob, old_log_prob, _["advantages"])), ""),
    "by position": (lambda a, b, c, d, e: ppo_proximal(a, c, d), "ppo, proximal"),
}


@pytest.mark.parametrize("words", OTHER_WORDS)
def test_every_spelling_of_check_loss_is_taken_in_its_meaning(words):
    """With the names of check_loss, in whose table they stand once."""
    loss, name = OTHER_WORDS[words]
    own, known = (cotangents(sim.methods.from_loss(f)) for f in (loss, PRINTED[name or "ppo, proximal"][0]))
    torch.testing.assert_close(own, known, rtol=1e-12, atol=1e-14)
    report = check_loss(trl_names, like=sim.methods.ppo_clip(low=0.2, high=0.2), bias=False)
    told = sim.methods.from_loss(trl_names).describe()["asked"]
    assert "old_per_token_logps is behavior_log_prob" in told and told[1] in report.arguments[0]


def test_a_file_of_losses_is_one_of_methods_whatever_the_arguments_are_called(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "def loss(logp, old_logp, adv, mask):\n    return -(logp * adv * mask).sum()\n\n\n"
        "def made(new=2.0):\n    import asyncsim as sim\n\n    return sim.methods.truncated_is(cap=new)\n"
    )
    loss, made = (plugins.load("asyncsim.methods", f"{path}:{name}", "method") for name in ("loss", "made"))
    assert loss().name == "loss" and made().name == "truncated_is"


def test_settings_are_those_of_the_loss_in_a_call_a_file_and_a_command(tmp_path, monkeypatch, capsys):
    """`method.eps` was refused, and `conformance --set eps` sent to the method of --like."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "import torch\n\n\ndef loss(log_prob, old_log_prob, advantages, mask, eps=0.2):\n"
        "    ratio = (log_prob - old_log_prob).exp()\n"
        "    gain = torch.minimum(ratio * advantages, ratio.clamp(1 - eps, 1 + eps) * advantages)\n"
        "    return -(gain * mask).sum() / mask.sum()\n"
    )
    own = sim.methods.from_loss("own.py:loss", eps=0.05)
    known, usual = (sim.methods.ppo_clip(low=e, high=e, aggregator="token_mean") for e in (0.05, 0.2))
    torch.testing.assert_close(cotangents(own), cotangents(known), rtol=1e-12, atol=1e-14)
    assert not torch.allclose(cotangents(own), cotangents(usual))
    spec = sim.Spec(sim.tasks.token_bandit(), sim.schedules.fixed(2), own, sim.chain(sim.updates.sgd(0.5)), updates=3)
    spec.save("s.json")
    assert sim.Spec.load("s.json", trust=["own.py:loss"]).method.describe()["eps"] == 0.05 == own.describe()["eps"]
    refused(
        "loss argument = 'epz'.*one of advantage, aggregator, name, eps", sim.methods.from_loss, "own.py:loss", epz=1
    )
    for like in ("--like=ppo-clip --set low=0.1 --set high=0.1", ""):
        with pytest.raises(SystemExit, match="0"):
            main(f"conformance own.py:loss --set eps=0.1 {like}".split())
        assert "is ppo_clip(low=0.1, high=0.1" in capsys.readouterr().out


def test_an_average_is_not_averaged_again():
    refused("aggregator", sim.methods.from_loss, reinforce, aggregator="token_mean")
    per_token = sim.methods.from_loss(truncated_token, aggregator="sequence_mean")
    known = sim.methods.truncated_is("token", cap=2.0, aggregator="sequence_mean")
    torch.testing.assert_close(cotangents(per_token), cotangents(known), rtol=1e-12, atol=1e-14)


def test_a_graph_that_does_not_reach_the_log_probs_has_no_gradient():
    """A loss may hold parameters of its own; with `vmap` and without."""
    own, rows = torch.ones(3, 4, requires_grad=True), {"log_prob": torch.zeros(2, 3, 4)}
    for vectorized in (True, False):
        assert not _from_loss._gradients(lambda log_prob: own * log_prob.detach().exp(), rows, vectorized).any()
