"""ACER: a truncated ratio on the sampled action, and for all actions what the truncation took away."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import knob
from asyncsim.methods._corrections import Corrected
from asyncsim.methods._method import Method


def acer(
    cap: Any = 10.0,
    advantage: Advantage | None = None,
    critic: float = 0.5,
    entropy: float = 0.0,
    aggregator: str = "token_mean",
) -> Method:
    """Truncation with bias correction: c_t = min(cap, r_t)(Q_ret - V), e_v = pi_v [1 - cap/r_v]_+ (Q_v - V).

    E_mu[min(cap, r) A grad log pi] + E_pi[[1 - cap/r]_+ A grad log pi] = E_pi[A grad log pi] at every state, since
    min(cap, r) + [r - cap]_+ = r: with exact Q the mean does not depend on the cap, which exchanges variance of the
    first term for dependence on the critic in the second. Cap 0 is the sum over all actions. On policy the second term
    is 0 for cap >= 1. The critic is trained on Retrace, critic (Q(s_t, a_t) - Q_ret)^2.

    Arguments: `cap` >= 0, a pure number (or one per replicate; 10 is known from second hand only); `advantage` (default
    `retrace()`); `critic` >= 0, coefficient of the loss of action values, per unit of reward; `entropy`, coefficient of
    an entropy bonus, reward per nat; `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns
    a `Method` of weight `[R, G, N, T]` with a term for all actions, `[R, G, N, T, A]`. Raises `InputError` for a
    negative cap, unknown names, or coefficients that are not finite. Assumes a policy with values of actions, and rows
    of the behavior policy (late drawing). Reconstruction: without the trust region around an average policy. Source:
    1611.01224, equation 7.

    >>> acer().weight.outputs
    ('log_probs', 'action_values')
    """
    checked = knob("cap", cap, "use 10, or 0 for the sum over all actions", 0.0)
    bonus = checks.real("entropy", entropy, "give one coefficient for all replicates, 0 for no bonus")
    return Method(
        "acer",
        or_default(advantage, advantages.retrace()),
        Corrected(checked),
        aggregator,
        constants={"entropy": bonus} if bonus else {},
        critic=critic,
        critic_output="action_value",
        status="reconstruction",
    )
