"""Optimal baselines: rewards are weighted by a sample's effect on the gradient."""

from dataclasses import dataclass

import torch
from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline, advantage
from asyncsim.advantages._traces import mask_out
from asyncsim.base import checks
from asyncsim.base.parts import choice, flag
from asyncsim.step import ratios
from asyncsim.step.step import Step

ALONE = flag("a sample leaves its own baseline")


@advantage("textbook (self-normalized importance sampling)")
def self_normalized(step: Step, leave_one_out: bool = ALONE) -> Tensor:
    """Self-normalized baseline: the ratio-weighted mean reward of the group.

    Self-normalized importance-sampling baseline: b = sum_i omega_i r_i / sum_i omega_i, A_i = r_i - b. Scope: group.
    omega_i is the weight that the loss applies. With the full ratio b estimates the value of the current policy (the
    group mean estimates that of the behavior policy); biased O(1/N). Without sample i in its own baseline, the gradient
    is unbiased with the full sequence ratio, and noisy where one weight dominates.
    """
    pool = _pooled(step, step.sample_weight)
    return step.reward - (_others(pool) if leave_one_out else _location(pool, "none"))


@advantage("2505.23585")
def opo(step: Step, leave_one_out: bool = ALONE) -> Tensor:
    """Length-weighted group mean (OPO): A = r - sum_j T_j r_j / sum_j T_j.

    Length-weighted mean reward of the group as baseline: b = sum_j T_j r_j / sum_j T_j, A_i = r_i - b. Scope: group.
    The length stands for the squared norm of a summed score, so this is `opob` on-policy for tokens whose scores have
    equal norms and do not add up. It ignores the ratio. Biased O(1/N) where sample i stands in its own baseline.
    """
    pool = _pooled(step, step.lengths.to(step.reward.dtype))
    return step.reward - (_others(pool) if leave_one_out else _location(pool, "none"))


@advantage(
    "2602.17616",
    unit="in units of reward (a pure number if standardized)",
    raises="a robust leave-one-out baseline, a run with groups of one (scope group), and a policy that has no score",
)
class opob(GroupBaseline):
    """OPOB, a plug-in optimal baseline: each reward is weighted by the squared norm of its applied score vector.

    Off-policy optimal baseline, plug-in: b = sum_i omega_i^2 n_i^2 r_i / sum_i omega_i^2 n_i^2, A_i = r_i - b. omega_i
    n_i is the norm of the score vector that the loss really applies to sample i (weight included exactly once, divided
    by T_i where the aggregator does). The population value minimizes E[omega^2 n^2 (r - b)^2]; from one batch it is
    biased O(1/N), because sample i stands in its own baseline (`estimator/plug-in-baseline`). With `leave_one_out` it
    does not, and with the full ratio the gradient is unbiased. Options of the release, in our reading: b is a robust
    location of the same weighted rewards, and (r - b) is divided by their population standard deviation where that
    exceeds 1e-8. Assumes a loss that is linear in A, so no clip.
    """

    scope: str = choice("group", "step", words="over which samples one baseline is taken")
    robust: str = choice("none", "median", "winsorized", words="how the weighted rewards are located")
    leave_one_out: bool = ALONE
    standardize: bool = flag("rewards are divided by their standard deviation")

    def __post_init__(self) -> None:
        fits = self.robust == "none" or not self.leave_one_out
        checks.require(fits, "robust", self.robust, "'none' with leave_one_out=True", "choose one of the two")

    def __call__(self, step: Step) -> Tensor:
        pool = _pooled(step, step.score_norm, self.scope)
        centered = pool.reward - (_others(pool) if self.leave_one_out else _location(pool, self.robust))
        if self.standardize:
            centered = centered / _spread(pool)
        return centered.reshape(step.reward.shape)

    def check(self, samples_per_group: float) -> None:
        """Refuse groups of one sample, unless the baseline is a mean over the full step."""
        if self.scope == "group":
            super().check(samples_per_group)


@advantage("2602.07078", shape="[R, G, N, T]", raises="a run with groups of one, and a policy that has no `log_probs`")
class otb(GroupBaseline):
    """OTB, optimal token baseline: at each position, a mean return weighted by the accumulated squared score.

    A baseline for each token position: b_t = sum_i G_it Om_it / sum_i Om_it over the samples that got so far. G is the
    return from the token on; Om_it = sum_(k <= t) omega_ik^2 n_ik with n = 1 - 2 pi(y) + sum_v pi_v^2, the squared
    length of the token's score in its logits, and omega the weight that the loss applies. `where` "inside" the running
    sum is what the release computes, "outside", Om_it = omega_it^2 sum_(k <= t) n_ik, what its text says; they agree
    for weights of whole sequences. Where a single sample is still going its own return would be its baseline and its
    advantage 0: `alone` "none" puts 0 there, "own" does not. Biased O(1/N): sample i stands in its own baseline.
    Assumes that scores of different tokens are orthogonal. Scope: group.
    """

    where: str = choice("inside", "outside", words="where weights enter the running sum")
    alone: str = choice("none", "own", words="what the last sample of a group is compared with")

    outputs = ("log_probs",)

    def __call__(self, step: Step) -> Tensor:
        batch = step.batch
        returns, present = self.targets(step), step.batch.mass.unsqueeze(-1) * batch.mask
        energy = present * self._energy(step, batch.mask)
        total, alive = (x.sum(2, keepdim=True) for x in (energy, present))
        # Where no score has a length, or every weight is 0, the plain mean is left.
        share = torch.where(total > 0, energy / _or_one(total), present / _or_one(alive))
        base = (share * returns).sum(2, keepdim=True)
        if self.alone == "none":
            peers = step.peers if isinstance(step.peers, (int, float)) else step.peers.unsqueeze(-1)
            base = torch.where(alive * peers < 1.5, torch.zeros_like(base), base)
        return mask_out(returns - base, batch.mask)

    def _energy(self, step: Step, mask: Tensor) -> Tensor:
        """Accumulated squared scores Om, as the loss weights them."""
        norms, weight = mask_out(step.row_norms, mask), step.applied**2
        if self.where == "inside":
            return mask_out(weight * norms, mask).cumsum(-1)
        return mask_out(weight * norms.cumsum(-1), mask)


def _or_one(total: Tensor) -> Tensor:
    return torch.where(total > 0, total, torch.ones_like(total))


_EDGES = (0.05, 0.95)
"""Weighted quantiles to which winsorizing limits rewards."""
_SMALLEST = 1e-8
"""A spread of rewards from which they are standardized."""


@dataclass(frozen=True)
class Pool:
    """Rewards, masses (sum 1) and weights of samples that share a baseline, `[R, G, N]` or `[R, 1, G N]`.

    `one`: mass of a single sample, `[R, G, N]`, 0 in a population.
    """

    reward: Tensor
    mass: Tensor
    weight: Tensor
    one: Tensor

    @property
    def relative(self) -> tuple[Tensor, Tensor]:
        """A reference reward `[R, G, 1]`, and all rewards minus it, so that equal rewards differ by exactly 0."""
        origin = self.reward.gather(-1, self.mass.argmax(-1, keepdim=True))
        return origin, self.reward - origin


def _pooled(step: Step, weight: Tensor, scope: str = "group") -> Pool:
    """Samples to compare with: the group, or the full step with equal weight per group."""
    shape = step.reward.shape
    mass = step.batch.mass.expand(shape)
    if scope == "group":
        return Pool(step.reward, mass, weight, torch.ones_like(mass) / step.peers)
    one, groups = torch.full_like(mass, 1.0 / step.size), step.groups
    if step.empty is not None:
        # Groups that the method drops, and samples without a reward, are no part of the step.
        mass = step.mass.expand(shape)
        one = one * (mass > 0)
    # Both masses in the same operations: what a single sample leaves of its own cell is exactly 0.
    parts = (step.reward, mass / groups, weight.expand(shape), one / groups)
    return Pool(*(x.reshape(shape[0], 1, -1) for x in parts))


def _location(pool: Pool, robust: str) -> Tensor:
    """Mean, median or winsorized mean of the rewards under mass times weight, `[R, G, 1]`."""
    heavy = pool.mass * pool.weight
    total = heavy.sum(-1, keepdim=True)
    chance = torch.where(total > 0, heavy / torch.where(total > 0, total, torch.ones_like(total)), pool.mass)
    origin, relative = pool.relative
    if robust == "median":
        return _quantile(pool.reward, chance, 0.5)
    if robust == "winsorized":
        low, high = (_quantile(relative, chance, edge) for edge in _EDGES)
        relative = torch.minimum(torch.maximum(relative, low), high)
    return origin + (chance * relative).sum(-1, keepdim=True)


def _others(pool: Pool) -> Tensor:
    """Weighted mean reward of all other samples, `[R, G, N]`; unweighted if their weights vanish.

    A cell of several equal samples loses one of them; a population loses nothing. Sums leave a sample out instead of
    subtracting it: one of weight 1e8 would take the digits of all others with it.
    """
    origin, relative = pool.relative
    remaining = (pool.mass - pool.one).clamp(min=0.0)

    def mean(weight: Tensor) -> tuple[Tensor, Tensor]:
        total = _without(pool.mass * weight) + remaining * weight
        moment = _without(pool.mass * weight * relative) + remaining * weight * relative
        return moment / torch.where(total > 0, total, torch.ones_like(total)), total

    plain, rest = mean(torch.ones_like(pool.reward))
    weighted, total = mean(pool.weight)
    # An only sample has no others: its own reward makes its advantage 0.
    fallback = torch.where(rest > 0, origin + plain, pool.reward)
    return torch.where(total > 0, origin + weighted, fallback)


def _spread(pool: Pool) -> Tensor:
    """Population standard deviation of the rewards, or 1 if it is at most 1e-8, `[R, G, 1]`."""
    _, relative = pool.relative
    centered = relative - (pool.mass * relative).sum(-1, keepdim=True)
    deviation = (pool.mass * centered**2).sum(-1, keepdim=True).sqrt()
    return torch.where(deviation > _SMALLEST, deviation, torch.ones_like(deviation))


def _without(values: Tensor) -> Tensor:
    """Sum over the last axis of all entries except the own one."""
    before, behind = (torch.nn.functional.pad(x.cumsum(-1)[..., :-1], (1, 0)) for x in (values, values.flip(-1)))
    return before + behind.flip(-1)


def _quantile(values: Tensor, chance: Tensor, level: float) -> Tensor:
    """Smallest value whose cumulative probability reaches `level`, `[R, G, 1]`."""
    found = ratios.quantile(values.flatten(0, 1), chance.flatten(0, 1), level)
    return found.reshape(*values.shape[:2], 1).to(values.dtype)
