"""Synchronous runs equal a textbook program.

Everything here is deterministic: runs are compared number by number, so no rate of false alarms is stated.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import plugins, rng
from tests.contracts.families import gathered
from tests.core import formulas, plain
from tests.core.runs import SEED, START, simulated

MEANS = np.array([[0.1, 0.8, 0.4], [0.9, 0.2, 0.5]])

TASKS = {
    "softmax_bandit": (lambda: plain.Bandit(MEANS), lambda: sim.tasks.softmax_bandit(arms=3, means=MEANS)),
    "token_bandit": (
        lambda: plain.Tokens(START, 3, False),
        lambda: sim.tasks.token_bandit(actions=3, horizon=3, dependence="markov", logits=START),
    ),
    "token_bandit_ends": (
        lambda: plain.Tokens(START, 4, True),
        lambda: sim.tasks.token_bandit(actions=3, horizon=4, dependence="markov", ends=True, logits=START),
    ),
}

METHODS = {
    "reinforce": (formulas.plain, formulas.sequence_sum, formulas.times, sim.methods.reinforce),
    "full_is": (formulas.sequence_ratio(), formulas.sequence_sum, formulas.times, sim.methods.full_is),
    "full_is token": (
        formulas.token_ratio(),
        formulas.sequence_sum,
        formulas.times,
        partial(sim.methods.full_is, "token"),
    ),
    "truncated_is": (
        formulas.sequence_ratio(1.05),
        formulas.sequence_mean,
        formulas.times,
        partial(sim.methods.truncated_is, cap=1.05),
    ),
    "truncated_is token": (
        formulas.token_ratio(1.05),
        formulas.token_mean,
        formulas.times,
        partial(sim.methods.truncated_is, "token", cap=1.05),
    ),
    **{
        f"ppo_clip {anchor}": (
            formulas.token_ratio(),
            formulas.token_mean,
            formulas.clipped(0.1, 0.05),
            partial(sim.methods.ppo_clip, 0.1, 0.05, anchor),
        )
        for anchor in ("behavior", "proximal")
    },
    "grpo": (formulas.token_ratio(), formulas.sequence_mean, formulas.clipped(0.2, 0.2), sim.methods.grpo),
}
"""Weight, aggregator and clip from the papers, and the product's method with a given advantage."""

ROUND = 1e-4
"""Adam's eps here: at 1e-8 a component that cancels to rounding error, 1e-17, is blown up to 1e-9 of a step."""

LINKS = {
    "sgd": (lambda: [formulas.sgd(0.7)], [lambda u: u.sgd(0.7)]),
    "momentum": (
        lambda: [formulas.momentum(0.6), formulas.sgd(0.7)],
        [lambda u: u.momentum(0.6), lambda u: u.sgd(0.7)],
    ),
    "adam": (lambda: [formulas.adam(0.1, eps=ROUND)], [lambda u: u.adam(0.1, eps=ROUND)]),
    "clip_norm": (
        lambda: [formulas.clip_norm(0.1), formulas.sgd(2.0)],
        [lambda u: u.clip_norm(0.1), lambda u: u.sgd(2.0)],
    ),
    "ess_step": (
        lambda: [formulas.adam(0.3, eps=ROUND), formulas.ess_step(0.5)],
        [lambda u: u.adam(0.3, eps=ROUND), lambda u: u.ess_step("sqrt")],
    ),
    "ess_step linear": (
        lambda: [formulas.ess_step(1.0), formulas.sgd(2.0)],
        [lambda u: u.ess_step("linear"), lambda u: u.sgd(2.0)],
    ),
    "staleness_step": (
        lambda: [formulas.sgd(1.0), formulas.staleness_step()],
        [lambda u: u.sgd(1.0), lambda u: u.staleness_step()],
    ),
    "lr_by_lag": (lambda: [formulas.sgd(1.0), formulas.lr_by_lag()], [lambda u: u.sgd(1.0), lambda u: u.lr_by_lag()]),
    "scale": (lambda: [formulas.sgd(0.6)], [lambda u: u.sgd(2.0), lambda u: u.scale(0.3)]),
    "skip_nonfinite": (lambda: [formulas.sgd(0.7)], [lambda u: u.skip_nonfinite(), lambda u: u.sgd(0.7)]),
    "align": (
        lambda: [formulas.align(-0.2, 0.3), formulas.momentum(0.5)],
        [lambda u: u.align(-0.2, 0.3), lambda u: u.momentum(0.5)],
    ),
    "lr_schedule": (
        lambda: [formulas.sgd(0.7), formulas.warm_up(4)],
        [lambda u: u.sgd(0.7), lambda u: u.lr_schedule(warmup=4)],
    ),
    **gathered("LINKS"),
}

ADVANTAGES = {
    name: (lambda name=name: getattr(sim.advantages, name)(*((0.3,) if name == "offset" else ())))
    for name in formulas.ADVANTAGES
}


def textbook(task, gradient, links, *, epochs=1, updates=6, replicate=2, at="current"):
    sizes = {"updates": updates, "epochs": epochs}
    return plain.train(task, gradient, links, seed=SEED, replicate=replicate, groups=2, samples=4, at=at, **sizes)


def difference(trace, expected, replicate=2):
    table, norms = expected
    assert len(norms) == len(trace.updates) > 0
    return max(
        np.abs(trace.parameters[replicate] - table.ravel()).max(),
        np.abs(trace["gradient_norm"][:, replicate] - norms).max(),
    )


def apart(task, method, gradient, rate=1.0, at="current", **options):
    """Difference of a run with plain steps from the textbook program with the same."""
    theirs, ours = TASKS[task]
    trace = simulated(ours(), method, [sim.updates.sgd(rate)], **options)
    return difference(trace, textbook(theirs(), gradient, [formulas.sgd(rate)], at=at, **options))


def test_the_program_is_short():
    lines = [line for line in Path(plain.__file__).read_text().splitlines() if line.strip()]
    assert 0 < len(lines) < 60


def test_every_advantage_and_link_is_compared():
    """Here, or by name elsewhere; methods have their printed losses in tests/contracts/families."""
    assert {name.partition(" ")[0] for name in METHODS} <= set(plugins.summaries("asyncsim.methods"))
    # Those of single tokens and of a critic are compared in test_gae.py and the tests of their families.
    known = {*formulas.ADVANTAGES, "gae", "returns_to_go", *gathered("ADVANTAGES"), *gathered("STEPWISE")}
    missing = known ^ set(plugins.summaries("asyncsim.advantages"))
    assert not missing, f"write {missing} as a plain formula into ADVANTAGES of a file of tests/contracts/families/"
    # Weight decay reads the parameters: it is compared with torch's own.
    missing = {"adamw", *(name.partition(" ")[0] for name in LINKS)} ^ set(plugins.summaries("asyncsim.updates"))
    assert not missing, f"give {missing} a plain formula in LINKS of a file of tests/contracts/families/"


def by_turns(*chosen):
    """One epoch or two, so that any two of the parts and epochs that are chosen meet."""
    return 1 + sum([*table].index(part) for part, table in chosen) % 2


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("advantage", ["leave_one_out", "group_std", "opob"])
def test_methods(task, method, advantage):
    epochs = by_turns((task, TASKS), (method, METHODS), (advantage, ADVANTAGES))
    weight, aggregator, score_weight, ours = METHODS[method]
    gradient = formulas.method(weight, formulas.ADVANTAGES[advantage], aggregator, score_weight)
    assert apart(task, ours(advantage=ADVANTAGES[advantage]()), gradient, 1.5, epochs=epochs) < 1e-12


@pytest.mark.parametrize("advantage", formulas.ADVANTAGES)
@pytest.mark.parametrize("method", ["reinforce", "truncated_is", "full_is token", "grpo"])
def test_advantages(advantage, method):
    epochs = by_turns((advantage, ADVANTAGES), (method, METHODS))
    weight, aggregator, score_weight, ours = METHODS[method]
    gradient = formulas.method(weight, formulas.ADVANTAGES[advantage], aggregator, score_weight)
    method = ours(advantage=ADVANTAGES[advantage]())
    assert apart("token_bandit_ends", method, gradient, 1.5, epochs=epochs) < 1e-12


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("link", LINKS)
def test_links(task, link):
    epochs = by_turns((task, TASKS), (link, LINKS))
    theirs, ours = LINKS[link]
    gradient = formulas.method(formulas.sequence_ratio(), formulas.leave_one_out, formulas.sequence_sum)
    chain = [make(sim.updates) for make in ours]
    trace = simulated(TASKS[task][1](), sim.methods.full_is(), chain, epochs=epochs, updates=10)
    assert difference(trace, textbook(TASKS[task][0](), gradient, theirs(), epochs=epochs, updates=10)) < 1e-12


@pytest.mark.parametrize("aggregator", ["sequence_sum", "sequence_mean", "token_mean", "constant"])
def test_aggregators(aggregator):
    theirs = formulas.constant(4) if aggregator == "constant" else getattr(formulas, aggregator)
    gradient = formulas.method(formulas.token_ratio(), formulas.opob, theirs)
    method = sim.methods.full_is("token", sim.advantages.opob(), aggregator)
    assert apart("token_bandit_ends", method, gradient, epochs=2) < 1e-12


@pytest.mark.parametrize("at", ["current", "behavior"])
def test_entropy_bonus_and_old_scores(at):
    gradient = formulas.method(formulas.plain, formulas.leave_one_out, formulas.sequence_mean, entropy=0.2)
    method = sim.methods.reinforce(aggregator="sequence_mean", at=at, entropy=0.2)
    assert apart("token_bandit_ends", method, gradient, at=at, epochs=2) < 1e-12


@pytest.mark.parametrize(("at", "name"), [("current", "now"), ("behavior", "then")])
def test_penalty_inside_the_reward(at, name):
    task = plain.Bandit(MEANS)
    task.kl, task.kl_at = 0.3, name
    gradient = formulas.method(formulas.plain, formulas.group_mean(), formulas.sequence_sum)
    penalized = sim.tasks.softmax_bandit(arms=3, means=MEANS, kl_coef=0.3, kl_at=at)
    trace = simulated(penalized, sim.methods.reinforce(sim.advantages.group_mean()), [sim.updates.sgd(2.0)], epochs=2)
    assert difference(trace, textbook(task, gradient, [formulas.sgd(2.0)], epochs=2)) < 1e-12


@pytest.mark.parametrize("at", ["behavior", "current"])
@pytest.mark.parametrize("epochs", [1, 2])
def test_quadratic(at, epochs):
    """x <- x - eta (lambda x + mean noise); at "behavior" both updates of a batch take the same gradient."""
    curvature, x = np.array([1.0, 0.4, 2.0]), np.full(3, 1.5)
    stream = rng.Stream(SEED, "rollout")
    for update in range(8):
        if update % epochs == 0:
            ids, old = update // epochs * 8 + np.arange(8), x
            noise = 0.5 * stream.normal(2, ids[:, None], 0, np.arange(3)).mean(0)
        x = x - 0.3 * (curvature * (old if at == "behavior" else x) + noise)
    task = sim.tasks.quadratic(curvature, noise=0.5, start=1.5)
    trace = simulated(task, sim.methods.gradient(at=at), [sim.updates.sgd(0.3)], epochs=epochs, updates=8)
    np.testing.assert_allclose(trace.parameters[2], x, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "ours"),
    [
        # A ratio that is identically 1 (its anchor recomputed at every update) is a plain stale gradient.
        (formulas.method(formulas.plain, formulas.leave_one_out, formulas.sequence_sum), sim.methods.full_is()),
        # A cap that never binds.
        (
            formulas.method(formulas.sequence_ratio(), formulas.leave_one_out, formulas.sequence_mean),
            sim.methods.truncated_is(cap=1.05, advantage=sim.advantages.leave_one_out()),
        ),
        # A clip that never closes.
        (formulas.method(formulas.token_ratio(), formulas.group_std, formulas.sequence_mean), sim.methods.grpo()),
        # The token ratio in place of the sequence ratio.
        (formulas.method(formulas.token_ratio(), formulas.leave_one_out, formulas.sequence_sum), sim.methods.full_is()),
    ],
    ids=["ratio 1", "no cap", "no clip", "token ratio"],
)
def test_wrong_formulas_are_told_apart(wrong, ours):
    assert apart("token_bandit_ends", ours, wrong, 1.5, epochs=2) > 1e-3


def test_the_seed_and_the_replicate_matter():
    gradient = formulas.method(formulas.plain, formulas.leave_one_out, formulas.sequence_sum)
    trace = simulated(TASKS["softmax_bandit"][1](), sim.methods.reinforce())
    assert difference(trace, textbook(plain.Bandit(MEANS), gradient, [], replicate=1)) > 1e-3
