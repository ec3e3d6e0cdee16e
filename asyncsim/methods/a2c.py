"""Advantage actor-critic: no ratio, returns minus the critic's values."""

from __future__ import annotations

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.methods._method import Method
from asyncsim.methods._weights import NoRatio


def a2c(
    advantage: Advantage | None = None,
    critic: float = 0.5,
    entropy: float = 0.0,
    aggregator: str = "token_mean",
    at: str = "current",
) -> Method:
    """Actor-critic: ascend A_t log pi(a_t|s_t) + entropy H(s_t) - critic (V(s_t) - target_t)^2, whatever drew the data.

    A_t is the discounted return of the episode minus V at the draw, target_t that return. Where a future was cut off,
    the critic's value replaces it. With `at="behavior"` all three gradients are taken at the parameters that generated
    the data and applied to new ones, as asynchronous actors do (`a3c`).

    Arguments: `advantage` (default `gae(trace=1.0)`); `critic` >= 0, coefficient of the value loss, per unit of reward;
    `entropy`, coefficient of an entropy bonus, reward per nat; `aggregator`, "sequence_sum", "sequence_mean",
    "token_mean" or "constant"; `at`, "current" or "behavior". Returns a `Method` of weight 1, `[R, G, N, T]`. Raises
    `InputError` for unknown names, a negative critic or an entropy coefficient that is not a finite number. Assumes a
    policy with the output `value`. Source: 1602.01783.

    >>> a2c().outputs
    ('log_prob', 'value')
    """
    bonus = checks.real("entropy", entropy, "give one coefficient for all replicates, 0 for no bonus")
    return Method(
        "a2c",
        or_default(advantage, advantages.gae(trace=1.0)),
        NoRatio(),
        aggregator,
        at=at,
        constants={"entropy": bonus} if bonus else {},
        critic=critic,
    )
