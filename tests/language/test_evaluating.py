"""A trained model is evaluated, looked at and written; nothing of it is missing without being said."""

import math
import shutil

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base import plugins, uncertainty
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step import versions
from asyncsim.step.batch import Batch
from tests.language import tiny
from tests.refusals import refused

ROWS = [{"prompt": f"Q {a}+{b}=", "answer": a + b} for a in range(2) for b in range(2)]


def letters(completions, ended):
    """Pays varied texts that end."""
    return [len(set(text)) + 2.0 * end for text, end in zip(completions, ended, strict=True)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, data, a checkpoint and the trace of a run with evaluations in its course."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("study")
    tiny.save(folder / "model", tied=False)
    tiny.rows(folder / "data.jsonl", *ROWS)
    return folder


def task_of(place, **settings):
    return sim.tasks.text(str(place / "data.jsonl"), **{"reward": letters, "horizon": 8, "stop": "a", **settings})


def spec_of(place, policy=None, method=None, **changes):
    policy = policy or sim.policies.causal_lm(str(place / "model"))
    settings = {"updates": 4, "replicates": 1, "samples_per_group": 4, "diagnostics": ["batch_return", "texts"]}
    system, links = sim.schedules.fixed(1, groups_per_batch=2), sim.chain(sim.updates.adam(1e-2))
    return sim.Spec(task_of(place), system, method or sim.methods.grpo(), links, policy, **settings | changes)


@pytest.fixture(scope="module")
def trained(place):
    heard = sim.callbacks.evaluate(task_of(place), every=2, greedy=True)
    trace = sim.run(spec_of(place), checkpoint=place / "c.npz", callback=heard)
    return trace, heard


def logits(network, ids):
    with torch.no_grad():
        return network(input_ids=torch.tensor([ids])).logits[0]


# Evaluation.


def test_the_mean_is_that_of_all_prompts_with_its_interval(place, trained):
    found = sim.evaluate(trained[0], task_of(place), samples=3)
    assert found.rewards.shape == (1, 4, 3) and found.unit == "4 prompts"
    means = found.rewards[0].mean(1)
    half = uncertainty.critical(0.05, 3) * means.std(ddof=1) / math.sqrt(4)
    assert found.mean == pytest.approx(means.mean())
    assert (found.low, found.high) == pytest.approx((means.mean() - half, means.mean() + half))
    table = found.table()
    assert table["reward"].tolist() == found.rewards.ravel().tolist()
    assert table["reward"].tolist() == letters(table["response"], table["ended"])
    assert table["question"].tolist()[::3] == [row["prompt"] for row in ROWS]
    again = sim.evaluate(trained[0], task_of(place), samples=3)
    assert np.array_equal(found.rewards, again.rewards)
    # Planted: a seed that does nothing.
    other = sim.evaluate(trained[0], task_of(place), samples=3, seed=1).table()
    assert not other["response"].equals(table["response"])


def test_prompts_in_parts_have_the_same_answers(place, trained, monkeypatch):
    whole = sim.evaluate(trained[0], task_of(place), samples=3)
    monkeypatch.setattr("asyncsim.running.evaluating.STEP", 3)
    assert sim.evaluate(trained[0], task_of(place), samples=3).table().equals(whole.table())


def test_greedy_answers_are_those_of_generate(place, trained, tmp_path):
    """Greedy decoding of the exported folder by `transformers` gives the same tokens."""
    import transformers

    trained[0].export(tmp_path / "out")
    network = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    words = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    found = sim.evaluate(trained[0], task_of(place, stop=None), greedy=True).table()
    for row in found.itertuples():
        ids = words(row.question, return_tensors="pt", add_special_tokens=False)
        text = network.generate(**ids, max_new_tokens=8, do_sample=False)[0, ids["input_ids"].shape[1] :]
        assert words.decode(text, skip_special_tokens=True) == row.response
    assert (
        sim.evaluate(trained[0], task_of(place), greedy=True, seed=3)
        .table()["response"]
        .equals(sim.evaluate(trained[0], task_of(place), greedy=True).table()["response"])
    )


def test_trace_file_and_checkpoint_say_the_same(place, trained, tmp_path):
    trained[0].save(tmp_path / "t.npz")
    policy = sim.policies.causal_lm(str(place / "model"))
    found = [
        sim.evaluate(each, task_of(place), samples=2, policy=policy)
        for each in (trained[0], tmp_path / "t.npz", place / "c.npz")
    ]
    assert len({each.table()["response"].str.cat() for each in found}) == 1
    start = sim.evaluate(sim.run(spec_of(place, updates=1)), task_of(place), samples=2)
    assert not start.table()["response"].equals(found[0].table()["response"]), "training has changed nothing"


def test_evaluations_in_the_course_of_a_run_change_no_bit(place, trained):
    trace, heard = trained
    assert [(update, block) for update, block, _ in heard.results] == [(0, 0), (2, 0)]
    assert sim.run(spec_of(place)) == trace
    # Those of update 2 are of the weights after two updates.
    half = sim.evaluate(sim.run(spec_of(place, updates=2)), task_of(place), greedy=True)
    assert half.table().equals(heard.results[1][2].table())


def test_other_tasks_and_policies_are_evaluated_too():
    task = sim.tasks.softmax_bandit(arms=2, means=[0.0, 1.0])
    spec = sim.Spec(task, sim.schedules.fixed(0), sim.methods.reinforce(), sim.chain(), updates=1, replicates=1)
    found = sim.evaluate(sim.run(spec.replace(initial=[0.0, 400.0])), task, samples=5)
    assert found.mean == 1.0 and found.unit == "5 samples" and found.texts == []
    several = sim.evaluate(sim.run(spec.replace(replicates=3)), task, samples=5)
    assert several.unit == "3 replicates" and several.rewards.shape == (3, 1, 5)
    assert math.isnan(sim.evaluate(sim.run(spec), task).low)
    refused("greedy = True", sim.evaluate, sim.run(spec), task, greedy=True)


# The model itself.


@pytest.mark.parametrize("settings", [{}, {"train_layers": 1}, {"critic": True}, {"reference": "start"}])
def test_an_exported_model_has_the_log_probs_of_the_trained_one(place, tmp_path, settings):
    import transformers

    policy = sim.policies.causal_lm(str(place / "model"), **settings)
    trace = sim.run(spec_of(place, policy, sim.methods.a2c() if "critic" in settings else None))
    trace.export(tmp_path / "out")
    network = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    words = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = words.encode("Q 1+1=abc", add_special_tokens=False)
    action = torch.tensor(ids[5:])[None, None, None]
    state, mask, empty = torch.tensor(ids[:5])[None, None, None, None], torch.ones(action.shape), torch.zeros(1, 1, 1)
    batch = Batch.of_nobody(action, state, mask, empty, empty + 1, 1)
    flat = torch.from_numpy(trace.parameters).float()
    ours = policy.forward(versions.current({"parameters": flat}), batch, ("log_prob",)).outputs["log_prob"].flatten()
    law = logits(network, ids).log_softmax(-1)[4:-1]
    theirs = law.gather(1, action.flatten()[:, None])[:, 0]
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    # Planted: the folder as it was loaded says something else.
    start = transformers.AutoModelForCausalLM.from_pretrained(place / "model").eval()
    assert (
        logits(start, ids).log_softmax(-1)[4:-1].gather(1, action.flatten()[:, None])[:, 0] - ours
    ).abs().max() > 1e-3
    torch.testing.assert_close(logits(trace.module(), ids), logits(network, ids))
    # And the folder is a model for another run.
    again = sim.policies.causal_lm(str(tmp_path / "out"))
    torch.testing.assert_close(logits(again.model.network, ids), logits(network, ids))


def test_a_folder_in_use_stays_as_it_is(place, trained, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    refused("folder = .*: must be new or empty", trained[0].export, tmp_path / "full")
    (tmp_path / "empty").mkdir()
    trained[0].export(tmp_path / "empty")
    assert (tmp_path / "empty" / "model.safetensors").is_file() and not list(tmp_path.glob("asyncsim-*"))
    refused("replicate = 1", trained[0].export, tmp_path / "more", replicate=1)


def test_what_is_missing_of_a_model_is_named(place, trained, tmp_path):
    trained[0].save(tmp_path / "t.npz")
    other = tmp_path / "moved"
    shutil.copytree(place / "model", other)
    trace = sim.Trace.load(tmp_path / "t.npz")
    trace.header["policy"]["policies.causal_lm"]["model"] = str(tmp_path / "gone")
    refused("model = .*gone.*", sim.evaluate, trace, task_of(place))
    trace.export(tmp_path / "out", policy=sim.policies.causal_lm(str(other)))
    (other / "config.json").write_bytes((other / "config.json").read_bytes() + b" ")
    error = refused("weights of .*moved", trace.export, tmp_path / "two", policy=sim.policies.causal_lm(str(other)))
    assert "put its files back" in str(error)
    trace.header.pop("policy")
    refused("trace.header policy = None.*policy=spec.trained_policy", trace.module)
    wrong = sim.policies.causal_lm("char", recipe={"width": 16, "layers": 1, "steps": 0})
    trace.header["manifest"].pop("weights")
    refused("parameters of the trace", trace.module, policy=wrong)


def test_the_character_model_comes_back_as_a_module(tmp_path):
    recipe = {"width": 16, "layers": 1, "heads": 2, "hidden": 24, "context": 32, "steps": 0}
    policy = sim.policies.causal_lm("char", recipe=recipe, critic=True)
    task = sim.tasks.arithmetic(digits=1, prompts=2)
    links = sim.chain(sim.updates.adam(1e-2))
    spec = sim.Spec(task, sim.schedules.fixed(0), sim.methods.a2c(), links, policy, updates=2, replicates=1)
    trace = sim.run(spec)
    network = trace.module()
    flat = torch.cat([w.flatten() for w in network.parameters()])
    assert torch.equal(flat, torch.from_numpy(trace.parameters[0]).float()[: len(flat)])
    refused("policy = 'causal_lm': must be a model that transformers reads", trace.export, tmp_path / "out")
    table = sim.Spec(
        sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.reinforce(), sim.chain(), updates=1
    )
    refused("policy = 'tabular': must be a network", sim.run(table).module, policy=table.trained_policy)


@pytest.mark.parametrize(
    "settings", [{"critic": True}, {"normalize": True}, {"critic": "action"}, {"head": "gaussian", "actions": 1}]
)
def test_a_perceptron_comes_back_as_layers_of_torch(settings):
    policy = sim.policies.mlp(**{"observation": 3, "actions": 2, "hidden": (5, 4), **settings})
    flat = policy.initial(1, torch.float64, 3) + 0.3
    network = policy.as_module(flat[0])
    seen = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 4
    evaluation = policy._evaluated([(flat, None)], seen[None])[0][0]
    result = network(seen)
    raw, value = result if policy.critic else (result, None)
    torch.testing.assert_close(raw, evaluation.actor.outputs[0])
    if policy.critic:
        torch.testing.assert_close(value, evaluation.value[0])
    if policy.head == "gaussian":
        torch.testing.assert_close(network.log_std, evaluation.log_std[0, 0])
    assert sum(p.numel() for p in network.parameters()) == policy.layout.trained


def test_a_trained_environment_policy_is_a_module():
    task = sim.tasks.gym("CartPole-v1", steps=8)
    update = sim.chain(sim.updates.adam(1e-2))
    trace = sim.run(sim.Spec(task, sim.schedules.fixed(0), sim.methods.a2c(), update, updates=2, replicates=2))
    network = trace.module(1)
    own = [w.T if w.ndim == 2 else w for w in network.policy.parameters()]
    flat = torch.cat([w.flatten() for w in own])
    assert torch.equal(flat, torch.from_numpy(trace.parameters[1]).float()[: len(flat)])
    assert network(torch.zeros(3, 4))[0].shape == (3, 2)


def test_ones_own_module_comes_back():
    policy = sim.policies.module(lambda: torch.nn.Linear(4, 2), observation=4, actions=2)
    update = sim.chain(sim.updates.adam(1e-2))
    task = sim.tasks.gym("CartPole-v1", steps=8)
    trace = sim.run(
        sim.Spec(task, sim.schedules.fixed(0), sim.methods.reinforce(), update, policy, updates=2, replicates=1)
    )
    refused("trace.header policy = None", trace.module)
    network = trace.module(policy=policy)
    flat = torch.nn.utils.parameters_to_vector(network.parameters())
    assert torch.equal(flat, torch.from_numpy(trace.parameters[0]).float())


# The reference.

RECIPE = {"width": 16, "layers": 2, "heads": 2, "hidden": 24, "context": 32, "steps": 0}
SUMS = sim.tasks.arithmetic(digits=1, prompts=4)


def held(method, reference="start", updates=3, **changes):
    """The trace of a run with a reference, and the log-probs of each batch: of the policy and of the reference."""
    seen = []
    policy = sim.policies.causal_lm("char", recipe=RECIPE, reference=reference)

    def noted(step):
        seen.append((step.current["log_prob"], step.current["reference"], step.mask))
        return step.mean(step.batch.reward)

    note = Metric("note", noted, outputs=("reference", "log_prob"))
    settings = {"samples_per_group": 4, "replicates": 1, "diagnostics": [note, "gradient_norm"], "updates": updates}
    links, system = sim.chain(sim.updates.adam(1e-2)), sim.schedules.fixed(1, groups_per_batch=2)
    return sim.run(sim.Spec(SUMS, system, method, links, policy, **settings | changes)), seen


def test_the_reference_is_the_policy_that_training_starts_from():
    """At the first update to the bit; later it stays where it was, on the batch's own tokens."""
    _, seen = held(sim.methods.reinforce(sim.advantages.offset(-1.0)))
    current, reference, mask = seen[0]
    assert torch.equal(current * mask, reference * mask)
    current, reference, mask = seen[-1]
    assert ((current - reference).abs() * mask).max() > 1e-3


def test_reference_log_probs_are_those_of_the_loaded_weights():
    policy = sim.policies.causal_lm("char", recipe=RECIPE, reference="start")
    flat = policy.initial(1) + 0.3 * torch.randn(1, policy.size, generator=torch.Generator().manual_seed(0))
    ids = torch.tensor(policy.tokenizer.encode("1+2="))[None, None, None, None]
    action = torch.tensor(policy.tokenizer.encode("34\n"))[None, None, None]
    empty = torch.zeros(1, 1, 1)
    batch = Batch.of_nobody(action, ids, torch.ones(action.shape), empty, empty + 1, 1)
    passed = policy.forward(
        versions.current({"parameters": flat}), batch, ("log_prob", "reference", "reference_log_probs")
    )
    there = policy.forward(
        versions.current({"parameters": policy.initial(1)}), batch, ("log_prob", "log_probs")
    ).outputs
    assert torch.equal(passed.outputs["reference"], there["log_prob"])
    assert torch.equal(passed.outputs["reference_log_probs"], there["log_probs"])
    # Planted: the current weights in their place.
    assert (passed.outputs["reference"] - passed.outputs["log_prob"]).abs().max() > 0.1
    # A later update on the same batch asks the network no second time.
    policy.__dict__["_start"] = None
    later = policy.forward(versions.current({"parameters": flat}), batch, ("reference",)).outputs
    assert torch.equal(later["reference"], there["log_prob"])


def test_penalties_hold_a_model_close_to_its_start():
    """A heavy penalty keeps the policy nearer than none; sampled and exact, on minibatches too."""

    def moved(penalties, **changes):
        method = sim.methods.grpo().replace(penalties=penalties, advantage=sim.advantages.offset(-1.0))
        trace, seen = held(method, updates=8, **changes)
        gaps = [float(((current - reference) * mask).abs().max()) for current, reference, mask in seen]
        return np.mean(gaps[-4:]), trace

    free = moved(())[0]
    for penalty in (sim.penalties.k2(50.0), sim.penalties.exact(50.0)):
        near, trace = moved((penalty,))
        assert near < 0.7 * free
        assert trace["k2_penalty" if "k2" in repr(penalty).lower() else "exact_penalty"][0, 0] == pytest.approx(
            0, abs=1e-9
        )
    assert moved((sim.penalties.k3(50.0),), minibatches=2)[0] < 0.7 * free


def test_without_a_reference_its_readers_say_how_to_have_one():
    policy = sim.policies.causal_lm("char", recipe=RECIPE)
    parts = (SUMS, sim.schedules.fixed(1), sim.methods.tba(), sim.chain(), policy)
    error = refused("method = 'tba'", sim.Spec, *parts)
    assert "causal_lm(reference='start')" in str(error)


# Methods.

REASONS = {"acer": "action_value", "retrace": "action_value", "gradient": "the quadratic goes with methods.gradient()"}
"""Methods that do not run on a model, and what their refusal says."""


@pytest.mark.parametrize("name", plugins.summaries("asyncsim.methods"))
def test_a_method_runs_on_a_model_or_says_why_not(name):
    method = getattr(sim.methods, name)()
    needs = {*method.outputs, *method.advantage.outputs}
    settings = {"critic": "value" in needs, "distributions": "log_probs" in needs}
    settings |= {"reference": "start"} if "reference" in needs else {}
    policy = sim.policies.causal_lm("char", recipe=RECIPE | {"width": 8, "hidden": 8, "layers": 1}, **settings)
    links, system = sim.chain(sim.updates.adam(1e-3)), sim.schedules.fixed(1, groups_per_batch=2)
    settings = {"updates": 2, "replicates": 1, "samples_per_group": 3, "diagnostics": ["gradient_norm"]}
    drawing = "late" if method.at == "behavior" else "early"

    def run():
        return sim.run(sim.Spec(SUMS, system, method, links, policy, drawing=drawing, **settings))

    if name in REASONS:
        refused(REASONS[name], run)
    else:
        assert np.isfinite(run()["gradient_norm"]).all()
