"""From a method and a batch to cotangents and the ascent direction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from asyncsim import checks, ratios, versions
from asyncsim.advantages._advantage import Samples
from asyncsim.batch import Batch, Outputs
from asyncsim.methods._method import AGGREGATORS, Method
from asyncsim.policies._policy import Policy
from asyncsim.tasks._task import Task
from asyncsim.versions import View, Weights


@dataclass
class Signal:
    """What a method makes of a batch: cotangents for the pullback, and on the way to them the ratio and advantages.

    Everything is computed from `outputs` of the current `weights`; only the pullback itself may be at other parameters,
    those of `view` (`at="behavior"`). `first` is the signal of the first update on the batch, None for that one.
    """

    method: Method
    task: Task
    policy: Policy
    batch: Batch
    weights: Weights
    view: View
    names: tuple[str, ...]
    known: Outputs | None
    first: Signal | None

    @cached_property
    def outputs(self) -> Outputs:
        """Outputs of the current policy, each `[R, G, N, T]`; computed when asked for if the pullback is elsewhere."""
        if self.known is not None:
            return self.known
        return self.policy.forward(versions.current(self.weights), self.batch, self.names).outputs

    @property
    def proximal(self) -> Outputs:
        """Outputs at the start of the batch's training."""
        return self.outputs if self.first is None else self.first.outputs

    @cached_property
    def log_ratio(self) -> Tensor:
        """Token log ratios of the current policy to behavior, `[R, G, N, T]`."""
        return self._log_ratio(self.batch.behavior["log_prob"])

    @cached_property
    def anchored(self) -> Tensor:
        """Token log ratios of the current policy to the method's anchor, `[R, G, N, T]`."""
        return self.log_ratio if self.method.anchor == "behavior" else self._log_ratio(self.proximal["log_prob"])

    @cached_property
    def sequence_log_ratio(self) -> Tensor:
        """Sequence log ratios to behavior, `[R, G, N]`."""
        return self.log_ratio.sum(-1)

    @cached_property
    def staleness_log_ratio(self) -> Tensor:
        """Token log ratios of the current policy to the behavior weights in the trainer's numerics, `[R, G, N, T]`."""
        return self._log_ratio(self._scored)

    @cached_property
    def mismatch_log_ratio(self) -> Tensor:
        """Token log ratios of the trainer's numerics to the sampler's, both at the behavior weights, `[R, G, N, T]`."""
        return ratios.log_ratio(self._scored, self.batch.behavior["log_prob"], self.batch.mask)

    @property
    def _scored(self) -> Tensor:
        return self.batch.behavior.get("scored_log_prob", self.batch.behavior["log_prob"])

    @cached_property
    def step_mass(self) -> Tensor:
        """Mass of each sample in the whole step, total 1, `[R, G, N]`."""
        return self.batch.mass / self.batch.mass.shape[1]

    @cached_property
    def applied(self) -> Tensor:
        """Weight that the loss applies, `[R, G, N, T or 1]`."""
        return self.method.weight.ratio(self.anchored)

    @property
    def samples(self) -> Samples:
        """What the advantage sees; not kept, since it refers to the signal, which would then outlive its update."""
        return Samples(
            self.task.reward(self.batch, self.outputs),
            self.batch.mass,
            self.batch.size,
            self._sample_weight,
            self._score_norm,
            self.batch,
            lambda: self.task.token_rewards(self.batch, self.outputs),
        )

    @cached_property
    def advantages(self) -> Tensor:
        """Advantages, `[R, G, N]`, or `[R, G, N, T]` where they differ from token to token."""
        once = getattr(self.method.advantage, "once", False) and not self.task.moving
        if once and self.first is not None:
            return self.first.advantages
        return self.method.advantage(self.samples)

    @cached_property
    def targets(self) -> Tensor:
        """What the critic should say at each token, `[R, G, N, T]`."""
        if self.first is not None:
            return self.first.targets
        return self.method.advantage.targets(self.samples)

    @property
    def cotangents(self) -> Outputs:
        """One detached number per element of each output that the method uses, `[R, G, N, T]`."""
        share = AGGREGATORS[self.method.aggregator](self.batch) * self.batch.mask
        found = {name: value * share for name, value in self.method.constants.items()}
        if self.method.scored:
            advantages = self.advantages if self.advantages.ndim == 4 else self.advantages.unsqueeze(-1)
            weight = self.method.weight.score_weight(self.applied, advantages)
            # Weights of masked tokens may be infinite; 0 * inf must not reach the sum.
            found["log_prob"] = weight * share
            if not self.batch.full:
                nothing = torch.zeros((), dtype=share.dtype)
                found["log_prob"] = torch.where(self.batch.mask > 0, found["log_prob"], nothing)
        if self.method.critic:
            found["value"] = 2.0 * self.method.critic * (self.targets - self.outputs["value"]) * share
        return found

    def _log_ratio(self, anchor: Tensor) -> Tensor:
        log_prob = self.outputs["log_prob"]
        # A single token was possible where it was drawn; of several, some may be outside both nuclei.
        plain = self.batch.full and log_prob.shape[-1] == 1
        return log_prob - anchor if plain else ratios.log_ratio(log_prob, anchor, self.batch.mask)

    def _sample_weight(self) -> Tensor:
        """One weight per sample: that of the sequence, or the mean of its tokens' weights."""
        applied = self.applied
        if applied.shape[-1] == 1:
            return applied[..., 0]
        return (applied * self.batch.mask).sum(-1) / self.batch.lengths.clamp(min=1.0)

    def _score_norm(self) -> Tensor:
        """Squared norm of the score vector that the loss applies to each sample, `[R, G, N]`."""
        share = self.batch.mask * self.applied
        if self.method.aggregator == "sequence_mean":
            share = share / self.batch.lengths.clamp(min=1.0).unsqueeze(-1)
        return self.policy.score_norm(self.view, self.batch, share)


def evaluate(
    method: Method,
    task: Task,
    policy: Policy,
    weights: Weights,
    batch: Batch,
    first: Signal | None = None,
    also: tuple[str, ...] = (),
) -> tuple[Signal, Tensor]:
    """The signal of a method on a batch and its ascent direction `[R, P]`.

    `weights` are the current ones; `first` is the signal of the first update on the batch (None: this is the first);
    `also` names further outputs to compute.
    """
    view = {"current": versions.current(weights), "behavior": batch.view}[method.at]
    if view is None:
        raise checks.InputError(
            "at", method.at, "current with early drawing", "use drawing='late', which keeps weights"
        )
    names = (*method.outputs, *(name for name in also if name not in method.outputs))
    here = method.at == "current"
    forward = policy.forward(view, batch, names if here else ())
    signal = Signal(method, task, policy, batch, weights, view, names, forward.outputs if here else None, first)
    return signal, forward.pullback(signal.cotangents)
