"""Ratios of many pairs of policies, ratios with a power-law tail, and wrong statistics of effective samples."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from asyncsim import diagnostics, methods, policies, tasks
from asyncsim.base import rng
from asyncsim.claims._trial import Estimate, Plant, Point, replaced, units_for
from asyncsim.claims.lab.chains import AFFINITY
from asyncsim.claims.lab.plants import with_policy
from asyncsim.claims.lab.runs import displaced, mean_of, population, run, share_of
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running.spec import Spec
from asyncsim.step import ratios
from asyncsim.step.step import Step

_DRAWN = 500
SAMPLES, BATCHES = 2048, 8
_SPREAD = 2.1
"""Largest relative standard deviation of one sample's quantity at the points of the trials (measured)."""


def bandit(arms: int, metrics: list[Any], tokens: int = 1) -> Spec:
    """Population spec of one softmax policy, or of sequences of `tokens` tokens from equal softmax policies."""
    return population(tasks.token_bandit(arms, tokens), methods.full_is()).replace(diagnostics=metrics)


def drawn(arms: int, seed: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of normally distributed logits, `[R, A]`."""
    draws = rng.Stream(seed, name).normal([[k] for k in range(2 * _DRAWN)], range(arms))
    return draws[:_DRAWN], draws[_DRAWN:]


def two_arms(share: float, weight: float) -> tuple[np.ndarray, np.ndarray]:
    """Current and behavior logits `[1, 2]`, with ratio `weight` at an arm of behavior probability `share`."""
    mu = np.array([[share, 1.0 - share]])
    return np.log(np.array([[share * weight, 1.0 - share * weight]])), np.log(mu)


def cooled(temperature: float, dimension: int, metrics: list[Any], size: tuple[int, int, int]) -> Spec:
    """Spec of batches of a policy that never moves; `size`: samples per group, batches per replicate, replicates."""
    place = np.zeros(dimension)
    task = tasks.gaussian_bandit(dimension=dimension)
    policy = policies.gaussian(dimension, temperature=temperature)
    return displaced(task, (place, place), metrics, size).replace(policy=policy)


def measured(point: Point, dimension: int, points: int, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    """Affinity, mean log ratio and fraction of ratios above each level of the point, in a trial of `points` points."""
    replicates = max(16, units_for(_SPREAD / math.sqrt(SAMPLES * BATCHES), effect, 4 * points))
    above = [diagnostics.ratio_above(level) for level in point["levels"]]
    metrics = [AFFINITY, "log_ratio_mean", *above]
    trace = run(cooled(point["temperature"], dimension, metrics, (SAMPLES, BATCHES, replicates)), seed, plant)
    means = {"affinity": mean_of(trace, "affinity"), "mean_log": mean_of(trace, "log_ratio_mean")}
    return means | {f"above[{k}]": share_of(trace[metric.name][1:], SAMPLES) for k, metric in enumerate(above)}


def colder(factor: float) -> Plant:
    """Plant that multiplies the sampler's temperature by a factor, as a defect."""
    return with_policy(lambda policy: dataclasses.replace(policy, temperature=factor * policy.temperature))


def with_ess(statistic: Callable[[Step], Tensor], *others: str) -> Plant:
    """Plant that replaces the metric "ess" by another statistic; the other metrics of the trial stay."""
    return replaced(diagnostics=[Metric("ess", statistic, ("log_prob",)), *others])


def clamped(step: Step) -> Tensor:
    """ESS of importance weights clamped to [1/2, 2], which cannot fall below 0.64."""
    return ratios.ess(step.sequence_log_ratio, step.step_mass, clamp=2.0)
