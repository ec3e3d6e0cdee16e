"""TBA rebuilt: mean dynamics against the product's own population, what it is made of, rows within what is possible."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from experiments import _store, _tba, tba_optimum, tba_returns, tba_speed
from paper_figures import tba_speed as speed_figure

BETA = tba_optimum.BETA


def somewhere(table, seed):
    """Random logits of the table's shape."""
    return np.random.default_rng(seed).normal(size=table.reference.shape)


@pytest.mark.parametrize("task", tba_optimum.REFERENCES)
def test_the_weighted_field_is_the_gradient_of_the_objective_and_the_optimum_is_best(task):
    """By central differences, rounding 1e-9. Planted: the fields without a ratio, on another policy's data."""
    table = tba_optimum.table(task)
    now, other = somewhere(table, 1), somewhere(table, 2)

    def objective(logits):
        return float(np.exp(table.log_probs(logits)) @ (table.rewards - table.beta * table.gap(logits)))

    slope = np.zeros_like(now)
    for place in np.ndindex(now.shape):
        nudge = np.zeros_like(now)
        nudge[place] = 1e-5
        slope[place] = (objective(now + nudge) - objective(now - nudge)) / 2e-5
    np.testing.assert_allclose(_tba.weighted(table, now, other), slope, atol=1e-8)
    assert np.abs(_tba.unweighted(table, now, other) - slope).max() > 0.01
    # The objective lacks beta times the distance.
    most = table.beta * np.logaddexp.reduce(table.log_probs(table.reference) + table.rewards / table.beta)
    assert most - objective(now) == pytest.approx(table.beta * table.distance(now), abs=1e-12)


@pytest.mark.parametrize("task", tba_optimum.REFERENCES)
def test_at_the_optimum_trajectory_balance_stands_still_whatever_drew_the_data(task):
    """Planted: RLOO without a ratio, which moves."""
    table = tba_optimum.table(task)
    best = np.log(np.einsum("y,ysa->sa", np.exp(table.best), table.counts) + 1e-300)
    assert table.distance(best) < 1e-12
    for seed in range(3):
        other = somewhere(table, seed)
        assert np.abs(_tba.balanced(table, best, other)).max() < 1e-12
        assert np.abs(_tba.unweighted(table, best, other)).max() > 1e-3


@pytest.mark.parametrize(("arm", "law"), [("TBA", "constant 32"), ("RLOO", "frozen"), ("RLOO, ratio", "frozen")])
def test_mean_dynamics_are_those_of_the_population_in_the_product(arm, law):
    """Exactly: all outcomes enumerated through the training loop. Planted: data of the current policy."""
    table = tba_optimum.table("tree")
    table = _tba.Table(table.counts, table.rewards, table.reference, BETA, 10**12)
    method, at, scale = tba_optimum.ARMS[arm]
    updates, schedule = 60, tba_optimum.LAWS[law]
    chain = sim.chain(sim.updates.sgd(0.5 * scale))
    task = tba_optimum.task("tree", law, at)
    spec = sim.Spec(
        task, schedule, method, chain, updates=updates, replicates=1, sampling="enumerate", samples_per_group=2
    )
    end = sim.run(spec, seed=0, progress=False).parameters[0].reshape(table.reference.shape)
    drawn = schedule.schedule(updates, 2, 2, 1, 0).version[0, ..., 0, 0]
    field = _tba.FIELDS[arm]
    path = _tba.dynamics(table, field, np.array(table.reference), drawn, 0.5)
    np.testing.assert_allclose(end, path[-1], atol=1e-9)
    fresh = _tba.dynamics(table, field, np.array(table.reference), np.arange(updates)[:, None], 0.5)
    assert arm == "RLOO, ratio" or np.abs(fresh[-1] - end).max() > 1e-3


def test_tba_is_rloo_with_the_current_penalty_in_its_reward_up_to_a_factor():
    """Path by path on stale data. Planted: the penalty as it was when the data were drawn."""

    def end(method, at, rate):
        task = tba_optimum.task("bandit", "constant 32", at)
        system = sim.schedules.fixed(6, groups_per_batch=2)
        chain = sim.chain(sim.updates.sgd(rate))
        spec = sim.Spec(task, system, method, chain, samples_per_group=4, updates=40, replicates=3)
        return sim.run(spec, seed=4, progress=False).parameters

    balance = end(sim.methods.tba(beta=BETA), None, 0.3 * BETA / 2.0)
    mean = sim.methods.reinforce(sim.advantages.group_mean())
    np.testing.assert_allclose(balance, end(mean, "current", 0.3), atol=1e-12)
    assert np.abs(balance - end(mean, "behavior", 0.3)).max() > 1e-3


@pytest.mark.parametrize("name", [tba_returns.BASE, "RLOO", "Dr. GRPO"])
def test_nothing_moves_before_the_first_reward(name):
    """So the first one comes after as many samples for every method. Planted: one sample is paid."""
    now = torch.full((4, 3), -0.7, dtype=torch.float64)
    given = {"reference_log_prob": now} if name == tba_returns.BASE else {}
    method = tba_returns.METHODS[name]
    for reward, moves in ((0.0, False), (1.0, True)):
        rewards = torch.tensor([reward, 0.0, 0.0, 0.0], dtype=torch.float64)
        weight = method.weigh(now, now, rewards=rewards, **given).score_weight
        assert bool((weight != 0).any()) == moves


def test_expected_returns_are_those_of_enumeration():
    for name in ("graded", "rare"):
        task = tba_returns.TASKS[name]
        small = sim.tasks.token_bandit(3, 3, "position") if name == "graded" else task
        logits = np.random.default_rng(5).normal(size=small.rows * small.actions)

        class Here:
            task, policy, parameters = small, small.policy(), torch.as_tensor(logits)[None]

        value = tba_returns.expected(Here)
        np.testing.assert_allclose(value, small.exact(Here.policy, Here.parameters)[0], atol=1e-12)


@pytest.mark.committed
def test_no_system_trains_faster_than_its_trainer_and_waiting_is_what_intervals_save():
    rows = _store.read("tba_speed")
    times = rows[(rows.quantity == "step_seconds") & (rows.interval > 0)]
    alone = times.training * tba_speed.MACHINES / times.trainers
    assert (times.value >= alone * (1 - 1e-3)).all() and (times.value < 1.2 * alone).any()
    means = times.groupby(["training", "trainers", "interval"]).value.mean().unstack()
    assert (np.diff(means.to_numpy(), axis=1) < 0.02).all()
    # A synchronous step is the longest sample and training. Planted: as many samples as one machine has.
    own = rows[(rows.quantity == "step_seconds") & (rows.interval == 0)]
    generation = own.groupby("realization").apply(lambda one: (one.value - one.training).mean())
    reach = 4.0 * float(generation.std()) / len(generation) ** 0.5
    assert abs(generation.mean() - speed_figure.longest()) < reach < speed_figure.longest() - 1.0


@pytest.mark.committed
def test_rows_of_comparisons_have_words_and_rates():
    rows = _store.read("tba_returns")
    base = rows[(rows.part == "compare") & (rows.arm == tba_returns.BASE)]
    assert len(base) == len(tba_returns.TASKS) * len(tba_returns.LAWS) and (rows.rate.dropna() > 0).all()
    assert set(rows.word.dropna()) <= {"better", "worse", "equal", "undecided"}
