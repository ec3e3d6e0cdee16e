"""Whole distributions of a language model: exact divergences, centered scores and optimal baselines run on it."""

import dataclasses

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.methods._method import evaluate
from asyncsim.step import versions
from asyncsim.step.step import Carried
from tests.contracts.laboratory import NOTHING, make, names
from tests.language import test_causal_lm as plain
from tests.language.test_causal_lm import SHAPE, TEXTS, N, T, ids, view_of, weights
from tests.refusals import refused


def trial(seed=0, **settings):
    """A policy, weights that generated a batch and those that are trained, and the batch with rewards."""
    made = plain.policy(**settings)
    old, new = weights(made, 1), weights(made, 1) + 0.05 * weights(made, 2)
    seen = ids(made)
    action, log_prob = plain.drawn(made, view_of(made, old), seen)
    batch = plain.batch_of(seen, action, plain.masked(action.shape))
    reward = torch.from_numpy(np.random.default_rng(seed).normal(size=action.shape[:3]))
    mass = torch.full((1, len(TEXTS), N), 1.0 / N, dtype=torch.float64)
    behavior = {"log_prob": log_prob * batch.mask}
    view = versions.current(made.prepare(old))
    return made, old, new, dataclasses.replace(batch, reward=reward, mass=mass, behavior=behavior, view=view)


def told(method, made, new, batch, start=None):
    """The step of a method on a batch, and its gradient `[1, P]`."""
    return evaluate(method, NOTHING, made, made.prepare(new), batch, start)


@pytest.mark.parametrize("to", ["behavior", "proximal"])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_exact_divergence_has_autograds_gradient(to, reverse):
    """-beta KL of every state, averaged over tokens, on the vocabulary of a plain model."""
    made, old, new, batch = trial()
    penalty = sim.penalties.exact(0.3, to=to, reverse=reverse)
    method = sim.methods.reinforce(sim.advantages.none()).replace(penalties=(penalty,), aggregator="token_mean")
    bare = method.replace(penalties=())
    other = made.forward(versions.current(made.prepare(old)), batch, ("log_prob", "log_probs")).outputs
    start = Carried(other) if to == "proximal" else None
    pulled = told(method, made, new, batch, start).gradient - told(bare, made, new, batch, start).gradient
    live, seen = new[0].clone().requires_grad_(), batch.state[..., 0, :]
    now, then = (plain.rows_of(made, flat, seen, batch.action) for flat in (live, old[0]))
    above, below = (then, now) if reverse else (now, then)
    mask = batch.mask.reshape(-1, T)
    divergence = ((above.exp() * (above - below)).sum(-1) * mask).sum() / mask.sum()
    (expected,) = torch.autograd.grad(-0.3 * divergence, live)
    torch.testing.assert_close(pulled[0], expected, rtol=1e-8, atol=1e-10)
    # Planted: the divergence of the tokens that were drawn alone.
    sampled = sim.penalties.k2(0.3, to=to)
    rough = told(method.replace(penalties=(sampled,)), made, new, batch, start).gradient
    assert (rough - told(bare, made, new, batch, start).gradient - expected).abs().max() > 1e-4


def test_lengths_of_scores_are_those_of_the_logits():
    """1 - 2 pi(y) + sum_v pi(v)^2, the squared gradient of log pi(y) in its logits."""
    made, _, new, batch = trial()
    step = told(sim.methods.reinforce(sim.advantages.otb()), made, new, batch)
    rows = plain.rows_of(made, new[0], batch.state[..., 0, :], batch.action).reshape(*batch.action.shape, -1)
    score = torch.nn.functional.one_hot(batch.action, made.actions) - rows.exp()
    torch.testing.assert_close(step.row_norms * batch.mask, score.square().sum(-1) * batch.mask, rtol=0, atol=1e-11)
    assert step.advantages.shape == batch.action.shape


OUTPUTS = set(sim.policies.causal_lm("char", recipe=SHAPE).outputs)


def reading():
    """Every part, as a method; random weights earn nothing, an offset moves them all the same."""
    for name in names("methods"):
        yield name, make("methods", name).replace(advantage=sim.advantages.offset(1.0))
    for name in names("advantages"):
        yield name, sim.methods.truncated_is(advantage=make("advantages", name))
    for to in ("behavior", "proximal"):
        yield (
            f"exact {to}",
            sim.methods.reinforce(sim.advantages.offset(1.0)).replace(penalties=(sim.penalties.exact(to=to),)),
        )


PARTS = {name: m for name, m in reading() if "log_probs" in {*m.outputs, *m.advantage.outputs} <= OUTPUTS}


def spec(method, **changes):
    drawing = changes.get("drawing")
    made = sim.policies.causal_lm("char", recipe=SHAPE, distributions=drawing == "early")
    sizes = {"replicates": 1, "samples_per_group": 4, "updates": 4, "epochs": 2, "drawing": "late", **changes}
    chain, task = sim.chain(sim.updates.sgd(1e-4)), sim.tasks.arithmetic(prompts=2, horizon=5)
    initial = 10.0 * made.initial(1)[0].double().numpy()
    return sim.Spec(task, sim.schedules.fixed(1), method, chain, made, initial=initial, **sizes)


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_read_distributions_run(name):
    """Rows of the behavior policy from weights that were kept, or as the sampler recorded them."""
    assert {"score_centering", "otb", "exact behavior", "exact proximal"} <= set(PARTS)
    late, early = (sim.run(spec(PARTS[name], drawing=each), seed=1) for each in ("late", "early"))
    assert (late.diverged == -1).all() and np.isfinite(late.parameters).all()
    assert name == "otb" or np.ptp(late.parameters - spec(PARTS[name]).initial) > 1e-4
    np.testing.assert_allclose(late.parameters, early.parameters, rtol=0, atol=1e-4)


def test_what_is_recorded_is_what_was_drawn_from():
    """Also with old cache entries, and where the sampler rounds: no weights alone would say it."""
    for settings in ({}, {"sampler": "int8"}, {"temperature": 0.7, "top_k": 4}):
        made = plain.policy(exact=False, distributions=True, cache="keep", **settings)
        seen, memory = ids(made), None
        memory = made.remember(seen)
        for t in range(3):
            view = view_of(made, weights(made, t).float())
            act = made.act(view, seen, plain.draws_of(), t, memory)
            rows = act.outputs["log_probs"]
            assert rows.shape == (*act.action.shape, made.actions)
            assert torch.equal(rows.gather(-1, act.action.unsqueeze(-1))[..., 0], act.outputs["log_prob"])
            # A float32 below 8 is rounded by 2.4e-7 at most: here a log-prob, and the normalizer that its row shares.
            assert rows[rows.isfinite()].min() > -8.0
            total = rows.double().exp().sum(-1)
            torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=4.8e-7)


def test_what_memory_cannot_hold_is_refused(monkeypatch):
    monkeypatch.setenv("ASYNCSIM_MEMORY", "500M")
    with pytest.raises(InputError, match=r"bytes of log_probs \[R, G, N, T, A\] = \d+: must be at most"):
        spec(PARTS["otb"], samples_per_group=200_000)
    assert spec(sim.methods.reinforce(), samples_per_group=200_000)


def test_rows_at_weights_that_are_not_kept_are_refused():
    made = spec(PARTS["exact behavior"], drawing=None)
    refused(r"drawing='late', which keeps weights, or policy.distributions=True", sim.run, made)
    refused("distributions = 'some': must be True or False", sim.policies.causal_lm, "char", distributions="some")
