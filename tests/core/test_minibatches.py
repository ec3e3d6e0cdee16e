"""Minibatches: a run equals a plain program, and parts of a batch put together are the batch.

Runs are compared number by number, so there is no rate of false alarms, but for the uniform orders, where it is said.
"""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import asyncsim as sim
from asyncsim.base import checks, plugins, rng, rng_compiled
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running import updating
from asyncsim.step import minibatches
from tests.core import minibatched, plain, runs
from tests.core.runs import SEED, START

CUTS = [("groups", False), ("parts", False), ("parts", True), ("samples", False), ("tokens", False)]
TOGETHER = ("a2c", "a3c", "acer", "retrace", "vtrace", "gradient", "score_centering", "asymre", "estr")
"""Methods that read more than log-probs of tokens, or have a baseline of their own: see `test_parts_are_the_whole`."""
METHODS = sorted(set(plugins.summaries("asyncsim.methods")) - set(TOGETHER))


@pytest.fixture(autouse=True)
def doubles():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def method_of(name, **settings):
    # A weight of 2 / beta = 143 would make differences of rounding large within a few updates.
    settings |= {"beta": 1.4} if name == "tba" else {}
    return getattr(sim.methods, name)(advantage=sim.advantages.leave_one_out(), **settings)


def spec_of(method, cut, after, epochs, **changes):
    settings = {
        "samples_per_group": 4, "updates": 4 * epochs, "epochs": epochs, "minibatches": 2, "cut": cut,
        "advantages_from": "minibatch" if after else "batch", "replicates": 3, "diagnostics": "none",
        **changes,
    }  # fmt: skip
    task = sim.tasks.token_bandit(actions=3, horizon=3, dependence="markov", logits=START)
    system = sim.schedules.fixed(1, groups_per_batch=2)
    return sim.Spec(task, system, method, sim.chain(sim.updates.sgd(1.5)), **settings)


def worst(method, cut, after, epochs, **changes):
    """The largest difference of a run's parameters from those of the plain program."""
    sizes = {"seed": SEED, "replicate": 2, "batches": 2, "groups": 2, "samples": 4, "count": 2, "lag": 1, "rate": 1.5}
    task = plain.Tokens(START.copy(), 3, False)
    expected = minibatched.train(task, method, cut=cut, after=after, epochs=epochs, **sizes)[-1].ravel()
    assert np.abs(expected - START.ravel()).max() > 1e-3
    trace = sim.run(spec_of(method, cut, after, epochs, **changes), seed=SEED, progress=False)
    return np.abs(trace.parameters[2] - expected).max()


def test_the_program_is_short():
    lines = [line for line in Path(minibatched.__file__).read_text().splitlines() if line.strip()]
    assert 0 < len(lines) < 80
    loop = Path(sim.__file__).parent / "running" / "loop.py"
    assert len(loop.read_text().splitlines()) <= 80


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_a_plain_loop(name, epochs):
    cut, after = CUTS[:4][(METHODS.index(name) + epochs) % 4]
    assert worst(method_of(name), cut, after, epochs) < 1e-12


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize(("cut", "after"), CUTS)
def test_every_cut_is_a_plain_loop(cut, after, epochs, compiled):
    method = method_of("ppo_clip", low=0.01, high=0.02, anchor="proximal")
    assert worst(method, cut, after, epochs, compiled=compiled) < 1e-12


@pytest.mark.parametrize("cut", ["groups", "parts"])
def test_a_dropped_group_is_dropped_as_a_whole(cut):
    assert worst(method_of("dapo"), cut, cut == "parts", 2) < 1e-12


def the_same_order_again(self, number, epochs, batch, right=minibatches.Cuts.of):
    return itertools.chain.from_iterable(right(self, number, 1, batch) for _ in range(epochs))


BEGIN, EVALUATE = minibatches.Cuts.begin, updating.evaluate


def anchored_at_the_update(method, task, policy, weights, batch, start, *rest):
    return EVALUATE(method, task, policy, weights, batch, dataclasses.replace(start, weights=weights), *rest)


def advantages_are(of):
    return lambda self, whole, weights: dataclasses.replace(BEGIN(self, whole, weights), advantages=of(whole))


DEFECTS = {
    "one order for all epochs": (minibatches.Cuts, "of", the_same_order_again, ("samples", False)),
    "the ratio's anchor is the update": (updating, "evaluate", anchored_at_the_update, ("samples", False)),
    "advantages of the minibatch": (minibatches.Cuts, "begin", advantages_are(lambda whole: None), ("parts", False)),
    "advantages of the batch": (
        minibatches.Cuts,
        "begin",
        advantages_are(lambda whole: whole.advantages),
        ("parts", True),
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_loop_is_another(defect, monkeypatch):
    owner, name, wrong, (cut, after) = DEFECTS[defect]
    monkeypatch.setattr(owner, name, wrong)
    method = method_of("ppo_clip", low=0.01, high=0.02, anchor="proximal")
    assert worst(method, cut, after, 2) > 1e-6


# What reads more than log-probs of tokens.


def critics(name):
    """A run's task and policy for a method, its settings, and the method."""
    method = getattr(sim.methods, name)()
    if name in ("score_centering", "asymre", "estr"):
        return sim.tasks.token_bandit(actions=3, horizon=3), None, method
    if name == "gradient":
        return sim.tasks.quadratic([1.0, 0.4], noise=0.5, start=1.5), None, method
    task = sim.tasks.gym("CartPole-v1", trajectory="segment", steps=4)
    critic = "action" if name in ("acer", "retrace") else True
    return task, sim.policies.mlp(4, 2, hidden=(4,), critic=critic), method


def whole_of_parts(task, policy, method, cut, many, slack=1e-6, **sizes):
    """At steps of nothing, gradients of `many` parts have that of the whole batch as their mean."""
    seen, system = [], sim.schedules.fixed(1, groups_per_batch=4)

    def look(step):
        seen.append(step.gradient.double().clone())
        return torch.zeros(len(step.gradient), dtype=torch.float64)

    for count in (1, many):
        sizes |= {"updates": 2 * count, "minibatches": count, "cut": cut, "diagnostics": [Metric("look", look)]}
        sim.run(
            sim.Spec(task, system, method, sim.chain(sim.updates.sgd(1e-30)), policy, **sizes), seed=2, progress=False
        )
    whole, parts = torch.stack(seen[:2]), torch.stack(seen[2:]).unflatten(0, (2, many)).mean(1)
    assert whole.abs().max() > 0
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=slack * float(whole.abs().max()))


@pytest.mark.parametrize("cut", ["groups", "samples", "tokens"])
@pytest.mark.parametrize("name", TOGETHER)
def test_parts_are_the_whole(name, cut):
    task, policy, method = critics(name)
    method = method.replace(aggregator="token_mean" if cut == "tokens" else "sequence_sum")
    whole_of_parts(task, policy, method, cut, 4, samples_per_group=4, replicates=2)


# Orders, versions, and what the updates of a batch count.


def test_every_order_is_as_likely():
    """Chi-square over the 24 orders of four things, 48,000 of them: false alarms 1 in 1,000, at a fixed seed."""
    places = np.empty((4, 48_000, 1, 1), dtype=np.int64)
    rng_compiled.fill_parts(*rng.Stream(5, "shuffle").key, np.arange(48_000), 3, 1, places)
    orders = places[:, :, 0, 0].T @ [64, 16, 4, 1]
    counts = np.unique(orders, return_counts=True)[1]
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > 1e-3
    # Changing with any place, as a naive shuffle does, is not uniform.
    naive = np.tile(np.arange(4), (48_000, 1))
    u = rng.Stream(5, "shuffle").uniform(np.arange(48_000)[:, None], 3, 1, np.arange(4))
    for k in range(4):
        place = (u[:, k] * 4).astype(int)
        rows = np.arange(48_000)
        naive[rows, k], naive[rows, place] = naive[rows, place], naive[rows, k].copy()
    assert stats.chisquare(np.unique(naive @ [64, 16, 4, 1], return_counts=True)[1]).pvalue < 1e-9


@pytest.mark.parametrize("cut", ["groups", "parts", "samples", "tokens"])
def test_every_sample_is_in_one_minibatch_of_an_epoch(cut):
    seen = []

    def look(step):
        seen.append(step.batch.trajectory.copy())
        assert step.batch.version.shape[:3] == step.batch.trajectory.shape
        assert torch.equal(step.batch.lengths.sum((1, 2)), torch.full((3,), 12.0))
        return torch.zeros(3, dtype=torch.float64)

    spec = spec_of(method_of("grpo"), cut, False, 2, diagnostics=[Metric("look", look)])
    sim.run(spec, seed=1, progress=False)
    ids = np.stack(seen).reshape(2, 2, 2, 3, -1)  # batch, epoch, minibatch, replicate, sample
    dealt = np.sort(np.moveaxis(ids, 2, 3).reshape(2, 2, 3, -1), -1)
    each = np.repeat(np.arange(8), 3 if cut == "tokens" else 1)
    assert (dealt[0] == each).all() and (dealt[1] == each + 8).all()
    # Orders differ between epochs and replicates.
    assert (ids[0, 0] != ids[0, 1]).any() and (ids[0, 0, :, 0] != ids[0, 0, :, 1]).any()


def test_minibatches_count_as_updates():
    """m2po's batch is k = 2 batches of 4 minibatches old, and j more at its minibatch j."""
    system = sim.systems.m2po(2, 2, length=1.0, load=1.0)
    metrics = ["staleness", "update_staleness"]
    spec = runs.spec(system=system, method=sim.methods.m2po_mask(), updates=24, diagnostics=metrics)
    assert (spec.parts, spec.cut_between, spec.rounds, spec.passes) == (4, "samples", 1, 4)
    trace = sim.run(spec, seed=0, progress=False)
    assert trace["update_staleness"][12:, 0].tolist() == [8.0, 9.0, 10.0, 11.0] * 3
    assert trace["staleness"][12:, 0].tolist() == [2.0] * 12
    assert (trace.passes, trace.schedule.batches) == (4, 6)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_stopped_run_goes_on_to_the_same_bits(compiled, tmp_path):
    spec = spec_of(method_of("grpo"), "samples", False, 2, updates=16, compiled=compiled)
    whole = sim.run(spec, seed=1, progress=False)
    path = tmp_path / "run.ckpt"
    sim.run(spec, seed=1, progress=False, checkpoint=path, checkpoint_every="4 updates")
    assert sim.run(resume=path, progress=False) == whole
    assert sim.run(spec.replace(block=2), seed=1, progress=False) == whole


# Bad input.


def test_tokens_of_a_language_model_stay_together():
    with pytest.raises(checks.InputError, match=r"cut = 'tokens': must be another .* reads whole responses"):
        sim.Spec(
            sim.tasks.arithmetic(digits=1, prompts=4, horizon=4), sim.schedules.fixed(0, groups_per_batch=2),
            method_of("grpo"), sim.chain(sim.updates.sgd(0.1)),
            sim.policies.causal_lm("char", recipe={"steps": 0}), minibatches=2, cut="tokens", replicates=1,
        )  # fmt: skip


@pytest.mark.parametrize("cut", ["groups", "parts", "samples"])
def test_parts_of_responses_are_the_whole(cut):
    """As `test_parts_are_the_whole`, of a language model in float32 and in micro-batches."""
    method = sim.methods.ppo_clip(anchor="proximal", advantage=sim.advantages.offset(0.3), aggregator="sequence_sum")
    task, policy = sim.tasks.arithmetic(digits=1, prompts=8, horizon=5), sim.policies.causal_lm(recipe={"steps": 0})
    whole_of_parts(task, policy, method, cut, 2, 1e-5, samples_per_group=2, replicates=1, micro_batches=2)


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"minibatches": 3, "cut": "groups"}, "minibatches", "the 2 groups of a batch"),
        ({"minibatches": 3, "cut": "parts"}, "minibatches", "the 4 samples of a group"),
        ({"minibatches": 3, "cut": "samples"}, "minibatches", "the 8 samples of a batch"),
        ({"minibatches": 7, "cut": "tokens"}, "minibatches", "the 24 tokens of a batch"),
        ({"minibatches": 0}, "minibatches", ">= 1"),
        ({"cut": "tokenss"}, "cut", "tokens"),
        ({"advantages_from": "after"}, "advantages_from", "minibatch"),
        ({"minibatches": 4, "cut": "parts", "advantages_from": "minibatch"}, "samples_per_group", "at least 2"),
        ({"cut": "samples", "advantages_from": "minibatch"}, "advantages_from", "cut='parts'"),
        ({"sampling": "enumerate"}, "minibatches", "monte_carlo"),
        ({"updates": 7}, "updates", "minibatches = 2"),
    ],
)
def test_what_cannot_be_cut_is_named(changes, field, says):
    with pytest.raises(checks.InputError) as raised:
        sim.run(spec_of(method_of("grpo"), **{"cut": "groups", "after": False, "epochs": 1, **changes}), progress=False)
    assert raised.value.field == field and says in str(raised.value)
