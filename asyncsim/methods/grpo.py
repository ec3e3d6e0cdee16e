"""GRPO: group-standardized rewards, clipped token ratio, sequence mean, no KL."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages, checks
from asyncsim.advantages._advantage import Advantage
from asyncsim.knobs import knob
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Clip


def grpo(
    low: Any = 0.2,
    high: Any = 0.2,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "sequence_mean",
    critic: float = 0.0,
    entropy: float = 0.0,
) -> Method:
    """Group relative policy optimization: A_i = (r_i - mean) / (std + 1e-6), c as in `ppo_clip`, averaged per sequence.

    Population standard deviation over the group; no KL term (`kl_coef` of a task puts a penalty into the reward).

    Arguments: `low` in [0, 1] and `high` >= 0, pure numbers (or one per replicate), the clip is [1 - low, 1 + high];
    `anchor` of the ratio, "behavior" or "proximal"; `advantage` (default group standard deviation); `aggregator`,
    "sequence_sum", "sequence_mean", "token_mean" or "constant"; `critic` >= 0, coefficient of a value loss (V -
    target)^2, per unit of reward, and `entropy`, coefficient of an entropy bonus, reward per nat: neither belongs to
    the paper's. Returns a `Method`. Raises `InputError` for bounds outside their range, unknown names or coefficients
    that are not finite, and in a run with groups of one. Source: 2402.03300, equation 3 without the KL term.

    >>> grpo().describe()["anchor"]
    'behavior'
    """
    clip = Clip(
        knob("low", low, "the lower bound is 1 - low", 0.0, 1.0), knob("high", high, "the upper bound is 1 + high", 0.0)
    )
    bonus = checks.real("entropy", entropy, "give one coefficient for all replicates, 0 for no bonus")
    return Method(
        "grpo",
        advantage or advantages.group_std(),
        clip,
        aggregator,
        anchor=anchor,
        constants={"entropy": bonus} if bonus else {},
        critic=critic,
    )
