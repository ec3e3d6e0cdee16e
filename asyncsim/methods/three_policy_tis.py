"""Truncated correction of staleness and mismatch times PPO's clip of the drift inside a batch."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import knob
from asyncsim.methods._importance import BoundedClip, TruncatedClip, lowest
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import band


def three_policy_tis(
    cap: Any = 2.0,
    low: Any = 0.2,
    high: Any = 0.2,
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
    floor: Any = None,
) -> Method:
    """Truncated importance sampling between three policies: c_t = min(h_t, cap) c_PPO(u_t).

    r = h u with h = pi_prox/mu (staleness and engine mismatch, constant over the updates on a batch) and u = pi/pi_prox
    (what those updates changed); c_PPO = u A where the clip of u to [1 - low, 1 + high] is open, 0 where it is closed.
    In the first update on a batch u = 1 and c = min(r, cap) A. h is detached and truncated: tokens above the cap keep
    their gradient. With `factors.token_mask(low, high, "h")` and a cap at its upper bound this is IcePop with PPO's
    clip.

    Arguments: `cap` >= 1, `low` in [0, 1], `high` >= 0, pure numbers (or one per replicate); `advantage` (default group
    mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant"; `floor` on h in [0, 1], a pure
    number (or one per replicate), None for none. Returns a `Method` whose weight is `[R, G, N, T]`. Raises `InputError`
    for numbers outside their range or an unknown aggregator. Source: slime and verl, documentation of truncated
    importance sampling; 1707.06347, equation 7, for c_PPO; slime (`tis_clip_low`), NeMo-RL and OpenRLHF for the floor.

    >>> three_policy_tis().proximal
    True
    """
    bounds = (knob("cap", cap, "a cap below 1 shrinks on-policy samples; use at least 1", 1.0), *band(low, high))
    weight = TruncatedClip(*bounds) if floor is None else BoundedClip(*bounds, lowest(floor))
    return Method(
        "three_policy_tis", or_default(advantage, advantages.group_mean()), weight, aggregator, anchor="proximal"
    )
