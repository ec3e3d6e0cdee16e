"""The value head of a language model: against plain hidden states, finite differences, and returns by hand."""

import dataclasses

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.methods._method import evaluate
from asyncsim.step import versions
from asyncsim.tasks.texts import Arithmetic
from tests.contracts.laboratory import NOTHING
from tests.language import test_causal_lm as plain
from tests.language.test_causal_lm import SHAPE, SHARED, T, ids, view_of, weights


def plain_values(made, flat, seen, action):
    """Values `[G N, T]`; the states come from the logits, which a head of full rank maps them to."""
    bias, head = flat[-1], flat[-1 - SHAPE["width"] : -1]
    embedding = flat[: made.actions * SHAPE["width"]].reshape(made.actions, -1)
    bare = dataclasses.replace(made, has_critic=False)
    every = []
    for row, said in zip(seen.reshape(-1, seen.shape[-1]), action.reshape(-1, action.shape[-1]), strict=True):
        prompt = row[row >= 0].tolist()
        logits = plain.plain_logits(bare, flat[: bare.size], prompt + said.tolist())[len(prompt) - 1 : -1]
        every.append(logits @ torch.linalg.pinv(embedding).T @ head + bias)
    return torch.stack(every)


def moved(made, seed=1):
    """Weights with a head that says something."""
    flat = weights(made, seed)
    assert [name for name, _ in made.model.trained][-2:] == ["asyncsim_critic.weight", "asyncsim_critic.bias"]
    assert made.size == dataclasses.replace(made, has_critic=False).size + SHAPE["width"] + 1
    return flat


@pytest.mark.parametrize("micro_batch", [None, 5])
def test_values_and_their_gradient_are_those_of_a_plain_model(micro_batch):
    made = plain.policy(critic=True, micro_batch=micro_batch, temperature=0.9)
    flat, seen = moved(made), ids(made, SHARED)
    view, memory = view_of(made, flat), made.remember(seen)
    action, recorded = torch.zeros((*seen.shape[:3], T), dtype=torch.int64), torch.zeros((*seen.shape[:3], T)).double()
    for t in range(T):
        act = made.act(view, seen, plain.draws_of(), t, memory)
        action[..., t], recorded[..., t] = act.action, act.outputs["value"]
    live, mask = flat[0].clone().requires_grad_(), plain.masked(action.shape)
    expected = plain_values(made, live, seen, action).reshape(action.shape)
    torch.testing.assert_close(recorded, expected.detach(), rtol=0, atol=1e-8)
    torch.testing.assert_close(made.value(view, seen), recorded[..., 0], rtol=0, atol=1e-10)
    forward = made.forward(view, plain.batch_of(seen, action, mask), ("log_prob", "value"))
    torch.testing.assert_close(forward.outputs["value"], recorded * mask, rtol=0, atol=1e-10)
    assert recorded.std() > 0.1
    cotangent = torch.randn(action.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (gradient,) = torch.autograd.grad((cotangent * mask * expected).sum(), live)
    pulled = forward.pullback({"value": cotangent})[0]
    torch.testing.assert_close(pulled, gradient, rtol=1e-6, atol=1e-7)
    assert pulled[: -1 - SHAPE["width"]].abs().max() > 1e-3, "the loss of the critic trains the network too"


@pytest.mark.parametrize("train_layers", [None, 1])
def test_the_pullback_is_the_slope(train_layers):
    """By central differences along a random direction, of all outputs together."""
    made = plain.policy(critic=True, train_layers=train_layers)
    flat, seen = weights(made), ids(made)
    action, _ = plain.drawn(made, view_of(made, flat), seen)
    batch, random = plain.batch_of(seen, action, plain.masked(action.shape)), torch.Generator().manual_seed(0)
    outputs = made.forward(view_of(made, flat), batch, made.outputs)
    weight = {n: torch.randn(x.shape, generator=random, dtype=torch.float64) for n, x in outputs.outputs.items()}
    direction = torch.randn(flat.shape, generator=random, dtype=torch.float64)

    def total(step):
        found = made.forward(view_of(made, flat + step * direction), batch, made.outputs).outputs
        return sum((weight[name] * found[name]).sum() for name in made.outputs)

    slope = (total(1e-5) - total(-1e-5)) / 2e-5
    assert abs((outputs.pullback(weight) * direction).sum() - slope) < 1e-6 * abs(slope)
    # Planted: the value's cotangent forgotten.
    fewer = {name: each for name, each in weight.items() if name != "value"}
    assert abs((outputs.pullback(fewer) * direction).sum() - slope) > 1e-3 * abs(slope)


def test_a_policy_without_a_critic_draws_the_same():
    with_critic, without = (plain.policy(critic=critic) for critic in (True, False))
    flat, seen = weights(with_critic), ids(without)
    one, two = (plain.drawn(p, view_of(p, flat[:, : p.size]), seen) for p in (with_critic, without))
    assert torch.equal(one[0], two[0]) and torch.equal(one[1], two[1])
    assert without.outputs == ("log_prob", "entropy", "log_probs") and not without.critic and with_critic.critic
    with pytest.raises(InputError, match="one with a critic"):
        without.value(view_of(without, flat[:, : without.size]), seen)


def trial(advantage):
    """The step of an advantage on a batch whose answers earn something, and what it is made from."""
    made = plain.policy(critic=True)
    old, new = weights(made, 1), weights(made, 1) + 0.02 * weights(made, 2)
    seen = ids(made)
    action, log_prob = plain.drawn(made, view_of(made, old), seen)
    mask = plain.masked(action.shape)
    batch = plain.batch_of(seen, action, mask)
    batch.reward = torch.from_numpy(np.random.default_rng(0).normal(size=action.shape[:3]))
    value = plain_values(made, old[0], seen, action).reshape(action.shape) * mask
    batch.behavior = {"log_prob": log_prob * mask, "value": value}
    method = sim.methods.ppo_clip(advantage=advantage, critic=0.5)
    now = plain_values(made, new[0], seen, action).reshape(action.shape) * mask
    return evaluate(method, NOTHING, made, made.prepare(new), batch), value, now


def test_advantages_are_those_of_a_plain_loop():
    """GAE from recorded values; V-trace from current ones and truncated ratios; 0 behind the last token."""
    for advantage in (sim.advantages.gae(0.9, 0.8), sim.advantages.vtrace(0.9)):
        step, recorded, now = trial(advantage)
        gae = "Gae" in type(advantage).__name__
        value = recorded if gae else now
        found = step.advantages
        for g, n in np.ndindex(found.shape[1:3]):
            length, ahead = int(step.mask[0, g, n].sum()), 0.0
            for t in reversed(range(length)):
                later = value[0, g, n, t + 1] if t + 1 < length else 0.0
                delta = step.batch.reward[0, g, n] * (t + 1 == length) + 0.9 * later - value[0, g, n, t]
                if gae:
                    ahead = expected = delta + 0.9 * 0.8 * ahead
                else:
                    expected = delta + 0.9 * ahead
                    ratio = step.log_ratio[0, g, n, t].exp().clamp(max=1.0)
                    ahead = ratio * (delta + 0.9 * ahead)
                torch.testing.assert_close(found[0, g, n, t], torch.as_tensor(expected), rtol=0, atol=1e-7)


class Certain(Arithmetic):
    """A task that pays 1 for whatever is said."""

    def earn(self, state, action, mask, draws):
        return torch.ones_like(mask[..., 0])


@pytest.mark.rows
@pytest.mark.parametrize(
    ("drawing", "method"),
    [("early", sim.methods.a2c()), ("late", sim.methods.ppo_clip(advantage=sim.advantages.vtrace(1.0), critic=1.0))],
    ids=["gae", "vtrace"],
)
def test_the_critic_learns_what_is_paid(drawing, method):
    """From 0 to 1 within 0.2 in 60 updates, on stale data; a head that is not trained would stay at 0."""
    made = sim.policies.causal_lm("char", recipe=SHAPE, critic=True)
    task = Certain(**vars(sim.tasks.arithmetic(prompts=4, horizon=4)))
    chain = sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(0.02))
    sizes = {"replicates": 1, "samples_per_group": 4, "updates": 60, "diagnostics": "none", "drawing": drawing}
    trace = sim.run(sim.Spec(task, sim.schedules.fixed(2), method, chain, made, **sizes), seed=1)
    view = versions.current(made.prepare(torch.from_numpy(trace.parameters).float()))
    found = made.value(view, torch.from_numpy(task.fit(made).ids)[None, :, None])
    assert (found - 1.0).abs().max() < 0.2


def test_a_method_with_a_critic_needs_the_head():
    task, chain = sim.tasks.arithmetic(), sim.chain(sim.updates.sgd(0.1))
    with pytest.raises(InputError, match=r"policy.critic=true: mlp .*, or causal_lm"):
        sim.Spec(task, sim.schedules.fixed(0), sim.methods.a2c(), chain, sim.policies.causal_lm("char", recipe=SHAPE))
