"""The language policy: sampling against a plain loop, scoring against autograd, versions that change on the way."""

import dataclasses
import gc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base import rng
from asyncsim.base.checks import InputError
from asyncsim.policies import _language_network as networks
from asyncsim.policies import _language_prompts as prompts
from asyncsim.policies import _language_sampling as sampling
from asyncsim.step import versions
from asyncsim.step.batch import Batch, Draws
from tests.refusals import refused

SHAPE = {"width": 16, "layers": 3, "heads": 2, "hidden": 24, "context": 40, "steps": 0}
TEXTS = ("1+2=", "12+34=", "7=", "12+39=")
SURE = 0.05
"""A temperature at which samples of one prompt often say the same."""
SHARED = ("aaaaaaaaab1+2=", "aaaaaaaaab12+34=", "aaaaaaaaab7=", "aaaaaaaaab12+3=")
N, T = 3, 6


def policy(exact=True, **settings):
    """A small model; in float64 unless `exact` is off."""
    settings = ({"sampler": "float64", "compute": "float64"} if exact else {}) | settings
    return sim.policies.causal_lm("char", recipe=SHAPE, **settings)


def weights(made, seed=0):
    """Weights ten times as large as at a start, so that every token matters, `[1, P]`."""
    flat = made.initial(1, torch.float64 if made.compute == "float64" else torch.float32)
    noise = torch.randn(flat.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (flat + 0.2 * noise).to(flat.dtype)


def ids(made, texts=TEXTS):
    """Prompts `[1, G, N, L]`, padded with -1 on the left."""
    rows = [made.tokenizer.encode(text) for text in texts]
    longest = max(map(len, rows)) + 2
    table = torch.tensor([[-1] * (longest - len(row)) + row for row in rows])
    return table[None, :, None].expand(1, len(texts), N, longest).contiguous()


def draws_of(groups=4, seed=5):
    numbers = np.arange(groups * N).reshape(1, groups, N)
    return Draws(rng.Stream(seed, "rollout"), np.arange(1), np.zeros(1, dtype=np.int64), numbers)


def view_of(made, *flats, slot=None):
    """A view of several weights; `slot` `[G, N, T]` says which of them a token reads."""
    stack = torch.stack([made.prepare(flat)["parameters"] for flat in flats])
    slots = np.zeros((1, 1, 1, 1), dtype=np.int64) if slot is None else slot[None]
    return versions.View({"parameters": stack}, slots, np.zeros(1, dtype=np.int64))


def drawn(made, view, seen, draws=None, where=None, memory=None, action=None, tokens=T):
    """Actions and log-probs `[1, G, N, T]`; with `where` only those tokens."""
    draws, memory = draws or draws_of(seen.shape[1]), made.remember(seen) if memory is None else memory
    shape = (*seen.shape[:3], tokens)
    action = torch.zeros(shape, dtype=torch.int64) if action is None else action.clone()
    log_prob = torch.zeros(shape, dtype=torch.float64)
    for t in range(tokens):
        active = torch.ones(shape[:3], dtype=torch.bool) if where is None else where[..., t]
        if not active.any():
            continue
        act = made.act(view.token(t), seen, draws, t, memory, active)
        action[..., t] = torch.where(active, act.action, action[..., t])
        log_prob[..., t] = torch.where(active, act.outputs["log_prob"].double(), log_prob[..., t])
    return action, log_prob


def batch_of(seen, action, mask=None):
    mask = torch.ones(action.shape, dtype=torch.float64) if mask is None else mask
    empty = torch.zeros(action.shape[:3], dtype=torch.float64)
    return Batch.of_nobody(action, seen.unsqueeze(3), mask, empty, empty + 1 / N, N)


def parts_of(made, flat):
    """What is trained, by name, from flat parameters `[P]`."""
    names, shapes = zip(*made.model.trained, strict=True)
    pieces = flat[: sum(shape.numel() for shape in shapes)].split([shape.numel() for shape in shapes])
    return {name: piece.reshape(shape) for name, piece, shape in zip(names, pieces, shapes, strict=True)}


def plain_logits(made, flat, tokens):
    """Logits behind every token of one text, without cache, padding or sharing; differentiable in flat `[P]`."""
    parts = parts_of(made, flat)
    frozen = {n: w.to(flat.dtype) for n, w in made.model.network.named_parameters() if n not in parts}
    L = len(tokens)
    mask = torch.full((1, 1, L, L), -torch.inf, dtype=flat.dtype).triu(1)
    inputs = (torch.tensor([tokens]), torch.arange(L)[None], mask)
    return torch.func.functional_call(made.model.network, {**frozen, **parts}, inputs).logits[0]


def library_rows(network, made, flat, seen, action):
    """The same by the library's own passes of a network, one text at a time, at weights `[P]`."""
    parts, every = parts_of(made, flat), []
    for row, said in zip(seen.reshape(-1, seen.shape[-1]), action.reshape(-1, T), strict=True):
        text = torch.cat([row[row >= 0], said])[None]
        logits = torch.func.functional_call(network, parts, (), {"input_ids": text, "use_cache": False}).logits
        every.append(logits[0, -T - 1 : -1].log_softmax(-1))
    return torch.stack(every)


def rows_of(made, flat, seen, action):
    """Log-probs of the whole vocabulary at every token, `[G N, T, V]`, one text at a time."""
    every = []
    for row, said in zip(seen.reshape(-1, seen.shape[-1]), action.reshape(-1, action.shape[-1]), strict=True):
        prompt = row[row >= 0].tolist()
        logits = plain_logits(made, flat, prompt + said.tolist())[len(prompt) - 1 : -1]
        every.append((logits / made.temperature).log_softmax(-1))
    return torch.stack(every)


def reference(made, flat, seen, action, mask=None):
    """`log_prob` and `entropy` `[G N, T]` of every token."""
    law = rows_of(made, flat, seen, action)
    said = action.reshape(-1, action.shape[-1], 1)
    found = torch.stack([law.gather(2, said)[..., 0], -(law.exp() * law).sum(2)])
    return found if mask is None else found * mask.reshape(-1, mask.shape[-1])


# Sampling.


@pytest.mark.parametrize("texts", [TEXTS, SHARED, TEXTS[:1]], ids=["plain", "shared", "one"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_tokens_are_the_inverse_cdf_of_a_plain_loop(texts, temperature):
    """Padding, caches, shared prefixes and equal prompts change nothing."""
    made = policy(temperature=temperature)
    flat, seen = weights(made), ids(made, texts)
    action, log_prob = drawn(made, view_of(made, flat), seen)
    expected = reference(made, flat[0], seen, action)[0].reshape(log_prob.shape)
    torch.testing.assert_close(log_prob, expected, rtol=0, atol=1e-11)
    draws = draws_of(len(texts))
    for g in range(len(texts)):
        prompt = seen[0, g, 0][seen[0, g, 0] >= 0].tolist()
        for n in range(N):
            said = action[0, g, n].tolist()
            logits = plain_logits(made, flat[0], prompt + said)
            for t, a in enumerate(said):
                edges = (logits[len(prompt) - 1 + t] / temperature).softmax(-1).cumsum(-1)
                uniform = draws.uniform(t, 0)[0, g, n]
                assert edges[a] > uniform - 1e-12 and (a == 0 or edges[a - 1] <= uniform + 1e-12)


def test_sampling_agrees_with_scoring_in_float32():
    """Within 1e-5 on the default shape, with padding and prompts of unequal length; a shifted position is seen."""
    made = sim.policies.causal_lm("char", recipe={"steps": 0})
    flat, seen = made.initial(1, torch.float32) * 3, ids(made, SHARED)
    view = view_of(made, flat)
    action, log_prob = drawn(made, view, seen)
    scored = made.forward(view, batch_of(seen, action), ("log_prob",)).outputs["log_prob"]
    assert scored.dtype == torch.float32 and (scored - log_prob).abs().max() < 1e-5
    torch.testing.assert_close(made.score(view, batch_of(seen, action)), scored, rtol=0, atol=1e-6)
    shifted = torch.cat([seen[..., 1:], seen[..., :1].clamp(min=2)], -1)
    assert (made.score(view, batch_of(shifted, action)) - log_prob).abs().max() > 1e-3


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), temperature=st.sampled_from([1.0, SURE]))
def test_rows_taken_up_again_are_the_same_rows(seed, temperature):
    """Any order of drawing by rows, and drawing tokens twice, gives the actions of one pass.

    Rows that are alike share a place in the cache, until they say different things or one of them is not read on.
    """
    made, random = policy(temperature=temperature), np.random.default_rng(seed)
    flat, seen = weights(made), ids(made, SHARED)
    view = view_of(made, flat)
    whole, expected = drawn(made, view, seen)
    memory, action = made.remember(seen), torch.zeros_like(whole)
    found = torch.zeros_like(expected)
    reach = torch.zeros(whole.shape[:3], dtype=torch.int64)
    for _ in range(4):
        begin = torch.from_numpy(random.integers(0, T + 1, tuple(reach.shape))).minimum(reach)
        end = torch.from_numpy(random.integers(0, T + 1, tuple(reach.shape)))
        column = torch.arange(T)
        where = (column >= begin.unsqueeze(-1)) & (column < end.unsqueeze(-1))
        action, log_prob = drawn(made, view, seen, where=where, memory=memory, action=action)
        found = torch.where(where, log_prob, found)
        reach = torch.maximum(reach, torch.where(end > begin, end, reach))
    known = torch.arange(T) < reach.unsqueeze(-1)
    assert torch.equal(action[known], whole[known])
    torch.testing.assert_close(found[known], expected[known], rtol=0, atol=1e-11)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), temperature=st.sampled_from([1.0, SURE]))
def test_tokens_of_two_versions_come_from_their_own_weights(seed, temperature):
    """Drawn late from both weights or early from one after the other; caches of the old weights are not read on."""
    made, random = policy(temperature=temperature), np.random.default_rng(seed)
    seen = ids(made)
    flats = [weights(made, s) for s in (1, 2)]
    change = random.integers(0, T + 1, (len(TEXTS), N))
    slot = (np.arange(T) >= change[..., None]).astype(np.int64)
    late, log_prob = drawn(made, view_of(made, *flats, slot=slot), seen)
    memory, action, early = made.remember(seen), torch.zeros_like(late), torch.zeros_like(log_prob)
    views = [view_of(made, flat) for flat in flats]
    for version, view in enumerate(views):
        where = torch.from_numpy(slot == version)[None]
        action, found = drawn(made, view, seen, where=where, memory=memory, action=action)
        early = torch.where(where, found, early)
    assert torch.equal(action, late)
    torch.testing.assert_close(early, log_prob, rtol=0, atol=1e-11)
    every = [reference(made, flat[0], seen, late)[0].reshape(late.shape) for flat in flats]
    torch.testing.assert_close(
        log_prob, torch.where(torch.from_numpy(slot)[None] == 1, *every[::-1]), rtol=0, atol=1e-11
    )


def test_what_is_alike_is_read_once(monkeypatch):
    """Of samples that have said the same so far one goes through the network, in sampling, scoring and pulling."""
    made = policy(temperature=SURE)
    flat, seen = weights(made), ids(made, ("12+39=", "1+2=", "1+2=", "7="))
    view, read, passed = view_of(made, flat), networks.read, []

    def counted(network, tokens, *rest):
        passed.append(len(tokens))
        return read(network, tokens, *rest)

    for module in (sampling, prompts):
        monkeypatch.setattr(module, "read", counted)
    action, log_prob = drawn(made, view, seen)
    said = torch.cat([seen, action], -1).flatten(0, 2)
    kinds = [len(torch.unique(said[:, : seen.shape[-1] + t], dim=0)) for t in range(T + 1)]
    # The cache may keep places that nobody reads on, a quarter of them at most.
    assert kinds[0] == 3 and kinds[T] < len(said)
    assert all(kind <= rows < 4 / 3 * kind for rows, kind in zip(passed, kinds, strict=False)) and len(passed) == T
    passed.clear()
    forward = made.forward(view, batch_of(seen, action), ("log_prob",))
    assert passed == [kinds[0], kinds[T]], "each prompt once, each response once"
    live = flat[0].clone().requires_grad_()
    expected = reference(made, live, seen, action)[0].reshape(action.shape)
    torch.testing.assert_close(log_prob, expected.detach(), rtol=0, atol=1e-11)
    torch.testing.assert_close(forward.outputs["log_prob"], expected.detach(), rtol=0, atol=1e-11)
    cotangent = torch.randn(action.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (gradient,) = torch.autograd.grad((cotangent * expected).sum(), live)
    torch.testing.assert_close(forward.pullback({"log_prob": cotangent}), gradient[None], rtol=1e-9, atol=1e-10)


def test_a_row_that_was_left_behind_does_not_spoil_its_like():
    """Two rows are alike for two tokens; then one goes on alone, then the other, then the first again."""
    made = policy()
    flat, seen = weights(made), ids(made, ("1+2=",))[:, :, :2]
    lane = sampling.Lane(made.model.bound(flat[0], "float64")[0], prompts.lay_out(seen.flatten(0, 2), 40))
    said = torch.tensor([[3, 4, 5, 6], [3, 4, 7, 8]])
    prompt = seen[0, 0, 0][seen[0, 0, 0] >= 0].tolist()
    for rows, t in (([0, 1], 0), ([0, 1], 1), ([0, 1], 2), ([0], 3), ([1], 3), ([0], 4), ([0, 1], 4)):
        logits, which = lane.logits(torch.tensor(rows), said[:, :t])
        assert len(logits) == (1 if t < 3 else len(rows))
        for row, kind in zip(rows, which.tolist(), strict=True):
            expected = plain_logits(made, flat[0], prompt + said[row, :t].tolist())[-1]
            torch.testing.assert_close(logits[kind], expected, rtol=0, atol=1e-11)


def test_weights_that_changed_in_place_are_read_again():
    made = policy()
    seen, flat = ids(made), weights(made, 1)
    view, memory = view_of(made, flat), made.remember(seen)
    action, _ = drawn(made, view, seen, memory=memory, tokens=3)
    view.weights["parameters"].copy_(weights(made, 2))
    where = (torch.arange(4) == 3).expand(*action.shape[:3], 4)
    action = torch.nn.functional.pad(action, (0, 1))
    action, log_prob = drawn(made, view, seen, where=where, memory=memory, action=action, tokens=4)
    expected = reference(made, weights(made, 2)[0], seen, action)[0].reshape(action.shape)
    torch.testing.assert_close(log_prob[where], expected[where], rtol=0, atol=1e-11)


def test_what_stands_behind_a_changed_action_is_read_again():
    """Token 2 is drawn anew from other numbers; token 5 then follows what was said, not what a cache holds."""
    made = policy()
    seen, view = ids(made), view_of(made, weights(policy()))
    memory = made.remember(seen)
    action, _ = drawn(made, view, seen, memory=memory)
    for token, seed in ((2, 6), (5, 5)):
        where = (torch.arange(T) == token).expand(action.shape)
        before = action
        action, log_prob = drawn(made, view, seen, draws_of(seed=seed), where, memory, action)
        assert token == 5 or (action != before).any()
    expected = reference(made, weights(made)[0], seen, action)[0].reshape(action.shape)
    torch.testing.assert_close(log_prob[..., 5], expected[..., 5], rtol=0, atol=1e-11)


def test_caches_go_with_their_weights():
    made = policy()
    seen, memory = ids(made), None
    view = view_of(made, weights(made))
    memory = made.remember(seen)
    drawn(made, view, seen, memory=memory, tokens=2)
    assert len(memory.lanes) == 1
    del view
    gc.collect()
    assert len(memory.lanes) == 0


def test_one_sample_is_recalled_alone():
    """A block of trajectories is taken apart, and one of them drawn on from its third token with new weights."""
    made = policy()
    seen, flats = ids(made, ("12+34=",)), [weights(made, s) for s in (1, 2)]
    old = view_of(made, flats[0])
    memory = made.remember(seen)
    action, _ = drawn(made, old, seen, memory=memory)
    one, number = made.recall(memory, 1), np.array([[[1]]])
    draws = Draws(rng.Stream(5, "rollout"), np.arange(1), np.zeros(1, dtype=np.int64), number)
    where = (torch.arange(T) >= 2).expand(1, 1, 1, T)
    new = view_of(made, flats[1])
    redrawn, log_prob = drawn(made, new, seen[:, :, 1:2], draws, where, one, action[:, :, 1:2])
    assert torch.equal(redrawn[..., :2], action[:, :, 1:2, :2])
    expected = reference(made, flats[1][0], seen[:, :, 1:2], redrawn)[0].reshape(log_prob.shape)
    torch.testing.assert_close(log_prob[where], expected[where], rtol=0, atol=1e-11)
    assert torch.equal(memory.actions.reshape(action.shape), action), "the block keeps what it said"


def test_finished_rows_leave_the_cache():
    made = policy()
    seen, view = ids(made), view_of(made, weights(policy()))
    memory, where = made.remember(seen), torch.ones(1, len(TEXTS), N, T, dtype=torch.bool)
    where[:, 1:, :, 2:] = False
    whole, _ = drawn(made, view, seen)
    action, _ = drawn(made, view, seen, where=where, memory=memory)
    (lane,) = memory.lanes.values()
    assert lane.rows.tolist() == [0, 1, 2]
    assert torch.equal(action[where], whole[where])


# The distribution.


@given(seed=st.integers(0, 10**6), top_k=st.integers(0, 8), top_p=st.floats(0.05, 1.0))
def test_the_nucleus_is_the_smallest_set_of_likeliest_tokens(seed, top_k, top_p):
    logits = torch.from_numpy(np.random.default_rng(seed).normal(size=(1, 7)) * 2)
    law = sampling.Distribution(0.8, top_p, top_k).log_prob(logits)[0]
    order = logits[0].argsort(descending=True).tolist()
    chance = (logits[0] / 0.8).softmax(-1)
    kept = order[: top_k or None]
    chance = chance / sum(chance[a] for a in kept)
    inside, held = [], 0.0
    for a in kept:
        if held < top_p or not inside:
            inside.append(a)
        held += float(chance[a])
    assert set(torch.isfinite(law).nonzero()[:, 0].tolist()) == set(inside)
    total = sum(chance[a] for a in inside)
    for a in inside:
        assert abs(float(law[a].exp() - chance[a] / total)) < 1e-12


@pytest.mark.parametrize("total", [1.0, 1.0 - 1e-7, 1.0 + 2.0**-52, 0.5, 1.0 + 1e-7])
def test_impossible_tokens_are_not_drawn(total):
    """At both ends, also where probabilities sum to less than the largest uniform number, or to more than 1."""
    law = (torch.tensor([[0.0, 0.5, 0.5, 0.0]], dtype=torch.float64) * total).log().expand(4, 4)
    uniform = torch.tensor([0.0, 0.4999, 0.5001, 1 - 2.0**-53], dtype=torch.float64)
    assert sampling.choose(law, uniform).tolist() == [1, 1, 2, 2]
    assert sampling.choose(torch.full((1, 4), torch.nan), uniform[:1]).tolist() == [3], "a diverged model still speaks"


# Scoring and gradients.


def masked(shape, seed=0):
    """A mask of left parts, one of a single token and one full."""
    length = torch.from_numpy(np.random.default_rng(seed).integers(1, T, shape[:3]))
    length[0, 0, 0], length[0, -1, -1] = 1, T - 1
    return (torch.arange(T) < length.unsqueeze(-1)).double()


@pytest.mark.parametrize("micro_batch", [None, 1, 5])
@pytest.mark.parametrize("train_layers", [None, 1, 2])
@pytest.mark.parametrize("texts", [TEXTS, SHARED], ids=["plain", "shared"])
def test_outputs_and_pullback_are_autograds(micro_batch, train_layers, texts):
    made = policy(micro_batch=micro_batch, train_layers=train_layers, temperature=0.9)
    flat, seen = weights(made), ids(made, texts)
    view = view_of(made, flat)
    action, _ = drawn(made, view, seen)
    mask = masked(action.shape)
    live = flat[0].clone().requires_grad_()
    expected = [*reference(made, live, seen, action, mask)]
    expected.append(rows_of(made, live, seen, action) * mask.reshape(-1, T, 1))
    forward = made.forward(view, batch_of(seen, action, mask), made.outputs)
    random = torch.Generator().manual_seed(3)
    cotangents, total = {}, 0.0
    for name, value in zip(made.outputs, expected, strict=True):
        shaped = value.detach().reshape(*action.shape, *value.shape[2:])
        torch.testing.assert_close(forward.outputs[name], shaped, rtol=0, atol=1e-11)
        assert not forward.outputs[name].requires_grad
        cotangents[name] = torch.randn(shaped.shape, generator=random, dtype=torch.float64)
        total = total + (cotangents[name].reshape(value.shape) * value).sum()
    (gradient,) = torch.autograd.grad(total, live)
    for _ in range(2):
        torch.testing.assert_close(forward.pullback(cotangents), gradient[None], rtol=1e-9, atol=1e-10)
    # Planted: the cotangents of two samples exchanged.
    other = {name: c.flip(1) for name, c in cotangents.items()}
    assert (forward.pullback(other) - gradient).abs().max() > 1e-3


def test_tokens_of_two_versions_are_pulled_back_at_their_own_weights():
    made = policy()
    flats, seen = [weights(made, s) for s in (1, 2)], ids(made)
    slot = np.random.default_rng(0).integers(0, 2, (len(TEXTS), N, T))
    view = view_of(made, *flats, slot=slot)
    action, _ = drawn(made, view_of(made, flats[0]), seen)
    mask = masked(action.shape)
    cotangent = torch.randn(action.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wide = torch.randn((*action.shape, made.actions), generator=torch.Generator().manual_seed(1)).double()
    forward = made.forward(view, batch_of(seen, action, mask), ("log_prob", "log_probs"))
    values, rows, gradient = torch.zeros_like(cotangent), torch.zeros_like(wide), 0.0
    for version, flat in enumerate(flats):
        live, here = flat[0].clone().requires_grad_(), torch.from_numpy(slot == version)[None]
        value = reference(made, live, seen, action, mask * here)[0].reshape(action.shape)
        every = rows_of(made, live, seen, action).reshape(wide.shape) * (mask * here).unsqueeze(-1)
        values, rows = values + value.detach(), rows + every.detach()
        gradient = gradient + torch.autograd.grad((value * cotangent).sum() + (every * wide).sum(), live)[0]
    torch.testing.assert_close(forward.outputs["log_prob"], values, rtol=0, atol=1e-11)
    torch.testing.assert_close(forward.outputs["log_probs"], rows, rtol=0, atol=1e-11)
    pulled = forward.pullback({"log_prob": cotangent, "log_probs": wide})
    torch.testing.assert_close(pulled, gradient[None], rtol=1e-9, atol=1e-10)


def test_truncation_scores_what_it_draws_and_refuses_the_rest():
    """Behavior log-probs are the scored ones; a token outside the nucleus has log-prob -inf and no gradient."""
    made = policy(top_k=4, top_p=0.8)
    flat, seen = weights(made), ids(made)
    view = view_of(made, flat)
    action, log_prob = drawn(made, view, seen)
    forward = made.forward(view, batch_of(seen, action), ("log_prob", "entropy"))
    torch.testing.assert_close(forward.outputs["log_prob"], log_prob, rtol=0, atol=1e-11)
    assert forward.outputs["entropy"].max() <= np.log(4) + 1e-9
    wide = reference(made, flat[0], seen, action)[0].reshape(action.shape)
    assert (log_prob - wide).max() > 0.05, "the untruncated law is another"
    outside = action.clone()
    outside[0, 0, 0, -1] = next(a for a in range(1, 49) if not _inside(made, view, seen, action, a))
    forward = made.forward(view, batch_of(seen, outside), ("log_prob",))
    assert forward.outputs["log_prob"][0, 0, 0, -1] == -torch.inf
    cotangent = torch.zeros(action.shape, dtype=torch.float64)
    cotangent[0, 0, 0, -1] = torch.inf
    assert (forward.pullback({"log_prob": cotangent}) == 0).all()
    cotangent[0, 0, 0, 0] = 1.0
    assert torch.isfinite(forward.pullback({"log_prob": cotangent})).all()
    every = made.forward(view, batch_of(seen, outside), ("log_probs",))
    rows = every.outputs["log_probs"]
    assert (rows.exp().sum(-1) - 1.0).abs().max() < 1e-12 and (rows == -torch.inf).any()
    assert torch.isfinite(
        every.pullback({"log_probs": torch.full_like(rows, torch.inf).where(rows.isinf(), rows)})
    ).all()


def _inside(made, view, seen, action, token):
    tried = action.clone()
    tried[0, 0, 0, -1] = token
    return bool(torch.isfinite(made.score(view, batch_of(seen, tried))[0, 0, 0, -1]))


# Numerics.


@pytest.mark.parametrize(("form", "largest"), [("bfloat16", 0.3), ("int8", 0.3)])
def test_another_sampler_is_near_the_trainer_and_says_so(form, largest):
    """Its log-probs are those of what it samples: near the trainer's, not equal."""
    made = sim.policies.causal_lm("char", recipe=SHAPE, sampler=form)
    flat, seen = made.initial(1, torch.float32) * 4, ids(made)
    view = view_of(made, flat)
    action, log_prob = drawn(made, view, seen)
    scored = made.score(view, batch_of(seen, action))
    assert made.mismatched and not policy().mismatched
    assert 1e-6 < (scored - log_prob).abs().max() < largest
    expected = reference(policy(exact=False), flat[0], seen, action)[0].reshape(action.shape)
    assert (scored - expected).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("sampler", "compute", "differs"),
    [("float32", "float32", False), ("bfloat16", "bfloat16", None), ("float32", "bfloat16", True)],
)
def test_rounding_is_no_staleness(sampler, compute, differs):
    """A synchronous run books what caches round otherwise as mismatch; planted: equal names of formats as equality.

    Whether caches in bfloat16 round otherwise than whole rows depends on the processor's products: None.
    """
    made = sim.policies.causal_lm("char", recipe=SHAPE, sampler=sampler, compute=compute)
    assert made.mismatched is (differs is not False)
    begun = made.initial(1)[0] * 6
    spec = sim.Spec(
        sim.tasks.arithmetic(prompts=4, horizon=12), sim.schedules.fixed(0, groups_per_batch=4),
        sim.methods.reinforce(), sim.chain(sim.updates.sgd(0.1)), made, initial=begun.numpy(), replicates=1,
        samples_per_group=8, updates=1, diagnostics=["staleness_variance", "mismatch_variance"],
    )  # fmt: skip
    trace = sim.run(spec)
    assert trace["staleness_variance"].max() < 1e-10
    assert differs is None or bool(trace["mismatch_variance"].max() > 1e-7) is differs


def test_int8_has_255_levels_in_each_row():
    weight = torch.randn(6, 50, generator=torch.Generator().manual_seed(0))
    weight[1] = 0.0
    near = networks.rounded(weight, "int8")
    step = weight.abs().amax(1, keepdim=True) / 127
    assert ((near - weight).abs() <= step / 2 * (1 + 1e-5)).all() and (near[1] == 0).all()
    levels = near[0] / step[0]
    assert (levels - levels.round()).abs().max() < 1e-4 and levels.abs().max() <= 127.001
    vector = torch.randn(5)
    assert torch.equal(networks.rounded(vector, "int8"), vector)


def test_a_bfloat16_trainer_gives_float32_numbers():
    made = sim.policies.causal_lm("char", recipe=SHAPE, compute="bfloat16", sampler="bfloat16")
    flat, seen = made.initial(1, torch.float32), ids(made)
    view = view_of(made, flat)
    action, _ = drawn(made, view, seen)
    forward = made.forward(view, batch_of(seen, action), ("log_prob",))
    gradient = forward.pullback({"log_prob": torch.ones(action.shape)})
    assert forward.outputs["log_prob"].dtype == gradient.dtype == torch.float32
    exact = policy(exact=False).forward(view, batch_of(seen, action), ("log_prob",))
    other = exact.pullback({"log_prob": torch.ones(action.shape)})
    assert torch.nn.functional.cosine_similarity(gradient, other).item() > 0.99


# Weights.


def test_frozen_weights_are_kept_once():
    made = policy(exact=False, train_layers=1)
    names = [name for name, _ in made.model.trained]
    assert all(name.startswith(("layers.2.", "norm.")) for name in names) and len(names) == 7
    one, two = (made.model.bound(weights(made, s)[0], "float32")[0] for s in (1, 2))
    assert one.embedding.weight is two.embedding.weight is made.model.network.embedding.weight
    assert one.layers[2].up.weight is not two.layers[2].up.weight
    assert torch.equal(made.initial(2, torch.float32)[1], made.model.flat())


def test_a_bound_network_leaves_the_others_alone():
    made = policy(exact=False)
    before = made.model.flat()
    bound, leaves = made.model.bound(weights(made, 3)[0], "float32", live=True)
    assert torch.equal(made.model.flat(), before)
    assert all(leaf.requires_grad for leaf in leaves)
    assert not any(w.requires_grad for w in made.model.network.parameters())
    assert bound.layers[0] is not made.model.network.layers[0]


# Bad input.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature = 0.0"),
        ({"top_p": 0.0}, "top_p = 0.0"),
        ({"top_p": 1.5}, "top_p = 1.5"),
        ({"top_k": -1}, "top_k = -1"),
        ({"sampler": "int4"}, "sampler = 'int4': must be one of float32, bfloat16, int8, float64"),
        ({"compute": "int8"}, "compute = 'int8': must be one of float32, bfloat16, float64"),
        ({"train_layers": 0}, "train_layers = 0"),
        ({"micro_batch": 0}, "micro_batch = 0"),
        ({"model": ""}, "model = ''"),
        ({"recipe": {"depth": 3}}, "field of recipe = 'depth': must be one of width"),
        ({"recipe": {"operations": 3}}, "recipe.operations = 3"),
        ({"recipe": {3: 3}}, "field of recipe = 3"),
        ({"recipe": 3}, "recipe = 3: must be a dictionary"),
        ({"model": "smollm2", "recipe": {"steps": 0}}, "recipe = {'steps': 0}: must be absent with a loaded model"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    error = refused("", lambda: sim.policies.causal_lm(**settings))
    assert message in str(error)


def test_more_trained_layers_than_there_are_is_refused():
    with pytest.raises(InputError, match=r"train_layers = 4: must be an integer in \[1, 3\]"):
        policy(train_layers=4).size  # noqa: B018


def test_a_text_longer_than_the_context_is_refused():
    made = policy()
    long = ids(made, ("1" * 41,))
    refused(r"tokens of a prompt and its response = 41: must be at most 40", made.remember, long)
    refused(r"= 41: must be at most 40", lambda: drawn(made, view_of(made, weights(made)), ids(made, ("1" * 38,))))
    with pytest.raises(InputError, match=r"= 44: must be at most 40"):
        seen = ids(made, ("1" * 38,))
        made.score(view_of(made, weights(made)), batch_of(seen, torch.zeros(1, 1, N, T, dtype=torch.int64)))


def test_an_empty_prompt_is_refused():
    made = policy()
    refused(r"tokens of a prompt = 0: must be at least 1", lambda: made.remember(torch.full((1, 1, N, 4), -1)))


def test_unknown_outputs_are_refused():
    made = policy()
    seen = ids(made)
    batch = batch_of(seen, torch.zeros(1, len(TEXTS), N, T, dtype=torch.int64))
    with pytest.raises(InputError, match=r"policy output = 'value': must be one of log_prob, entropy"):
        made.forward(view_of(made, weights(made)), batch, ("value",))


def test_a_prefix_is_shared_where_it_pays():
    made = policy()
    shared = prompts.lay_out(ids(made, SHARED).reshape(-1, ids(made, SHARED).shape[-1]), 40)
    assert made.tokenizer.decode(shared.shared.tolist()) == "aaaaaaaaab" and shared.width == len(SHARED[1])
    apart = prompts.lay_out(ids(made).reshape(-1, ids(made).shape[-1]), 40)
    assert len(apart.shared) == 0
    same = ids(made, ("aaaaaaaaab",) * 2)
    assert len(prompts.lay_out(same.reshape(-1, same.shape[-1]), 40).shared) == 9, "the last token has its own row"
    first, which = shared.alike(shared.rest[:, :0])
    distinct = shared.rows(first)
    assert len(distinct.length) == len(SHARED) and len(which) == len(SHARED) * N


def test_replicates_of_one_block_are_independent():
    """Two replicates with weights of their own; each gradient goes to its own row."""
    made = policy()
    flat = torch.cat([weights(made, 1), weights(made, 2)])
    seen = ids(made).expand(2, -1, -1, -1).contiguous()
    view = versions.View(
        {"parameters": flat[None]}, np.zeros((1, 1, 1, 1), dtype=np.int64), np.zeros(2, dtype=np.int64)
    )
    numbers = np.arange(len(TEXTS) * N).reshape(1, -1, N)
    draws = Draws(rng.Stream(5, "rollout"), np.arange(2), np.zeros(2, dtype=np.int64), numbers)
    action, log_prob = drawn(made, view, seen, draws)
    cotangent = torch.randn(action.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    forward = made.forward(
        view, dataclasses.replace(batch_of(seen, action), realization=np.zeros(2, int)), ("log_prob",)
    )
    gradient = forward.pullback({"log_prob": cotangent})
    for r in range(2):
        live = flat[r].clone().requires_grad_()
        value = reference(made, live, seen[r : r + 1], action[r : r + 1])[0].reshape(action[r].shape)
        torch.testing.assert_close(log_prob[r], value.detach(), rtol=0, atol=1e-11)
        (expected,) = torch.autograd.grad((value * cotangent[r]).sum(), live)
        torch.testing.assert_close(gradient[r], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_of_transformers_is_sampled_and_trained_alike(tied, monkeypatch):
    """Grouped heads, rotary positions, a tied head: caches, padding and sharing against one text at a time."""
    transformers = pytest.importorskip("transformers")
    from asyncsim.policies import _hub
    from asyncsim.policies._pretraining import Characters

    config = transformers.LlamaConfig(
        vocab_size=49, hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=48, tie_word_embeddings=tied, attn_implementation="sdpa",
    )  # fmt: skip
    network = transformers.LlamaForCausalLM(config).double().eval().requires_grad_(False)
    monkeypatch.setattr(_hub, "load", lambda name, dtype: (network, Characters(), 48, {}))
    for layers in (None, 2):
        made = sim.policies.causal_lm("hub:folder", train_layers=layers, sampler="float64", compute="float64")
        flat = made.initial(1, torch.float64)
        flat = flat + 0.1 * torch.randn(flat.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        seen, view = ids(made, SHARED), view_of(made, flat)
        action, log_prob = drawn(made, view, seen)
        live, trained = flat[0].clone().requires_grad_(), dict(made.model.trained)
        assert ("model.embed_tokens.weight" in trained) == (layers is None) and "model.norm.weight" in trained
        every = library_rows(network, made, live, seen, action)
        expected = every.gather(2, action.reshape(-1, T, 1)).reshape(action.shape)
        torch.testing.assert_close(log_prob, expected.detach(), rtol=0, atol=1e-10)
        forward = made.forward(view, batch_of(seen, action), ("log_prob",))
        torch.testing.assert_close(forward.outputs["log_prob"], expected.detach(), rtol=0, atol=1e-10)
        cotangent = torch.randn(action.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        (gradient,) = torch.autograd.grad((expected * cotangent).sum(), live)
        # Its norms and angles are computed in float32 whatever the weights are.
        torch.testing.assert_close(forward.pullback({"log_prob": cotangent}), gradient[None], rtol=1e-4, atol=1e-5)


def policy_size(**settings):
    return sim.policies.causal_lm("char", **settings).size


def test_a_header_says_what_was_run_without_making_weights(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNCSIM_CACHE", str(tmp_path))
    made = sim.policies.causal_lm("char", temperature=0.5, train_layers=2)
    told = made.describe()
    assert told["model"] == "char" and told["temperature"] == 0.5 and told["recipe"]["steps"] > 0
    assert told["architecture"] == "Transformer" and told["model_parameters"] == policy_size(train_layers=None)
    assert (made.size, made.context, made.tokenizer.size) == (361088, 128, 49)
    assert list(tmp_path.iterdir()) == []
