"""Tabular decision processes: gymnasium's own steps, brute force over paths, linear algebra, sampling."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.claims.lab.plants import Displace
from asyncsim.sampling import oracle
from asyncsim.sampling.rollouts import Sampler, enumerate_outcomes, monte_carlo
from asyncsim.step import versions
from asyncsim.tasks._tabular import cells, edges
from tests.refusals import refused
from tests.statistics import assert_rate

TASKS = {
    "lake": lambda **k: sim.tasks.frozen_lake(**k),
    "large lake": lambda **k: sim.tasks.frozen_lake("8x8", **k),
    "dry lake": lambda **k: sim.tasks.frozen_lake(slippery=False, **k),
    "two starts": lambda **k: sim.tasks.frozen_lake(desc=("SFS", "FHF", "FFG"), **k),
    "cliff": lambda **k: sim.tasks.cliff_walking(**k),
    "wet cliff": lambda **k: sim.tasks.cliff_walking(slippery=True, **k),
}
ZERO = np.zeros((1, 1, 1, 1), dtype=np.int32)


def parameters(task, R=1, seed=0, spread=0.7):
    return torch.from_numpy(spread * np.random.default_rng(seed).normal(size=(R, task.policy().size)))


def sampled(task, theta, count):
    R = theta.shape[0]
    sampler = Sampler(task, task.policy(), count, 3, np.arange(R), np.zeros(R, dtype=np.int64))
    ids = np.arange(count).reshape(1, 1, count)
    view = versions.current(task.policy().prepare(theta))
    return monte_carlo(sampler, ZERO, 0, ids, view), sampler.draws(ids)


@pytest.mark.parametrize("name", TASKS)
def test_tables_are_those_of_gymnasium(name):
    task = TASKS[name]()
    law, environment = task.law, task.environment()
    assert (law.probability.sum(-1) - 1.0).abs().max() < 1e-15
    np.testing.assert_array_equal(law.start, environment.initial_state_distrib)
    for s, a in np.ndindex(task.rows, 4):
        chances, expected = {}, {}
        for k in range(law.probability.shape[-1]):
            key = (law.following[s, a, k].item(), law.reward[s, a, k].item(), law.terminal[s, a, k].item())
            chances[key] = chances.get(key, 0.0) + law.probability[s, a, k].item()
        for p, following, reward, done in environment.P[s][a]:
            key = (int(following), float(reward), bool(done))
            expected[key] = expected.get(key, 0.0) + p
        assert {k: p for k, p in chances.items() if p > 0} == expected


class Fed:
    """A generator of gymnasium that is told its numbers."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers)


def replayed(task, actions, numbers):
    """States, rewards and ends of one episode of gymnasium's environment under given actions and random numbers."""
    environment = task.environment()
    environment._np_random = Fed(numbers)
    state, _ = environment.reset()
    states, rewards, ends = [], [], []
    for action in actions:
        states.append(int(state))
        state, reward, done, _, _ = environment.step(int(action))
        rewards.append(float(reward))
        ends.append(bool(done))
        if done:
            break
    return states, rewards, ends


@pytest.mark.parametrize("name", TASKS)
def test_episodes_are_those_of_gymnasium_to_the_bit(name):
    """The same uniform numbers, fed to gymnasium's own stepping; numbers of one token later are seen."""
    task = TASKS[name](horizon=40)
    batch, draws = sampled(task, parameters(task), 12)
    environment = draws.sibling("environment")
    uniform = torch.stack([environment.uniform(t, 0) for t in range(40)], -1)[0, 0]
    first, moved = environment.uniform(0, 2)[0, 0], 0
    for n in range(12):
        length = int(batch.lengths[0, 0, n])
        actions = batch.action[0, 0, n].tolist()
        states, rewards, ends = replayed(task, actions, [first[n].item(), *uniform[n].tolist()])
        assert len(states) == length and batch.state[0, 0, n, :length].tolist() == states
        assert batch.token_reward[0, 0, n, :length].tolist() == rewards
        assert (batch.token_reward[0, 0, n, length:] == 0).all()
        # Gymnasium's end, or the horizon's.
        assert batch.ended[0, 0, n].nonzero().flatten().tolist() == [length - 1]
        assert ends[-1] or length == 40
        assert batch.reward[0, 0, n].item() == pytest.approx(sum(rewards))
        moved += replayed(task, actions, [first[n].item(), *uniform[n].roll(-1).tolist()])[0] != states
    assert (moved == 0) if task.enumerable else (moved >= 6)


def by_paths(task, theta, behavior=None):
    """J, with its graph, and E_mu W^2, over all paths of actions and outcomes in plain Python."""
    law, discount = task.law, task.discount
    table = torch.softmax(theta.reshape(task.rows, 4), -1)
    other = table if behavior is None else torch.softmax(behavior.reshape(task.rows, 4), -1)
    value, second = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    paths = [(s, law.start[s], law.start[s], 0.0) for s in range(task.rows) if law.start[s] > 0]
    for t in range(task.horizon):
        grown = []
        for s, chance, heavy, earned in paths:
            for a in range(4):
                for k in range(law.probability.shape[-1]):
                    p = law.probability[s, a, k]
                    if p == 0:
                        continue
                    now = chance * table[s, a] * p
                    weighed = heavy * p * table[s, a] ** 2 / other[s, a]
                    total = earned + discount**t * law.reward[s, a, k].item()
                    if law.terminal[s, a, k] or t + 1 == task.horizon:
                        value, second = value + now * total, second + weighed
                    else:
                        grown.append((int(law.following[s, a, k]), now, weighed, total))
        paths = grown
    return value, second


@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize("desc", [("SF", "HG"), ("SF", "FG"), ("SS", "FG")])
def test_recursion_equals_brute_force_over_paths(desc, discount):
    """Value, gradient (by autograd over the paths) and E W^2 on maps of four fields; a forgotten end is seen."""
    task = sim.tasks.frozen_lake(desc=desc, horizon=3, discount=discount)
    theta, behavior = parameters(task), parameters(task, seed=1)
    live = theta[0].clone().requires_grad_()
    value, second = by_paths(task, live, behavior[0])
    (slope,) = torch.autograd.grad(value, live)
    found, gradient = task.exact(task.policy(), theta)
    assert found.item() == pytest.approx(value.item(), abs=1e-14)
    torch.testing.assert_close(gradient[0], slope, rtol=0, atol=1e-14)
    assert task.ratio_moment(task.policy(), theta, behavior, 2.0).item() == pytest.approx(second.item(), rel=1e-13)
    endless = dataclasses.replace(task)
    endless.__dict__["law"] = task.law._replace(terminal=torch.zeros_like(task.law.terminal))
    assert abs(endless.ratio_moment(task.policy(), theta, behavior, 2.0).item() - second.item()) > 1e-3


@pytest.mark.parametrize("name", TASKS)
def test_values_solve_the_linear_equations_of_long_discounted_episodes(name):
    """V = (I - gamma P_pi)^-1 r_pi, and J, Q and V belong together; another discount is seen."""
    task = TASKS[name](horizon=400, discount=0.9)
    theta = parameters(task)
    V, Q = task._values(cells(task.policy(), theta, task.rows, task.actions).prob)
    prob = torch.softmax(theta.reshape(task.rows, 4), -1)
    law = task.law
    goes = torch.where(law.terminal, torch.zeros(()).double(), law.probability)
    step = torch.zeros(task.rows, task.rows, dtype=torch.float64)
    for s, a, k in np.ndindex(*law.probability.shape):
        step[s, law.following[s, a, k]] += prob[s, a] * goes[s, a, k]
    paid = (prob * (law.probability * law.reward).sum(-1)).sum(-1)
    expected = torch.linalg.solve(torch.eye(task.rows).double() - 0.9 * step, paid)
    torch.testing.assert_close(V[0, 0], expected, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close((prob * Q[0]).sum(-1), V[0], rtol=1e-13, atol=1e-13)
    value = task.exact(task.policy(), theta)[0]
    assert value.item() == pytest.approx((law.start @ expected).item(), rel=1e-11)
    wrong = torch.linalg.solve(torch.eye(task.rows).double() - 0.89 * step, paid)
    assert (wrong - expected).abs().max() > 1e-4


PATHS = {"dry lake": ([1, 1, 2, 1, 2, 2], 1.0), "cliff": ([0, *[1] * 11, 2], -13.0)}


@pytest.mark.parametrize("name", PATHS)
def test_a_certain_policy_earns_what_gymnasium_pays(name):
    """The shortest way, by a policy that never leaves it, by the recursion and by gymnasium; a detour is seen."""
    actions, expected = PATHS[name]
    task = TASKS[name](horizon=30)
    states, rewards, ends = replayed(task, actions, [0.5] * 40)
    assert sum(rewards) == expected and ends[-1]
    theta = torch.zeros(task.rows, 4, dtype=torch.float64)
    theta[states, actions] = 800.0
    flat = theta.reshape(1, -1)
    assert task.exact(task.policy(), flat)[0].item() == pytest.approx(expected, abs=1e-12)
    batch, _ = sampled(task, flat, 3)
    assert (batch.reward == expected).all() and (batch.lengths == len(actions)).all()
    theta[states[0], actions[0]] = 0.0
    assert task.exact(task.policy(), theta.reshape(1, -1))[0].item() < expected - 0.2


class Total:
    """Sum of the gradients behind the displacement, `[P, R]`."""

    name, outputs = "total", ()

    def fresh(self):
        return Total()

    def observe(self, step):
        self.sum = step.gradient * (step.update > 0) + getattr(self, "sum", 0.0)

    def result(self):
        return {"total": self.sum.numpy().T}


def z(values, truth):
    """Deviations of means over the last axis in their own standard errors, the largest."""
    error = values.std(-1, ddof=1) / math.sqrt(values.shape[-1])
    return np.abs((values.mean(-1) - truth) / error).max()


@pytest.mark.parametrize("name", ["lake", "two starts", "wet cliff"])
def test_samples_have_the_exact_return_gradient_and_second_moment(name):
    """Through the loop, held away from behavior; the gradient along 8 fixed directions.

    z below 6 (t of 63 degrees) for 10 numbers, which a right program exceeds for one seed in 10^6; a return without
    its discount and a score without its ratio are seen.
    """
    task = TASKS[name](horizon=12, discount=0.9)
    policy, behavior = task.policy(), parameters(task, spread=0.5)
    current = behavior + parameters(task, seed=1, spread=0.2)
    offset = sim.advantages.offset(task.exact(policy, behavior)[0].item())
    spec = sim.Spec(
        task,
        sim.schedules.frozen(),
        sim.methods.full_is(advantage=offset),
        sim.chain(Displace(tuple((current - behavior)[0].tolist()))),
        samples_per_group=1024,
        updates=9,
        replicates=64,
        initial=behavior[0].numpy(),
        diagnostics=["batch_return", "chi_square", Total()],
    )
    trace = sim.run(spec, seed=1)
    stale, plain = (t.exact(policy, behavior)[0].item() for t in (task, dataclasses.replace(task, discount=1.0)))
    assert z(trace["batch_return"][1:].mean(0), stale) < 6 < z(trace["batch_return"][1:].mean(0), plain)
    second = task.ratio_moment(policy, current, behavior, 2.0).item()
    assert z(trace["chi_square"][1:].mean(0), second - 1.0) < 6
    along = np.random.default_rng(0).choice([-1.0, 1.0], (8, policy.size))
    expected = along @ task.exact(policy, current)[1][0].numpy()
    assert z(along @ trace.accumulated["total"] / 8, expected) < 6
    stale_score = sim.run(spec.replace(method=sim.methods.reinforce(advantage=offset)), seed=1)
    assert z(along @ stale_score.accumulated["total"] / 8, expected) > 6


def test_first_states_have_their_law():
    """Each of two starts in half of 4,000 episodes, within a band that a right program leaves for one seed in 10^6."""
    task = TASKS["two starts"](horizon=2)
    batch, _ = sampled(task, parameters(task), 4000)
    starts = batch.state[0, 0, :, 0]
    assert_rate(int((starts == 0).sum()), 4000, 0.5)
    assert ((starts == 0) | (starts == 2)).all()


@pytest.mark.parametrize(("name", "horizon"), [("dry lake", 6), ("cliff", 4)])
@pytest.mark.parametrize("discount", [1.0, 0.7])
def test_certain_worlds_are_enumerated(name, horizon, discount):
    task = TASKS[name](horizon=horizon, discount=discount)
    theta = parameters(task)
    sampler = Sampler(task, task.policy(), 1, 0, np.arange(1), np.zeros(1, dtype=np.int64))
    view = versions.current(task.policy().prepare(theta))
    batch = enumerate_outcomes(sampler, ZERO, 0, np.zeros((1, 1, 1), dtype=np.int64), view)
    assert batch.mass.sum().item() == pytest.approx(1.0, abs=1e-12)
    value, gradient = task.exact(task.policy(), theta)
    assert (batch.mass * batch.reward).sum().item() == pytest.approx(value.item(), rel=1e-12)
    method = sim.methods.reinforce(advantage=sim.advantages.none())
    limit = oracle.limit(task, method, theta[0].numpy(), theta[0].numpy())
    np.testing.assert_allclose(limit, gradient[0], rtol=1e-10, atol=1e-12)


def test_what_cannot_be_enumerated_says_so():
    refused("deterministic", lambda: TASKS["lake"]().outcomes(torch.zeros(1, dtype=torch.int64)))
    refused(r"actions \*\* horizon", lambda: TASKS["cliff"]().outcomes(torch.zeros(1, dtype=torch.int64)))
    with pytest.raises(InputError, match="sampling"):
        sim.Spec(TASKS["lake"](), sim.schedules.fixed(1), sim.methods.reinforce(), sim.chain(), sampling="enumerate")


@pytest.mark.parametrize("name", ["two starts", "wet cliff"])
def test_blocks_do_not_matter_and_early_drawing_is_refused(name):
    task, system = TASKS[name](horizon=15), sim.systems.update_on_arrival(workers=3)
    options = {"updates": 12, "replicates": 3, "diagnostics": ["exact_return"]}
    spec = sim.Spec(task, system, sim.methods.reinforce(), sim.chain(sim.updates.sgd(0.05)), **options)
    together, apart = (sim.run(spec.replace(block=block), seed=2) for block in (None, 1))
    np.testing.assert_array_equal(together.parameters, apart.parameters)
    assert (together.parameters[0] != together.parameters[1]).any()
    refused("drawing", lambda: sim.run(spec.replace(drawing="early"), seed=2))


@pytest.mark.rows
def test_learning_crosses_the_lake():
    """From 2 percent to more than a third of the episodes, by the exact return."""
    task = sim.tasks.frozen_lake(slippery=False, horizon=30)
    options = {"samples_per_group": 64, "updates": 150, "replicates": 4, "diagnostics": ["exact_return"]}
    spec = sim.Spec(task, sim.schedules.fixed(2), sim.methods.reinforce(), sim.chain(sim.updates.sgd(20.0)), **options)
    trace = sim.run(spec, seed=0)
    assert trace["exact_return"][0].max() < 0.05 and trace["exact_return"][-1].mean() > 1 / 3


def test_the_last_possible_outcome_is_never_passed_over():
    """Ten times 0.1 sum to less than 1 in floating point; outcomes of probability 0 are never chosen."""
    almost = 1.0 - 2.0**-53
    cdf = edges(torch.full((10,), 0.1, dtype=torch.float64))
    assert (almost >= cdf).sum() == 9
    cdf = edges(torch.tensor([0.5, 0.0, 0.5, 0.0], dtype=torch.float64))
    chosen = {int((u >= cdf).sum()) for u in (0.0, 0.49, 0.5, 0.51, almost)}
    assert chosen == {0, 2}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sim.tasks.frozen_lake(desc=("SF", "G")), "desc"),
        (lambda: sim.tasks.frozen_lake(desc=("FF", "FG")), "a start S"),
    ],
)
def test_bad_settings_are_refused_by_name(make, message):
    refused(message, make)


@pytest.mark.parametrize("slippery", [False, True])
def test_the_header_of_a_run_says_what_was_walked(slippery):
    for task in (sim.tasks.frozen_lake(slippery=slippery, discount=0.9), sim.tasks.cliff_walking(20, slippery, 0.9)):
        said = task.describe()
        assert said["slippery"] is slippery and said["discount"] == 0.9 and said["horizon"] == task.horizon
    assert sim.tasks.frozen_lake("8x8").describe()["map"] == "8x8"
