"""Rollouts: from a schedule's request to a batch, at the behavior version of every token.

The same trajectory comes out whether it is drawn late (when it is trained, from kept weights) or early (when its
version is current), because every draw is keyed by replicate, trajectory and token.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import checks, rng
from asyncsim.batch import Batch, Draws, Outputs
from asyncsim.policies._policy import Policy
from asyncsim.tasks._task import Outcomes, Task
from asyncsim.versions import Store, View, Weights, current


@dataclass
class Trajectories:
    """What was generated: `state`, `action`, `mask`, and the first output at the behavior weights, `[R, G, N, T]`."""

    state: Tensor
    action: Tensor
    mask: Tensor
    outputs: Outputs = field(default_factory=dict)
    index: Tensor | None = None
    full: bool | None = None


@dataclass(frozen=True)
class Sampler:
    """Everything that sampling needs and that does not change during a block of replicates.

    `replicates` and `realization`: int `[R]`; `samples`: N; `seed` of the run.
    """

    task: Task
    policy: Policy
    samples: int
    seed: int
    replicates: np.ndarray
    realization: np.ndarray

    @cached_property
    def outcomes(self) -> Outcomes:
        """Outcomes of every prompt, listed once for all batches."""
        return self.task.outcomes(torch.arange(self.task.prompts))

    def draws(self, trajectory: np.ndarray) -> Draws:
        """Keyed randomness of trajectories int64 `[M, G, N]`."""
        return Draws(rng.Stream(self.seed, "rollout"), self.replicates, self.realization, trajectory)

    def prompts(self, trajectory: np.ndarray) -> Tensor:
        """Prompt of every sample, int64 `[R, G, N]`: group g asks prompt g mod prompts."""
        if self.task.prompts == 1:
            return torch.zeros((len(self.realization), *trajectory.shape[1:]), dtype=torch.int64)
        return torch.from_numpy((trajectory // self.samples % self.task.prompts)[self.realization])

    def record(self, view: View, trajectories: Trajectories) -> Outputs:
        """The policy's first output (`log_prob`) at the weights that generated the data."""
        nothing = np.zeros((1, 1, 1), dtype=np.int64)
        unrewarded = trajectories.mask[..., 0]
        batch = self._batch(trajectories, unrewarded, unrewarded, 0, nothing[..., None], 0, nothing, view)
        outputs = self.policy.forward(view, batch, self.policy.outputs[:1]).outputs
        trajectories.index = batch.index
        return outputs

    def batch(
        self,
        found: Trajectories,
        reward: Tensor,
        size: float,
        version: np.ndarray,
        train_version: int,
        trajectory: np.ndarray,
        view: View | None,
        mass: Tensor | None = None,
    ) -> Batch:
        """Trajectories as a batch; equal masses unless given; refuses NaN rewards."""
        # The sum is finite iff every reward is (rewards near the largest double aside, which are refused as well).
        if not math.isfinite(reward.sum().item()):
            r, g, n = (int(x[0]) for x in torch.where(~(reward.abs() < 1e300)))
            raise checks.InputError(
                f"reward[replicate {self.replicates[r]}, group {g}, sample {n}]",
                reward[r, g, n].item(),
                "finite",
                "mend the task's reward, or map failures to a number",
            )
        if mass is None:
            mass = torch.full((1, *reward.shape[1:]), 1.0 / reward.shape[2], dtype=reward.dtype)
        return self._batch(found, reward, mass, size, version, train_version, trajectory, view)

    def _batch(
        self,
        found: Trajectories,
        reward: Tensor,
        mass: Tensor,
        size: float,
        version: np.ndarray,
        train_version: int,
        trajectory: np.ndarray,
        view: View | None,
    ) -> Batch:
        return Batch(
            found.action,
            found.state,
            found.mask,
            reward,
            mass,
            size,
            found.outputs,
            view,
            version,
            train_version,
            self.realization,
            trajectory,
            found.index,
            found.full,
        )


def generate(
    sampler: Sampler,
    view: View,
    draws: Draws,
    prompt: Tensor,
    before: Trajectories | None = None,
    where: Tensor | None = None,
) -> Trajectories:
    """Draw every token in order, each at the weights that `view` gives it.

    With `before` and `where` (bool `[R, G, N, T]`) only those tokens are drawn; the others keep what was drawn before.
    """
    task, horizon = sampler.task, sampler.task.horizon
    state, alive = task.begin(prompt), torch.ones(prompt.shape, dtype=torch.float64)
    states, actions, masks = [], [], []
    for t in range(horizon):
        action = sampler.policy.act(view.token(t), state, draws, t)
        if before is not None and where is not None:
            chosen = where[..., t].reshape(where.shape[:3] + (1,) * (action.ndim - 3))
            action = torch.where(chosen, action, before.action[:, :, :, t])
        states.append(state)
        actions.append(action)
        masks.append(alive)
        if t + 1 < horizon:
            state, on = task.step(state, action, t)
            alive = alive * on
    # The first token is always generated, so one-token trajectories have nothing to mask.
    found = Trajectories(_stack(states), _stack(actions), _stack(masks), full=True if horizon == 1 else None)
    found.outputs = sampler.record(view, found)
    if before is not None and where is not None:
        found.outputs = {k: torch.where(where, v, before.outputs[k]) for k, v in found.outputs.items()}
    return found


def monte_carlo(sampler: Sampler, version: np.ndarray, train_version: int, trajectory: np.ndarray, view: View) -> Batch:
    """N samples of each group, each with mass 1/N."""
    draws = sampler.draws(trajectory)
    found = generate(sampler, view, draws, sampler.prompts(trajectory))
    reward = sampler.task.earn(found.state, found.action, found.mask, draws)
    return sampler.batch(found, reward, sampler.samples, version, train_version, trajectory, view)


def counts(sampler: Sampler, version: np.ndarray, train_version: int, trajectory: np.ndarray, view: View) -> Batch:
    """Outcomes of one-token tasks with mass count/N: the Monte Carlo samples of the same keys, sorted into cells."""
    task = sampler.task
    checks.require(
        task.horizon == 1,
        "sampling",
        "counts",
        "monte_carlo or enumerate for several tokens",
        "use sampling='monte_carlo'",
    )
    drawn = monte_carlo(sampler, version, train_version, trajectory, view)
    checks.require(
        not drawn.action.is_floating_point(),
        "sampling",
        "counts",
        "monte_carlo for continuous actions",
        "use sampling='monte_carlo'",
    )
    version, view = _by_group(version, view)
    found, reward, _ = _enumerated(sampler, trajectory)
    found.outputs = sampler.record(view, found)
    # Outcomes are ordered by action, then by reward: a random reward has two, of which the first is success.
    per_action = reward.shape[2] // int(found.action.max() + 1)
    first = drawn.action[..., 0] * per_action
    outcome = first + (drawn.reward != torch.gather(reward, 2, first)).long()
    number = torch.zeros_like(reward).scatter_add_(2, outcome, torch.ones_like(drawn.reward))
    return sampler.batch(
        found, reward, sampler.samples, version, train_version, trajectory, view, number / sampler.samples
    )


def enumerate_outcomes(
    sampler: Sampler, version: np.ndarray, train_version: int, trajectory: np.ndarray, view: View
) -> Batch:
    """Every outcome with its probability under the behavior weights: the population, N -> infinity."""
    version, view = _by_group(version, view)
    found, reward, chance = _enumerated(sampler, trajectory)
    found.outputs = sampler.record(view, found)
    # A policy without log-probs has one outcome, which is certain.
    log_prob = found.outputs.get("log_prob", torch.zeros_like(found.mask))
    log_prob = torch.where(found.mask > 0, log_prob, torch.zeros((), dtype=log_prob.dtype))
    mass = chance * torch.exp(log_prob.sum(-1))
    return sampler.batch(found, reward, math.inf, version, train_version, trajectory, view, mass)


SAMPLING: dict[str, Callable[[Sampler, np.ndarray, int, np.ndarray, View], Batch]] = {
    "monte_carlo": monte_carlo,
    "counts": counts,
    "enumerate": enumerate_outcomes,
}


def _stack(tokens: list[Tensor]) -> Tensor:
    """Tokens `[R, G, N, ...]` along a new axis 3; one token without a copy."""
    return torch.stack(tokens, 3) if len(tokens) > 1 else tokens[0].unsqueeze(3)


def _enumerated(sampler: Sampler, trajectory: np.ndarray) -> tuple[Trajectories, Tensor, Tensor]:
    """Outcomes of each group's prompt as trajectories `[R, G, O, T]`, their rewards and chances `[R, G, O]`."""
    prompt = sampler.prompts(trajectory)[..., 0]
    R, G = prompt.shape
    known = sampler.outcomes

    def spread(x: Tensor) -> Tensor:
        return x[prompt.reshape(-1)].reshape(R, G, *x.shape[1:])

    found = Trajectories(spread(known.state), spread(known.action), spread(known.mask))
    return found, spread(known.reward), spread(known.chance)


def _by_group(version: np.ndarray, view: View) -> tuple[np.ndarray, View]:
    """Versions and view with one sample axis; counting and enumeration need one version per group and token."""
    checks.require(
        bool((version == version[:, :, :1]).all()),
        "version",
        "different inside a group",
        "one per group for counts and enumeration",
        "use sampling='monte_carlo', or a schedule with per='group'",
    )
    slot = view.slot if view.single else view.slot[:, :, :1]
    return version[:, :, :1], View(view.weights, slot, view.realization)


class Late:
    """Draw each batch when it is trained, from weights kept since they were published."""

    def __init__(self, sampler: Sampler, feed: Any, sampling: str) -> None:
        self.sampler, self.feed, self.sample = sampler, feed, SAMPLING[sampling]
        self.store = Store(sampler.realization)

    def publish(self, version: int, weights: Weights) -> None:
        """Keep the weights of a version."""
        self.store.put(version, weights)

    def take(self, batch: int, train_version: int) -> Batch:
        """The data of a batch."""
        version, trajectory = self.feed.take(batch, self.lengths)
        found = self.sample(self.sampler, version, train_version, trajectory, self.store.view(version))
        self.store.retire(self.feed.retired(batch))
        return found

    def lengths(self, realization: np.ndarray, trajectory: np.ndarray, token_version: np.ndarray) -> np.ndarray:
        """Tokens, float64 [k], of coupled trajectories [k] whose tokens have versions [k, T] as far as known."""
        R = len(self.sampler.replicates)
        column = np.zeros(len(realization), dtype=np.int64)
        for r in np.unique(realization):
            here = realization == r
            column[here] = np.arange(here.sum())
        ids = np.zeros((R, 1, int(column.max()) + 1), dtype=np.int64)
        versions = np.full((*ids.shape, token_version.shape[1]), int(token_version.max()), dtype=np.int32)
        ids[realization, 0, column] = trajectory
        versions[realization, 0, column] = token_version
        found = generate(self.sampler, self.store.view(versions), self.sampler.draws(ids), self.sampler.prompts(ids))
        return found.mask.sum(-1).numpy()[realization, 0, column]


class Early:
    """Draw each token when its version is current and keep no weights: for weights too big to keep."""

    def __init__(self, sampler: Sampler, feed: Any, sampling: str) -> None:
        checks.one_of("sampling", sampling, ("monte_carlo",), "early drawing works on samples; use drawing='late'")
        self.sampler, self.feed = sampler, feed
        self.pending: dict[int, Trajectories] = {}
        schedule = feed.schedule
        self.due: dict[int, list[int]] = {}
        for batch in range(schedule.batches):
            for version in np.unique(schedule.version[:, batch]):
                self.due.setdefault(int(version), []).append(batch)

    def publish(self, version: int, weights: Weights) -> None:
        """Draw every token of this version, in every later batch."""
        view, schedule = current(weights), self.feed.schedule
        for batch in self.due.pop(version, []):
            ids = np.asarray(schedule.trajectory[:, batch])
            tokens = schedule.version[:, batch][self.sampler.realization] == version
            shape = (*tokens.shape[:3], self.sampler.task.horizon)
            where = torch.from_numpy(np.broadcast_to(tokens, shape).copy())
            prompt, draws = self.sampler.prompts(ids), self.sampler.draws(ids)
            before = self.pending.get(batch) or generate(self.sampler, view, draws, prompt)
            self.pending[batch] = generate(self.sampler, view, draws, prompt, before, where)

    def take(self, batch: int, train_version: int) -> Batch:
        """The data of a batch, all of it drawn before."""
        version, trajectory = self.feed.take(batch, None)
        found = self.pending.pop(batch)
        reward = self.sampler.task.earn(found.state, found.action, found.mask, self.sampler.draws(trajectory))
        return self.sampler.batch(found, reward, self.sampler.samples, version, train_version, trajectory, None)


DRAWING = {"late": Late, "early": Early}
