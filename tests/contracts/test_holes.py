"""Tokens of the environment inside a sample: every method, advantage and metric is the same as if they were not there.

`spread` puts the tokens of a batch at other places of a longer rectangle; what stands between, in front and behind is
nonsense. The policy reads the same states, so nothing may change but for what is said of places themselves.
"""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.advantages import _traces
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step
from tests.contracts.laboratory import case, make, names, trial_of

METHODS = [name for name in names("methods") if name != "gradient"]
ADVANTAGES = names("advantages")
METRICS = [n for n in names("diagnostics") if isinstance(make("diagnostics", n), Metric)]
MADE = {n: make("diagnostics", n) for n in METRICS}
PLAIN = [n for n in METRICS if not MADE[n].enumerates and set(MADE[n].outputs) <= {"log_prob"}]
BY_PLACE = {"otb", "ess_frames"}
"""Compare samples place by place: there the holes of all samples are the same."""
OF_PLACES = {"turns"}
"""Says where the holes are."""
WIDE = 4
"""Places that are added."""
edges = st.sampled_from(["anywhere", "front", "middle", "back", "none"])
few = settings(max_examples=12)
"""There are more than a hundred parts."""


def places(random, shape, T, where, together):
    """New places of T tokens among T + WIDE, ascending, int64 `[R, G, N, T]`; `together`: alike in all samples."""
    if where in ("none", "front"):
        return np.broadcast_to(np.arange(T) + (WIDE if where == "front" else 0), (*shape, T)).copy()
    rows = np.empty((*shape, T), dtype=np.int64)
    common = random.permutation(T + WIDE)[:T]
    for i in np.ndindex(shape):
        chosen = common if together else random.permutation(T + WIDE)[:T]
        if where == "middle" and T > 1:
            inner = random.permutation(T + WIDE - 2)[: T - 2] + 1 if not together else np.sort(common)[1:-1]
            chosen = np.concatenate([[0], np.clip(inner, 1, T + WIDE - 2), [T + WIDE - 1]])
        rows[i] = np.sort(chosen) if where != "back" else np.arange(T)
    return rows


def spread(batch, at, random, unknown):
    """The batch with its tokens at other places `[R, G, N, T]`; `unknown`: version of what is put between them."""
    R, G, N, T = at.shape
    index = torch.from_numpy(at)

    def put(x, nonsense):
        wide = x.expand(*x.shape[:3], T, *x.shape[4:]) if x.ndim > 3 else x
        new = torch.as_tensor(nonsense).to(x.dtype).expand(R, G, N, T + WIDE, *x.shape[4:]).clone()
        where = index.reshape(*index.shape, *(1,) * (x.ndim - 4)).expand(wide.shape)
        return new.scatter(3, where, wide)

    def some(x):
        """Tokens that could be there, from the batch itself."""
        flat = x.reshape(-1, *x.shape[4:])
        return flat[torch.from_numpy(random.integers(0, len(flat), (R, G, N, T + WIDE)))]

    nan = torch.nan
    changes = {
        "action": put(batch.action, some(batch.action)),
        "state": put(batch.state, some(batch.state)),
        "mask": put(batch.mask, 0.0),
        "behavior": {name: put(x, nan) for name, x in batch.behavior.items()},
        "index": None,
        "_full": None,
    }
    for name, nonsense in (("token_reward", nan), ("ended", False), ("finished", nan)):
        known = getattr(batch, name)
        if known is not None:
            changes[name] = put(known, nonsense)
    if batch.version.shape[1] > 1:
        version = torch.from_numpy(np.broadcast_to(batch.version, (1, G, N, T)).astype(np.int64).copy())
        old = torch.full((1, G, N, T + WIDE), unknown).scatter(3, index[:1], version)
        changes["version"] = old.numpy().astype(np.int32)
    return dataclasses.replace(batch, **changes)


def both(trial, seed, where="anywhere", together=False):
    """The same trial twice in one width: tokens side by side, and with holes."""
    random = np.random.default_rng(seed)
    R, G, N, T = trial.batch.action.shape
    aged = trial.batch.version.shape[1] > 1
    shape = (1, G, N) if aged else (R, G, N)
    at = np.broadcast_to(places(random, shape, T, where, together), (R, G, N, T)).copy()
    close = np.broadcast_to(np.arange(T), at.shape).copy()
    made = ((close, -1), (at, 0))
    return tuple(dataclasses.replace(trial, batch=spread(trial.batch, a, random, v)) for a, v in made), at


def same(first, second):
    torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-11, equal_nan=True)


def aged(trial, seed):
    """With versions of tokens that never fall along a sample."""
    _, G, N, T = trial.batch.action.shape
    version = np.sort(np.random.default_rng(seed).integers(0, 5, (1, G, N, T)), -1).astype(np.int32)
    trial.batch.version = version
    return trial


@pytest.mark.parametrize("name", METHODS)
@few
@given(
    seed=st.integers(0, 10**6),
    where=edges,
    T=st.sampled_from([1, 2, 4]),
    aggregator=st.sampled_from(["its own", "token_mean", "sequence_mean"]),
)
def test_a_method_passes_over_holes(name, seed, where, T, aggregator):
    method = make("methods", name)
    if aggregator != "its own":
        method = method.replace(aggregator=aggregator)
    (close, holes), _ = both(trial_of(method, seed=seed, T=T), seed, where)
    (one, expected), (two, gradient) = close.evaluate(method), holes.evaluate(method)
    same(gradient, expected)
    for value in two.cotangents.values():
        assert (value[holes.batch.mask == 0] == 0).all(), "a token of the environment is trained"
    same(two.sample_weight, one.sample_weight)


@pytest.mark.parametrize("name", ADVANTAGES)
@few
@given(seed=st.integers(0, 10**6), where=edges, T=st.sampled_from([1, 2, 4]))
def test_an_advantage_passes_over_holes(name, seed, where, T):
    method = sim.methods.truncated_is("token", advantage=make("advantages", name))
    (close, holes), at = both(trial_of(method, seed=seed, T=T), seed, where, together=name in BY_PLACE)
    if name == "remax":
        for trial in (close, holes):
            trial.evaluate = greedy(trial)
    (one, expected), (two, gradient) = close.evaluate(method), holes.evaluate(method)
    same(gradient, expected)
    found = two.advantages.expand(holes.batch.mask.shape[: two.advantages.ndim])
    if found.ndim == 4:
        index = torch.from_numpy(at)
        mask = close.batch.mask[..., : index.shape[-1]]
        same(found.gather(-1, index) * mask, one.advantages[..., : index.shape[-1]] * mask)
    else:
        same(found, one.advantages)


def greedy(trial):
    """What the policy would answer is no matter of the batch: any number for each sample."""
    evaluate = type(trial).evaluate

    def known(method, **changes):
        step, _ = evaluate(trial, method.replace(advantage=sim.advantages.none()), **changes)
        step.method = method
        return step, step.reward.unsqueeze(-1)

    return known


@pytest.mark.parametrize("name", [name for name in PLAIN if name not in OF_PLACES])
@few
@given(seed=st.integers(0, 10**6), where=edges, T=st.sampled_from([1, 2, 4]))
def test_a_metric_passes_over_holes(name, seed, where, T):
    method = sim.methods.ppo_clip(advantage=sim.advantages.offset(0.4), aggregator="token_mean")
    trial = aged(case(seed, T=T, drift=0.7), seed)
    trials, _ = both(trial, seed, where, together=name in BY_PLACE)
    values = []
    for each in trials:
        step, gradient = each.evaluate(method)
        step.parameters, step.previous = each.new, torch.ones_like(gradient)
        values.append(MADE[name].measure(step))
    same(*reversed(values))


@given(seed=st.integers(0, 10**6), where=edges, T=st.sampled_from([1, 2, 4]))
def test_statistics_of_a_step_pass_over_holes(seed, where, T):
    """Norms of scores, sequence ratios, shares and update staleness, which links and baselines read."""
    trials, _ = both(aged(case(seed, T=T), seed), seed, where)
    one, two = (trial.evaluate(sim.methods.vcpo())[0] for trial in trials)
    for name in ("score_norm", "lengths", "update_staleness"):
        same(getattr(two, name), getattr(one, name))
    same(two.sequence(two.log_ratio), one.sequence(one.log_ratio))
    same(two.share.sum(-1), one.share.sum(-1))


def test_a_sum_that_stops_at_a_hole_is_seen(monkeypatch):
    """The planted defect: the next place is taken for the next token."""
    monkeypatch.setattr(
        _traces,
        "next_generated",
        lambda x, mask, lasting=None: torch.nn.functional.pad(x[..., 1:] * mask[..., 1:], (0, 1)),
    )
    with pytest.raises(AssertionError):
        test_an_advantage_passes_over_holes.hypothesis.inner_test("gae", 3, "anywhere", 4)


def test_a_mean_over_places_is_seen(monkeypatch):
    """The planted defect: a sample is as long as the place of its last token."""
    reach = property(lambda step: (step.mask * torch.arange(1, step.mask.shape[-1] + 1)).amax(-1))
    monkeypatch.setattr(Step, "lengths", reach)
    with pytest.raises(AssertionError):
        test_a_method_passes_over_holes.hypothesis.inner_test("gspo", 3, "anywhere", 4, "its own")
