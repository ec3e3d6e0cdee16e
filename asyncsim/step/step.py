"""The record of one update: data, outputs under three policies, and the quantities that a method computes from them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.fusing import tape
from asyncsim.fusing.tape import surely
from asyncsim.step import ratios, versions
from asyncsim.step.batch import Batch, Outputs
from asyncsim.step.versions import View, Weights

OUTSIDE = "outside_nucleus"
"""Name in the trace of the share of tokens that the current policy cannot draw."""


@dataclass(frozen=True)
class Carried:
    """Values that all updates on the same batch share, such as proximal log-probs, with one row per sample.

    `outputs`: those of the proximal policy, by name; `weights`: its weights instead, if a batch is cut into
    minibatches. `advantages` and `targets` if they are computed once; `unfinished`: advantages are standardized in the
    minibatch. `counted` `[R, G, 1]` and `mass` `[R, G, N]`: groups and samples that the method kept.
    """

    outputs: Outputs
    advantages: Tensor | None = None
    targets: Tensor | None = None
    weights: Weights | None = None
    counted: Tensor | None = None
    mass: Tensor | None = None
    unfinished: bool = False


@dataclass(eq=False, repr=False)
class Step:
    """Record of one update, which advantages, weights, factors, penalties, links and metrics read.

    A run and `Method.weigh` build the same record; `given` makes one from tensors. `batch` is the data as drawn,
    including dropped groups; `start`, the values shared by the batch's updates (None: this is the first). `known`:
    outputs of the current policy, computed on demand if the pullback is elsewhere. `task`, `policy`, current `weights`
    and `view` (weights of the pullback) are those of a run. Given tensors have none of them; `age` is their staleness.

    `parameters` `[R, P]` are those before the update. `gradient` `[R, P]` is the ascent direction before the chain,
    `previous` that of the preceding update, or NaN. Every version holds `updates_per_version` updates; `elapsed` more
    were made since the trained version was published. Weights put numbers `[R]` for the trace into `statistics`;
    `measured` has metrics computed with the update. `whole`: the batch that a minibatch was cut from. `fresh` samples
    the current policy's mean return `[R]` (`drawing.Fresh`), None outside of a run.
    """

    method: Any
    batch: Batch
    known: Outputs | None
    start: Carried | None = None
    task: Any = None
    policy: Any = None
    weights: Weights = field(default_factory=dict)
    view: View | None = None
    names: tuple[str, ...] = ("log_prob",)
    age: Tensor | None = None
    update: int = 0
    updates_per_version: int = 1
    elapsed: int = 0
    parameters: Tensor = field(default_factory=lambda: torch.zeros(0))
    gradient: Tensor = field(default_factory=lambda: torch.zeros(0))
    previous: Tensor = field(default_factory=lambda: torch.zeros(0))
    statistics: dict[str, Tensor] = field(default_factory=dict)
    measured: dict[str, Tensor] = field(default_factory=dict)
    whole: Batch | None = None
    fresh: Any = None

    # Data, and the masses that are left of it.

    @property
    def drawn(self) -> Batch:
        """The batch as sampled, even if the step is on one of its minibatches."""
        return self.batch if self.whole is None else self.whole

    @property
    def mask(self) -> Tensor:
        """1 on generated tokens, `[R, G, N, T]`."""
        return self.batch.mask

    @property
    def size(self) -> float:
        """Number of samples that the mass of a group represents: N, or infinity for a population."""
        return self.batch.size

    @cached_property
    def peers(self) -> Any:
        """Number of samples in a group's baseline: `size`, or the number with a known reward, `[R, G, 1]`."""
        if self.batch.kept is None or math.isinf(self.size):
            return self.size
        return (self.batch.mass > 0).to(self.batch.mass.dtype).sum(-1, keepdim=True)

    @property
    def unbiased(self) -> Any:
        """Factor 1 - 1/n of a baseline from n samples; 1 if late rewards leave a single sample."""
        left = 1.0 - 1.0 / self.peers
        return left if isinstance(left, float) else torch.where(left > 0, left, torch.ones_like(left))

    @cached_property
    def lengths(self) -> Tensor:
        """Number of generated tokens of each sample, `[R, G, N]`."""
        return self.mask.sum(-1)

    @cached_property
    def counted(self) -> Tensor | None:
        """1 for groups that the step keeps, 0 for groups that the method drops, `[R, G, 1]`; None if it drops none."""
        if self.start is not None and self.start.weights is not None:
            return self.start.counted
        return self.method.counted(self.batch.mass, self.batch.reward)

    @cached_property
    def mass(self) -> Tensor:
        """Masses of the samples that the step keeps, `[R or 1, G, N]`: total 1 in a group, 0 in a dropped group."""
        if self.start is not None and self.start.mass is not None:
            return self.start.mass
        mass = self.batch.mass if self.batch.kept is None else self.batch.kept
        return mass if self.counted is None else mass * self.counted

    @cached_property
    def groups(self) -> Tensor | int:
        """Number of groups that the step keeps: G, or `[R, 1, 1]` if some are dropped; fractional with late rewards."""
        if self.batch.kept is not None:
            total = (self.mass.sum(-1, keepdim=True) / self.batch.mass.sum(-1, keepdim=True)).sum(1, keepdim=True)
            return torch.where(total > 0, total, torch.ones_like(total))
        return self.batch.groups if self.counted is None else self.counted.sum(1, keepdim=True).clamp(min=1.0)

    @cached_property
    def step_mass(self) -> Tensor:
        """Mass of each sample in the step, `[R or 1, G, N]`: total 1, or 0 if every group was dropped."""
        return self.mass / self.groups

    @cached_property
    def share(self) -> Tensor:
        """Mass of each token in the step, `[R, G, N, T]`; total 1 over all generated tokens of a replicate."""
        weight = self.mass.unsqueeze(-1) * self.mask
        total = weight.sum((1, 2, 3), keepdim=True)
        return weight.div_(torch.where(total > 0, total, torch.ones_like(total)))

    @cached_property
    def unit(self) -> Tensor | None:
        """Mass of one token in the step if entries count several samples, `[R, 1]`; 0 for a population."""
        if self.batch.single:
            return None
        return 1.0 / (self.size * (self.mass * self.lengths).double().sum((1, 2)).unsqueeze(-1))

    @cached_property
    def empty(self) -> Tensor | None:
        """Whether the step keeps no sample, bool `[R]`; None if nothing is dropped and no reward is late."""
        whole = self.counted is None and self.batch.kept is None
        return None if whole else ~(self.mass > 0).any(-1).any(-1)

    def missing(self, value: Tensor) -> Tensor:
        """A statistic `[R]` of the step's samples, replaced by NaN in replicates where the step has none."""
        if self.empty is None:
            return value
        return torch.where(self.empty, torch.full((), math.nan, dtype=torch.float64), value.double())

    @property
    def reported(self) -> dict[str, Tensor]:
        """Statistics `[R]` that the method's score weight records for the trace, NaN for an empty step."""
        return {name: self.missing(value) for name, value in self.statistics.items()}

    # Three policies, and ratios named by their anchor.

    @cached_property
    def current(self) -> Outputs:
        """Outputs of the current policy by name, `log_prob` `[R, G, N, T]`."""
        if self.known is not None:
            return self.known
        return self.policy.forward(versions.current(self.weights), self.batch, self.names).outputs

    @property
    def behavior(self) -> Outputs:
        """Outputs of the sampler by name, recorded token by token when the batch was sampled."""
        return self.batch.behavior

    @cached_property
    def proximal(self) -> Outputs:
        """Outputs of the proximal policy by name, at the weights at the start of training on the batch."""
        if self.start is None or self.start.weights is self.weights:
            return self.current
        if self.start.weights is None:
            return self.start.outputs
        return self.policy.forward(versions.current(self.start.weights), self.batch, self.names).outputs

    @property
    def anchor(self) -> str:
        """Policy to which anchored ratios refer: "behavior" or "proximal"."""
        return self.method.anchor

    @cached_property
    def log_ratio(self) -> Tensor:
        """Log ratio l = log pi - log mu of each token to the behavior policy, `[R, G, N, T]`, 0 where masked."""
        return self._between(self.current["log_prob"], self.batch.behavior["log_prob"])

    @cached_property
    def drift(self) -> Tensor:
        """Log ratio log u = log pi - log pi_prox of each token, `[R, G, N, T]`: change since the batch's first update.

        A token outside the nucleus of pi_prox has no ratio: 0, even if pi can draw it again.
        """
        now, then = self.current["log_prob"], self.proximal["log_prob"]
        if self.policy is None or not self.policy.truncates:
            return self._between(now, then)
        gap = ratios.log_ratio(now, then, self.mask)
        return torch.where(gap == math.inf, torch.zeros_like(gap), gap)

    @cached_property
    def behavior_log_ratio(self) -> Tensor:
        """Log ratio log h = log pi_prox - log mu of each token, `[R, G, N, T]`: staleness and mismatch at the start."""
        return self._between(self.proximal["log_prob"], self.behavior["log_prob"])

    @property
    def anchored(self) -> Tensor:
        """Log ratio of the current policy to the method's anchor policy for each token, `[R, G, N, T]`."""
        return self.log_ratio if self.anchor == "behavior" else self.drift

    @cached_property
    def sequence_log_ratio(self) -> Tensor:
        """Log ratios of sequences to the behavior policy, `[R, G, N]`."""
        return self.log_ratio.sum(-1)

    @cached_property
    def staleness_log_ratio(self) -> Tensor:
        """Token log ratios of the current policy to the behavior weights, in the trainer's numerics, `[R, G, N, T]`."""
        return ratios.log_ratio(self.current["log_prob"], self._scored, self.mask)

    @cached_property
    def mismatch_log_ratio(self) -> Tensor:
        """Token log ratios of the trainer's to the sampler's numerics, both at the behavior weights, `[R, G, N, T]`."""
        return ratios.log_ratio(self._scored, self.behavior["log_prob"], self.mask)

    @property
    def _scored(self) -> Tensor:
        scored = self.behavior.get("scored_log_prob")
        if scored is None:
            return self.behavior["log_prob"]
        # What the trainer could not draw at the behavior weights is mismatch alone: staleness has no part in it.
        return torch.where(scored == -math.inf, self.current["log_prob"], scored)

    @property
    def outside(self) -> Tensor:
        """Share of generated tokens, by mass, to which the current policy gives probability 0, `[R]`."""
        return self.token_mean((self.current["log_prob"] == -math.inf).to(self.mask.dtype))

    def _between(self, above: Tensor, below: Tensor) -> Tensor:
        gap = above - below
        # A single token was possible where it was drawn; of several, some may be outside both nuclei.
        if self.batch.full and self.mask.shape[3] == 1:
            return gap
        # A finite sum has finite terms: then a product masks them, at a fifth of the price. A GPU would have to wait.
        if surely(lambda: gap.device.type == "cpu" and math.isfinite(gap.sum())):
            return gap.mul_(self.mask).add_(0.0)
        return ratios.log_ratio(above, below, self.mask)

    def recorded(self, name: str) -> Tensor:
        """Output of the behavior policy by name, as recorded while sampling, or computed from kept weights."""
        if name in self.behavior:
            return self.behavior[name]
        if self.policy is None or self.batch.view is None:
            more = ", or policy.distributions=True" if hasattr(self.policy, "distributions") else ""
            remedy = "use drawing='late', which keeps weights" + more
            raise checks.InputError(f"behavior {name}", None, "recorded or computable", remedy)
        return self.policy.forward(self.batch.view, self.batch, (name,)).outputs[name]

    # Tokens to sequences and steps.

    def sequence(self, log_ratio: Tensor) -> Tensor:
        """Sum of token log ratios over each sample, `[R, G, N, 1]`: the log ratio of the sequence."""
        return log_ratio if log_ratio.shape[-1] == 1 else log_ratio.sum(-1, keepdim=True)

    def geometric(self, log_ratio: Tensor) -> Tensor:
        """Mean of token log ratios over each sample, `[R, G, N, 1]`: the log of the ratios' geometric mean."""
        return self.sequence(log_ratio) / self.lengths.clamp(min=1.0).unsqueeze(-1)

    def token_mean(self, values: Tensor) -> Tensor:
        """Mean of token values `[R, G, N, T]` over the step's generated tokens, `[R]`; 0 if there are none."""
        total = (self.mass * self.lengths).sum((1, 2))
        sums = (values * self.mask).sum(-1)
        if not surely(lambda: sums.device.type == "cpu" and math.isfinite(sums.sum())):
            # What stands on masked tokens may be infinite.
            sums = torch.where(self.mask > 0, values, torch.zeros_like(self.mask)).sum(-1)
        return (self.mass * sums).sum((1, 2)) / torch.where(total > 0, total, torch.ones_like(total))

    def mean(self, values: Tensor) -> Tensor:
        """Mean of sample values `[R, G, N]` over the step's samples, weighted by mass, `[R]`."""
        return _weighted(self.step_mass, values)

    def batch_mean(self, values: Tensor, batch: Batch | None = None) -> Tensor:
        """Mean of sample values `[R, G, N]` over all samples of a batch, dropped groups included, `[R]`."""
        return _weighted((batch or self.batch).share, values)

    # Staleness.

    @cached_property
    def staleness(self) -> Tensor:
        """Staleness of every token in versions, `[R, G, N, T or 1]`; NaN if the version is unknown."""
        if self.age is not None:
            return self.age
        if self.policy is None:
            raise checks.InputError("staleness", None, "known for this method", "hand over the versions of the tokens")
        return self.batch.staleness

    @property
    def update_staleness(self) -> Tensor:
        """Maximum staleness in updates of the tokens that the step keeps, float64 `[R]`; 0 if it keeps no group."""
        return self.batch.update_staleness(self.updates_per_version, self.elapsed, self.mass)

    # Rewards as advantages see them.

    @cached_property
    def reward(self) -> Tensor:
        """Reward of each sample, less the task's penalty, `[R, G, N]`; `batch.reward` is without the penalty."""
        if self.task is None:
            return self.batch.reward
        return self.task.reward(self.batch, self.current)

    @property
    def token_reward(self) -> Tensor:
        """Reward of every token, less the task's penalty, `[R, G, N, T]`."""
        if self.task is None:
            fits = self.batch.view is not None or self.batch.token_reward is not None
            bound = "an advantage that needs no rewards of tokens"
            remedy = "hand over advantages: only one reward for each sequence is known here"
            checks.require(fits, "advantage", self.method.advantage.describe()["advantage"], bound, remedy)
            return self.batch.rewards
        return self.task.token_rewards(self.batch, self.current)

    def group_mean(self) -> Tensor:
        """Mass-weighted mean reward of each group, `[R, G, 1]`."""
        return (self.batch.mass * self.reward).sum(-1, keepdim=True)

    def step_mean(self) -> Tensor:
        """Mean of the group means over the groups that the step keeps, `[R, 1, 1]`; by samples if rewards are late."""
        if self.batch.kept is not None:
            return self.mean(self.reward).reshape(-1, 1, 1)
        means = self.group_mean()
        if self.counted is None:
            return means.mean(1, keepdim=True)
        return (self.counted * means).sum(1, keepdim=True) / self.counted.sum(1, keepdim=True).clamp(min=1.0)

    # What the method makes of it.

    @cached_property
    def applied(self) -> Tensor:
        """Score weight of each token in the gradient at advantage 1, with masks, `[R, G, N, T or 1]`."""
        return self.method.applied(self)

    @cached_property
    def sample_weight(self) -> Tensor:
        """Weight of each sample in the loss, `[R, G, N]`: mean of its tokens' weights, 1 on-policy."""
        weight = self.applied
        return weight[..., 0] if weight.shape[-1] == 1 else (weight * self.mask).sum(-1) / self.lengths.clamp(min=1.0)

    @cached_property
    def score_norm(self) -> Tensor:
        """Squared norm of each sample's score vector in the loss, weights included, `[R, G, N]`."""
        weight = self.mask * self.applied
        if self.method.aggregator == "sequence_mean":
            weight = weight / self.lengths.clamp(min=1.0).unsqueeze(-1)
        policy = self._scores()
        view = versions.current(self.weights) if self.view is None else self.view
        return policy.score_norm(view, self.batch, weight)

    @cached_property
    def row_norms(self) -> Tensor:
        """Squared norm of each token's score in the space of logits, 1 - 2 pi(y) + sum_v pi(v)^2, `[R, G, N, T]`."""
        view = versions.current(self.weights) if self.policy is not None else None
        prob = self._scores().forward(view, self.batch, ("log_probs",)).outputs["log_probs"].exp()
        taken = prob.gather(-1, self.batch.action.unsqueeze(-1))[..., 0]
        return 1.0 - 2.0 * taken + (prob * prob).sum(-1)

    @cached_property
    def greedy_reward(self) -> Tensor:
        """Expected reward of the current policy's most likely response to each sample's prompt, `[R, G, N]`."""
        greedy: Any = getattr(self.task, "greedy", None)
        bound = "one that needs no greedy response"
        remedy = "use a task of tables that pays at the end, or advantages.leave_one_out()"
        checks.require(greedy is not None, "advantage", self.method.advantage.describe()["advantage"], bound, remedy)
        return greedy(self.policy, versions.current(self.weights), self.batch)

    def _scores(self) -> Any:
        """The policy; raises `InputError` if the step is of tensors without one."""
        fits = self.policy is not None
        bound = "an advantage that needs no score vectors"
        remedy = "hand over advantages, or choose another advantage of the method: only log-probs are known here"
        checks.require(fits, "advantage", self.method.advantage.describe()["advantage"], bound, remedy)
        return self.policy

    @cached_property
    def advantages(self) -> Tensor:
        """Advantages, `[R, G, N]`, or `[R, G, N, T]` if they differ between tokens."""
        if self.start is not None and self.start.advantages is not None:
            known = self.start.advantages
            return self.method.advantage.finished(self, known) if self.start.unfinished else known
        return self.method.advantage(self)

    @cached_property
    def targets(self) -> Tensor:
        """Regression target of the critic at each token, `[R, G, N, T]`."""
        if self.start is not None and self.start.targets is not None:
            return self.start.targets
        return self.method.advantage.targets(self)

    @property
    def cotangents(self) -> Outputs:
        """Cotangents of the policy outputs by name, one detached number per element, `[R, G, N, T]` or with actions."""
        return self.method.cotangents(self)

    @property
    def expected(self) -> Tensor:
        """Expected return of the current policy `[R]`, from fresh samples if the task has no cheap formula."""
        if getattr(self.task, "solved", False):
            return self.task.expected(self.policy, self.parameters, self.weights)
        tape.refuse("samples of its own")
        return self.fresh(self)

    @cached_property
    def exact(self) -> tuple[Tensor, Tensor]:
        """Exact expected return `[R]` and its gradient `[R, P]` at the current parameters."""
        return self.task.exact(self.policy, self.parameters)

    def carried(self) -> Carried:
        """Values that the first update on a batch passes to later updates on the same batch."""
        if self.start is not None:
            return self.start
        method, baseline = self.method, self.method.advantage
        lasting = method.scored and baseline.once and not self.task.moving
        stable = method.critic and not baseline.reads
        advantages, targets = self.advantages if lasting else None, self.targets if stable else None
        return Carried(self.current, advantages, targets)


def carried(before: Step | None) -> Carried | None:
    """Values that the preceding update on the same batch passes on; None if no update precedes."""
    return None if before is None else before.carried()


def _weighted(mass: Tensor, values: Tensor) -> Tensor:
    # A cell without mass may hold an infinite value.
    return torch.where(mass > 0, mass * values, torch.zeros((), dtype=values.dtype)).sum((1, 2))


def given(
    method: Any,
    current: Outputs,
    behavior: Outputs,
    mask: Tensor,
    *,
    reward: Tensor | None = None,
    proximal: Mapping[str, Tensor] | None = None,
    staleness: Tensor | None = None,
    mass: Tensor | None = None,
    size: float | None = None,
) -> Step:
    """Step made from a caller's tensors `[R, G, N, T]`; `reward` `[R, G, N]` and `mass`, by default 1/N."""
    R, G, N, T = mask.shape
    batch = Batch(
        action=torch.zeros((), dtype=torch.int64).expand(R, G, N, T),
        state=torch.zeros((), dtype=torch.int64).expand(R, G, N, 1),
        mask=mask,
        reward=torch.zeros((R, G, N), dtype=mask.dtype, device=mask.device) if reward is None else reward,
        mass=torch.full((1, G, N), 1.0 / N, dtype=mask.dtype, device=mask.device) if mass is None else mass,
        size=N if size is None else size,
        behavior=behavior,
        view=None,
        version=np.full((1, G, N, 1), -1, dtype=np.int32),
        train_version=0,
        realization=np.zeros(R, dtype=np.int64),
        trajectory=np.arange(G * N).reshape(1, G, N),
        # What stands on masked tokens, or outside both nuclei, may be anything.
        _full=False,
    )
    return Step(method, batch, current, None if proximal is None else Carried(dict(proximal)), age=staleness)
