"""Importance sampling with the ratio of the prefix: c_t = P_t A_t."""

from __future__ import annotations

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.methods._importance import PrefixRatio
from asyncsim.methods._method import Method


def prefix_is(advantage: Advantage | None = None, aggregator: str = "sequence_sum") -> Method:
    """Importance sampling of states and actions, not of continuations: c_t = P_t A_t, P_t = prod_{k<=t} r_k.

    grad J = E_pi[sum_t A^pi_t grad log pi_t] and E_pi[f(y_1..y_t)] = E_mu[P_t f(y_1..y_t)], so it is exact where A_t is
    what the CURRENT policy would earn from there (a critic of pi). With returns that mu's continuation earned it is
    biased: for these use `per_decision_is`, or the sequence ratio. The log ratio of a prefix is limited to +-20 before
    it is exponentiated.

    Arguments: `advantage` (default leave-one-out), one per sample or per token, in units of reward; `aggregator`,
    "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` whose weight is `[R, G, N, T]`, a
    pure number. Raises `InputError` for an unknown aggregator or an advantage that is not one. Source: Precup, Sutton
    and Singh 2000 for products over prefixes.

    >>> prefix_is().describe()["level"]
    'prefix'
    """
    return Method("prefix_is", or_default(advantage, advantages.leave_one_out()), PrefixRatio(), aggregator)
