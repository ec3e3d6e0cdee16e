"""Advantages that shape rewards: the best of k, successes by their rarity, steps standardized."""

import itertools

import numpy as np

import asyncsim as sim


def best_of(k):
    def formula(rewards, weights, norms, step_mean, lengths=None):
        """Over all sets of k samples, one at a time."""
        N, gained = len(rewards), []
        for i in range(N):
            sets = itertools.combinations([j for j in range(N) if j != i], k - 1)
            others = [max(rewards[list(each)]) for each in sets]
            gained.append(np.mean([max(rewards[i] - other, 0.0) for other in others]))
        return np.array(gained)

    return formula


def by_rarity(rewards, weights, norms, step_mean, lengths=None):
    mean = rewards.mean()
    # As far as rounding knows, equal rewards have their mean.
    return np.zeros_like(rewards) if mean <= 0 or np.ptp(rewards) == 0 else (rewards - mean) / (mean + 1e-6)


def over_the_step(rewards):
    deviation = rewards.std()
    return (rewards - rewards.mean()) / (deviation if deviation > 1e-8 else 1.0)


GREEDY = 0.4
"""What the likeliest response earns in tests/contracts/test_advantages.py."""


def above_greedy(rewards, weights, norms, step_mean, lengths=None):
    return rewards - GREEDY


ADVANTAGES = {"pass_at_k": best_of(2), "maxrl": by_rarity, "remax": above_greedy}
STEPWISE = {"reinforce_plus_plus": over_the_step}
TOKENWISE = {"reinforce_plus_plus"}
UNSHIFTED = {"maxrl"}
ALONE = {"remax"}

_IS = sim.methods.truncated_is
CASES = {
    "reinforce_plus_plus group": lambda: _IS("token", advantage=sim.advantages.reinforce_plus_plus("group", 0.9)),
    "pass_at_k standardized": lambda: _IS(advantage=sim.advantages.pass_at_k(3, standardize=True)),
}
