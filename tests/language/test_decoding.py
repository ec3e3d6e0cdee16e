"""The loop of fixed shapes: the tokens of the packed path, nothing that moves or waits, defects that are seen."""

from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import asyncsim as sim
from asyncsim.policies import _language_decoding as decoding
from asyncsim.policies import _language_network as networks
from asyncsim.policies import _language_prompts as prompts
from asyncsim.policies import _language_sampling as sampling
from asyncsim.policies._policy import Written
from asyncsim.tasks._language import LanguageTask
from tests.core.test_checkpoints import Killed, killer
from tests.language import test_causal_lm as plain
from tests.language.talkative import talkative
from tests.language.test_causal_lm import SHARED, SURE, TEXTS, N, T, draws_of, ids, view_of, weights
from tests.language.test_hub import GPT2, of_another_kind, saved  # noqa: F401
from tests.refusals import refused

STOPS = (1, 5, 9, 14)
"""Ids of which random weights say one every few tokens."""


def first(shape):
    """The mask in front of the first token."""
    mask = torch.zeros(shape, dtype=torch.float64)
    mask[..., 0] = 1.0
    return mask


def one_by_one(made, view, seen, stops=STOPS, tokens=T):
    """Action, mask and outputs `[1, G, N, T]` by `act`, where a trajectory ends behind a stop."""
    memory, mask = made.remember(seen), first((*seen.shape[:3], tokens))
    action, outputs = torch.zeros(mask.shape, dtype=torch.int64), {}
    for t in range(tokens):
        active = mask[..., t] > 0
        if not active.any():
            break
        act = made.act(view.token(t), seen, draws_of(seen.shape[1]), t, memory, active)
        action[..., t] = act.action
        for name, value in act.outputs.items():
            outputs.setdefault(name, value.new_zeros(*mask.shape, *value.shape[3:]))[:, :, :, t] = value
        if t + 1 < tokens:
            mask[..., t + 1] = (active & ~torch.isin(act.action, torch.tensor(stops))).double()
    return Written(action, mask, outputs)


def at_once(made, view, seen, before=None, where=None, stops=STOPS, tokens=T):
    before = before or Written(None, first((*seen.shape[:3], tokens)), {})
    return made.write(view, seen, draws_of(seen.shape[1]), stops, before, where)


def agree(found, expected, atol=1e-11):
    """Every token, where responses end, and what was recorded of them."""
    assert torch.equal(found.mask, expected.mask) and torch.equal(found.action, expected.action)
    assert found.outputs.keys() == expected.outputs.keys()
    for name, value in expected.outputs.items():
        torch.testing.assert_close(found.outputs[name], value, rtol=0, atol=atol)


# The same tokens.


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([1.0, SURE]),
    texts=st.sampled_from([TEXTS, SHARED, TEXTS[:1]]),
    versions=st.integers(1, 3),
    options=st.sampled_from([{}, {"top_p": 0.8, "critic": True}, {"top_k": 3, "distributions": True}]),
)
def test_it_draws_what_is_drawn_token_by_token(seed, temperature, texts, versions, options):
    """From all weights at once, whichever of them each token reads, and in parts, one version after the other."""
    made, random = plain.policy(temperature=temperature, **options), np.random.default_rng(seed)
    seen, flats = ids(made, texts), [weights(made, s) for s in range(versions)]
    slot = np.sort(random.integers(0, versions, (len(texts), N, T)), -1)
    view = view_of(made, *flats, slot=slot)
    expected = one_by_one(made, view, seen)
    agree(at_once(made, view, seen), expected)
    drawn = None
    for version, flat in enumerate(flats):
        drawn = at_once(made, view_of(made, flat), seen, drawn, torch.from_numpy(slot == version)[None])
    agree(drawn, expected)


def test_versions_may_go_back():
    made, random = plain.policy(), np.random.default_rng(3)
    seen, slot = ids(made), random.integers(0, 3, (len(TEXTS), N, T))
    view = view_of(made, *(weights(made, s) for s in range(3)), slot=slot)
    agree(at_once(made, view, seen), one_by_one(made, view, seen))


GEMMA = {"num_key_value_heads": 1, "head_dim": 8}
KINDS = {"GPT2": GPT2, "GPTNeoX": {}, "OPT": {"word_embed_proj_dim": 16, "ffn_dim": 24}, "Gemma": GEMMA, "Qwen3": GEMMA}


@pytest.mark.parametrize("kind", KINDS)
def test_two_versions_of_other_architectures_share_a_pass(saved, tmp_path, kind):  # noqa: F811
    """As `act` draws them one after the other, and the greedy tokens of the library."""
    folder, network = of_another_kind(saved, tmp_path, kind, **KINDS[kind])
    made = sim.policies.causal_lm(folder)
    seen = ids(made, ("1+2=", "12+34=", "7="))
    flat = made.initial(1)
    slot = np.arange(3 * N).reshape(3, N, 1) % 2
    view, passed = view_of(made, flat, flat * 0.8, slot=np.repeat(slot, T, 2)), []
    with mock.patch.object(decoding, "read", lambda *args: passed.append(0) or networks.read(*args)):
        found = at_once(made, view, seen)
    assert len(passed) == T - 1
    agree(found, one_by_one(made, view, seen), 1.2e-5)
    greedy = at_once(sim.policies.causal_lm(folder, temperature=1e-4), view_of(made, flat), seen, stops=())
    rows = seen.flatten(0, 2)
    about = {"attention_mask": (rows >= 0).long(), "pad_token_id": 0, "eos_token_id": None, "do_sample": False}
    said = network.generate(rows.clamp(min=0), **about, max_new_tokens=T, min_new_tokens=T)
    assert torch.equal(greedy.action.flatten(0, 2), said[:, rows.shape[1] :])


# Nothing moves, nothing waits.


def places(loop):
    """Where the tensors of a step are, and their shapes."""
    found = tree_leaves([loop.__dict__, loop.cache.__dict__, loop.columns])
    return [(x.data_ptr(), tuple(x.shape), x.dtype) for x in found if isinstance(x, torch.Tensor)]


def places_by_step(made):
    """The same behind every step of a loop, with what the network was given."""
    found, given_to, step = [], [], decoding.Loop.step

    def read(*args):
        given_to[:] = [(x.data_ptr(), tuple(x.shape)) for x in args if isinstance(x, torch.Tensor)]
        return networks.read(*args)

    def watched(loop):
        step(loop)
        found.append(places(loop) + given_to)

    seen = ids(made, SHARED)
    with mock.patch.object(decoding.Loop, "step", watched), mock.patch.object(decoding, "read", read):
        at_once(made, view_of(made, weights(made)), seen)
    assert len(found) == T - 1
    return found


@pytest.mark.parametrize("options", [{}, {"top_p": 0.8, "critic": True, "distributions": True}])
def test_every_tensor_of_a_step_stays_where_it_is(options):
    """So that one graph of launches can hold a step."""
    found = places_by_step(plain.policy(**options))
    assert all(each == found[0] for each in found) and len(found[0]) > 15


def test_a_tensor_that_moves_is_seen(monkeypatch):
    """Planted: the ids of a step are a new tensor; a layer of the cache is."""
    choose = decoding.Loop.choose

    def ids_move(loop, logits):
        choose(loop, logits)
        loop.ids = loop.ids.clone()

    def cache_moves(loop, logits):
        choose(loop, logits)
        loop.cache.layers[1] = tuple(x.clone() for x in loop.cache.layers[1])

    for defect in (ids_move, cache_moves):
        monkeypatch.setattr(decoding.Loop, "choose", defect)
        found = places_by_step(plain.policy())
        assert any(each != found[0] for each in found)


VIEWS = {"view", "unsqueeze", "squeeze", "slice", "select", "expand", "detach", "alias", "transpose"}
WAITS = {"_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "equal", "masked_select", "is_nonzero"}


class Asked(TorchDispatchMode):
    """Operations by name; indices of booleans count as waits."""

    def __init__(self):
        super().__init__()
        self.names, self.on = [], True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.split("::")[1]
        if self.on and name not in VIEWS:
            chosen = [x for x in tree_leaves(args[1:]) if isinstance(x, torch.Tensor) and x.dtype == torch.bool]
            self.names.append("nonzero" if chosen and name in ("index", "index_put_") else name)
        return func(*args, **(kwargs or {}))

    @contextmanager
    def inside(self, on):
        before, self.on = self.on, on
        yield
        self.on = before


def asked(made, tokens):
    """What a loop asks for outside of the network, all its steps together."""
    steps, step = Asked(), decoding.Loop.step

    def read(*args):
        with steps.inside(False):
            return networks.read(*args)

    def watched(loop):
        with steps:
            step(loop)

    seen = ids(made, SHARED)
    with mock.patch.object(decoding.Loop, "step", watched), mock.patch.object(decoding, "read", read):
        at_once(made, view_of(made, weights(made)), seen, stops=(), tokens=tokens)
    return steps.names


def test_a_step_never_waits_and_launches_little():
    names = asked(plain.policy(exact=False), 20)
    assert not WAITS & set(names)
    assert 0 < len(names) / 19 <= 25


def test_a_number_read_with_each_token_is_seen(monkeypatch):
    """Planted: whether any row goes on is asked with every token."""
    step = decoding.Loop.step
    monkeypatch.setattr(decoding.Loop, "step", lambda loop: bool(loop.alive.any()) and step(loop))
    assert asked(plain.policy(), 4).count("_local_scalar_dense") == 3


def test_a_loop_ends_where_all_rows_have():
    made, passed = plain.policy(), []
    seen, view = ids(made), view_of(made, weights(made))
    every = tuple(range(made.actions))
    with mock.patch.object(decoding, "read", lambda *args: passed.append(0) or networks.read(*args)):
        found = at_once(made, view, seen, stops=every, tokens=decoding.BLOCK + 4)
    assert len(passed) == decoding.BLOCK - 1 and found.mask.sum() == seen.shape[1] * N
    agree(found, one_by_one(made, view, seen, every, decoding.BLOCK + 4))


# Planted defects.


def differs(monkeypatch, owner, name, defect, versions=1):
    made = plain.policy()
    seen = ids(made, SHARED)
    slot = np.arange(len(SHARED) * N).reshape(-1, N, 1).repeat(T, 2) % versions
    view = view_of(made, *(weights(made, s) for s in range(versions)), slot=slot)
    expected = one_by_one(made, view, seen)
    agree(at_once(made, view, seen), expected)
    monkeypatch.setattr(owner, name, defect)
    with pytest.raises(AssertionError):
        agree(at_once(made, view, seen), expected)


def test_a_finished_row_that_goes_on_is_seen(monkeypatch):
    choose = decoding.Loop.choose

    def going_on(loop, logits):
        choose(loop, logits)
        loop.alive.fill_(True)

    differs(monkeypatch, decoding.Loop, "choose", going_on)


def test_an_owner_that_is_off_by_one_is_seen(monkeypatch):
    """Planted: one row at the border of two versions reads the other's weights."""
    beside = decoding.beside

    def shifted(each, rows):
        return beside(each, rows if len(rows) == 1 else [rows[0] - 1, rows[1] + 1])

    differs(monkeypatch, decoding, "beside", shifted, versions=2)


def test_a_column_that_is_written_late_is_seen(monkeypatch):
    """Planted: keys and values reach the cache behind the attention that is to see them."""
    update = decoding.Static.update

    def late(cache, key, value, layer_idx, *_, **__):
        seen = tuple(x.clone() for x in cache.layers[layer_idx])
        update(cache, key, value, layer_idx)
        return seen

    differs(monkeypatch, decoding.Static, "update", late)


# Runs.


@dataclass(frozen=True)
class Talk(LanguageTask):
    """Every token earns."""

    def earn(self, state, action, mask, draws):
        return mask.sum(-1) / self.horizon


MODULES = (decoding, sampling, prompts)
"""Where texts go through the network."""


def spec_of(decode, system, **changes):
    """A run in which weights move."""
    policy = sim.policies.causal_lm("char", recipe=plain.SHAPE, decode=decode)
    return sim.Spec(
        task=Talk(TEXTS, ("1",) * len(TEXTS), 12), policy=policy, system=system, method=sim.methods.reinforce(),
        update=sim.chain(sim.updates.sgd(1.0)), samples_per_group=4, updates=5,
        replicates=1, diagnostics=("batch_return", "entropy"), **changes,
    )  # fmt: skip


def run(decode, system, **changes):
    """Its trace, and its passes through the network with each update."""
    spec, passed = spec_of(decode, system, **changes), []
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "read", lambda *args: passed.append(0) or networks.read(*args))
        return sim.run(spec, progress=False), len(passed) / spec.updates


def areal(**timing):
    timing = timing or {"load": 0.4}
    return sim.systems.areal(2, 2, 4, length=sim.lognormal(1.0, 0.8), **timing)


@pytest.mark.parametrize(
    ("system", "drawing"),
    [
        (lambda: sim.schedules.fixed(2, groups_per_batch=2), None),
        (areal, None),
        (areal, "late"),
        (lambda: sim.schedules.coupled(areal(train_time=2.0)), None),
        (lambda: sim.schedules.coupled(areal(train_time=2.0)), "late"),
    ],
    ids=["fixed", "areal", "areal late", "coupled", "coupled late"],
)
def test_a_run_is_the_same_either_way(system, drawing):
    changes = {} if drawing is None else {"drawing": drawing}
    (packed, before), (fixed, after) = (run(decode, system(), **changes) for decode in ("packed", "fixed"))
    np.testing.assert_array_equal(fixed["batch_return"], packed["batch_return"])
    np.testing.assert_allclose(fixed["entropy"], packed["entropy"], rtol=1e-5)
    np.testing.assert_allclose(fixed.parameters, packed.parameters, rtol=0, atol=1e-5)
    assert np.ptp(packed["entropy"]) > 1e-3, "weights move"
    if drawing is None:
        # All that a version draws is one pass for each token, whatever the number of batches and samples in flight.
        assert after < before


def test_a_run_goes_on_from_a_checkpoint(tmp_path):
    """Responses in flight keep no caches: they are read again."""
    spec = spec_of("fixed", sim.schedules.coupled(areal(train_time=2.0)))
    whole, path = sim.run(spec, progress=False), tmp_path / "c.npz"
    with pytest.raises(Killed):
        sim.run(spec, checkpoint=path, checkpoint_every="1 update", callback=killer(2), progress=False)
    again = sim.run(spec, resume=path, progress=False)
    np.testing.assert_array_equal(again.parameters, whole.parameters)


def test_where_it_is_chosen():
    here = {"parameters": torch.zeros(1, 1)}
    there = {"parameters": torch.zeros(1, 1, device="meta")}
    chosen = {
        d: [sim.policies.causal_lm(decode=d).writes(w) for w in (here, there)] for d in ("auto", "packed", "fixed")
    }
    assert chosen == {"auto": [False, True], "packed": [False, False], "fixed": [True, True]}
    assert not sim.policies.causal_lm(cache="keep").writes(there), "kept caches are read token by token"
    refused("decode", sim.policies.causal_lm, decode="fixed", cache="keep")
    assert talkative().stops is None, "what tools write is chosen in between"
    assert sim.policies.causal_lm("char", recipe=plain.SHAPE, decode="fixed").describe()["decode"] == "fixed"
