"""Points of the claims on sequences, and exact gradients on the token bandit, through the oracle."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim import advantages, methods, tasks
from asyncsim.base import checks
from asyncsim.base.records import Estimate, Point
from asyncsim.claims._trial import Plant
from asyncsim.claims.lab.runs import population
from asyncsim.methods._method import Method
from asyncsim.running.spec import Spec
from asyncsim.sampling import oracle
from asyncsim.step import ratios
from asyncsim.step.step import Step

ROUNDING, SMALLEST = 1e-10, 1e-13
"""Relative, and absolute where larger numbers cancel: what a double leaves open."""


def planted(point: Point, method: Method, plant: Plant) -> Spec:
    """Population spec of a claim's point, with the plant applied."""
    names = ("actions", "horizon", "dependence", "success")
    return plant(population(tasks.token_bandit(**{name: point[name] for name in names if name in point}), method))


def places(point: Point) -> tuple[np.ndarray, np.ndarray]:
    """Flat current and behavior logits of a claim's point."""
    return np.ravel(point["current_logits"]), np.ravel(point["behavior_logits"])


def step_of(spec: Spec, point: Point, **settings: Any) -> Step:
    """Population step of a point's behavior data under its current policy; `settings` change the method."""
    return oracle.population_step(spec.task, spec.method.replace(**settings), *places(point), spec.policy)


def limit_of(spec: Spec, point: Point, **settings: Any) -> np.ndarray:
    """Mean gradient of a method at a claim's point, in the limit of infinitely many samples."""
    return oracle.limit(spec.task, spec.method.replace(**settings), *places(point), spec.policy)


def cut_off(task: Any, point: Point, power: float = 1.0, cap: float = math.inf) -> float:
    """Relative change of E_mu w^power (1 + log(w)^2) by the simulator's limit on log ratios in gradients.

    With `cap`, ratios are truncated anyway. Raises `InputError` where it is more than a thousandth: an update says
    nothing of full ratios there.
    """
    step = oracle.population_step(task, methods.full_is(advantage=advantages.none()), *places(point))
    log_ratio, most = step.sequence_log_ratio, math.log(cap)
    used = log_ratio.clamp(-ratios.LOG_LIMIT, ratios.LOG_LIMIT)
    # Of each, by the mass of its sequence: the ratio alone may be larger than any double.
    whole, limited = ((power * each.clamp(max=most) + step.step_mass.log()).exp() for each in (log_ratio, used))
    cut = float(((whole - limited).abs() * (1.0 + log_ratio**2)).sum() / whole.sum())
    bound = f"at most 0.001; move the policies closer, ratios are limited to e^{ratios.LOG_LIMIT:g} in gradients"
    checks.require(cut <= 1e-3, "share of the weights beyond the limit on ratios", cut, *bound.split("; "))
    return cut


def exactly(value: float) -> Estimate:
    """Estimate for a number that is exact to rounding."""
    return Estimate(value, tolerance=max(SMALLEST, ROUNDING * abs(value)))


def to_share(values: Mapping[str, float], share: float, samples: int = 1) -> dict[str, Estimate]:
    """Estimates of numbers, each with the relative tolerance `share`."""
    return {name: Estimate(float(x), tolerance=share * float(abs(x)), samples=samples) for name, x in values.items()}


def components(name: str, vector: np.ndarray, allowance: float = 0.0) -> dict[str, Estimate]:
    """Estimates of vector components, exact to rounding plus an allowance: `SMALLEST` where larger numbers cancel."""
    tolerance = max(SMALLEST, ROUNDING * float(np.linalg.norm(vector))) + allowance
    return {f"{name}[{k}]": Estimate(float(x), tolerance=tolerance) for k, x in enumerate(vector)}
