"""Baselines that weigh rewards by what a sample does to the gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline, advantage
from asyncsim.advantages._baselines import location, others, pooled, spread
from asyncsim.advantages._traces import mask_out
from asyncsim.base import checks
from asyncsim.base.parts import choice, flag
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
    pool = pooled(step, step.sample_weight)
    return step.reward - (others(pool) if leave_one_out else location(pool, "none"))


@advantage("2505.23585")
def opo(step: Step, leave_one_out: bool = ALONE) -> Tensor:
    """Length-weighted group mean (OPO): A = r - sum_j T_j r_j / sum_j T_j.

    Length-weighted mean reward of the group as baseline: b = sum_j T_j r_j / sum_j T_j, A_i = r_i - b. Scope: group.
    The length stands for the squared norm of a summed score, so this is `opob` on-policy for tokens whose scores have
    equal norms and do not add up. It ignores the ratio. Biased O(1/N) where sample i stands in its own baseline.
    """
    pool = pooled(step, step.lengths.to(step.reward.dtype))
    return step.reward - (others(pool) if leave_one_out else location(pool, "none"))


@advantage(
    "2602.17616",
    unit="in units of reward (a pure number if standardized)",
    raises="a robust leave-one-out baseline, a run with groups of one (scope group), and a policy that has no score",
)
class opob(GroupBaseline):
    """Plug-in optimal baseline: rewards weighted by the squared norm of the applied score vector (OPOB).

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
        checks.require(
            self.robust == "none" or not self.leave_one_out,
            "robust",
            self.robust,
            "'none' with leave_one_out=True",
            "choose one of the two",
        )

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        pool = pooled(step, step.score_norm, self.scope)
        centered = pool.reward - (others(pool) if self.leave_one_out else location(pool, self.robust))
        if self.standardize:
            centered = centered / spread(pool)
        return centered.reshape(step.reward.shape)

    def check(self, samples_per_group: float) -> None:
        """A group of one has nothing to compare with, unless the whole step is compared."""
        if self.scope == "group":
            super().check(samples_per_group)


@advantage("2602.07078", shape="[R, G, N, T]", raises="a run with groups of one, and a policy that has no `log_probs`")
class otb(GroupBaseline):
    """Optimal token baseline: returns of a token position weighted by the score that has piled up before it (OTB).

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
        """Advantages `[R, G, N, T]`, 0 on masked tokens."""
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
        """Om: the running sum of squared scores as the loss weights them."""
        norms, weight = mask_out(step.row_norms, mask), step.applied**2
        if self.where == "inside":
            return mask_out(weight * norms, mask).cumsum(-1)
        return mask_out(weight * norms.cumsum(-1), mask)


def _or_one(total: Tensor) -> Tensor:
    return torch.where(total > 0, total, torch.ones_like(total))
