"""Score function without ratio: c = A, data stale, scores current."""

from __future__ import annotations

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.methods._method import Method
from asyncsim.methods._weights import NoRatio


def reinforce(
    advantage: Advantage | None = None,
    aggregator: str = "sequence_sum",
    at: str = "current",
    entropy: float = 0.0,
    critic: float = 0.0,
) -> Method:
    """REINFORCE: g = sum_it a_it m_it A_i grad log pi(y_it), whatever policy generated the data.

    Staleness enters through the data only: with a group baseline on a one-context bandit this is delayed gradient
    ascent path by path (`staleness/stale-reinforce-is-delayed-ascent`).

    Arguments: `advantage` (default leave-one-out; `returns_to_go()` for rewards of single tokens); `aggregator` a,
    "sequence_sum", "sequence_mean", "token_mean" or "constant"; `at`, "current" or "behavior" (old scores applied to
    new parameters, as asynchronous actors do); `entropy`, coefficient of an entropy bonus, reward per nat; `critic` >=
    0, coefficient of a value loss (V - target)^2, per unit of reward. Returns a `Method` of weight 1. Raises
    `InputError` for unknown names or coefficients that are not finite. Source: Williams 1992; leave-one-out 2402.14740.

    >>> reinforce().describe()["advantage"]
    'leave_one_out'
    """
    bonus = checks.real("entropy", entropy, "give one coefficient for all replicates, 0 for no bonus")
    return Method(
        "reinforce",
        or_default(advantage, advantages.leave_one_out()),
        NoRatio(),
        aggregator,
        at=at,
        constants={"entropy": bonus} if bonus else {},
        critic=critic,
    )
