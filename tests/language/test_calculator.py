"""The calculator's replies inside responses: read by the model, never trained, the same whenever they are drawn."""

import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base import rng
from asyncsim.base.checks import InputError
from asyncsim.methods._method import evaluate
from asyncsim.policies import _pretraining as pretraining
from asyncsim.policies._pretraining import Characters
from asyncsim.sampling.drawing import Late
from asyncsim.sampling.rollouts import Sampler, generate, monte_carlo
from asyncsim.step.batch import Draws
from tests.language.talkative import talkative
from tests.language.test_causal_lm import policy, reference, view_of, weights
from tests.refusals import refused

N = 4
CHARACTERS = Characters()
SPEAKER = SimpleNamespace(tokenizer=CHARACTERS, context=64)


def sampler_of(task, made, samples=N):
    return Sampler(task.fit(made), made, samples, 3, np.arange(1), np.zeros(1, dtype=np.int64))


def drawn(view, made, task=None, version=None, before=None, where=None):
    """Trajectories of every prompt, and the sampler that drew them."""
    task = task or talkative()
    sampler = sampler_of(task, made)
    ids = np.arange(task.prompts * N).reshape(1, task.prompts, N)
    with torch.no_grad():
        return generate(sampler, view, sampler.draws(ids), sampler.prompts(ids), before, where), sampler


def batch_of(view, made, task=None):
    task = task or talkative()
    sampler, groups = sampler_of(task, made), task.prompts
    ids = np.arange(groups * N).reshape(1, groups, N)
    with torch.no_grad():
        return monte_carlo(sampler, np.zeros((1, 1, 1, 1), dtype=np.int32), 0, ids, view)


def written(task, made, batch):
    """Whether each token must be the environment's, replayed one response at a time, bool `[G N, T]`."""
    task, rows = task.fit(made), []
    for prompt, said in zip(batch.state.flatten(0, 3).tolist(), batch.action.flatten(0, 2).tolist(), strict=True):
        flags, over = [], False
        for t, token in enumerate(said):
            due = task._due(prompt, said[:t])
            assert over or due < 0 or due == token, "another reply"
            flags.append(due >= 0 or over)
            over = over or (due < 0 and token in made.tokenizer.end)
        rows.append(flags)
    return torch.tensor(rows)


# Drawing and scoring.


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_log_probs_are_those_of_the_whole_text(seed):
    """Of own tokens, given all in front of them, replies too; replies are as due, and have mask and log-prob 0."""
    made = policy()
    flat = weights(made, seed)
    view = view_of(made, flat)
    batch = batch_of(view, made)
    own = batch.mask[0].flatten(0, 1) > 0
    assert torch.equal(~own, written(talkative(), made, batch))
    found = batch.behavior["log_prob"][0].flatten(0, 1)
    expected = reference(made, flat[0], batch.state[..., 0, :], batch.action)[0]
    torch.testing.assert_close(found[own], expected[own], rtol=0, atol=1e-11)
    assert (found[~own] == 0).all()
    scored = made.forward(view, batch, ("log_prob",)).outputs["log_prob"][0].flatten(0, 1)
    torch.testing.assert_close(scored[own], expected[own], rtol=0, atol=1e-11)
    assert (scored[~own] == 0).all()


def test_these_responses_have_every_kind_of_hole():
    """In the middle, at the end, several in one, none, and a reply behind every own token."""
    made, kinds = policy(), set()
    for seed in range(12):
        batch = batch_of(view_of(made, weights(made, seed)), made)
        for own in batch.mask[0].flatten(0, 1).tolist():
            text = "".join("10"[flag == 0.0] for flag in own).rstrip("0")
            kinds |= {"none"} if "0" not in text else {"middle"}
            kinds |= {"several"} if len(re.findall("0+", text)) > 1 else set()
            kinds |= {"every turn"} if re.fullmatch("(10+)+1?", text) else set()
            kinds |= {"end"} if own[-1] == 0.0 and own[-3:-1] != [0.0, 0.0] else set()
    assert kinds == {"none", "middle", "several", "every turn", "end"}


def test_sampling_agrees_with_scoring_in_float32():
    made = sim.policies.causal_lm("char", recipe={"steps": 0})
    flat = made.initial(1, torch.float32) * 3
    view = view_of(made, flat)
    batch = batch_of(view, made)
    scored = made.forward(view, batch, ("log_prob",)).outputs["log_prob"]
    assert (batch.mask.diff(dim=-1) > 0).any() and (scored - batch.behavior["log_prob"]).abs().max() < 1e-5


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_tokens_of_two_versions_around_replies(seed):
    """Drawn late from both weights or early from one after the other; a change may fall into a reply."""
    made, random = policy(), np.random.default_rng(seed)
    task = talkative()
    flats = [weights(made, s) for s in (1, 2)]
    change = random.integers(0, task.horizon + 1, (task.prompts, N))
    slot = (np.arange(task.horizon) >= change[..., None]).astype(np.int64)
    late, _ = drawn(view_of(made, *flats, slot=slot), made)
    early = None
    for version, flat in enumerate(flats):
        where = torch.from_numpy(slot == version)[None]
        early, _ = drawn(view_of(made, flat), made, before=early, where=where)
    for name in ("action", "mask", "inserted"):
        assert torch.equal(getattr(early, name), getattr(late, name)), name
    torch.testing.assert_close(early.outputs["log_prob"], late.outputs["log_prob"], rtol=0, atol=1e-11)


def test_a_reply_that_was_drawn_anew_is_read_again():
    """A cache that holds the tokens of other draws is not read on behind a reply."""
    made, task = policy(), talkative()
    view, sampler = view_of(made, weights(made)), sampler_of(talkative(), made)
    first, second = (np.arange(task.prompts * N).reshape(1, task.prompts, N) + k for k in (0, 1000))
    prompt = sampler.prompts(first)
    everything = torch.ones((1, task.prompts, N, task.horizon), dtype=torch.bool)
    with torch.no_grad():
        before = generate(sampler, view, sampler.draws(first), prompt)
        again = generate(sampler, view, sampler.draws(second), prompt, before, everything)
        fresh = generate(sampler, view, sampler.draws(second), prompt)
    own = fresh.own > 0
    assert torch.equal(again.own, fresh.own) and torch.equal(again.action[own], fresh.action[own])
    torch.testing.assert_close(again.outputs["log_prob"][own], fresh.outputs["log_prob"][own], rtol=0, atol=1e-11)


@pytest.mark.parametrize("system", ["event", "coupled"])
def test_late_and_early_runs_agree(system):
    areal = sim.systems.areal(1, 1, 2, length=1.0, train_time=2.3)
    made = policy()
    spec = sim.Spec(
        talkative(),
        areal if system == "event" else sim.schedules.coupled(areal),
        sim.methods.truncated_is("token", advantage=sim.advantages.offset(0.5)),
        sim.chain(sim.updates.sgd(0.5)),
        made,
        samples_per_group=3,
        updates=6,
        replicates=1,
        dtype="float64",
        diagnostics=["ess", "entropy"],
        initial=weights(made, 4).numpy(),
    )
    late, early = (sim.run(spec.replace(drawing=when), seed=1) for when in ("late", "early"))
    np.testing.assert_allclose(late.parameters, early.parameters, rtol=0, atol=1e-9)
    np.testing.assert_allclose(late["ess"], early["ess"], rtol=0, atol=1e-9)


def test_lengths_of_a_coupled_system_count_replies():
    made = policy()
    sampler = sampler_of(talkative(), made)
    late = Late(sampler, SimpleNamespace(), "monte_carlo")
    late.publish(0, {"parameters": weights(made)})
    zeros = np.zeros(8, dtype=np.int64)
    found = late.lengths(zeros, np.arange(8), np.zeros((8, talkative().horizon), dtype=np.int32))
    ids = np.arange(8).reshape(1, 1, 8)
    with torch.no_grad():
        whole = generate(sampler, view_of(made, weights(made)), sampler.draws(ids), sampler.prompts(ids))
    assert found.tolist() == whole.mask.sum(-1).flatten().tolist() and (whole.own.sum(-1) < whole.mask.sum(-1)).any()


# What is trained, and what is read.


def trained(method, made, batch, now):
    return evaluate(method, talkative().fit(made), made, made.prepare(now), batch)


@pytest.mark.parametrize("method", ["gspo", "ppo_clip", "grpo", "truncated_is", "vespo"])
def test_replies_have_no_part_in_an_update(method):
    """Cotangents 0 there; the gradient is autograd's of the own tokens; what a reply reports is read by nobody."""
    made = policy()
    then, now = weights(made, 1), weights(made, 1) + 0.02 * weights(made, 2)
    batch = batch_of(view_of(made, then), made)
    batch.reward = torch.from_numpy(np.random.default_rng(0).normal(size=batch.reward.shape))
    chosen = getattr(sim.methods, method)()
    step = trained(chosen, made, batch, now)
    holes = (batch.mask == 0) & (batch.action != 0)
    assert holes.any() and (step.cotangents["log_prob"][batch.mask == 0] == 0).all()
    live = now[0].clone().requires_grad_()
    expected = reference(made, live, batch.state[..., 0, :], batch.action)[0].reshape(batch.mask.shape)
    weight = step.cotangents["log_prob"].expand(batch.mask.shape)
    (gradient,) = torch.autograd.grad((weight * expected).sum(), live)
    torch.testing.assert_close(step.gradient[0], gradient, rtol=1e-8, atol=1e-10)
    odd = dataclasses.replace(batch, behavior=dict(batch.behavior))
    odd.behavior["log_prob"] = torch.where(batch.mask > 0, batch.behavior["log_prob"], torch.nan)
    other = trained(chosen, made, odd, now)
    assert torch.equal(other.gradient, step.gradient) and torch.equal(other.log_ratio, step.log_ratio)


def test_a_trained_reply_is_seen():
    """The planted defect: a mask that is 1 on replies moves ratios and gradient."""
    made = policy()
    then, now = weights(made, 1), weights(made, 1) + 0.02 * weights(made, 2)
    batch = batch_of(view_of(made, then), made)
    replies = (written(talkative(), made, batch).reshape(batch.mask.shape)) & (batch.action != 0)
    wrong = dataclasses.replace(batch, mask=(batch.mask + replies).clamp(max=1.0), _full=None)
    chosen = sim.methods.truncated_is("sequence", advantage=sim.advantages.offset(0.3))
    one, two = (trained(chosen, made, each, now).gradient for each in (batch, wrong))
    assert (one - two).abs().max() > 1e-3


def test_the_model_reads_replies():
    """Another digit in a reply changes the log-probs behind it and none in front."""
    made = policy()
    view = view_of(made, weights(made, 1))
    batch = batch_of(view, made)
    hole = ((batch.mask == 0) & (batch.action != 0)).long()
    first = hole.argmax(-1, keepdim=True)
    behind = (torch.arange(hole.shape[-1]) > first) & (hole.sum(-1, keepdim=True) > 0) & (batch.mask > 0)
    changed = batch.action.clone()
    there = (torch.arange(hole.shape[-1]) == first) & (hole > 0)
    changed[there] = changed[there] % 10 + 1
    odd = dataclasses.replace(batch, action=changed)
    one, two = (made.score(view, each) for each in (batch, odd))
    moved = (one - two).abs()
    assert behind.any() and (moved[behind] > 1e-9).all() and (moved[~behind] == 0).all()


def test_a_context_that_a_reply_fills_is_refused():
    """Holes count: the place of the last own token is what has to fit."""
    made = sim.policies.causal_lm(
        "char", recipe={"width": 16, "layers": 1, "heads": 2, "hidden": 16, "context": 12, "steps": 0}
    )
    task = talkative(("12+34=",), horizon=6)
    assert task.fit(made).horizon == 6
    refused("context of the model", lambda: talkative(("12+34=",), horizon=7).fit(made))
    seen = torch.tensor([made.tokenizer.encode("12+34=")]).reshape(1, 1, 1, -1)
    mask = torch.tensor([1.0, 0, 0, 0, 0, 0, 1.0]).double().reshape(1, 1, 1, 7)
    view = view_of(made, made.initial(1))
    from tests.language.test_causal_lm import batch_of as laid_out

    with pytest.raises(InputError, match="tokens of a prompt and its response = 13"):
        made.score(view, laid_out(seen, torch.ones(1, 1, 1, 7, dtype=torch.int64), mask))


# The calculator itself.


def solved(task, answer, prompt=0):
    """A response played with the model's part given: (text, own flags, reward)."""
    task, said, own = task.fit(SPEAKER), [], []
    ids = list(task.ids[prompt])
    model = iter(CHARACTERS.encode(answer))
    while len(said) < task.horizon:
        due = task._due(ids, said)
        own.append(due < 0)
        said.append(next(model) if due < 0 else due)
        if own[-1] and said[-1] in CHARACTERS.end:
            break
    behind = task.horizon - len(said)
    action = torch.tensor([[[said + [0] * behind]]])
    mask = torch.tensor([[[[1.0] * len(said) + [0.0] * behind]]])
    state = torch.from_numpy(task.ids[prompt]).reshape(1, 1, 1, -1)
    ids = np.full((1, 1, 1), prompt)
    draws = Draws(rng.Stream(0, "rollout"), np.arange(1), np.zeros(1, int), ids, prompts=task.prompts)
    return CHARACTERS.decode(said), own, task.earn(state.unsqueeze(3), action, mask, draws).item()


def asked(text, answer, horizon=12, **settings):
    return sim.tasks.calculator(digits=1, **settings).__class__((text,), (answer,), horizon, **settings)


@pytest.mark.parametrize(
    ("question", "model", "text", "reward"),
    [
        ("3+4=", "7\n", "7\n", 1.0),
        ("3+4=", "?\n", "?7\n", 1.0),
        ("3+4=", "??\n", "?7?7\n", 1.0),
        ("3+4=", "?7\n", "?77\n", 0.0),
        ("3+4=", "8\n", "8\n", 0.0),
        ("3+4=", "2*4?\n", "2*4?8\n", 0.0),
        ("3+4+5=", "?+5?\n", "?7+5?12\n", 1.0),
        ("3+4+5=", "12\n", "12\n", 1.0),
        ("3+4+5=", "?\n", "?7\n", 0.0),
        ("3-8-2=", "?-2?\n", "?-5-2?-7\n", 1.0),
        ("12*11*9=", "?*9?\n", "?132*9?1188\n", 1.0),
        ("3+4=", "?" * 12, "?7" * 6, 0.0),
        ("3=", "?\n", "?\n", 0.0),
    ],
)
def test_dialogs(question, model, text, reward):
    answer = str(eval(question[:-1]))
    found, own, earned = solved(asked(question, answer if question != "3=" else "x"), model)
    assert found == text and earned == reward
    assert "".join(c for c, o in zip(found, own, strict=True) if o) == model[: sum(own)]


def test_calls_cost_their_price():
    for model, expected in (("7\n", 1.0), ("?\n", 0.75), ("??\n", 0.5), ("?1\n", -0.25)):
        assert solved(asked("3+4=", "7", price=0.25), model)[2] == expected


@pytest.mark.parametrize("operation", ["add", "subtract", "multiply"])
@pytest.mark.parametrize("terms", [2, 3, 4])
def test_spoken_answers_are_right_and_fit(operation, terms):
    task = sim.tasks.calculator(operation, terms, digits=1, prompts=40, seed=2)
    assert len(set(task.texts)) == 40 and task.horizon == 1 + max(len(task.spoken(q)) for q in range(40))
    for q in range(40):
        assert task.answers[q] == str(eval(task.texts[q][:-1]))
        model = re.sub(r"\?-?\d+", "?", task.spoken(q)) + "\n"
        text, _, earned = solved(task, model, q)
        assert text == task.spoken(q) + "\n" and earned == 1.0
    refused("raise the horizon", lambda: dataclasses.replace(task, horizon=task.horizon - 1).fit(SPEAKER))


def test_shots_are_solved_with_calls_and_never_asked():
    task = sim.tasks.calculator(digits=1, shots=3, prompts=20)
    *front, _ = task.texts[0].split("\n")
    assert all(re.fullmatch(r"\d\+\d=\?\d+", line) for line in front)
    questions = {text.split("\n")[-1] for text in task.texts}
    assert not questions & {line.partition("?")[0] for line in front}
    assert solved(task, "?\n")[2] == 1.0, "the last question is answered, not a solved one"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"operation": "divide"}, "operation"),
        ({"terms": 1}, "terms"),
        ({"terms": 5}, "terms"),
        ({"terms": 4, "digits": 3}, "terms"),
        ({"digits": 4}, "digits"),
        ({"price": -1}, "price"),
        ({"shots": -1}, "shots"),
        ({"prompts": 0}, "prompts"),
        ({"digits": 1, "prompts": 101}, "prompts"),
        ({"part": "third"}, "part"),
        ({"seed": -1}, "seed"),
        ({"horizon": 0}, "horizon"),
    ],
)
def test_bad_settings_are_named(arguments, field):
    caught = refused("", lambda: sim.tasks.calculator(**arguments))
    assert caught.field.startswith(field) and caught.remedy


# Teaching it to call.


def test_lessons_with_calls():
    """A share of the lines; the call and the line break are taught there, the result is not."""
    recipe = pretraining.Recipe(high=9, calls=0.25)
    ids, taught = pretraining.lines(recipe, 4000, np.random.default_rng(0))
    texts = [CHARACTERS.decode(row) for row in ids.tolist()]
    calls = ["?" in text for text in texts]
    assert 0.22 < np.mean(calls) < 0.28
    for text, row in zip(texts[:50], taught.tolist(), strict=False):
        line = text.partition("\n")[0] + "\n"
        assert eval(line.partition("=")[0]) == int(line.strip().partition("=")[2].removeprefix("?"))
        lesson = "".join(c for c, t in zip(line[1:], row, strict=False) if t)
        assert lesson == ("?\n" if "?" in line else line.partition("=")[2])
    assert not set(taught.flatten().tolist()) - {0.0, 1.0}


def test_recipes_without_calls_are_what_they_were():
    """Their files keep their names, and their lessons every draw."""
    assert pretraining.Recipe().key() == "char-2b230861962ad9a0"
    one, two = (np.random.default_rng(1) for _ in range(2))
    plain, called = (pretraining.lines(pretraining.Recipe(calls=c), 64, r) for c, r in ((0.0, one), (1.0, two)))
    assert "?" not in CHARACTERS.decode(plain[0].flatten().tolist())
    asks = [CHARACTERS.decode(row).partition("=")[0] for row in called[0].tolist()]
    assert asks == [CHARACTERS.decode(row).partition("=")[0] for row in plain[0].tolist()]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where the taught model is kept."""
    return str(tmp_path_factory.mktemp("kept"))


@pytest.mark.rows
@pytest.mark.parametrize(("price", "least", "most"), [(0.0, 0.85, 1.0), (1.0, 0.0, 0.15)])
def test_the_model_learns_when_to_call(price, least, most, kept, monkeypatch):
    """Taught some sums, and to call for a fifth of them: free calls become the rule, those at the whole reward rare.

    21 updates on 128 answers, one seed. Of 8 other seeds the share of answers with a call began at .15 to .21, and
    ended at .89 or more without a price; of 4 with it at .02 or less. So what another machine rounds is no alarm.
    """
    monkeypatch.setenv("ASYNCSIM_CACHE", kept)
    shape = {"width": 32, "layers": 2, "heads": 2, "hidden": 64, "context": 16}
    made = sim.policies.causal_lm("char", recipe={**shape, "high": 9, "steps": 150, "calls": 0.2, "target": 1.0})
    task, system = sim.tasks.calculator(digits=1, prompts=16, price=price), sim.schedules.fixed(1, groups_per_batch=8)
    options = {"samples_per_group": 16, "updates": 21, "replicates": 1, "diagnostics": ["turns"]}
    spec = sim.Spec(task, system, sim.methods.grpo(), sim.chain(sim.updates.adam(5e-3)), made, **options)
    calls = sim.run(spec, seed=0, progress=False)["turns"][:, 0] - 1.0
    assert calls[0] < 0.35 and least <= calls[-1] <= most
