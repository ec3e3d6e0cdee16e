"""Replies of a tool inside a response: against a plain program, drawn at any time, and credit carried over them."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.advantages import _traces
from asyncsim.base.checks import InputError
from asyncsim.methods._method import evaluate
from asyncsim.sampling.rollouts import Sampler, enumerate_outcomes, monte_carlo
from asyncsim.step import versions
from tests.contracts.laboratory import step_of
from tests.refusals import refused

ONE = np.zeros((1, 1, 1, 1), dtype=np.int32)
SETTINGS = {
    "guesses only": {"horizon": 1},
    "no room for a reply": {"horizon": 2},
    "a reply that is cut": {"horizon": 3},
    "one call": {"horizon": 4, "words": 3},
    "two calls": {"horizon": 6, "reply_tokens": 1, "accuracy": 0.8},
    "a reply in front": {"horizon": 5, "opens": True, "accuracy": 0.9},
    "all but one": {"horizon": 3, "opens": True},
    "priced": {"horizon": 5, "reply_tokens": 1, "price": 0.125},
}
each = pytest.mark.parametrize("name", SETTINGS)


def made(name, **changes):
    return sim.tasks.tool_bandit(**SETTINGS[name] | changes)


def tables(task, seed=0, R=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(R, task.policy().size)))


def dialogs(task, prob):
    """Every dialog as the docstring tells it: (rows, tokens, own, chance of replies, log-free chance of own, score)."""
    K, L, T = task.words, task.reply_tokens, task.horizon

    def go(known, due, calls, rows, tokens, own, replies, chosen):
        if len(tokens) == T:
            yield rows, tokens, own, replies, chosen, -task.price * calls
            return
        row = known + (K + 1) * ((L - len(due) + 1) if due else 0)
        rows = [*rows, row]
        if due:
            heard, *rest = due
            words = range(K) if heard == "word" and known == 0 else [known - 1] if heard == "word" else [K]
            for word in words:
                now = word + 1 if heard == "word" else known
                yield from go(now, rest, calls, rows, [*tokens, word], [*own, 0], replies / len(words), chosen)
            return
        for token in range(K + 1):
            said, p = [*tokens, token], chosen * prob[row, token]
            if token == K:
                yield from go(known, ["call"] * (L - 1) + ["word"], calls + 1, rows, said, [*own, 1], replies, p)
            else:
                right = 1 / K if known == 0 else task.accuracy if token == known - 1 else (1 - task.accuracy) / (K - 1)
                yield rows, said, [*own, 1], replies, p, right - task.price * calls

    yield from go(0, ["call"] * (L - 1) + ["word"] if task.opens else [], 0, [], [], [], 1.0, torch.ones(()).double())


def population(task, theta, policy=None):
    policy = policy or task.policy()
    sampler = Sampler(task, policy, 1, 0, np.arange(len(theta)), np.zeros(len(theta), dtype=np.int64))
    view = versions.current(policy.prepare(theta))
    return enumerate_outcomes(sampler, ONE, 0, np.zeros((1, 1, 1), dtype=np.int64), view)


# Against the plain program.


@each
def test_outcomes_are_those_of_a_plain_program(name):
    task = made(name)
    theta = tables(task)
    prob = theta.reshape(task.rows, task.actions).softmax(-1)
    batch, expected = population(task, theta), list(dialogs(task, prob))
    listed = {}
    for o in range(batch.mask.shape[2]):
        own = batch.mask[0, 0, o] > 0
        key = tuple(batch.action[0, 0, o].tolist()), tuple(own.long().tolist())
        assert key not in listed
        listed[key] = batch.mass[0, 0, o].item(), batch.reward[0, 0, o].item()
    assert len(listed) == len(expected) and sum(mass for mass, _ in listed.values()) == pytest.approx(1.0, abs=1e-12)
    for rows, tokens, own, replies, chosen, score in expected:
        behind = [0] * (task.horizon - len(tokens))
        mass, reward = listed[(*tokens, *behind), (*own, *behind)]
        assert mass == pytest.approx(replies * chosen.item(), rel=1e-12) and reward == pytest.approx(score, abs=1e-12)
        assert len(rows) == len(tokens)


@pytest.mark.parametrize("penalty", [{}, {"kl_coef": 0.3}])
@each
def test_exact_return_and_gradient(name, penalty):
    """A reply costs no divergence, and has no share in the gradient."""
    task = made(name, **penalty)
    theta = tables(task)
    live = theta[0].clone().requires_grad_()
    prob = live.reshape(task.rows, task.actions).softmax(-1)
    total = torch.zeros((), dtype=torch.float64)
    for rows, tokens, own, replies, chosen, score in dialogs(task, prob):
        gaps = [prob[s, a].log() + np.log(task.actions) for s, a, m in zip(rows, tokens, own, strict=True) if m]
        total = total + replies * chosen * (score - penalty.get("kl_coef", 0.0) * sum(gaps))
    (expected,) = torch.autograd.grad(total, live)
    value, gradient = task.exact(task.policy(), theta)
    torch.testing.assert_close(value[0], total.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient[0], expected, rtol=0, atol=1e-12)
    assert (gradient[0].reshape(task.rows, -1)[task.actions :] == 0).all(), "rows of the tool are trained"


@each
def test_the_best_return_is_reached(name):
    """Against the best of a backward recursion over dialogs."""
    task = made(name)
    K, L, T = task.words, task.reply_tokens, task.horizon

    def best(known, t):
        if t >= T:
            return 0.0
        guess = 1 / K if known == 0 else task.accuracy
        return max(guess, best(1, t + 1 + L) - task.price)

    assert task.optimum == pytest.approx(best(int(task.opens), L if task.opens else 0))


def flags(task, said):
    """1 for the policy's own tokens of a dialog, as the docstring tells it; what the tool says must be right."""
    reply = ["call"] * (task.reply_tokens - 1) + ["word"]
    own, due, known = [0.0] * task.horizon, reply if task.opens else [], None
    for t, token in enumerate(said):
        if due:
            heard, *due = due
            assert (token == task.words) == (heard == "call") and (heard == "call" or known in (None, token))
            known = known if heard == "call" else token
            continue
        own[t] = 1.0
        if token < task.words:
            break
        due = reply
    return own


@given(
    words=st.integers(2, 4),
    horizon=st.integers(1, 9),
    reply_tokens=st.integers(1, 4),
    opens=st.booleans(),
    calls=st.sampled_from([-50.0, 0.0, 1.0, 50.0]),
    seed=st.integers(0, 10**6),
)
def test_drawn_dialogs_are_well_formed(words, horizon, reply_tokens, opens, calls, seed):
    """No call, a call at every turn, and all between; holes in front, in the middle, and cut off at the back."""
    front = reply_tokens if opens else 0
    task = sim.tasks.tool_bandit(words, horizon + front, reply_tokens, opens=opens)
    theta = tables(task, seed).reshape(1, task.rows, -1)
    theta[..., words] += calls
    policy = task.policy()
    sampler = Sampler(task, policy, 12, seed, np.arange(1), np.zeros(1, dtype=np.int64))
    view = versions.current(policy.prepare(theta.reshape(1, -1)))
    batch = monte_carlo(sampler, ONE, 0, np.arange(12).reshape(1, 1, 12), view)
    for own, said in zip(batch.mask[0, 0].tolist(), batch.action[0, 0].tolist(), strict=True):
        assert own == flags(task, said)
    if calls == -50.0:
        assert (batch.mask.sum(-1) == 1).all()
    if calls == 50.0:
        assert (batch.reward == 0).all() and (batch.mask.sum(-1) == -(-horizon // (1 + reply_tokens))).all()


def test_replies_are_drawn_uniformly():
    """20,000 first words of 4: z of each share below 5, false alarms below 1 in 10^5; shares off by .03 are seen."""
    task = sim.tasks.tool_bandit(words=4, horizon=2, reply_tokens=1, opens=True)
    policy, count = task.policy(), 20_000
    sampler = Sampler(task, policy, count, 3, np.arange(1), np.zeros(1, dtype=np.int64))
    ids = np.arange(count).reshape(1, 1, count)
    batch = monte_carlo(sampler, ONE, 0, ids, versions.current(policy.prepare(policy.initial(1))))
    shares = np.bincount(batch.action[0, 0, :, 0].numpy(), minlength=5) / count
    error = np.sqrt(0.25 * 0.75 / count)
    assert shares[4] == 0.0 and np.abs(shares[:4] - 0.25).max() < 5 * error < 0.03 - 4 * error


# When they are drawn.


def spec_of(task, system, **changes):
    sizes = {"samples_per_group": 4, "updates": 12, "replicates": 3, "diagnostics": ["batch_return", "ess"]} | changes
    return sim.Spec(task, system, sim.methods.truncated_is("token"), sim.chain(sim.updates.sgd(3.0)), **sizes)


SYSTEMS = {
    "fixed": lambda: sim.schedules.fixed(2),
    "mixed": lambda: sim.systems.areal(2, 2, 3, length=1.0, train_time=2.3),
    "coupled": lambda: sim.schedules.coupled(sim.systems.areal(2, 2, 3, length=1.0, train_time=2.3)),
    "turns": lambda: sim.systems.areal(
        2, 2, 3, length=1.0, train_time=2.3, model={"turns": 2, "environment": "exponential:0.5"}
    ),
}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", ["two calls", "a reply in front"])
def test_the_time_of_drawing_does_not_matter(name, system):
    late, early = (sim.run(spec_of(made(name), SYSTEMS[system](), drawing=w), seed=2) for w in ("late", "early"))
    np.testing.assert_array_equal(late.parameters, early.parameters)
    np.testing.assert_array_equal(late["ess"], early["ess"])
    assert (late.parameters != 0).any(1).all()


@pytest.mark.parametrize("name", ["two calls", "a reply in front"])
def test_a_program_draws_the_same_dialogs(name):
    tensors, program = (
        sim.run(spec_of(made(name), sim.schedules.fixed(1), replicates=9, compiled=way), seed=1)
        for way in (False, True)
    )
    np.testing.assert_allclose(program.parameters, tensors.parameters, rtol=0, atol=1e-12)


def test_work_of_a_coupled_system_counts_replies():
    """Dialogs that never call have one token; those that always do fill the horizon, replies included."""
    for calls, tokens in ((-50.0, 1), (50.0, 6)):
        logits = np.zeros((12, 3))
        logits[:3, 2] = calls
        task = sim.tasks.tool_bandit(horizon=6, reply_tokens=3, logits=logits)
        still = spec_of(task, SYSTEMS["coupled"]()).replace(update=sim.chain(sim.updates.sgd(0.0)))
        assert (sim.run(still, seed=0).schedule.work == tokens).all()


@pytest.mark.parametrize("seconds", [1.0, 3.0])
def test_latency_of_a_tool_makes_the_answer_fresher(seconds):
    """Updates take a second: between the call and the answer, which stand in two turns, lie as many as the tool's.

    The bound of 8 holds the call where it is. In one turn, without a tool, all tokens are equally stale.
    """
    logits = np.zeros((9, 3))
    logits[0, 2] = 50.0
    task = sim.tasks.tool_bandit(horizon=4, logits=logits)
    for model, expected in (({"turns": 2, "environment": seconds}, seconds), ({}, 0.0)):
        system = sim.systems.areal(8, 1, 8, length=1.0, train_time=1.0, model=model)
        spec = spec_of(task, system, updates=24, replicates=1, diagnostics=["staleness", "staleness_span", "turns"])
        trace = sim.run(spec.replace(update=sim.chain(sim.updates.sgd(0.0))), seed=0)
        last = {name: values[-1, 0] for name, values in trace.metrics.items()}
        assert last == {"staleness": 8.0, "staleness_span": expected, "turns": 2.0}


def test_a_coupled_system_has_no_turns():
    """The event model would have to hear of every call; it says so."""
    system = sim.systems.areal(2, 1, 2, length=1.0, train_time=1.0, model={"turns": 2, "environment": 1.0})
    with pytest.raises(InputError, match="must be 1 where lengths come from the policy"):
        sim.run(spec_of(made("two calls"), sim.schedules.coupled(system)), seed=0)


# Credit.


def worth(task, prob, discount):
    """V and Q of histories: {tokens: (V, {own token: Q})}, by recursion; a decision discounts, a reply does not."""
    found = {}

    def go(history):
        """Chance-weighted value of what follows a history, and whether another decision follows for certain."""
        following = [d for d in listed if tuple(d[1][: len(history)]) == history and len(d[1]) > len(history)]
        if not following:
            return None
        t = len(history)
        options = sorted({(d[1][t], d[2][t], d[0][t]) for d in following})
        values = {}
        for token, _own, _row in options:
            behind = go((*history, token))
            ending = next((d[5] for d in listed if tuple(d[1]) == (*history, token)), None)
            values[token] = (0.0 if ending is None else ending) if behind is None else behind
            final[(*history, token)] = behind is None
        if not options[0][1]:
            open_ended = [token for token, *_ in options if not final[(*history, token)]]
            return None if not open_ended else sum(values.values()) / len(values)
        Q = {token: value if final[(*history, token)] else discount * value for token, value in values.items()}
        V = sum(prob[row, token].item() * Q[token] for token, _, row in options)
        found[history] = V, Q
        return V

    listed, final = list(dialogs(task, prob)), {}
    go(())
    return found


def filled(batch, found, step_names=("value", "action_value")):
    """Exact values at own tokens, nonsense at replies."""
    columns = {name: torch.full_like(batch.mask, torch.nan) for name in step_names}
    rows = torch.full((*batch.mask.shape, 3), torch.nan, dtype=torch.float64)
    for i in np.ndindex(tuple(batch.mask.shape)):
        if batch.mask[i] > 0:
            history = tuple(batch.action[i[:3]].tolist()[: i[3]])
            V, Q = found[history]
            columns["value"][i], columns["action_value"][i] = V, Q[batch.action[i].item()]
            rows[i] = torch.tensor([Q[a] for a in range(3)], dtype=torch.float64)
    return columns, rows


ADVANTAGES = {
    "gae": lambda d, k: sim.advantages.gae(d, k),
    "n_step": lambda d, k: sim.advantages.n_step(2, d),
    "vtrace": lambda d, k: sim.advantages.vtrace(d, k, rho_cap=1e9, trace_cap=1e9),
    "retrace": lambda d, k: sim.advantages.retrace(d, k),
}
CREDIT = [n for n in SETTINGS if n not in ("one call", "priced")]


def errors(advantage, name, discount, drift=0.0):
    """Mean advantage of each history and own token less Q - V; the population is drawn by another policy (`drift`)."""
    task = made(name)
    theta = tables(task)
    now = theta + drift * tables(task, 1)
    prob = now.reshape(task.rows, task.actions).softmax(-1)
    batch = population(task, theta)
    found = worth(task, prob, discount)
    columns, rows = filled(batch, found)
    batch.behavior = {**batch.behavior, "value": columns["value"], "successor_value": torch.zeros_like(batch.mask)}
    forward = task.policy().forward(versions.current(task.policy().prepare(now)), batch, ("log_prob", "log_probs"))
    step = step_of(batch, {**forward.outputs, **columns, "action_values": rows})
    advantages = advantage(step)
    total, mass = {}, {}
    for i in np.ndindex(tuple(batch.mask.shape)):
        if batch.mask[i] > 0:
            said = batch.action[i[:3]].tolist()
            key = tuple(said[: i[3] + 1])
            weight = batch.mass[i[:3]].item()
            total[key] = total.get(key, 0.0) + weight * advantages[i].item()
            mass[key] = mass.get(key, 0.0) + weight
        else:
            assert advantages[i] == 0.0
    return {key: total[key] / mass[key] - (found[key[:-1]][1][key[-1]] - found[key[:-1]][0]) for key in total}


@pytest.mark.parametrize("discount", [1.0, 0.7])
@pytest.mark.parametrize("trace", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("advantage", ADVANTAGES)
@pytest.mark.parametrize("name", CREDIT)
def test_credit_is_exact_over_replies(name, advantage, trace, discount):
    """With exact values E[A | history, token] = Q - V of decisions at any trace; corrected ones off-policy too."""
    drift = 0.8 if advantage in ("vtrace", "retrace") else 0.0
    found = errors(ADVANTAGES[advantage](discount, trace), name, discount, drift)
    assert max(map(abs, found.values())) < 1e-12


def test_a_reply_that_discounts_is_seen(monkeypatch):
    """The planted defect: credit that stops at the place behind a token. Only where a dialog has a hole."""
    monkeypatch.setattr(
        _traces, "next_generated", lambda x, m, lasting=None: torch.nn.functional.pad(x[..., 1:] * m[..., 1:], (0, 1))
    )
    advantage = sim.advantages.gae(0.7, 0.6)
    assert max(map(abs, errors(advantage, "two calls", 0.7).values())) > 1e-3
    assert max(map(abs, errors(advantage, "all but one", 0.7).values())) < 1e-12


def test_returns_to_go_of_a_dialog():
    """Call, reply of two tokens, right word: both decisions earn 1, discounted once."""
    task = sim.tasks.tool_bandit(horizon=4)
    batch = population(task, tables(task))
    at = (batch.action[0, 0] == torch.tensor([2, 2, 0, 0])).all(-1).nonzero().item()
    found = sim.advantages.returns_to_go(0.5)(step_of(batch))[0, 0, at]
    assert found.tolist() == [0.5, 0.0, 0.0, 1.0]


# What nobody may read.


@pytest.mark.parametrize("method", ["gspo", "ppo_clip", "vcpo", "prefix_is"])
def test_what_a_reply_reports_is_no_matter(method):
    """Its log-prob may be anything: nothing of an update moves. Another reply does: the policy reads it."""
    task = made("two calls")
    then, now = tables(task), tables(task, 1)
    policy = task.policy()
    batch = population(task, then)
    method = getattr(sim.methods, method)()
    plain = evaluate(method, task, policy, policy.prepare(now), batch)
    odd = dataclasses.replace(batch, behavior=dict(batch.behavior))
    odd.behavior["log_prob"] = torch.where(batch.mask > 0, batch.behavior["log_prob"], torch.nan)
    step = evaluate(method, task, policy, policy.prepare(now), odd)
    assert torch.equal(step.gradient, plain.gradient) and torch.equal(step.log_ratio, plain.log_ratio)
    assert (plain.gradient.reshape(task.rows, -1)[task.actions :] == 0).all()
    heard = (batch.mask > 0) & (batch.state > 0)
    assert heard.any() and (plain.current["log_prob"][heard] != plain.current["log_prob"][heard].mean()).any()


def test_rows_of_the_tool_never_move():
    trace = sim.run(spec_of(made("two calls"), sim.schedules.fixed(1)), seed=0)
    rows = trace.parameters.reshape(3, -1, 3)
    assert (rows[:, 3:] == 0).all() and (rows[:, :3] != 0).any()


def test_a_tool_that_knows_is_asked_and_one_that_costs_too_much_is_not():
    """Exact mean dynamics: calls become sure at price 0 and vanish at price .9; no chance is involved."""
    for price, least, most in ((0.0, 0.9, 1.0), (0.9, 0.0, 0.05)):
        task = sim.tasks.tool_bandit(horizon=4, price=price)
        options = {"updates": 400, "replicates": 1, "sampling": "enumerate", "diagnostics": "none"}
        spec = sim.Spec(
            task, sim.schedules.fixed(0), sim.methods.reinforce(), sim.chain(sim.updates.sgd(2.0)), **options
        )
        logits = sim.run(spec, seed=0).parameters.reshape(-1, 3)[0]
        call = np.exp(logits[2]) / np.exp(logits).sum()
        assert least <= call <= most


# Refusals.


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"horizon": 2, "opens": True}, "horizon"),
        ({"rewards": "gaussian"}, "rewards"),
        ({"rewards": "bernoulli", "price": 0.1}, "price"),
        ({"logits": np.zeros((3, 3))}, "logits"),
    ],
)
def test_bad_settings_are_named(arguments, field):
    caught = refused("", lambda: sim.tasks.tool_bandit(**arguments))
    assert caught.field.startswith(field) and caught.remedy


def test_a_greedy_response_has_no_tool():
    task = made("two calls")
    spec = spec_of(task, sim.schedules.fixed(0)).replace(method=sim.methods.reinforce(sim.advantages.remax()))
    refused("all of it the policy's", sim.run, spec, seed=0)
