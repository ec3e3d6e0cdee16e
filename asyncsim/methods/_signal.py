"""From a method and a batch to cotangents and the ascent direction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from asyncsim import checks, ratios, versions
from asyncsim.advantages._advantage import Samples
from asyncsim.batch import Batch, Outputs
from asyncsim.likelihoods import Likelihoods
from asyncsim.methods import _parts
from asyncsim.methods._method import AGGREGATORS, Method
from asyncsim.policies._policy import Policy
from asyncsim.tasks._task import Task
from asyncsim.versions import View, Weights, tensor


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
    def likelihoods(self) -> Likelihoods:
        """What weights, penalties and advantages may read."""
        batch = self.batch
        plain = batch.full and batch.action.shape[3] == 1
        mass, groups = self.kept
        # The record is bound to outputs, not to the signal: a cycle would keep it until a collection.
        outputs, first, policy = self.outputs, self.first, self.policy
        return Likelihoods(
            outputs,
            batch.behavior,
            lambda: outputs if first is None else first.outputs,
            batch.mask,
            mass,
            batch.size,
            batch.reward,
            self.method.anchor,
            lambda: token_age(batch),
            lambda name: behavior_output(policy, batch, name),
            plain,
            groups,
            batch.ended,
        )

    @property
    def log_ratio(self) -> Tensor:
        """Token log ratios of the current policy to behavior, `[R, G, N, T]`."""
        return self.likelihoods.log_ratio

    @property
    def anchored(self) -> Tensor:
        """Token log ratios of the current policy to the method's anchor, `[R, G, N, T]`."""
        return self.likelihoods.anchored

    @cached_property
    def sequence_log_ratio(self) -> Tensor:
        """Sequence log ratios to behavior, `[R, G, N]`."""
        return self.log_ratio.sum(-1)

    @property
    def statistics(self) -> dict[str, Tensor]:
        """Numbers `[R]` that the weight has left for the trace; a method without scores has none, an empty step NaN."""
        if not self.method.scored:
            return {}
        return {name: self.missing(value) for name, value in self.likelihoods.statistics.items()}

    @cached_property
    def staleness_log_ratio(self) -> Tensor:
        """Token log ratios of the current policy to the behavior weights in the trainer's numerics, `[R, G, N, T]`."""
        return ratios.log_ratio(self.outputs["log_prob"], self._scored, self.batch.mask)

    @cached_property
    def mismatch_log_ratio(self) -> Tensor:
        """Token log ratios of the trainer's numerics to the sampler's, both at the behavior weights, `[R, G, N, T]`."""
        return ratios.log_ratio(self._scored, self.batch.behavior["log_prob"], self.batch.mask)

    @property
    def _scored(self) -> Tensor:
        return self.batch.behavior.get("scored_log_prob", self.batch.behavior["log_prob"])

    @cached_property
    def kept(self) -> tuple[Tensor, Tensor | int]:
        """Masses `[R or 1, G, N]` and number of the groups that are left in the step: what metrics and links count."""
        return kept_groups(self.method, self.batch.mass, self.batch.reward)

    @cached_property
    def step_mass(self) -> Tensor:
        """Mass of each sample in the whole step, `[R or 1, G, N]`: total 1, or 0 where every group was dropped."""
        mass, groups = self.kept
        return mass / groups

    @cached_property
    def empty(self) -> Tensor | None:
        """Whether the method has dropped every group, bool `[R]`; None for a method that drops none."""
        return None if not self.method.drop_equal else ~(self.kept[0] > 0).any(-1).any(-1)

    def missing(self, value: Tensor) -> Tensor:
        """A statistic `[R]` of the step's samples, NaN where the step has none."""
        if self.empty is None:
            return value
        return torch.where(self.empty, torch.full((), math.nan, dtype=torch.float64), value.double())

    @cached_property
    def applied(self) -> Tensor:
        """Weight that the loss applies, `[R, G, N, T or 1]`."""
        return applied(self.method, self.likelihoods)

    @property
    def samples(self) -> Samples:
        """What the advantage sees; not kept, since it refers to the signal, which would then outlive its update."""
        return Samples(
            self.task.reward(self.batch, self.outputs),
            self.batch.mass,
            self.batch.size,
            lambda: self.likelihoods.of_samples(self.applied),
            self._score_norm,
            self.batch,
            lambda: self.task.token_rewards(self.batch, self.outputs),
            lambda: self.likelihoods,
            self._row_norms,
            lambda: self.applied,
            counted_groups(self.method, self.batch.mass, self.batch.reward),
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
        if self.first is not None and not getattr(self.method.advantage, "reads", ()):
            return self.first.targets
        return self.method.advantage.targets(self.samples)

    @property
    def cotangents(self) -> Outputs:
        """One detached number per element of each output that the method uses, `[R, G, N, T]` or `[R, G, N, T, A]`."""
        method, mask = self.method, self.batch.mask
        if not method.scored and not method.critic:
            share = AGGREGATORS[method.aggregator](self.batch) * mask
            return {name: value * share for name, value in method.constants.items()}
        found, share = weighed(method, self.likelihoods, self.advantages, self.batch.full)
        if method.critic:
            found[method.critic_output] = 2.0 * method.critic * (self.targets - self._said) * share
        return found

    @property
    def _said(self) -> Tensor:
        """What the critic says at the parameters of the pullback, `[R, G, N, T]`."""
        name = self.method.critic_output
        if self.method.at == "current":
            return self.outputs[name]
        said = self.likelihoods.recorded(name)
        return torch.where(self.batch.mask > 0, said, torch.zeros_like(said))

    def _score_norm(self) -> Tensor:
        """Squared norm of the score vector that the loss applies to each sample, `[R, G, N]`."""
        share = self.batch.mask * self.applied
        if self.method.aggregator == "sequence_mean":
            share = share / self.batch.lengths.clamp(min=1.0).unsqueeze(-1)
        return self.policy.score_norm(self.view, self.batch, share)

    def _row_norms(self) -> Tensor:
        """Squared norm of each token's score in the space of logits, 1 - 2 pi(y) + sum_v pi(v)^2, `[R, G, N, T]`."""
        rows = self.policy.forward(versions.current(self.weights), self.batch, ("log_probs",)).outputs["log_probs"]
        prob = rows.exp()
        taken = prob.gather(-1, self.batch.action.unsqueeze(-1))[..., 0]
        return 1.0 - 2.0 * taken + (prob * prob).sum(-1)


def kept_groups(method: Method, mass: Tensor, reward: Tensor) -> tuple[Tensor, Tensor | int]:
    """Masses of the groups that the method keeps, and how many those are: G, or `[R, 1, 1]` where some were dropped."""
    keep = counted_groups(method, mass, reward)
    if keep is None:
        return mass, mass.shape[1]
    return mass * keep, keep.sum(1, keepdim=True).clamp(min=1.0)


def counted_groups(method: Method, mass: Tensor, reward: Tensor) -> Tensor | None:
    """1 for groups that the method keeps, 0 for those that it drops, `[R, G, 1]`; None where it keeps all."""
    if not method.drop_equal:
        return None
    present = mass.expand(reward.shape) > 0
    some = torch.where(present, reward, torch.full((), -math.inf, dtype=reward.dtype)).amax(-1, keepdim=True)
    other = torch.where(present, reward, torch.full((), math.inf, dtype=reward.dtype)).amin(-1, keepdim=True)
    return (some > other).to(mass.dtype)


def token_age(batch: Batch) -> Tensor:
    """Staleness of every token in versions, `[R, G, N, T or 1]`; NaN where its version is unknown (negative)."""
    gap = np.where(batch.version < 0, np.nan, batch.train_version - batch.version.astype(np.float64))
    return tensor(gap[batch.realization])


def behavior_output(policy: Policy, batch: Batch, name: str) -> Tensor:
    """An output of the behavior weights that was not recorded, where they were kept."""
    if batch.view is None:
        raise checks.InputError(
            f"behavior {name}", None, "recorded or computable", "use drawing='late', which keeps weights"
        )
    return policy.forward(batch.view, batch, (name,)).outputs[name]


def weighed(method: Method, seen: Likelihoods, advantages: Tensor, full: bool) -> tuple[Outputs, Tensor]:
    """Cotangents of a scored method without those of its critic, and the share of each token that they contain."""
    mask = seen.mask
    share = AGGREGATORS[method.aggregator](seen) * mask
    found: Outputs = {name: value * share for name, value in method.constants.items()}
    if not method.scored:
        return found, share
    advantages = advantages if advantages.ndim == 4 else advantages.unsqueeze(-1)
    weight, spread = method.weight.score_weight(seen, advantages), method.weight.spread(seen, advantages)
    if method.factors:
        factor = product(method, seen, advantages)
        weight = masked(weight, factor)
        spread = None if spread is None else masked(spread, factor.unsqueeze(-1))
        kept = ((factor != 0) & (mask > 0)).to(share.dtype)
        seen.statistics["kept_tokens"] = (seen.share * kept).sum((1, 2, 3))
        seen.statistics["kept_sequences"] = (seen.step_mass * kept.amax(-1)).sum((1, 2))
    for penalty in method.penalties:
        added, wide = penalty.score_weight(seen), penalty.spread(seen)
        weight = weight if added is None else weight + added
        spread = wide if spread is None else spread if wide is None else spread + wide
    # Weights of masked tokens may be infinite; 0 * inf must not reach the sum.
    found["log_prob"] = weight * share if full else torch.where(mask > 0, weight * share, torch.zeros_like(share))
    if spread is not None:
        found["log_probs"] = torch.where(mask.unsqueeze(-1) > 0, spread * share.unsqueeze(-1), torch.zeros_like(spread))
    return found, share


def product(method: Method, seen: Likelihoods, advantages: Tensor) -> Tensor:
    """All factors of a method, `[R, G, N, T or 1]`; one that is 0 stays 0 whatever the others say."""
    found = method.factors[0].factor(seen, advantages)
    for part in method.factors[1:]:
        factor = part.factor(seen, advantages)
        nothing = torch.zeros((), dtype=found.dtype, device=found.device)
        found = torch.where((found == 0) | (factor == 0), nothing, found * factor)
    return found


def masked(weight: Tensor, factor: Tensor) -> Tensor:
    """weight factor, but 0 where the factor is 0: what is masked out may be infinite or NaN."""
    return torch.where(factor == 0, torch.zeros((), dtype=weight.dtype, device=weight.device), weight * factor)


def factored(method: Method, seen: Likelihoods, advantages: Tensor, weight: Tensor) -> Tensor:
    """A weight times all factors of the method, 0 where one of them is 0, `[R, G, N, T or 1]`."""
    return masked(weight, product(method, seen, advantages)) if method.factors else weight


def applied(method: Method, seen: Likelihoods) -> Tensor:
    """Weight that the loss applies to a score whatever its advantage, masks included, `[R, G, N, T or 1]`."""
    return factored(method, seen, torch.ones_like(seen.mask[..., :1]), method.weight.applied(seen))


def evaluate(
    method: Method,
    task: Task,
    policy: Policy,
    weights: Weights,
    batch: Batch,
    first: Signal | None = None,
    also: tuple[str, ...] = (),
    micro_batches: int = 1,
) -> tuple[Signal, Tensor]:
    """The signal of a method on a batch and its ascent direction `[R, P]`.

    `weights` are the current ones; `first` is the signal of the first update on the batch (None: this is the first);
    `also` names further outputs to compute; `micro_batches`, in how many passes the policy does it.
    """
    view = {"current": versions.current(weights), "behavior": batch.view}[method.at]
    if view is None:
        raise checks.InputError(
            "at", method.at, "current with early drawing", "use drawing='late', which keeps weights"
        )
    names = (*method.outputs, *(name for name in also if name not in method.outputs))
    here = method.at == "current"
    forward = _parts.forward(policy, view, batch, names if here else (), micro_batches)
    signal = Signal(method, task, policy, batch, weights, view, names, forward.outputs if here else None, first)
    return signal, forward.pullback(signal.cotangents)
