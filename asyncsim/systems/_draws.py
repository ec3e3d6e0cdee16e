"""Everything random about a system, keyed by (seed, purpose; realization, entity): no draw depends on another."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.base import rng, rng_compiled
from asyncsim.base.compiling import kept
from asyncsim.base.laws import Law
from asyncsim.systems._settings import Settings

FAILURE, CHOICE = "failure", "choice"


def works(system: Settings, entities: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Work of samples, or of groups whose samples have the same, before the difficulty of their prompt."""
    return system.length.sample(rng.Stream(seed, "work"), realization, entities, compiled=True)


def train_times(
    system: Settings, batches: int, samples_per_group: int, realization: int, seed: int, first: int = 0
) -> np.ndarray:
    """Seconds of training on each batch from `first` on but for those of its tokens, float64 `[B]`."""
    if isinstance(system.train_time, Law):
        stream = rng.Stream(seed, "train_time")
        return system.train_time.sample(stream, realization, np.arange(first, first + batches), compiled=True)
    whole = system.mean_train_time(samples_per_group) if system.load is not None else float(system.train_time or 0.0)
    return np.full(batches, whole)


def rewards(system: Settings, samples: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Seconds from the end of samples to their rewards."""
    return _of(system.reward, seed, "reward seconds", realization, samples)


def environments(system: Settings, samples: np.ndarray, turns: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Seconds of the environment's step after the given turn, counted from 1."""
    return _of(system.environment, seed, "environment", realization, samples, turns)


def difficulties(system: Settings, groups: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Factor on the work of the first prompts of the groups with these numbers."""
    if system.difficulty is None:
        return np.ones(np.shape(groups))
    return system.difficulty.sample(rng.Stream(seed, "difficulty"), realization, groups, compiled=True)


def acceptances(groups: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Uniform numbers; a group is accepted where its number is below the probability of acceptance."""
    return rng_compiled.uniform(rng.Stream(seed, "accept"), realization, groups)


def failures(system: Settings, samples: np.ndarray, attempts: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Units of work that attempts write before they fail."""
    if system.failure_rate == 0.0:
        return np.full(np.broadcast_shapes(np.shape(samples), np.shape(attempts)), np.inf)
    draw = rng_compiled.uniform(rng.Stream(seed, FAILURE), realization, samples, attempts)
    written = np.empty(draw.shape)
    _exponential(draw.reshape(-1), system.failure_rate, written.reshape(-1))
    return written


def choices(batches: np.ndarray, draws: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Uniform numbers of the choice of batches under order random."""
    return rng_compiled.uniform(rng.Stream(seed, CHOICE), realization, batches, 0, draws)


def _of(law: Law | None, seed: int, name: str, realization: int, first: np.ndarray, second: Any = 0) -> np.ndarray:
    if law is None:
        return np.zeros(np.broadcast_shapes(np.shape(first), np.shape(second)))
    return law.sample(rng.Stream(seed, name), realization, first, second, compiled=True)


@kept()
def _exponential(draw, rate, written):
    """The kernel's expression, to the bit."""
    for i in range(draw.size):
        written[i] = -np.log1p(-draw[i]) / rate
