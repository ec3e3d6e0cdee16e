"""V-trace actor-critic (IMPALA): truncated ratios in the returns and on the score."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import knob
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Ratio


def vtrace(
    cap: Any = 1.0,
    advantage: Advantage | None = None,
    critic: float = 0.5,
    entropy: float = 0.0,
    aggregator: str = "token_mean",
) -> Method:
    """Actor-critic under stale data: c_t = min(cap, r_t)(r_t + discount v_(t+1) - V_t), critic (V_t - v_t)^2.

    v are V-trace targets (`advantages.vtrace`), r_t in the weight is the token ratio to behavior. `cap` truncates the
    one on the score, the caps of the advantage those in the targets. With caps that never bind and an exact critic, c
    times the score has the gradient at each state as its mean. States count as often as the data visits them. At
    staleness 0 this is A2C with n-step returns.

    Arguments: `cap` > 0, a pure number (or one per replicate); `advantage` (default `vtrace()`); `critic` >= 0,
    coefficient of the value loss, per unit of reward; `entropy`, coefficient of an entropy bonus, reward per nat;
    `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` of weight
    `[R, G, N, T]`. Raises `InputError` for a cap of 0, unknown names, or coefficients that are not finite. Assumes a
    policy with the output `value`. Source: 1802.01561, section 4.2.

    >>> vtrace().outputs
    ('log_prob', 'value')
    """
    checked = knob("cap", cap, "use 1, or a large number for untruncated ratios", 0.0, open_low=True)
    bonus = checks.real("entropy", entropy, "give one coefficient for all replicates, 0 for no bonus")
    return Method(
        "vtrace",
        or_default(advantage, advantages.vtrace()),
        Ratio("token", checked),
        aggregator,
        constants={"entropy": bonus} if bonus else {},
        critic=critic,
    )
