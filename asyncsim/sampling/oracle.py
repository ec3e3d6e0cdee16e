"""Exact values by enumeration: returns, and gradients of methods.

`limit` evaluates the population and returns the method's gradient for N -> infinity. `moments` lays out every possible
batch along the replicate axis with its probability, and averages the gradient that the method computes. That is exact
for any coupling of samples.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, knobs
from asyncsim.methods._method import Method, evaluate
from asyncsim.policies._policy import Policy, require_outputs
from asyncsim.sampling.rollouts import Sampler, Trajectories, enumerate_outcomes
from asyncsim.step import versions
from asyncsim.step.batch import Batch
from asyncsim.step.step import Step
from asyncsim.tasks._task import Outcomes, Task

BATCH_LIMIT = 1_000_000
BLOCK = 1 << 15
NO_VERSION = np.zeros((1, 1, 1, 1), dtype=np.int32)


class Moments(NamedTuple):
    """Exact mean, covariance and bias of a method's gradient over all possible batches.

    `mean` `[P]`, `covariance` `[P, P]`, `exact` `[P]` (gradient of the expected return), `bias` = mean - exact.
    """

    mean: np.ndarray
    covariance: np.ndarray
    exact: np.ndarray

    @property
    def bias(self) -> np.ndarray:
        """Bias of the gradient, its mean minus the exact gradient, `[P]`."""
        return self.mean - self.exact

    @property
    def variance(self) -> float:
        """Total variance of the gradient, the trace of its covariance."""
        return float(np.trace(self.covariance))


def exact(task: Task, parameters: Any, policy: Policy | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Expected return of a task and its gradient at parameters `[P]` or `[R, P]`, by enumeration or in closed form.

    >>> import asyncsim as sim
    >>> value, gradient = exact(sim.tasks.softmax_bandit(arms=2, means=[0.0, 1.0]), [0.0, 0.0])
    >>> float(value), gradient.tolist()
    (0.5, [-0.25, 0.25])
    """
    policy = _fit_policy(task, policy)
    rows, single = _rows(parameters, policy, "parameters")
    value, gradient = task.exact(policy, rows)
    return (value[0].numpy(), gradient[0].numpy()) if single else (value.numpy(), gradient.numpy())


def limit(
    task: Task, method: Method, parameters: Any, behavior: Any = None, policy: Policy | None = None, staleness: int = 0
) -> np.ndarray:
    """Gradient of a method in the limit N -> infinity of samples, `[P]` or `[R, P]`.

    Arguments: current `parameters`, and `behavior` parameters that generated the data (default: the same), each `[P]`
    or `[R, P]`. `staleness`: that of every token in versions, for methods that use it. The step is the first update on
    the batch: the proximal policy is the current one. Raises `InputError` for tasks that cannot be enumerated.

    >>> import asyncsim as sim
    >>> task = sim.tasks.softmax_bandit(arms=2, means=[0.0, 1.0])
    >>> limit(task, sim.methods.full_is(), [0.0, 0.0], behavior=[1.0, 0.0]).round(6).tolist()
    [-0.25, 0.25]
    """
    step, single = _on_population(task, method, parameters, behavior, policy, staleness)
    return step.gradient[0].numpy() if single else step.gradient.numpy()


def population_step(
    task: Task, method: Method, parameters: Any, behavior: Any = None, policy: Policy | None = None, staleness: int = 0
) -> Step:
    """Step of a method on the population (N -> infinity), with ratios, advantages and cotangents; see `limit`."""
    return _on_population(task, method, parameters, behavior, policy, staleness)[0]


def moments(
    task: Task,
    method: Method,
    parameters: Any,
    behavior: Any = None,
    samples: int = 2,
    policy: Policy | None = None,
    prompt: int = 0,
    staleness: int = 0,
) -> Moments:
    """Exact mean, bias and covariance of a method's gradient over all batches of one group of N samples.

    Every ordered batch of outcomes is one row of the replicate axis; rows are averaged with their probabilities. The
    exact gradient is that of the group's prompt.

    Arguments: `parameters` and `behavior` `[P]`; `samples`, N; `prompt`, the number of this prompt; `staleness`, as in
    `limit`. Raises `InputError` beyond a million batches, or for tasks that cannot be enumerated.

    >>> import asyncsim as sim
    >>> task = sim.tasks.softmax_bandit(arms=2, means=[0.0, 1.0], rewards="fixed")
    >>> moments(task, sim.methods.reinforce(sim.advantages.group_mean()), [0.0, 0.0], samples=2).mean.round(6).tolist()
    [-0.125, 0.125]
    """
    policy = _fit_policy(task, policy)
    _check_method(method, policy, staleness)
    now, _ = _rows(parameters, policy, "parameters")
    then, _ = _rows(parameters if behavior is None else behavior, policy, "behavior")
    bound, remedy = f"[P] with P = {policy.size}", "ask for one replicate at a time"
    for field, rows in (("parameters", now), ("behavior", then)):
        checks.require(len(rows) == 1, field, tuple(rows.shape), bound, remedy)
    checks.integer("samples", samples, 1, "a group has at least one sample")
    checks.integer("prompt", prompt, 0, "name one of the task's prompts", task.prompts - 1)
    method.advantage.check(samples)
    outcomes = task.outcomes(torch.tensor([prompt]))
    remedy = "set noise=0; with noise the covariance is the policy's noise^2/N per coordinate"
    checks.require(outcomes.complete, "task", type(task).__name__, "one whose samples can be listed", remedy)
    remedy = "use fewer samples, arms or tokens, or oracle.limit for N -> infinity"
    total = checks.power("outcomes ** samples", outcomes.reward.shape[1], samples, BATCH_LIMIT, "batches", remedy)
    view = versions.current(policy.install(policy.prepare(then)))
    one, trajectory = _sampler(task, policy, 1, 1), np.full((1, 1, 1), prompt, dtype=np.int64)
    chance = enumerate_outcomes(one, NO_VERSION, 0, trajectory, view).mass[0, 0]
    first, second = torch.zeros(policy.size, dtype=torch.float64), torch.zeros((policy.size,) * 2, dtype=torch.float64)
    # One thread, as runs of the policy take: a second one costs small tensors more than it gives.
    with versions.threads(policy.threads):
        for start in range(0, total, BLOCK):
            numbers = np.arange(start, min(total, start + BLOCK))
            picks = np.stack(np.unravel_index(numbers, (outcomes.reward.shape[1],) * samples), 1)
            batch, probability = _every_batch(task, policy, then, outcomes, chance, torch.from_numpy(picks))
            batch.train_version = staleness
            weights = policy.prepare(now.expand(len(picks), -1))
            gradient = evaluate(method, task, policy, weights, batch).gradient.double()
            first += probability @ gradient
            second += (probability.unsqueeze(-1) * gradient).T @ gradient
    truth = task.exact(policy, now, prompt)[1][0]
    return Moments(first.numpy(), (second - torch.outer(first, first)).numpy(), truth.numpy())


def population(step: Step) -> Tensor:
    """Gradient `[R, P]` of the step's method on the population (N -> infinity) of its batch's behavior weights."""
    batch, policy = step.batch, step.policy
    remedy = "use drawing='late', which keeps weights"
    if batch.view is None:
        raise checks.InputError("diagnostics", "bias", "recorded with late drawing", remedy)
    if step.method.proximal and step.start is not None:
        # The opening weights of the batch are not kept, so later updates on it have no population value.
        return torch.full((batch.reward.shape[0], policy.size), math.nan, dtype=torch.float64)
    samples = step.drawn.trajectory.shape[2]
    sampler = Sampler(step.task, policy, samples, 0, np.arange(len(batch.realization)), batch.realization)
    everything = enumerate_outcomes(sampler, batch.version, batch.train_version, batch.trajectory, batch.view)
    return evaluate(step.method, step.task, policy, step.weights, everything).gradient


def batch_variance(step: Step) -> Tensor:
    """Exact total variance over batches `[R]` of a method's gradient, for one group at one behavior version."""
    batch = step.batch
    if math.isinf(batch.size):
        return torch.zeros(batch.reward.shape[0], dtype=torch.float64)
    bound, remedy = "recorded with one group at one version", "use fixed staleness and one group"
    if batch.view is None or not batch.view.single or batch.reward.shape[1] != 1:
        raise checks.InputError("diagnostics", "variance", bound, remedy)
    bound = "recorded with single numbers as the method's knobs"
    remedy = "leave it out, or give one value for all replicates"
    checks.require(next(knobs.bound(step.method), None) is None, "diagnostics", "variance", bound, remedy)
    if step.method.proximal and step.start is not None:
        return torch.full((batch.reward.shape[0],), math.nan, dtype=torch.float64)
    staleness = batch.train_version - int(batch.version.flat[0])
    prompt = int(batch.trajectory.flat[0]) // step.drawn.trajectory.shape[2] % step.task.prompts
    step.task.outcomes(torch.tensor([prompt]))  # refuses, by name, what cannot be enumerated
    now = step.weights["log_prob"].reshape(batch.reward.shape[0], -1)
    then = batch.view.weights["log_prob"][int(batch.view.slot.flat[0])].reshape(batch.reward.shape[0], -1)
    # Log-probabilities are logits of the same policy, so they serve as parameters.
    variances = [
        moments(step.task, step.method, a, b, int(batch.size), step.policy, prompt, staleness).variance
        for a, b in zip(now, then, strict=True)
    ]
    return torch.tensor(variances, dtype=torch.float64)


def _on_population(
    task: Task, method: Method, parameters: Any, behavior: Any, policy: Policy | None, staleness: int
) -> tuple[Step, bool]:
    policy = _fit_policy(task, policy)
    _check_method(method, policy, staleness)
    now, single = _rows(parameters, policy, "parameters")
    then, _ = _rows(parameters if behavior is None else behavior, policy, "behavior")
    R = max(now.shape[0], then.shape[0])
    shapes = (tuple(now.shape), tuple(then.shape))
    remedy = "give as many rows of both, or one of either"
    checks.require({len(now), len(then)} <= {1, R}, "parameters, behavior", shapes, "of the same R, or 1", remedy)
    now, then = now.expand(R, -1), then.expand(R, -1)
    trajectory = np.arange(task.prompts, dtype=np.int64).reshape(1, -1, 1)
    view = versions.current(policy.install(policy.prepare(then)))
    batch = enumerate_outcomes(_sampler(task, policy, 1, R), NO_VERSION, staleness, trajectory, view)
    return evaluate(method, task, policy, policy.prepare(now), batch), single and R == 1


def _every_batch(
    task: Task, policy: Policy, then: Tensor, outcomes: Outcomes, chance: Tensor, picks: Tensor
) -> tuple[Batch, Tensor]:
    """Batches of the selected outcomes `[R, N]`, and their probabilities `[R]`."""
    samples = picks.shape[1]
    sampler = _sampler(task, policy, samples, picks.shape[0])
    view = versions.current(policy.install(policy.prepare(then.expand(picks.shape[0], -1))))

    def pick(x: Tensor) -> Tensor:
        return x[0][picks].unsqueeze(1)

    ledger = {name: pick(value) for name, value in outcomes.per_token.items()}
    rows = Trajectories(pick(outcomes.state), pick(outcomes.action), pick(outcomes.mask), per_token=ledger)
    rows.outputs = sampler.record(view, rows)
    nothing = np.zeros((1, 1, samples), dtype=np.int64)
    batch = sampler.batch(rows, pick(outcomes.reward), samples, (NO_VERSION, 0, nothing, view))
    return batch, chance[picks].prod(-1)


def _sampler(task: Task, policy: Policy, samples: int, replicates: int) -> Sampler:
    return Sampler(task, policy, samples, 0, np.arange(replicates), np.zeros(replicates, dtype=np.int64))


def _fit_policy(task: Task, policy: Policy | None) -> Policy:
    """The given policy or the task's own; raises `InputError` if either is invalid or they do not fit."""
    checks.require(hasattr(task, "outcomes"), "task", task, "a task", "write sim.tasks.NAME(...)")
    if policy is not None:
        task.fit(policy)
    return task.policy() if policy is None else policy


def _check_method(method: Method, policy: Policy, staleness: int) -> None:
    """Check that the method is valid, its knobs are single numbers, and the policy has the outputs that it uses."""
    checks.require(isinstance(method, Method), "method", method, "a method", "write sim.methods.NAME(...)")
    remedy = "ask for one value of its knobs at a time"
    checks.require(not knobs.lengths(method), "method", method.name, "of single numbers", remedy)
    require_outputs(policy, method.outputs, "method", method.name)
    require_outputs(policy, method.advantage.outputs, "advantage", method.advantage.describe()["advantage"])
    checks.integer("staleness", staleness, 0, "give the versions between the draw and the training", checks.LARGEST)


def _rows(values: Any, policy: Policy, field: str) -> tuple[Tensor, bool]:
    """Parameters as float64 `[R, P]`, and whether a single `[P]` was given."""
    bound = f"[P] or [R, P] with P = {policy.size}"
    remedy = "give one number per parameter, tables flattened row by row"
    tensor = torch.as_tensor(checks.numbers(field, values, bound, remedy))
    single = tensor.ndim == 1
    rows = tensor.reshape(1, -1) if single else tensor
    checks.require(rows.ndim == 2 and rows.shape[1] == policy.size, field, tuple(tensor.shape), bound, remedy)
    checks.require(bool(torch.isfinite(rows).all()), field, "not finite", "finite", "leave diverged replicates out")
    return rows, single
