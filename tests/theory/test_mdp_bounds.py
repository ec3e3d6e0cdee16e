"""Bounds for tabular decision processes: searched over processes and policies, never exceeded, and how near they come.

`largest` evolves transitions, rewards and both policies of small processes. What it finds for published constants is
in experiments/LOG.md.
"""

import itertools
import math

import numpy as np
import pytest

from asyncsim import claims
from asyncsim.claims._bandit import softmax

S = 2


class Processes:
    """Many small processes with two policies, from numbers `[N, ...]`."""

    def __init__(self, numbers, discount, actions):
        self.discount, A = discount, actions
        cut = np.split(numbers, np.cumsum([S * A * S, S * A, S * A]), axis=1)
        self.transition = softmax(cut[0].reshape(-1, S, A, S))
        self.rewards = np.tanh(cut[1]).reshape(-1, S, A)
        self.behavior, self.current = (softmax(each.reshape(-1, S, A)) for each in cut[2:])
        # Policies closer than this are lost in rounding.
        self.distances = np.maximum(0.5 * np.abs(self.current - self.behavior).sum(2), 1e-6)

    def resolvent(self, policy):
        led = np.einsum("nsa,nsat->nst", policy, self.transition)
        return np.linalg.inv(np.eye(S) - self.discount * led)

    def returns(self, policy):
        return np.einsum("ns,nsa,nsa->n", self.resolvent(policy)[:, 0], policy, self.rewards)

    def advantage(self, policy):
        value = np.einsum("nst,nta,nta->ns", self.resolvent(policy), policy, self.rewards)
        return self.rewards + self.discount * np.einsum("nsat,nt->nsa", self.transition, value) - value[..., None]

    def hessian(self):
        """Of the return in the logits of behavior, with the gradient, and the range of returns."""
        A = self.rewards.shape[2]
        chosen = np.array(list(itertools.product(range(A), repeat=S)))
        led = self.transition[:, np.arange(S), chosen]
        system = np.eye(S) - self.discount * led
        paid = self.rewards[:, np.arange(S), chosen]
        returns = np.linalg.solve(system, paid[..., None])[:, :, 0, 0]
        weight = self.behavior[:, np.arange(S), chosen].prod(2) * np.linalg.det(system)
        weight = weight / weight.sum(1, keepdims=True)
        taken = np.eye(A)[chosen].reshape(len(chosen), -1)
        taken = taken - (weight @ taken)[:, None]
        centered = weight * (returns - (weight * returns).sum(1, keepdims=True))
        second = np.einsum("nf,nfi,nfj->nij", centered, taken, taken)
        return second, np.einsum("nf,nfi->ni", centered, taken), np.ptp(returns, axis=1)


def ratios(numbers, discount, actions):
    """What is bounded over its bound, `[N]` by name."""
    p = Processes(numbers, discount, actions)
    visits = [p.resolvent(policy)[:, 0] for policy in (p.behavior, p.current)]
    advantage, most = p.advantage(p.behavior), p.distances.max(1)
    gains = (p.current * advantage).sum(2)
    averaged = (visits[0] * p.distances).sum(1) / (1.0 - discount)
    coupled = most / ((1.0 - discount) * (1.0 - discount * (1.0 - most)))
    change = p.returns(p.current) - p.returns(p.behavior)
    gap = np.abs(change - (visits[0] * gains).sum(1))
    second, first, spread = p.hessian()
    spread, sizes = spread + 1e-9, np.abs(advantage).max((1, 2)) + 1e-9
    parted, every = np.minimum(averaged, coupled), 1.0 / (1.0 - discount)
    return {
        "return": np.abs(change) / ((np.ptp(p.rewards, axis=(1, 2)) + 1e-9) * parted),
        "occupancy": np.abs(visits[1] - visits[0]).sum(1) / (2.0 * discount * parted),
        "gap": gap / (2.0 * discount * (np.abs(gains).max(1) + 1e-9) * parted),
        "coarse": gap / (4.0 * discount * sizes * most * coupled),
        "published": gap / (4.0 * discount * sizes * most**2 * every**2),
        "gradient": np.linalg.norm(first, axis=1) / (math.sqrt(S / 8.0) * spread),
        "hessian": np.abs(np.linalg.eigvalsh(second)).max(1) / (S * spread / (3.0 * math.sqrt(3.0))),
    }


def largest(name, discount, actions=2, generations=60, size=1000):
    """The largest ratio that an evolution of processes and policies finds."""
    random = np.random.default_rng(0)
    width, spread = S * actions * (S + 3), 2.0
    numbers = spread * random.normal(size=(size, width))
    for _ in range(generations):
        found = ratios(numbers, discount, actions)[name]
        best = numbers[np.argsort(-found)[: size // 20]]
        # Every child has its numbers from two of the best, and some of them moved.
        parents = best[random.integers(len(best), size=(2, size))]
        numbers = np.where(random.random((size, width)) < 0.5, *parents)
        numbers = numbers + spread * random.normal(size=(size, width)) * (random.random((size, width)) < 0.3)
        numbers[: len(best)], spread = best, 0.95 * spread
    return float(ratios(numbers, discount, actions)[name].max())


BOUNDS = [
    ("return", 0.9, 2, 0.99),
    ("occupancy", 0.9, 2, 0.99),
    ("gap", 0.3, 2, 0.9),
    ("coarse", 0.3, 3, 0.9),
    ("gradient", 0.99, 2, 0.8),
    ("hessian", 0.99, 2, 0.7),
]


@pytest.mark.parametrize(("name", "discount", "actions", "near"), BOUNDS)
def test_a_search_comes_near_a_bound_and_never_above(name, discount, actions, near):
    """Among processes of two states; the trials have those that attain the bounds."""
    assert near <= largest(name, discount, actions) <= 1.0 + 1e-9


def test_a_wrong_constant_is_climbed_over():
    """Bounds lower by 2 percent, and one without the number of states."""
    assert 1.02 * largest("return", 0.9) > 1.0
    assert S * largest("hessian", 0.99) > 1.02


def test_these_are_the_bounds_of_the_theory():
    """At one random process, two actions."""
    numbers = np.random.default_rng(3).normal(size=(1, 20))
    p, found = Processes(numbers, 0.8, 2), ratios(numbers, 0.8, 2)
    logits = {"behavior_logits": np.log(p.behavior[0]).tolist(), "current_logits": np.log(p.current[0]).tolist()}
    point = {"transition": p.transition[0].tolist(), "rewards": p.rewards[0].tolist(), "discount": 0.8}
    shift = claims.claim("convergence/return-shift").predict({**point, **logits})
    gap = claims.claim("convergence/surrogate-gap").predict({**point, **logits})
    change = abs(p.returns(p.current) - p.returns(p.behavior))[0]
    assert change / shift["return"] == pytest.approx(found["return"][0], rel=1e-6)
    assert found["gap"][0] / found["coarse"][0] == pytest.approx(gap["coarse"] / gap["gap"], rel=1e-6)


def test_two_states_reach_their_factor_only_where_the_discount_is_near_one():
    """Each action leads to a state of its own: 0.57, 0.81 and 0.98 of the largest Hessian."""
    found = []
    for discount, place in ((0.9, (2.609, -1.2823)), (0.99, (3.5145, -2.1537)), (0.9999, (5.7267, -4.4045))):
        tables = [99.0, 0.0, 0.0, 99.0] * 2 + [20.0, 0.0] * 2
        numbers = np.array([[*tables, place[0], 0.0, place[1], 0.0, *np.zeros(4)]])
        found.append(ratios(numbers, discount, 2)["hessian"][0])
    np.testing.assert_allclose(found, [0.5686, 0.8055, 0.9771], atol=1e-4)


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_two_values_have_the_largest_third_moment(spread):
    """max |Cov(r, (x - E x)^2)| over r in [0, 1] is the half mean deviation of (x - E x)^2: at most w^2/(6 sqrt 3)."""
    random = np.random.default_rng(2)
    for size in (2, 3, 5, 9):
        chance, values = random.dirichlet(np.full(size, spread), 4000), random.random((4000, size))
        values[:, :2] = 0.0, 1.0
        squares = (values - (chance * values).sum(1, keepdims=True)) ** 2
        deviation = 0.5 * (chance * np.abs(squares - (chance * squares).sum(1, keepdims=True))).sum(1)
        assert deviation.max() <= 1.0 / (6.0 * math.sqrt(3.0)) + 1e-12
