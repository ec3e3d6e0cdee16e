"""Many pairs of policies at one time: metrics of a spec on the population of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import methods, tasks
from asyncsim.base import rng
from asyncsim.diagnostics._diagnostic import chosen
from asyncsim.learning import oracle
from asyncsim.learning.spec import Spec
from asyncsim.trials._runs import population

_DRAWN = 500


def bandit(arms: int, metrics: list[Any], tokens: int = 1) -> Spec:
    """Populations of one softmax, or of sequences of so many equal tokens."""
    return population(tasks.token_bandit(arms, tokens), methods.full_is()).replace(diagnostics=metrics)


def values(spec: Spec, current: np.ndarray, behavior: np.ndarray) -> list[np.ndarray]:
    """Each metric of a spec for every pair, `[R]`; places `[R, P]`."""
    policy = spec.trained_policy
    step = oracle.population_step(spec.task, spec.method, current, behavior, policy)
    return [metric.measure(step).numpy() for metric in chosen(spec.diagnostics, policy)[0]]


def drawn(arms: int, seed: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of normal logits, `[R, A]`."""
    draws = rng.Stream(seed, name).normal([[k] for k in range(2 * _DRAWN)], range(arms))
    return draws[:_DRAWN], draws[_DRAWN:]


def two_arms(share: float, weight: float) -> tuple[np.ndarray, np.ndarray]:
    """Current and behavior logits `[1, 2]` with the ratio `weight` at an arm that behavior draws with this share."""
    mu = np.array([[share, 1.0 - share]])
    pi = np.array([[share * weight, 1.0 - share * weight]])
    return np.log(pi), np.log(mu)
