"""Synchronous runs equal a textbook program, and nothing that must not matter does.

Everything here is deterministic: runs are compared number by number, so no rate of false alarms is stated.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import asyncsim as sim
from asyncsim import plugins, rng
from asyncsim.checks import InputError
from tests.core import formulas, plain

SEED = 3
MEANS = np.array([[0.1, 0.8, 0.4], [0.9, 0.2, 0.5]])
START = np.array([[0.3, -0.2, 0.0], [0.1, 0.4, -0.5], [-0.3, 0.2, 0.1], [0.0, 0.5, 0.2]])

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
    "reinforce": (formulas.plain, formulas.sequence_sum, formulas.times, lambda a: sim.methods.reinforce(a)),
    "full_is": (formulas.sequence_ratio(), formulas.sequence_sum, formulas.times, lambda a: sim.methods.full_is(advantage=a)),
    "full_is token": (
        formulas.token_ratio(), formulas.sequence_sum, formulas.times, lambda a: sim.methods.full_is("token", advantage=a),
    ),
    "truncated_is": (
        formulas.sequence_ratio(1.05), formulas.sequence_mean, formulas.times,
        lambda a: sim.methods.truncated_is(cap=1.05, advantage=a),
    ),
    "truncated_is token": (
        formulas.token_ratio(1.05), formulas.token_mean, formulas.times,
        lambda a: sim.methods.truncated_is("token", cap=1.05, advantage=a),
    ),
    "ppo_clip": (
        formulas.token_ratio(), formulas.token_mean, formulas.clipped(0.1, 0.05),
        lambda a: sim.methods.ppo_clip(0.1, 0.05, advantage=a),
    ),
    "ppo_clip proximal": (
        formulas.token_ratio(), formulas.token_mean, formulas.clipped(0.1, 0.05),
        lambda a: sim.methods.ppo_clip(0.1, 0.05, anchor="proximal", advantage=a),
    ),
    "grpo": (
        formulas.token_ratio(), formulas.sequence_mean, formulas.clipped(0.2, 0.2), lambda a: sim.methods.grpo(advantage=a),
    ),
}
"""Weight, aggregator and clip from the papers, and the product's method with a given advantage."""

ROUND = 1e-4
"""Adam's eps here: at 1e-8 a component that cancels to rounding error, 1e-17, is blown up to 1e-9 of a step."""

LINKS = {
    "sgd": (lambda: [formulas.sgd(0.7)], [lambda u: u.sgd(0.7)]),
    "momentum": (lambda: [formulas.momentum(0.6), formulas.sgd(0.7)], [lambda u: u.momentum(0.6), lambda u: u.sgd(0.7)]),
    "adam": (lambda: [formulas.adam(0.1, eps=ROUND)], [lambda u: u.adam(0.1, eps=ROUND)]),
    "clip_norm": (lambda: [formulas.clip_norm(0.1), formulas.sgd(2.0)], [lambda u: u.clip_norm(0.1), lambda u: u.sgd(2.0)]),
    "ess_step": (
        lambda: [formulas.adam(0.3, eps=ROUND), formulas.ess_step(0.5)],
        [lambda u: u.adam(0.3, eps=ROUND), lambda u: u.ess_step("sqrt")],
    ),
    "ess_step linear": (
        lambda: [formulas.ess_step(1.0), formulas.sgd(2.0)], [lambda u: u.ess_step("linear"), lambda u: u.sgd(2.0)],
    ),
    "staleness_step": (
        lambda: [formulas.sgd(1.0), formulas.staleness_step()], [lambda u: u.sgd(1.0), lambda u: u.staleness_step()],
    ),
    "align": (
        lambda: [formulas.align(-0.2, 0.3), formulas.momentum(0.5)], [lambda u: u.align(-0.2, 0.3), lambda u: u.momentum(0.5)],
    ),
}

ADVANTAGES = {name: (lambda name=name: getattr(sim.advantages, name)(*((0.3,) if name == "offset" else ()))) for name in formulas.ADVANTAGES}


def simulated(task, method, links=(), *, epochs=1, updates=6, system=None, **changes):
    system = system or sim.schedules.fixed(0, groups_per_batch=2, updates_per_batch=epochs)
    settings = {"samples_per_group": 4, "updates": updates, "replicates": 3, "diagnostics": ["gradient_norm"], **changes}
    return sim.run(sim.Spec(task, system, method, sim.chain(*links), **settings), seed=SEED)


def textbook(task, gradient, links, *, epochs=1, updates=6, replicate=2, at="current"):
    return plain.train(
        task, gradient, links, seed=SEED, replicate=replicate, updates=updates, groups=2, samples=4, epochs=epochs, at=at
    )


def difference(trace, expected, replicate=2):
    table, norms = expected
    assert len(norms) == len(trace.updates) > 0
    return max(
        np.abs(trace.parameters[replicate] - table.ravel()).max(), np.abs(trace["gradient_norm"][:, replicate] - norms).max()
    )


def identical(first, second, parameters=True):
    """Two traces equal to the bit, NaN where NaN."""
    assert first.metrics and first.metrics.keys() == second.metrics.keys()
    for name, values in first.metrics.items():
        assert values.size
        np.testing.assert_array_equal(values, second.metrics[name], strict=True, err_msg=name)
    for name, values in first.accumulated.items():
        np.testing.assert_array_equal(values, second.accumulated[name], strict=True, err_msg=name)
    np.testing.assert_array_equal(first.parameters, second.parameters, strict=True)
    np.testing.assert_array_equal(first.diverged, second.diverged, strict=True)


def test_the_program_is_short():
    lines = [line for line in Path(plain.__file__).read_text().splitlines() if line.strip()]
    assert 0 < len(lines) < 60


def test_every_method_advantage_and_link_is_compared():
    compared = {name.partition(" ")[0] for name in METHODS} | {"gradient"}
    assert compared == set(plugins.summaries("asyncsim.methods"))
    assert set(formulas.ADVANTAGES) == set(plugins.summaries("asyncsim.advantages"))
    assert {name.partition(" ")[0] for name in LINKS} == set(plugins.summaries("asyncsim.updates"))


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("advantage", ["leave_one_out", "group_std", "opob"])
def test_methods(task, method, advantage, epochs):
    weight, aggregator, score_weight, ours = METHODS[method]
    gradient = formulas.method(weight, formulas.ADVANTAGES[advantage], aggregator, score_weight)
    links = [sim.updates.sgd(1.5)]
    trace = simulated(TASKS[task][1](), ours(ADVANTAGES[advantage]()), links, epochs=epochs)
    assert difference(trace, textbook(TASKS[task][0](), gradient, [formulas.sgd(1.5)], epochs=epochs)) < 1e-12


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("advantage", formulas.ADVANTAGES)
@pytest.mark.parametrize("method", ["reinforce", "truncated_is", "full_is token", "grpo"])
def test_advantages(advantage, method, epochs):
    weight, aggregator, score_weight, ours = METHODS[method]
    gradient = formulas.method(weight, formulas.ADVANTAGES[advantage], aggregator, score_weight)
    trace = simulated(TASKS["token_bandit_ends"][1](), ours(ADVANTAGES[advantage]()), [sim.updates.sgd(1.5)], epochs=epochs)
    expected = textbook(TASKS["token_bandit_ends"][0](), gradient, [formulas.sgd(1.5)], epochs=epochs)
    assert difference(trace, expected) < 1e-12


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("link", LINKS)
def test_links(task, link, epochs):
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
    trace = simulated(TASKS["token_bandit_ends"][1](), method, epochs=2)
    assert difference(trace, textbook(TASKS["token_bandit_ends"][0](), gradient, [], epochs=2)) < 1e-12


@pytest.mark.parametrize("at", ["current", "behavior"])
def test_entropy_bonus_and_old_scores(at):
    gradient = formulas.method(formulas.plain, formulas.leave_one_out, formulas.sequence_mean, entropy=0.2)
    method = sim.methods.reinforce(aggregator="sequence_mean", at=at, entropy=0.2)
    trace = simulated(TASKS["token_bandit_ends"][1](), method, epochs=2)
    assert difference(trace, textbook(TASKS["token_bandit_ends"][0](), gradient, [], epochs=2, at=at)) < 1e-12


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
    """x <- x - eta (lambda x + mean noise); at "behavior" the second update of a batch repeats the first one's gradient."""
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
        (
            formulas.method(formulas.token_ratio(), formulas.group_std, formulas.sequence_mean), sim.methods.grpo(),
        ),
        # The token ratio in place of the sequence ratio.
        (formulas.method(formulas.token_ratio(), formulas.leave_one_out, formulas.sequence_sum), sim.methods.full_is()),
    ],
    ids=["ratio 1", "no cap", "no clip", "token ratio"],
)
def test_wrong_formulas_are_told_apart(wrong, ours):
    trace = simulated(TASKS["token_bandit_ends"][1](), ours, [sim.updates.sgd(1.5)], epochs=2)
    expected = textbook(TASKS["token_bandit_ends"][0](), wrong, [formulas.sgd(1.5)], epochs=2)
    assert difference(trace, expected) > 1e-3


def test_the_seed_and_the_replicate_matter():
    gradient = formulas.method(formulas.plain, formulas.leave_one_out, formulas.sequence_sum)
    trace = simulated(TASKS["softmax_bandit"][1](), sim.methods.reinforce())
    assert difference(trace, textbook(plain.Bandit(MEANS), gradient, [], replicate=1)) > 1e-3


# What must not matter, to the bit.

STALE_METHODS = {
    "truncated_is": lambda: sim.methods.truncated_is(), "grpo proximal": lambda: sim.methods.grpo(anchor="proximal"),
    "reinforce": lambda: sim.methods.reinforce(sim.advantages.opob()),
}


def markov(**changes):
    return sim.tasks.token_bandit(actions=3, horizon=4, dependence="markov", logits=START, **changes)


@pytest.mark.parametrize("method", STALE_METHODS)
@pytest.mark.parametrize(
    "system",
    [
        lambda: sim.systems.synchronous(2, updates_per_batch=2),
        lambda: sim.systems.areal(0, 2, train_time=1.0, length=1.0, updates_per_batch=2),
        lambda: sim.systems.one_step_off(2, updates_per_batch=2, train_time=0.0),
        lambda: sim.schedules.random([1.0], groups_per_batch=2, updates_per_batch=2),
        lambda: sim.schedules.sawtooth(2, groups_per_batch=2, updates_per_batch=2),
    ],
    ids=["synchronous", "areal 0", "one_step_off without training time", "random at 0", "sawtooth of one batch"],
)
def test_staleness_zero_is_synchronous(system, method):
    runs = [
        simulated(markov(), STALE_METHODS[method](), [sim.updates.adam(0.1)], updates=12, system=s, diagnostics="default")
        for s in (system(), sim.schedules.fixed(0, groups_per_batch=2, updates_per_batch=2))
    ]
    assert float(np.nanmax(runs[0].schedule.staleness())) == 0.0
    identical(*runs)


def test_staleness_one_is_not_synchronous():
    """The comparison above can fail."""
    fresh, stale = (
        simulated(markov(), sim.methods.reinforce(), [sim.updates.sgd(1.0)], system=sim.schedules.fixed(s)) for s in (0, 1)
    )
    assert np.abs(fresh.parameters - stale.parameters).max() > 1e-3


SCHEDULES = {
    "fixed": lambda: sim.schedules.fixed(3, groups_per_batch=2),
    "random per trajectory": lambda: sim.schedules.random([0.2] * 5, per="trajectory", groups_per_batch=2),
    "random per group, two batches a publish": lambda: sim.schedules.random(
        [0.25] * 4, per="group", groups_per_batch=2, batches_per_publish=2, updates_per_batch=2
    ),
    "frozen": lambda: sim.schedules.frozen(groups_per_batch=2),
    "areal": lambda: sim.systems.areal(2, 2, 3, length=sim.lognormal(1.0, 0.8), load=1.5),
}


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("system", SCHEDULES)
def test_early_equals_late(system, ends):
    run = partial(
        simulated, markov(ends=ends, rewards="bernoulli"), sim.methods.truncated_is(cap=1.5), [sim.updates.sgd(2.0)],
        updates=16, replicates=5, diagnostics="default",
    )
    late, early = run(system=SCHEDULES[system](), drawing="late"), run(system=SCHEDULES[system](), drawing="early")
    identical(late, early)


def test_versions_change_inside_a_trajectory_of_areal():
    """The case that the comparison of early and late drawing is about does occur."""
    schedule = SCHEDULES["areal"]().schedule(16, 4, 4, 5, SEED)
    assert (schedule.version[..., 0] != schedule.version[..., -1]).mean() > 0.05


def test_mixed_versions_are_drawn_from_their_own_weights():
    """Behavior log-probs of a mixed trajectory are those of each token's version, so a full ratio has mean 1.

    With the weights of the first token for all tokens they would be those of no policy that generated the data.
    """
    spec = sim.Spec(
        markov(), sim.systems.areal(2, 1, 2, length=sim.constant(1.0), load=1.3), sim.methods.reinforce(),
        sim.chain(sim.updates.sgd(2.0)), samples_per_group=4, updates=12, replicates=4000, diagnostics=["mean_weight"],
    )
    trace = sim.run(spec, seed=SEED)
    assert (trace.schedule.version[..., 0] != trace.schedule.version[..., -1]).any()
    weight = trace["mean_weight"]
    z = (weight.mean(1) - 1.0) / (weight.std(1, ddof=1) / np.sqrt(weight.shape[1])).clip(1e-15)
    # 12 normal scores beyond 5: a right program fails for one seed in 10^5.
    assert np.abs(z[weight.std(1) > 1e-9]).max() < 5.0
    assert (weight.std(1) > 1e-3).sum() >= 6


@pytest.mark.parametrize("system", SCHEDULES)
@pytest.mark.parametrize("block", [1, 3])
def test_blocks_do_not_matter(system, block):
    run = partial(
        simulated, markov(), sim.methods.full_is("token"), [sim.updates.adam(0.1)], updates=8, replicates=7,
        system=SCHEDULES[system](), diagnostics=["gradient_norm", "ess", "kl", "exact_return", "autocorrelogram"],
    )
    run = partial(run, diagnostics=["gradient_norm", "ess", "kl", "exact_return", sim.diagnostics.autocorrelogram(lags=2)])
    identical(run(block=7), run(block=block))


def test_blocks_do_not_matter_with_knobs_per_replicate():
    caps, rates = np.linspace(1.1, 3.0, 7), np.linspace(0.1, 2.0, 7)
    run = partial(
        simulated, markov(), sim.methods.truncated_is(cap=caps), [sim.updates.sgd(rates)], updates=8, replicates=7,
        system=SCHEDULES["fixed"](), initial=np.linspace(-1, 1, 7 * 12).reshape(7, 12),
    )
    identical(run(block=7), run(block=2))


@pytest.mark.parametrize("task", ["softmax_bandit", "quadratic", "gaussian_bandit", "token_bandit"])
def test_single_precision_is_close(task):
    method = {"quadratic": sim.methods.gradient()}.get(task, sim.methods.reinforce())
    run = partial(
        simulated, getattr(sim.tasks, task)(), method, [sim.updates.sgd(0.1)], updates=10, system=sim.schedules.fixed(2)
    )
    wide, narrow = run(), run(dtype="float32")
    assert 0 < np.abs(wide.parameters - narrow.parameters).max() < 1e-4
    assert np.array_equal(narrow.parameters, narrow.parameters.astype(np.float32))


@pytest.mark.parametrize(("link", "value"), [("sgd", 0.1), ("momentum", 0.9), ("clip_norm", 0.5), ("adam", 0.1)])
def test_single_precision_stays_single_with_knobs_per_replicate(link, value):
    run = partial(simulated, sim.tasks.softmax_bandit(), sim.methods.reinforce(), dtype="float32", updates=5)
    one, many = (run([getattr(sim.updates, link)(v)]) for v in (value, np.full(3, value)))
    assert np.array_equal(many.parameters, many.parameters.astype(np.float32))
    np.testing.assert_allclose(many.parameters, one.parameters, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rewards", ["bernoulli", "fixed"])
@pytest.mark.parametrize("system", ["fixed", "random per group, two batches a publish"])
@pytest.mark.parametrize("method", ["truncated_is", "grpo", "full_is"])
def test_counts_equal_samples(rewards, system, method):
    """The same samples, sorted into cells: equal but for the order of summation."""
    task = sim.tasks.softmax_bandit(arms=3, means=MEANS, rewards=rewards)
    run = partial(
        simulated, task, getattr(sim.methods, method)(), [sim.updates.sgd(1.0)], updates=8,
        system=SCHEDULES[system](), diagnostics=["gradient_norm", "ess", "batch_return", "kl", "entropy"],
    )
    counts, samples = run(sampling="counts"), run()
    np.testing.assert_allclose(counts.parameters, samples.parameters, rtol=0, atol=1e-12)
    for name, values in samples.metrics.items():
        np.testing.assert_allclose(counts[name], values, rtol=0, atol=1e-12, err_msg=name)


# Records.


def test_saved_schedule_and_trace_come_back(tmp_path):
    first = simulated(
        markov(), sim.methods.truncated_is(), [sim.updates.sgd(1.0)], updates=8, replicates=5,
        system=SCHEDULES["random per trajectory"](), diagnostics=["gradient_norm", sim.diagnostics.autocorrelogram(lags=2)],
    )
    first.schedule.save(tmp_path / "schedule.npz")
    first.save(tmp_path / "trace.npz")
    loaded = sim.Trace.load(tmp_path / "trace.npz")
    identical(first, loaded)
    assert loaded.header["spec"] == first.header["spec"]
    np.testing.assert_array_equal(loaded.schedule.version, first.schedule.version)
    replayed = simulated(
        markov(), sim.methods.truncated_is(), [sim.updates.sgd(1.0)], updates=8, replicates=5,
        system=sim.Schedule.load(tmp_path / "schedule.npz"),
        diagnostics=["gradient_norm", sim.diagnostics.autocorrelogram(lags=2)],
    )
    identical(first, replayed)


@pytest.mark.parametrize(
    "system",
    [
        lambda: sim.systems.areal(2, 2, 3, length=1.0, train_time=2.0),
        lambda: sim.systems.one_step_off(2, train_time=1.5),
        lambda: sim.systems.update_on_arrival(3),
    ],
    ids=["areal", "one_step_off", "update_on_arrival"],
)
def test_coupled_run_equals_its_replay(system):
    """The length of an ending sequence is its work; the record of the run, imposed as a schedule, gives the same trace."""
    run = partial(
        simulated, markov(ends=True), sim.methods.truncated_is(cap=1.5), [sim.updates.sgd(1.5)], updates=12, replicates=4,
        samples_per_group=3, diagnostics="default",
    )
    coupled = run(system=sim.schedules.coupled(system()))
    assert coupled.schedule.realizations == 4
    assert len(np.unique(coupled.schedule.work)) > 1
    identical(coupled, run(system=coupled.schedule))
    identical(coupled, run(system=sim.schedules.coupled(system()), block=3))


def test_early_drawing_refuses_scores_at_behavior_parameters():
    spec = sim.Spec(
        markov(), sim.schedules.fixed(1), sim.methods.reinforce(at="behavior"), sim.chain(), updates=2, replicates=2,
        drawing="early",
    )
    with pytest.raises(InputError, match=r"at = 'behavior'.*drawing='late'"):
        sim.run(spec)
