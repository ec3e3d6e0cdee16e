"""Old keys and values under new weights: against a plain loop that keeps them by hand, and against rereading."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.policies import _language_sampling as sampling
from tests.language import test_causal_lm as plain
from tests.language.test_causal_lm import SHAPE, SHARED, SURE, TEXTS, N, T, ids, view_of, weights
from tests.refusals import refused

VERSIONS = 3


class Entries:
    """A cache as a textbook has it: one list of keys and values for each layer."""

    def __init__(self):
        self.layers = {}

    def update(self, key, value, layer):
        if layer in self.layers:
            key, value = (torch.cat(pair, 2) for pair in zip(self.layers[layer], (key, value), strict=True))
        self.layers[layer] = (key, value)
        return key, value


def by_hand(made, flats, prompt, said, version):
    """Log-probs `[T]` of one response: each token from its own weights and the entries that others have left."""
    cache, found, begun = Entries(), [], len(prompt)
    for t, v in enumerate(version):
        parts = plain.parts_of(made, flats[v][0])
        tokens, place = (prompt, range(begun)) if t == 0 else ([said[t - 1]], [begun + t - 1])
        L = len(tokens)
        mask = torch.full((1, 1, L, L), -torch.inf, dtype=torch.float64).triu(1) if t == 0 else torch.zeros(1, 1, 1, 1)
        mask = mask.double() if t == 0 else torch.zeros(1, 1, 1, begun + t, dtype=torch.float64)
        inputs = (torch.tensor([tokens]), torch.tensor([list(place)]), mask, cache)
        logits = torch.func.functional_call(made.model.network, parts, inputs).logits[0, -1]
        found.append((logits / made.temperature).log_softmax(-1)[said[t]])
    return torch.stack(found)


def expected(made, flats, seen, action, slot):
    """The same of all responses `[1, G, N, T]`."""
    rows = zip(seen.flatten(0, 2), action.flatten(0, 2), slot.reshape(-1, slot.shape[-1]), strict=True)
    each = [by_hand(made, flats, row[row >= 0].tolist(), said.tolist(), v.tolist()) for row, said, v in rows]
    return torch.stack(each).reshape(action.shape)


def drawn(made, views, seen, slot, memory=None, action=None, outputs=None, begin=0):
    """Tokens drawn version by version, as early drawing does, and what is recorded; from token `begin` on."""
    memory = made.remember(seen) if memory is None else memory
    shape = (*seen.shape[:3], slot.shape[-1])
    action = torch.zeros(shape, dtype=torch.int64) if action is None else action.clone()
    outputs = {n: torch.zeros(shape).double() for n in ("log_prob", "stale_cache")} if outputs is None else outputs
    for version, view in enumerate(views):
        for t in range(begin, shape[-1]):
            active = torch.from_numpy(slot[None, ..., t] == version)
            if not active.any():
                continue
            act = made.act(view, seen, plain.draws_of(seen.shape[1]), t, memory, active)
            action[..., t] = torch.where(active, act.action, action[..., t])
            for name, column in outputs.items():
                column[..., t] = torch.where(active, act.outputs[name].double(), column[..., t])
    return action, outputs, memory


def climbing(random, groups):
    """Versions `[G, N, T]` that never go back."""
    return np.sort(random.integers(0, VERSIONS, (groups, N, T)), axis=-1)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([1.0, SURE]),
    texts=st.sampled_from([TEXTS, SHARED, TEXTS[:1] * 2]),
)
def test_tokens_come_from_their_weights_and_older_entries(seed, temperature, texts):
    """Early, version by version, and late, from all weights at once: both as by hand; stale where others wrote."""
    made, random = plain.policy(temperature=temperature, cache="keep"), np.random.default_rng(seed)
    seen, slot = ids(made, texts), climbing(random, len(texts))
    flats = [weights(made, s) for s in range(VERSIONS)]
    action, found, _ = drawn(made, [view_of(made, flat) for flat in flats], seen, slot)
    torch.testing.assert_close(found["log_prob"], expected(made, flats, seen, action, slot), rtol=0, atol=1e-10)
    stale = (np.minimum.accumulate(slot, -1) != slot) | (np.maximum.accumulate(slot, -1) != slot)
    assert torch.equal(found["stale_cache"] > 0, torch.from_numpy(stale)[None])
    late, log_prob = plain.drawn(made, view_of(made, *flats, slot=slot), seen)
    assert torch.equal(late, action)
    torch.testing.assert_close(log_prob, found["log_prob"], rtol=0, atol=1e-10)
    # Rereading says something else of just these tokens.
    every = [plain.reference(made, flat[0], seen, action)[0].reshape(action.shape) for flat in flats]
    reread = torch.stack(every).gather(0, torch.from_numpy(slot)[None, None])[0]
    gap = (reread - found["log_prob"]).abs()
    assert gap[~torch.from_numpy(stale)[None]].max() < 1e-10
    assert not stale.any() or gap.max() > 1e-6


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_versions_may_go_back_where_they_are_drawn_late(seed):
    made, random = plain.policy(cache="keep"), np.random.default_rng(seed)
    seen, slot = ids(made), random.integers(0, VERSIONS, (len(TEXTS), N, T))
    flats = [weights(made, s) for s in range(VERSIONS)]
    action, log_prob = plain.drawn(made, view_of(made, *flats, slot=slot), seen)
    torch.testing.assert_close(log_prob, expected(made, flats, seen, action, slot), rtol=0, atol=1e-10)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), again=st.integers(0, T - 1), packing=st.booleans())
def test_one_sample_goes_on_alone_with_its_entries(seed, again, packing):
    """Cut out of its block and drawn anew from a token on under other weights, also through a checkpoint."""
    made, random = plain.policy(cache="keep"), np.random.default_rng(seed)
    seen, slot = ids(made, ("12+34=", "7=")), climbing(random, 2)
    flats = [weights(made, s) for s in range(VERSIONS + 1)]
    views = [view_of(made, flat) for flat in flats]
    action, outputs, memory = drawn(made, views[:VERSIONS], seen, slot)
    if packing:
        memory = made.unpacked(made.packed(memory))
    one = made.recall(memory, N + 1)
    row, changed = seen[:, 1:, 1:2], slot[1:, 1:2].copy()
    changed[..., again:] = VERSIONS
    draws = sim.step.batch.Draws(plain.draws_of(2).stream, np.arange(1), np.zeros(1, int), np.array([[[N + 1]]]))
    said, log_prob = action[:, 1:, 1:2].clone(), outputs["log_prob"][:, 1:, 1:2].clone()
    for t in range(again, T):
        act = made.act(views[VERSIONS], row, draws, t, one)
        said[..., t], log_prob[..., t] = act.action, act.outputs["log_prob"]
    torch.testing.assert_close(log_prob, expected(made, flats, row, said, changed), rtol=0, atol=1e-10)
    # The block has lost nothing: all of it goes on.
    more = np.concatenate([slot, np.full((2, N, 1), VERSIONS)], -1)
    action, outputs = (torch.nn.functional.pad(x, (0, 1)) for x in (action, outputs["log_prob"]))
    columns = {"log_prob": outputs, "stale_cache": torch.zeros_like(outputs)}
    action, columns, _ = drawn(made, [*views], seen, np.where(np.arange(T + 1) < T, -1, more), memory, action, columns)
    torch.testing.assert_close(columns["log_prob"], expected(made, flats, seen, action, more), rtol=0, atol=1e-10)


def test_the_same_bits_with_and_without_a_checkpoint():
    """Samples are written away and read back between two versions, while some have not begun and some have ended."""
    made = plain.policy(exact=False, temperature=SURE, cache="keep")
    seen, slot = ids(made, SHARED), np.full((len(SHARED), N, T), 9)
    slot[1:, :, :3], slot[1:, 1:, 3:] = 0, 1
    views = [view_of(made, weights(made, s)) for s in range(2)]
    results = []
    for packing in (False, True):
        action, outputs, memory = drawn(made, views[:1], seen, np.where(slot == 0, 0, 9))
        memory = made.unpacked(made.packed(memory)) if packing else memory
        results.append(drawn(made, [None, views[1]], seen, np.where(slot == 1, 1, 9), memory, action, outputs)[:2])
    (first, one), (second, other) = results
    assert torch.equal(first, second) and all(torch.equal(one[name], other[name]) for name in one)


def test_weights_that_did_not_change_leave_nothing_stale():
    made = plain.policy(cache="keep")
    seen, slot = ids(made), climbing(np.random.default_rng(0), len(TEXTS))
    _, outputs, _ = drawn(made, [view_of(made, weights(made)) for _ in range(VERSIONS)], seen, slot)
    assert (outputs["stale_cache"] == 0).all()


def test_forgotten_entries_are_seen(monkeypatch):
    """Planted: rows that come back are read again with the new weights."""

    def reread(self, rows, actions, kept):
        self._prefill(rows, actions)
        self.upto[rows] = actions.shape[1] - 1

    monkeypatch.setattr(sampling.Lane, "_resume", reread)
    with pytest.raises(AssertionError):
        test_tokens_come_from_their_weights_and_older_entries.hypothesis.inner_test(3, 1.0, TEXTS)


# Runs.

TIMES = {"length": 6.0, "train_time": 2.3}


def going_on(mode="keep", sizes=(2, 2, 3)):
    """A system in which weights change under samples in flight."""
    return sim.systems.areal(*sizes, model={"mode": mode}, **TIMES)


METRICS = ["cache_stale", "cache_gap", "cache_kl", "kl_mismatch", "kl_staleness", "kl_k1"]


def run(system, lr=0.005, seed=3, **changes):
    exact = {"sampler": "float64", "compute": "float64"}
    policy = {name: changes.pop(name) for name in ("cache", "sampler", "compute") if name in changes}
    made = sim.policies.causal_lm("char", recipe=SHAPE, **{**exact, **policy})
    chain = sim.chain(sim.updates.adam(lr))
    sizes = {"updates": 8, "replicates": 1, "samples_per_group": 3, "dtype": "float64", "diagnostics": METRICS}
    task = sim.tasks.arithmetic(prompts=4, horizon=6)
    initial = 10.0 * made.initial(1)[0].double().numpy()
    # Random weights earn nothing; an offset moves them all the same.
    method = sim.methods.reinforce(sim.advantages.offset(1.0))
    spec = sim.Spec(task, system, method, chain, made, initial=initial, **{**sizes, **changes})
    return sim.run(spec, seed=seed)


def test_no_change_inside_a_response_is_the_same_run_to_the_bit():
    for system in (sim.schedules.fixed(2), sim.schedules.sawtooth(3)):
        kept, reread = (run(system, cache=cache) for cache in ("keep", "reread"))
        assert kept.metrics.keys() == reread.metrics.keys()
        assert all(np.array_equal(kept[name], reread[name]) for name in kept.metrics)
        assert np.array_equal(kept.parameters, reread.parameters)
        assert (kept["cache_gap"] == 0.0).all() and (kept["cache_stale"] == 0.0).all()


@pytest.mark.parametrize("changes", [{}, {"drawing": "late"}, {"sampler": "bfloat16", "dtype": "float32"}])
def test_the_gap_to_rereading_is_measured(changes):
    """It is all of the mismatch where numerics agree; with weights that stand still it is exactly 0."""
    system = going_on()
    kept = run(system, cache="keep", **changes)
    stale = kept["cache_stale"] > 0
    assert stale.any() and (~stale).any() and (kept["cache_stale"] < 1).all()
    assert np.array_equal(kept["cache_gap"] > 0, stale)
    np.testing.assert_allclose(kept["kl_k1"], kept["kl_staleness"] + kept["kl_mismatch"], rtol=0, atol=1e-5)
    if "sampler" not in changes:
        np.testing.assert_allclose(kept["kl_mismatch"], kept["cache_kl"], rtol=0, atol=1e-12)
    reread = run(system, cache="reread", **changes)
    assert (reread["cache_gap"] == 0.0).all() and (reread["cache_stale"] == 0.0).all()
    still = run(system, lr=0.0, cache="keep", **changes)
    assert (still["cache_gap"] == 0.0).all() and (still["cache_stale"] == 0.0).all()


def test_a_coupled_system_keeps_its_entries():
    system = sim.schedules.coupled(going_on(sizes=(1, 1, 2)))
    kept, late = (run(system, cache="keep", drawing=drawing) for drawing in ("early", "late"))
    assert (kept["cache_gap"] > 0).any()
    for name in METRICS:
        np.testing.assert_allclose(kept[name], late[name], rtol=0, atol=1e-6, err_msg=name)


def test_it_is_refused_where_no_sample_goes_on():
    for mode in ("drain", "restart", "pin", "reprefill"):
        for source in (going_on(mode), sim.schedules.coupled(going_on(mode))):
            bound = f"policy.cache = 'keep': must be 'reread' where installs {mode} samples in flight"
            refused(bound, run, source, cache="keep")
    refused("policy argument = 'cache': must be one of", lambda: sim.tasks.softmax_bandit().policy(cache="keep"))
    refused("cache = 'new': must be one of reread, keep", lambda: sim.tasks.arithmetic().policy(cache="new"))


def test_it_is_set_from_the_command_line():
    from asyncsim.app import wording

    made = wording.of_words(["task=arithmetic", "policy.cache=keep", "staleness=2"], "--set")
    assert made.policy.cache == "keep" and made.policy.name == "char"
    assert sim.Spec.from_dict(made.to_dict()).policy.describe() == made.policy.describe()
