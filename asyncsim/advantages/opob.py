"""Plug-in optimal baseline: rewards weighted by the squared norm of the applied score vector (OPOB)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.advantages._baselines import SCOPES, location, others, pooled, spread
from asyncsim.base import checks
from asyncsim.learning.step import Step

_ROBUST = ("none", "median", "winsorized")


@dataclass(frozen=True)
class Opob(GroupBaseline):
    """A = r - sum omega^2 n^2 r / sum omega^2 n^2; see `opob`."""

    scope: str = "group"
    robust: str = "none"
    leave_one_out: bool = False
    standardize: bool = False

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


def opob(scope: str = "group", robust: str = "none", leave_one_out: bool = False, standardize: bool = False) -> Opob:
    """Off-policy optimal baseline, plug-in: b = sum_i omega_i^2 n_i^2 r_i / sum_i omega_i^2 n_i^2, A_i = r_i - b.

    omega_i n_i is the norm of the score vector that the loss really applies to sample i (weight included exactly once,
    divided by T_i where the aggregator does). The population value minimizes E[omega^2 n^2 (r - b)^2]; from one batch
    it is biased O(1/N), because sample i stands in its own baseline (`estimator/plug-in-baseline`). With
    `leave_one_out` it does not, and with the full ratio the gradient is unbiased. Options of the release, in our
    reading: b is a robust location of the same weighted rewards, and (r - b) is divided by their population standard
    deviation where that exceeds 1e-8.

    Arguments: `scope`, "group" or "step" (one b for all groups); `robust`, "none", "median" or "winsorized" (rewards
    limited to their weighted 5 % and 95 % quantiles before the mean); `leave_one_out`; `standardize`. Returns an
    advantage, `[R, G, N]` in units of reward (a pure number if standardized). Raises `InputError` for unknown names, a
    robust leave-one-out baseline, in a run with groups of one (scope "group"), or with a policy that has no score.
    Assumes a loss that is linear in A, so no clip. Source: 2602.17616.

    >>> opob().describe()
    {'advantage': 'opob', 'scope': 'group', 'robust': 'none', 'leave_one_out': False, 'standardize': False}
    """
    checks.one_of("scope", scope, SCOPES, "say over which samples one baseline is taken")
    checks.one_of("robust", robust, _ROBUST, "say how the weighted rewards are located")
    checks.boolean("leave_one_out", leave_one_out, "say whether a sample leaves its own baseline")
    checks.boolean("standardize", standardize, "say whether rewards are divided by their standard deviation")
    checks.require(
        robust == "none" or not leave_one_out,
        "robust",
        robust,
        "'none' with leave_one_out=True",
        "choose one of the two",
    )
    return Opob(scope, robust, leave_one_out, standardize)
