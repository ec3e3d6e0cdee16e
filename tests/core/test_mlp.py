"""The perceptron policy against torch modules, autograd and finite differences; versions, keys and the normalizer."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import asyncsim as sim
from asyncsim.base import rng
from asyncsim.base.checks import InputError
from asyncsim.policies import _mlp_network as network
from asyncsim.step import versions
from asyncsim.step.batch import Draws
from tests.contracts.laboratory import plain_batch, up_to
from tests.refusals import refused

R, G, N, T, D = 3, 2, 4, 5, 3
HEADS = {"categorical": 4, "gaussian": 2}


def policy_of(head, **changes):
    settings = {"observation": D, "actions": HEADS[head], "head": head, "hidden": (7, 6), "gain": 0.7, "log_std": -0.3}
    return sim.policies.mlp(**{**settings, **changes})


def problem(head, seed=0, dtype=torch.float64, **changes):
    """A policy, two sets of parameters `[2, R, P]` away from where they begin, a batch, and cotangents."""
    random = np.random.default_rng(seed)
    policy = policy_of(head, **changes)
    begun = torch.stack([policy.initial(R, torch.float64, seed=k) for k in (0, 1)])
    theta = begun + 0.1 * torch.from_numpy(random.standard_normal(begun.shape))
    if policy.normalize:
        theta[..., -D - 1 :] = theta[..., -D - 1 :].abs() + 0.5
    shape = (R, G, N, T)
    discrete = torch.from_numpy(random.integers(0, HEADS[head], shape))
    action = (
        discrete if head == "categorical" else torch.from_numpy(random.normal(size=(*shape, HEADS[head]))).to(dtype)
    )
    lengths = random.integers(1, T + 1, shape[:3])
    state = torch.from_numpy(2.0 * random.normal(size=(*shape, D)) + 1.0).to(dtype)
    batch = plain_batch(action, state, mask=up_to(lengths, T), realization=np.arange(R))
    wide = {"log_probs": (*shape, policy.actions)}
    weight = {name: torch.from_numpy(random.normal(size=wide.get(name, shape))) for name in policy.outputs}
    return policy, theta.to(dtype), batch, weight


def stacked(policy, theta, slot):
    """Both versions, with the slot `[M, G, N, T]` of every token."""
    return versions.View({"parameters": theta}, np.asarray(slot), np.arange(R))


class Module(nn.Module):
    """The same policy for one replicate, out of torch's own parts, from flat parameters."""

    def __init__(self, policy, flat):
        super().__init__()
        self.head = policy.head
        begin = 0

        def take(*shape):
            nonlocal begin
            part = flat[begin : begin + math.prod(shape)].reshape(shape)
            begin += math.prod(shape)
            return part.clone()

        def tower(outputs):
            units, parts = (D, *policy.hidden, outputs), []
            for i, o in pairwise(units):
                layer = nn.Linear(i, o, dtype=flat.dtype)
                layer.weight.data, layer.bias.data = take(i, o).T.contiguous(), take(o)
                parts += [layer, nn.Tanh()]
            return nn.Sequential(*parts[:-1])

        self.actor = tower(policy.actions)
        self.log_std = nn.Parameter(take(policy.actions)) if policy.head == "gaussian" else None
        self.critic = tower(1)

    def forward(self, state, action):
        raw = self.actor(state)
        if self.head == "categorical":
            chosen = torch.distributions.Categorical(logits=raw)
            log_prob, entropy = chosen.log_prob(action), chosen.entropy()
            every = {"log_probs": chosen.logits}
        else:
            chosen = torch.distributions.Normal(raw, self.log_std.exp())
            log_prob, entropy = chosen.log_prob(action).sum(-1), chosen.entropy().sum(-1)
            every = {}
        return {"log_prob": log_prob, "entropy": entropy, "value": self.critic(state)[..., 0], **every}

    def flat(self, total):
        """Gradient in the order of the flat parameters."""
        named = dict(
            zip([n for n, _ in self.named_parameters()], torch.autograd.grad(total, self.parameters()), strict=True)
        )
        actor = [g.mT.reshape(-1) if g.ndim == 2 else g for n, g in named.items() if n.startswith("actor")]
        critic = [g.mT.reshape(-1) if g.ndim == 2 else g for n, g in named.items() if n.startswith("critic")]
        return torch.cat([*actor, *([named["log_std"]] if "log_std" in named else []), *critic])


@pytest.mark.parametrize(("dtype", "slack"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("hidden", [(), (5,), (7, 6), (4, 5, 6)])
@pytest.mark.parametrize("head", HEADS)
def test_outputs_and_gradient_are_those_of_separate_modules(head, hidden, dtype, slack):
    policy, theta, batch, weight = problem(head, dtype=dtype, hidden=hidden)
    weight = {name: w / (G * N * T) for name, w in weight.items()}
    forward = policy.forward(versions.current(policy.prepare(theta[0])), batch, policy.outputs)
    gradient = forward.pullback(weight)
    assert gradient.dtype == dtype
    for r in range(R):
        module = Module(policy, theta[0, r])
        expected = module(batch.state[r], batch.action[r])
        for name in policy.outputs:
            error = (forward.outputs[name][r] - expected[name]).abs() / expected[name].abs().clamp(min=1.0)
            assert error.max() < slack, name
        total = sum((weight[name][r].to(dtype) * expected[name]).sum() for name in policy.outputs)
        assert (gradient[r] - module.flat(total)).abs().max() < slack


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", ["log_prob", "entropy", "value"])
@pytest.mark.parametrize("head", HEADS)
def test_gradient_is_a_finite_difference(head, name, normalize):
    policy, theta, batch, weight = problem(head, 1, normalize=normalize)

    def total(parameters):
        outputs = policy.forward(versions.current(policy.prepare(parameters)), batch, (name,)).outputs
        return (weight[name] * outputs[name]).sum((1, 2, 3))

    # The names of the forward pass are those to show; any cotangent may be pulled back.
    gradient = policy.forward(versions.current(policy.prepare(theta[0])), batch, ()).pullback({name: weight[name]})
    random = torch.from_numpy(np.random.default_rng(2).normal(size=theta[0].shape))
    if normalize:
        random[:, -2 * D - 1 :] = 0.0
        assert (gradient[:, -2 * D - 1 :] == 0.0).all(), "the normalizer is no parameter of the gradient"
    difference = (total(theta[0] + 1e-5 * random) - total(theta[0] - 1e-5 * random)) / 2e-5
    torch.testing.assert_close((gradient * random).sum(1), difference, rtol=1e-7, atol=1e-7)
    wrong = gradient.clone()
    wrong[:, 3] += 0.1
    assert ((wrong * random).sum(1) - difference).abs().min() > 1e-4, "one wrong entry is seen"


SLOTS = {
    "tokens": lambda random: random.integers(0, 2, (R, G, N, T)),
    "samples": lambda random: random.integers(0, 2, (R, G, N, 1)),
    "replicates": lambda random: np.array([0, 1, 1]).reshape(R, 1, 1, 1),
    "one row": lambda random: random.integers(0, 2, (1, G, N, T)),
}


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("head", HEADS)
def test_tokens_are_evaluated_and_pulled_back_at_their_own_version(head, slots):
    policy, theta, batch, weight = problem(head, 4)
    slot = SLOTS[slots](np.random.default_rng(4))
    forward = policy.forward(stacked(policy, theta, slot), batch, policy.outputs)
    here = torch.from_numpy(np.broadcast_to(slot, (R, G, N, T)).copy())
    gradient = torch.zeros(R, policy.size, dtype=torch.float64)
    for version in (0, 1):
        alone = policy.forward(versions.current(policy.prepare(theta[version])), batch, policy.outputs)
        for name in policy.outputs:
            assert torch.equal(forward.outputs[name][here == version], alone.outputs[name][here == version])
        chosen = {w.ndim: (here == version).reshape(here.shape + (1,) * (w.ndim - 4)) for w in weight.values()}
        gradient += alone.pullback({name: w * chosen[w.ndim] for name, w in weight.items()})
    torch.testing.assert_close(forward.pullback(weight), gradient, rtol=1e-12, atol=1e-12)


def draws_of(numbers=None, samples=N, groups=G, seed=0):
    numbers = np.arange(R) if numbers is None else np.asarray(numbers)
    trajectory = np.arange(groups * samples, dtype=np.int64).reshape(1, groups, samples)
    return Draws(rng.Stream(seed, "rollout"), numbers, np.zeros(len(numbers), dtype=np.int64), trajectory)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("head", HEADS)
def test_an_action_has_the_same_bits_whatever_version_others_read(head, dtype):
    policy, theta, batch, _ = problem(head, 5, dtype, hidden=(64, 64))
    seen = batch.state[:, :, :, 0]
    alone = [policy.act(versions.current(policy.prepare(t)), seen, draws_of(), 3) for t in theta]
    for seed in range(5):
        slot = np.random.default_rng(seed).integers(0, 2, (R, G, N, 1))
        found = policy.act(stacked(policy, theta, slot), seen, draws_of(), 3)
        value = policy.value(stacked(policy, theta, slot), seen)
        assert torch.equal(value, found.outputs["value"])
        for version in (0, 1):
            here = torch.from_numpy(slot[..., 0] == version)
            assert torch.equal(found.action[here], alone[version].action[here])
            for name in ("log_prob", "value"):
                assert torch.equal(found.outputs[name][here], alone[version].outputs[name][here]), name


@pytest.mark.parametrize("head", HEADS)
def test_a_block_of_replicates_has_the_bits_of_the_whole(head):
    policy, theta, batch, _ = problem(head, 6, torch.float32, hidden=(64, 64))
    seen, part = batch.state[:, :, :, 0], [2]
    whole = policy.act(versions.current(policy.prepare(theta[0])), seen, draws_of(), 0)
    block = policy.act(versions.current(policy.prepare(theta[0][part])), seen[part], draws_of(part), 0)
    assert torch.equal(block.action, whole.action[part])
    assert torch.equal(block.outputs["log_prob"], whole.outputs["log_prob"][part])


@pytest.mark.parametrize("head", HEADS)
def test_what_is_recorded_at_the_draw_is_what_the_batch_scores(head):
    policy, theta, batch, _ = problem(head, 7)
    seen, view = batch.state[:, :, :, 0], versions.current(policy.prepare(theta[0]))
    act = policy.act(view, seen, draws_of(), 0)
    drawn = dataclasses.replace(batch, action=act.action.unsqueeze(3), state=seen.unsqueeze(3))
    outputs = policy.forward(view, drawn, ("log_prob", "value")).outputs
    for name in ("log_prob", "value"):
        torch.testing.assert_close(act.outputs[name], outputs[name][..., 0], rtol=1e-12, atol=1e-12)


def test_actions_are_a_plain_inverse_cdf():
    policy, theta, batch, _ = problem("categorical", 8)
    seen = batch.state[:, :, :, 0]
    found = policy.act(versions.current(policy.prepare(theta[0])), seen, draws_of(), 2).action
    uniform = draws_of().uniform(2, 0)
    for r in range(R):
        chance = torch.softmax(Module(policy, theta[0, r]).actor(seen[r]), -1).detach().numpy()
        expected = [
            np.searchsorted(np.cumsum(p), u, "right")
            for p, u in zip(chance.reshape(G * N, -1), uniform[r].flatten(), strict=True)
        ]
        assert found[r].flatten().tolist() == expected


@pytest.mark.parametrize("head", HEADS)
def test_actions_have_the_law_of_the_policy(head):
    """20 000 draws at one observation; false alarm 1e-6 for each head, and a spread 10% too wide is seen."""
    policy, samples = policy_of(head, hidden=(8,)), 20000
    view = versions.current(policy.prepare(policy.initial(1, torch.float64, seed=3) * 1.0))
    seen = torch.tensor([0.4, -1.0, 2.0]).double().expand(1, 1, samples, D)
    action = policy.act(view, seen, draws_of([0], samples, 1), 0).action[0, 0]
    module = Module(policy, view.weights["parameters"][0, 0])
    raw = module.actor(seen[0, 0, 0]).detach()
    if head == "categorical":
        count, chance = np.bincount(action.numpy(), minlength=4), torch.softmax(raw, -1).numpy()
        assert stats.chisquare(count, samples * chance).pvalue > 1e-6
        assert stats.chisquare(count, samples * np.roll(chance, 1)).pvalue < 1e-6
        return
    standard = ((action - raw) / module.log_std.detach().exp()).numpy().reshape(-1)
    assert stats.kstest(standard, "norm").pvalue > 1e-6
    assert stats.kstest(1.1 * standard, "norm").pvalue < 1e-6


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("mixed", [False, True])
def test_score_norm_is_brute_force(head, mixed):
    policy, theta, batch, weight = problem(head, 9)
    slot = np.random.default_rng(9).integers(0, 2, (R, G, N, T)) if mixed else np.zeros((1, 1, 1, 1), dtype=np.int64)
    view = stacked(policy, theta, slot)
    found, forward = policy.score_norm(view, batch, weight["log_prob"]), policy.forward(view, batch, ())
    for g in range(G):
        for n in range(N):
            alone = torch.zeros_like(weight["log_prob"])
            alone[:, g, n] = weight["log_prob"][:, g, n]
            expected = (forward.pullback({"log_prob": alone}) ** 2).sum(-1)
            torch.testing.assert_close(found[:, g, n], expected, rtol=1e-10, atol=1e-12)


def test_score_norm_of_long_trajectories_is_refused(monkeypatch):
    policy, theta, batch, weight = problem("categorical")
    monkeypatch.setattr(network, "_PAIRS", 10)
    with pytest.raises(InputError, match=r"pairs of tokens in score_norm = .*another advantage than opob"):
        policy.score_norm(versions.current(policy.prepare(theta[0])), batch, weight["log_prob"])


def test_every_replicate_begins_with_its_own_weights_whatever_block_it_is_in():
    policy = policy_of("gaussian", hidden=(16, 16))
    whole = policy.initial(5, torch.float64, seed=4)
    assert torch.equal(policy.initial(np.array([3, 1]), torch.float64, seed=4), whole[[3, 1]])
    layers = [*policy.layout.actor(whole), *policy.layout.valuer(whole)]
    for weight, bias in layers:
        assert (bias == 0.0).all()
        for r in range(5):
            others = [s for s in range(5) if s != r]
            assert ((weight[others] - weight[r]).abs().amax((1, 2)) > 1e-3).all()
    assert not torch.equal(policy.initial(5, torch.float64, seed=5), whole)
    assert not torch.equal(layers[1][0], layers[4][0]), "networks of one replicate differ"
    assert (policy.layout.log_std(whole) == -0.3).all()


def test_initial_weights_are_orthogonal():
    policy = sim.policies.mlp(4, 2)
    flat = policy.initial(2, torch.float64)
    gains = {"actor": (math.sqrt(2), math.sqrt(2), 0.01), "valuer": (math.sqrt(2), math.sqrt(2), 1.0)}
    for name, expected in gains.items():
        for (weight, _), gain in zip(getattr(policy.layout, name)(flat), expected, strict=True):
            short = weight if weight.shape[1] <= weight.shape[2] else weight.mT
            product = short @ short.mT / gain**2
            assert (product - torch.eye(product.shape[-1], dtype=torch.float64)).abs().max() < 1e-12


def test_initial_weights_are_uniform_among_orthogonal_ones():
    """Entries of 3 x 2 orthonormal columns: each coordinate of a column is uniform on [-1, 1] (sphere in 3 dimensions).

    4000 matrices, Kolmogorov-Smirnov, false alarm 1e-6; without the sign fix the diagonal would have one sign.
    """
    policy = sim.policies.mlp(3, 2, hidden=(), critic=False, gain=1.0)
    weight = policy.layout.actor(policy.initial(4000, torch.float64))[0][0]
    for i, j in ((0, 0), (1, 0), (2, 1), (1, 1)):
        assert stats.kstest(weight[:, i, j].numpy(), "uniform", (-1, 2)).pvalue > 1e-6
    signed = weight[:, 0, 0].abs().neg().numpy()
    assert stats.kstest(signed, "uniform", (-1, 2)).pvalue < 1e-6


def test_the_normalizer_holds_the_moments_of_all_batches():
    policy, _, batch, _ = problem("categorical", 10, normalize=True)
    parameters, seen = policy.initial(R, torch.float64), []
    mean, variance, count = policy.layout.normalizer(parameters)
    assert (mean == 0).all() and (variance == 1).all() and (count == 0).all()
    for step in range(3):
        shifted = dataclasses.replace(batch, state=batch.state * (1 + step) + step)
        parameters = policy.absorb(parameters, shifted)
        seen.append(shifted)
    mean, variance, count = policy.layout.normalizer(parameters)
    for r in range(R):
        rows = np.concatenate([b.state[r][b.mask[r] > 0].numpy() for b in seen])
        assert count[r, 0] == len(rows)
        np.testing.assert_allclose(mean[r], rows.mean(0), rtol=1e-12)
        np.testing.assert_allclose(variance[r], rows.var(0), rtol=1e-12)
    assert torch.equal(
        parameters[:, : policy.layout.trained], policy.initial(R, torch.float64)[:, : policy.layout.trained]
    )
    everything = np.concatenate([b.state[0].reshape(-1, D).numpy() for b in seen])
    assert not np.allclose(mean[0], everything.mean(0), rtol=1e-3), "masked tokens counted would be seen"


def test_a_batch_without_tokens_leaves_the_normalizer_alone():
    policy, _, batch, _ = problem("categorical", 11, normalize=True)
    parameters = policy.absorb(policy.initial(R, torch.float64), batch)
    empty = dataclasses.replace(batch, mask=torch.zeros_like(batch.mask))
    assert torch.equal(policy.absorb(parameters, empty), parameters)
    plain = policy_of("categorical")
    begun = plain.initial(R)
    assert plain.absorb(begun, batch) is begun


def test_observations_are_normalized_and_cut():
    policy, theta, batch, _ = problem("categorical", 12, normalize=True)
    mean, variance, _ = policy.layout.normalizer(theta[0])
    far = batch.state.clone()
    far[0, 0, 0, 0] = 1e4
    expected = ((far - mean[:, None, None, None]) / (variance[:, None, None, None] + 1e-8).sqrt()).clamp(-10, 10)
    plain = policy_of("categorical")
    found = policy.value(versions.current(policy.prepare(theta[0])), far[:, :, :, 0])
    same = plain.value(versions.current(plain.prepare(theta[0][:, : plain.size])), expected[:, :, :, 0])
    torch.testing.assert_close(found, same, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("newest", [False, True])
def test_behavior_is_scored_with_the_normalizer_of_its_version(newest):
    """Planted: the moments of the newest version under the old weights change the recorded log-probs."""
    policy, _, batch, _ = problem("gaussian", 13, normalize=True)
    old = policy.absorb(policy.initial(R, torch.float64), batch)
    new = policy.absorb(old, dataclasses.replace(batch, state=3.0 * batch.state - 1.0))
    seen = batch.state[:, :, :, 0]
    act = policy.act(versions.current(policy.prepare(old)), seen, draws_of(), 0)
    used = torch.cat([old[:, : policy.layout.trained], (new if newest else old)[:, policy.layout.trained :]], 1)
    view = versions.View({"parameters": torch.stack([new, used])}, np.ones((1, 1, 1, 1), dtype=np.int64), np.arange(R))
    drawn = dataclasses.replace(batch, action=act.action.unsqueeze(3), state=seen.unsqueeze(3))
    error = (policy.forward(view, drawn, ("log_prob",)).outputs["log_prob"][..., 0] - act.outputs["log_prob"]).abs()
    assert (error.max() > 1e-3) == newest
    assert (error.max() < 1e-12) != newest


def test_tanh_by_way_of_the_logistic_function():
    x = torch.linspace(-30, 30, 20001, dtype=torch.float64).reshape(1, -1, 1)
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    found = network.Network([(one, one[0] * 0), (one, one[0] * 0)], x).inputs[1]
    assert (found - x.tanh()).abs().max() < 4e-16


def test_without_critic_there_is_no_value():
    policy = policy_of("categorical", critic=False)
    assert policy.outputs == ("log_prob", "entropy", "log_probs") and not policy.critic
    assert policy.size < policy_of("categorical").size
    _, theta, batch, _ = problem("categorical", critic=False)
    view = versions.current(policy.prepare(theta[0]))
    assert set(policy.act(view, batch.state[:, :, :, 0], draws_of(), 0).outputs) == {"log_prob"}
    refused("critic", lambda: policy.value(view, batch.state[:, :, :, 0]))
    refused("policy output = 'value'", policy.forward, view, batch, ("value",))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observation": 0}, "observation = 0: must be an integer >= 1"),
        ({"actions": 1}, "actions = 1: must be an integer >= 2"),
        ({"head": "gaussian", "actions": 0}, "actions = 0: must be an integer >= 1"),
        ({"head": "beta"}, "head = 'beta': must be one of categorical, gaussian"),
        ({"hidden": 64}, "hidden = 64: must be a tuple"),
        ({"hidden": (64, 0)}, r"hidden\[1\] = 0: must be an integer >= 1"),
        ({"critic": 1}, "critic = 1: must be True or False"),
        ({"log_std": math.inf}, "log_std = inf: must be a finite number"),
        ({"gain": -1.0}, "gain = -1.0: must be a finite number"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    refused(message, lambda: sim.policies.mlp(**{"observation": 4, "actions": 2, **changes}))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("head", HEADS)
def test_a_gpu_gives_the_same_numbers(head):
    policy, theta, batch, weight = problem(head)
    expected = policy.forward(versions.current(policy.prepare(theta[0])), batch, policy.outputs)
    moved = dataclasses.replace(batch, **{name: getattr(batch, name).cuda() for name in ("action", "state", "mask")})
    found = policy.forward(versions.current(policy.prepare(theta[0].cuda())), moved, policy.outputs)
    for name in policy.outputs:
        torch.testing.assert_close(found.outputs[name].cpu(), expected.outputs[name], rtol=1e-10, atol=1e-10)
    pulled = found.pullback({name: w.cuda() for name, w in weight.items()}).cpu()
    torch.testing.assert_close(pulled, expected.pullback(weight), rtol=1e-9, atol=1e-9)
