"""Actor-critic on Retrace: the full ratio times a corrected action value minus the state's."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import knob
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Ratio


def retrace(
    cap: Any = None,
    advantage: Advantage | None = None,
    critic: float = 0.5,
    entropy: float = 0.0,
    aggregator: str = "token_mean",
) -> Method:
    """Actor on Retrace returns: c_t = r_t (Q_ret(s_t, a_t) - V(s_t)), critic (Q(s_t, a_t) - Q_ret)^2.

    Retrace evaluates a policy. The actor's ratio r_t corrects for data from another one. With exact Q the mean is then
    right at every state that the data visits. A `cap` truncates it, and leaves out what ACER adds for all actions.

    Arguments: `cap` > 0 of the ratio, a pure number (or one per replicate; default none); `advantage` (default
    `retrace()`); `critic` >= 0, coefficient of the loss of action values, per unit of reward; `entropy`, coefficient of
    an entropy bonus, reward per nat; `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns
    a `Method` of weight `[R, G, N, T]`. Raises `InputError` for a cap of 0, unknown names, or coefficients that are not
    finite. Assumes a policy with values of actions, as `policies.mlp(critic="action")`. Reconstruction: the paper
    evaluates and controls by values; the actor on top is ours. Source: 1606.02647, equation 3.

    >>> retrace().critic_output
    'action_value'
    """
    checked = None if cap is None else knob("cap", cap, "leave it out for the full ratio", 0.0, open_low=True)
    bonus = checks.real("entropy", entropy, "give one coefficient for all replicates, 0 for no bonus")
    return Method(
        "retrace",
        or_default(advantage, advantages.retrace()),
        Ratio("token", checked),
        aggregator,
        constants={"entropy": bonus} if bonus else {},
        critic=critic,
        critic_output="action_value",
        status="reconstruction",
    )
