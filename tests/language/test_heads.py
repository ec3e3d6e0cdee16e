"""Heads computed for some tokens at a time: the numbers of transformers for every architecture, at a bounded memory."""

import pytest
import torch

import asyncsim as sim
from asyncsim.policies import _hub, _language_network, _language_scoring
from asyncsim.policies._pretraining import Characters
from tests.language.test_causal_lm import SHARED, T, batch_of, drawn, ids, library_rows, masked, view_of

V = 49
SHAPE = {
    "vocab_size": V, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 48, "initializer_range": 0.3, "eos_token_id": 1,
    "bos_token_id": 1, "pad_token_id": 0, "attn_implementation": "eager",
}  # fmt: skip
NARROW = {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 48}
KINDS = {
    "Llama": {},
    "Llama tied": {"tie_word_embeddings": True},
    "Qwen2": {},
    "Qwen3": {"head_dim": 8},
    "Mistral": {"sliding_window": None},
    "Gemma2": {**NARROW, "final_logit_softcapping": 5.0},
    "Gemma3Text": NARROW,
    "Phi3": {},
    "GPT2": {"num_key_value_heads": None, "intermediate_size": None},
    "GPTNeoX": {"num_key_value_heads": None},
    "Olmo2": {},
    "OPT": {"num_key_value_heads": None, "ffn_dim": 24, "word_embed_proj_dim": 16},
    "Granite": {"logits_scaling": 3.0},
    "Cohere": {"logit_scale": 0.3},
}
"""Kinds of networks; three of them change logits behind the head."""


def network_of(kind):
    transformers = pytest.importorskip("transformers")
    name, given = kind.split()[0], {**SHAPE, **KINDS[kind]}
    config = getattr(transformers, f"{name}Config")(**{k: x for k, x in given.items() if x is not None})
    made = {"GPT2": "GPT2LMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}.get(name, f"{name}ForCausalLM")
    torch.manual_seed(0)
    return getattr(transformers, made)(config).eval().requires_grad_(False)


def in_chunks(monkeypatch, rows=5, above=0):
    """Heads of so many tokens at a time."""
    monkeypatch.setattr(_language_scoring, "LARGE", above)
    monkeypatch.setattr(_language_scoring, "CHUNK", rows * V)
    monkeypatch.setattr(_language_scoring, "LEAST", 1)


def made_of(network, monkeypatch, **settings):
    monkeypatch.setattr(_hub, "load", lambda name, dtype: (network, Characters(), 48, {}))
    return sim.policies.causal_lm("hub:folder", **settings)


def expected_of(network, made, flat, seen, action, mask):
    """Log-probs and entropies `[B, T]` of the library's own passes, one text each, at weights `[P]`."""
    law = library_rows(network, made, flat, seen, action)
    log_prob = law.gather(2, action.reshape(-1, T, 1))[..., 0]
    return {"log_prob": log_prob * mask.reshape(-1, T), "entropy": -(law.exp() * law).sum(2) * mask.reshape(-1, T)}


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_of_every_architecture_are_the_librarys(kind, monkeypatch):
    """Log-probs, entropies and gradients; tokens drawn greedily are the library's."""
    network = network_of(kind)
    made = made_of(network, monkeypatch, temperature=1e-4)
    flat, seen = made.initial(1), ids(made, SHARED[:3])
    view = view_of(made, flat)
    action, _ = drawn(made, view, seen)
    for row, said in zip(seen[0, :, 0], action[0, :, 0], strict=True):
        text = row[row >= 0][None]
        for token in said.tolist():
            logits = network(input_ids=text, use_cache=False).logits[0, -1]
            assert logits[token] >= logits.max() - 1e-5
            text = torch.cat([text, torch.tensor([[token]])], 1)
    assert made.model.parts
    made = made_of(network, monkeypatch)
    action = torch.randint(1, V, action.shape, generator=torch.Generator().manual_seed(1))
    mask = masked(action.shape).float()
    batch = batch_of(seen, action, mask)
    live = flat[0].clone().requires_grad_()
    expected = expected_of(network, made, live, seen, action, mask)
    in_chunks(monkeypatch)
    forward = made.forward(view, batch, ("log_prob", "entropy"))
    cotangents, total = {}, 0.0
    for seed, (name, value) in enumerate(expected.items()):
        assert (forward.outputs[name] - value.detach().reshape(action.shape)).abs().max() < 1.2e-5
        cotangents[name] = torch.randn(action.shape, generator=torch.Generator().manual_seed(seed)) / action.numel()
        total = total + (cotangents[name].reshape(value.shape) * value).sum()
    (gradient,) = torch.autograd.grad(total, live)
    for _ in range(2):
        assert (forward.pullback(cotangents)[0] - gradient).abs().max() < 3.4e-6 * max(1.0, float(gradient.abs().max()))


def test_a_plain_head_would_be_wrong_behind_a_soft_cap(monkeypatch):
    """Planted: the linear map alone, in place of what the network does with its logits."""
    network = network_of("Gemma2")
    made = made_of(network, monkeypatch)
    flat, seen = made.initial(1), ids(made, SHARED[:3])
    view = view_of(made, flat)
    batch = batch_of(seen, torch.randint(1, V, (*seen.shape[:3], T), generator=torch.Generator().manual_seed(1)))
    right = made.score(view, batch)
    in_chunks(monkeypatch)
    torch.testing.assert_close(made.score(view, batch), right, rtol=0, atol=1e-5)
    plain = lambda network, states: network.get_output_embeddings()(states)  # noqa: E731
    monkeypatch.setattr(_language_scoring, "logits_of", plain)
    assert (made.score(view, batch) - right).abs().max() > 0.1


def test_a_network_of_another_build_is_computed_whole(monkeypatch):
    """Where logits cannot be made of the states alone; planted: chunks all the same."""

    class Odd(type(network_of("Llama"))):
        def forward(self, input_ids, **given):
            found = super().forward(input_ids, **given)
            found.logits = found.logits * (1.0 + input_ids[:, -1:, None])
            return found

    network = Odd(network_of("Llama").config).eval().requires_grad_(False)
    made = made_of(network, monkeypatch)
    flat, seen = made.initial(1), ids(made, SHARED[:3])
    view, batch = view_of(made, flat), batch_of(seen, torch.ones((*seen.shape[:3], T), dtype=torch.int64))
    assert not made.model.parts
    right = made.score(view, batch)
    in_chunks(monkeypatch)
    assert torch.equal(made.score(view, batch), right)
    made.model.__dict__["parts"] = True
    assert not torch.allclose(made.score(view, batch), right)


@pytest.mark.parametrize("settings", [{"train_layers": 1}, {"micro_batch": 4}, {"critic": True}, {"top_k": 5}])
def test_chunks_change_nothing(settings, monkeypatch):
    """A frozen head, several pieces, a critic, a nucleus: to rounding what the whole head gives, in float64."""
    network = network_of("Llama tied").double()
    made = made_of(network, monkeypatch, sampler="float64", compute="float64", **settings)
    noise = torch.randn(1, made.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    flat, seen = made.initial(1, torch.float64) + 0.1 * noise, ids(made, SHARED)
    view = view_of(made, flat)
    action, _ = drawn(made, view, seen)
    action[0, 0, 0, 0] = (action[0, 0, 0, 0] + 1) % V
    batch = batch_of(seen, action, masked(action.shape))
    names = tuple(name for name in made.outputs if name != "log_probs")
    cotangents = {n: torch.randn(action.shape, dtype=torch.float64) for n in names}
    found = []
    for above in (1 << 40, 0):
        in_chunks(monkeypatch, above=above)
        forward = made.forward(view, batch, names)
        found.append((forward.outputs, forward.pullback(cotangents)))
    for name in names:
        torch.testing.assert_close(found[1][0][name], found[0][0][name], rtol=0, atol=1e-11)
    torch.testing.assert_close(found[1][1], found[0][1], rtol=1e-9, atol=1e-10)
    # Norms and angles of the library are float32; so is what the two ways share.
    assert found[0][1].abs().max() > 1e-2


def test_chunks_of_a_bfloat16_head_are_added_in_float32(monkeypatch):
    """Planted: one backward pass over all of them, which adds in the type of the weights."""
    made = made_of(network_of("Llama"), monkeypatch, compute="bfloat16", sampler="bfloat16")
    flat, seen = made.initial(1), ids(made, SHARED)
    view = view_of(made, flat)
    batch = batch_of(seen, torch.randint(1, V, (*seen.shape[:3], T), generator=torch.Generator().manual_seed(1)))
    cotangent = {"log_prob": torch.randn(batch.action.shape, generator=torch.Generator().manual_seed(2))}
    found = []
    for above in (0, 1 << 40):
        in_chunks(monkeypatch, above=above)
        head = made.forward(view, batch, ("log_prob",)).pullback(cotangent)[0, -V * SHAPE["hidden_size"] :]
        found.append(head)
    assert made.model.trained[-1][0] == "lm_head.weight"
    assert not torch.equal(found[0], found[0].bfloat16().float())
    assert torch.equal(found[1], found[1].bfloat16().float())
    exact = made_of(network_of("Llama"), monkeypatch)
    right = exact.forward(view, batch, ("log_prob",)).pullback(cotangent)[0, -V * SHAPE["hidden_size"] :]
    assert (found[0] - right).norm() < 0.02 * right.norm()


def widest(made, view, batch, names):
    """Most numbers in one tensor that has the vocabulary as its last axis, forward and backward."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Sizes(TorchDispatchMode):
        most = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found = func(*args, **(kwargs or {}))
            for x in tree_leaves(found):
                if isinstance(x, torch.Tensor) and x.ndim and x.shape[-1] == V and x.numel() > V * 16:
                    self.most = max(self.most, x.numel() // V)
            return found

    with Sizes() as sizes:
        made.forward(view, batch, names).pullback({n: torch.ones(batch.action.shape) for n in names})
    return sizes.most


def test_no_tensor_has_logits_of_all_tokens(monkeypatch):
    """Planted: the whole head."""
    made = made_of(network_of("Gemma2"), monkeypatch)
    flat, seen = made.initial(1), ids(made, SHARED)
    view = view_of(made, flat)
    batch = batch_of(seen, torch.randint(1, V, (*seen.shape[:3], T), generator=torch.Generator().manual_seed(1)))
    in_chunks(monkeypatch, rows=18)
    assert widest(made, view, batch, ("log_prob", "entropy")) <= 18
    in_chunks(monkeypatch, above=1 << 40)
    assert widest(made, view, batch, ("log_prob", "entropy")) == batch.action.numel()


def test_small_batches_keep_their_bits():
    assert _language_scoring.LARGE >= 4 * _language_scoring.CHUNK >= 1 << 24
    assert _language_network.Head(torch.nn.Linear(2, 3)).idle is False
