"""GRPO: group-standardized rewards, clipped token ratio, sequence mean, KL on request."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages, penalties
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import knob
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import band
from asyncsim.methods._weights import Clip


def grpo(
    low: Any = 0.2,
    high: Any = 0.2,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "sequence_mean",
    critic: float = 0.0,
    entropy: float = 0.0,
    kl: Any = 0.0,
) -> Method:
    """Group relative policy optimization: A_i = (r_i - mean) / (std + 1e-6), c as in `ppo_clip`, averaged per sequence.

    Population standard deviation over the group. With `kl` the paper's KL term is descended: it adds
    -kl (1 - pi_ref/pi) to the weight of every token, clipped or not (`penalties.k3`). Without (the default), no KL
    term; `kl_coef` of a task puts a penalty into the reward.

    Arguments: `low` in [0, 1] and `high` >= 0, pure numbers (or one per replicate), the clip is [1 - low, 1 + high];
    `anchor` of the ratio, "behavior" or "proximal"; `advantage` (default group standard deviation); `aggregator`,
    "sequence_sum", "sequence_mean", "token_mean" or "constant"; `critic` >= 0, coefficient of a value loss (V -
    target)^2, per unit of reward, and `entropy`, coefficient of an entropy bonus, reward per nat: neither belongs to
    the paper's; `kl` >= 0, reward per nat (or one per replicate), which needs a policy with a reference. Returns a
    `Method`. Raises `InputError` for bounds outside their range, unknown names or coefficients that are not finite, and
    in a run with groups of one. Source: 2402.03300, equations 3 and 4.

    >>> grpo().describe()["anchor"]
    'behavior'
    """
    bonus = checks.real("entropy", entropy, "give one coefficient for all replicates, 0 for no bonus")
    price = knob("kl", kl, "give the price of one nat in units of reward, 0 for none", 0.0)
    return Method(
        "grpo",
        or_default(advantage, advantages.group_std()),
        Clip(*band(low, high)),
        aggregator,
        anchor=anchor,
        constants={"entropy": bonus} if bonus else {},
        critic=critic,
        penalties=() if price == 0.0 else (penalties.k3(price),),
    )
