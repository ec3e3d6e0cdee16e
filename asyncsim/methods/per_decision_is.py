"""Per-decision importance sampling: every reward has the ratio of the tokens up to it."""

from __future__ import annotations

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.methods._importance import PerDecision
from asyncsim.methods._method import Method


def per_decision_is(advantage: Advantage | None = None, aggregator: str = "sequence_sum") -> Method:
    """Importance sampling by decisions: c_t = sum_{k>=t} P_k rew_k, P_k = prod_{j<=k} r_j.

    J = E_mu[sum_k P_k rew_k], since what follows k does not change rew_k, and grad P_k = P_k sum_{t<=k} grad log pi_t:
    exact. The advantage gives the rewards, rew_k = A_k - A_{k+1} with A = 0 behind the end. So sums to go give the
    formula above. One advantage per sequence counts as paid at the end, which is `full_is()` with every baseline. Sums
    must be undiscounted, and a row must hold one episode. Log ratios of prefixes are limited to +-20 before they are
    exponentiated.

    Arguments: `advantage` (default `returns_to_go()`), one per sample or undiscounted sums of rewards per token, in
    units of reward; `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` whose
    weight is `[R, G, N, T]`. Raises `InputError` for an unknown aggregator, an advantage that is not one, or one with a
    discount or a trace below 1. Source: Precup, Sutton and Singh 2000, section 3.

    >>> per_decision_is().describe()["advantage"]
    'returns_to_go'
    """
    advantage = or_default(advantage, advantages.returns_to_go())
    for rate in ("discount", "trace"):
        # What has neither sums without one; what is no advantage at all `Method` refuses.
        value = getattr(advantage, rate, 1.0)
        checks.require(
            value == 1.0,
            f"{rate} of the advantage",
            value,
            "1",
            "differences of discounted sums are no rewards; use returns_to_go(1.0)",
        )
    return Method("per_decision_is", advantage, PerDecision(), aggregator)
