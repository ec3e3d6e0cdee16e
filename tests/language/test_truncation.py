"""Truncated samplers: a trainer that scores the whole softmax, and one that truncates and meets impossible tokens."""

import warnings

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import RunWarning
from tests.language.test_causal_lm import SHAPE, batch_of, drawn, ids, plain_logits, policy, view_of, weights
from tests.refusals import refused

CUT = {"top_k": 4, "top_p": 0.8, "temperature": 0.7}


def kept_mass(made, flat, tokens):
    """Probability of the nucleus behind a text under the whole softmax, by sorting."""
    chance = (plain_logits(made, flat, tokens)[-1] / made.temperature).softmax(-1).sort(descending=True).values
    chance = chance[: made.top_k]
    before = chance.cumsum(0) / chance.sum() - chance / chance.sum()
    return float(chance[before < made.top_p].sum())


def test_the_mean_ratio_is_the_mass_of_the_nucleus():
    """E exp(scored - behavior) over all responses of two tokens = sum p(a) m(a), with m the mass kept behind a."""
    made, both = policy(truncate="sampler", **CUT), policy(**CUT)
    flat, seen = weights(made), ids(made, ("12+34=",))[:, :, :1]
    view, V = view_of(made, flat), made.actions
    pairs = torch.cartesian_prod(torch.arange(V), torch.arange(V)).reshape(1, 1, V * V, 2)
    every = seen.expand(1, 1, V * V, -1).contiguous()
    batch = batch_of(every, pairs)
    behavior = both.score(view, batch)[0, 0].sum(-1)
    scored = made.score(view, batch)[0, 0].sum(-1)
    possible = behavior > -torch.inf
    assert 1 < possible.sum() <= 16 and abs(float(behavior.exp().sum()) - 1) < 1e-12
    assert torch.isfinite(scored).all() and abs(float(scored.exp().sum()) - 1) < 1e-12
    mean = float((behavior[possible].exp() * (scored - behavior)[possible].exp()).sum())
    prompt = seen[0, 0, 0][seen[0, 0, 0] >= 0].tolist()
    first = (plain_logits(made, flat[0], prompt)[-1] / made.temperature).softmax(-1)
    inside = behavior.reshape(V, V).exp().sum(1) > 0
    expected = sum(float(first[a]) * kept_mass(made, flat[0], [*prompt, a]) for a in inside.nonzero()[:, 0].tolist())
    assert abs(mean - expected) < 1e-12 and mean < 0.95
    # Planted: a trainer that truncates too, whose mean ratio is 1.
    assert abs(float((behavior[possible].exp() * (behavior - behavior)[possible].exp()).sum()) - 1) < 1e-12


def test_the_sampler_draws_and_reports_the_truncated_distribution():
    """The same tokens and log-probs as where both truncate; entropies and gradients are of the whole softmax."""
    made, both, plain = policy(truncate="sampler", **CUT), policy(**CUT), policy(temperature=0.7)
    flat, seen = weights(made), ids(made)
    view = view_of(made, flat)
    for one, other in zip(drawn(made, view, seen), drawn(both, view, seen), strict=True):
        assert torch.equal(one, other)
    batch = batch_of(seen, drawn(made, view, seen)[0])
    forward, expected = (each.forward(view, batch, ("log_prob", "entropy", "log_probs")) for each in (made, plain))
    for name, value in expected.outputs.items():
        assert torch.equal(forward.outputs[name], value)
    ones = {"log_prob": torch.ones(batch.action.shape, dtype=torch.float64)}
    assert torch.equal(forward.pullback(ones), expected.pullback(ones))
    assert made.mismatched and not both.mismatched and both.truncates and not made.truncates
    assert made.describe()["truncate"] == "sampler" and "truncate" not in both.describe()


@pytest.mark.parametrize("cut", [{"top_p": 0.8}, {"top_k": 4}, {}])
def test_only_a_nucleus_makes_a_mismatch(cut):
    made = policy(truncate="sampler", **cut)
    assert made.mismatched is bool(cut) and not made.truncates
    assert policy(**cut).truncates is bool(cut)


def test_kept_caches_are_reread_with_the_samplers_distribution():
    """Old entries and a nucleus: what a reread would say is truncated, what the trainer says is not."""
    made = sim.policies.causal_lm("char", recipe=SHAPE, cache="keep", truncate="sampler", top_k=4)
    flat, seen = made.initial(1) * 6, ids(made)
    view = view_of(made, flat)
    action, log_prob = drawn(made, view, seen)
    batch = batch_of(seen, action)
    batch.behavior = {"log_prob": log_prob.float(), "stale_cache": torch.ones_like(log_prob)}
    told = made.compared(view, batch)
    torch.testing.assert_close(told["reread_log_prob"], log_prob.float(), rtol=0, atol=1e-4)
    assert (log_prob - told["scored_log_prob"]).mean() > 0.05


def run(lr, method=None, updates=4, **settings):
    made = sim.policies.causal_lm("char", recipe=SHAPE, **settings)
    initial = 8.0 * made.initial(1)[0].double().numpy()
    names = ["ess", "ess_mismatch", "ess_staleness", "kl_mismatch", "staleness_variance", "log_ratio_variance", "kl"]
    return sim.run(
        sim.Spec(
            sim.tasks.arithmetic(digits=1, prompts=4, horizon=5), sim.schedules.fixed(1, groups_per_batch=2),
            method or sim.methods.reinforce(sim.advantages.offset(1.0)), sim.chain(sim.updates.sgd(lr)), made,
            samples_per_group=4, updates=updates, replicates=1, diagnostics=names, initial=initial,
        )
    )  # fmt: skip


def test_metrics_tell_the_nucleus_from_staleness():
    """Weights do not move: all of the divergence is mismatch, minus the log of the kept mass."""
    trace = run(0.0, truncate="sampler", top_p=0.8)
    assert trace["staleness_variance"].max() < 1e-10 and trace["kl_mismatch"].min() > 0.05
    np.testing.assert_allclose(trace["ess_mismatch"], trace["ess"], rtol=1e-6)
    assert "outside_nucleus" not in trace.metrics
    # Planted: a trainer that truncates too sees no mismatch.
    assert abs(run(0.0, top_p=0.8)["kl_mismatch"]).max() < 1e-6


@pytest.mark.parametrize("cut", [{"top_p": 0.8}, {"top_k": 4}])
def test_tokens_outside_the_nucleus_are_counted_and_said(cut):
    """A large step moves sampled tokens out of it; no number is NaN, and the run ends with a line."""
    with pytest.warns(RunWarning, match=r"% of the trained tokens.*outside the nucleus.*truncate='sampler'"):
        trace = run(3.0, **cut)
    assert trace["outside_nucleus"].max() > 0.05 and (trace.diverged == -1).all()
    assert np.isfinite(trace.parameters).all()
    assert not any(np.isnan(values).any() for values in trace.metrics.values())
    assert trace.header["ranges"]["outside_nucleus"] == (0.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RunWarning)
        assert (run(0.0, updates=2, **cut)["outside_nucleus"] == 0).all()
        run(3.0, updates=2, truncate="sampler", **cut)


def test_another_word_is_refused():
    error = refused("", lambda: sim.policies.causal_lm(truncate="trainer"))
    assert "truncate = 'trainer': must be one of both, sampler" in str(error)
