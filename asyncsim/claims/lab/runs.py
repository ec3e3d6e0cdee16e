"""Runs that trials share: descent on a quadratic, bandits on all samples or frozen data, displaced policies."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from asyncsim import methods, schedules, tasks, updates
from asyncsim.base import checks
from asyncsim.base.trace import Trace
from asyncsim.base.uncertainty import between
from asyncsim.claims._trial import Estimate, Plant, Point
from asyncsim.claims.lab.plants import Displace
from asyncsim.diagnostics._diagnostic import Metric, chosen
from asyncsim.methods._method import Method
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.sampling import oracle
from asyncsim.step.step import Step
from asyncsim.updates._link import Link, chain

PLACE = Metric("place", lambda step: step.parameters[:, 0])
"""First parameter before the update, `[R]`."""


def run(spec: Spec, seed: int, plant: Plant) -> Trace:
    """Apply a plant to a spec, run it, and return its trace."""
    return running.run(plant(spec), seed=seed, progress=False)


def descent(task: Any, schedule: Any, *links: Link, **settings: Any) -> Spec:
    """Spec of gradient descent on a quadratic, with one sample per update, the given links and `settings`."""
    return Spec(task, schedule, methods.gradient(), chain(*links), **{"samples_per_group": 1, **settings})


def ascent(task: Any, schedule: Any, method: Method, step: Any, count: int, **settings: Any) -> Spec:
    """Spec of `count` SGD updates on a bandit, by default with population gradients; `settings` override."""
    options = {"replicates": 1, "sampling": "enumerate", "diagnostics": "none", **settings}
    return Spec(task, schedule, method, chain(updates.sgd(step)), updates=count, **options)


def population(task: Any, method: Method) -> Spec:
    """Spec of a frozen policy's full population, each sample with its probability, for the oracle."""
    return Spec(task, schedules.frozen(), method, chain(), sampling="enumerate")


def metrics_of(spec: Spec, current: np.ndarray, behavior: np.ndarray) -> list[np.ndarray]:
    """Metrics of a spec on the full population: `[R]` for parameters `[R, P]`, `[1]` for `[P]`."""
    policy = spec.trained_policy
    step = oracle.population_step(spec.task, spec.method, current, behavior, policy)
    return [metric.measure(step).numpy() for metric in chosen(spec.diagnostics, policy, spec.fitted_task)[0]]


def displaced(
    task: Any,
    places: tuple[np.ndarray, np.ndarray],
    diagnostics: list[Any],
    size: tuple[int, int, int],
    method: Method | None = None,
) -> Spec:
    """Spec of fresh batches sampled at the behavior and scored at the current policy; `places` are both, in order."""
    (behavior, current), (samples, batches, replicates) = places, size
    by = current - behavior
    move = Displace(tuple(map(tuple, by)) if by.ndim == 2 else tuple(by))
    options: dict[str, Any] = {"samples_per_group": samples, "updates": batches + 1, "replicates": replicates}
    options |= {"initial": behavior, "diagnostics": diagnostics}
    return Spec(task, schedules.frozen(), method or methods.full_is(), chain(move), **options)


class MeanGradient:
    """Instrument "gradient": mean of the gradients after the displacement, `[P, R]`."""

    name = "mean_gradient"
    outputs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.gradients: list[Tensor] = []

    def fresh(self) -> "MeanGradient":
        return MeanGradient()

    def observe(self, step: Step) -> None:
        self.gradients += [step.gradient.double().clone()] * (step.update > 0)

    def result(self) -> dict[str, np.ndarray]:
        return {"gradient": (sum(self.gradients) / len(self.gradients)).numpy().T}  # type: ignore[union-attr]


def below(label: int, level: float) -> Metric:
    """Metric "cdf[label]": fraction of samples whose log ratio is at most `level`."""

    def share(step: Step) -> Tensor:
        return step.mean((step.sequence_log_ratio <= level).double())

    return Metric(f"cdf[{label}]", share, ("log_prob",))


def mean_of(trace: Trace, name: str, tolerance: float = 0.0) -> Estimate:
    """Mean of a metric over all batches after the displacement of the policy, and its error across replicates."""
    return between(trace[name][1:].mean(axis=0))._replace(tolerance=tolerance)


def share_of(values: np.ndarray, samples: int = 1) -> Estimate:
    """Mean fraction of events `[U, R]`, each over `samples` samples, and its standard error across replicates.

    Where few of n are seen, or all but a few, that error is too small: the tolerance is the rate 8/n, of which none
    would be seen once in 3,000.
    """
    return between(values.mean(axis=0))._replace(tolerance=8.0 / (values.size * samples))


def variance_of(trace: Trace, samples: int, name: str = "log_ratio_variance") -> Estimate:
    """Estimate of the log ratio's variance, times N/(N - 1), since N samples are centered on their own mean."""
    variance, factor = mean_of(trace, name), samples / (samples - 1)
    return variance._replace(value=variance.value * factor, error=variance.error * factor)


def second_moment_of(trace: Trace) -> Estimate:
    """Estimate of the ratio's second moment, E W^2 = 1 + chi^2."""
    chi_square = mean_of(trace, "chi_square")
    return chi_square._replace(value=1.0 + chi_square.value)


def offline(point: Point, method: Method, step: float, count: int) -> Spec:
    """Spec of population gradient updates on the behavior policy's data, starting from the behavior policy."""
    rewards = point["rewards"]
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed", logits=point["behavior_logits"])
    return ascent(task, schedules.frozen(), method, step, count)


def settled(ending: Callable[[int], np.ndarray], updates: int, tolerance: float) -> np.ndarray:
    """End point of a run, whose length is doubled until the end point moves by at most `tolerance`."""
    most, before = 16 * updates, ending(updates // 2)
    while True:
        after = ending(updates)
        moved = float(np.abs(after - before).max())
        if moved <= tolerance:
            return after
        bound = f"at most {tolerance:g}; give no arm a much smaller probability or gain than the others"
        checks.require(updates < most, f"movement in the second half of {updates} updates", moved, *bound.split("; "))
        before, updates = after, 2 * updates


def arms(name: str, values: Any, tolerance: float) -> dict[str, Estimate]:
    """Estimates of one number per arm, named `name[0]`, `name[1]`, and so on."""
    return {f"{name}[{k}]": Estimate(float(value), tolerance=tolerance) for k, value in enumerate(values)}
