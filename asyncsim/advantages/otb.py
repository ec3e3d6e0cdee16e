"""Optimal token baseline: returns of a token position weighted by the score that has piled up before it (OTB)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.advantages._traces import mask_out, tokens, traced
from asyncsim.base import checks
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class Otb(GroupBaseline):
    """A_t = G_t - sum_i G_it Om_it / sum_i Om_it; see `otb`."""

    where: str = "inside"
    alone: str = "none"

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

    def targets(self, step: Step) -> Tensor:
        """Return from each token on, undiscounted, `[R, G, N, T]`."""
        return traced(tokens(step, None), 1.0, 1.0)


def _or_one(total: Tensor) -> Tensor:
    return torch.where(total > 0, total, torch.ones_like(total))


def otb(where: str = "inside", alone: str = "none") -> Otb:
    """A baseline for each token position: b_t = sum_i G_it Om_it / sum_i Om_it over the samples that got so far.

    G is the return from the token on; Om_it = sum_(k <= t) omega_ik^2 n_ik with n = 1 - 2 pi(y) + sum_v pi_v^2, the
    squared length of the token's score in its logits, and omega the weight that the loss applies. `where` "inside" the
    running sum is what the release computes, "outside", Om_it = omega_it^2 sum_(k <= t) n_ik, what its text says; they
    agree for weights of whole sequences. Where a single sample is still going its own return would be its baseline and
    its advantage 0: `alone` "none" puts 0 there, "own" does not. Biased O(1/N): sample i stands in its own baseline.
    Assumes that scores of different tokens are orthogonal. Scope: group.

    Arguments: `where`, "inside" or "outside"; `alone`, "none" or "own". Returns an advantage, `[R, G, N, T]` in units
    of reward. Raises `InputError` for unknown names, in a run with groups of one, or with a policy that has no
    `log_probs`. Source: 2602.07078.

    >>> otb().describe()
    {'advantage': 'otb', 'where': 'inside', 'alone': 'none'}
    """
    checks.one_of("where", where, ("inside", "outside"), "say where weights enter the running sum")
    checks.one_of("alone", alone, ("none", "own"), "say what the last sample of a group is compared with")
    return Otb(where, alone)
