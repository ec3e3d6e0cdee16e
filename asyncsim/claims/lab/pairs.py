"""Many pairs of policies at one time, for metrics of the population of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import methods, tasks
from asyncsim.base import rng
from asyncsim.claims.lab.runs import population
from asyncsim.running.spec import Spec

_DRAWN = 500


def bandit(arms: int, metrics: list[Any], tokens: int = 1) -> Spec:
    """Populations of one softmax, or of sequences of so many equal tokens."""
    return population(tasks.token_bandit(arms, tokens), methods.full_is()).replace(diagnostics=metrics)


def drawn(arms: int, seed: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of normal logits, `[R, A]`."""
    draws = rng.Stream(seed, name).normal([[k] for k in range(2 * _DRAWN)], range(arms))
    return draws[:_DRAWN], draws[_DRAWN:]


def two_arms(share: float, weight: float) -> tuple[np.ndarray, np.ndarray]:
    """Current and behavior logits `[1, 2]` with the ratio `weight` at an arm that behavior draws with this share."""
    mu = np.array([[share, 1.0 - share]])
    pi = np.array([[share * weight, 1.0 - share * weight]])
    return np.log(pi), np.log(mu)
